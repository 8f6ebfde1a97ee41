//! The life of a host: it drains, it stops, and it finds everything again.

use std::fs;

use jackfield_tests::client::Request;
use jackfield_tests::host::Home;
use jackfield_tests::soon;
use jackfield_tests::world::{KEY, VALUE, World, messages, report};
use serde_json::{Value, json};

use crate::{BINARY, world};

#[tokio::test]
async fn a_sigterm_lets_what_is_in_flight_end_and_nothing_begin() {
    let mut world = world().ready().await;
    world.anthropic.take_over();
    let mut client = world.client().await;
    let mut idle = world.client().await;
    client.send(&messages().bearer(&world.token)).await;
    let mut exchange = world.anthropic.next().await;
    exchange.begin_events().await.expect("the host reads");
    client.head().await.expect("a head");
    exchange
        .send_chunk("data: one\n\n")
        .await
        .expect("the host reads");
    assert_eq!(
        client.body_bytes(11).await.expect("an event"),
        "data: one\n\n"
    );

    let address = world.address();
    let mut host = world.take_host();
    host.terminate();
    // A connection that says nothing is closed, which shows that the host has
    // begun to drain.
    idle.gone().await;
    soon("the listener closes", async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    exchange
        .send_chunk("data: two\n\n")
        .await
        .expect("the host reads");
    assert_eq!(
        client.body_bytes(11).await.expect("an event"),
        "data: two\n\n"
    );
    exchange.send_chunk("").await.expect("the host reads");
    assert_eq!(client.body().await.expect("a clean end"), "");
    assert_eq!(host.ended().await.code(), Some(0));
}

#[tokio::test]
async fn what_does_not_end_in_its_time_is_cut_and_seen_as_broken() {
    let mut world = world()
        .tables("[limits]\ndrain_seconds = 1\n")
        .ready()
        .await;
    world.anthropic.take_over();
    let mut client = world.client().await;
    client.send(&messages().bearer(&world.token)).await;
    let mut exchange = world.anthropic.next().await;
    exchange.begin_events().await.expect("the host reads");
    client.head().await.expect("a head");
    let mut host = world.take_host();
    host.terminate();
    assert!(client.body().await.is_err(), "a clean end");
    assert_eq!(host.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_restarted_host_finds_everything_again() {
    let mut world = world().ready().await;
    let body = json!({
        "capabilities": [
            {"name": "inference", "broker": "lobby", "scope": ["agent"]},
            {"name": "egress", "broker": "lobby", "scope": ["OPENAI"]},
        ],
        "listing": {"title": "A box", "line": "that is listed"},
    });
    let request = jackfield_tests::world::declaration(&body.to_string()).bearer(&world.token);
    assert_eq!(world.send(&request).await.status, 200);
    let other = world.add_box("box-b").await;
    world.command(&["box", "pause", "box-b"], "").await.ok();
    let old = world.add_box("box-c").await;
    let new = world.rotate_box("box-c").await;
    let before = lists(&world).await;

    // Once in order, once as after a crash.
    for in_order in [true, false] {
        let host = world.take_host();
        match in_order {
            true => host.stop().await,
            false => host.crash().await,
        }
        world.serve_as_approved().await;
        assert_eq!(lists(&world).await, before);
        assert_eq!(
            world.send(&messages().bearer(&world.token)).await.status,
            200
        );
        assert_eq!(world.anthropic.last().fields.all("x-api-key"), [KEY]);
        let request = Request::get("/egress/OPENAI/x").bearer(&world.token);
        assert_eq!(world.send(&request).await.status, 200);
        assert_eq!(
            world.echo.last().fields.all("authorization"),
            [format!("Bearer {VALUE}")]
        );
        world.declare(&other, &[("inference", &["agent"])]).await;
        world
            .refuses(&messages().bearer(&other), 403, &["paused"])
            .await;
        world.declare(&other, &[]).await;
        world
            .refuses(&messages().bearer(&old), 403, &["token"])
            .await;
        world
            .refuses(&messages().bearer(&new), 403, &["inference"])
            .await;
    }
}

/// What the operator sees, less what box-b's own reports change.
async fn lists(world: &World) -> Vec<String> {
    let mut all = Vec::new();
    for list in ["secret", "credential", "plugin"] {
        let listed = world.command(&[list, "list", "--json"], "").await.ok();
        all.push(listed.stdout);
    }
    let boxes = world.command(&["box", "list", "--json"], "").await.ok();
    let boxes: Value = boxes.json();
    let boxes = boxes.get("boxes").unwrap_or(&boxes).clone();
    for each in boxes.as_array().expect("a list") {
        if each.to_string().contains("\"box-a\"") {
            all.push(each.to_string());
        }
    }
    assert!(all.len() > 3, "box-a is listed");
    all
}

#[tokio::test]
async fn box_list_shows_the_last_report() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    let body = json!({
        "capabilities": [{"name": "mail", "broker": "lobby", "scope": ["send-word"]}],
        "listing": {"title": "A titled box", "line": "with a line"},
        "spend": {"month": "2026-11", "usd": 12.50, "runs": 7, "unpriced": 0, "byPrincipal": []},
    });
    let request = jackfield_tests::world::declaration(&body.to_string()).bearer(&token);
    let at = world.send(&request).await.json()["at"]
        .as_str()
        .expect("a time")
        .to_owned();
    let listed = world
        .command(&["box", "list", "--json"], "")
        .await
        .ok()
        .stdout;
    for shown in ["mail", "send-word", "A titled box", "12.5", &at] {
        assert!(listed.contains(shown), "no {shown}: {listed}");
    }
}

#[tokio::test]
async fn commands_say_so_when_no_host_runs() {
    let mut world = world().ready().await;
    world.take_host().stop().await;
    for arguments in [
        &["box", "add", "box-x"][..],
        &["box", "list"],
        &["box", "pause", "box-a"],
        &["secret", "list"],
        &["credential", "list"],
        &["plugin", "list"],
        &["plugin", "approve", "inference"],
    ] {
        let said = world.command(arguments, "").await.failed();
        assert!(
            said.contains("serve") || said.contains("running"),
            "{arguments:?}: {said}"
        );
        assert!(said.contains("admin.sock"), "{arguments:?}: {said}");
    }
    // A socket that a crash left behind is no host either.
    world.serve_as_approved().await;
    world.take_host().crash().await;
    let said = world.command(&["box", "list"], "").await.failed();
    assert!(said.contains("admin.sock"), "{said}");
    world.serve_as_approved().await;
    world.command(&["box", "list"], "").await.ok();
}

#[tokio::test]
async fn a_second_host_on_the_same_state_is_refused_and_harms_nothing() {
    let world = world().ready().await;
    let before = world.home.log().len();
    let second = world.home.try_serve(&[]).await;
    let Err(status) = second else {
        panic!("a second host started")
    };
    assert_ne!(status.code(), Some(0));
    let log = world.home.log();
    assert!(!log[before..].contains("panicked"), "{log}");
    world.command(&["box", "list"], "").await.ok();
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
}

#[tokio::test]
async fn an_unknown_key_of_the_configuration_is_refused_with_its_line() {
    let home = Home::new(std::path::Path::new(BINARY));
    for (text, words) in [
        ("brocker = \"lobby\"\n", ["brocker", "4"]),
        (
            "[upstreams.anthropic]\nurl = \"https://x\"\nallow-private = true\n",
            ["allow-private", "6"],
        ),
        ("broker = 7\n", ["string", "4"]),
        ("[upstreams.anthropic]\nurl = \"ftp://x\"\n", ["url", "ftp"]),
        (
            "[upstreams.Bad_Name]\nurl = \"https://x\"\n",
            ["Bad_Name", "upstream"],
        ),
        ("[plugins.inference]\ngrant = \"all\"\n", ["sequence", "5"]),
        ("broker = \"a\nb\"\n", ["line", "jackfield.toml"]),
    ] {
        home.configure(text);
        let said = home.run(&["config", "check"], b"").await.failed();
        for word in words {
            assert!(said.contains(word), "no {word:?}: {said}");
        }
        assert!(
            home.try_serve(&[]).await.is_err(),
            "it serves all the same: {text}"
        );
    }
    home.configure("");
    home.run(&["config", "check"], b"").await.ok();
}

#[tokio::test]
async fn the_example_configuration_is_one_and_names_every_key() {
    let home = Home::new(std::path::Path::new(BINARY));
    home.configure("");
    let example = home.run(&["config", "example"], b"").await.ok().stdout;
    for key in [
        "broker",
        "listen",
        "state_dir",
        "plugins_dir",
        "[upstreams.anthropic]",
        "url",
        "allow_private",
        "extra_ca",
        "public_url",
        "[tls]",
        "cert",
        "key",
        "grant",
    ] {
        assert!(example.contains(key), "no {key} in the example");
    }
    fs::write(home.config(), &example).expect("a file");
    home.run(&["config", "check"], b"").await.ok();
    // With every line that is only an example turned on.
    let full: String = example
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.is_empty() && !rest.starts_with(' ') && !rest.starts_with('#') => {
                rest
            }
            _ => line,
        })
        .map(|line| format!("{line}\n"))
        .collect();
    fs::write(home.config(), full).expect("a file");
    let checked = home.run(&["config", "check"], b"").await;
    // The files that the examples name are not there; the keys are known.
    let said = format!("{}{}", checked.stdout, checked.stderr);
    assert!(!said.contains("unknown"), "{said}");
}

#[tokio::test]
async fn the_first_line_says_where_the_host_listens() {
    let world = world()
        .top("public_url = \"https://broker.example.com\"\n")
        .start()
        .await;
    let host = world.host();
    assert_ne!(host.address.port(), 0);
    assert!(host.url.starts_with("http"), "{}", host.url);
    let token = world.add_box("box-a").await;
    let printed = world
        .command(&["box", "env", "box-a"], "")
        .await
        .ok()
        .stdout;
    assert!(printed.contains("https://broker.example.com"), "{printed}");
    world.declare(&token, &[]).await;
}

#[tokio::test]
async fn reports_from_many_boxes_at_once_are_each_kept() {
    let world = world().start().await;
    let mut tokens = Vec::new();
    for number in 0..4 {
        tokens.push(world.add_box(&format!("box-{number}")).await);
    }
    let world = std::sync::Arc::new(world);
    let mut reports = Vec::new();
    for round in 0..10 {
        for token in &tokens {
            let (world, token) = (std::sync::Arc::clone(&world), token.clone());
            reports.push(tokio::spawn(async move {
                let word = format!("w{round}");
                let body = report(&[("mail", &[word.as_str()])]);
                let request = jackfield_tests::world::declaration(&body).bearer(&token);
                let response = world.send(&request).await;
                assert_eq!(response.status, 200, "{}", response.text());
                let kept = response.json();
                assert_eq!(kept["capabilities"][0]["scope"], json!([word]));
            }));
        }
    }
    for report in reports {
        soon("a report is kept", report).await.expect("no panic");
    }
}
