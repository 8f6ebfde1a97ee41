//! The binary as an operator meets it: exit codes, what it prints where, what
//! it does to itself, and how it stops.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests are no test functions to clippy"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::Value;

fn jackfield(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_jackfield"));
    command
        .current_dir(folder)
        .env_remove("JACKFIELD_VAULT_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn run(folder: &Path, line: &str) -> Output {
    jackfield(folder).args(line.split(' ')).output().unwrap()
}

fn run_with_input(folder: &Path, line: &str, input: &str) -> Output {
    let mut child = jackfield(folder)
        .args(line.split(' '))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A host that is running: its first line of standard output has been read.
struct Host {
    child: Child,
    announced: Value,
    rest: BufReader<std::process::ChildStdout>,
}

impl Host {
    fn start(command: &mut Command) -> Self {
        let mut child = command.args(["serve", "--json"]).spawn().unwrap();
        let mut rest = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        rest.read_line(&mut line).unwrap();
        let announced = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut said = String::new();
            child
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut said)
                .unwrap();
            panic!("{line}{said}")
        });
        Self {
            child,
            announced,
            rest,
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    fn end(mut self) -> (i32, String) {
        let code = self.child.wait().unwrap().code().unwrap();
        let mut rest = String::new();
        self.rest.read_to_string(&mut rest).unwrap();
        (code, rest)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("jackfield.toml"),
        "listen = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    folder
}

#[test]
fn exit_codes_tell_done_from_refused_from_nonsense() {
    let folder = folder();
    let check = |line: &str, code: i32, said: &str| {
        let output = run(folder.path(), line);
        let all = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {all}");
        assert!(all.contains(said), "{line}: {all}");
    };
    check("config check", 0, "broker word: lobby");
    check("config example", 0, "state_dir = ");
    check("--help", 0, "Exit codes");
    check("box list", 1, "no host is running");
    check("box list --json", 1, r#""error":{"#);
    check("config check --config nowhere.toml", 1, "no such file");
    check("serve --config nowhere.toml", 1, "no such file");
    check("box add NOT-LOWER", 2, "box name");
    check("", 2, "Usage");
    check("frobnicate", 2, "unrecognized subcommand");
}

#[test]
fn the_example_that_is_printed_is_a_configuration() {
    let folder = folder();
    let example = run(folder.path(), "config example");
    std::fs::write(folder.path().join("jackfield.toml"), &example.stdout).unwrap();
    let checked = run(folder.path(), "config check --json");
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    let findings: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(findings["ok"], true);
}

#[test]
fn a_host_serves_commands_and_stops_when_it_is_told() {
    let folder = folder();
    let host = Host::start(&mut jackfield(folder.path()));
    let url = host.announced["url"].as_str().unwrap();
    assert_eq!(
        url,
        format!("http://{}", host.announced["listen"].as_str().unwrap())
    );
    assert!(!url.ends_with(":0"), "{url}");
    let state = folder.path().join("jackfield-state");
    assert_eq!(state.metadata().unwrap().mode() & 0o777, 0o700);
    assert_eq!(
        state.join("admin.sock").metadata().unwrap().mode() & 0o777,
        0o600
    );

    let added = run(folder.path(), "box add alice");
    assert_eq!(
        text(&added.stdout).trim_end().len(),
        47,
        "{}",
        text(&added.stderr)
    );
    let added = run(folder.path(), "box add bob --json");
    let added: Value = serde_json::from_slice(&added.stdout).unwrap();
    assert_eq!(added["box"], "bob");
    let saved = run_with_input(
        folder.path(),
        "secret set KEY --box alice --host api.example.com",
        "the value of a secret\n",
    );
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    for line in [
        "secret list",
        "secret list --json",
        "box env alice",
        "box list",
        "plugin list",
        "credential list",
    ] {
        let output = run(folder.path(), line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        assert!(
            !text(&output.stdout).contains("value of a secret"),
            "{line}"
        );
    }
    let refused = run(folder.path(), "box rotate nobody");
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("no box nobody"),
        "{}",
        text(&refused.stderr)
    );

    host.signal(Signal::TERM);
    let (code, rest) = host.end();
    assert_eq!((code, rest.as_str()), (0, ""));
    assert!(!state.join("admin.sock").exists());
}

/// The same, by a user whose umask lets the group write.
fn with_umask_002(folder: &Path, line: &str) -> Command {
    let plain = jackfield(folder);
    let mut command = Command::new("sh");
    command
        .args(["-c", "umask 002; exec \"$0\" \"$@\""])
        .arg(plain.get_program())
        .args(line.split_whitespace())
        .current_dir(folder)
        .env_remove("JACKFIELD_VAULT_KEY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

#[test]
fn what_is_built_is_loaded_whatever_the_umask() {
    let folder = folder();
    let plugins = folder.path().join("jackfield-state/plugins");
    let guest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/guests/hermit");
    let build = format!("plugin build {}", guest.display());
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    // The second build finds the bytes unchanged, and what an earlier one left.
    for _ in 0..2 {
        let built = with_umask_002(folder.path(), &build).output().unwrap();
        assert!(built.status.success(), "{}", text(&built.stderr));
        let component = plugins.join("hermit.wasm");
        assert_eq!((mode(&plugins), mode(&component)), (0o755, 0o644));
        for (path, wide) in [(&plugins, 0o775), (&component, 0o664)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(wide)).unwrap();
        }
    }
    let built = with_umask_002(folder.path(), &build).output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    let host = Host::start(&mut with_umask_002(folder.path(), ""));
    assert_eq!(host.announced["plugins_problem"], Value::Null);
    assert_eq!(host.announced["plugins"][0]["state"], "waiting");
    host.signal(Signal::TERM);
    assert_eq!(host.end().0, 0);
}

#[test]
fn a_first_start_says_what_to_do_and_what_the_configuration_says_in_vain() {
    let folder = folder();
    let config = folder.path().join("jackfield.toml");
    std::fs::write(
        &config,
        "listen = \"127.0.0.1:0\"\n[plugins.misspelled]\ngrant = []\n",
    )
    .unwrap();
    let mut child = jackfield(folder.path()).arg("serve").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("listening on"));
    let said = lines.next().unwrap().unwrap();
    assert!(said.contains("every capability is a 404"), "{said}");
    let listed = run(folder.path(), "plugin list");
    assert!(text(&listed.stderr).contains("[plugins.misspelled]"));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let log = text(&output.stderr);
    assert!(
        log.contains("misspelled") && log.contains("not found"),
        "{log}"
    );
}

#[test]
fn a_half_sent_command_does_not_keep_the_host_from_stopping() {
    let folder = folder();
    let config = "listen = \"127.0.0.1:0\"\n[limits]\ndrain_seconds = 1\n";
    std::fs::write(folder.path().join("jackfield.toml"), config).unwrap();
    let host = Host::start(&mut jackfield(folder.path()));
    let socket = folder.path().join("jackfield-state/admin.sock");
    let mut command = UnixStream::connect(socket).unwrap();
    command
        .write_all(
            b"POST /boxes HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9\r\n\r\n",
        )
        .unwrap();
    // The host asks for the body: it has taken the command up.
    let mut asked = [0; 12];
    command.read_exact(&mut asked).unwrap();
    assert_eq!(&asked, b"HTTP/1.1 100");
    command.write_all(b"{").unwrap();

    host.signal(Signal::TERM);
    let process = Pid::from_child(&host.child);
    let (tell, told) = mpsc::channel();
    let waiting = std::thread::spawn(move || tell.send(host.end()));
    let ended = told.recv_timeout(Duration::from_secs(30));
    if ended.is_err() {
        kill_process(process, Signal::KILL).unwrap();
    }
    assert_eq!(ended.unwrap().0, 0);
    waiting.join().unwrap().unwrap();
}

#[test]
fn a_second_host_leaves_the_first_alone() {
    let folder = folder();
    let host = Host::start(&mut jackfield(folder.path()));
    let second = run(folder.path(), "serve");
    assert_eq!(second.status.code(), Some(1), "{}", text(&second.stdout));
    assert!(run(folder.path(), "box list").status.success());
    host.signal(Signal::INT);
    assert_eq!(host.end().0, 0);
}

#[test]
fn the_vault_key_is_in_no_environment_and_no_core() {
    // Where the system allows cores, the host must be what forbids them.
    let most = getrlimit(Resource::Core).maximum;
    let allowed = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Core, allowed).unwrap();
    let folder = folder();
    let key = "a".repeat(64);
    let mut command = jackfield(folder.path());
    command.env("JACKFIELD_VAULT_KEY", &key);
    let host = Host::start(&mut command);
    let process = format!("/proc/{}", host.child.id());
    let read = |file: &str| std::fs::read_to_string(format!("{process}/{file}"));
    // A process that cannot be looked into is what was asked for; root can.
    if let Ok(environment) = read("environ") {
        assert!(
            !environment.contains("JACKFIELD_VAULT_KEY"),
            "{environment:?}"
        );
        assert!(!environment.contains(&key));
    }
    assert!(!read("cmdline").unwrap().contains(&key));
    let limits = read("limits").unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"))
        .unwrap();
    assert_eq!(
        core.split_whitespace().filter(|word| *word == "0").count(),
        2,
        "{core}"
    );
    host.signal(Signal::TERM);
    assert_eq!(host.end().0, 0);

    // What needs no key starts again without it just the same.
    let checked = jackfield(folder.path())
        .env("JACKFIELD_VAULT_KEY", &key)
        .args(["config", "check"])
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", text(&checked.stderr));
}

#[test]
fn the_host_takes_all_the_descriptors_that_it_is_allowed() {
    let few = Rlimit {
        current: Some(256),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, few).unwrap();
    let folder = folder();
    let config = "listen = \"127.0.0.1:0\"\n[limits]\nmax_connections = 1000000\n";
    std::fs::write(folder.path().join("jackfield.toml"), config).unwrap();
    let mut host = Host::start(&mut jackfield(folder.path()));
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", host.child.id())).unwrap();
    let files = limits
        .lines()
        .find(|line| line.starts_with("Max open files"))
        .unwrap();
    let numbers: Vec<&str> = files.split_whitespace().skip(3).take(2).collect();
    assert!(
        matches!(numbers.as_slice(), [soft, hard] if soft == hard && *soft != "256"),
        "{files}"
    );
    let mut log = host.child.stderr.take().unwrap();
    host.signal(Signal::TERM);
    assert_eq!(host.end().0, 0);
    let mut said = String::new();
    log.read_to_string(&mut said).unwrap();
    let most = few.maximum.map_or(u64::MAX, |most| most / 4 * 3);
    assert_eq!(said.contains("LimitNOFILE"), most < 1_000_000, "{said}");
}
