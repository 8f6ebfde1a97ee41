//! Why a request was not sealed or could not be relayed, in words for the box. No text here
//! holds an address, a URL, a query or a value.

use http::StatusCode;

use crate::relay::decode::Undecodable;
use crate::rules::codings::UnsearchedCoding;
use crate::rules::refusal::{Refusal, RefusalKind};

/// Why there is no answer to hand on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelayFailure {
    /// No address of the target may be dialed.
    #[error("its address is private, reserved or the broker's own")]
    AddressRefused,
    /// The target's name has no address.
    #[error("its name does not resolve")]
    Unresolved,
    /// Nothing answered at the target's addresses.
    #[error("no connection could be made")]
    Unreachable,
    /// No connection within the limit.
    #[error("no connection could be made in time")]
    ConnectTimedOut,
    /// The target could not prove who it is.
    #[error(
        "no secure connection could be made: its certificate is not trusted, or it speaks no TLS"
    )]
    Untrusted,
    /// The connection ended before an answer.
    #[error("it broke off before it answered")]
    Broken,
    /// Nothing came for as long as the idle limit.
    #[error("it was silent for too long")]
    Silent,
    /// The answer is not one that can be handed on.
    #[error("its answer cannot be passed on: {0}")]
    Unreadable(&'static str),
    /// The box's own body broke off.
    #[error("the request's body broke off")]
    RequestBroken,
    /// The box's own body was encoded, and a token or grant was found in it.
    #[error("the request's encoded body carries the box's token or a grant; take it out")]
    TokenInBody,
    /// The box's own body was encoded, and could not be searched.
    #[error("the request's encoded body does not decode, so it cannot be searched for the token")]
    RequestUndecodable,
    /// The box, credential or plugin behind the request was revoked.
    #[error("what allowed the request was revoked")]
    Revoked,
    /// The plan puts a refusal in place of the upstream's answer.
    #[error("replaced by the plan")]
    Substituted(Box<Refusal>),
}

impl RelayFailure {
    /// What the box is told. `target` is the destination's name, such as
    /// `upstream NAME`.
    #[must_use]
    pub fn refusal(&self, target: &str) -> Refusal {
        let message = format!("The request to {target} failed: {self}.");
        match self {
            Self::AddressRefused => Refusal::forbidden(format!(
                "The request to {target} was not sent: {self}. The operator can allow a private \
                 address for this target alone (allow_private)."
            )),
            Self::Unresolved
            | Self::Unreachable
            | Self::Untrusted
            | Self::Broken
            | Self::Unreadable(_) => Refusal::upstream(message),
            Self::ConnectTimedOut | Self::Silent => {
                Refusal::new(StatusCode::GATEWAY_TIMEOUT, RefusalKind::Timeout, message)
            }
            Self::RequestBroken | Self::TokenInBody | Self::RequestUndecodable => {
                Refusal::invalid(message)
            }
            Self::Revoked => {
                Refusal::forbidden(format!("The request to {target} was cut: {self}."))
            }
            Self::Substituted(refusal) => Refusal::clone(refusal),
        }
    }
}

/// Why a request was not sealed. Nothing was sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealRefusal {
    /// The plan puts the value where the token stands, and it stands nowhere.
    #[error("the request carries the box's token in no place where the value could go")]
    TokenNowhere,
    /// The token would have gone to the upstream.
    #[error("the box's token, or another token or grant, stands in {0}, where it may not")]
    TokenLeft(&'static str),
    /// The body is encoded in a way that cannot be searched for the token.
    #[error("{0}, so its body cannot be searched for the token; send it in one of these, or plain")]
    Encoded(#[from] UnsearchedCoding),
    /// Method or path are outside what the secret may be used for.
    #[error("this method and path are not among those it may be used for")]
    NotAllowed,
    /// The value was given for another origin.
    #[error("its value was given for another address; set it again for this one")]
    Moved,
    /// The value cannot be opened.
    #[error("its value cannot be opened; set it again")]
    Unopened,
    /// The value cannot stand where it should go.
    #[error("its value holds characters that cannot stand there; set it again")]
    IllegalValue,
    /// The plan's placement, path or query cannot be sent.
    #[error("the plan asks for {0} that cannot be sent")]
    IllegalPlan(&'static str),
}

impl SealRefusal {
    /// What the box is told.
    #[must_use]
    pub fn refusal(&self, target: &str) -> Refusal {
        let message = format!("The request to {target} was not sent: {self}.");
        match self {
            Self::TokenNowhere | Self::TokenLeft(_) => Refusal::invalid(message),
            Self::Encoded(_) => Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                RefusalKind::InvalidRequest,
                message,
            ),
            Self::NotAllowed | Self::Moved | Self::Unopened | Self::IllegalValue => {
                Refusal::forbidden(message)
            }
            Self::IllegalPlan(_) => Refusal::plugin(message),
        }
    }
}

/// Why an answer ended before its end. Whoever serves it must show the box a
/// broken answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyBroken {
    /// The upstream broke off.
    #[error("the upstream broke off")]
    Upstream,
    /// The upstream was silent for as long as the idle limit.
    #[error("the upstream was silent for too long")]
    Silent,
    /// What allowed the request was revoked.
    #[error("what allowed the request was revoked")]
    Revoked,
    /// The answer was encoded, and not as it said, or not to its end.
    #[error("the upstream's encoded answer does not decode")]
    Undecodable,
    /// The answer was encoded and became too much.
    #[error("the upstream's encoded answer becomes too large")]
    Bomb,
}

impl From<Undecodable> for BodyBroken {
    fn from(why: Undecodable) -> Self {
        match why {
            Undecodable::Corrupt | Undecodable::CutShort => Self::Undecodable,
            Undecodable::Bomb => Self::Bomb,
        }
    }
}
