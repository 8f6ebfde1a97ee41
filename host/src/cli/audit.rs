//! `jackfield plugin audit`: its arguments, and the report in three shapes. It
//! asks no host and reads no configuration.

mod json;
mod requests;
mod sarif;
mod text;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;

use crate::cli::Global;
use crate::cli::print::Printer;
use crate::plugins::audit::{self, AuditSettings, Comparison, Report};
use crate::rules::audit::finding::Severity;
use crate::rules::audit::requests::{MOST_COUNT, USUAL_COUNT};

/// The exit code of what could not be audited.
pub(super) const NOT_AUDITED: u8 = 2;

/// What to audit, and how.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  jackfield plugin audit weather.wasm
  jackfield plugin audit weather.wasm --against weather-1.0.wasm
  jackfield plugin audit weather.wasm --sarif > weather.sarif

The component is taken apart without being compiled, then run under fuel on
generated requests, in a sandbox that has no secret, network, file or clock. No
host need be running. The same file, seed and count give the same report.

Exit code: 0 when nothing was found at the level error, 1 when something was,
2 when the file could not be audited (it cannot be read, is malformed, no
WebAssembly, compiled already, or larger than what is decoded).

--requests FILE holds requests of the API, one JSON object a line:
  {\"method\": \"POST\", \"path\": \"/weather/v1/city\", \"query\": \"q=1\",
   \"headers\": {\"accept\": \"*/*\"}, \"body\": \"{}\"}
All but the path may be left out.")]
pub struct AuditArguments {
    /// The component
    file: PathBuf,
    /// Print SARIF 2.1.0, as code scanning takes it
    #[arg(long)]
    sarif: bool,
    /// Also say how it differs from this other version of it
    #[arg(long, value_name = "FILE")]
    against: Option<PathBuf>,
    /// What the generated requests are drawn from
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// How many requests are drawn for each route, beside the plain ones
    #[arg(long, value_name = "NUMBER", default_value_t = USUAL_COUNT, value_parser = clap::value_parser!(u32).range(0..=i64::from(MOST_COUNT)))]
    count: u32,
    /// What it is shown as the operator's settings, where it asks to see them
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = json_object)]
    settings: String,
    /// Requests of its API, to be asked about first
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
}

fn json_object(text: &str) -> Result<String, String> {
    match serde_json::from_str(text) {
        Ok(serde_json::Value::Object(_)) => Ok(text.to_owned()),
        Ok(_) => Err("write a JSON object, such as {\"consent\": \"all\"}".to_owned()),
        Err(cause) => Err(cause.to_string()),
    }
}

/// Audits a file and prints what was found; the exit code.
///
/// # Errors
/// When it could not be audited.
pub(super) async fn run(global: &Global, arguments: AuditArguments) -> Result<u8> {
    let settings = AuditSettings {
        seed: arguments.seed,
        count: arguments.count,
        settings: arguments.settings,
        requests: match &arguments.requests {
            Some(file) => requests::read(file)?,
            None => Vec::new(),
        },
    };
    let file = &arguments.file;
    let failed = || format!("{} cannot be audited", file.display());
    let (report, comparison) = match &arguments.against {
        Some(old) => {
            let (report, comparison) = audit::audit_against(file, old, &settings)
                .await
                .with_context(|| {
                    format!("{} against {}: no audit", file.display(), old.display())
                })?;
            (report, Some(comparison))
        }
        None => {
            let report = audit::audit(file, &settings).await.with_context(failed)?;
            (report, None)
        }
    };
    let shown = Shown {
        file: file.display().to_string(),
        report,
        comparison,
    };
    if arguments.sarif {
        Printer::new(true).answer(&sarif::of(&shown), String::new)?;
    } else {
        Printer::new(global.json).answer(&json::of(&shown), || text::of(&shown))?;
    }
    Ok(u8::from(shown.report.findings.any(Severity::Error)))
}

/// What is printed.
struct Shown {
    file: String,
    report: Report,
    comparison: Option<Comparison>,
}
