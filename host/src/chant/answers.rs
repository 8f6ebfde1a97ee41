//! The one place where this protocol's failures become answers (chant broker
//! protocol, "Refusals").

use http::header::{ALLOW, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{HeaderMap, Response, StatusCode};
use serde_json::json;

use crate::chant::limits::{A_MOMENT, Over};
use crate::listen::ResponseBody;
use crate::plugins::{CallFault, Fault};
use crate::relay::RelayFailure;
use crate::rules::causes::with_causes;
use crate::rules::headers::CHANT_PAYER;
use crate::rules::names::PluginName;
use crate::rules::payer::Payer;
use crate::rules::plan::Answer;
use crate::rules::plan_check::PlanFault;
use crate::rules::refusal::{Refusal, RefusalKind};
use crate::store::StoreError;
use crate::telemetry::{Limit, PluginFault};

/// Everything that can end a request without an upstream's answer.
#[derive(Debug)]
pub(super) enum Failure {
    /// A refusal of our own or of a plugin.
    Refuse(Refusal),
    /// A plugin trapped, ran over a limit, or found no room.
    Call(CallFault),
    /// A plugin said what the host does not do.
    Plan(PluginName, PlanFault),
    /// A plugin asked for more rounds than it may have.
    Rounds(PluginName, u32),
    /// The upstream, which messages call so, could not be reached or broke off
    /// before its answer.
    Relay(RelayFailure, String),
    /// The box, the plugin or the host has as much as it may.
    Over(Over),
    /// The store failed; what was to be kept is not.
    Store(StoreError),
    /// The body broke off or could not be read.
    Body,
    /// The body took too long.
    Slow,
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refuse(refusal)
    }
}

impl From<Over> for Failure {
    fn from(over: Over) -> Self {
        Self::Over(over)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    /// How a plugin failed, where one did.
    pub(super) fn plugin_fault(&self) -> Option<PluginFault> {
        match self {
            Self::Call(fault) => match fault.fault {
                Fault::Trapped(_) => Some(PluginFault::Trap),
                Fault::TimedOut(_) => Some(PluginFault::Time),
                Fault::OutOfMemory(_) => Some(PluginFault::Memory),
                Fault::TooLarge(_) => Some(PluginFault::Size),
                Fault::Nonsense(_) => Some(PluginFault::Nonsense),
                Fault::Busy => Some(PluginFault::Busy),
                Fault::Host => None,
            },
            Self::Plan(_, PlanFault::TooLarge(_)) => Some(PluginFault::Size),
            Self::Plan(_, PlanFault::Beyond(_) | PlanFault::Nonsense(_)) | Self::Rounds(_, _) => {
                Some(PluginFault::Nonsense)
            }
            Self::Refuse(_)
            | Self::Relay(_, _)
            | Self::Over(_)
            | Self::Store(_)
            | Self::Body
            | Self::Slow => None,
        }
    }

    /// The limit that it would have passed, where that is why.
    pub(super) fn limit(&self) -> Option<Limit> {
        match self {
            Self::Over(over) => Some(over.limit),
            Self::Call(fault) if fault.fault == Fault::Busy => Some(Limit::InstancesPerPlugin),
            Self::Call(_)
            | Self::Refuse(_)
            | Self::Plan(_, _)
            | Self::Rounds(_, _)
            | Self::Relay(_, _)
            | Self::Store(_)
            | Self::Body
            | Self::Slow => None,
        }
    }

    /// The refusal that the box reads. What it may not see is logged here.
    pub(super) fn into_refusal(self) -> Refusal {
        match self {
            Self::Refuse(refusal) => refusal,
            Self::Call(fault) => {
                tracing::warn!(%fault, "a plugin could not be asked");
                let message = format!("This request could not be decided: {fault}.");
                if fault.fault.is_the_plugins() {
                    Refusal::plugin(message)
                } else {
                    Refusal::unavailable(message).retry_after(Some(A_MOMENT))
                }
            }
            Self::Plan(plugin, fault) => {
                tracing::warn!(%plugin, %fault, "a plugin said what it may not");
                Refusal::plugin(format!(
                    "The plugin {plugin} answered what the host does not do: {fault}."
                ))
            }
            Self::Rounds(plugin, most) => {
                tracing::warn!(%plugin, most, "a plugin asked for too many rounds");
                Refusal::plugin(format!(
                    "The plugin {plugin} reached no decision in {most} rounds."
                ))
            }
            Self::Relay(failure, target) => {
                // A plan's own refusal of an upstream's answer is no fault.
                if !matches!(failure, RelayFailure::Substituted(_)) {
                    tracing::warn!(target, cause = with_causes(&failure), "an upstream failed");
                }
                failure.refusal(&target)
            }
            Self::Over(over) => over.refusal(),
            Self::Store(error) => {
                tracing::error!(%error, "the store failed");
                Refusal::unavailable(
                    "The broker could not keep its records; nothing was changed. Try again.",
                )
            }
            Self::Slow => Refusal::new(
                StatusCode::REQUEST_TIMEOUT,
                RefusalKind::Timeout,
                "The request's body took too long to arrive. Send it faster, or less of it.",
            ),
            Self::Body => Refusal::invalid("The request's body broke off or could not be read."),
        }
    }
}

/// The answer for a refusal.
pub(super) fn refuse(refusal: &Refusal) -> Answer {
    let body = json!({
        "type": "error",
        "error": { "type": refusal.kind.as_str(), "message": refusal.message },
    });
    let mut answer = json_answer(refusal.status, body.to_string());
    if refusal.kind == RefusalKind::MethodNotAllowed {
        answer
            .headers
            .insert(ALLOW, HeaderValue::from_static("POST"));
    }
    if let Some(wait) = refusal.retry_after {
        // Whole seconds, and none too early.
        let seconds = u64::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u64::MAX);
        answer
            .headers
            .insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// A JSON answer of our own.
pub(super) fn json_answer(status: StatusCode, body: String) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Answer {
        status,
        headers,
        body: body.into(),
    }
}

/// An answer on its way out.
pub(super) fn answered(answer: Answer) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::full(answer.body));
    *response.status_mut() = answer.status;
    *response.headers_mut() = answer.headers;
    response
}

/// Says who pays (chant broker protocol, "Who pays").
pub(super) fn say_payer(response: &mut Response<ResponseBody>, payer: &Payer) {
    if let Ok(value) = HeaderValue::from_str(&payer.to_string()) {
        response.headers_mut().insert(CHANT_PAYER, value);
    }
}
