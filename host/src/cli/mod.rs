//! The command line: a file for each command. It asks the running host over
//! its admin socket and prints what it is told; it decides nothing.

mod audit;
mod author;
mod boxes;
mod config;
pub(crate) mod conformance;
mod credential;
mod grant;
mod journal;
mod log;
pub(crate) mod plugin;
mod print;
mod replay;
mod secret;
mod value;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};

use crate::admin::client::Client;
use crate::config::{Config, help};

pub use conformance::ConformanceArguments;

use plugin::PluginCommand;
use print::Printer;

/// A credential broker whose capabilities are sandboxed plugins.
#[derive(Debug, Parser)]
#[command(name = "jackfield", version, about, after_help = help::COMMANDS)]
pub struct Cli {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the process's arguments; where they make no sense, says so and
    /// exits with 2. An argument in a place where none belongs is not
    /// repeated: it may be a value that somebody meant to save.
    #[must_use]
    pub fn read() -> Self {
        Self::try_parse().unwrap_or_else(|error| without_values(error).exit())
    }
}

fn without_values(mut error: clap::Error) -> clap::Error {
    let is_flag = |text: &str| text.starts_with("--") && !text.contains('=');
    if let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg)
        && error.kind() == ErrorKind::UnknownArgument
        && !is_flag(argument)
    {
        let instead = "(not shown; values come from standard input or --from-file)".to_owned();
        error.remove(ContextKind::SuggestedArg);
        error.remove(ContextKind::Suggested);
        error.insert(ContextKind::InvalidArg, ContextValue::String(instead));
    }
    error
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// The configuration [default: ./jackfield.toml, or none]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the host
    #[command(after_help = "\
Examples:
  jackfield serve --demo
  jackfield serve --config /etc/jackfield/jackfield.toml

On SIGTERM or SIGINT the host stops accepting, finishes what is in flight for
up to limits.drain_seconds, and exits 0. A second signal ends it at once.
The vault's key is in state_dir, made at the first start; to keep it elsewhere
pass it in JACKFIELD_VAULT_KEY or on standard input.")]
    Serve(ServeArguments),
    /// Hold a broker of the protocol, in any language, to what its page says
    Conformance(ConformanceArguments),
    /// Everything else.
    #[command(flatten)]
    Operate(Operate),
}

/// How to serve.
#[derive(Debug, Clone, Args)]
pub struct ServeArguments {
    /// Build the plugins, start stand-in upstreams and a box, and print curl lines to try
    #[arg(long)]
    pub demo: bool,
    /// Serve what CONFORMANCE_ENV says, as the command of `jackfield conformance --start`
    #[arg(long, conflicts_with_all = ["demo", "vault_key_stdin"])]
    pub conformance: bool,
    /// With --conformance: take the plugins from this folder instead of building those that ship
    #[arg(long, value_name = "DIR", requires = "conformance")]
    pub plugins_dir: Option<PathBuf>,
    /// With --conformance: load this plugin, too; may be given again
    #[arg(long, value_name = "FILE", requires = "conformance")]
    pub extra_plugin: Vec<PathBuf>,
    /// Approve every plugin that lies in plugins_dir now, and print what each may do
    #[arg(long)]
    pub approve_plugins: bool,
    /// Read the vault's key from standard input: 32 bytes as base64 or hex
    #[arg(long)]
    pub vault_key_stdin: bool,
}

/// The operator's commands.
#[derive(Debug, Subcommand)]
pub enum Operate {
    /// Boxes: who may ask
    #[command(subcommand)]
    Box(boxes::BoxCommand),
    /// A box's secrets: values that its requests may carry to one host
    #[command(subcommand)]
    Secret(secret::SecretCommand),
    /// Credentials for upstreams: what pays for the boxes' requests
    #[command(subcommand)]
    Credential(credential::CredentialCommand),
    /// Grants: whose turn it is, for a while, on their own credential
    #[command(subcommand)]
    Grant(grant::GrantCommand),
    /// Plugins: what is served
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// What a plugin noted in its journal: print it, or delete what is old
    #[command(after_help = "\
Examples:
  jackfield journal hud                                   every record, a line each
  jackfield journal hud --box alice --since 2026-01-31T12:00:00Z
  jackfield journal hud --json | jq .record
  jackfield journal hud --prune 2026-01-01T00:00:00Z")]
    Journal(journal::JournalArguments),
    /// The decision log: verify it, print its head, its key or its records
    #[command(subcommand)]
    Log(log::LogCommand),
    /// The configuration
    #[command(subcommand)]
    Config(config::ConfigCommand),
}

impl Operate {
    /// The exit code of this command where it was refused, or failed.
    #[must_use]
    pub fn failure(&self) -> ExitCode {
        match self {
            Self::Plugin(PluginCommand::Audit(_)) => ExitCode::from(audit::NOT_AUDITED),
            Self::Plugin(PluginCommand::Replay(_)) => ExitCode::from(replay::NOT_REPLAYED),
            Self::Box(_)
            | Self::Secret(_)
            | Self::Credential(_)
            | Self::Grant(_)
            | Self::Plugin(_)
            | Self::Journal(_)
            | Self::Log(_)
            | Self::Config(_) => ExitCode::FAILURE,
        }
    }
}

/// Does one of the operator's commands; its exit code.
///
/// # Errors
/// When it was refused, or failed.
pub async fn run(global: &Global, command: Operate) -> Result<ExitCode> {
    let printer = Printer::new(global.json);
    let client = || -> Result<Client> {
        let config = Config::load(global.config.as_deref())?;
        Ok(Client::new(config.admin_socket()))
    };
    match command {
        // It needs neither a host nor a configuration.
        Operate::Plugin(PluginCommand::Audit(arguments)) => {
            return audit::run(global, *arguments).await.map(ExitCode::from);
        }
        Operate::Plugin(PluginCommand::Replay(arguments)) => {
            return replay::run(global, *arguments).await.map(ExitCode::from);
        }
        Operate::Log(command) => return log::run(global, &printer, command),
        Operate::Box(command) => boxes::run(&client()?, &printer, command).await,
        Operate::Secret(command) => secret::run(&client()?, &printer, command).await,
        Operate::Credential(command) => credential::run(&client()?, &printer, command).await,
        Operate::Grant(command) => grant::run(&client()?, &printer, command).await,
        Operate::Plugin(command) => plugin::run(global, &printer, command).await,
        Operate::Journal(arguments) => journal::run(&client()?, &printer, arguments).await,
        Operate::Config(command) => config::run(global, &printer, &command),
    }?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
