//! What a command is told when the host does not do it.

use std::error::Error;

use axum::response::{IntoResponse, Json, Response};
use http::StatusCode;

use crate::admin::wire;
use crate::rules::causes::with_causes;

/// A refusal or failure of the operator's API.
#[derive(Debug)]
pub(super) struct Failure {
    status: StatusCode,
    kind: &'static str,
    message: String,
}

impl Failure {
    /// The request itself is wrong.
    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// What it names is not there.
    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found_error", message)
    }

    /// What is there already stands against it.
    pub(super) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict_error", message)
    }

    /// A part of the host said no; its whole chain of causes is for the
    /// operator to read.
    pub(super) fn said(error: &(dyn Error + 'static)) -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "refused_error",
            with_causes(error),
        )
    }

    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
        }
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let error = wire::Fault {
            kind: self.kind.to_owned(),
            message: self.message,
        };
        (self.status, Json(wire::Refused { error })).into_response()
    }
}
