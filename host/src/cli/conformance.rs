//! `jackfield conformance`: its arguments, and a line for each check.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::cli::Global;
use crate::conformance::{
    self, Capability, CheckResult, End, Extra, HELP, Outcome, Settings, Shown, Summary,
};
use crate::rules::escape::{escape_json, escape_line};

/// The most failed checks that an exit code tells apart.
const MOST_FAILED: u8 = 124;

/// How to judge a broker.
#[derive(Debug, Clone, Args)]
#[command(after_help = HELP)]
pub struct ConformanceArguments {
    /// The command that starts the broker
    #[arg(long, value_name = "CMD")]
    start: String,
    /// The standard capabilities that it serves; the checks of others are skipped
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = Capability::DEFAULT, value_parser = Capability::parse)]
    capabilities: Vec<Capability>,
    /// A capability of its own: {name, words, probes: {word: {method, path, headers, body}}}, as JSON or a file that holds it; may be given again
    #[arg(long, value_name = "JSON|FILE", value_parser = extras)]
    extra: Vec<Extras>,
    /// How long one request may take; the whole run may take 20 times as long
    #[arg(long, value_name = "SECONDS", default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// How long the command may take to print its line
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3600))]
    start_timeout: u64,
    /// What to call the broker in the summary
    #[arg(long, default_value = "the broker")]
    name: String,
    /// The broker word that the boxes' reports name
    #[arg(long, value_name = "WORD", default_value = "lobby", value_parser = word)]
    broker: String,
}

/// What one `--extra` holds.
#[derive(Debug, Clone)]
struct Extras(Vec<Extra>);

fn extras(text: &str) -> Result<Extras, String> {
    if text.trim_start().starts_with(['{', '[']) {
        return Extra::parse(text).map(Extras);
    }
    let file = Path::new(text);
    let read = std::fs::read_to_string(file)
        .map_err(|cause| format!("could not read the file: {cause}"))?;
    Extra::parse(&read).map(Extras)
}

fn word(text: &str) -> Result<String, String> {
    let fits = (1..=64).contains(&text.chars().count()) && !text.chars().any(char::is_control);
    match fits {
        true => Ok(text.to_owned()),
        false => Err("a broker word has 1 to 64 characters and no control character".to_owned()),
    }
}

/// Runs the suite, and says how many checks failed.
///
/// # Errors
/// When the broker did not start, or the run was stopped.
pub(crate) async fn run(
    global: &Global,
    arguments: ConformanceArguments,
    stop: &CancellationToken,
) -> Result<u8> {
    let settings = Settings {
        start: arguments.start,
        capabilities: arguments.capabilities,
        extras: arguments
            .extra
            .into_iter()
            .flat_map(|Extras(one)| one)
            .collect(),
        broker: arguments.broker,
        timeout: Duration::from_secs(arguments.timeout),
        start_timeout: Duration::from_secs(arguments.start_timeout),
    };
    let json = global.json;
    let told = |result: &CheckResult| match json {
        true => say(&escape_json(&result_json(result).to_string())),
        false => result_lines(result).iter().for_each(|line| say(line)),
    };
    let summary = conformance::run(&settings, stop, told).await?;
    match json {
        true => say(&escape_json(
            &summary_json(&arguments.name, &summary).to_string(),
        )),
        false => summary_lines(&arguments.name, &summary)
            .iter()
            .for_each(|line| say(line)),
    }
    let failed = u8::try_from(summary.failed.len()).unwrap_or(MOST_FAILED);
    Ok(failed.min(MOST_FAILED))
}

/// A reader that has seen enough closes the pipe; the exit code still tells.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _closed = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn result_lines(result: &CheckResult) -> Vec<String> {
    let head =
        |word: &str, rest: &str| escape_line(&format!("{word:<4}  {:<26}  {rest}", result.id));
    match &result.outcome {
        Outcome::Passed => vec![head("ok", &result.title)],
        Outcome::Skipped { reason } => vec![head("skip", reason)],
        Outcome::Failed {
            problems,
            exchanges,
        } => {
            let mut lines = vec![head("FAIL", &result.title)];
            let more = problems
                .iter()
                .map(|problem| format!("      {}", escape_line(problem)));
            lines.extend(more);
            lines.extend(exchanges.iter().flat_map(exchange_lines));
            lines
        }
    }
}

fn exchange_lines(shown: &Shown) -> Vec<String> {
    let line = |what: &str, text: &str| format!("        {what:<8} {}", escape_line(text));
    let mut lines = vec![line("sent", &shown.sent), line("got", &shown.got)];
    lines.extend(shown.upstream.iter().map(|text| line("upstream", text)));
    lines
}

fn result_json(result: &CheckResult) -> Value {
    let mut line = json!({"check": result.id, "capability": result.about, "title": result.title});
    let more = match &result.outcome {
        Outcome::Passed => json!({"outcome": "ok"}),
        Outcome::Skipped { reason } => json!({"outcome": "skipped", "reason": reason}),
        Outcome::Failed {
            problems,
            exchanges,
        } => {
            let exchanges: Vec<Value> = exchanges
                .iter()
                .map(|one| json!({"sent": one.sent, "got": one.got, "upstream": one.upstream}))
                .collect();
            json!({"outcome": "failed", "problems": problems, "exchanges": exchanges})
        }
    };
    if let (Some(line), Value::Object(more)) = (line.as_object_mut(), more) {
        line.extend(more);
    }
    line
}

fn summary_lines(name: &str, summary: &Summary) -> Vec<String> {
    let Summary {
        passed,
        failed,
        skipped,
        end,
    } = summary;
    let counts = format!(
        "{name}: {passed} passed, {} failed, {skipped} skipped",
        failed.len()
    );
    let mut lines = vec![String::new(), escape_line(&counts)];
    if !failed.is_empty() {
        lines.push(escape_line(&format!("failed: {}", failed.join(", "))));
    }
    match end {
        End::InputClosed => {}
        End::Terminated | End::Killed => lines.push(format!(
            "the command did not end when its input was closed; {} ended it",
            end_word(*end)
        )),
    }
    lines
}

fn summary_json(name: &str, summary: &Summary) -> Value {
    json!({"summary": {
        "name": name,
        "passed": summary.passed,
        "failed": summary.failed,
        "skipped": summary.skipped,
        "ended_by": end_word(summary.end),
    }})
}

fn end_word(end: End) -> &'static str {
    match end {
        End::InputClosed => "closed input",
        End::Terminated => "SIGTERM",
        End::Killed => "SIGKILL",
    }
}
