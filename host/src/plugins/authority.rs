//! What the operator has said about components: which are approved, and for
//! what, by their hash or by their signer; which were turned down, and which
//! must run nowhere. It lives in the store; memory follows it, and a plugin
//! lives for as long as what it lives under stands.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::plugins::hash::ComponentHash;
use crate::plugins::load::Identity;
use crate::rules::admission::{Admission, Said, admit};
use crate::rules::permission::Permission;
use crate::rules::signature::KeyId;
use crate::store::mirror::{Mirror, Mirrored};
use crate::store::{Batch, Change, Event, Record, Store, StoreError, record};

const PREFIX: &str = "plugin/approval/";
const SIGNER: &str = "plugin/approval/signer/";
const BLOCKED: &str = "plugin/approval/blocked/";
const REJECTED: &str = "plugin/approval/rejected/";
const VERSION: u32 = 1;

/// What was said, in the store and in memory.
pub(crate) struct Authority {
    store: Arc<dyn Store>,
    table: Arc<Table>,
    mirror: Mirror,
}

/// Told of what stands now, whenever that changes.
pub(crate) type OnChange = Box<dyn Fn(&Standing) + Send + Sync>;

#[derive(Debug, Serialize, Deserialize)]
struct StoredApproval {
    name: String,
    version: String,
    permissions: BTreeSet<String>,
    at: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredVerdict {
    at: String,
}

struct Table {
    standing: Mutex<Standing>,
    on_change: OnChange,
}

/// What stands now.
#[derive(Default)]
pub(crate) struct Standing {
    hashes: HashMap<ComponentHash, Approved>,
    signers: HashMap<(String, KeyId), BTreeSet<String>>,
    rejected: HashSet<ComponentHash>,
    blocked: BTreeMap<ComponentHash, String>,
}

struct Approved {
    name: String,
    permissions: BTreeSet<String>,
}

impl Authority {
    /// Reads what was said and follows its changes.
    pub(crate) async fn open(
        store: Arc<dyn Store>,
        on_change: OnChange,
    ) -> Result<Self, StoreError> {
        let table = Arc::new(Table {
            standing: Mutex::default(),
            on_change,
        });
        let mirror = Mirror::start(Arc::clone(&store), PREFIX, Arc::clone(&table) as _).await?;
        Ok(Self {
            store,
            table,
            mirror,
        })
    }

    /// Weighs what was said of a component.
    pub(crate) fn admit(&self, component: &Identity) -> Admission {
        self.table.standing().admit(component)
    }

    /// Holds what is live to what stands, as after every change.
    pub(crate) fn hold(&self) {
        let standing = self.table.standing();
        (self.table.on_change)(&standing);
    }

    /// Whether this hash must run nowhere.
    pub(crate) fn is_blocked(&self, hash: &ComponentHash) -> bool {
        self.table.standing().blocked.contains_key(hash)
    }

    /// The hashes that must run nowhere, and since when.
    pub(crate) fn blocked(&self) -> BTreeMap<ComponentHash, String> {
        self.table.standing().blocked.clone()
    }

    /// The components that are approved by hash under a name.
    pub(crate) fn named(&self, name: &str) -> Vec<ComponentHash> {
        let standing = self.table.standing();
        let named = standing.hashes.iter().filter(|(_, of)| of.name == name);
        named.map(|(hash, _)| *hash).collect()
    }

    /// The name that a component was approved under by its hash.
    pub(crate) fn name_of(&self, hash: &ComponentHash) -> Option<String> {
        let standing = self.table.standing();
        standing.hashes.get(hash).map(|found| found.name.clone())
    }

    /// The signers that are approved under a name.
    pub(crate) fn signers_of(&self, name: &str) -> Vec<KeyId> {
        let standing = self.table.standing();
        let of = standing.signers.keys().filter(|(of, _)| of == name);
        of.map(|(_, key)| key.clone()).collect()
    }

    /// The changes that approve a component with all that it asks for, and
    /// with `signer` whatever that key signs under its name and that asks for
    /// no more. An earlier rejection is taken back.
    pub(crate) fn approval(
        component: &Identity,
        signer: Option<&KeyId>,
        at: &str,
    ) -> Result<Vec<Change>, StoreError> {
        let manifest = &component.manifest;
        let permissions = Permission::of(manifest);
        let approval = StoredApproval {
            name: manifest.name.as_str().to_owned(),
            version: manifest.version.clone(),
            permissions: permissions.iter().map(ToString::to_string).collect(),
            at: at.to_owned(),
        };
        let of_signer = signer.map(|key| signer_key(&approval.name, key));
        let mut changes = Vec::new();
        let keys = std::iter::once(hash_key(PREFIX, &component.hash)).chain(of_signer);
        for key in keys {
            let value = record::encode(&key, VERSION, &approval)?;
            changes.push(Change::Put(key, value));
        }
        changes.push(Change::Delete(hash_key(REJECTED, &component.hash)));
        Ok(changes)
    }

    /// The changes that take approvals back.
    pub(crate) fn withdrawal(hash: &ComponentHash, name: &str, signers: &[KeyId]) -> Vec<Change> {
        let signers = signers.iter().map(|key| signer_key(name, key));
        std::iter::once(hash_key(PREFIX, hash))
            .chain(signers)
            .map(Change::Delete)
            .collect()
    }

    /// The change that turns a component down.
    pub(crate) fn rejection(hash: &ComponentHash, at: &str) -> Result<Change, StoreError> {
        verdict(hash_key(REJECTED, hash), at)
    }

    /// The change that blocks a hash.
    pub(crate) fn block(hash: &ComponentHash, at: &str) -> Result<Change, StoreError> {
        verdict(hash_key(BLOCKED, hash), at)
    }

    /// The change that unblocks a hash.
    pub(crate) fn unblock(hash: &ComponentHash) -> Change {
        Change::Delete(hash_key(BLOCKED, hash))
    }

    /// Makes a batch's changes, and returns when they are on disk, in memory,
    /// and true of what is live.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<(), StoreError> {
        let revision = self.store.commit(batch).await?;
        if self.mirror.reached(revision).await {
            return Ok(());
        }
        Err(StoreError::Closed)
    }
}

impl Standing {
    /// Weighs what was said of a component.
    pub(crate) fn admit(&self, component: &Identity) -> Admission {
        let name = component.manifest.name.as_str().to_owned();
        let signer = component.signer.clone();
        let said = Said {
            blocked: self.blocked.contains_key(&component.hash),
            rejected: self.rejected.contains(&component.hash),
            hash: self.hashes.get(&component.hash).map(|of| &of.permissions),
            signer: signer.and_then(|signer| self.signers.get(&(name, signer))),
        };
        admit(said, &Permission::of(&component.manifest))
    }

    fn put(&mut self, key: &[u8], value: Option<&[u8]>) {
        let approval = || {
            let stored = record::decode_value::<StoredApproval>(key, value?, VERSION);
            let told = |error: &StoreError| tracing::error!(%error, "an approval cannot be read, and counts as none: approve the plugin again");
            stored.inspect_err(told).ok()
        };
        match Subject::of(key) {
            Some(Subject::Hash(hash)) => match approval() {
                Some(stored) => {
                    let (name, permissions) = (stored.name, stored.permissions);
                    self.hashes.insert(hash, Approved { name, permissions });
                }
                None => {
                    self.hashes.remove(&hash);
                }
            },
            Some(Subject::Signer(name, signer)) => match approval() {
                Some(stored) => {
                    self.signers.insert((name, signer), stored.permissions);
                }
                None => {
                    self.signers.remove(&(name, signer));
                }
            },
            Some(Subject::Rejected(hash)) => {
                self.rejected.remove(&hash);
                if value.is_some() {
                    self.rejected.insert(hash);
                }
            }
            // That it is there blocks, also where what it says cannot be read.
            Some(Subject::Blocked(hash)) => {
                self.blocked.remove(&hash);
                if let Some(value) = value {
                    let read = record::decode_value::<StoredVerdict>(key, value, VERSION);
                    let at = read.map(|verdict| verdict.at).unwrap_or_default();
                    self.blocked.insert(hash, at);
                }
            }
            None => {}
        }
    }
}

impl Table {
    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mirrored for Table {
    fn reset(&self, records: &[Record]) {
        let mut now = Standing::default();
        for found in records {
            now.put(&found.key, Some(&found.value));
        }
        let mut standing = self.standing();
        *standing = now;
        (self.on_change)(&standing);
    }

    fn apply(&self, event: &Event) {
        let mut standing = self.standing();
        standing.put(&event.key, event.value.as_deref());
        (self.on_change)(&standing);
    }
}

/// What a record is about.
enum Subject {
    Hash(ComponentHash),
    Signer(String, KeyId),
    Rejected(ComponentHash),
    Blocked(ComponentHash),
}

impl Subject {
    fn of(key: &[u8]) -> Option<Self> {
        let key = std::str::from_utf8(key).ok()?;
        if let Some(rest) = key.strip_prefix(SIGNER) {
            let (name, signer) = rest.split_once('/')?;
            return Some(Self::Signer(name.to_owned(), KeyId::parse(signer)?));
        }
        if let Some(hash) = key.strip_prefix(BLOCKED) {
            return ComponentHash::parse(hash).map(Self::Blocked);
        }
        if let Some(hash) = key.strip_prefix(REJECTED) {
            return ComponentHash::parse(hash).map(Self::Rejected);
        }
        ComponentHash::parse(key.strip_prefix(PREFIX)?).map(Self::Hash)
    }
}

fn verdict(key: Vec<u8>, at: &str) -> Result<Change, StoreError> {
    let value = record::encode(&key, VERSION, &StoredVerdict { at: at.to_owned() })?;
    Ok(Change::Put(key, value))
}

fn hash_key(prefix: &str, hash: &ComponentHash) -> Vec<u8> {
    format!("{prefix}{hash}").into_bytes()
}

fn signer_key(name: &str, key: &KeyId) -> Vec<u8> {
    format!("{SIGNER}{name}/{key}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_read_counts_against_the_component() {
        let hash = ComponentHash([7; 32]);
        let mut standing = Standing::default();
        let approval = record::encode(
            b"k",
            VERSION,
            &StoredApproval {
                name: "a".to_owned(),
                version: "1".to_owned(),
                permissions: BTreeSet::new(),
                at: String::new(),
            },
        )
        .unwrap();
        let key = KeyId::parse("0123456789ABCDEF").unwrap();
        for (at, blocked) in [
            (hash_key(PREFIX, &hash), false),
            (signer_key("a", &key), false),
            (hash_key(BLOCKED, &hash), true),
            (hash_key(REJECTED, &hash), true),
        ] {
            let mut stands = |value: Option<&[u8]>| {
                standing.put(&at, value);
                let of = (
                    standing.hashes.len() + standing.signers.len(),
                    standing.blocked.len(),
                );
                of.0 + of.1 + standing.rejected.len()
            };
            assert_eq!(stands(Some(&approval)), 1);
            assert_eq!(stands(Some(b"not json")), usize::from(blocked));
            assert_eq!(stands(None), 0);
        }
        standing.put(b"plugin/approval/other/x", Some(&approval));
        standing.put(b"plugin/approval/signer/a/short", Some(&approval));
        assert!(standing.hashes.is_empty() && standing.signers.is_empty());
    }
}
