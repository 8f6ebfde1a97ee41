//! The vault: sealed at rest, bound to what a value is for, shown to nobody.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use jackfield_tests::client::Request;
use jackfield_tests::contains;
use jackfield_tests::stand_ins;
use jackfield_tests::tap::Taps;
use jackfield_tests::upstream::{Speaks, Upstream};
use jackfield_tests::world::{KEY, VALUE, World, files_below, messages};

use crate::world;

#[tokio::test]
async fn no_file_of_the_host_holds_a_value_or_a_token() {
    let mut world = world().ready().await;
    world.send(&messages().bearer(&world.token)).await;
    world.take_host().stop().await;
    let token = world.token.clone();
    let mut seen = 0;
    for path in files_below(&world.home.state()) {
        let Ok(bytes) = fs::read(&path) else {
            continue; // A socket.
        };
        seen += bytes.len();
        for value in [KEY, VALUE, &token] {
            let clear = contains(&bytes, value.as_bytes());
            assert!(!clear, "{} holds a value", path.display());
        }
    }
    assert!(seen > 0, "the host kept something");
}

#[tokio::test]
async fn the_key_and_what_it_opens_belong_to_the_host_alone() {
    let world = world().ready().await;
    let state = world.home.state();
    let mode =
        |path: &std::path::Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    assert_eq!(mode(&state.join("vault.key")), 0o600);
    assert_eq!(mode(&state.join("admin.sock")), 0o600);
}

#[tokio::test]
async fn a_wrong_key_is_a_clear_error_and_overwrites_nothing() {
    let mut world = world().ready().await;
    world.take_host().stop().await;
    let key = world.home.state().join("vault.key");
    let good = fs::read(&key).expect("a key");

    // A wrong key in the environment.
    world.home.set("JACKFIELD_VAULT_KEY", "A".repeat(43) + "=");
    refuses_to_start(&world, "key").await;
    world
        .home
        .set("JACKFIELD_VAULT_KEY", "0123456789abcdef".repeat(4));
    refuses_to_start(&world, "key").await;
    world.home.set("JACKFIELD_VAULT_KEY", "short");
    refuses_to_start(&world, "JACKFIELD_VAULT_KEY").await;
    world.home.unset("JACKFIELD_VAULT_KEY");

    // A file that is gone: no new one is made.
    fs::remove_file(&key).expect("the key goes");
    refuses_to_start(&world, "vault.key").await;
    assert!(!key.exists(), "a new key was made over sealed values");

    // A file of another key.
    let mut other = good.clone();
    for byte in &mut other {
        if byte.is_ascii_alphanumeric() {
            *byte = if *byte == b'0' { b'1' } else { b'0' };
        } else {
            *byte ^= 1;
        }
    }
    fs::write(&key, &other).expect("a file");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("a mode");
    refuses_to_start(&world, "key").await;
    assert_eq!(
        fs::read(&key).expect("a key"),
        other,
        "the file was overwritten"
    );

    // And with the right one all is as it was.
    fs::write(&key, &good).expect("a file");
    world.serve_as_approved().await;
    works(&world).await;
}

#[tokio::test]
async fn the_key_may_come_from_the_environment() {
    let mut world = world().prepare().await;
    let text = "0123456789abcdef".repeat(4);
    world.home.set("JACKFIELD_VAULT_KEY", &text);
    world.serve().await;
    world.token = world.add_box("box-a").await;
    world
        .credential(KEY, &["anthropic", "--kind", "api-key"])
        .await;
    world
        .declare(&world.token, &[("inference", &["agent"])])
        .await;
    assert!(
        !world.home.state().join("vault.key").exists(),
        "it stays in the environment"
    );
    world.restart().await;
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
    assert!(!world.home.log().contains(&text), "the log holds the key");
}

#[tokio::test]
async fn a_new_address_needs_the_value_again() {
    let mut world = world().ready().await;
    let elsewhere = Upstream::start(stand_ins::anthropic, Speaks::Plain, Taps::default()).await;
    world.take_host().stop().await;
    world.configure(&elsewhere.url());
    world.serve_as_approved().await;
    let call = messages().bearer(&world.token);
    world.refuses(&call, 403, &["credential"]).await;
    assert_eq!(elsewhere.connections(), 0, "the old value does not move");

    world
        .credential(KEY, &["anthropic", "--kind", "api-key"])
        .await;
    assert_eq!(world.send(&call).await.status, 200);
    assert_eq!(elsewhere.last().fields.all("x-api-key"), [KEY]);
}

#[tokio::test]
async fn a_box_s_own_credential_goes_before_the_general_one() {
    let world = world().ready().await;
    let own = "sk-ant-own-0123456789abcdefghij";
    world
        .credential(
            own,
            &[
                "anthropic",
                "--kind",
                "api-key",
                "--box",
                "box-a",
                "--name",
                "own",
            ],
        )
        .await;
    let other = world.add_box("box-b").await;
    world.declare(&other, &[("inference", &["agent"])]).await;
    for (token, expected) in [(&world.token, own), (&other, KEY)] {
        assert_eq!(world.send(&messages().bearer(token)).await.status, 200);
        assert_eq!(world.anthropic.last().fields.all("x-api-key"), [expected]);
    }
    world
        .command(&["credential", "remove", "anthropic", "--name", "own"], "")
        .await
        .ok();
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
    assert_eq!(world.anthropic.last().fields.all("x-api-key"), [KEY]);
}

#[tokio::test]
async fn a_visitor_s_credential_is_not_spent_without_a_grant() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    world.declare(&token, &[("inference", &["agent"])]).await;
    let visitor = "sk-ant-visitor-0123456789abcdef";
    let arguments = [
        "anthropic",
        "--kind",
        "api-key",
        "--payer",
        "visitor",
        "--principal",
        "github:octocat",
        "--box",
        "box-a",
    ];
    world.credential(visitor, &arguments).await;
    world
        .refuses(&messages().bearer(&token), 403, &["credential"])
        .await;
    let request = messages().bearer(&token).header("chant-grant", "anything");
    world.refuses(&request, 403, &["credential"]).await;
}

#[tokio::test]
async fn what_a_credential_may_be_is_checked_when_it_is_set() {
    let world = world().start().await;
    world.add_box("box-a").await;
    let secret = |extra: &[&'static str]| {
        let fixed = [
            "secret",
            "set",
            "NAME",
            "--box",
            "box-a",
            "--host",
            "api.example.com",
        ];
        [&fixed, extra].concat()
    };
    for (arguments, value) in [
        (secret(&[]), ""),
        (secret(&[]), "\n"),
        (secret(&[]), "elevenbytes"),
        (secret(&[]), "a line\nand another one"),
        (secret(&[]), "a nul \0 in between it"),
        (secret(&[]), "a control \u{1} in between"),
        (secret(&["--allow", "no-method"]), "0123456789abcdef"),
        (secret(&["--allow", "GET repos"]), "0123456789abcdef"),
        (
            vec![
                "secret",
                "set",
                "lower",
                "--box",
                "box-a",
                "--host",
                "x.example",
            ],
            "0123456789abcdef",
        ),
        (
            vec![
                "secret",
                "set",
                "NAME",
                "--box",
                "nobody",
                "--host",
                "x.example",
            ],
            "0123456789abcdef",
        ),
        (
            vec![
                "secret",
                "set",
                "NAME",
                "--box",
                "box-a",
                "--host",
                "ftp://x.example",
            ],
            "0123456789abcdef",
        ),
        (
            vec![
                "secret",
                "set",
                "NAME",
                "--box",
                "box-a",
                "--host",
                "https://x.example/path",
            ],
            "0123456789abcdef",
        ),
        (
            vec![
                "secret",
                "set",
                "NAME",
                "--box",
                "box-a",
                "--host",
                "u@x.example",
            ],
            "0123456789abcdef",
        ),
        (
            vec!["secret", "set", "NAME", "--box", "box-a"],
            "0123456789abcdef",
        ),
        (
            vec!["credential", "set", "anthropic", "--kind", "password"],
            "0123456789abcdef",
        ),
        (
            vec!["credential", "set", "nowhere", "--kind", "api-key"],
            "0123456789abcdef",
        ),
        (
            vec![
                "credential",
                "set",
                "anthropic",
                "--kind",
                "api-key",
                "--payer",
                "visitor",
            ],
            "0123456789abcdef",
        ),
        (
            vec![
                "credential",
                "set",
                "anthropic",
                "--kind",
                "api-key",
                "0123456789abcdef",
            ],
            "",
        ),
    ] {
        let output = world.home.run(&arguments, value.as_bytes()).await;
        assert_ne!(output.code, Some(0), "{arguments:?} took {value:?}");
        let said = output.failed();
        assert!(
            value.trim().len() < 12 || !said.contains(value.trim()),
            "{said}"
        );
    }
    for list in ["secret", "credential"] {
        let listed = world.command(&[list, "list", "--json"], "").await.ok();
        assert!(!listed.stdout.contains("NAME"), "{listed:?}");
    }
    // What is short on purpose is taken.
    world.home.run(&secret(&["--short"]), b"short").await.ok();
}

#[tokio::test]
async fn a_value_is_taken_from_a_file_and_its_last_line_end_is_not_part_of_it() {
    let world = world().ready().await;
    let file = world.home.path().join("value");
    fs::write(&file, "from-a-file-0123456789\n").expect("a file");
    world.remember("from-a-file-0123456789");
    let host = world.echo.url();
    let path = file.to_string_lossy().into_owned();
    let arguments = [
        "secret",
        "set",
        "OPENAI",
        "--box",
        "box-a",
        "--host",
        &host,
        "--allow-private",
        "--from-file",
        &path,
    ];
    world.command(&arguments, "").await.ok();
    let request = Request::get("/egress/OPENAI/x").bearer(&world.token);
    assert_eq!(world.send(&request).await.status, 200);
    let sent = world.echo.last().fields.all("authorization");
    assert_eq!(sent, ["Bearer from-a-file-0123456789"]);
}

#[tokio::test]
async fn lists_show_what_there_is_and_no_value() {
    let world = world().ready().await;
    let boxes = world.command(&["box", "list", "--json"], "").await.ok();
    assert!(boxes.stdout.contains("box-a"), "{boxes:?}");
    assert!(!boxes.stdout.contains(&world.token), "{boxes:?}");
    let secrets = world.command(&["secret", "list", "--json"], "").await.ok();
    assert!(secrets.stdout.contains("OPENAI"), "{secrets:?}");
    assert!(
        secrets.stdout.contains(&world.echo.address.to_string()),
        "{secrets:?}"
    );
    let credentials = world
        .command(&["credential", "list", "--json"], "")
        .await
        .ok();
    assert!(credentials.stdout.contains("api-key"), "{credentials:?}");
    let environment = world.command(&["box", "env", "box-a"], "").await.ok();
    for name in [
        "STUDIO_URL",
        "ANTHROPIC_BASE_URL",
        "OPENAI_KEY",
        "OPENAI_BASE_URL",
    ] {
        assert!(environment.stdout.contains(name), "{name}: {environment:?}");
    }
    let plain = world.command(&["box", "list"], "").await.ok();
    assert!(plain.stdout.contains("box-a"), "{plain:?}");
}

async fn refuses_to_start(world: &World, words: &str) {
    let before = world.home.log().len();
    match world.home.try_serve(&[]).await {
        Ok(_) => panic!("the host started"),
        Err(status) => assert_ne!(status.code(), Some(0)),
    }
    let log = world.home.log();
    let said = &log[before..];
    assert!(said.contains(words), "no {words:?} in {said:?}");
    assert!(!said.contains("panicked"), "{said}");
}

async fn works(world: &World) {
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
    assert_eq!(world.anthropic.last().fields.all("x-api-key"), [KEY]);
    let request = Request::get("/egress/OPENAI/x").bearer(&world.token);
    assert_eq!(world.send(&request).await.status, 200);
}
