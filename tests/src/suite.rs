//! The conformance suite as a process: what it printed, and how it ended.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;
use tokio::process::{Child, Command};

/// How long a whole run may take; it ends a test that would hang.
const LIMIT: Duration = Duration::from_secs(180);

/// A run that has ended.
#[derive(Debug)]
pub struct Judged {
    /// The exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A command of the suite, with these arguments.
#[must_use]
pub fn command(binary: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(binary);
    command
        .arg("conformance")
        .args(arguments)
        .env_remove("CONFORMANCE_ENV")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

/// Waits for the suite's end.
///
/// # Panics
/// When it does not end.
pub async fn ended(child: Child) -> Judged {
    let output = tokio::time::timeout(LIMIT, child.wait_with_output()).await;
    let output = output.expect("the suite ends").expect("the suite ran");
    let judged = Judged {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    assert!(!judged.stderr.contains("panicked"), "{judged:#?}");
    judged
}

/// Runs the suite with these arguments.
///
/// # Panics
/// When it does not end.
pub async fn judge(binary: &str, arguments: &[&str]) -> Judged {
    let child = command(binary, arguments)
        .spawn()
        .expect("the binary starts");
    ended(child).await
}

impl Judged {
    /// The ids of the checks with this first word: `ok`, `FAIL` or `skip`.
    #[must_use]
    pub fn checks(&self, word: &str) -> Vec<&str> {
        self.stdout
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                (line.starts_with(word) && words.next() == Some(word)).then(|| words.next())?
            })
            .collect()
    }

    /// The lines of JSON.
    ///
    /// # Panics
    /// When one is none.
    #[must_use]
    pub fn json(&self) -> Vec<Value> {
        let lines = self.stdout.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")))
            .collect()
    }
}

/// The command line that runs a program with arguments, for `sh -c`.
#[must_use]
pub fn shell(program: &Path, arguments: &str) -> String {
    format!("exec '{}' {arguments}", program.display())
}
