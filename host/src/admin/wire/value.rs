//! A value on the wire.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use zeroize::Zeroize;

use crate::rules::secret::Secret;

/// A value on its way in: base64, wiped when dropped, and without `Debug`.
#[derive(Serialize, Deserialize)]
#[serde(transparent)]
pub struct Value(String);

impl Value {
    /// Wraps a value for the way.
    #[must_use]
    pub fn wrap(value: &[u8]) -> Self {
        Self(STANDARD.encode(value))
    }

    /// The value; none when it is not base64.
    #[must_use]
    pub fn unwrap_value(&self) -> Option<Secret> {
        STANDARD.decode(self.0.as_bytes()).ok().map(Secret::new)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}
