//! Which components the operator has approved, and for what. An approval
//! belongs to an exact hash and lives in the store.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plugins::hash::ComponentHash;
use crate::rules::manifest::Manifest;
use crate::rules::permission::{Permission, more_than};
use crate::store::{Batch, Change, Store, StoreError, record};

const PREFIX: &str = "plugin/approval/";
const VERSION: u32 = 1;

/// The approvals in the store.
#[derive(Clone)]
pub(crate) struct Approvals {
    store: Arc<dyn Store>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredApproval {
    name: String,
    version: String,
    permissions: BTreeSet<String>,
    at: String,
}

impl Approvals {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Whether this component has been approved, with all that its manifest
    /// asks for.
    pub(crate) async fn covers(
        &self,
        hash: &ComponentHash,
        manifest: &Manifest,
    ) -> Result<bool, StoreError> {
        let Some(found) = self.store.get(&key(hash)).await? else {
            return Ok(false);
        };
        let stored: StoredApproval = record::decode(&found, VERSION)?;
        Ok(more_than(&stored.permissions, &Permission::of(manifest)).is_empty())
    }

    /// Approves this component with all that its manifest asks for; on disk
    /// when this returns.
    pub(crate) async fn approve(
        &self,
        hash: &ComponentHash,
        manifest: &Manifest,
        at: String,
    ) -> Result<(), StoreError> {
        let permissions = Permission::of(manifest);
        let approval = StoredApproval {
            name: manifest.name.as_str().to_owned(),
            version: manifest.version.clone(),
            permissions: permissions.iter().map(ToString::to_string).collect(),
            at,
        };
        let key = key(hash);
        let value = record::encode(&key, VERSION, &approval)?;
        self.store
            .commit(Batch {
                conditions: Vec::new(),
                changes: vec![Change::Put(key, value)],
            })
            .await?;
        Ok(())
    }
}

fn key(hash: &ComponentHash) -> Vec<u8> {
    format!("{PREFIX}{hash}").into_bytes()
}
