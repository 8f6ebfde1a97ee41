//! The vault, as the file that seals a request sees it.

use std::sync::Arc;

use crate::relay::{OpenValue, OpenedValue, ValueUnavailable};
use crate::rules::plan::CredentialKey;
use crate::vault::Vault;

impl OpenValue for Vault {
    fn open_value(&self, key: &CredentialKey) -> Result<Arc<OpenedValue>, ValueUnavailable> {
        Vault::open_value(self, key).map_err(|error| {
            tracing::error!(%error, "a sealed value did not open");
            ValueUnavailable
        })
    }
}
