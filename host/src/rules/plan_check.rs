//! The check of what a plugin said against the permit, the credentials on
//! offer and the operator's grants. It is the only way from a `Said…` type to
//! one that the relay takes.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::rules::headers;
use crate::rules::manifest::{Manifest, Reach, WordName};
use crate::rules::names::{ScopeWord, SecretName, UpstreamName};
use crate::rules::paths;
use crate::rules::plan::{
    Answer, Call, CredentialKey, Edit, Forward, LogLine, Offer, Outbound, Placement, SaidAction,
    SaidCall, SaidEdit, SaidForward, SaidNeed, SaidPath, SaidPlacement, SaidPlan, SaidQuery,
    SaidRefusal, SaidTarget, Target,
};
use crate::rules::refusal::{Refusal, RefusalKind};

/// The longest key of a keep, in bytes.
pub const MAX_KEEP_KEY: usize = 256;
/// The largest value of a keep and the largest journal record, in bytes.
pub const MAX_KEEP_VALUE: usize = 32 * 1024;
/// How many writes, reads or journal records one step may hold.
pub const MAX_EFFECTS: usize = 64;
/// How many log lines one plan may hold.
pub const MAX_LOG_LINES: usize = 16;
/// How many bytes one plan may keep and journal together.
pub const MAX_EFFECT_BYTES: usize = 192 * 1024;
const MAX_EDITS: usize = 64;
const MAX_MESSAGE: usize = 4 * 1024;

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
    /// Whether it may use its keep.
    pub keep: bool,
    /// Whether it may write to the journal.
    pub journal: bool,
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
    pub writes: Vec<(String, Option<Vec<u8>>)>,
    /// Records for the journal.
    pub journal: Vec<Vec<u8>>,
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
    /// How long the calls may take, in milliseconds; 0 leaves it to the host.
    pub deadline_ms: u32,
    /// What to find again in `resume`.
    pub state: Vec<u8>,
}

/// What a plugin said that the host does not do. The text quotes the plugin
/// escaped and capped, so that it can stand in a log and an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlanFault(String);

/// The targets that a word of the manifest reaches; empty for a word that the
/// manifest does not declare.
#[must_use]
pub fn reached_by(manifest: &Manifest, word: &ScopeWord) -> Vec<Target> {
    let secret = SecretName::parse(word.as_str()).ok();
    manifest
        .words
        .iter()
        .filter(|entry| match &entry.name {
            WordName::Literal(literal) => literal == word,
            WordName::AnySecret => secret.is_some(),
        })
        .flat_map(|entry| &entry.reaches)
        .filter_map(|reach| match reach {
            Reach::Upstream(name) => Some(Target::Upstream(name.clone())),
            Reach::Secret(name) => Some(Target::Secret(name.clone())),
            Reach::SecretOfThatName => secret.clone().map(Target::Secret),
        })
        .collect()
}

/// Reads the words that `scopes` answered.
///
/// # Errors
/// When one is no scope word or the manifest does not declare it: it is
/// refused, never trimmed.
pub fn check_words(manifest: &Manifest, said: &[String]) -> Result<Vec<ScopeWord>, PlanFault> {
    let mut words = Vec::new();
    for text in said {
        let word = ScopeWord::parse(text).map_err(|error| PlanFault(error.to_string()))?;
        let declared = manifest.words.iter().any(|entry| match &entry.name {
            WordName::Literal(literal) => *literal == word,
            WordName::AnySecret => SecretName::parse(word.as_str()).is_ok(),
        });
        if !declared {
            return Err(fault(format!(
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
/// When any part of it reaches beyond the bounds or is not well formed.
pub fn check_plan(said: SaidPlan, bounds: &Bounds<'_>) -> Result<CheckedPlan, PlanFault> {
    let action = match said.action {
        SaidAction::Forward(forward) => {
            CheckedAction::Forward(Checked(check_forward(*forward, bounds)?))
        }
        SaidAction::Answer {
            status,
            headers,
            body,
        } => CheckedAction::Answer(check_answer(status, headers, body, bounds)?),
        SaidAction::Refuse(refusal) => CheckedAction::Refuse(check_refusal(&refusal)?),
    };
    if !said.writes.is_empty() && !bounds.keep {
        return Err(fault("it writes to a keep that it was not granted"));
    }
    if !said.journal.is_empty() && !bounds.journal {
        return Err(fault("it writes to the journal, which it was not granted"));
    }
    if said.writes.len() > MAX_EFFECTS
        || said.journal.len() > MAX_EFFECTS
        || said.log.len() > MAX_LOG_LINES
    {
        return Err(fault(
            "it holds more writes, journal records or log lines than the host takes",
        ));
    }
    for (key, value) in &said.writes {
        check_key(key)?;
        if value
            .as_ref()
            .is_some_and(|value| value.len() > MAX_KEEP_VALUE)
        {
            return Err(fault(format!(
                "a value of its keep is larger than {MAX_KEEP_VALUE} bytes"
            )));
        }
    }
    if said
        .journal
        .iter()
        .any(|record| record.len() > MAX_KEEP_VALUE)
    {
        return Err(fault(format!(
            "a journal record is larger than {MAX_KEEP_VALUE} bytes"
        )));
    }
    let written = said
        .writes
        .iter()
        .map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
    let effects: usize = written.chain(said.journal.iter().map(Vec::len)).sum();
    if effects > MAX_EFFECT_BYTES {
        return Err(fault(format!(
            "it keeps more than {MAX_EFFECT_BYTES} bytes at once"
        )));
    }
    let keys: BTreeSet<&str> = said.writes.iter().map(|(key, _)| key.as_str()).collect();
    if keys.len() != said.writes.len() {
        return Err(fault("it writes one key of its keep twice"));
    }
    for line in &said.log {
        check_text("a log line", &line.message)?;
    }
    Ok(CheckedPlan {
        action,
        writes: said.writes,
        journal: said.journal,
        log: said.log,
    })
}

/// Checks a need.
///
/// # Errors
/// When any part of it reaches beyond the bounds or is not well formed.
pub fn check_need(said: SaidNeed, bounds: &Bounds<'_>) -> Result<CheckedNeed, PlanFault> {
    if said.calls.len() > bounds.max_calls {
        return Err(fault(format!(
            "it asks for more than {} calls at once",
            bounds.max_calls
        )));
    }
    if said.reads.len() > MAX_EFFECTS {
        return Err(fault(format!(
            "it asks for more than {MAX_EFFECTS} reads at once"
        )));
    }
    if !said.reads.is_empty() && !bounds.keep {
        return Err(fault("it reads a keep that it was not granted"));
    }
    for key in &said.reads {
        check_key(key)?;
    }
    let calls = said
        .calls
        .into_iter()
        .map(|call| check_call(call, bounds).map(Checked))
        .collect::<Result<_, _>>()?;
    Ok(CheckedNeed {
        calls,
        reads: said.reads,
        deadline_ms: said.deadline_ms,
        state: said.state,
    })
}

fn check_forward(said: SaidForward, bounds: &Bounds<'_>) -> Result<Forward, PlanFault> {
    let outbound = check_outbound(
        Wanted {
            to: &said.to,
            method: bounds.method.clone(),
            path: &said.path,
            query: said.query,
            credential: said.credential.as_deref(),
            placement: said.placement,
        },
        bounds,
    )?;
    if said.request_headers.len() + said.response_headers.len() + said.substitutions.len()
        > MAX_EDITS
    {
        return Err(fault(format!("it holds more than {MAX_EDITS} edits")));
    }
    let edits = |edits: Vec<SaidEdit>| -> Result<Vec<Edit>, PlanFault> {
        edits
            .into_iter()
            .map(|edit| check_edit(edit, bounds))
            .collect()
    };
    let substitutions = said
        .substitutions
        .iter()
        .map(|(status, refusal)| {
            Ok((
                status_in(*status, 100, "a status to replace")?,
                check_refusal(refusal)?,
            ))
        })
        .collect::<Result<_, PlanFault>>()?;
    Ok(Forward {
        outbound,
        request_edits: edits(said.request_headers)?,
        response_edits: edits(said.response_headers)?,
        substitutions,
    })
}

fn check_call(said: SaidCall, bounds: &Bounds<'_>) -> Result<Call, PlanFault> {
    let method = Method::from_bytes(said.method.as_bytes())
        .ok()
        .filter(|method| {
            *method != Method::CONNECT && said.method.bytes().all(|b| b.is_ascii_uppercase())
        })
        .ok_or_else(|| {
            fault(format!(
                "{} is not a method it may call",
                quote(&said.method)
            ))
        })?;
    let outbound = check_outbound(
        Wanted {
            to: &said.to,
            method,
            path: &said.path,
            query: said.query,
            credential: said.credential.as_deref(),
            placement: said.placement,
        },
        bounds,
    )?;
    if matches!(outbound.credential, Some((_, Placement::StandIn))) {
        return Err(fault(
            "a call cannot place a credential where the box's token stands: it has no such place",
        ));
    }
    let headers = check_headers(said.headers, bounds)?;
    Ok(Call {
        outbound,
        headers,
        body: Bytes::from(said.body),
    })
}

struct Wanted<'a> {
    to: &'a SaidTarget,
    method: Method,
    path: &'a SaidPath,
    query: SaidQuery,
    credential: Option<&'a str>,
    placement: SaidPlacement,
}

fn check_outbound(wanted: Wanted<'_>, bounds: &Bounds<'_>) -> Result<Outbound, PlanFault> {
    if bounds.words.is_empty() {
        return Err(fault(
            "it sends a request on for which it asked no scope word; such a request can only be answered",
        ));
    }
    let (target, shown) = match wanted.to {
        SaidTarget::Upstream(name) => (
            UpstreamName::parse(name).ok().map(Target::Upstream),
            format!("the upstream {}", quote(name)),
        ),
        SaidTarget::Secret(name) => (
            SecretName::parse(name).ok().map(Target::Secret),
            format!("the secret {}", quote(name)),
        ),
    };
    let target = target
        .filter(|target| bounds.reachable.contains(target))
        .ok_or_else(|| fault(format!("none of the permitted words reaches {shown}")))?;
    let path = match wanted.path {
        SaidPath::Received(segments) => {
            paths::skip_segments(bounds.tail, *segments).ok_or_else(|| {
                fault(format!(
                    "the received path has fewer than {segments} segments to leave out"
                ))
            })?
        }
        SaidPath::Literal(literal) => bounds
            .manifest
            .paths
            .iter()
            .find(|path| *path == literal)
            .ok_or_else(|| {
                fault(format!(
                    "the path {} is not in its manifest",
                    quote(literal)
                ))
            })?,
    };
    let path = if path.is_empty() { "/" } else { path };
    let query = match wanted.query {
        SaidQuery::Received => bounds.query.map(str::to_owned),
        SaidQuery::None => None,
    };
    let credential = match wanted.credential {
        None => None,
        Some(name) => Some((
            check_offer(name, &target, bounds)?,
            check_placement(wanted.placement)?,
        )),
    };
    Ok(Outbound {
        target,
        method: wanted.method,
        path: path.to_owned(),
        query,
        credential,
    })
}

fn check_offer(
    name: &str,
    target: &Target,
    bounds: &Bounds<'_>,
) -> Result<CredentialKey, PlanFault> {
    let offer = bounds
        .offers
        .iter()
        .find(|offer| offer.name == name)
        .ok_or_else(|| fault(format!("the credential {} was not on offer", quote(name))))?;
    if offer.target != *target {
        return Err(fault(format!(
            "the credential {} is for another target",
            quote(name)
        )));
    }
    Ok(offer.key.clone())
}

fn check_placement(said: SaidPlacement) -> Result<Placement, PlanFault> {
    match said {
        SaidPlacement::Bearer => Ok(Placement::Bearer),
        SaidPlacement::StandIn => Ok(Placement::StandIn),
        SaidPlacement::Query(name) => {
            check_text("the name of a query parameter", &name)?;
            if name.is_empty() || name.len() > 128 {
                return Err(fault(
                    "the name of a query parameter must have 1 to 128 bytes",
                ));
            }
            Ok(Placement::Query(
                utf8_percent_encode(&name, NON_ALPHANUMERIC).to_string(),
            ))
        }
        SaidPlacement::Header { name, template } => {
            let header = parse_name(&name)?;
            if header != AUTHORIZATION && !headers::plugin_may_edit(&header, &[]) {
                return Err(fault(format!(
                    "the header {} cannot carry a credential",
                    quote(&name)
                )));
            }
            if template.len() > 256 || !template.bytes().all(|b| b == b' ' || b.is_ascii_graphic())
            {
                return Err(fault(format!(
                    "the template {} is not printable ASCII",
                    quote(&template)
                )));
            }
            match template.split_once("{}") {
                Some((before, after)) if !after.contains("{}") => Ok(Placement::Header {
                    name: header,
                    before: before.to_owned(),
                    after: after.to_owned(),
                }),
                _ => Err(fault(format!(
                    "the template {} must hold {{}} once",
                    quote(&template)
                ))),
            }
        }
    }
}

fn check_edit(said: SaidEdit, bounds: &Bounds<'_>) -> Result<Edit, PlanFault> {
    let name = |name: &str| {
        let header = parse_name(name)?;
        if headers::plugin_may_edit(&header, bounds.credential_headers) {
            return Ok(header);
        }
        Err(fault(format!(
            "the header {} is the host's own",
            quote(name)
        )))
    };
    Ok(match said {
        SaidEdit::Set(header, value) => Edit::Set(name(&header)?, parse_value(&header, &value)?),
        SaidEdit::Remove(header) => Edit::Remove(name(&header)?),
        SaidEdit::AddToList(header, value) => {
            Edit::AddToList(name(&header)?, parse_value(&header, &value)?)
        }
    })
}

fn check_headers(
    said: Vec<(String, Vec<u8>)>,
    bounds: &Bounds<'_>,
) -> Result<HeaderMap, PlanFault> {
    if said.len() > MAX_EDITS {
        return Err(fault(format!("it holds more than {MAX_EDITS} headers")));
    }
    let mut map = HeaderMap::new();
    for (name, value) in said {
        let header = parse_name(&name)?;
        if !headers::plugin_may_edit(&header, bounds.credential_headers) {
            return Err(fault(format!(
                "the header {} is the host's own",
                quote(&name)
            )));
        }
        let value = parse_value(&name, &value)?;
        map.append(header, value);
    }
    Ok(map)
}

fn check_answer(
    status: u16,
    headers: Vec<(String, Vec<u8>)>,
    body: Vec<u8>,
    bounds: &Bounds<'_>,
) -> Result<Answer, PlanFault> {
    let status = status_in(status, 200, "the status of an answer")?;
    let headers = check_headers(headers, bounds)?;
    Ok(Answer {
        status,
        headers,
        body: Bytes::from(body),
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

fn check_key(key: &str) -> Result<(), PlanFault> {
    check_text("a key of its keep", key)?;
    if key.is_empty() || key.len() > MAX_KEEP_KEY {
        return Err(fault(format!(
            "a key of its keep must have 1 to {MAX_KEEP_KEY} bytes"
        )));
    }
    Ok(())
}

fn check_text(what: &str, text: &str) -> Result<(), PlanFault> {
    if text.len() > MAX_MESSAGE {
        return Err(fault(format!("{what} is longer than {MAX_MESSAGE} bytes")));
    }
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

fn parse_name(name: &str) -> Result<HeaderName, PlanFault> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| fault(format!("{} is not a header's name", quote(name))))
}

fn parse_value(name: &str, value: &[u8]) -> Result<HeaderValue, PlanFault> {
    HeaderValue::from_bytes(value).map_err(|_| {
        fault(format!(
            "the value of {} holds a control character",
            quote(name)
        ))
    })
}

fn fault(reason: impl Into<String>) -> PlanFault {
    PlanFault(reason.into())
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
