//! Boxes on the wire.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::chant::boxes::Known;
use crate::chant::declarations::Reported;

/// A box to add.
#[derive(Debug, Serialize, Deserialize)]
pub struct NewBox {
    /// Its name.
    #[serde(rename = "box")]
    pub name: String,
}

/// A box's new token, which the host cannot show again.
#[derive(Serialize, Deserialize)]
pub struct Token {
    /// The box.
    #[serde(rename = "box")]
    pub name: String,
    /// The token.
    pub token: String,
}

/// A box.
#[derive(Debug, Serialize, Deserialize)]
pub struct BoxView {
    /// Its name.
    #[serde(rename = "box")]
    pub name: String,
    /// Whether the operator paused it.
    pub paused: bool,
    /// When it was added, as ISO 8601.
    pub added: String,
    /// Its last report; none before the first.
    pub declaration: Option<DeclarationView>,
}

/// A box's last report.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeclarationView {
    /// When it came, as ISO 8601.
    pub at: String,
    /// What it declared to this broker.
    pub capabilities: Vec<CapabilityView>,
    /// Its listing, as it was sent.
    pub listing: Option<Box<RawValue>>,
    /// What it says it spent, as it was sent.
    pub spend: Option<Box<RawValue>>,
}

/// One declared capability.
#[derive(Debug, Serialize, Deserialize)]
pub struct CapabilityView {
    /// Its name.
    pub name: String,
    /// Its scope words.
    pub scope: Vec<String>,
}

/// A box's environment.
#[derive(Debug, Serialize, Deserialize)]
pub struct EnvView {
    /// The box.
    #[serde(rename = "box")]
    pub name: String,
    /// The variables. `{token}` in a value stands for the box's token, which
    /// the host does not hold.
    pub variables: Vec<Variable>,
}

/// One variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

impl BoxView {
    pub(in crate::admin) fn of(known: &Known, reported: Option<&Reported>) -> Self {
        Self {
            name: known.name.to_string(),
            paused: known.paused,
            added: known.added.clone(),
            declaration: reported.map(DeclarationView::from),
        }
    }
}

impl From<&Reported> for DeclarationView {
    fn from(reported: &Reported) -> Self {
        // It was JSON when it came.
        let raw = |text: &Option<String>| RawValue::from_string(text.clone()?).ok();
        let declaration = &reported.declaration;
        Self {
            at: reported.at.clone(),
            capabilities: declaration
                .entries
                .iter()
                .map(|entry| CapabilityView {
                    name: entry.name.to_string(),
                    scope: entry.words.iter().map(ToString::to_string).collect(),
                })
                .collect(),
            listing: raw(&declaration.listing),
            spend: raw(&declaration.spend),
        }
    }
}
