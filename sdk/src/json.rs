//! Reading JSON from outside: a key given twice, nesting beyond the limit and
//! text after the value are errors, where a lenient reader would pick one
//! meaning and leave the sender with another.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// How deep arrays and objects may nest.
pub const MAX_DEPTH: usize = 64;

/// What keys begin with that serde_json takes for something else than a key,
/// where its features ask for that: an object that holds one would be read as
/// another value than the one that was checked.
const RESERVED: &str = "$serde_json::private::";

/// Why a text is not JSON that a plugin takes. It quotes the text escaped and
/// capped, so that it can stand in a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError(String);

impl JsonError {
    fn of(error: serde_json::Error) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for JsonError {}

/// Holds a text to being one JSON value, strictly, and keeps nothing of it.
///
/// # Errors
/// When the text is not JSON (RFC 8259), repeats a key in one object, or nests
/// deeper than [`MAX_DEPTH`]. The error says where.
pub fn check(text: &[u8]) -> Result<(), JsonError> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    Strict { left: MAX_DEPTH }
        .deserialize(&mut deserializer)
        .and_then(|()| deserializer.end())
        .map_err(JsonError::of)
}

/// Reads one JSON value, strictly.
///
/// # Errors
/// As [`check`] does.
pub fn parse(text: &[u8]) -> Result<Value, JsonError> {
    check(text)?;
    serde_json::from_slice(text).map_err(JsonError::of)
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
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        while items.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        let inner = self.deeper()?;
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if let Some(twice) = keys.replace(key) {
                return Err(A::Error::custom(format_args!(
                    "the key {} stands twice in one object",
                    quoted(&twice)
                )));
            }
            entries.next_value_seed(inner)?;
        }
        if keys.iter().any(|key| key.starts_with(RESERVED)) {
            return Err(A::Error::custom(
                "a key is one that serde_json keeps for itself",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ambiguous_is_refused() {
        let both = |text: &str, expected: bool| {
            assert_eq!(check(text.as_bytes()).is_ok(), expected, "{text}");
            assert_eq!(parse(text.as_bytes()).is_ok(), expected, "{text}");
        };
        both(r#"{"a":1,"b":[true,null,1.5,"x"]}"#, true);
        both(r#"{"a":{"b":1},"c":{"b":1}}"#, true);
        both(r#"{"a":1,"a":2}"#, false);
        both(r#"{"x":{"a":1,"\u0061":2}}"#, false);
        both(r#"{"a":1} x"#, false);
        both(r#"{"$serde_json::private::RawValue":"{}"}"#, false);
        both(r#"{"a":[{"$serde_json::private::Number":"1"}]}"#, false);
        both("", false);
        both("{", false);
        both("NaN", false);
        both("1e400", false);
        both(r#""\ud800""#, false);
        both("\"\u{0}\"", false);
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
