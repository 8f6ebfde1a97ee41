//! Reading what a model said to one question. Whatever is not what was asked
//! for is a failure, and never bent into an answer.

use jackfield_sdk::contract::CallAnswer;
use jackfield_sdk::json::{self, quoted};
use serde_json::{Map, Value, json};

use crate::decide::call::{labels, picked};
use crate::decide::distribution::Distribution;
use crate::decide::failure::Failure;
use crate::decide::request::{Asked, Kind};

/// One question's answer, and what it cost.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The answer, as the box reads it.
    pub(crate) answer: Value,
    /// What it cost.
    pub(crate) usage: Usage,
}

/// Tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Usage {
    /// Read by the model.
    pub(crate) input_tokens: u64,
    /// Written by it.
    pub(crate) output_tokens: u64,
}

impl Usage {
    /// Adds another call's.
    pub(crate) fn add(&mut self, other: &Self) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
    }
}

/// Reads the answer to a call.
///
/// # Errors
/// When it is not a finished message that holds an answer in the schema.
pub(crate) fn read(asked: &Asked, said: &CallAnswer) -> Result<Reply, Failure> {
    if !(200..300).contains(&said.status) {
        return Err(Failure::status(said));
    }
    let message = json::parse(&said.body).map_err(|_| nonsense("it is not JSON"))?;
    match message.get("stop_reason") {
        None | Some(Value::Null) => {}
        Some(Value::String(reason)) if reason == "end_turn" || reason == "stop_sequence" => {}
        Some(Value::String(reason)) => return Err(Failure::Stopped(reason.clone())),
        Some(_) => return Err(nonsense("its stop_reason is no text")),
    }
    let text = text_of(&message).ok_or_else(|| nonsense("it holds no text"))?;
    let said = json::parse(text.as_bytes()).map_err(|_| nonsense("its text is not JSON"))?;
    let said = said
        .as_object()
        .ok_or_else(|| nonsense("its text is no JSON object"))?;
    Ok(Reply {
        answer: answer(asked, said)?,
        usage: usage_of(&message),
    })
}

fn answer(asked: &Asked, said: &Map<String, Value>) -> Result<Value, Failure> {
    let labels = labels(asked);
    let place = pick(asked.kind, said, &labels)?;
    let shares = said
        .get("probabilities")
        .and_then(Value::as_object)
        .ok_or_else(|| nonsense("it holds no probabilities"))?;
    let distribution = Distribution::read(shares, &labels, place)?;
    let mut answer = match asked.kind {
        Kind::Noul => json!({"type": "noul", "noul": distribution.at(0)}),
        Kind::Choice => json!({
            "type": "choice",
            "choice": asked.texts().get(place),
            "probabilities": distribution.by(asked.texts()),
            "confidence": distribution.at(place),
        }),
        Kind::Score => json!({
            "type": "score",
            "score": distribution.expected(),
            "legend": asked.options,
            "probabilities": distribution.by(asked.texts()),
            "confidence": distribution.peak(),
        }),
        Kind::Unsupported => json!({"type": "unsupported"}),
    };
    let reason = match said.get("reason") {
        Some(Value::String(reason)) => reason.trim(),
        Some(_) => return Err(nonsense("its reason is no text")),
        None => "",
    };
    if let Some(answer) = answer.as_object_mut().filter(|_| !reason.is_empty()) {
        answer.insert("reason".to_owned(), json!(reason));
    }
    Ok(answer)
}

fn pick(kind: Kind, said: &Map<String, Value>, labels: &[String]) -> Result<usize, Failure> {
    let member = picked(kind);
    let label = said
        .get(member)
        .and_then(Value::as_str)
        .ok_or_else(|| Failure::Nonsense(format!("it holds no {member}")))?;
    labels
        .iter()
        .position(|offered| offered == label)
        .ok_or_else(|| {
            Failure::Nonsense(format!("it picks {}, which nobody offered", quoted(label)))
        })
}

fn text_of(message: &Value) -> Option<String> {
    let blocks = message.get("content")?.as_array()?;
    let texts: Vec<&str> = blocks
        .iter()
        .filter(|block| block.get("type").and_then(Value::as_str) == Some("text"))
        .filter_map(|block| block.get("text")?.as_str())
        .collect();
    (!texts.is_empty()).then(|| texts.concat())
}

fn usage_of(message: &Value) -> Usage {
    let count = |name| {
        let usage = message.get("usage")?;
        usage.get(name)?.as_u64()
    };
    Usage {
        input_tokens: count("input_tokens").unwrap_or(0),
        output_tokens: count("output_tokens").unwrap_or(0),
    }
}

fn nonsense(what: &str) -> Failure {
    Failure::Nonsense(what.to_owned())
}
