//! What boxes own, on the wire.

use serde::{Deserialize, Serialize};

use crate::rules::owned::Thing;

/// A thing.
#[derive(Debug, Serialize, Deserialize)]
pub struct ThingView {
    /// Its kind.
    pub kind: String,
    /// Its id.
    pub id: String,
}

impl From<&Thing> for ThingView {
    fn from(thing: &Thing) -> Self {
        Self {
            kind: thing.kind.to_string(),
            id: thing.id.to_string(),
        }
    }
}
