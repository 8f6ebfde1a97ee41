//! Refusals for a box to read. A good one says what was wrong, where, and what
//! to do about it.

use crate::contract::Refusal;

/// A 400: the request is not in the format.
#[must_use]
pub fn invalid(message: impl Into<String>) -> Refusal {
    with(400, "invalid_request_error", message)
}

/// A 403: somebody must allow it first.
#[must_use]
pub fn forbidden(message: impl Into<String>) -> Refusal {
    with(403, "permission_error", message)
}

/// A 404: there is no such thing.
#[must_use]
pub fn not_found(message: impl Into<String>) -> Refusal {
    with(404, "not_found_error", message)
}

/// A 501: this broker does not do that.
#[must_use]
pub fn not_implemented(message: impl Into<String>) -> Refusal {
    with(501, "not_implemented_error", message)
}

/// A 502: the upstream failed.
#[must_use]
pub fn upstream(message: impl Into<String>) -> Refusal {
    with(502, "upstream_error", message)
}

/// A 500: the plugin is at fault.
#[must_use]
pub fn internal(message: impl Into<String>) -> Refusal {
    with(500, "api_error", message)
}

/// Any status and sort.
#[must_use]
pub fn with(status: u16, kind: &str, message: impl Into<String>) -> Refusal {
    Refusal {
        status,
        type_: kind.to_owned(),
        message: message.into(),
    }
}
