//! Capability `inference`: the Anthropic API, with the payer's credential in
//! the place of the box's token.
//!
//! | request under `/llm/anthropic` | word |
//! |---|---|
//! | `HEAD` or `GET /api/hello` | none, and no token |
//! | `POST /v1/messages`, `POST /v1/messages/count_tokens` | `agent` |
//! | `GET /v1/models`, `GET /v1/models/<id>` | `agent` |
//!
//! Anything else is not served. It decides from method, path and the offered
//! credential's kind alone; query and body pass unseen. Every refusal is a
//! 403, never a 401: the client would retry a 401 with backoff.

use jackfield_sdk::prelude::*;

const UPSTREAM: &str = "anthropic";
const PREFIX: &str = "/llm/anthropic";
const HELLO_PREFIX: &str = "/llm/anthropic/api/hello";

/// What the upstream wants to see beside a setup token, and with nothing else.
const SETUP_TOKEN_BETA: &str = "oauth-2025-04-20";

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
            .word(
                Word::new(
                    "agent",
                    "Ask models for messages, count tokens, list models",
                )
                .reaches(upstream(UPSTREAM)),
            )
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        match Endpoint::of(request)? {
            Endpoint::Hello => needs_nothing(),
            Endpoint::Model => needs(["agent"]),
        }
    }

    fn route(request: Request, caller: Caller) -> Step {
        match Endpoint::of(&request) {
            Some(Endpoint::Hello) => Answer::status(200).into(),
            Some(Endpoint::Model) => match caller.offer_for(&upstream(UPSTREAM)) {
                Some(offer) => forward(offer),
                None => no_credential().into(),
            },
            None => refuse::not_found("inference does not serve this path.").into(),
        }
    }
}

jackfield_sdk::plugin!(Inference);

enum Endpoint {
    Hello,
    Model,
}

impl Endpoint {
    fn of(request: &Request) -> Option<Self> {
        let segments = request.segments();
        if request.prefix == HELLO_PREFIX {
            return segments.is_empty().then_some(Self::Hello);
        }
        match (request.method.as_str(), segments.as_slice()) {
            ("GET" | "HEAD", ["api", "hello"]) => Some(Self::Hello),
            ("POST", ["v1", "messages"] | ["v1", "messages", "count_tokens"]) => Some(Self::Model),
            ("GET", ["v1", "models"]) => Some(Self::Model),
            ("GET", ["v1", "models", id]) if is_one_segment(id) => Some(Self::Model),
            _ => None,
        }
    }
}

/// An encoded slash would be a second segment to whoever decodes it.
fn is_one_segment(id: &str) -> bool {
    !id.is_empty() && !id.to_ascii_lowercase().contains("%2f")
}

fn forward(offer: &Offer) -> Step {
    let forward = Forward::to(upstream(UPSTREAM)).substitute(401, refused_upstream());
    match offer.kind.as_str() {
        "api-key" => forward
            .credential(offer, Placement::in_header("x-api-key"))
            .into(),
        "setup-token" => forward
            .credential(offer, Placement::Bearer)
            .add_to_list("anthropic-beta", SETUP_TOKEN_BETA)
            .into(),
        "bearer" => forward.credential(offer, Placement::Bearer).into(),
        kind => refuse::forbidden(format!(
            "inference cannot use a credential of kind {kind} for the upstream {UPSTREAM}. The \
             operator can store one of kind api-key, setup-token or bearer: jackfield credential \
             set {UPSTREAM} --kind api-key"
        ))
        .into(),
    }
}

fn no_credential() -> Refusal {
    refuse::forbidden(format!(
        "This broker holds no credential for the upstream {UPSTREAM} that this box may spend. The \
         operator can store one: jackfield credential set {UPSTREAM} --kind api-key"
    ))
}

fn refused_upstream() -> Refusal {
    refuse::forbidden(format!(
        "The upstream {UPSTREAM} refused the payer's credential (401): it is wrong, expired or \
         revoked. The operator can replace it: jackfield credential set {UPSTREAM} --kind api-key"
    ))
}

#[cfg(test)]
mod tests;
