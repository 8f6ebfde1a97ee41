//! Plugins: what a hostile one may say and what it gets, whom it harms, and
//! whose yes it needs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use jackfield_tests::client::{Client, Request};
use jackfield_tests::plugins::Plugin;
use jackfield_tests::soon;
use jackfield_tests::tap::Tap;
use jackfield_tests::world::{KEY, World, is_refusal, messages};
use serde_json::json;

use crate::world;

/// One lie, told by the path it is asked for on.
fn lie(world: &World, name: &str) -> Request {
    Request::post(&format!("/liar/{name}")).bearer(&world.token)
}

/// A world in which the liar is loaded, approved and declared. There is another
/// upstream and another box's secret for it to reach for.
async fn liars() -> World {
    let world = world()
        .plugins(&[Plugin::Inference, Plugin::Egress, Plugin::Liar])
        .tables("[upstreams.fountain]\nurl = \"{echo}\"\nallow_private = true\n")
        .ready()
        .await;
    world.add_box("box-b").await;
    let host = world.echo.url();
    world
        .secret(
            "box-b",
            "OTHERS",
            &host,
            "others-0123456789abcdef",
            &["--allow-private"],
        )
        .await;
    world
        .declare(
            &world.token,
            &[
                ("liar", &["tell"]),
                ("inference", &["agent"]),
                ("egress", &["OPENAI", "OTHERS"]),
            ],
        )
        .await;
    world
}

/// Each of these is a 502 that names the plugin, and touches nothing.
async fn all_refused(world: &World, lies: impl IntoIterator<Item = String>) {
    for name in lies {
        let response = world.refuses(&lie(world, &name), 502, &["liar"]).await;
        assert_eq!(response.json()["error"]["type"], "plugin_error", "{name}");
        for line in &response.fields.0 {
            assert!(!line.0.contains("smuggled"), "{name}: {line:?}");
        }
    }
}

#[tokio::test]
async fn what_the_liar_says_honestly_is_done() {
    let world = liars().await;
    // So that the refusals below are known to be of the lies.
    for (name, sent) in [
        ("ok", Some("/")),
        ("ok/v1/x?q=1", Some("/v1/x?q=1")),
        ("ok-literal", Some("/v1/literal")),
        ("ok-bare", Some("/")),
        ("call", Some("/v1/call")),
        ("call-then-forward/v1/x", Some("/v1/x")),
        ("hello", None),
        ("state", None),
    ] {
        let mark = world.mark();
        let response = world.send(&lie(&world, name)).await;
        // The stand-in knows none of these paths, and its 404 comes back.
        let expected = if sent.is_some() { 404 } else { 200 };
        assert_eq!(response.status, expected, "{name}: {}", response.text());
        match sent {
            Some(sent) => {
                let received = world.anthropic.last();
                assert_eq!(received.target, sent, "{name}");
                let bearer = received.fields.all("authorization");
                let expected = match name {
                    "ok-bare" => vec![],
                    _ => vec![format!("Bearer {KEY}")],
                };
                assert_eq!(bearer, expected, "{name}");
            }
            None => assert_eq!(world.mark(), mark, "{name} reached an upstream"),
        }
    }
    let response = world.send(&lie(&world, "refusal")).await;
    is_refusal("a refusal", &response, 403, &["liar refuses"]);
    assert_eq!(response.json()["error"]["type"], "liar_error");
    world.refuses(&lie(&world, "not-served"), 404, &[]).await;
}

#[tokio::test]
async fn a_plugin_is_shown_neither_tokens_nor_cookies() {
    let world = liars().await;
    let request = lie(&world, "inputs/x?q=1")
        .header("x-api-key", &world.token)
        .header("x-shown", "shown")
        .header("x-hidden", "hidden")
        .header("cookie", "a=1")
        .header("chant-grant", "granted");
    let response = world.send(&request).await;
    let text = response.text();
    assert_eq!(response.status, 200, "{text}");
    for line in [
        "method POST",
        "prefix /liar",
        "path /inputs/x",
        "query q=1",
        "header x-shown: shown",
        "box box-a",
        "words tell",
        "credentials 1",
        "body false",
        "time false",
        "settings -",
    ] {
        assert!(
            text.lines().any(|shown| shown == line),
            "no {line:?}: {text}"
        );
    }
    for hidden in [
        world.token.as_str(),
        "jft_",
        "hidden",
        "cookie",
        "granted",
        "authorization",
        KEY,
    ] {
        assert!(!text.contains(hidden), "{hidden:?} was shown: {text}");
    }
}

#[tokio::test]
async fn every_decision_has_an_instance_of_its_own() {
    let world = liars().await;
    for _ in 0..5 {
        let response = world.send(&lie(&world, "counts")).await;
        assert_eq!(response.text(), "2", "something was remembered");
    }
}

#[tokio::test]
async fn a_lie_about_words_is_refused() {
    let world = liars().await;
    let lies = [
        "no-word-forward",
        "no-word-call",
        "undeclared-word",
        "undeclared-beside",
        "empty-word",
        "crlf-word",
        "secret-word",
        "open-word",
        "long-word",
        "huge-words",
    ];
    all_refused(&world, lies.map(str::to_owned)).await;
}

#[tokio::test]
async fn a_lie_about_target_or_credential_is_refused() {
    let world = liars().await;
    let lies = [
        "other-upstream",
        "unknown-upstream",
        "bad-upstream-name",
        "url-upstream",
        "own-secret",
        "other-box-secret",
        "bad-secret-name",
        "unoffered-credential",
        "guessed-credential",
        "empty-credential",
        "credential-for-another",
    ];
    all_refused(&world, lies.map(str::to_owned)).await;
    all_refused(&world, lies.map(|lie| format!("call-{lie}"))).await;
}

#[tokio::test]
async fn a_lie_about_the_path_is_refused() {
    let world = liars().await;
    let lies = [
        "foreign-literal",
        "dots-literal",
        "dots-encoded",
        "absolute-literal",
        "empty-literal",
        "query-literal",
        "backslash-literal",
        "skip-too-many",
    ];
    all_refused(&world, lies.map(str::to_owned)).await;
}

#[tokio::test]
async fn a_lie_about_headers_is_refused() {
    let world = liars().await;
    let forbidden = [
        "host",
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "te",
        "trailer",
        "upgrade",
        "proxy-authorization",
        "proxy-connection",
        "chant-payer",
        "chant-grant",
    ];
    for name in forbidden {
        for op in ["set", "remove", "add"] {
            all_refused(&world, [format!("edit-{op}-{name}")]).await;
        }
        all_refused(&world, [format!("call-header-{name}")]).await;
        all_refused(&world, [format!("place-in-{name}")]).await;
    }
    for name in ["authorization", "x-api-key", "cookie"] {
        for op in ["set", "remove", "add"] {
            all_refused(&world, [format!("edit-{op}-{name}")]).await;
        }
        all_refused(&world, [format!("call-header-{name}")]).await;
    }
    for name in [
        "content-length",
        "transfer-encoding",
        "connection",
        "keep-alive",
        "upgrade",
        "chant-payer",
    ] {
        all_refused(&world, [format!("answer-edit-set-{name}")]).await;
        all_refused(&world, [format!("answer-header-{name}")]).await;
    }
    let lies = ["template-twice", "template-none", "query-name-empty"];
    all_refused(&world, lies.map(str::to_owned)).await;
}

#[tokio::test]
async fn a_status_that_is_none_is_refused() {
    let world = liars().await;
    let lies = [
        "status-99",
        "status-1000",
        "status-101",
        "refuse-200",
        "refuse-99",
        "refuse-1000",
        "substitute-200-with-200",
        "substitute-99",
    ];
    all_refused(&world, lies.map(str::to_owned)).await;
    let mut client = world.client().await;
    for _ in 0..2 {
        client.send(&lie(&world, "status-204-body")).await;
        let response = client.response().await.expect("an answer");
        assert!([204, 502].contains(&response.status), "{}", response.status);
        assert!(!response.text().contains("a body"), "the framing is ours");
    }
}

#[tokio::test]
async fn a_line_end_in_any_string_is_refused() {
    let world = liars().await;
    let places = [
        "request-header-name",
        "request-header-value",
        "request-list-name",
        "request-list-value",
        "removed-name",
        "response-header-name",
        "response-header-value",
        "answer-header-name",
        "answer-header-value",
        "template",
        "template-name",
        "query-name",
        "literal",
        "upstream",
        "secret",
        "credential",
        "refusal-type",
        "substitution-type",
        "key",
        "read-key",
        "call-method",
        "call-header-name",
        "call-header-value",
        "call-literal",
        "call-upstream",
    ];
    for place in places {
        all_refused(
            &world,
            ["cr", "lf", "crlf", "nul"].map(|what| format!("{what}-in-{place}")),
        )
        .await;
    }
    // Words for people may have lines, as long as they stay words.
    for place in ["refusal-message", "substitution-message", "log"] {
        for what in ["cr", "lf", "crlf", "nul"] {
            let response = world
                .send(&lie(&world, &format!("{what}-in-{place}")))
                .await;
            assert!(!response.fields.has("x-smuggled"), "{what} {place}");
            let smuggled = world.home.log();
            let smuggled = smuggled.lines().any(|line| line.starts_with("x-smuggled"));
            assert!(!smuggled, "{what} {place} begins a line of the log");
        }
    }
    let log = world.home.log();
    assert!(!log.contains("\u{1b}[31m"), "a terminal would obey this");
}

#[tokio::test]
async fn a_plugin_that_traps_loops_or_eats_is_a_502_that_names_it() {
    let world = liars().await;
    for harm in ["trap", "loop", "memory", "stack", "frames"] {
        for place in ["", "-in-scopes", "-in-resume"] {
            let request = lie(&world, &format!("{harm}{place}"));
            let response = world.refuses(&request, 502, &["liar"]).await;
            assert_eq!(
                response.json()["error"]["type"],
                "plugin_error",
                "{harm}{place}"
            );
            assert!(
                !response.text().contains("memory alone"),
                "the trap's own text"
            );
        }
        let response = world.send(&messages().bearer(&world.token)).await;
        assert_eq!(response.status, 200, "after {harm}: {}", response.text());
    }
}

#[tokio::test]
async fn a_plugin_that_asks_for_too_much_is_a_502_that_names_it() {
    let world = liars().await;
    let lies = [
        "many-calls",
        "endless",
        "huge-state",
        "journal",
        "own",
        "own-nothing",
        "ask-owned",
        "many-lists",
        "bad-list",
        "huge-write",
        "huge-message",
        "huge-header",
        "huge-log",
        "many-headers",
        "many-logs",
        "many-words",
        "bad-key-empty",
        "bad-key-long",
        "huge-answer",
        "many-writes",
        "many-reads",
        "huge-call-body",
    ];
    all_refused(&world, lies.map(str::to_owned)).await;
    // Whatever becomes of these, they end, and nothing else suffers.
    for name in ["endless-calls", "grow", "bad-key-slash"] {
        world.send(&lie(&world, name)).await;
        let response = world.send(&messages().bearer(&world.token)).await;
        assert_eq!(response.status, 200, "after {name}: {}", response.text());
    }
}

#[tokio::test]
async fn no_call_is_made_for_a_round_too_many() {
    for rounds in [1, 3] {
        let world = world()
            .plugins(&[Plugin::Liar])
            .tables(&format!("[limits]\nrounds = {rounds}\n"))
            .ready()
            .await;
        world.declare(&world.token, &[("liar", &["tell"])]).await;
        let before = world.anthropic.requests().len();
        let response = world.send(&lie(&world, "endless-calls")).await;
        is_refusal("endless calls", &response, 502, &["liar"]);
        assert_eq!(world.anthropic.requests().len() - before, rounds);
    }
}

#[tokio::test]
async fn a_plugin_that_misbehaves_harms_its_own_request_alone() {
    let world = Arc::new(liars().await);
    let ask = |request: Request| {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.send(&request).await.status })
    };
    let mut harmful = Vec::new();
    let mut harmless = Vec::new();
    for round in 0..6 {
        for harm in ["loop", "memory", "trap", "loop-in-scopes"] {
            harmful.push(ask(lie(&world, harm)));
        }
        for _ in 0..5 {
            harmless.push((round, ask(messages().bearer(&world.token))));
            harmless.push((
                round,
                ask(Request::get("/egress/OPENAI/x").bearer(&world.token)),
            ));
        }
    }
    for (round, answer) in harmless {
        let status = soon("an honest answer", answer).await.expect("no panic");
        assert_eq!(status, 200, "round {round}");
    }
    for answer in harmful {
        let status = soon("the harmful answer", answer).await.expect("no panic");
        assert!([502, 503, 429].contains(&status), "{status}");
    }
}

#[tokio::test]
async fn a_plugin_that_nobody_approved_serves_nothing() {
    let world = world().unapproved().start().await;
    let token = world.add_box("box-a").await;
    world
        .credential(KEY, &["anthropic", "--kind", "api-key"])
        .await;
    world.declare(&token, &[("inference", &["agent"])]).await;
    let call = messages().bearer(&token);
    world.refuses(&call, 404, &[]).await;
    let started = world.host().started.to_string();
    assert!(started.contains("inference"), "it is not said: {started}");
    let listed = world.command(&["plugin", "list"], "").await.ok();
    let hint = "jackfield plugin approve inference";
    assert!(listed.stdout.contains(hint), "{listed:?}");
    let listed = world.command(&["plugin", "list", "--json"], "").await.ok();
    assert!(listed.stdout.contains("inference"), "{listed:?}");

    world
        .command(&["plugin", "approve", "inference"], "")
        .await
        .ok();
    assert_eq!(world.send(&call).await.status, 200);
    let request = Request::get("/egress/OPENAI/x").bearer(&token);
    world.refuses(&request, 404, &[]).await;
    let said = world
        .command(&["plugin", "approve", "nobody"], "")
        .await
        .failed();
    assert!(said.contains("nobody"), "{said}");
}

#[tokio::test]
async fn the_operator_s_grant_narrows_what_a_plugin_reaches() {
    let world = world()
        .tables("[plugins.inference]\ngrant = []\n[plugins.egress]\ngrant = [\"secret:GITHUB\"]\n")
        .ready()
        .await;
    for request in [messages(), Request::get("/egress/OPENAI/x")] {
        let mark = world.mark();
        let response = world.send(&request.bearer(&world.token)).await;
        assert!(response.status >= 403, "{}", response.status);
        is_refusal("a narrowed plugin", &response, response.status, &[]);
        assert_eq!(world.mark(), mark);
    }
    // Serving without a token is a permission, too.
    let hello = Request::get("/llm/anthropic/api/hello");
    let response = world.send(&hello).await;
    is_refusal("a narrowed public route", &response, 404, &[]);
}

#[tokio::test]
async fn a_component_that_is_none_stops_nobody_else() {
    let world = world().prepare().await;
    fs::write(world.home.plugins().join("broken.wasm"), b"\0asm nonsense").expect("a file");
    fs::write(world.home.plugins().join("empty.wasm"), b"").expect("a file");
    let mut world = world;
    world.serve().await;
    served(&world).await;
    let started = world.host().started.to_string();
    for name in ["broken", "empty"] {
        assert!(started.contains(name), "it is not said: {started}");
    }
}

#[tokio::test]
async fn a_second_plugin_under_the_same_prefix_is_not_loaded() {
    let world = world().prepare().await;
    let folder = world.home.plugins();
    let entries = fs::read_dir(&folder).expect("a folder");
    let paths: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    for path in paths {
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        fs::copy(&path, folder.join(format!("second-{name}"))).expect("a copy");
    }
    let mut world = world;
    world.serve().await;
    served(&world).await;
}

#[tokio::test]
async fn a_plugins_folder_that_others_can_write_is_refused() {
    let world = world().prepare().await;
    let folder = world.home.plugins();
    for mode in [0o777, 0o775, 0o757] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("a mode");
        match world.home.try_serve(&["--approve-plugins"]).await {
            Err(status) => {
                assert_ne!(status.code(), Some(0));
                let log = world.home.log();
                assert!(log.contains("plugins"), "{mode:o}: no reason: {log}");
            }
            Ok(host) => {
                let started = host.started.to_string();
                assert!(started.contains("write"), "{mode:o}: no reason: {started}");
                let hello = Request::get("/llm/anthropic/api/hello");
                let mut client = Client::connect(host.address, Tap::default())
                    .await
                    .expect("the host listens");
                client.send(&hello).await;
                let response = client.response().await.expect("an answer");
                assert_eq!(response.status, 404, "{mode:o}: its plugins were loaded");
                host.crash().await;
            }
        }
    }
}

async fn served(world: &World) {
    let hello = Request::get("/llm/anthropic/api/hello");
    assert_eq!(world.send(&hello).await.status, 200, "{}", world.home.log());
    let token = world.add_box("box-z").await;
    let host = world.echo.url();
    world
        .secret(
            "box-z",
            "X",
            &host,
            "x-0123456789abcdef",
            &["--allow-private"],
        )
        .await;
    world.declare(&token, &[("egress", &["X"])]).await;
    let response = world
        .send(&Request::get("/egress/X/x").bearer(&token))
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(response.json(), json!({"echoed": true}));
}
