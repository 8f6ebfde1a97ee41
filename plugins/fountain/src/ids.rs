//! Every id that a request names: in its path, its query and its body.

use std::collections::BTreeSet;

use jackfield_sdk::json;
use serde_json::{Map, Value};

use crate::kinds::{self, Parameter};

/// Members that say what a `value` beside them is the value of.
const POINTERS: [&str; 6] = ["attribute", "column", "field", "member", "path", "property"];

/// What a member's name says that stands in it.
#[derive(Clone, Copy)]
enum Says {
    /// Ids of the kind: `agent_id`.
    Ids,
    /// One of the kind, itself or its id: `agent`.
    One,
    /// Several of the kind: `agents`.
    Many,
}

impl Says {
    /// What stands in each item of a list of it.
    fn of_each(self) -> Self {
        match self {
            Self::Ids => Self::Ids,
            Self::One | Self::Many => Self::One,
        }
    }
}

/// A kind and an id of it.
pub(crate) type Named = (&'static str, String);

/// What a request names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ids {
    /// The ids, by kind.
    pub(crate) all: BTreeSet<Named>,
    /// Whether it names something that no box can own: what stands there is no
    /// id at all.
    pub(crate) impossible: bool,
}

impl Ids {
    /// Adds an id.
    pub(crate) fn add(&mut self, kind: &'static str, id: &str) {
        if is_id(id) {
            self.all.insert((kind, id.to_owned()));
        } else {
            self.impossible = true;
        }
    }

    /// Whether it names one of a kind.
    pub(crate) fn names(&self, kind: &str) -> bool {
        self.all.iter().any(|(each, _)| *each == kind)
    }

    /// Adds what a query names. Some servers take `;` for `&`. A bare `id` is one
    /// of `own`, the kind that the path ends at, where it ends at one.
    pub(crate) fn add_query(&mut self, query: &str, own: Option<&'static str>) {
        for pair in query.split(['&', ';']) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decoded(name, true), decoded(value, true)) {
                (Some(name), Some(value)) => {
                    let bare = own.filter(|_| is_plain_id(&name)).map(Parameter::Id);
                    match kinds::parameter(&name).or(bare) {
                        Some(Parameter::Id(kind)) => self.add(kind, &value),
                        // The members of what the path ends at.
                        Some(Parameter::Member(kind)) if own == Some(kind) => {}
                        Some(Parameter::Member(_) | Parameter::Others(_)) => {
                            self.impossible = true;
                        }
                        None if value.trim_start().starts_with(['{', '[']) => {
                            match json::parse(value.as_bytes()) {
                                Ok(value) => self.add_body(&value, own),
                                Err(_) => self.impossible = true,
                            }
                        }
                        None => {}
                    }
                }
                // What it would say to another reader is not known.
                (_, _) => self.impossible = true,
            }
        }
    }

    /// Adds what a JSON body names. Its own `id` is one of `own`, the kind that
    /// the path ends at, where it ends at one.
    pub(crate) fn add_body(&mut self, body: &Value, own: Option<&'static str>) {
        match body {
            Value::Array(items) => items.iter().for_each(|item| self.add_body(item, own)),
            Value::Object(members) => {
                self.add_pointed(members);
                for (name, value) in members {
                    match own {
                        Some(kind) if is_plain_id(name) => self.add_value(value, kind, Says::Ids),
                        // Where an answer may wrap what it tells, a request may.
                        Some(_) if name == "data" => self.add_body(value, own),
                        // And so it may by the kind's own name.
                        Some(kind) if value.is_object() && kinds::is_one(name, kind) => {
                            self.add_body(value, own);
                        }
                        Some(_) | None => self.add_member(name, value, None),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Adds what a member names; `below` is the kind of the nearest member
    /// around it that is one's name.
    fn add_member(&mut self, name: &str, value: &Value, below: Option<&'static str>) {
        if let Some(kind) = kinds::named(name) {
            let says = match kinds::says_id(name) {
                true => Says::Ids,
                false if kinds::is_many(name, kind) => Says::Many,
                false => Says::One,
            };
            return self.add_value(value, kind, says);
        }
        match below {
            Some(kind) if is_plain_id(name) || is_marked_operator(name) => {
                self.add_value(value, kind, Says::Ids);
            }
            Some(_) | None => self.look_into(value, below),
        }
    }

    /// Adds a value that stands where an id of a kind is expected, or the thing
    /// itself.
    fn add_value(&mut self, value: &Value, kind: &'static str, says: Says) {
        match value {
            Value::String(id) => self.add(kind, id),
            // Read as JavaScript or as text, only a plain number is one id.
            Value::Number(number) if number.is_u64() => self.add(kind, &number.to_string()),
            Value::Number(_) => self.impossible = true,
            Value::Array(items) => {
                let items = items.iter();
                items.for_each(|item| self.add_value(item, kind, says.of_each()));
            }
            Value::Object(members) => self.add_object(members, kind, says),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Adds what an object names that stands in the place of a kind: operators,
    /// one thing, perhaps described and not named, or a map from ids, in which
    /// whatever is none of these must be the box's own.
    fn add_object(&mut self, members: &Map<String, Value>, kind: &'static str, says: Says) {
        let is_thing = match says {
            Says::One => true,
            Says::Many => members.keys().any(|name| is_plain_id(name)),
            Says::Ids => false,
        };
        for (name, value) in members {
            if is_plain_id(name) || kinds::is_operator(name) {
                self.add_value(value, kind, Says::Ids);
            } else if kinds::asks_for_others(name) {
                self.impossible = true;
            } else if is_thing || kinds::named(name).is_some() {
                self.add_member(name, value, Some(kind));
            } else {
                self.add(kind, name);
                match says {
                    Says::One | Says::Many if value.is_object() => {
                        self.look_into(value, Some(kind));
                    }
                    Says::One | Says::Many | Says::Ids => self.add_value(value, kind, says),
                }
            }
        }
    }

    fn look_into(&mut self, value: &Value, below: Option<&'static str>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.look_into(item, below)),
            Value::Object(members) => {
                self.add_pointed(members);
                for (name, value) in members {
                    self.add_member(name, value, below);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// Adds the value of an object that says in another member what it is the
    /// value of: `{"op":"replace","path":"/agent_id","value":"ID"}`.
    fn add_pointed(&mut self, members: &Map<String, Value>) {
        let mut pointers = members.iter().filter(|(name, _)| {
            let folded = kinds::folded(name);
            POINTERS.contains(&folded.as_str())
        });
        let kind = pointers.find_map(|(_, pointer)| kinds::named(pointer.as_str()?));
        let Some(kind) = kind else { return };
        for (name, value) in members {
            if matches!(kinds::folded(name).as_str(), "value" | "values") {
                self.add_value(value, kind, Says::Ids);
            }
        }
    }
}

/// Whether a name is an operator's that can be no attribute's.
fn is_marked_operator(name: &str) -> bool {
    name.starts_with('$') && kinds::is_operator(name)
}

/// Whether a name is that of an id and no more.
fn is_plain_id(name: &str) -> bool {
    matches!(
        kinds::folded(name).as_str(),
        "id" | "ids" | "uuid" | "uuids"
    )
}

/// Whether a text can be a thing's id.
pub(crate) fn is_id(text: &str) -> bool {
    (1..=256).contains(&text.len()) && !text.chars().any(char::is_control)
}

/// A percent-encoded text, decoded once; none where it is malformed.
pub(crate) fn decoded(text: &str, plus_is_space: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            b'+' if plus_is_space => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}
