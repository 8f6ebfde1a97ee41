//! Reading what a box asks. Whatever is not in the format is refused with what
//! is wrong and where, before any model is asked.

use std::collections::{HashMap, HashSet};

use jackfield_sdk::json::{self, quoted};
use jackfield_sdk::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::decide::MAX_QUESTIONS;

/// A request: the same model is asked each question about the same state.
#[derive(Debug)]
pub(crate) struct Decide<'a> {
    /// The model, exactly as asked for.
    pub(crate) model: String,
    /// The state, as JSON in the box's own spelling.
    pub(crate) state: &'a str,
    /// The questions, in the request's order.
    pub(crate) questions: Vec<Question>,
}

/// A question as a model is asked it.
#[derive(Debug, PartialEq)]
pub(crate) struct Question {
    /// What its answer is read by.
    pub(crate) asked: Asked,
    /// What the model shall decide.
    pub(crate) instructions: String,
    /// What each option means, where the box says so.
    pub(crate) meanings: Vec<Option<Value>>,
}

/// What must be known of a question to read its answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    /// The question's name.
    pub(crate) name: String,
    /// How it is answered.
    pub(crate) kind: Kind,
    /// A choice's options, a score's levels from the lowest, or a noul's
    /// `true` and `false`; as given, and each a text or a number.
    pub(crate) options: Vec<Value>,
}

/// How a question is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// With the probability that it is true.
    Noul,
    /// With one of its options.
    Choice,
    /// With a level.
    Score,
    /// Not by this broker.
    Unsupported,
}

impl Kind {
    fn of(word: &str) -> Self {
        match word {
            "noul" => Self::Noul,
            "choice" => Self::Choice,
            "score" => Self::Score,
            _ => Self::Unsupported,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Noul => "noul",
            Self::Choice => "choice",
            Self::Score => "score",
            Self::Unsupported => "unsupported",
        }
    }
}

impl Asked {
    /// The options as texts: what the box's answer names them by.
    pub(crate) fn texts(&self) -> Vec<String> {
        self.options.iter().map(text_of).collect()
    }

    /// For the state of a need.
    pub(crate) fn to_json(&self) -> Value {
        json!([self.name, self.kind.word(), self.options])
    }

    /// From the state of a need.
    pub(crate) fn from_json(value: Value) -> Option<Self> {
        let (name, kind, options) = serde_json::from_value::<(String, String, _)>(value).ok()?;
        Some(Self {
            name,
            kind: Kind::of(&kind),
            options,
        })
    }
}

/// Reads a request.
///
/// # Errors
/// A 422 that says what is not in the format, and where.
pub(crate) fn parse(body: &[u8]) -> Result<Decide<'_>, Refusal> {
    read(body).map_err(|wrong| {
        refuse::with(
            422,
            "invalid_request_error",
            format!(
                "This is no decide request: {wrong}. It is {{model, state, questions: {{NAME: \
                 {{type, instructions, criteria}}}}}}, with at least one question."
            ),
        )
    })
}

fn read(body: &[u8]) -> Result<Decide<'_>, String> {
    let whole = json::parse(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let whole = whole.as_object().ok_or("the body is not an object")?;
    let model = match whole.get("model") {
        Some(Value::String(model)) if !model.is_empty() => model.clone(),
        Some(_) => return Err("model is not a text, or empty".to_owned()),
        None => return Err("it names no model".to_owned()),
    };
    // The state goes on in the box's own spelling: no number loses a digit.
    let parts: HashMap<String, &RawValue> =
        serde_json::from_slice(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let state = parts.get("state").ok_or("it holds no state")?.get();
    let questions = match whole.get("questions") {
        Some(Value::Object(questions)) => questions,
        Some(_) => return Err("questions is not an object".to_owned()),
        None => return Err("it holds no questions".to_owned()),
    };
    if questions.is_empty() {
        return Err("it asks no question".to_owned());
    }
    let questions: Vec<Question> = questions
        .iter()
        .map(|(name, value)| {
            question(name, value)
                .map_err(|wrong| format!("in the question {}, {wrong}", quoted(name)))
        })
        .collect::<Result<_, _>>()?;
    let calls = questions
        .iter()
        .filter(|question| question.asked.kind != Kind::Unsupported)
        .count();
    if calls > MAX_QUESTIONS as usize {
        return Err(format!(
            "it asks {calls} questions, and this broker asks a model up to {MAX_QUESTIONS} at \
             once: send them in several requests"
        ));
    }
    Ok(Decide {
        model,
        state,
        questions,
    })
}

fn question(name: &str, value: &Value) -> Result<Question, String> {
    let value = value.as_object().ok_or("there is no object")?;
    let kind = match value.get("type") {
        Some(Value::String(word)) => Kind::of(word),
        Some(_) => return Err("the type is not a text".to_owned()),
        None => return Err("there is no type".to_owned()),
    };
    let asked = |options| Asked {
        name: name.to_owned(),
        kind,
        options,
    };
    if kind == Kind::Unsupported {
        return Ok(Question {
            asked: asked(Vec::new()),
            instructions: String::new(),
            meanings: Vec::new(),
        });
    }
    let instructions = match value.get("instructions") {
        Some(Value::String(text)) => text.clone(),
        Some(_) => return Err("the instructions are not a text".to_owned()),
        None => return Err("there are no instructions".to_owned()),
    };
    let criteria = value.get("criteria").ok_or("there are no criteria")?;
    let (options, meanings) = match (kind, criteria) {
        (Kind::Noul, Value::Object(map)) => noul(map)?,
        (Kind::Noul, _) => return Err("the criteria of a noul map true and false".to_owned()),
        (Kind::Choice, Value::Object(map)) => map
            .iter()
            .map(|(option, means)| (json!(option), Some(means.clone())))
            .unzip(),
        (_, Value::Array(list)) => (list.clone(), vec![None; list.len()]),
        (Kind::Score, _) => {
            return Err("the criteria of a score list its levels, lowest first".to_owned());
        }
        (Kind::Choice | Kind::Unsupported, _) => {
            return Err("the criteria of a choice map its options to what they mean".to_owned());
        }
    };
    distinct(&options)?;
    Ok(Question {
        asked: asked(options),
        instructions,
        meanings,
    })
}

fn noul(map: &Map<String, Value>) -> Result<(Vec<Value>, Vec<Option<Value>>), String> {
    let (Some(yes), Some(no), 2) = (map.get("true"), map.get("false"), map.len()) else {
        return Err("the criteria of a noul are true and false, and no other".to_owned());
    };
    Ok((
        vec![json!("true"), json!("false")],
        vec![Some(yes.clone()), Some(no.clone())],
    ))
}

fn distinct(options: &[Value]) -> Result<(), String> {
    if options.is_empty() {
        return Err("the criteria hold no option".to_owned());
    }
    let mut seen = HashSet::new();
    for option in options {
        if !(option.is_string() || option.is_number()) {
            return Err("an option is neither a text nor a number".to_owned());
        }
        let text = text_of(option);
        if text.is_empty() {
            return Err("an option is empty".to_owned());
        }
        if !seen.insert(text.clone()) {
            return Err(format!("the option {} stands twice", quoted(&text)));
        }
    }
    Ok(())
}

fn text_of(option: &Value) -> String {
    option
        .as_str()
        .map_or_else(|| option.to_string(), str::to_owned)
}
