//! `jackfield log …`: the decision log, offline. No host needs to run, and none
//! is asked.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Subcommand};
use jiff::Timestamp;

use crate::cli::Global;
use crate::cli::print::Printer;
use crate::config::Config;
use crate::decision_log::{self, Expected, PublicKey, Report, Shown, SignedHead, Signer};
use crate::rules::escape::escape_line;
use crate::rules::names::BoxName;
use crate::vault::read_key;

#[derive(Debug, Subcommand)]
pub enum LogCommand {
    /// Hold the log to its chain and its signatures, and say what does not hold and where
    #[command(after_help = "\
Examples:
  jackfield log verify                        the log of this configuration's host, also while it runs
  jackfield log verify --anchor head.json     that it goes on from a head that was kept elsewhere
  jackfield log verify --dir ./copy --key KEY a copy, on an auditor's machine

Exits with 0 when everything holds, and with 1 when something does not, or
there is no log. What a crash tore off the end is told, and is no failure.
Without --key, the key is the host's own, where its vault.key can be read.")]
    Verify {
        /// A head that `jackfield log head` printed before
        #[arg(long, value_name = "FILE")]
        anchor: Option<PathBuf>,
        /// The public key that must have signed it, as `jackfield log key` prints it
        #[arg(long, value_name = "KEY", value_parser = PublicKey::parse)]
        key: Option<PublicKey>,
        #[command(flatten)]
        place: Place,
    },
    /// Print the head that was signed last: JSON, to be kept elsewhere as an anchor
    Head {
        #[command(flatten)]
        place: Place,
    },
    /// Print the public key that the host signs its log with
    Key,
    /// Print records
    #[command(after_help = "\
Examples:
  jackfield log show --since 2026-01-31T12:00:00Z
  jackfield log show --box alice --json | jq 'select(.decision.verdict == \"refuse\")'

It prints what stands there, and verifies nothing.")]
    Show {
        /// Records from this time on
        #[arg(long, value_name = "TIME")]
        since: Option<Timestamp>,
        /// Records of this box alone
        #[arg(long = "box", value_name = "BOX", value_parser = BoxName::parse)]
        box_name: Option<BoxName>,
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Args)]
pub struct Place {
    /// The log's folder [default: decision-log in state_dir]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Place {
    fn folder(self, config: &Config) -> PathBuf {
        self.dir
            .unwrap_or_else(|| decision_log::folder(&config.state_dir))
    }
}

pub(super) fn run(global: &Global, printer: &Printer, command: LogCommand) -> Result<ExitCode> {
    let config = Config::load(global.config.as_deref())?;
    match command {
        LogCommand::Verify { anchor, key, place } => {
            let own = place.dir.is_none();
            let key = match key {
                None if own => own_key(&config)?,
                key => key,
            };
            let anchor = anchor.map(|file| {
                let text = fs::read_to_string(&file)
                    .with_context(|| format!("could not read {}", file.display()))?;
                serde_json::from_str::<SignedHead>(&text)
                    .with_context(|| format!("{} holds no head of a log", file.display()))
            });
            let expected = Expected {
                key,
                anchor: anchor.transpose()?,
            };
            let folder = place.folder(&config);
            let report = decision_log::verify(&folder, &expected)
                .with_context(|| format!("could not verify {}", folder.display()))?;
            printer.answer(&report, || describe(&report))?;
            Ok(if report.holds {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            })
        }
        LogCommand::Head { place } => {
            let folder = place.folder(&config);
            let head = decision_log::head(&folder)
                .with_context(|| format!("no head in {}", folder.display()))?;
            Printer::new(true).answer(&head, String::new)?;
            Ok(ExitCode::SUCCESS)
        }
        LogCommand::Key => {
            let key = match own_key(&config)? {
                Some(key) => key.to_string(),
                // Where the vault's key is kept elsewhere, the log says it.
                None => {
                    let folder = decision_log::folder(&config.state_dir);
                    let head = decision_log::head(&folder).map_err(|cause| {
                        anyhow!(
                            "there is neither a vault.key in state_dir nor a signed log: {cause}"
                        )
                    })?;
                    head.key
                }
            };
            printer.answer(&serde_json::json!({ "key": key }), || key.clone())?;
            Ok(ExitCode::SUCCESS)
        }
        LogCommand::Show {
            since,
            box_name,
            place,
        } => {
            let folder = place.folder(&config);
            if !folder.is_dir() {
                bail!("there is no decision log in {}", folder.display());
            }
            decision_log::read(&folder, |shown| -> Result<()> {
                let late = since.is_none_or(|since| shown.time >= since);
                let named = box_name.as_ref().map(BoxName::as_str);
                if late && (named.is_none() || named == shown.box_name.as_deref()) {
                    printer.answer(&shown.line, || line(&shown))?;
                }
                Ok(())
            })?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The key of this configuration's host, where its vault key lies in its file.
fn own_key(config: &Config) -> Result<Option<PublicKey>> {
    let key = read_key(&config.state_dir.join("vault.key"))?;
    Ok(key.map(|key| Signer::of(&key).public_key()))
}

fn describe(report: &Report) -> String {
    let Report {
        segments,
        links,
        records,
        decisions,
        lost,
        signed_heads,
        unsigned_records,
        ..
    } = report;
    let mut text = format!(
        "{records} records ({decisions} decisions) under {links} links in {segments} segments, {signed_heads} signed \
         heads; {unsigned_records} records stand behind the last of these, {lost} decisions were lost\n"
    );
    for note in &report.notes {
        text += &format!("note: {note}\n");
    }
    for finding in &report.findings {
        text += &format!("{}: {}\n", finding.place, finding.what);
    }
    text += match report.findings.len() {
        0 => "the log holds",
        _ => "the log does NOT hold",
    };
    text
}

/// A record on one line.
fn line(shown: &Shown) -> String {
    let about = &shown.about;
    let text = |name: &str| {
        let member = &about[name];
        match member.as_str() {
            Some(text) => escape_line(text),
            None if member.is_null() => "-".to_owned(),
            None => escape_line(&member.to_string()),
        }
    };
    if about["verdict"].is_null() {
        return format!("{} {about}", shown.time);
    }
    let refusal = about["refusal"].as_str();
    let refusal = refusal.map_or_else(String::new, |kind| format!(" {}", escape_line(kind)));
    format!(
        "{} {} {} words {} by {} {:.12}: {}{refusal}, {} {} to {}, {} bytes in, {} out, {} us",
        shown.time,
        text("box"),
        text("route"),
        text("words"),
        text("plugin"),
        text("hash"),
        text("verdict"),
        text("outcome"),
        text("status"),
        text("target"),
        text("bytes_in"),
        text("bytes_out"),
        text("ended_us"),
    )
}
