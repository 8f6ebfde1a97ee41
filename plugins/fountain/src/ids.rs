//! Every id that a request names: in its path, its query and its body.

use std::collections::BTreeSet;

use jackfield_sdk::json;
use serde_json::Value;

use crate::kinds;

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
                    let own = own.filter(|_| is_plain_id(&name));
                    match kinds::named_within(&name).or(own) {
                        Some(kind) => self.add(kind, &value),
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
                for (name, value) in members {
                    match own {
                        Some(kind) if is_plain_id(name) => self.add_value(value, kind),
                        // Where an answer may wrap what it tells, a request may.
                        Some(_) if name == "data" => self.add_body(value, own),
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
            return self.add_value(value, kind);
        }
        match below {
            Some(kind) if is_plain_id(name) => self.add_value(value, kind),
            Some(_) | None => self.look_into(value, below),
        }
    }

    /// Adds a value that stands where an id of a kind is expected.
    fn add_value(&mut self, value: &Value, kind: &'static str) {
        match value {
            Value::String(id) => self.add(kind, id),
            // Read as JavaScript or as text, only a plain number is one id.
            Value::Number(number) if number.is_u64() => self.add(kind, &number.to_string()),
            Value::Number(_) => self.impossible = true,
            Value::Array(items) => items.iter().for_each(|item| self.add_value(item, kind)),
            Value::Object(_) => self.look_into(value, Some(kind)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn look_into(&mut self, value: &Value, below: Option<&'static str>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.look_into(item, below)),
            Value::Object(members) => {
                for (name, value) in members {
                    self.add_member(name, value, below);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
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
