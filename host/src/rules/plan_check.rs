//! The check of what a plugin said against the permit, the credentials on
//! offer and the operator's grants. It is the only way from a `Said…` type to
//! one that the relay takes.

use bytes::Bytes;
use http::{HeaderName, Method, StatusCode};

use crate::rules::manifest::{Manifest, Uses, WordName};
use crate::rules::names::{ScopeWord, SecretName};
use crate::rules::owned::Thing;
use crate::rules::plan::{
    Answer, Call, Forward, Listing, LogLine, Offer, SaidAction, SaidNeed, SaidPlan, SaidRefusal,
    Target, Write,
};
use crate::rules::refusal::{Refusal, RefusalKind};

mod effects;
mod headers;
mod outbound;
mod size;

pub use size::{
    MOST_CALLS, MOST_JOURNAL_BYTES, MOST_KEPT_BYTES, MOST_LISTED, MOST_RECORD_BYTES,
    MOST_VALUE_BYTES,
};

/// A value that has passed this file's checks. Nothing else can make one.
#[derive(Debug)]
pub struct Checked<T>(T);

impl<T> Checked<T> {
    /// The value, for whoever acts on it.
    pub fn into_inner(self) -> T {
        self.0
    }

    /// The value, to look at.
    pub fn get(&self) -> &T {
        &self.0
    }

    /// Passes a value off as checked, for tests of what comes after.
    #[cfg(test)]
    pub(crate) fn unchecked(value: T) -> Self {
        Self(value)
    }
}

/// What a plan is held against.
#[derive(Debug)]
pub struct Bounds<'a> {
    /// The plugin's manifest.
    pub manifest: &'a Manifest,
    /// The words the rule has passed for; empty for a request that needs none.
    pub words: &'a [ScopeWord],
    /// What those words reach, less what the operator did not grant.
    pub reachable: &'a [Target],
    /// The credentials on offer.
    pub offers: &'a [Offer],
    /// Headers that may carry a box's token on this route.
    pub credential_headers: &'a [HeaderName],
    /// What it may use beside its routes.
    pub uses: &'a Uses,
    /// The method of the request being decided.
    pub method: &'a Method,
    /// Its path after the route's prefix, as received.
    pub tail: &'a str,
    /// Its query, as received.
    pub query: Option<&'a str>,
    /// How many calls one need may hold.
    pub max_calls: usize,
}

/// A checked plan: what happens, and the effects that go with it.
#[derive(Debug)]
pub struct CheckedPlan {
    /// What will happen.
    pub action: CheckedAction,
    /// Changes to the keep.
    pub writes: Vec<Write>,
    /// Records for the journal.
    pub journal: Vec<Vec<u8>>,
    /// Things that become the box's own.
    pub owns: Vec<Thing>,
    /// Lines for the log.
    pub log: Vec<LogLine>,
}

/// What will happen with the request.
#[derive(Debug)]
pub enum CheckedAction {
    /// Send it on.
    Forward(Checked<Forward>),
    /// Answer it.
    Answer(Answer),
    /// Refuse it.
    Refuse(Refusal),
}

/// A checked need.
#[derive(Debug)]
pub struct CheckedNeed {
    /// Calls, made side by side.
    pub calls: Vec<Checked<Call>>,
    /// Keys of the keep to read.
    pub reads: Vec<String>,
    /// Keys of the keep to name.
    pub lists: Vec<Listing>,
    /// Things that the box may own.
    pub owned: Vec<Thing>,
    /// How long the calls may take, in milliseconds; 0 leaves it to the host.
    pub deadline_ms: u32,
    /// What to find again in `resume`.
    pub state: Vec<u8>,
}

/// What a plugin said that the host does not do. The text quotes the plugin
/// escaped and capped, so that it can stand in a log and an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanFault {
    /// It is well formed and reaches beyond its bounds.
    #[error("{0}")]
    Beyond(String),
    /// It is not well formed.
    #[error("{0}")]
    Nonsense(String),
    /// It is more than the host takes.
    #[error("{0}")]
    TooLarge(String),
}

/// Reads the words that `scopes` answered.
///
/// # Errors
/// When one is no scope word or the manifest does not declare it: it is
/// refused, never trimmed.
pub fn check_words(manifest: &Manifest, said: &[String]) -> Result<Vec<ScopeWord>, PlanFault> {
    size::words(said)?;
    let mut words = Vec::new();
    for text in said {
        let word = ScopeWord::parse(text).map_err(|error| fault(error.to_string()))?;
        let declared = manifest.words.iter().any(|entry| match &entry.name {
            WordName::Literal(literal) => *literal == word,
            WordName::AnySecret => SecretName::parse(word.as_str()).is_ok(),
        });
        if !declared {
            return Err(beyond(format!(
                "the word {} is not in its manifest",
                quote(text)
            )));
        }
        if !words.contains(&word) {
            words.push(word);
        }
    }
    Ok(words)
}

/// Checks a plan.
///
/// # Errors
/// When any part of it is too large, reaches beyond the bounds or is not well
/// formed.
pub fn check_plan(said: SaidPlan, bounds: &Bounds<'_>) -> Result<CheckedPlan, PlanFault> {
    size::plan(&said)?;
    let action = match said.action {
        SaidAction::Forward(forward) => {
            CheckedAction::Forward(Checked(outbound::check_forward(*forward, bounds)?))
        }
        SaidAction::Answer {
            status,
            headers,
            body,
        } => CheckedAction::Answer(Answer {
            status: status_in(status, 200, "the status of an answer")?,
            headers: headers::check_headers(headers, bounds)?,
            body: Bytes::from(body),
        }),
        SaidAction::Refuse(refusal) => CheckedAction::Refuse(check_refusal(&refusal)?),
    };
    effects::check_writes(&said.writes, bounds)?;
    effects::check_journal(&said.journal, bounds)?;
    let owns = effects::check_things(&said.owns, bounds)?;
    for line in &said.log {
        check_text("a log line", &line.message)?;
    }
    Ok(CheckedPlan {
        action,
        writes: said.writes,
        journal: said.journal,
        owns,
        log: said.log,
    })
}

/// Checks a need.
///
/// # Errors
/// When any part of it is too large, reaches beyond the bounds or is not well
/// formed.
pub fn check_need(said: SaidNeed, bounds: &Bounds<'_>) -> Result<CheckedNeed, PlanFault> {
    size::need(&said, bounds.max_calls)?;
    effects::check_reads(&said.reads, &said.lists, bounds)?;
    let owned = effects::check_things(&said.owned, bounds)?;
    let calls = said.calls.into_iter();
    Ok(CheckedNeed {
        calls: calls
            .map(|call| outbound::check_call(call, bounds).map(Checked))
            .collect::<Result<_, _>>()?,
        reads: said.reads,
        lists: said.lists,
        owned,
        deadline_ms: said.deadline_ms,
        state: said.state,
    })
}

fn check_refusal(said: &SaidRefusal) -> Result<Refusal, PlanFault> {
    let status = status_in(said.status, 400, "the status of a refusal")?;
    check_text("the type of a refusal", &said.kind)?;
    check_text("the message of a refusal", &said.message)?;
    if said.kind.is_empty() || said.message.is_empty() {
        return Err(fault("a refusal needs a type and a message"));
    }
    Ok(Refusal::new(
        status,
        RefusalKind::Said(said.kind.clone()),
        said.message.clone(),
    ))
}

fn check_text(what: &str, text: &str) -> Result<(), PlanFault> {
    if text.chars().any(char::is_control) {
        return Err(fault(format!(
            "{what} holds a control character: {}",
            quote(text)
        )));
    }
    Ok(())
}

fn status_in(status: u16, from: u16, what: &str) -> Result<StatusCode, PlanFault> {
    StatusCode::from_u16(status)
        .ok()
        .filter(|status| (from..=599).contains(&status.as_u16()))
        .ok_or_else(|| fault(format!("{what} must be {from} to 599, not {status}")))
}

fn fault(reason: impl Into<String>) -> PlanFault {
    PlanFault::Nonsense(reason.into())
}

fn beyond(reason: impl Into<String>) -> PlanFault {
    PlanFault::Beyond(reason.into())
}

fn quote(text: &str) -> String {
    format!(
        "\"{}\"",
        text.chars()
            .take(80)
            .flat_map(char::escape_default)
            .collect::<String>()
    )
}

#[cfg(test)]
mod tests;
