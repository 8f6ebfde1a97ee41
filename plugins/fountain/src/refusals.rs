//! What a box is told when a request is not served: what was wrong and what to
//! do, and never whether something that is not its own exists.

use jackfield_sdk::contract::CallFailure;
use jackfield_sdk::prelude::*;

use crate::UPSTREAM;

/// The one refusal of everything that is not the box's own: the same words,
/// whatever it is and whether it exists.
pub(crate) fn foreign() -> Refusal {
    refuse::forbidden(
        "fountain: this request names something that is not this box's own. A box's own is what \
         was created for it through this broker, and what the operator lists: jackfield box own \
         BOX KIND ID.",
    )
}

pub(crate) fn no_agent() -> Refusal {
    refuse::invalid(
        "fountain: a conversation is started with one of this box's own agents. Name it in the \
         body, such as {\"agent_id\": \"ID\"}.",
    )
}

pub(crate) fn not_created(kind: &str) -> Refusal {
    refuse::forbidden(format!(
        "fountain: a box creates no {kind}. The operator makes them at Fountain and lists the \
         box's own: jackfield box own BOX {kind} ID."
    ))
}

pub(crate) fn only_get_and_post() -> Refusal {
    refuse::with(
        405,
        "method_not_allowed",
        "fountain: a collection is asked with GET and POST alone: any other method would concern \
         what is not this box's own.",
    )
}

pub(crate) fn too_many() -> Refusal {
    refuse::invalid("fountain: this request names more than 1,000 things. Ask for fewer at once.")
}

pub(crate) fn no_credential() -> Refusal {
    refuse::forbidden(format!(
        "fountain: this broker holds no key for the upstream {UPSTREAM}. The operator can store \
         one: jackfield credential set {UPSTREAM} --kind bearer"
    ))
}

pub(crate) fn not_granted() -> Refusal {
    refuse::forbidden(
        "fountain: the operator did not grant this plugin to know what a box owns, without which \
         it serves nothing: its grant must list owned:KIND for each kind that `jackfield plugin \
         list` shows.",
    )
}

pub(crate) fn refused_key() -> Refusal {
    refuse::upstream(format!(
        "fountain: the upstream {UPSTREAM} refused the operator's key (401): it is wrong, expired \
         or revoked. The operator can replace it: jackfield credential set {UPSTREAM} --kind bearer"
    ))
}

pub(crate) fn no_answer(failure: CallFailure) -> Refusal {
    let what = match failure {
        CallFailure::Unreachable => "cannot be reached",
        CallFailure::Timeout => "did not answer in time",
        CallFailure::Broken => "broke off its answer",
        CallFailure::TooLarge => "answered more than this broker holds; ask for a smaller page",
    };
    refuse::upstream(format!("fountain: the upstream {UPSTREAM} {what}."))
}

pub(crate) fn unclear_listing() -> Refusal {
    refuse::upstream(format!(
        "fountain: the upstream {UPSTREAM} answered a listing of a shape that this broker does not \
         know. It is not passed on, because it may show what is not this box's own."
    ))
}

pub(crate) fn no_id() -> Refusal {
    refuse::upstream(format!(
        "fountain: the upstream {UPSTREAM} created something and named no id that this broker \
         could read, neither id nor data.id. It is nobody's own; the operator's log says when."
    ))
}

pub(crate) fn lost() -> Refusal {
    refuse::internal("fountain: this request has lost its thread.")
}
