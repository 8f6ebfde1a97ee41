//! What was answered as kept is on disk: the whole host on a disk that forgets
//! every write no `fdatasync` followed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jackfield_tests::client::Request;
use jackfield_tests::world::{KEY, World, declaration, messages, report};
use serde_json::Value;

use crate::world;

#[path = "../durability/forgetful.rs"]
mod forgetful;

#[tokio::test]
async fn each_acknowledged_report_is_there_after_the_cut() {
    let mut world = world().prepare().await;
    let (state, shadow) = (world.home.state(), world.home.path().join("shadow"));
    for folder in [&state, &shadow] {
        fs::create_dir(folder).expect("a folder");
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).expect("a mode");
    }
    on_a_disk_that_forgets(&mut world, &state, &shadow);
    world.serve().await;
    let mut tokens = Vec::new();
    for name in ["box-a", "box-b", "box-c"] {
        tokens.push(world.add_box(name).await);
    }
    world
        .credential(KEY, &["anthropic", "--kind", "api-key"])
        .await;

    for cut in 0..3 {
        let mut last = Vec::new();
        for round in 0..5 {
            last.clear();
            for token in &tokens {
                let word = format!("cut-{cut}-round-{round}");
                let body = report(&[("inference", &["agent", &word])]);
                let response = world.send(&declaration(&body).bearer(token)).await;
                assert_eq!(response.status, 200, "{}", response.text());
                last.push(response.json());
            }
        }
        world.take_host().crash().await;
        // What is left is what the disk has.
        fs::remove_dir_all(&state).expect("the folder goes");
        copy(&shadow, &state);
        on_a_disk_that_forgets(&mut world, &state, &shadow);
        world.serve_as_approved().await;
        for (token, kept) in tokens.iter().zip(&last) {
            let response = world.send(&messages().bearer(token)).await;
            assert_eq!(response.status, 200, "cut {cut}: {}", response.text());
            assert_eq!(world.anthropic.last().fields.all("x-api-key"), [KEY]);
            let listed = listed(&world).await;
            let at = kept["at"].as_str().expect("a time");
            assert!(
                listed.contains(at),
                "cut {cut}: the report of {at} is gone: {listed}"
            );
            let scope = kept["capabilities"][0]["scope"][1]
                .as_str()
                .expect("a word");
            assert!(listed.contains(scope), "cut {cut}: {listed}");
        }
        let request = Request::get("/llm/anthropic/v1/models").bearer("nobody");
        world.refuses(&request, 403, &["token"]).await;
    }
}

/// A disk that keeps nothing must be noticed, or the test above shows nothing.
#[tokio::test]
async fn the_disk_does_forget() {
    let folder = tempfile::tempdir().expect("a folder");
    let (watch, shadow) = (folder.path().join("watch"), folder.path().join("shadow"));
    fs::create_dir(&watch).expect("a folder");
    fs::create_dir(&shadow).expect("a folder");
    let shim = forgetful::build_shim(Path::new(env!("CARGO_TARGET_TMPDIR")));
    for (file, synced) in [("forgotten", false), ("kept", true)] {
        let path = watch.join(file);
        let mut command = std::process::Command::new("dd");
        command.arg(format!("of={}", path.display())).args([
            "if=/dev/zero",
            "bs=1k",
            "count=1",
            "status=none",
        ]);
        if synced {
            command.arg("conv=fdatasync");
        }
        forgetful::put_under(&mut command, &shim, &watch, &shadow);
        assert!(command.status().expect("dd runs").success());
        assert!(path.exists());
        assert_eq!(shadow.join(file).exists(), synced, "{file}");
    }
}

fn on_a_disk_that_forgets(world: &mut World, state: &Path, shadow: &Path) {
    let shim = forgetful::build_shim(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let mut command = std::process::Command::new("true");
    forgetful::put_under(&mut command, &shim, state, shadow);
    for (name, value) in command.get_envs() {
        let name = name.to_str().expect("a name");
        world.home.set(name, value.expect("a value"));
    }
}

async fn listed(world: &World) -> String {
    let listed = world.command(&["box", "list", "--json"], "").await.ok();
    let value: Value = listed.json();
    value.to_string()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    let mode = fs::metadata(from).expect("a folder").permissions();
    fs::set_permissions(to, mode).expect("a mode");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).expect("a file");
        }
    }
}
