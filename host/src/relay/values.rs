//! The vault, as the file that seals a request sees it.

use crate::relay::{OpenValue, OpenedValue, ValueUnavailable};
use crate::rules::plan::CredentialKey;
use crate::vault::Vault;

impl OpenValue for Vault {
    fn open_value(&self, key: &CredentialKey) -> Result<OpenedValue, ValueUnavailable> {
        let opened = Vault::open_value(self, key).map_err(|error| {
            tracing::error!(%error, "a sealed value did not open");
            ValueUnavailable
        })?;
        Ok(OpenedValue {
            value: opened.value,
            kind: opened.kind,
            bound_to: opened.bound_to,
        })
    }
}
