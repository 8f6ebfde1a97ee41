//! The event that ends every request.

use std::error::Error;
use std::time::Duration;

use http::{Method, StatusCode};

use crate::rules::causes::with_causes;
use crate::rules::escape::escape_line;
use crate::rules::names::{BoxName, PluginName};
use crate::rules::plan::Target;
use crate::rules::refusal::RefusalKind;
use crate::telemetry::Metrics;

/// Which protocol the request belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// The chant broker protocol.
    Chant,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// An upstream's answer reached the box, all of it.
    Forward,
    /// The host or a plugin answered.
    Answer,
    /// It was refused.
    Refuse,
    /// The upstream broke off, or the relay failed, after the answer began.
    Break,
    /// The box left before the end.
    Leave,
    /// What it was running on was revoked.
    Revoke,
}

impl Outcome {
    pub(super) const ALL: [Self; 6] = [
        Self::Forward,
        Self::Answer,
        Self::Refuse,
        Self::Break,
        Self::Leave,
        Self::Revoke,
    ];

    /// The word in the log and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Answer => "answer",
            Self::Refuse => "refuse",
            Self::Break => "break",
            Self::Leave => "leave",
            Self::Revoke => "revoke",
        }
    }
}

/// A method, from a closed set: a box may write anything where HTTP wants one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodLabel(&'static str);

impl MethodLabel {
    /// The label of a method.
    #[must_use]
    pub fn of(method: &Method) -> Self {
        let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
        Self(
            known
                .into_iter()
                .find(|known| *known == method.as_str())
                .unwrap_or("OTHER"),
        )
    }

    /// The word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

/// What is known when a request has ended.
#[derive(Debug)]
pub struct RequestEnd<'a> {
    /// The protocol.
    pub protocol: Protocol,
    /// The method.
    pub method: MethodLabel,
    /// Who asked, once that was known.
    pub box_name: Option<&'a BoxName>,
    /// The plugin that served the route; none for the host's own.
    pub plugin: Option<&'a PluginName>,
    /// Where it was sent.
    pub target: Option<&'a Target>,
    /// How it ended.
    pub outcome: Outcome,
    /// The status the box saw; none when it left before there was one.
    pub status: Option<StatusCode>,
    /// The sort of refusal.
    pub refusal: Option<&'a RefusalKind>,
    /// From the request's head to the end of the answer.
    pub duration: Duration,
    /// Bytes of the request's body.
    pub bytes_in: u64,
    /// Bytes of the answer's body.
    pub bytes_out: u64,
    /// The cause that the box was not told. Our own errors hold no secret, no
    /// query and no token.
    pub cause: Option<&'a (dyn Error + 'static)>,
}

/// Counts the request and logs its one event: at info, or at warn when
/// something other than the box was to blame.
pub fn end_request(metrics: &Metrics, end: &RequestEnd<'_>) {
    metrics.count(end);
    let protocol = match end.protocol {
        Protocol::Chant => "chant",
    };
    let method = end.method.as_str();
    let box_name = end.box_name.map(BoxName::as_str);
    let plugin = end.plugin.map(PluginName::as_str);
    let target = end.target.map(|target| match target {
        Target::Upstream(name) => format!("upstream:{name}"),
        Target::Secret(name) => format!("secret:{name}"),
    });
    let outcome = end.outcome.as_str();
    let status = end.status.map(|status| status.as_u16());
    let refusal = end.refusal.map(RefusalKind::label);
    let milliseconds = u64::try_from(end.duration.as_millis()).unwrap_or(u64::MAX);
    let cause = end.cause.map(chain);
    macro_rules! event {
        ($level:ident) => {
            tracing::$level!(
                target: "jackfield::request",
                protocol,
                method,
                box_name,
                plugin,
                target = target.as_deref(),
                outcome,
                status,
                refusal,
                milliseconds,
                bytes_in = end.bytes_in,
                bytes_out = end.bytes_out,
                cause = cause.as_deref(),
                "request ended"
            )
        };
    }
    let ours =
        end.outcome == Outcome::Break || end.status.is_some_and(|status| status.is_server_error());
    if ours { event!(warn) } else { event!(info) }
}

/// An error and its causes on one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    escape_line(&with_causes(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_of_a_box_s_making_is_not_a_label() {
        let check = |method: &str, expected: &str| {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(MethodLabel::of(&method).as_str(), expected);
        };
        check("GET", "GET");
        check("DELETE", "DELETE");
        check("jft_secret", "OTHER");
        check("get", "OTHER");
    }

    #[test]
    fn a_cause_stays_on_its_line() {
        let error = std::io::Error::other("trap\nlevel=info forged\u{1b}[2K");
        assert_eq!(chain(&error), r"trap\u{a}level=info forged\u{1b}[2K");
    }
}
