//! Journals on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::chant::journal::Noted;

/// Which records of a journal.
#[derive(Debug, Deserialize)]
pub struct JournalQuery {
    /// Those of this box.
    #[serde(rename = "box")]
    pub box_name: Option<String>,
    /// Those noted from this time on, as ISO 8601.
    pub since: Option<String>,
    /// Those after this place.
    pub after: Option<String>,
}

/// What of a journal to delete.
#[derive(Debug, Deserialize)]
pub struct PruneQuery {
    /// What was noted before this time, as ISO 8601.
    pub before: String,
}

/// A record of a journal.
#[derive(Debug, Serialize, Deserialize)]
pub struct RecordView {
    /// When it was noted, as ISO 8601.
    pub at: String,
    /// For which box.
    #[serde(rename = "box")]
    pub box_name: String,
    /// Where it stands: what the next page begins after.
    pub place: String,
    /// What was noted, where it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// What was noted, where it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

impl From<Noted> for RecordView {
    fn from(noted: Noted) -> Self {
        let (record, base64) = match String::from_utf8(noted.record) {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(STANDARD.encode(error.as_bytes()))),
        };
        let at = jiff::Timestamp::from_nanosecond(noted.at);
        Self {
            at: at.map_or_else(|_| noted.at.to_string(), |at| at.to_string()),
            box_name: noted.box_name.to_string(),
            place: noted.place,
            record,
            base64,
        }
    }
}
