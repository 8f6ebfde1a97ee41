//! Which components the operator has approved, and for what. An approval
//! belongs to an exact hash and lives in the store; memory follows it, and a
//! plugin lives for as long as its approval stands.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::lease::Tenure;
use crate::plugins::hash::ComponentHash;
use crate::rules::manifest::Manifest;
use crate::rules::permission::{Permission, more_than};
use crate::store::mirror::{Mirror, Mirrored};
use crate::store::{Batch, Change, Condition, Event, Record, Store, StoreError, record};

const PREFIX: &str = "plugin/approval/";
const VERSION: u32 = 1;

/// The approvals in the store, and in memory.
pub(crate) struct Approvals {
    store: Arc<dyn Store>,
    table: Arc<Table>,
    mirror: Mirror,
}

/// Told of a component whose approval no longer stands.
pub(crate) type OnWithdrawal = Box<dyn Fn(&ComponentHash) + Send + Sync>;

#[derive(Debug, Serialize, Deserialize)]
struct StoredApproval {
    name: String,
    version: String,
    permissions: BTreeSet<String>,
    at: String,
}

struct Table {
    standing: Mutex<HashMap<ComponentHash, Standing>>,
    on_withdrawal: OnWithdrawal,
}

/// An approval that stands.
struct Standing {
    name: String,
    permissions: BTreeSet<String>,
    lease: Tenure,
}

impl Approvals {
    /// Reads the approvals and follows their changes.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        on_withdrawal: OnWithdrawal,
    ) -> Result<Self, StoreError> {
        let table = Arc::new(Table {
            standing: Mutex::default(),
            on_withdrawal,
        });
        let mirror = Mirror::start(Arc::clone(&store), PREFIX, Arc::clone(&table) as _).await?;
        Ok(Self {
            store,
            table,
            mirror,
        })
    }

    /// What a component lives under, where it has been approved with all that
    /// its manifest asks for.
    pub(crate) fn covers(&self, hash: &ComponentHash, manifest: &Manifest) -> Option<Tenure> {
        let standing = self.table.standing();
        let found = standing.get(hash)?;
        let more = more_than(&found.permissions, &Permission::of(manifest));
        more.is_empty().then(|| found.lease.clone())
    }

    /// The components that are approved under a name.
    pub(crate) fn named(&self, name: &str) -> Vec<ComponentHash> {
        let standing = self.table.standing();
        let named = standing.iter().filter(|(_, found)| found.name == name);
        named.map(|(hash, _)| *hash).collect()
    }

    /// The name that a component was approved under.
    pub(crate) fn name_of(&self, hash: &ComponentHash) -> Option<String> {
        let standing = self.table.standing();
        standing.get(hash).map(|found| found.name.clone())
    }

    /// Approves this component with all that its manifest asks for; on disk and
    /// in memory when this returns.
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
        self.commit(Vec::new(), Change::Put(key, value)).await
    }

    /// Takes an approval back; false when there is none. When this returns, it
    /// is gone from disk and memory, and the component with it.
    pub(crate) async fn revoke(&self, hash: &ComponentHash) -> Result<bool, StoreError> {
        let key = key(hash);
        let there = vec![Condition::Present(key.clone())];
        match self.commit(there, Change::Delete(key)).await {
            Ok(()) => Ok(true),
            Err(StoreError::Conflict) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn commit(&self, conditions: Vec<Condition>, change: Change) -> Result<(), StoreError> {
        let batch = Batch {
            conditions,
            changes: vec![change],
        };
        let revision = self.store.commit(batch).await?;
        if self.mirror.reached(revision).await {
            return Ok(());
        }
        Err(StoreError::Closed)
    }
}

impl Table {
    fn standing(&self) -> MutexGuard<'_, HashMap<ComponentHash, Standing>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what stands under a hash now. An approval of no less goes on
    /// under the same lease; one of less is taken for withdrawn and new.
    fn put(&self, hash: ComponentHash, now: Option<Standing>) {
        let mut standing = self.standing();
        let before = standing.remove(&hash);
        let mut withdrawn = before.is_some();
        if let Some(mut now) = now {
            if let Some(before) = &before
                && now.permissions.is_superset(&before.permissions)
            {
                now.lease = before.lease.clone();
                withdrawn = false;
            }
            standing.insert(hash, now);
        }
        drop(standing);
        if withdrawn && let Some(before) = before {
            // The lease first: whoever lets the component go live meanwhile
            // looks at it afterwards.
            before.lease.cancel();
            (self.on_withdrawal)(&hash);
        }
    }
}

impl Mirrored for Table {
    fn reset(&self, records: &[Record]) {
        let gone: Vec<ComponentHash> = {
            let standing = self.standing();
            let is_there = |hash: &ComponentHash| {
                let key = key(hash);
                records.iter().any(|record| record.key == key)
            };
            let hashes = standing.keys().copied();
            hashes.filter(|hash| !is_there(hash)).collect()
        };
        for hash in gone {
            self.put(hash, None);
        }
        for found in records {
            if let Some(hash) = hash_of(&found.key) {
                self.put(hash, parse(&found.key, &found.value));
            }
        }
    }

    fn apply(&self, event: &Event) {
        if let Some(hash) = hash_of(&event.key) {
            let value = event.value.as_deref();
            self.put(hash, value.and_then(|value| parse(&event.key, value)));
        }
    }
}

fn parse(key: &[u8], value: &[u8]) -> Option<Standing> {
    match record::decode_value::<StoredApproval>(key, value, VERSION) {
        Ok(stored) => Some(Standing {
            name: stored.name,
            permissions: stored.permissions,
            lease: Tenure::new(),
        }),
        Err(error) => {
            tracing::error!(%error, "an approval cannot be read, and counts as none: approve the plugin again");
            None
        }
    }
}

fn key(hash: &ComponentHash) -> Vec<u8> {
    format!("{PREFIX}{hash}").into_bytes()
}

fn hash_of(key: &[u8]) -> Option<ComponentHash> {
    ComponentHash::parse(std::str::from_utf8(key).ok()?.strip_prefix(PREFIX)?)
}
