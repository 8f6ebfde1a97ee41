//! What a plugin's author does: a project from nothing, its tests on the built
//! component, and its component built again at each change.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use jackfield_tests::host::Output;
use jackfield_tests::soon;
use jackfield_tests::world::World;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::{BINARY, world};

/// Lets projects build in one place, so that what they all depend on is built
/// once: `place` becomes a link to it.
pub(crate) fn share_builds(binary: &Path, place: &Path) {
    let target = binary.parent().and_then(Path::parent).unwrap();
    let shared = target.join("test-projects");
    fs::create_dir_all(&shared).unwrap();
    symlink(&shared, place).unwrap();
}

fn jackfield(folder: &Path) -> Command {
    let mut command = Command::new(BINARY);
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn run(folder: &Path, arguments: &[&str]) -> Output {
    let output = jackfield(folder).args(arguments).output().await.unwrap();
    Output {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A new project in an empty folder.
async fn project(name: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    run(folder.path(), &["plugin", "new", name]).await.ok();
    let project = folder.path().join(name);
    share_builds(Path::new(BINARY), &project.join("target"));
    (folder, project)
}

#[tokio::test]
async fn a_new_project_tests_builds_and_serves_as_it_is() {
    let (_folder, project) = project("hail").await;
    let tested = run(&project, &["plugin", "test", "--json"]).await.ok();
    let said: Value = tested.json();
    assert_eq!(said["passed"], true);
    let calls = said["calls"].as_array().unwrap();
    for function in ["describe", "scopes", "route"] {
        let of = |call: &&Value| call["function"] == function;
        let call = calls.iter().find(of).unwrap();
        assert!(call["fuel"].as_u64().unwrap() > 0, "{call}");
        assert!(call["memory"].as_u64().unwrap() >= 64 * 1024, "{call}");
    }
    // Native tests ran too, beside those of the component.
    assert!(
        tested.stderr.contains("it_greets_by_name ... ok"),
        "{tested:?}"
    );
    assert!(tested.stderr.contains("nothing_else_is_served ... ok"));

    let tables = "[upstreams.hail]\nurl = \"{echo}\"\nallow_private = true\n";
    let mut world: World = world().plugins(&[]).tables(tables).prepare().await;
    let out = world.home.plugins();
    let out = out.to_str().unwrap();
    run(&project, &["plugin", "build", "--out", out]).await.ok();
    world.serve().await;
    let token = world.add_box("alice").await;
    world
        .credential("a-key-for-hail-0123", &["hail", "--kind", "bearer"])
        .await;
    world.declare(&token, &[("hail", &["read"])]).await;
    let get = |path: &str| {
        jackfield_tests::client::Request::new("GET", &format!("/hail{path}")).bearer(&token)
    };
    let hello = world.send(&get("/hello")).await;
    assert_eq!((hello.status, &*hello.text()), (200, "Hello, alice.\n"));
    assert_eq!(world.send(&get("/items/7")).await.status, 200);
    let sent = world.echo.requests();
    assert!(
        sent.iter().any(|request| request.target == "/items/7"),
        "{sent:?}"
    );
    world.refuses(&get("/else"), 404, &[]).await;
}

#[tokio::test]
async fn a_test_that_fails_fails_the_command() {
    let (_folder, project) = project("sleet").await;
    let test = "use jackfield_testkit::prelude::*;\n#[test]\nfn wrong() {\n    let decided = \
                Plugin::under_test().ask(get(\"/sleet/hello\").declares([\"read\"]));\n    \
                let _ = decided.forward();\n}\n";
    fs::write(project.join("tests/component.rs"), test).unwrap();
    let output = run(&project, &["plugin", "test"]).await;
    assert_eq!(output.code, Some(1), "{output:?}");
    let failed = output.stdout + &output.stderr;
    // What came instead, and what it took all the same.
    assert!(
        failed.contains("expected a forward, but it is answered with 200"),
        "{failed}"
    );
    assert!(
        failed.contains("wrong") && failed.contains("scopes"),
        "{failed}"
    );
}

#[tokio::test]
async fn what_cannot_be_made_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let check = async |arguments: &[&str], word: &str| {
        let arguments = [&["plugin", "new"], arguments].concat();
        let said = run(folder.path(), &arguments).await.failed();
        assert!(said.contains(word), "{said}");
    };
    check(&["Weather"], "^[a-z]").await;
    check(&["../weather"], "^[a-z]").await;
    check(&["api"], "/api/box").await;
    check(&["weather", "--world", "tool"], "capability").await;
    check(&["weather", "--lang", "python"], "rust").await;
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    fs::create_dir(folder.path().join("weather")).unwrap();
    check(&["weather"], "is there already").await;
    assert_eq!(
        fs::read_dir(folder.path().join("weather")).unwrap().count(),
        0
    );
}

#[tokio::test]
async fn dev_builds_again_and_keeps_what_was_built_over_an_error() {
    let (_folder, project) = project("rime").await;
    let mut dev = jackfield(&project)
        .args(["plugin", "dev", "--out", "built"])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(dev.stderr.take().unwrap()).lines();
    let mut waits = async || {
        let mut said = String::new();
        loop {
            let line = lines.next_line().await.unwrap().expect("dev goes on");
            said += &line;
            if line.contains("waiting for a change") {
                return said;
            }
        }
    };
    // A first build may take its time; what follows is awaited as all else is.
    waits().await;
    let component = project.join("built/rime.wasm");
    let first = fs::read(&component).unwrap();

    let source = project.join("src/lib.rs");
    let good = fs::read_to_string(&source).unwrap();
    fs::write(
        &source,
        good.replace("Hello", "Hello, hello")
            .replace("fn hello", "fn hello!"),
    )
    .unwrap();
    let said = soon("the error", waits()).await;
    assert!(said.contains("error"), "{said}");
    assert_eq!(fs::read(&component).unwrap(), first);

    fs::write(&source, good.replace("Reads items", "Fetches items")).unwrap();
    soon("the build", waits()).await;
    assert_ne!(fs::read(&component).unwrap(), first);
    dev.kill().await.unwrap();
}
