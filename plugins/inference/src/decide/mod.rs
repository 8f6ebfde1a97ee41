//! Answering questions: one structured Messages call for each, all side by
//! side, and one answer made of what they brought. A call that fails, or whose
//! answer is not what was asked for, fails the whole request: nothing is made
//! up.
//!
//! In reading order: [`request`] reads what the box asks, [`call`] makes the
//! calls, [`reply`] reads what a model said, [`distribution`] makes
//! probabilities of it, [`failure`] says what went wrong.

mod call;
mod distribution;
mod failure;
mod reply;
mod request;

use jackfield_sdk::contract::{CallAnswer, CallFailure};
use jackfield_sdk::prelude::*;
use serde_json::{Map, Value, json};

use crate::pay::Payment;
use failure::Failure;
use reply::Usage;
use request::{Asked, Decide, Kind};

/// The largest request.
pub(crate) const MAX_BODY: u32 = 1024 * 1024;

/// How many questions may be asked at once: each is a call, and they are made
/// side by side.
pub(crate) const MAX_QUESTIONS: u32 = 64;

/// The path of a call.
pub(crate) const MESSAGES: &str = "/v1/messages";

/// The client gives up after 30 s. What it is told must leave before.
const DEADLINE_MS: u32 = 28_000;

/// Asks a model each question, or refuses the request before any is asked.
pub(crate) fn ask(body: &[u8], caller: &Caller) -> Step {
    match request::parse(body).and_then(|decide| need(&decide, caller)) {
        Ok(step) => step,
        Err(refusal) => refusal.into(),
    }
}

/// Answers with what the models said.
pub(crate) fn answer(state: &[u8], calls: &[Result<CallAnswer, CallFailure>]) -> Step {
    let Some((model, questions)) = recall(state) else {
        return refuse::internal("inference could not read its own state.").into();
    };
    let mut calls = calls.iter();
    let mut answers = Map::new();
    let mut usage = Usage::default();
    for asked in &questions {
        if asked.kind == Kind::Unsupported {
            answers.insert(asked.name.clone(), json!({"type": "unsupported"}));
            continue;
        }
        let said = match calls.next() {
            Some(Ok(said)) => reply::read(asked, said),
            Some(Err(failed)) => Err(Failure::NoAnswer(*failed)),
            None => Err(Failure::NoAnswer(CallFailure::Broken)),
        };
        match said {
            Ok(reply) => {
                usage.add(&reply.usage);
                answers.insert(asked.name.clone(), reply.answer);
            }
            Err(failure) => return failure.told(&asked.name),
        }
    }
    answered(&model, answers, &usage)
}

fn need(decide: &Decide<'_>, caller: &Caller) -> Result<Step, Refusal> {
    let payment = Payment::of(caller)?;
    let calls = call::calls(decide, &payment)?;
    let state = remember(decide);
    if calls.is_empty() {
        return Ok(answer(&state, &[]));
    }
    let mut need = Need::with_state(state);
    need.deadline_ms = DEADLINE_MS;
    need.calls = calls;
    Ok(need.into())
}

fn answered(model: &str, answers: Map<String, Value>, usage: &Usage) -> Step {
    let body = json!({"model": model, "answers": answers, "usage": {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
    }});
    Answer::status(200)
        .header("content-type", "application/json")
        .body(body.to_string())
        .into()
}

/// What `resume` must know of the request: the rest of it is gone by then.
fn remember(decide: &Decide<'_>) -> Vec<u8> {
    let questions: Vec<Value> = decide
        .questions
        .iter()
        .map(|question| question.asked.to_json())
        .collect();
    json!([decide.model, questions]).to_string().into_bytes()
}

fn recall(state: &[u8]) -> Option<(String, Vec<Asked>)> {
    let (model, questions) = serde_json::from_slice::<(String, Vec<Value>)>(state).ok()?;
    let questions: Option<Vec<Asked>> = questions.into_iter().map(Asked::from_json).collect();
    Some((model, questions?))
}

#[cfg(test)]
mod tests;
