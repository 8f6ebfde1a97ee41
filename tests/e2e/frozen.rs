//! Components that were built once, under contract 0.1, and kept as bytes: each
//! loads, is approved and serves a request, for ever.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use jackfield_tests::client::Request;
use jackfield_tests::plugins::root;
use jackfield_tests::world::{World, messages};
use serde_json::json;

use crate::moods::hash_of_bytes;
use crate::world;

const NAMES: [&str; 5] = ["egress", "feedback", "fountain", "inference", "notes"];

fn folder() -> PathBuf {
    root().join("tests/frozen/0.1")
}

/// The bytes of each, by its name.
fn frozen() -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder()).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    let components = paths.filter(|path| path.extension().is_some_and(|end| end == "wasm"));
    components
        .map(|path| {
            let name = path
                .file_stem()
                .expect("a name")
                .to_string_lossy()
                .into_owned();
            (name, fs::read(path).expect("a component"))
        })
        .collect()
}

#[test]
fn their_bytes_are_what_they_were() {
    let readme = fs::read_to_string(folder().join("README.md")).expect("a README");
    let frozen = frozen();
    assert_eq!(frozen.keys().map(String::as_str).collect::<Vec<_>>(), NAMES);
    for (name, bytes) in frozen {
        let hash = hash_of_bytes(&bytes);
        let line = format!("| `{name}.wasm` | `{hash}` |");
        assert!(readme.contains(&line), "{line}");
    }
}

#[tokio::test]
async fn each_loads_is_approved_and_serves() {
    let mut world = world()
        .plugins(&[])
        .unapproved()
        .tables("[upstreams.fountain]\nurl = \"{fountain}\"\nallow_private = true\n")
        .ready()
        .await;
    let key = "fountain-0123456789abcdefghijklmnop";
    world
        .credential(key, &["fountain", "--kind", "bearer"])
        .await;
    world
        .declare(
            &world.token,
            &[
                ("inference", &["agent"]),
                ("egress", &["OPENAI"]),
                ("feedback", &["agent", "passive"]),
                ("fountain", &["agent", "conversations"]),
                ("notes", &["read", "write"]),
            ],
        )
        .await;
    world
        .command(&["box", "own", "box-a", "agents", "a-1"], "")
        .await
        .ok();
    world.take_host().stop().await;
    for (name, bytes) in frozen() {
        let path = world.home.plugins().join(format!("{name}.wasm"));
        fs::write(&path, bytes).expect("a component");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("a mode");
    }
    world.serve_as_approved().await;
    for name in NAMES {
        serves_not(&world, name).await;
        world.command(&["plugin", "approve", name], "").await.ok();
        let request = request(name).bearer(&world.token);
        let response = world.send(&request).await;
        let expected = match name {
            "feedback" => 202,
            "fountain" | "notes" => 201,
            _ => 200,
        };
        assert_eq!(response.status, expected, "{name}: {}", response.text());
    }
}

async fn serves_not(world: &World, name: &str) {
    let request = request(name).bearer(&world.token);
    world.refuses(&request, 404, &[]).await;
}

fn request(name: &str) -> Request {
    match name {
        "egress" => Request::get("/egress/OPENAI/v1/x"),
        "feedback" => Request::post("/api/feedback").json(&json!({"entries": [1]})),
        "fountain" => {
            let body = json!({"agent_id": "a-1", "wanted": "c-1"});
            Request::post("/fountain/api/conversations").json(&body)
        }
        "inference" => messages(),
        "notes" => Request::new("PUT", "/notes/today").body("buy milk"),
        other => panic!("nobody knows what {other} serves"),
    }
}
