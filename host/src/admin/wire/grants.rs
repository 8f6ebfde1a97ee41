//! Grants on the wire.

use serde::{Deserialize, Serialize};

/// A grant to issue.
#[derive(Debug, Serialize, Deserialize)]
pub struct NewGrant {
    /// The box.
    #[serde(rename = "box")]
    pub box_name: String,
    /// The visitor's credential: `NAME` or `UPSTREAM/NAME`.
    pub credential: String,
    /// How long it lives.
    pub ttl_seconds: u64,
}

/// A new grant, which the host cannot show again.
#[derive(Serialize, Deserialize)]
pub struct Issued {
    /// Its value.
    pub grant: String,
    /// All that is kept of it.
    #[serde(flatten)]
    pub view: GrantView,
}

/// A grant, without its value.
#[derive(Debug, Serialize, Deserialize)]
pub struct GrantView {
    /// What it is called by.
    pub id: String,
    /// The box.
    #[serde(rename = "box")]
    pub box_name: String,
    /// The credential it spends, as `UPSTREAM/NAME`.
    pub credential: String,
    /// The person whose that is.
    pub principal: String,
    /// When it was issued, as ISO 8601.
    pub issued: String,
    /// When it expires, as ISO 8601.
    pub expires: String,
    /// `valid`, or why it is worth nothing.
    pub state: String,
}
