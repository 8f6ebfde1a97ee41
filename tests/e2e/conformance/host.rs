//! Our own host under the suite.

use std::path::Path;
use std::process::Stdio;

use jackfield_tests::plugins::{Plugin, component};
use jackfield_tests::soon;
use jackfield_tests::suite;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// A folder with the components of these plugins.
fn folder(plugins: &[Plugin]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for plugin in plugins {
        let from = component(Path::new(crate::BINARY), *plugin);
        let name = from.file_name().expect("a name").to_owned();
        std::fs::copy(&from, folder.path().join(name)).expect("a component");
    }
    folder
}

#[tokio::test]
async fn the_host_passes_what_it_serves() {
    let plugins = folder(&[Plugin::Inference, Plugin::Egress]);
    let flags = format!(
        "serve --conformance --plugins-dir '{}'",
        plugins.path().display()
    );
    let start = suite::shell(Path::new(crate::BINARY), &flags);
    let arguments = [
        "--start",
        &start,
        "--capabilities",
        "inference,egress",
        "--broker",
        "a \"word\"",
    ];
    let judged = suite::judge(crate::BINARY, &arguments).await;
    // `/decide` is not served yet.
    let failed = judged.checks("FAIL");
    let expected: Vec<&str> = failed
        .iter()
        .copied()
        .filter(|id| !id.starts_with("decide-"))
        .collect();
    assert_eq!(expected, ["unreported-refused"], "{judged:#?}");
    assert!(
        judged
            .stdout
            .contains("a decide request: expected 403, got 404")
    );
    assert!(!judged.stdout.contains("a Messages call: "), "{judged:#?}");
}

#[tokio::test]
async fn without_its_environment_the_host_says_how_to_run_it() {
    let flags = ["serve", "--conformance"];
    let run = async |environment: Option<&str>| {
        let mut command = Command::new(crate::BINARY);
        command
            .args(flags)
            .env_remove("CONFORMANCE_ENV")
            .stdin(Stdio::null());
        if let Some(environment) = environment {
            command.env("CONFORMANCE_ENV", environment);
        }
        let output = soon("it ends", command.output()).await.expect("it ran");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let said = run(None).await;
    let hint = "jackfield conformance --start 'jackfield serve --conformance'";
    assert!(said.contains(hint), "{said}");
    let said = run(Some(r#"{"anthropic": "sk-value"}"#)).await;
    assert!(said.contains("CONFORMANCE_ENV is not what"), "{said}");
    assert!(!said.contains("sk-value"), "{said}");
}

/// Its folder holds the credentials, sealed, and the key: it must not stay.
#[tokio::test]
async fn the_host_s_folder_goes_with_it() {
    let plugins = folder(&[Plugin::Egress]);
    let temporary = tempfile::tempdir().expect("a folder");
    let environment = json!({
        "broker": "lobby", "boxes": ["conformance-a", "conformance-b"],
        "anthropic": {"url": "http://127.0.0.1:9", "credential": "sk-ant-0123456789"},
        "fountain": {"url": "http://127.0.0.1:9", "credential": "f-0123456789abc"},
        "secrets": [{"box": "conformance-a", "name": "CONFORMANCE", "host": "127.0.0.1:9", "value": "v-0123456789abc"}],
    });
    let mut child = Command::new(crate::BINARY)
        .args(["serve", "--conformance", "--plugins-dir"])
        .arg(plugins.path())
        .env("CONFORMANCE_ENV", environment.to_string())
        .env("TMPDIR", temporary.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary starts");
    let mut output = child.stdout.take().expect("a pipe");
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        let byte = soon("its line", output.read_u8()).await.expect("a line");
        line.push(byte);
    }
    let line: serde_json::Value = serde_json::from_slice(&line).expect("JSON");
    assert!(
        line["url"]
            .as_str()
            .expect("a text")
            .starts_with("http://127.0.0.1:")
    );
    assert_eq!(line["tokens"].as_object().expect("tokens").len(), 2);
    let here = || {
        std::fs::read_dir(temporary.path())
            .expect("a folder")
            .count()
    };
    assert_eq!(here(), 1);
    drop(child.stdin.take());
    let status = soon("it ends", child.wait()).await.expect("a status");
    assert_eq!(status.code(), Some(0));
    assert_eq!(here(), 0, "its folder is still there");
}
