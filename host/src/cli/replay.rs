//! `jackfield plugin replay`: a version of a plugin over what was recorded.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use jiff::Timestamp;
use serde::Serialize;

use crate::cli::Global;
use crate::cli::print::Printer;
use crate::config::Config;
use crate::decision_log::{inputs_folder, read_inputs};
use crate::plugins::alone::{Changed, Replay};
use crate::plugins::{MOST_BYTES, Recorded};
use crate::rules::names::PluginName;
use crate::vault::{VaultKey, read_key};

/// The exit code where nothing could be replayed.
pub(super) const NOT_REPLAYED: u8 = 2;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jackfield plugin replay new.wasm --since 2026-01-31T12:00:00Z
  jackfield plugin replay new.wasm --since 2026-01-31T12:00:00Z --json | jq .decisions

Asks the component what the live versions of its plugin were asked since then,
where [plugins.NAME] record = \"inputs\" stands in the configuration, and prints
each decision that would change: its words, or what of its steps. Values of
headers and bodies are left out. No host needs to run, and nothing is sent.

Exits with 0 when nothing would change, 1 when something would, and 2 when it,
or part of it, could not be replayed.")]
pub struct ReplayArguments {
    /// The component
    file: PathBuf,
    /// Decisions from this time on
    #[arg(long, value_name = "TIME")]
    since: Timestamp,
    /// The plugin whose decisions are replayed [default: the component's own name]
    #[arg(long, value_name = "NAME", value_parser = PluginName::parse)]
    plugin: Option<PluginName>,
    /// Read the vault's key from standard input, where it is not in state_dir
    #[arg(long)]
    vault_key_stdin: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    plugin: String,
    replayed: u64,
    changed: u64,
    unanswered: u64,
    most_fuel: u64,
    decisions: Vec<Decision>,
    notes: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Decision {
    time: Timestamp,
    r#box: Option<String>,
    request: String,
    hash: String,
    changed: Vec<Changed>,
}

pub(super) async fn run(global: &Global, arguments: ReplayArguments) -> Result<u8> {
    let config = Config::load(global.config.as_deref())?;
    let file = &arguments.file;
    let length = fs::metadata(file)
        .with_context(|| format!("could not read {}", file.display()))?
        .len();
    if length > MOST_BYTES {
        bail!("{} is larger than a plugin may be", file.display());
    }
    let bytes = fs::read(file).with_context(|| format!("could not read {}", file.display()))?;
    let replay = Replay::load(&bytes)
        .await
        .with_context(|| format!("{} cannot be asked", file.display()))?;
    let plugin = match &arguments.plugin {
        Some(name) => name.as_str(),
        None => replay.name(),
    };
    let folder = inputs_folder(&config.state_dir);
    if !folder.is_dir() {
        bail!(
            "nothing is recorded in {}: [plugins.{plugin}] record = \"inputs\" has it recorded",
            folder.display()
        );
    }
    let key = vault_key(&config, arguments.vault_key_stdin)?;
    let mut report = Report {
        plugin: plugin.to_owned(),
        replayed: 0,
        changed: 0,
        unanswered: 0,
        most_fuel: 0,
        decisions: Vec::new(),
        notes: Vec::new(),
    };
    // Read beside the asking, and no further ahead than a few.
    let (ahead, mut next) = tokio::sync::mpsc::channel(4);
    let reading = tokio::task::spawn_blocking(move || {
        read_inputs(&folder, &key, |bytes| -> Result<()> {
            let recorded = Recorded::read(bytes)
                .context("a recorded decision is of another version of this command")?;
            // Nobody takes it where the asking was given up.
            let _given_up = ahead.blocking_send(recorded);
            Ok(())
        })
    });
    while let Some(recorded) = next.recv().await {
        if recorded.plugin == plugin && recorded.time >= arguments.since {
            let replayed = replay.replay(&recorded).await;
            report.add(recorded, replayed);
        }
    }
    let unread = reading.await.context("the reading ended in a panic")??;
    if unread.torn > 0 {
        let torn = unread.torn;
        report.notes.push(format!(
            "the end of {torn} files is torn: a host writes them, or was killed"
        ));
    }
    if unread.sealed > 0 {
        let sealed = unread.sealed;
        report.notes.push(format!(
            "{sealed} files were changed, or sealed under another vault key: the rest of each was not read"
        ));
    }
    Printer::new(global.json).answer(&report, || describe(&report))?;
    Ok(match report.changed {
        // Of what cannot be opened, nobody knows.
        0 if unread.sealed > 0 => NOT_REPLAYED,
        0 => 0,
        1.. => 1,
    })
}

fn vault_key(config: &Config, from_stdin: bool) -> Result<VaultKey> {
    if from_stdin {
        let text = std::io::read_to_string(std::io::stdin())
            .map(zeroize::Zeroizing::new)
            .context("could not read the vault's key from standard input")?;
        return Ok(VaultKey::parse(&text, "standard input")?);
    }
    let path = config.state_dir.join("vault.key");
    read_key(&path)?.with_context(|| {
        format!(
            "there is no vault key in {}: pass it on standard input with --vault-key-stdin",
            path.display()
        )
    })
}

impl Report {
    fn add(&mut self, recorded: Recorded, replayed: crate::plugins::alone::Replayed) {
        self.replayed += 1;
        self.unanswered += u64::from(replayed.unanswered);
        self.most_fuel = self.most_fuel.max(replayed.fuel);
        if replayed.changed.is_empty() {
            return;
        }
        self.changed += 1;
        self.decisions.push(Decision {
            time: recorded.time,
            request: recorded.request_line(),
            r#box: recorded.box_name,
            hash: recorded.hash,
            changed: replayed.changed,
        });
    }
}

fn describe(report: &Report) -> String {
    use crate::rules::escape::escape_line;
    let mut text = String::new();
    for decision in &report.decisions {
        let box_name = decision.r#box.as_deref().unwrap_or("-");
        let request = escape_line(&decision.request);
        text += &format!("{} {box_name} {request}\n", decision.time);
        for changed in &decision.changed {
            let line = format!("{}: {} -> {}", changed.field, changed.before, changed.after);
            text += &format!("  {}\n", escape_line(&line));
        }
    }
    for note in &report.notes {
        text += &format!("note: {note}\n");
    }
    let Report {
        plugin,
        replayed,
        changed,
        unanswered,
        most_fuel,
        ..
    } = report;
    text += &format!(
        "{replayed} decisions of {plugin} replayed: {changed} would change; {unanswered} had no answer to compare \
         with; at most {most_fuel} units of fuel for one"
    );
    text
}
