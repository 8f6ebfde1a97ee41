//! What can go wrong with a question, and what the box is told: which question
//! it was, and never an answer.

use jackfield_sdk::contract::{CallAnswer, CallFailure};
use jackfield_sdk::json::{self, quoted};
use jackfield_sdk::prelude::*;
use serde_json::{Value, json};

use crate::pay::{self, UPSTREAM};

/// Why a question has no answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The call brought nothing.
    NoAnswer(CallFailure),
    /// The upstream refused, and says what was wrong.
    Status {
        /// Its status.
        status: u16,
        /// What it says, where it says something.
        said: Option<String>,
        /// When it wants to be asked again.
        retry_after: Option<String>,
    },
    /// The model stopped before it had answered.
    Stopped(String),
    /// The answer is not what was asked for.
    Nonsense(String),
}

impl Failure {
    /// An answer that is no success.
    pub(crate) fn status(answer: &CallAnswer) -> Self {
        let said = json::parse(&answer.body).ok();
        let message = said.as_ref().and_then(|body| {
            let error = body.get("error")?;
            error.get("message")?.as_str()
        });
        let retry_after = answer
            .headers
            .iter()
            .find(|header| header.name.eq_ignore_ascii_case("retry-after"))
            .and_then(|header| String::from_utf8(header.value.clone()).ok())
            .filter(|value| {
                (1..=9).contains(&value.len()) && value.bytes().all(|byte| byte.is_ascii_digit())
            });
        Self::Status {
            status: answer.status,
            said: message.map(str::to_owned),
            retry_after,
        }
    }

    /// What the box is told of the question that was named so.
    pub(crate) fn told(self, question: &str) -> Step {
        let no_answer =
            |why: &str| format!("The question {} has no answer: {why}.", quoted(question));
        let failed = |why: &str| refuse::upstream(no_answer(why)).into();
        match self {
            Self::NoAnswer(CallFailure::Timeout) => refuse::with(
                504,
                "timeout_error",
                no_answer(&format!("the upstream {UPSTREAM} took too long")),
            )
            .into(),
            Self::NoAnswer(CallFailure::Unreachable) => {
                failed(&format!("the upstream {UPSTREAM} could not be reached"))
            }
            Self::NoAnswer(CallFailure::Broken) => {
                failed(&format!("the upstream {UPSTREAM} broke off"))
            }
            Self::NoAnswer(CallFailure::TooLarge) => failed(&format!(
                "the upstream {UPSTREAM} answered more than this broker reads"
            )),
            Self::Status { status: 401, .. } => pay::refused_credential().into(),
            Self::Status {
                status,
                said,
                retry_after,
            } => {
                let said = said.map_or_else(String::new, |said| format!(": {}", one_line(&said)));
                let message =
                    no_answer(&format!("the upstream {UPSTREAM} answered {status}{said}"));
                match status {
                    429 => busy(429, "rate_limit_error", &message, retry_after),
                    503 | 529 => busy(503, "overloaded_error", &message, retry_after),
                    _ => refuse::upstream(message).into(),
                }
            }
            Self::Stopped(reason) => failed(&format!(
                "the model stopped before, with {}",
                quoted(&reason)
            )),
            Self::Nonsense(what) => failed(&format!(
                "what the upstream {UPSTREAM} sent cannot be used, since {what}"
            )),
        }
    }
}

/// What an upstream says, as far as it can stand in a refusal.
fn one_line(said: &str) -> String {
    let shown = said.chars().take(300);
    shown
        .map(|each| if each.is_control() { ' ' } else { each })
        .collect()
}

/// A refusal that can say when to come back.
fn busy(status: u16, kind: &str, message: &str, retry_after: Option<String>) -> Step {
    let body: Value = json!({"type": "error", "error": {"type": kind, "message": message}});
    let answer = Answer::status(status)
        .header("content-type", "application/json")
        .body(body.to_string());
    match retry_after {
        Some(seconds) => answer.header("retry-after", seconds).into(),
        None => answer.into(),
    }
}
