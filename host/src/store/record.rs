//! How a record's value is written: JSON with its version beside it, so that a
//! later host can tell what an earlier one wrote.
//!
//! Each owner has stored types of its own and converts them; nothing here
//! knows one.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store::{Record, StoreError};

#[derive(Serialize)]
struct Written<'data, T> {
    v: u32,
    data: &'data T,
}

#[derive(Deserialize)]
struct Version {
    v: u32,
}

#[derive(Deserialize)]
struct Read<T> {
    data: T,
}

/// Writes a value of `key` as `{"v": version, "data": …}`.
///
/// # Errors
/// When the type cannot be JSON.
pub fn encode<T: Serialize>(key: &[u8], version: u32, data: &T) -> Result<Vec<u8>, StoreError> {
    serde_json::to_vec(&Written { v: version, data })
        .map_err(|_| corrupt(key, "its type cannot be written as JSON".to_owned()))
}

/// Reads a value that [`encode`] wrote with this version.
///
/// # Errors
/// When it is not JSON, of another version, or not of this type. The error
/// says where and never what stands there.
pub fn decode<T: DeserializeOwned>(record: &Record, version: u32) -> Result<T, StoreError> {
    decode_value(&record.key, &record.value, version)
}

/// As [`decode`], for a key and a value that stand apart.
///
/// # Errors
/// As [`decode`].
pub fn decode_value<T: DeserializeOwned>(
    key: &[u8],
    value: &[u8],
    version: u32,
) -> Result<T, StoreError> {
    let malformed = |error: serde_json::Error| {
        let (line, column) = (error.line(), error.column());
        corrupt(
            key,
            format!("it is not JSON of the expected shape (line {line}, column {column})"),
        )
    };
    let found = serde_json::from_slice::<Version>(value)
        .map_err(malformed)?
        .v;
    if found != version {
        let reason = format!("it has version {found}, and this host reads version {version}");
        return Err(corrupt(key, reason));
    }
    Ok(serde_json::from_slice::<Read<T>>(value)
        .map_err(malformed)?
        .data)
}

/// Splits a key `<prefix><a>/<b>` into its parts after the prefix.
#[must_use]
pub fn key_parts<'key>(key: &'key [u8], prefix: &str) -> Option<(&'key str, &'key str)> {
    std::str::from_utf8(key)
        .ok()?
        .strip_prefix(prefix)?
        .split_once('/')
}

fn corrupt(key: &[u8], reason: String) -> StoreError {
    StoreError::Corrupt {
        key: String::from_utf8_lossy(key).into_owned(),
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_in_its_version_alone() {
        let written = encode(b"k", 1, &["a", "b"]).unwrap();
        assert_eq!(written, br#"{"v":1,"data":["a","b"]}"#);
        let read: Vec<String> = decode_value(b"k", &written, 1).unwrap();
        assert_eq!(read, ["a", "b"]);

        let newer = decode_value::<Vec<String>>(b"k", &written, 2).unwrap_err();
        assert_eq!(
            newer.to_string(),
            "the record \"k\" cannot be read: it has version 1, and this host reads version 2"
        );
    }

    #[test]
    fn what_cannot_be_read_is_not_shown() {
        let value = br#"{"v":1,"data":"very-private"}"#;
        let error = decode_value::<u32>(b"k", value, 1).unwrap_err().to_string();
        assert!(!error.contains("very-private"), "{error}");
        assert!(decode_value::<u32>(b"k", b"not json", 1).is_err());
    }
}
