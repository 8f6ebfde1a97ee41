//! The process: from the command line to an exit code. It hardens itself
//! before it reads anything, runs one command, and says what went wrong.

mod announce;
mod process;

use std::io::Write;
use std::process::ExitCode;

use anyhow::{Context, Result};
use tokio_util::sync::CancellationToken;

use crate::app::{self, ServeOptions};
use crate::cli::{self, Cli, Command, ConformanceArguments, Global, ServeArguments, conformance};
use crate::config::Config;
use crate::rules::escape::{escape_json, escape_line};
use crate::{demo, telemetry};

/// What the process allocates with.
pub use mimalloc::MiMalloc as Allocator;

/// Runs the command that the arguments name. 0: done; 1: refused or failed;
/// 2: the arguments make no sense. `conformance` has codes of its own: how many
/// checks failed, and 125 when there was nothing to check. `plugin audit`
/// and `plugin replay` have too: 1 for what was found, 2 where nothing could be.
#[must_use]
pub fn main() -> ExitCode {
    process::harden();
    let cli = Cli::read();
    let json = cli.global.json;
    let failed = match &cli.command {
        Command::Conformance(_) => ExitCode::from(NOT_STARTED),
        Command::Operate(command) => command.failure(),
        Command::Serve(_) => ExitCode::FAILURE,
    };
    run(cli).unwrap_or_else(|error| {
        report(&error, json);
        failed
    })
}

/// `conformance` could not begin, or not end; fewer are checks that failed.
const NOT_STARTED: u8 = 125;

fn run(cli: Cli) -> Result<ExitCode> {
    let serving = matches!(cli.command, Command::Serve(_));
    process::drop_vault_key_variable(serving)?;
    match cli.command {
        Command::Serve(arguments) => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .context("the runtime did not start")?;
            let served = runtime.block_on(serve(&cli.global, &arguments));
            // What is left after the drain is given up.
            runtime.shutdown_background();
            served?;
        }
        Command::Conformance(arguments) => {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .enable_all()
                .build()
                .context("the runtime did not start")?;
            return runtime
                .block_on(judge(&cli.global, arguments))
                .map(ExitCode::from);
        }
        Command::Operate(command) => {
            return tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .context("the runtime did not start")?
                .block_on(cli::run(&cli.global, command));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the conformance suite; a signal ends it and the broker under it.
async fn judge(global: &Global, arguments: ConformanceArguments) -> Result<u8> {
    let stop = CancellationToken::new();
    let mut signals = process::Signals::new()?;
    let judged = conformance::run(global, arguments, &stop);
    tokio::pin!(judged);
    tokio::select! {
        result = &mut judged => return result,
        () = signals.next() => stop.cancel(),
    }
    tokio::select! {
        result = &mut judged => result,
        () = signals.next() => anyhow::bail!("stopped by a second signal"),
    }
}

async fn serve(global: &Global, arguments: &ServeArguments) -> Result<()> {
    let descriptors = process::raise_descriptors();
    let shutdown = CancellationToken::new();
    let mut signals = process::Signals::new()?;
    let served = async {
        if arguments.demo {
            return demo::run(global, shutdown.clone()).await;
        }
        if arguments.conformance {
            let asked = demo::UnderSuite {
                environment: process::conformance_environment()?,
                plugins_dir: arguments.plugins_dir.clone(),
                extra_plugins: arguments.extra_plugin.clone(),
            };
            return demo::run_under_suite(asked, shutdown.clone()).await;
        }
        let mut config = Config::load(global.config.as_deref())?;
        telemetry::start(config.log)?;
        fit(&mut config, descriptors);
        let options = ServeOptions {
            approve_plugins: arguments.approve_plugins,
            vault_key: process::vault_key(arguments)?,
        };
        let shown = (config.clone(), global.json, arguments.approve_plugins);
        let ready = move |running: &app::Running| {
            let (config, json, with_permissions) = shown;
            announce::ready(&config, running, json, with_permissions);
        };
        app::serve(config, options, shutdown.clone(), ready).await
    };
    tokio::pin!(served);
    tokio::select! {
        result = &mut served => return result,
        () = signals.next() => shutdown.cancel(),
    }
    tracing::info!("stopping: no new requests; those in flight are finished");
    tokio::select! {
        result = &mut served => result,
        () = signals.next() => anyhow::bail!("stopped by a second signal, before the requests in flight had ended"),
    }
}

/// Leaves a quarter of the descriptors to upstreams, the store and the rest.
fn fit(config: &mut Config, descriptors: Option<u64>) {
    let Some(descriptors) = descriptors else {
        return;
    };
    let most = usize::try_from(descriptors / 4 * 3).unwrap_or(usize::MAX);
    let wanted = config.limits.max_connections;
    if wanted > most {
        tracing::warn!(
            "the system allows this process {descriptors} descriptors: it takes {most} connections at a time, not the \
             {wanted} of max_connections; raise the hard limit (LimitNOFILE=, ulimit -Hn)"
        );
        config.limits.max_connections = most.max(1);
    }
}

/// The error and its causes, each on a line of its own.
fn report(error: &anyhow::Error, json: bool) {
    let causes: Vec<String> = error.chain().map(ToString::to_string).collect();
    let text = if json {
        let value = serde_json::json!({
            "error": {"type": "failed", "message": causes.join(": ")},
        });
        escape_json(&value.to_string())
    } else {
        let escaped: Vec<String> = causes.iter().map(|cause| escape_line(cause)).collect();
        format!("jackfield: {}", escaped.join("\n  because: "))
    };
    // Nobody is left to tell when standard error is closed.
    let _closed = writeln!(std::io::stderr(), "{text}");
}
