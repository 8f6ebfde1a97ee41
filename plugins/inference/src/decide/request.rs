//! Reading what a box asks. Whatever is not in the format is refused with what
//! is wrong and where, before any model is asked. What is only handed on stays
//! as the box wrote it: it costs no more memory than it has bytes, and none of
//! its numbers loses a digit.

use std::collections::HashSet;

use jackfield_sdk::json::{self, quoted};
use jackfield_sdk::members::Members;
use jackfield_sdk::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::decide::MAX_QUESTIONS;

/// How many options or levels a question may have.
const MAX_OPTIONS: usize = 256;

/// A request: the same model is asked each question about the same state.
#[derive(Debug)]
pub(crate) struct Decide<'a> {
    /// The model, exactly as asked for.
    pub(crate) model: String,
    /// The state, as JSON in the box's own spelling.
    pub(crate) state: &'a str,
    /// The questions, in the request's order.
    pub(crate) questions: Vec<Question<'a>>,
}

/// A question as a model is asked it.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    /// What its answer is read by.
    pub(crate) asked: Asked,
    /// What the model shall decide.
    pub(crate) instructions: String,
    /// What each option means, where the box says so.
    pub(crate) meanings: Vec<Option<&'a RawValue>>,
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
    json::check(body).map_err(|error| format!("the body is not JSON: {error}"))?;
    let text = std::str::from_utf8(body).map_err(|_| "the body is not UTF-8")?;
    let whole = Members::of(text).ok_or("the body is not an object")?;
    let model = match whole.get("model").map(text_in) {
        Some(Some(model)) if !model.is_empty() => model,
        Some(_) => return Err("model is not a text, or empty".to_owned()),
        None => return Err("it names no model".to_owned()),
    };
    let state = whole.get("state").ok_or("it holds no state")?;
    let questions = match whole.get("questions").map(Members::of) {
        Some(Some(questions)) => questions.0,
        Some(None) => return Err("questions is not an object".to_owned()),
        None => return Err("it holds no questions".to_owned()),
    };
    if questions.is_empty() {
        return Err("it asks no question".to_owned());
    }
    if questions.len() > MAX_QUESTIONS as usize {
        return Err(format!(
            "it asks {} questions, and this broker answers up to {MAX_QUESTIONS} at once: send \
             them in several requests",
            questions.len()
        ));
    }
    let questions = questions
        .into_iter()
        .map(|(name, raw)| {
            let place = quoted(&name);
            question(name, raw.get()).map_err(|wrong| format!("in the question {place}, {wrong}"))
        })
        .collect::<Result<_, _>>()?;
    Ok(Decide {
        model,
        state,
        questions,
    })
}

fn question(name: String, raw: &str) -> Result<Question<'_>, String> {
    let members = Members::of(raw).ok_or("there is no object")?;
    let kind = match members.get("type").map(text_in) {
        Some(Some(word)) => Kind::of(&word),
        Some(None) => return Err("the type is not a text".to_owned()),
        None => return Err("there is no type".to_owned()),
    };
    if kind == Kind::Unsupported {
        return Ok(Question {
            asked: Asked {
                name,
                kind,
                options: Vec::new(),
            },
            instructions: String::new(),
            meanings: Vec::new(),
        });
    }
    let instructions = match members.get("instructions").map(text_in) {
        Some(Some(text)) => text,
        Some(None) => return Err("the instructions are not a text".to_owned()),
        None => return Err("there are no instructions".to_owned()),
    };
    let criteria = members.get("criteria").ok_or("there are no criteria")?;
    let (options, meanings) = options(kind, criteria)?;
    Ok(Question {
        asked: Asked {
            name,
            kind,
            options,
        },
        instructions,
        meanings,
    })
}

type Meanings<'a> = Vec<Option<&'a RawValue>>;

fn options(kind: Kind, criteria: &str) -> Result<(Vec<Value>, Meanings<'_>), String> {
    let map = Members::of(criteria).map(|members| members.0);
    let list = serde_json::from_str::<Vec<&RawValue>>(criteria).ok();
    let count = map.as_ref().map_or(0, Vec::len) + list.as_ref().map_or(0, Vec::len);
    if count > MAX_OPTIONS {
        return Err(format!(
            "the criteria hold {count} options, and this broker takes up to {MAX_OPTIONS}"
        ));
    }
    let (options, meanings) = match (kind, map, list) {
        (Kind::Noul, Some(map), _) => noul(map)?,
        (Kind::Choice, Some(map), _) => map
            .into_iter()
            .map(|(option, means)| (Value::from(option), Some(means)))
            .unzip(),
        (Kind::Choice | Kind::Score, _, Some(list)) => {
            let options = list.iter().map(|option| scalar(option.get()));
            let options = options.collect::<Result<Vec<_>, _>>()?;
            let meanings = vec![None; options.len()];
            (options, meanings)
        }
        (Kind::Noul, ..) => return Err("the criteria of a noul map true and false".to_owned()),
        (Kind::Score, ..) => {
            return Err("the criteria of a score list its levels, lowest first".to_owned());
        }
        (Kind::Choice | Kind::Unsupported, ..) => {
            return Err("the criteria of a choice map its options to what they mean".to_owned());
        }
    };
    distinct(&options)?;
    Ok((options, meanings))
}

fn noul(map: Vec<(String, &RawValue)>) -> Result<(Vec<Value>, Meanings<'_>), String> {
    let means = |option: &str| map.iter().find(|(name, _)| name == option);
    let (Some((_, yes)), Some((_, no)), 2) = (means("true"), means("false"), map.len()) else {
        return Err("the criteria of a noul are true and false, and no other".to_owned());
    };
    Ok((
        vec![Value::from("true"), Value::from("false")],
        vec![Some(*yes), Some(*no)],
    ))
}

fn scalar(raw: &str) -> Result<Value, String> {
    let wrong = "an option is neither a text nor a number";
    if raw.starts_with(['{', '[']) {
        return Err(wrong.to_owned());
    }
    let option = serde_json::from_str(raw)
        .ok()
        .filter(|option: &Value| option.is_string() || option.is_number())
        .ok_or_else(|| wrong.to_owned())?;
    // The answer names it as the box wrote it.
    let answered = text_of(&option);
    if option.is_number() && answered != raw {
        return Err(format!(
            "the number {} would be answered as {}: write it so, or as a text",
            quoted(raw),
            quoted(&answered)
        ));
    }
    Ok(option)
}

fn distinct(options: &[Value]) -> Result<(), String> {
    if options.is_empty() {
        return Err("the criteria hold no option".to_owned());
    }
    let mut seen = HashSet::new();
    for text in options.iter().map(text_of) {
        if text.is_empty() {
            return Err("an option is empty".to_owned());
        }
        if !seen.insert(text.clone()) {
            return Err(format!("the option {} stands twice", quoted(&text)));
        }
    }
    Ok(())
}

fn text_in(raw: &str) -> Option<String> {
    raw.starts_with('"')
        .then(|| serde_json::from_str(raw).ok())
        .flatten()
}

fn text_of(option: &Value) -> String {
    option
        .as_str()
        .map_or_else(|| option.to_string(), str::to_owned)
}
