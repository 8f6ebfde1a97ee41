//! The broker under test as a command: started in a process group of its own,
//! told what it needs, asked for one line, and ended for good.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::conformance::StartError;
use crate::conformance::environment::{BOXES, Environment};

/// The variable that holds the environment.
const VARIABLE: &str = "CONFORMANCE_ENV";

/// How much a broker may print before its line, and in it.
const MOST: u64 = 1024 * 1024;

/// The longest token that is taken.
const MOST_TOKEN: usize = 4096;

/// How long a command may take to end after each thing that is done about it.
const GRACE: Duration = Duration::from_secs(5);

/// How often a process group is looked at while it ends; no event tells.
const LOOK: Duration = Duration::from_millis(20);

/// What the command printed.
pub(super) struct Started {
    /// The broker's base URL.
    pub(super) url: String,
    /// The boxes' tokens, in the order of [`BOXES`].
    pub(super) tokens: [String; 2],
}

/// A running command; dropped, its whole group is killed.
pub(super) struct Broker {
    child: Child,
    input: Option<ChildStdin>,
    group: Option<Pid>,
    _drained: JoinSet<()>,
}

/// What it took to end a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It ended by itself when its input was closed, or before.
    InputClosed,
    /// It ended on SIGTERM.
    Terminated,
    /// It had to be killed.
    Killed,
}

#[derive(Deserialize)]
struct Line {
    url: String,
    tokens: std::collections::BTreeMap<String, String>,
}

impl Broker {
    /// Runs the command and waits for its line.
    pub(super) async fn start(
        command: &str,
        environment: &Environment,
        limit: Duration,
    ) -> Result<(Self, Started), StartError> {
        let json =
            serde_json::to_string(environment).expect("texts and lists of texts are always JSON");
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(command)
            .env(VARIABLE, json)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(StartError::Spawn)?;
        let group = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mut broker = Self {
            child,
            input,
            group,
            _drained: JoinSet::new(),
        };
        let Some(output) = output else {
            return Err(StartError::Ended("unknown".to_owned()));
        };
        let mut output = BufReader::new(output);
        let mut passed_over = None;
        let read = timeout(limit, first_line(&mut output, &mut passed_over)).await;
        let line = match read {
            Err(_) => return Err(StartError::NoLine(limit.as_secs(), said(passed_over))),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(Some(line))) => line,
            Ok(Ok(None)) => {
                let ended = timeout(GRACE, broker.child.wait()).await;
                let ended = match ended {
                    Ok(Ok(status)) => status.to_string(),
                    Ok(Err(_)) | Err(_) => "it runs on, with its output closed".to_owned(),
                };
                return Err(StartError::Ended(format!("{ended}{}", said(passed_over))));
            }
        };
        let started = understand(&line)?;
        broker._drained.spawn(drain(output));
        Ok((broker, started))
    }

    /// How the command ended, where it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Ends the command and whatever it started.
    pub(super) async fn end(mut self) -> End {
        drop(self.input.take());
        if self.gone_within_grace().await {
            return End::InputClosed;
        }
        self.signal(Signal::TERM);
        if self.gone_within_grace().await {
            return End::Terminated;
        }
        self.signal(Signal::KILL);
        // Nothing survives that; a process in the kernel's hands may linger.
        let _gone = self.gone_within_grace().await;
        End::Killed
    }

    /// Waits for the command, and then for the rest of its group.
    async fn gone_within_grace(&mut self) -> bool {
        let group = self.group;
        let gone = async {
            let _status = self.child.wait().await;
            while group.is_some_and(is_alive) {
                tokio::time::sleep(LOOK).await;
            }
        };
        timeout(GRACE, gone).await.is_ok()
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // It may have ended in the meantime.
            let _gone = rustix::process::kill_process_group(group, signal);
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if self.group.is_some_and(is_alive) {
            self.signal(Signal::KILL);
        }
    }
}

/// Whether anybody is left of a process group.
fn is_alive(group: Pid) -> bool {
    rustix::process::test_kill_process_group(group).is_ok()
}

/// The first line that begins like a JSON object; lines before it are a
/// banner's. None at the output's end.
async fn first_line(
    output: &mut BufReader<ChildStdout>,
    passed_over: &mut Option<String>,
) -> Result<Option<String>, StartError> {
    let mut output = output.take(MOST);
    loop {
        let mut line = Vec::new();
        let read = output.read_until(b'\n', &mut line).await;
        read.map_err(StartError::Output)?;
        if output.limit() == 0 {
            return Err(StartError::TooMuch(MOST >> 20));
        }
        if line.is_empty() {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        if text.starts_with('{') {
            return Ok(Some(text));
        }
        if !text.is_empty() {
            *passed_over = Some(text);
        }
    }
}

fn said(passed_over: Option<String>) -> String {
    passed_over.map_or_else(String::new, |line| {
        let line: String = line.chars().take(200).collect();
        format!("; the last line that it printed is {line:?}")
    })
}

fn understand(line: &str) -> Result<Started, StartError> {
    let wrong = |why: String| StartError::Line(why);
    let line: Line = serde_json::from_str(line).map_err(|cause| wrong(cause.to_string()))?;
    let [first, second] = BOXES.map(|name| {
        let token = line.tokens.get(name).cloned().unwrap_or_default();
        if token.is_empty() {
            return Err(wrong(format!("tokens holds none for the box {name}")));
        }
        if token.len() > MOST_TOKEN {
            return Err(wrong(format!(
                "the token of {name} is longer than {MOST_TOKEN} characters"
            )));
        }
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong(format!(
                "the token of {name} holds what no header can carry: a space, a control or no ASCII"
            )));
        }
        Ok(token)
    });
    let tokens = [first?, second?];
    let [first, second] = &tokens;
    if first == second {
        return Err(wrong("both boxes have the same token".to_owned()));
    }
    Ok(Started {
        url: line.url,
        tokens,
    })
}

/// A broker that prints on must not stand still because nobody reads it.
async fn drain(mut output: BufReader<ChildStdout>) {
    let mut block = vec![0; 16 * 1024];
    while output.read(&mut block).await.is_ok_and(|read| read > 0) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_understood() {
        let check = |line: &str, expected: Result<(), &str>| {
            let read = understand(line)
                .map(|_started| ())
                .map_err(|e| e.to_string());
            match (&read, expected) {
                (Ok(()), Ok(())) => {}
                (Err(said), Err(words)) => assert!(said.contains(words), "{line}: {said}"),
                (read, _) => panic!("{line}: {read:?}"),
            }
        };
        let tokens = |first: &str, second: &str| {
            format!(
                r#"{{"url":"http://a","tokens":{{"conformance-a":"{first}","conformance-b":"{second}"}},"more":1}}"#
            )
        };
        check(&tokens("one", "two"), Ok(()));
        check(&tokens("one", "one"), Err("the same token"));
        check(&tokens("", "two"), Err("none for the box conformance-a"));
        check(&tokens("a b", "two"), Err("no header can carry"));
        check(
            r#"{"url":"http://a","tokens":{"conformance-a":"x"}}"#,
            Err("conformance-b"),
        );
        check(r#"{"url":"http://a"}"#, Err("tokens"));
        check(&tokens(&"t".repeat(4097), "two"), Err("longer than 4096"));
        check("{", Err("EOF"));
    }
}
