//! Secrets on the wire.

use serde::{Deserialize, Serialize};

use crate::admin::wire::Value;
use crate::vault::SecretRecord;

/// A secret to set.
#[derive(Serialize, Deserialize)]
pub struct NewSecret {
    /// `host`, `host:port` or `http(s)://host[:port]`.
    pub host: String,
    /// `METHOD PREFIX`, each.
    #[serde(default)]
    pub allow: Vec<String>,
    /// Whether the host may be at a private address.
    #[serde(default)]
    pub allow_private: bool,
    /// An absolute path to a CA to trust for it.
    #[serde(default)]
    pub extra_ca: Option<String>,
    /// Whether a value under 12 bytes is meant.
    #[serde(default)]
    pub short: bool,
    /// The value.
    pub value: Value,
}

/// A secret, without its value.
#[derive(Debug, Serialize, Deserialize)]
pub struct SecretView {
    /// The box.
    #[serde(rename = "box")]
    pub box_name: String,
    /// Its name.
    pub name: String,
    /// The one origin that it may be sent to.
    pub host: String,
    /// What it may be used for; empty for everything.
    pub allow: Vec<String>,
    /// Whether the host may be at a private address.
    pub allow_private: bool,
    /// A CA to trust for it.
    pub extra_ca: Option<String>,
}

impl From<&SecretRecord> for SecretView {
    fn from(record: &SecretRecord) -> Self {
        Self {
            box_name: record.box_name.to_string(),
            name: record.name.to_string(),
            host: record.origin.to_string(),
            allow: record
                .allow
                .iter()
                .map(|rule| format!("{} {}", rule.method, rule.prefix))
                .collect(),
            allow_private: record.allow_private,
            extra_ca: record
                .extra_ca
                .as_ref()
                .map(|path| path.display().to_string()),
        }
    }
}
