//! Reading JSON from outside: a key given twice, nesting beyond the limit and
//! text after the value are errors, where a lenient reader would pick one
//! meaning and leave the sender with another.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 64;

/// Why a text is not JSON that a plugin takes. It quotes the text escaped and
/// capped, so that it can stand in a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError(String);

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for JsonError {}

/// Reads one JSON value, strictly.
///
/// # Errors
/// When the text is not JSON (RFC 8259), repeats a key in one object, or nests
/// deeper than [`MAX_DEPTH`]. The error says where.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Strict { left: MAX_DEPTH }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    value.map_err(|error| JsonError(error.to_string()))
}

/// A text of somebody else's as it may stand in a message: quoted, escaped,
/// and cut after 80 characters.
#[must_use]
pub fn quoted(text: &str) -> String {
    let shown: String = text
        .chars()
        .take(80)
        .flat_map(char::escape_default)
        .collect();
    format!("\"{shown}\"")
}

#[derive(Clone, Copy)]
struct Strict {
    left: usize,
}

impl Strict {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        match self.left.checked_sub(1) {
            Some(left) => Ok(Self { left }),
            None => Err(E::custom(format_args!(
                "nested deeper than {MAX_DEPTH} levels"
            ))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element_seed(inner)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(A::Error::custom(format_args!(
                    "the key {} stands twice in one object",
                    quoted(&key)
                )));
            }
            let value = entries.next_value_seed(inner)?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ambiguous_is_refused() {
        let check = |text: &str, expected: bool| {
            assert_eq!(parse(text.as_bytes()).is_ok(), expected, "{text}");
        };
        check(r#"{"a":1,"b":[true,null,1.5,"x"]}"#, true);
        check(r#"{"a":{"b":1},"c":{"b":1}}"#, true);
        check(r#"{"a":1,"a":2}"#, false);
        check(r#"{"x":{"a":1,"\u0061":2}}"#, false);
        check(r#"{"a":1} x"#, false);
        check("", false);
        check("{", false);
        check("NaN", false);
        check("1e400", false);
        check(r#""\ud800""#, false);
        check("\"\u{0}\"", false);
    }

    #[test]
    fn nesting_has_a_limit() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(parse(nested(MAX_DEPTH).as_bytes()).is_ok());
        assert!(parse(nested(MAX_DEPTH + 1).as_bytes()).is_err());
        assert!(parse(nested(100_000).as_bytes()).is_err());
    }

    #[test]
    fn what_is_quoted_stays_on_its_line() {
        assert_eq!(quoted("a\n\u{1b}\"é"), r#""a\n\u{1b}\"\u{e9}""#);
        assert_eq!(quoted(&"x".repeat(100)).len(), 82);
        let twice = parse(b"{\"a\\n\":1,\"a\\n\":2}").unwrap_err().to_string();
        assert!(!twice.chars().any(char::is_control), "{twice}");
    }
}
