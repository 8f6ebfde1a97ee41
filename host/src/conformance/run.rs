//! What the checks of a run work with: the boxes that ask, everything that was
//! answered and everything that reached an upstream, and the words for what is
//! not as it should be.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Method, header};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::conformance::bodies::{Bodies, Body};
use crate::conformance::broker::Started;
use crate::conformance::environment::{BOXES, Environment};
use crate::conformance::exchange::{Address, Answer, Exchange, Sent, exchange};
use crate::conformance::outcome::{Outcome, Shown};
use crate::conformance::show::{self, quote};
use crate::conformance::traces::{Trace, mask};
use crate::conformance::upstreams::{Log, Received};
use crate::conformance::{Capability, StartError, environment};

/// How many requests' time a whole run may take.
const REQUESTS: u32 = 20;

/// How long a request that was refused may take to show at an upstream.
const SETTLE: Duration = Duration::from_millis(20);

/// Who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Who {
    /// The box that reports.
    First,
    /// The box that never does.
    Second,
    /// A token that is no box's.
    Stranger,
}

/// A request of a check.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    sent: Sent,
    token: Option<(Who, TokenPlace)>,
    /// What tells it from the check's other requests.
    label: &'static str,
}

#[derive(Debug, Clone, Copy)]
enum TokenPlace {
    Bearer,
    ApiKey,
}

impl Ask {
    pub(super) fn new(method: Method, target: &str) -> Self {
        Self {
            sent: Sent {
                method,
                target: target.to_owned(),
                headers: http::HeaderMap::new(),
                body: None,
            },
            token: None,
            label: "",
        }
    }

    pub(super) fn get(target: &str) -> Self {
        Self::new(Method::GET, target)
    }

    pub(super) fn post(target: &str, body: Value) -> Self {
        Self::new(Method::POST, target).body(body)
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.sent.body = Some(body);
        self
    }

    pub(super) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.sent.headers.insert(name, value);
        self
    }

    /// With the token as the bearer.
    pub(super) fn bearer(mut self, who: Who) -> Self {
        self.token = Some((who, TokenPlace::Bearer));
        self
    }

    /// With the token as the Anthropic SDK sends it.
    pub(super) fn api_key(mut self, who: Who) -> Self {
        self.token = Some((who, TokenPlace::ApiKey));
        self
    }

    pub(super) fn labeled(mut self, label: &'static str) -> Self {
        self.label = label;
        self
    }
}

/// A run under way.
pub(super) struct Run {
    pub(super) environment: Environment,
    pub(super) served: Vec<Capability>,
    pub(super) tokens: [String; 2],
    pub(super) log: Log,
    pub(super) exchanges: Vec<(Exchange, usize)>,
    address: Address,
    stranger: String,
    traces: Vec<Trace>,
    bodies: Bodies,
    timeout: Duration,
    end: Instant,
    label: &'static str,
    problems: Vec<String>,
    shown: Vec<usize>,
    began: usize,
    accounted: usize,
}

impl Run {
    pub(super) fn new(
        environment: Environment,
        started: Started,
        log: Log,
        served: &[Capability],
        timeout: Duration,
    ) -> Result<Self, StartError> {
        let mut run = Self {
            address: Address::parse(&started.url)?,
            stranger: format!("unknown-{}", environment::random()?),
            served: served.to_vec(),
            traces: Vec::new(),
            accounted: log.len(),
            tokens: started.tokens,
            log,
            exchanges: Vec::new(),
            environment,
            bodies: Bodies::new(),
            timeout,
            end: Instant::now() + timeout * REQUESTS,
            label: "",
            problems: Vec::new(),
            shown: Vec::new(),
            began: 0,
        };
        run.traces = run.values_traced();
        run.traces.extend(run.tokens_traced());
        Ok(run)
    }

    /// What no answer may carry.
    pub(super) fn values_traced(&self) -> Vec<Trace> {
        let values = self.environment.values().into_iter();
        values
            .map(|(name, value)| Trace::new(name, value))
            .collect()
    }

    /// What no upstream may receive.
    pub(super) fn tokens_traced(&self) -> Vec<Trace> {
        let named = BOXES.iter().zip(&self.tokens);
        named
            .map(|(name, token)| Trace::new(format!("the token of {name}"), token.clone()))
            .collect()
    }

    /// The first box's token.
    pub(super) fn first_token(&self) -> &str {
        let [first, _second] = &self.tokens;
        first
    }

    // === A check's life ===

    pub(super) fn begin(&mut self, before: &str) {
        self.problems.clear();
        self.shown.clear();
        self.label = "";
        self.began = self.exchanges.len();
        let late = self.log.since(self.accounted);
        if !late.is_empty() {
            self.problem(&format!(
                "before this check, and after {before} had ended, {}",
                self.reached(&late)
            ));
        }
    }

    pub(super) fn finish(&mut self, note: Option<String>) -> Outcome {
        self.accounted = self.log.len();
        if self.problems.is_empty() {
            return Outcome::Passed;
        }
        self.problems.extend(note);
        let exchanges = self
            .shown
            .iter()
            .filter_map(|number| self.show(*number))
            .collect();
        Outcome::Failed {
            problems: std::mem::take(&mut self.problems),
            exchanges,
        }
    }

    /// Notes what is wrong, and that it showed in the last exchange.
    pub(super) fn problem(&mut self, text: &str) {
        let text = mask(text, &self.traces);
        let label = match self.label {
            "" => String::new(),
            label => format!("{label}: "),
        };
        self.problems.push(format!("{label}{text}"));
        if let Some(last) = self.exchanges.len().checked_sub(1)
            && last >= self.began
            && !self.shown.contains(&last)
        {
            self.shown.push(last);
        }
    }

    /// As much of a text as is shown, with nothing in it that must not be.
    pub(super) fn quoted(&self, text: &str) -> String {
        quote(&mask(text, &self.traces))
    }

    /// What reached which upstream, in words.
    pub(super) fn reached(&self, received: &[Received]) -> String {
        let lines: Vec<String> = received
            .iter()
            .take(5)
            .map(|one| {
                format!(
                    "{} received {}",
                    one.upstream.name(),
                    self.quoted(&one.line())
                )
            })
            .collect();
        let more = match received.len().saturating_sub(lines.len()) {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        format!("{}{more}", lines.join(", "))
    }

    fn show(&self, number: usize) -> Option<Shown> {
        let (exchange, mark) = self.exchanges.get(number)?;
        let next = self.exchanges.get(number + 1).map(|(_, mark)| *mark);
        let received = self.log.since(*mark);
        let until = next.map_or(received.len(), |next| next.saturating_sub(*mark));
        let masked = |text: String| self.quoted(&text);
        Some(Shown {
            sent: masked(show::sent(&exchange.sent)),
            got: masked(show::got(exchange)),
            upstream: received
                .iter()
                .take(until)
                .map(|received| masked(show::received(received)))
                .collect(),
        })
    }

    // === What a check does ===

    /// Says a request. None, and a problem, when there is no whole answer.
    pub(super) async fn send(&mut self, ask: Ask) -> Option<Answer> {
        let Ask {
            mut sent,
            token,
            label,
        } = ask;
        self.label = label;
        if let Some((who, place)) = token {
            let [first, second] = &self.tokens;
            let token = match who {
                Who::First => first,
                Who::Second => second,
                Who::Stranger => &self.stranger,
            };
            match place {
                TokenPlace::Bearer => sent.set(header::AUTHORIZATION, &format!("Bearer {token}")),
                TokenPlace::ApiKey => sent.set(HeaderName::from_static("x-api-key"), token),
            }
        }
        let mark = self.log.len();
        let done = exchange(&self.address, sent, self.timeout, self.end).await;
        let (answer, trouble) = (done.answer.clone(), done.trouble.clone());
        self.exchanges.push((done, mark));
        match trouble {
            None => answer,
            Some(trouble) => {
                self.problem(&trouble);
                None
            }
        }
    }

    /// Reports these entries, all for this broker, and holds it to a 200.
    pub(super) async fn declare(&mut self, entries: &[(&str, &[&str])]) {
        let entries: Vec<Value> = entries
            .iter()
            .map(|(name, scope)| {
                json!({"name": name, "broker": self.environment.broker, "scope": scope})
            })
            .collect();
        let report = json!({ "capabilities": entries });
        let ask = Ask::post(DECLARATION, report).bearer(Who::First);
        if let Some(answer) = self.send(ask).await {
            self.expect_status(&answer, &[200], "to the report of what this check needs");
        }
    }

    /// Says a request that must be refused with one of these statuses, in a
    /// body of the protocol whose message holds these words, and untouched.
    pub(super) async fn refused(&mut self, ask: Ask, statuses: &[u16], names: &[&str]) {
        let mark = self.log.len();
        if let Some(answer) = self.send(ask).await {
            let refused = self.expect_status(&answer, statuses, "");
            // Of a body that is no answer to a refused request, nothing is to be said.
            if refused || answer.status >= 400 {
                self.expect_refusal(&answer, names);
            }
        }
        self.untouched(mark).await;
    }

    /// Says a request whose path nobody serves: a 404, and untouched.
    pub(super) async fn not_found(&mut self, ask: Ask) {
        let mark = self.log.len();
        if let Some(answer) = self.send(ask).await {
            self.expect_status(&answer, &[404], "");
        }
        self.untouched(mark).await;
    }

    // === What a check holds ===

    /// Whether the status is one of these; a problem where it is not.
    pub(super) fn expect_status(&mut self, answer: &Answer, expected: &[u16], to: &str) -> bool {
        if expected.contains(&answer.status) {
            return true;
        }
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        let to = if to.is_empty() {
            String::new()
        } else {
            format!(" {to}")
        };
        self.problem(&format!(
            "expected {}{to}, got {}",
            expected.join(" or "),
            answer.status
        ));
        false
    }

    pub(super) fn expect_body(&mut self, body: Body, value: &Value) {
        for fault in self.bodies.faults(body, value) {
            self.problem(&self.quoted(&fault));
        }
    }

    fn expect_refusal(&mut self, answer: &Answer, names: &[&str]) {
        let body = answer.json();
        let faults = self.bodies.faults(Body::Refusal, &body);
        if !faults.is_empty() {
            self.problem(
                r#"the body is no refusal: expected {"error": "MESSAGE"} or {"error": {"message": "MESSAGE"}}"#,
            );
            return;
        }
        let error = body.get("error");
        let message = error
            .and_then(|error| error.get("message"))
            .or(error)
            .and_then(Value::as_str)
            .unwrap_or_default();
        for name in names.iter().filter(|name| !message.contains(**name)) {
            self.problem(&format!(
                "the refusal's message does not name {name}: {}",
                self.quoted(message)
            ));
        }
    }

    /// Holds that nothing reached an upstream since. No event tells that a
    /// broker sends nothing any more, so it is given a moment.
    async fn untouched(&mut self, mark: usize) {
        tokio::time::sleep(SETTLE).await;
        let received = self.log.since(mark);
        if !received.is_empty() {
            self.problem(&format!(
                "it must not have been sent on, and {}",
                self.reached(&received)
            ));
        }
    }
}

/// The path of a report.
pub(super) const DECLARATION: &str = "/api/box/declaration";

/// Whether two values of JSON mean the same: members in any order, numbers by
/// their value.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(name, value)| other.get(name).is_some_and(|other| same(value, other)))
        }
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_compared_by_what_they_mean() {
        let check = |one: &str, other: &str, expected: bool| {
            let read = |text: &str| serde_json::from_str::<Value>(text).unwrap();
            assert_eq!(same(&read(one), &read(other)), expected, "{one} {other}");
        };
        check(r#"{"a":1,"b":[0]}"#, r#"{"b":[0.0],"a":1.0}"#, true);
        check(r#"{"a":1}"#, r#"{"a":1,"b":null}"#, false);
        check("[1,2]", "[2,1]", false);
        check("1", "\"1\"", false);
        check("null", "false", false);
    }
}
