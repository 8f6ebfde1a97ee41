//! A refusal, as the box will read it. No status line, no socket: one file of
//! each protocol turns it into an answer.

use std::time::Duration;

use http::StatusCode;

/// The machine-readable sort of a refusal: a closed set for our own, free text
/// for a plugin's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusalKind {
    /// 400.
    InvalidRequest,
    /// 403.
    Permission,
    /// 404.
    NotFound,
    /// 405.
    MethodNotAllowed,
    /// 409.
    Conflict,
    /// 413.
    TooLarge,
    /// 429.
    RateLimit,
    /// 502: the upstream or the plugin failed.
    Upstream,
    /// 502: the plugin trapped, ran over a limit or answered nonsense.
    Plugin,
    /// 503.
    Unavailable,
    /// 504.
    Timeout,
    /// 500.
    Internal,
    /// What a plugin said.
    Said(String),
}

impl RefusalKind {
    /// The word in `error.type`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::InvalidRequest => "invalid_request_error",
            Self::Permission => "permission_error",
            Self::NotFound => "not_found_error",
            Self::MethodNotAllowed => "method_not_allowed",
            Self::Conflict => "conflict_error",
            Self::TooLarge => "request_too_large",
            Self::RateLimit => "rate_limit_error",
            Self::Upstream => "upstream_error",
            Self::Plugin => "plugin_error",
            Self::Unavailable => "unavailable_error",
            Self::Timeout => "timeout_error",
            Self::Internal => "api_error",
            Self::Said(word) => word,
        }
    }

    /// The word for logs and metrics: from a closed set, whatever a plugin
    /// said.
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::Said(_) => "plugin_refusal",
            Self::InvalidRequest
            | Self::Permission
            | Self::NotFound
            | Self::MethodNotAllowed
            | Self::Conflict
            | Self::TooLarge
            | Self::RateLimit
            | Self::Upstream
            | Self::Plugin
            | Self::Unavailable
            | Self::Timeout
            | Self::Internal => self.as_str(),
        }
    }
}

/// Why a request is not served. `message` is for the box; causes that it may
/// not see go to the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The status, 400 to 599.
    pub status: StatusCode,
    /// The sort.
    pub kind: RefusalKind,
    /// What was wrong, where, and what to do.
    pub message: String,
    /// How long to wait before it is worth trying again, where that is known.
    pub retry_after: Option<Duration>,
}

impl Refusal {
    /// A 400.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::BAD_REQUEST,
            RefusalKind::InvalidRequest,
            message,
        )
    }

    /// A 403.
    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, RefusalKind::Permission, message)
    }

    /// A 404.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, RefusalKind::NotFound, message)
    }

    /// A 405.
    pub fn method(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            RefusalKind::MethodNotAllowed,
            message,
        )
    }

    /// A 409.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, RefusalKind::Conflict, message)
    }

    /// A 413.
    pub fn too_large(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            RefusalKind::TooLarge,
            message,
        )
    }

    /// A 502 of an upstream's making.
    pub fn upstream(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, RefusalKind::Upstream, message)
    }

    /// A 502 of a plugin's making.
    pub fn plugin(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, RefusalKind::Plugin, message)
    }

    /// A 503.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            RefusalKind::Unavailable,
            message,
        )
    }

    /// A 500, whose cause is in the log.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            RefusalKind::Internal,
            message,
        )
    }

    /// Any status and sort.
    pub fn new(status: StatusCode, kind: RefusalKind, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            message: message.into(),
            retry_after: None,
        }
    }

    /// Says how long to wait.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }
}
