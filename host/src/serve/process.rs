//! What the process does to itself: no core dumps, no debugger, no vault key
//! in its environment; and the signals it stops on.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use zeroize::Zeroizing;

use crate::cli::ServeArguments;
use crate::plugins::open_page_map;

/// The variable that may hold the vault's key.
const VAULT_KEY: &str = "JACKFIELD_VAULT_KEY";

/// The longest text that can be a key of 32 bytes.
const MAX_KEY_TEXT: usize = 1024;

/// Keeps what is in memory out of core files and away from other processes of
/// the same user. Where the system refuses, the host is as safe as any other
/// process; it runs all the same.
pub(super) fn harden() {
    // Without it the engine works all the same, and takes longer for a call.
    let _slower = open_page_map();
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let _refused = rustix::process::setrlimit(Resource::Core, none);
    let _refused = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Lets this process have as many descriptors as the system allows it, since
/// every connection takes one. Gives how many that are; none where there is no
/// limit.
pub(super) fn raise_descriptors() -> Option<u64> {
    let allowed = rustix::process::getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: allowed.maximum,
        maximum: allowed.maximum,
    };
    let _as_before = rustix::process::setrlimit(Resource::Nofile, raised);
    rustix::process::getrlimit(Resource::Nofile).current
}

/// Starts this program again without the variable, if it is there. A variable
/// that is only unset stays readable in `/proc/PID/environ`, and unsetting one
/// is unsafe while other threads run; a new start leaves no trace, keeps the
/// process id, and no child can inherit what is not there. `serve` gets the
/// key through its standard input instead.
pub(super) fn drop_vault_key_variable(serving: bool) -> Result<()> {
    let Some(key) = std::env::var_os(VAULT_KEY) else {
        return Ok(());
    };
    let mut again = again()?;
    if serving {
        again.arg("--vault-key-stdin").stdin(pipe_holding(key)?);
    }
    Err(again.exec()).context("could not start again without JACKFIELD_VAULT_KEY")
}

fn again() -> Result<Command> {
    let program = std::env::current_exe().context("could not find this program again")?;
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env_remove(VAULT_KEY);
    Ok(command)
}

fn pipe_holding(key: OsString) -> Result<std::io::PipeReader> {
    if key.len() > MAX_KEY_TEXT {
        bail!("{VAULT_KEY} is too long for a key of 32 bytes");
    }
    let (reader, mut writer) = std::io::pipe().context("no pipe for the vault's key")?;
    writer
        .write_all(key.as_bytes())
        .context("no pipe for the vault's key")?;
    Ok(reader)
}

/// The vault's key from standard input, where the command line says so.
pub(super) fn vault_key(arguments: &ServeArguments) -> Result<Option<Zeroizing<String>>> {
    if !arguments.vault_key_stdin {
        return Ok(None);
    }
    // Room for all of it: a buffer that grew would leave copies behind.
    let mut text = Zeroizing::new(String::with_capacity(2 * MAX_KEY_TEXT));
    std::io::stdin()
        .take(MAX_KEY_TEXT as u64 + 1)
        .read_to_string(&mut text)
        .context("could not read the vault's key from standard input")?;
    let trimmed = text.trim_ascii();
    if trimmed.is_empty() || trimmed.len() > MAX_KEY_TEXT {
        bail!("standard input holds no vault key: 32 bytes as base64 or hex");
    }
    Ok(Some(Zeroizing::new(trimmed.to_owned())))
}

/// What the conformance suite tells the broker that it starts.
const CONFORMANCE: &str = "CONFORMANCE_ENV";

/// The conformance suite's environment, as it stands there.
pub(super) fn conformance_environment() -> Result<String> {
    let Some(text) = std::env::var_os(CONFORMANCE) else {
        bail!(
            "`serve --conformance` serves what {CONFORMANCE} says, and it is not set. Run it under the suite, which sets it: \
             jackfield conformance --start 'jackfield serve --conformance'"
        );
    };
    text.into_string()
        .map_err(|_| anyhow::anyhow!("{CONFORMANCE} is no text"))
}

/// SIGTERM and SIGINT.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(super) fn new() -> Result<Self> {
        let watch = |kind| signal(kind).context("could not watch for signals");
        Ok(Self {
            terminate: watch(SignalKind::terminate())?,
            interrupt: watch(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
