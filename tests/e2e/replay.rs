//! Recorded inputs, and another version of a plugin over them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jackfield_tests::client::Request;
use jackfield_tests::contains;
use jackfield_tests::plugins::{Plugin, component};
use jackfield_tests::world::{KEY, VALUE, World, files_below};
use serde_json::{Value, json};

use crate::{BINARY, world};

const CANARY: &str = "canary-in-a-body-51d0";

/// A version of this one in which these texts, as long, stand instead.
fn version(world: &World, plugin: Plugin, changes: &[(&str, &str)]) -> String {
    let mut bytes = fs::read(component(Path::new(BINARY), plugin)).expect("a component");
    for (from, to) in changes {
        assert_eq!(from.len(), to.len());
        let mut windows = bytes.windows(from.len());
        let at = windows.position(|window| window == from.as_bytes());
        let at = at.unwrap_or_else(|| panic!("{from} stands nowhere"));
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    let path = world.home.path().join("version.wasm");
    fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

/// A host that records what the moody one and the clerk decide, and stops.
async fn recorded() -> World {
    let mut world = world()
        .plugins(&[Plugin::Moody, Plugin::Clerk, Plugin::Egress])
        .tables(
            "[decision_log]\nmode = \"must\"\n[plugins.moody]\nrecord = \"inputs\"\n\
             [plugins.clerk]\nrecord = \"inputs\"\n",
        )
        .ready()
        .await;
    let token = world.token.clone();
    world
        .declare(
            &token,
            &[
                ("moody", &["feel"]),
                ("clerk", &["file"]),
                ("egress", &["OPENAI"]),
            ],
        )
        .await;
    let ask = async |request: Request, status: u16| {
        let response = world.send(&request.bearer(&token)).await;
        assert_eq!(response.status, status, "{}", response.text());
    };
    ask(Request::get("/moody"), 200).await;
    ask(Request::get("/moody"), 200).await;
    ask(Request::post("/moody/v1/messages").body("{}"), 200).await;
    ask(Request::post("/clerk/fill/a").body(CANARY), 200).await;
    ask(Request::post("/clerk/read/a"), 200).await;
    ask(Request::post("/clerk/read/none"), 404).await;
    ask(Request::post("/clerk/claim/b"), 200).await;
    ask(Request::post("/egress/OPENAI/x").body(CANARY), 200).await;
    world.take_host().stop().await;
    world
}

async fn replay(world: &World, file: &str, more: &[&str], code: i32) -> Value {
    let since = [
        "plugin",
        "replay",
        file,
        "--since",
        "2020-01-01T00:00:00Z",
        "--json",
    ];
    let output = world.command(&[&since, more].concat(), "").await;
    assert_eq!(output.code, Some(code), "{output:#?}");
    assert!(!output.stdout.contains(CANARY), "{output:#?}");
    output.json()
}

#[tokio::test]
async fn another_version_shows_what_it_would_decide_otherwise() {
    let world = recorded().await;
    let same = version(&world, Plugin::Moody, &[]);
    let report = replay(&world, &same, &[], 0).await;
    assert_eq!(report["plugin"], json!("moody"));
    assert_eq!(report["replayed"], json!(3), "{report:#}");
    assert_eq!(report["decisions"], json!([]));
    assert!(report["most_fuel"].as_u64() > Some(0), "{report:#}");

    let other = version(&world, Plugin::Moody, &[("tint:green", "tint:amber")]);
    let report = replay(&world, &other, &[], 1).await;
    assert_eq!(
        (&report["replayed"], &report["changed"]),
        (&json!(3), &json!(2))
    );
    for decision in report["decisions"].as_array().expect("a list") {
        assert_eq!(decision["request"], json!("GET /moody"));
        assert_eq!(decision["box"], json!("box-a"));
        let changed = json!([{"field": "step 1.plan.action.answer.body",
            "before": "10 bytes", "after": "10 bytes, another value"}]);
        assert_eq!(decision["changed"], changed, "{decision:#}");
    }
    let text = [
        "plugin",
        "replay",
        &other,
        "--since",
        "2020-01-01T00:00:00Z",
    ];
    let shown = world.command(&text, "").await;
    assert!(
        shown
            .stdout
            .contains("3 decisions of moody replayed: 2 would change"),
        "{shown:#?}"
    );
    let late = [
        "plugin",
        "replay",
        &other,
        "--since",
        "2999-01-01T00:00:00Z",
    ];
    world.command(&late, "").await.ok();

    // A decision that needed something first is fed with what was brought.
    let same = version(&world, Plugin::Clerk, &[]);
    let report = replay(&world, &same, &[], 0).await;
    assert_eq!(report["replayed"], json!(4), "{report:#}");
    assert_eq!(report["unanswered"], json!(0), "{report:#}");
    let message = ("clerk keeps nothing there.", "clerk holds nothing there.");
    let other = version(&world, Plugin::Clerk, &[message]);
    let report = replay(&world, &other, &[], 1).await;
    let field = &report["decisions"][0]["changed"][0]["field"];
    assert_eq!(
        field,
        &json!("step 2.plan.action.refuse.message"),
        "{report:#}"
    );
    // One plugin over what another was asked serves none of it.
    let report = replay(&world, &other, &["--plugin", "moody"], 1).await;
    assert_eq!(report["changed"], json!(3), "{report:#}");

    // Where nothing can be replayed, the code says that, too.
    let unasked = [
        "plugin",
        "replay",
        "none.wasm",
        "--since",
        "2020-01-01T00:00:00Z",
    ];
    assert_eq!(world.command(&unasked, "").await.code, Some(2));
    let same = version(&world, Plugin::Clerk, &[]);
    let key = world.home.state().join("vault.key");
    let text = fs::read_to_string(&key).expect("a key");
    fs::rename(&key, world.home.path().join("elsewhere.key")).expect("it goes");
    let without = ["plugin", "replay", &same, "--since", "2020-01-01T00:00:00Z"];
    let output = world.command(&without, "").await;
    assert_eq!(output.code, Some(2), "{output:#?}");
    assert!(output.stderr.contains("--vault-key-stdin"), "{output:#?}");
    let with = [&without[..], &["--vault-key-stdin"]].concat();
    world.command(&with, &text).await.ok();
    // Another key opens none of it, and that is said.
    let other_key = "ab".repeat(32);
    let output = world.command(&with, &other_key).await;
    assert_eq!(output.code, Some(2), "{output:#?}");
    assert!(
        output.stdout.contains("under another vault key"),
        "{output:#?}"
    );
}

#[tokio::test]
async fn what_is_recorded_is_sealed_and_of_the_plugins_that_are_named() {
    let world = recorded().await;
    let folder = world.home.state().join("decision-inputs");
    let files = files_below(&folder);
    assert!(!files.is_empty());
    let mode = |path: &Path| {
        fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(mode(&folder), 0o700);
    let log = files_below(&world.home.state().join("decision-log"));
    for file in files.iter().chain(&log) {
        assert_eq!(mode(file), 0o600, "{}", file.display());
        let bytes = fs::read(file).expect("a file");
        for secret in [CANARY, KEY, VALUE, &world.token] {
            assert!(!contains(&bytes, secret.as_bytes()), "{}", file.display());
        }
    }
    // A body would stand there byte by byte.
    let spelled: Vec<String> = CANARY.bytes().map(|byte| byte.to_string()).collect();
    let sealed = fs::read(&files[0]).expect("a file");
    assert!(!contains(&sealed, spelled.join(",").as_bytes()));
    // Names are sealed as well: nothing of a record stands in the clear.
    assert!(!contains(&sealed, b"clerk") && !contains(&sealed, b"box-a"));
    let egress = version(&world, Plugin::Egress, &[]);
    let report = replay(&world, &egress, &[], 0).await;
    assert_eq!(report["replayed"], json!(0), "{report:#}");
}
