//! Capability `inference`: the Anthropic API, with the payer's credential in
//! the place of the box's token, and questions answered by it.
//!
//! | request | word |
//! |---|---|
//! | `HEAD` or `GET /llm/anthropic/api/hello` | none, and no token |
//! | `POST /llm/anthropic/v1/messages`, `…/v1/messages/count_tokens` | `agent` |
//! | `GET /llm/anthropic/v1/models`, `…/v1/models/<id>` | `agent` |
//! | `POST /decide/v1/systemone` | `decide` |
//!
//! Anything else is not served. What is forwarded is decided from method, path
//! and the offered credential's kind alone; query and body pass unseen. What a
//! question is answered with stands in `decide`. No refusal is a 401: the
//! client would retry it with backoff.

mod decide;
mod pay;

use jackfield_sdk::contract::Limits;
use jackfield_sdk::prelude::*;

use pay::{Payment, UPSTREAM};

const PREFIX: &str = "/llm/anthropic";
const HELLO_PREFIX: &str = "/llm/anthropic/api/hello";
const DECIDE_PREFIX: &str = "/decide";

/// The plugin.
pub struct Inference;

impl Capability for Inference {
    fn describe() -> Manifest {
        Manifest::new("inference", env!("CARGO_PKG_VERSION"), "inference")
            .summary("Lets a box call the Anthropic API on the payer's credential")
            .route(
                RouteEntry::under(PREFIX)
                    .token_in_headers(["x-api-key"])
                    .payer_of(UPSTREAM),
            )
            .route(
                RouteEntry::under(HELLO_PREFIX)
                    .methods(["GET", "HEAD"])
                    .public(),
            )
            .route(
                RouteEntry::under(DECIDE_PREFIX)
                    .methods(["POST"])
                    .token_in_headers(["x-api-key"])
                    .sees_body(decide::MAX_BODY)
                    .payer_of(UPSTREAM),
            )
            .word(
                Word::new(
                    "agent",
                    "Ask models for messages, count tokens, list models",
                )
                .reaches(upstream(UPSTREAM)),
            )
            .word(
                Word::new("decide", "Have its decision points answered by a model")
                    .reaches(upstream(UPSTREAM)),
            )
            .path(decide::MESSAGES)
            .limits(Limits {
                time_ms: 1_000,
                memory_bytes: 64 << 20,
                rounds: 1,
                calls: decide::MAX_QUESTIONS,
            })
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        match Endpoint::of(request)? {
            Endpoint::Hello => needs_nothing(),
            Endpoint::Model => needs(["agent"]),
            Endpoint::Decide => needs(["decide"]),
        }
    }

    fn route(request: Request, caller: Caller) -> Step {
        match Endpoint::of(&request) {
            Some(Endpoint::Hello) => Answer::status(200).into(),
            Some(Endpoint::Model) => match Payment::of(&caller) {
                Ok(payment) => forward(payment),
                Err(refusal) => refusal.into(),
            },
            Some(Endpoint::Decide) => decide::ask(&request.body.unwrap_or_default(), &caller),
            None => refuse::not_found("inference does not serve this path.").into(),
        }
    }

    fn resume(state: Vec<u8>, answers: Answers) -> Step {
        decide::answer(&state, &answers.calls)
    }
}

jackfield_sdk::plugin!(Inference);

enum Endpoint {
    Hello,
    Model,
    Decide,
}

impl Endpoint {
    fn of(request: &Request) -> Option<Self> {
        let (method, segments) = (request.method.as_str(), request.segments());
        match (request.prefix.as_str(), method, segments.as_slice()) {
            (HELLO_PREFIX, _, []) => Some(Self::Hello),
            (PREFIX, "GET" | "HEAD", ["api", "hello"]) => Some(Self::Hello),
            (PREFIX, "POST", ["v1", "messages"] | ["v1", "messages", "count_tokens"]) => {
                Some(Self::Model)
            }
            (PREFIX, "GET", ["v1", "models"]) => Some(Self::Model),
            (PREFIX, "GET", ["v1", "models", id]) if is_one_segment(id) => Some(Self::Model),
            (DECIDE_PREFIX, "POST", ["v1", "systemone"]) => Some(Self::Decide),
            _ => None,
        }
    }
}

/// An encoded slash would be a second segment to whoever decodes it.
fn is_one_segment(id: &str) -> bool {
    !id.is_empty() && !id.to_ascii_lowercase().contains("%2f")
}

fn forward(payment: Payment<'_>) -> Step {
    let forward = Forward::to(upstream(UPSTREAM))
        .substitute(401, pay::refused_credential())
        .credential(payment.offer, payment.placement);
    match payment.beta {
        Some(beta) => forward.add_to_list("anthropic-beta", beta).into(),
        None => forward.into(),
    }
}

#[cfg(test)]
mod tests;
