//! `jackfield conformance`: holds any broker of the chant protocol, in any
//! language, to what the protocol's page says, from outside, over sockets.
//!
//! In reading order: `environment` is what the broker is told, `upstreams`
//! and `said` are what it forwards to, `broker` runs it, `run` asks it,
//! `checks` say what must come of that, and `outcome` is what was found.
//! It judges brokers, this host among them, so it shares no code with what it
//! judges: it names nothing of the house.

mod bodies;
mod broker;
mod checks;
mod environment;
mod exchange;
mod extra;
mod instance;
mod outcome;
mod run;
mod said;
mod show;
mod traces;
mod upstreams;

use std::time::Duration;

use tokio_util::sync::CancellationToken;

pub use broker::End;
pub use extra::Extra;
pub use outcome::{CheckResult, Outcome, Shown, Summary};

use broker::Broker;
use checks::{Planned, plan};
use environment::Environment;
use run::Run;
use upstreams::Upstreams;

/// What the command's help says beside its arguments.
pub const HELP: &str = "\
Examples:
  jackfield conformance --start 'node my-broker.mjs'
  jackfield conformance --start 'python3 broker.py' --capabilities inference,egress
  jackfield conformance --start ./broker --extra '{\"name\":\"notes\",\"words\":[\"read\"],
    \"probes\":{\"read\":{\"method\":\"GET\",\"path\":\"/notes/a\"}}}'
  jackfield conformance --start 'jackfield serve --conformance' \
    --capabilities inference,egress,feedback,fountain                this host itself

CMD is run by `sh -c`. It finds in CONFORMANCE_ENV, as JSON, what to serve:
  {\"broker\": WORD, \"boxes\": [NAME, NAME],
   \"anthropic\": {\"url\", \"credential\"}, \"fountain\": {\"url\", \"credential\"},
   \"secrets\": [{\"box\", \"name\", \"host\", \"value\"}]}
It makes a token for each box, listens, and prints one line of JSON:
  {\"url\": \"http://127.0.0.1:PORT\", \"tokens\": {NAME: TOKEN, NAME: TOKEN}}
It serves until its standard input is closed; after that come SIGTERM and SIGKILL.

Exit codes: how many checks failed, 124 for that many or more; 125 when the
broker did not start; 2 when the arguments make no sense.";

/// A standard capability.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Capability {
    /// Model calls and decisions.
    Inference,
    /// Secrets that are sent to one host.
    Egress,
    /// What agents say about their work.
    Feedback,
    /// Fountain's API.
    Fountain,
}

impl Capability {
    /// What is held to its checks when nobody says otherwise.
    pub const DEFAULT: &'static str = "inference,egress,feedback";

    /// Reads a name.
    ///
    /// # Errors
    /// When there is no such capability.
    pub fn parse(text: &str) -> Result<Self, String> {
        [
            Self::Inference,
            Self::Egress,
            Self::Feedback,
            Self::Fountain,
        ]
        .into_iter()
        .find(|capability| capability.name() == text)
        .ok_or_else(|| {
            format!(
                "{text:?} is none of inference, egress, feedback and fountain; --extra takes others"
            )
        })
    }

    /// Its name, as a report says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Inference => "inference",
            Self::Egress => "egress",
            Self::Feedback => "feedback",
            Self::Fountain => "fountain",
        }
    }
}

/// What to run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The command that starts the broker.
    pub start: String,
    /// The standard capabilities that it serves.
    pub capabilities: Vec<Capability>,
    /// Others.
    pub extras: Vec<Extra>,
    /// The broker word of the boxes' reports.
    pub broker: String,
    /// How long one request may take.
    pub timeout: Duration,
    /// How long the command may take until it has printed its line.
    pub start_timeout: Duration,
}

/// Why no check was run, or not all of them.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// No port, most likely.
    #[error("the suite's own upstreams did not start")]
    Upstreams(#[source] std::io::Error),
    /// The system has no randomness.
    #[error("no randomness for the run's credentials: {0}")]
    Randomness(String),
    /// There is no `sh`.
    #[error("could not run the command with `sh -c`")]
    Spawn(#[source] std::io::Error),
    /// Its output cannot be read.
    #[error("could not read what the command prints")]
    Output(#[source] std::io::Error),
    /// It printed no line.
    #[error(
        "the command ended its output before it printed its line, {{\"url\", \"tokens\"}}: {0}. What it said on standard error stands above"
    )]
    Ended(String),
    /// It did not get to it.
    #[error(
        "the command printed no line {{\"url\", \"tokens\"}} within {0} s{1}; --start-timeout gives it longer"
    )]
    NoLine(u64, String),
    /// It does not stop talking.
    #[error("the command printed {0} MiB and no line {{\"url\", \"tokens\"}} among it")]
    TooMuch(u64),
    /// The line is not what it should be.
    #[error("the command's line is no {{\"url\": URL, \"tokens\": {{BOX: TOKEN}}}}: {0}")]
    Line(String),
    /// The URL in it cannot be used.
    #[error("the broker's url {0:?} cannot be used: {1}")]
    Url(String, String),
    /// Somebody stopped the run.
    #[error("the run was stopped before its end; the broker's command was ended")]
    Stopped,
}

/// Runs every check, and tells each result as it is known.
///
/// # Errors
/// When the broker does not start, or `stop` comes before the end.
pub async fn run(
    settings: &Settings,
    stop: &CancellationToken,
    mut told: impl FnMut(&CheckResult),
) -> Result<Summary, StartError> {
    let upstreams = Upstreams::start().await.map_err(StartError::Upstreams)?;
    let environment = Environment::make(&settings.broker, upstreams.addresses)?;
    let start = Broker::start(&settings.start, &environment, settings.start_timeout);
    let (mut broker, started) = tokio::select! {
        started = start => started?,
        () = stop.cancelled() => return Err(StartError::Stopped),
    };
    let log = upstreams.log.clone();
    let served = &settings.capabilities;
    let made = Run::new(environment, started, log, served, settings.timeout);
    let mut results = Vec::new();
    let mut done = |result: CheckResult| {
        told(&result);
        results.push(result);
    };
    let checked = match made {
        Ok(mut run) => tokio::select! {
            () = all(plan(settings), &mut run, &mut broker, &mut done) => Ok(()),
            () = stop.cancelled() => Err(StartError::Stopped),
        },
        Err(error) => Err(error),
    };
    let end = broker.end().await;
    checked?;
    let mut summary = Summary::new(end);
    for result in &results {
        summary.count(result);
    }
    Ok(summary)
}

async fn all(
    planned: Vec<Planned>,
    run: &mut Run,
    broker: &mut Broker,
    done: &mut impl FnMut(CheckResult),
) {
    let mut before = "the broker's start".to_owned();
    for check in planned {
        let outcome = match check.skip {
            Some(reason) => Outcome::Skipped { reason },
            None => {
                run.begin(&before);
                check.probe.ask(run).await;
                let ended = broker.ended();
                run.finish(ended.map(|status| format!("the broker's command has ended: {status}")))
            }
        };
        before.clone_from(&check.id);
        done(CheckResult {
            id: check.id,
            about: check.about,
            title: check.title,
            outcome,
        });
    }
}
