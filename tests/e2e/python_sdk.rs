//! The official Python SDKs, unchanged, through the broker.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use jackfield_tests::plugins::root;
use jackfield_tests::soon;
use jackfield_tests::stand_ins::MODEL;
use jackfield_tests::world::{KEY, VALUE};
use serde_json::{Value, json};

use crate::{BINARY, world};

#[tokio::test]
async fn the_anthropic_sdk_completes_streams_counts_and_lists() {
    let python = python().await;
    let world = world().ready().await;
    let base = format!("{}/llm/anthropic", world.host().url);
    let environment = [
        ("ANTHROPIC_BASE_URL", base.as_str()),
        ("ANTHROPIC_API_KEY", &world.token),
        ("MODEL", MODEL),
    ];
    let said = run(&python, "anthropic_client.py", &environment).await;
    assert_eq!(said["message"], "Hello from the stand-in.");
    assert_eq!(said["streamed"], "Hello from the stand-in.");
    assert_eq!(
        said["pieces"],
        json!(["Hello ", "from ", "the ", "stand-in."])
    );
    assert_eq!(said["stop_reason"], "end_turn");
    assert_eq!(said["input_tokens"].to_string(), "12");
    assert_eq!(said["models"], json!([MODEL]));
    assert_eq!(said["model"], MODEL);
    assert_eq!(said["refused"].to_string(), "403");
    for received in world.anthropic.requests() {
        assert_eq!(
            received.fields.all("x-api-key"),
            [KEY],
            "{}",
            received.target
        );
        assert!(!received.fields.has("authorization"), "{}", received.target);
    }
    assert_eq!(world.anthropic.requests().len(), 5);
}

#[tokio::test]
async fn the_openai_sdk_completes_a_chat_with_the_stand_in_as_its_key() {
    let python = python().await;
    let world = world().ready().await;
    let base = format!("{}/egress/OPENAI", world.host().url);
    let environment = [
        ("OPENAI_KEY", world.token.as_str()),
        ("OPENAI_BASE_URL", &base),
        ("MODEL", MODEL),
    ];
    let said = run(&python, "openai_client.py", &environment).await;
    assert_eq!(said["text"], "Hello from the echo host.");
    let received = world.echo.last();
    assert_eq!(received.target, "/v1/chat/completions");
    assert_eq!(
        received.fields.all("authorization"),
        [format!("Bearer {VALUE}")]
    );
}

async fn run(python: &Path, script: &str, environment: &[(&str, &str)]) -> Value {
    let output = tokio::process::Command::new(python)
        .arg(root().join("tests/python").join(script))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .envs(environment.iter().copied())
        .kill_on_drop(true)
        .output();
    let output = soon("the script ends", output).await.expect("Python runs");
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("the script prints JSON")
}

/// A Python that has the SDKs: the one that `JACKFIELD_PYTHON` names, or one
/// in a virtual environment in the target folder, made once.
async fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("JACKFIELD_PYTHON") {
        return PathBuf::from(python);
    }
    tokio::task::spawn_blocking(virtual_environment)
        .await
        .expect("the virtual environment is made")
}

fn virtual_environment() -> PathBuf {
    let requirements = root().join("tests/python/requirements.txt");
    let wanted = fs::read_to_string(&requirements).expect("the requirements");
    let target = Path::new(BINARY)
        .parent()
        .and_then(Path::parent)
        .expect("the binary lies in a target folder");
    let (folder, lock) = (target.join("venv"), target.join("venv.lock"));
    let lock = File::create(lock).expect("a lock file");
    lock.lock().expect("a lock");
    let python = folder.join("bin/python");
    let made = folder.join("made-for.txt");
    if fs::read_to_string(&made).is_ok_and(|text| text == wanted) {
        return python;
    }
    let hint = "The SDK tests need Python 3.9 or newer with venv and pip, and PyPI: install python3 and \
                python3-venv, or name a Python that has both SDKs in JACKFIELD_PYTHON.";
    let _ = fs::remove_dir_all(&folder);
    step(
        Command::new("python3").args(["-m", "venv"]).arg(&folder),
        hint,
    );
    step(
        Command::new(&python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "-r",
            ])
            .arg(&requirements),
        hint,
    );
    fs::write(&made, wanted).expect("a file");
    python
}

fn step(command: &mut Command, hint: &str) {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}. {hint}"));
    assert!(
        output.status.success(),
        "{command:?} failed: {}{}\n{hint}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}
