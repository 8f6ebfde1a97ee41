//! The receiver that the operator names: the batch is sent to it, and a batch
//! that it did not take is said to be not taken.

use jackfield_sdk::contract::{CallAnswer, CallFailure};
use jackfield_sdk::prelude::*;

use crate::{PATH, taken};

/// The upstream that is the receiver, where the operator configures it.
pub(crate) const UPSTREAM: &str = "feedback";

/// How long the receiver may take.
const DEADLINE_MS: u32 = 30_000;

/// Sends a batch on, with the operator's credential where there is one.
pub(crate) fn send(batch: Vec<u8>, caller: &Caller) -> Step {
    let call = Call::new("POST", upstream(UPSTREAM), PATH)
        .header("content-type", "application/json")
        .body(batch);
    let call = match caller.offer_for(&upstream(UPSTREAM)) {
        None => call,
        Some(offer) if offer.kind == "bearer" => call.credential(offer, Placement::Bearer),
        Some(offer) => return unusable(&offer.kind).into(),
    };
    let mut need = Need::with_state([]).call(call);
    need.deadline_ms = DEADLINE_MS;
    need.into()
}

/// Answers with what the receiver said.
pub(crate) fn answer(calls: Vec<Result<CallAnswer, CallFailure>>) -> Step {
    match calls.into_iter().next() {
        Some(Ok(said)) if (200..300).contains(&said.status) => taken().into(),
        Some(Ok(said)) if is_about_the_batch(said.status) => handed_on(said).into(),
        Some(Ok(said)) => not_taken(&format!("it answered {}", said.status)).into(),
        Some(Err(CallFailure::Unreachable)) => not_taken("it could not be reached").into(),
        Some(Err(CallFailure::Timeout)) => not_taken("it took too long").into(),
        Some(Err(CallFailure::Broken | CallFailure::TooLarge)) | None => {
            not_taken("its answer could not be read").into()
        }
    }
}

/// Whether a status tells the box something: of the others, those that speak
/// of a credential are the operator's.
fn is_about_the_batch(status: u16) -> bool {
    (400..500).contains(&status) && ![401, 403, 407].contains(&status)
}

fn handed_on(said: CallAnswer) -> Answer {
    let passed = |name: &str| name == "content-type" || name == "retry-after";
    let mut answer = Answer::status(said.status).body(said.body);
    answer.headers = said.headers;
    answer
        .headers
        .retain(|header| passed(&header.name.to_ascii_lowercase()));
    answer
}

fn not_taken(why: &str) -> Refusal {
    refuse::upstream(format!(
        "The receiver of feedback, the upstream {UPSTREAM}, did not take the batch: {why}. Keep \
         the batch, and send it later."
    ))
}

fn unusable(kind: &str) -> Refusal {
    refuse::with(
        503,
        "configuration_error",
        format!(
            "feedback cannot use a credential of kind {kind} for the upstream {UPSTREAM}. The \
             operator can store one of kind bearer: jackfield credential set {UPSTREAM} --kind \
             bearer. Keep the batch, and send it later."
        ),
    )
}
