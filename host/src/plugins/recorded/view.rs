//! A step as fields that can be compared and shown: values of headers, bodies
//! and whatever else may hold what a box or an upstream wrote are told by their
//! length and a hash alone.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::plugins::hash::ComponentHash;
use crate::rules::plan::{
    Expected, LogLevel, SaidAction, SaidCall, SaidEdit, SaidForward, SaidNeed, SaidPath,
    SaidPlacement, SaidPlan, SaidQuery, SaidRefusal, SaidStep, SaidTarget, SaidThing, Write,
};

/// The members of a value that is left out.
pub(crate) const BYTES: &str = "bytes";
pub(crate) const SHA256: &str = "sha256";

/// A step, without values.
pub(crate) fn view(step: &SaidStep) -> Value {
    match step {
        SaidStep::Plan(plan) => json!({ "plan": plan_view(plan) }),
        SaidStep::Need(need) => json!({ "need": need_view(need) }),
    }
}

fn hidden(value: &[u8]) -> Value {
    let hash = ComponentHash(Sha256::digest(value).into());
    json!({ BYTES: value.len(), SHA256: hash.to_string() })
}

fn plan_view(plan: &SaidPlan) -> Value {
    let action = match &plan.action {
        SaidAction::Forward(said) => json!({ "forward": forward(said) }),
        SaidAction::Answer {
            status,
            headers: said,
            body,
        } => {
            json!({ "answer": { "status": status, "headers": headers(said), "body": hidden(body) } })
        }
        SaidAction::Refuse(said) => json!({ "refuse": refusal(said) }),
    };
    let level = |level| match level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warn => "warn",
    };
    let log = plan.log.iter();
    json!({
        "action": action,
        "writes": plan.writes.iter().map(write).collect::<Vec<_>>(),
        "journal": plan.journal.iter().map(|record| hidden(record)).collect::<Vec<_>>(),
        "owns": plan.owns.iter().map(thing).collect::<Vec<_>>(),
        "log": log
            .map(|line| json!({ "level": level(line.level), "message": hidden(line.message.as_bytes()) }))
            .collect::<Vec<_>>(),
    })
}

fn forward(said: &SaidForward) -> Value {
    let substitutions = said.substitutions.iter();
    json!({
        "to": target(&said.to),
        "path": path(&said.path),
        "query": query(said.query),
        "credential": said.credential,
        "placement": placement(&said.placement),
        "request_headers": said.request_headers.iter().map(edit).collect::<Vec<_>>(),
        "response_headers": said.response_headers.iter().map(edit).collect::<Vec<_>>(),
        "substitutions": substitutions
            .map(|(status, said)| json!({ "of": status, "by": refusal(said) }))
            .collect::<Vec<_>>(),
    })
}

fn need_view(need: &SaidNeed) -> Value {
    let listing = |listing: &crate::rules::plan::Listing| json!({ "prefix": listing.prefix, "after": listing.after });
    json!({
        "calls": need.calls.iter().map(call).collect::<Vec<_>>(),
        "reads": need.reads,
        "lists": need.lists.iter().map(listing).collect::<Vec<_>>(),
        "owned": need.owned.iter().map(thing).collect::<Vec<_>>(),
        "deadline_ms": need.deadline_ms,
    })
}

fn call(said: &SaidCall) -> Value {
    json!({
        "to": target(&said.to),
        "method": said.method,
        "path": path(&said.path),
        "query": query(said.query),
        "headers": headers(&said.headers),
        "body": hidden(&said.body),
        "credential": said.credential,
        "placement": placement(&said.placement),
    })
}

fn write(write: &Write) -> Value {
    let expects = match &write.expects {
        Expected::Anything => json!("anything"),
        Expected::Nothing => json!("nothing"),
        Expected::Value(value) => hidden(value),
    };
    let value = write.value.as_deref().map(hidden);
    json!({ "key": write.key, "value": value, "expects": expects })
}

fn thing(said: &SaidThing) -> Value {
    json!({ "kind": said.kind, "id": said.id })
}

fn headers(said: &[(String, Vec<u8>)]) -> Vec<Value> {
    let header =
        |(name, value): &(String, Vec<u8>)| json!({ "name": name, "value": hidden(value) });
    said.iter().map(header).collect()
}

fn edit(said: &SaidEdit) -> Value {
    match said {
        SaidEdit::Set(name, value) => json!({ "set": name, "value": hidden(value) }),
        SaidEdit::Remove(name) => json!({ "remove": name }),
        SaidEdit::AddToList(name, value) => json!({ "add_to_list": name, "value": hidden(value) }),
    }
}

fn refusal(said: &SaidRefusal) -> Value {
    let message = hidden(said.message.as_bytes());
    json!({ "status": said.status, "type": said.kind, "message": message })
}

fn target(said: &SaidTarget) -> String {
    match said {
        SaidTarget::Upstream(name) => format!("upstream:{name}"),
        SaidTarget::Secret(name) => format!("secret:{name}"),
    }
}

fn path(said: &SaidPath) -> Value {
    match said {
        SaidPath::Received(skipped) => json!({ "received_less": skipped }),
        SaidPath::Literal(literal) => json!({ "literal": literal }),
    }
}

fn query(said: SaidQuery) -> &'static str {
    match said {
        SaidQuery::Received => "received",
        SaidQuery::None => "none",
    }
}

fn placement(said: &SaidPlacement) -> Value {
    match said {
        SaidPlacement::Bearer => json!("bearer"),
        SaidPlacement::Header { name, template } => json!({ "header": name, "template": template }),
        SaidPlacement::Query(name) => json!({ "query": name }),
        SaidPlacement::StandIn => json!("stand-in"),
    }
}
