//! How a credential is spent at the upstream, and what a box is told when it
//! cannot be: the same for what is forwarded and for what the plugin asks.

use jackfield_sdk::prelude::*;

/// The upstream that every word of this plugin reaches.
pub(crate) const UPSTREAM: &str = "anthropic";

/// What the upstream wants to see beside a setup token, and with nothing else.
pub(crate) const SETUP_TOKEN_BETA: &str = "oauth-2025-04-20";

/// The payer's credential, and how its kind is spent.
pub(crate) struct Payment<'a> {
    /// The credential.
    pub(crate) offer: &'a Offer,
    /// Where it goes.
    pub(crate) placement: Placement,
    /// The beta that must stand in `anthropic-beta` with it.
    pub(crate) beta: Option<&'static str>,
}

impl<'a> Payment<'a> {
    /// The credential on offer, or why nothing can be paid.
    pub(crate) fn of(caller: &'a Caller) -> Result<Self, Refusal> {
        let offer = caller
            .offer_for(&upstream(UPSTREAM))
            .ok_or_else(no_credential)?;
        let (placement, beta) = match offer.kind.as_str() {
            "api-key" => (Placement::in_header("x-api-key"), None),
            "setup-token" => (Placement::Bearer, Some(SETUP_TOKEN_BETA)),
            "bearer" => (Placement::Bearer, None),
            kind => return Err(unknown_kind(kind)),
        };
        Ok(Self {
            offer,
            placement,
            beta,
        })
    }
}

/// What a box is told in the place of the upstream's 401: a client would retry
/// that with backoff, and it is the operator's trouble.
pub(crate) fn refused_credential() -> Refusal {
    refuse::forbidden(format!(
        "The upstream {UPSTREAM} refused the payer's credential (401): it is wrong, expired or \
         revoked. The operator can replace it: jackfield credential set {UPSTREAM} --kind api-key"
    ))
}

fn no_credential() -> Refusal {
    refuse::forbidden(format!(
        "This broker holds no credential for the upstream {UPSTREAM} that this box may spend. The \
         operator can store one: jackfield credential set {UPSTREAM} --kind api-key"
    ))
}

fn unknown_kind(kind: &str) -> Refusal {
    refuse::forbidden(format!(
        "inference cannot use a credential of kind {kind} for the upstream {UPSTREAM}. The \
         operator can store one of kind api-key, setup-token or bearer: jackfield credential \
         set {UPSTREAM} --kind api-key"
    ))
}
