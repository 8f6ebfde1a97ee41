//! What a plugin decided, on one line, so that two versions can be compared by
//! somebody who reads.

use crate::rules::audit::finding::shown;
use crate::rules::plan::{SaidAction, SaidEdit, SaidForward, SaidPath, SaidStep, SaidTarget};

/// A step in words.
#[must_use]
pub fn in_words(step: &SaidStep) -> String {
    let plan = match step {
        SaidStep::Plan(plan) => plan,
        SaidStep::Need(need) => {
            return format!(
                "needs {} calls, {} reads, {} listings, {} things",
                need.calls.len(),
                need.reads.len(),
                need.lists.len(),
                need.owned.len()
            );
        }
    };
    let mut words = match &plan.action {
        SaidAction::Forward(said) => forward(said),
        SaidAction::Answer {
            status,
            headers,
            body,
        } => format!(
            "answers {status} with {} headers and {} bytes",
            headers.len(),
            body.len()
        ),
        SaidAction::Refuse(refusal) => format!("refuses {} {}", refusal.status, refusal.kind),
    };
    for (count, what) in [
        (plan.writes.len(), "writes"),
        (plan.journal.len(), "journal records"),
        (plan.owns.len(), "new things"),
    ] {
        if count > 0 {
            words += &format!(", {count} {what}");
        }
    }
    shown(&words)
}

fn forward(said: &SaidForward) -> String {
    let to = match &said.to {
        SaidTarget::Upstream(name) => format!("the upstream {name}"),
        SaidTarget::Secret(name) => format!("the host of the secret {name}"),
    };
    let path = match &said.path {
        SaidPath::Received(0) => "as it came".to_owned(),
        SaidPath::Received(skipped) => format!("less {skipped} segments"),
        SaidPath::Literal(path) => format!("as {path}"),
    };
    let credential = match &said.credential {
        Some(name) => format!("with {name} as {:?}", said.placement),
        None => "without a credential".to_owned(),
    };
    let edits = said.request_headers.iter().chain(&said.response_headers);
    let edits: Vec<&str> = edits
        .map(|edit| match edit {
            SaidEdit::Set(name, _) | SaidEdit::AddToList(name, _) | SaidEdit::Remove(name) => {
                name.as_str()
            }
        })
        .collect();
    let edits = match edits.as_slice() {
        [] => String::new(),
        edits => format!(", edits {}", edits.join(" ")),
    };
    format!("forwards to {to} {path}, {credential}{edits}")
}
