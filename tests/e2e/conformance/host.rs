//! Our own host under the suite.

use std::path::Path;
use std::process::Stdio;

use jackfield_tests::plugins::{Plugin, component, root};
use jackfield_tests::soon;
use jackfield_tests::suite;
use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use super::{ALL_FOUR, TABLE};

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

/// The plugins that ship. Each serves the capability of its name.
const SHIPPED: [Plugin; 4] = [
    Plugin::Inference,
    Plugin::Egress,
    Plugin::Feedback,
    Plugin::Fountain,
];

/// All four capabilities, and one that the host has never heard of: the
/// component of the example, dropped in, and the probes that lie beside it.
#[tokio::test]
async fn the_host_passes_with_all_four_capabilities_and_an_extra_one() {
    let plugins = folder(&SHIPPED);
    let notes = component(Path::new(crate::BINARY), Plugin::Notes);
    let flags = format!(
        "serve --conformance --plugins-dir '{}' --extra-plugin '{}'",
        plugins.path().display(),
        notes.display()
    );
    let start = suite::shell(Path::new(crate::BINARY), &flags);
    let extra = root().join("plugins/examples/notes/extra.json");
    let extra = extra.display().to_string();
    let arguments = [
        "--start",
        &start,
        "--capabilities",
        ALL_FOUR,
        "--extra",
        &extra,
        // A broker word that has to be written with care.
        "--broker",
        "a \"word\"",
    ];
    let judged = suite::judge(crate::BINARY, &arguments).await;
    assert_eq!(judged.code, Some(0), "{judged:#?}");
    let passed = judged.checks("ok");
    assert_eq!(passed.len(), TABLE.len() + 8, "{judged:#?}");
    assert!(TABLE.iter().all(|id| passed.contains(id)));
    // Its own input was its end: nobody had to ask again.
    assert!(!judged.stdout.contains("ended it"), "{judged:#?}");
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
