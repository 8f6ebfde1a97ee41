//! The record that tells a wrong key from the right one before anything is
//! opened or written under it.

use subtle::ConstantTimeEq;

use crate::store::{Batch, Change, Condition, Store, StoreError, record};
use crate::vault::{PREFIX, VaultError, VaultKey};

pub(super) const KEY: &[u8] = b"vault/check";
const VERSION: u32 = 1;
/// What is kept is derived from the key one way, and used for nothing else.
const LABEL: &str = "key check";

/// Holds `key` against the check record; writes it where the vault is empty.
pub(super) async fn hold_to(store: &dyn Store, key: &VaultKey) -> Result<(), VaultError> {
    let expected = key.derive(LABEL);
    loop {
        let (records, _) = store.scan(PREFIX.as_bytes()).await?;
        if let Some(found) = records.iter().find(|record| record.key == KEY) {
            let kept: [u8; 32] = record::decode(found, VERSION)?;
            let same = bool::from(kept.ct_eq(&expected));
            return same.then_some(()).ok_or(VaultError::WrongKey);
        }
        if !records.is_empty() {
            return Err(VaultError::NoCheck);
        }
        let value = record::encode(KEY, VERSION, &expected)?;
        let batch = Batch {
            conditions: vec![Condition::Absent(KEY.to_vec())],
            changes: vec![Change::Put(KEY.to_vec(), value)],
        };
        match store.commit(batch).await {
            Ok(_) => return Ok(()),
            // Somebody else began the vault: theirs is the key that counts.
            Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
