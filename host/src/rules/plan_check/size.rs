//! How much a plugin may say: the one place that knows these numbers. They are
//! held before anything else is looked at, so that nothing after this file need
//! fear how long a list is.

use crate::rules::plan::{
    Expected, SaidAction, SaidCall, SaidEdit, SaidForward, SaidNeed, SaidPath, SaidPlacement,
    SaidPlan, SaidRefusal, SaidTarget, Write,
};
use crate::rules::plan_check::PlanFault;

/// How many calls one need may hold, whatever the operator allows.
pub const MOST_CALLS: u32 = 64;
/// The largest value of a keep, in bytes.
pub const MOST_VALUE_BYTES: usize = 32 * KIB;
/// How many bytes of keys, values and things one plan may keep.
pub const MOST_KEPT_BYTES: usize = 192 * KIB;
/// The largest journal record, in bytes.
pub const MOST_RECORD_BYTES: usize = MIB;
/// How many bytes one plan may journal.
pub const MOST_JOURNAL_BYTES: usize = MIB + 64 * KIB;
/// How many keys one listing names.
pub const MOST_LISTED: usize = 1000;

const KIB: usize = 1024;
const MIB: usize = 1024 * KIB;

const MOST_WORDS: usize = 50;
const MOST_EFFECTS: usize = 64;
const MOST_LISTS: usize = 16;
const MOST_THINGS: usize = 1024;
const MOST_LOG_LINES: usize = 16;
const MOST_EDITS: usize = 64;
const MOST_KEY_BYTES: usize = 256;
const MOST_NAME_BYTES: usize = 2 * KIB;
const MOST_MESSAGE_BYTES: usize = 4 * KIB;
const MOST_HEADER_BYTES: usize = 16 * KIB;
const MOST_CALL_BODY: usize = MIB;
const MOST_CALLS_BYTES: usize = 16 * MIB;
const MOST_ANSWER_BODY: usize = 4 * MIB;
/// An answer to a call, and what goes with it.
const MOST_STATE: usize = 4 * MIB + 256 * KIB;

/// What `scopes` answered.
pub(super) fn words(words: &[String]) -> Result<(), PlanFault> {
    count("words", words.len(), MOST_WORDS)?;
    words.iter().try_for_each(|word| name("a word", word))
}

/// A plan.
pub(super) fn plan(plan: &SaidPlan) -> Result<(), PlanFault> {
    action(&plan.action)?;
    count("writes", plan.writes.len(), MOST_EFFECTS)?;
    count("journal records", plan.journal.len(), MOST_EFFECTS)?;
    count("things", plan.owns.len(), MOST_EFFECTS)?;
    count("log lines", plan.log.len(), MOST_LOG_LINES)?;
    for write in &plan.writes {
        key(&write.key)?;
        let value = write.value.as_ref().map_or(0, Vec::len);
        bytes("a value of its keep", value, MOST_VALUE_BYTES)?;
        if let Expected::Value(value) = &write.expects {
            bytes("a value of its keep", value.len(), MOST_VALUE_BYTES)?;
        }
    }
    for record in &plan.journal {
        bytes("a journal record", record.len(), MOST_RECORD_BYTES)?;
    }
    for line in &plan.log {
        bytes("a log line", line.message.len(), MOST_MESSAGE_BYTES)?;
    }
    let written = plan.writes.iter().map(written);
    let owned = plan
        .owns
        .iter()
        .map(|thing| thing.kind.len() + thing.id.len());
    bytes(
        "what it keeps at once",
        written.chain(owned).sum(),
        MOST_KEPT_BYTES,
    )?;
    let journaled = plan.journal.iter().map(Vec::len).sum();
    bytes("what it journals at once", journaled, MOST_JOURNAL_BYTES)
}

/// A need, of which `most_calls` calls are made.
pub(super) fn need(need: &SaidNeed, most_calls: usize) -> Result<(), PlanFault> {
    let most_calls = most_calls.min(usize::try_from(MOST_CALLS).unwrap_or(usize::MAX));
    count("calls at once", need.calls.len(), most_calls)?;
    count("reads at once", need.reads.len(), MOST_EFFECTS)?;
    count("listings at once", need.lists.len(), MOST_LISTS)?;
    count("things at once", need.owned.len(), MOST_THINGS)?;
    bytes("its state", need.state.len(), MOST_STATE)?;
    need.reads.iter().try_for_each(|each| key(each))?;
    for listing in &need.lists {
        key(&listing.prefix)?;
        listing.after.as_deref().map_or(Ok(()), key)?;
    }
    need.calls.iter().try_for_each(call)?;
    let said = need.calls.iter().map(|call| {
        let headers = call.headers.iter();
        call.body.len()
            + headers
                .map(|(name, value)| name.len() + value.len())
                .sum::<usize>()
    });
    bytes("what its calls send together", said.sum(), MOST_CALLS_BYTES)
}

fn action(action: &SaidAction) -> Result<(), PlanFault> {
    match action {
        SaidAction::Forward(said) => forward(said),
        SaidAction::Answer {
            headers: said,
            body,
            ..
        } => {
            bytes("an answer's body", body.len(), MOST_ANSWER_BODY)?;
            headers(said)
        }
        SaidAction::Refuse(said) => refusal(said),
    }
}

fn forward(said: &SaidForward) -> Result<(), PlanFault> {
    let edits = said.request_headers.len() + said.response_headers.len();
    count("edits", edits + said.substitutions.len(), MOST_EDITS)?;
    outbound(
        &said.to,
        &said.path,
        said.credential.as_deref(),
        &said.placement,
    )?;
    for edit in said.request_headers.iter().chain(&said.response_headers) {
        match edit {
            SaidEdit::Remove(text) => name("a header's name", text)?,
            SaidEdit::Set(text, value) | SaidEdit::AddToList(text, value) => header(text, value)?,
        }
    }
    let mut refusals = said.substitutions.iter().map(|(_, refusal)| refusal);
    refusals.try_for_each(refusal)
}

fn call(said: &SaidCall) -> Result<(), PlanFault> {
    name("a method", &said.method)?;
    bytes("a call's body", said.body.len(), MOST_CALL_BODY)?;
    outbound(
        &said.to,
        &said.path,
        said.credential.as_deref(),
        &said.placement,
    )?;
    headers(&said.headers)
}

fn outbound(
    to: &SaidTarget,
    path: &SaidPath,
    credential: Option<&str>,
    placement: &SaidPlacement,
) -> Result<(), PlanFault> {
    match to {
        SaidTarget::Upstream(text) | SaidTarget::Secret(text) => name("a target", text)?,
    }
    match path {
        SaidPath::Received(_) => {}
        SaidPath::Literal(text) => name("a path", text)?,
    }
    name("a credential's name", credential.unwrap_or_default())?;
    match placement {
        SaidPlacement::Bearer | SaidPlacement::StandIn => Ok(()),
        SaidPlacement::Query(text) => name("a query parameter", text),
        SaidPlacement::Header {
            name: text,
            template,
        } => {
            name("a header's name", text)?;
            name("a template", template)
        }
    }
}

fn headers(said: &[(String, Vec<u8>)]) -> Result<(), PlanFault> {
    count("headers", said.len(), MOST_EDITS)?;
    said.iter()
        .try_for_each(|(text, value)| header(text, value))
}

fn header(text: &str, value: &[u8]) -> Result<(), PlanFault> {
    name("a header's name", text)?;
    bytes("a header's value", value.len(), MOST_HEADER_BYTES)
}

fn refusal(said: &SaidRefusal) -> Result<(), PlanFault> {
    bytes("a refusal's type", said.kind.len(), MOST_MESSAGE_BYTES)?;
    bytes(
        "a refusal's message",
        said.message.len(),
        MOST_MESSAGE_BYTES,
    )
}

fn written(write: &Write) -> usize {
    write.key.len() + write.value.as_ref().map_or(0, Vec::len)
}

fn key(text: &str) -> Result<(), PlanFault> {
    bytes("a key of its keep", text.len(), MOST_KEY_BYTES)
}

fn name(what: &str, text: &str) -> Result<(), PlanFault> {
    bytes(what, text.len(), MOST_NAME_BYTES)
}

fn count(what: &str, count: usize, most: usize) -> Result<(), PlanFault> {
    if count <= most {
        return Ok(());
    }
    Err(PlanFault::TooLarge(format!(
        "it says {count} {what}, more than {most}"
    )))
}

fn bytes(what: &str, size: usize, most: usize) -> Result<(), PlanFault> {
    if size <= most {
        return Ok(());
    }
    Err(PlanFault::TooLarge(format!(
        "{what} has {size} bytes, more than {most}"
    )))
}
