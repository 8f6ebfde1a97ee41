//! The real binary as a process: its configuration, its commands, its life.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdout, Command};

use crate::soon;

/// Where a host lives: its folder, its configuration and the binary it runs.
pub struct Home {
    dir: tempfile::TempDir,
    binary: PathBuf,
    environment: Vec<(String, OsString)>,
}

/// What a command printed and how it ended.
#[derive(Debug)]
pub struct Output {
    /// The exit code.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Holds the command to having succeeded.
    ///
    /// # Panics
    /// When it failed.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "the command failed: {self:#?}");
        self
    }

    /// Holds the command to having failed, and gives all it printed.
    ///
    /// # Panics
    /// When it succeeded, or said nothing.
    pub fn failed(self) -> String {
        assert_ne!(self.code, Some(0), "the command succeeded: {self:#?}");
        assert!(!self.stderr.trim().is_empty(), "no reason: {self:#?}");
        assert!(
            !self.stderr.contains("panicked"),
            "a panic is no reason: {self:#?}"
        );
        format!("{}{}", self.stdout, self.stderr)
    }

    /// Standard output as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_str(self.stdout.trim())
            .unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }
}

impl Home {
    /// A folder of its own for a host that runs this binary.
    ///
    /// # Panics
    /// When no folder can be made.
    #[must_use]
    pub fn new(binary: &Path) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let plugins = dir.path().join("plugins");
        fs::create_dir(&plugins).expect("a folder");
        fs::set_permissions(&plugins, fs::Permissions::from_mode(0o755)).expect("a mode");
        Self {
            dir,
            binary: binary.to_owned(),
            environment: Vec::new(),
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The state folder.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.path().join("state")
    }

    /// The plugins folder.
    #[must_use]
    pub fn plugins(&self) -> PathBuf {
        self.path().join("plugins")
    }

    /// The configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.path().join("jackfield.toml")
    }

    /// The host's log so far.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.log_path()).map_or_else(
            |_| String::new(),
            |log| String::from_utf8_lossy(&log).into_owned(),
        )
    }

    fn log_path(&self) -> PathBuf {
        self.path().join("host.log")
    }

    /// Sets a variable for the host and the commands that follow.
    pub fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.into()));
    }

    /// Unsets a variable that [`Home::set`] set.
    pub fn unset(&mut self, name: &str) {
        self.environment.retain(|(known, _)| known != name);
    }

    /// Writes the configuration. `listen`, `state_dir` and `plugins_dir` stand
    /// in it already.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn configure(&self, rest: &str) {
        let text = format!(
            "listen = \"127.0.0.1:0\"\nstate_dir = {:?}\nplugins_dir = {:?}\n{rest}",
            self.state(),
            self.plugins()
        );
        fs::write(self.config(), text).expect("the configuration is written");
    }

    /// Runs a command with `--config` of this home.
    pub async fn run(&self, arguments: &[&str], input: &[u8]) -> Output {
        let mut command = self.command();
        command
            .args(arguments)
            .arg("--config")
            .arg(self.config())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the binary starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that reads nothing may be gone before it is told anything.
        let _ = stdin.write_all(input).await;
        drop(stdin);
        let output = soon("the command ends", child.wait_with_output())
            .await
            .expect("the command ran");
        Output {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The running host's counters.
    ///
    /// # Panics
    /// When it does not answer.
    pub async fn metrics(&self) -> String {
        let socket = self.state().join("admin.sock");
        let mut stream = UnixStream::connect(socket).await.expect("the admin socket");
        let asked = b"GET /metrics HTTP/1.1\r\nhost: jackfield\r\nconnection: close\r\n\r\n";
        stream.write_all(asked).await.expect("the host reads");
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        soon("the counters", read).await.expect("the host answers");
        answer
    }

    /// Starts the host and waits until it listens.
    ///
    /// # Panics
    /// When it ends instead.
    pub async fn serve(&self, arguments: &[&str]) -> Host {
        match self.try_serve(arguments).await {
            Ok(host) => host,
            Err(status) => panic!("the host ended with {status}:\n{}", self.log()),
        }
    }

    /// Starts the host; if it ends before it listens, with which status.
    ///
    /// # Errors
    /// When it ends.
    ///
    /// # Panics
    /// When the binary does not start, or its first line is not what it should
    /// be.
    pub async fn try_serve(&self, arguments: &[&str]) -> Result<Host, ExitStatus> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_path())
            .expect("a log file");
        let mut child = self
            .command()
            .arg("serve")
            .args(arguments)
            .arg("--json")
            .arg("--config")
            .arg(self.config())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = soon("the host's first line", lines.next_line())
            .await
            .expect("standard output is text");
        let Some(first) = first else {
            return Err(soon("the host ends", child.wait()).await.expect("a status"));
        };
        let started: Value =
            serde_json::from_str(&first).unwrap_or_else(|error| panic!("{error}: {first:?}"));
        let listen = started["listen"].as_str().unwrap_or_default();
        Ok(Host {
            address: listen
                .parse()
                .unwrap_or_else(|error| panic!("{error}: {first:?}")),
            url: started["url"].as_str().unwrap_or_default().to_owned(),
            started,
            child,
            lines,
        })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .env_clear()
            .envs(std::env::vars_os().filter(|(name, _)| {
                ["PATH", "HOME", "RUST_BACKTRACE"]
                    .iter()
                    .any(|kept| name == kept)
            }))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.path())
            .kill_on_drop(true);
        command
    }
}

/// A running host. Dropped, it is killed by its id, as by a crash; [`Host::stop`]
/// ends it in order.
pub struct Host {
    /// Where it listens.
    pub address: SocketAddr,
    /// The base URL that it printed.
    pub url: String,
    /// All of its first line.
    pub started: Value,
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Host {
    /// Sends it a SIGTERM.
    ///
    /// # Panics
    /// When it has ended already.
    pub fn terminate(&self) {
        let id = self.child.id().expect("the host runs");
        let pid = i32::try_from(id)
            .ok()
            .and_then(rustix::process::Pid::from_raw)
            .expect("a process id");
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("a signal");
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// When it does not end.
    pub async fn ended(&mut self) -> ExitStatus {
        soon("the host ends", self.child.wait())
            .await
            .expect("a status")
    }

    /// Ends it in order.
    ///
    /// # Panics
    /// When it does not exit with 0.
    pub async fn stop(mut self) {
        self.terminate();
        let status = self.ended().await;
        assert_eq!(status.code(), Some(0), "the host ended with {status}");
    }

    /// Ends it as a crash would.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub async fn crash(mut self) {
        soon("the host is killed", self.child.kill())
            .await
            .expect("the host was killed");
    }

    /// The next line of its standard output.
    ///
    /// # Panics
    /// When it is no text.
    pub async fn line(&mut self) -> Option<String> {
        soon("a line of the host", self.lines.next_line())
            .await
            .expect("standard output is text")
    }

    /// Its process id.
    ///
    /// # Panics
    /// When it has ended.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id().expect("the host runs")
    }

    /// The most memory that it has held so far, in bytes.
    /// A later one can be a little less: the system notes a peak late.
    ///
    /// # Panics
    /// When the system does not tell.
    #[must_use]
    pub fn peak_memory(&self) -> u64 {
        self.memory_as("VmHWM:")
    }

    /// The memory that it holds now, in bytes.
    ///
    /// # Panics
    /// When the system does not tell.
    #[must_use]
    pub fn memory(&self) -> u64 {
        self.memory_as("VmRSS:")
    }

    fn memory_as(&self, name: &str) -> u64 {
        let id = self.id();
        let status = fs::read_to_string(format!("/proc/{id}/status")).expect("a status");
        let kibibytes = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|line| line.trim().strip_suffix("kB"))
            .and_then(|line| line.trim().parse::<u64>().ok());
        kibibytes.expect("an amount") * 1024
    }
}
