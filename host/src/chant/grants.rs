//! Grants: issued to a person for one box, kept as hashes, and worth nothing
//! once revoked or expired. What is read on every request lives in memory,
//! driven by the store's watch.
//!
//! It tells what a grant says and whether it was taken back; what one is worth
//! is decided in `rules::grant`.

mod table;

use std::sync::Arc;

use jiff::Timestamp;

use crate::chant::boxes;
use crate::chant::grants::table::{PREFIX, Stored, Table, VERSION, key, write};
use crate::lease::Tenure;
use crate::rules::grant::{Grant, Ttl, TtlError};
use crate::rules::names::{BoxName, CredentialName, UpstreamName};
use crate::rules::payer::Principal;
use crate::rules::token::{GrantValue, TokenHash};
use crate::store::mirror::Mirror;
use crate::store::{Batch, Change, Condition, Revision, Store, StoreError, record};

/// How many records one batch of deletions holds.
const AT_ONCE: usize = 256;

/// Why a grant could not be issued or revoked.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// There is no such box.
    #[error("there is no box {0}; `jackfield box list` names those there are")]
    UnknownBox(BoxName),
    /// No grant has that id. What was given is not repeated: it may be a grant.
    #[error("no grant has that id; `jackfield grant list` shows them")]
    Unknown,
    /// It would live for too long.
    #[error(transparent)]
    Ttl(#[from] TtlError),
    /// The system gave no randomness.
    #[error("the system gave no random bytes for a grant")]
    Random,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A grant to be issued.
#[derive(Debug, Clone)]
pub struct NewGrant {
    /// The box.
    pub box_name: BoxName,
    /// The upstream that the credential is for.
    pub upstream: UpstreamName,
    /// The credential.
    pub credential: CredentialName,
    /// The person whose it is.
    pub principal: Principal,
    /// How long it lives.
    pub ttl: Ttl,
}

/// A grant as it stands in memory. Its value is stored nowhere.
#[derive(Debug)]
pub struct Known {
    /// What the operator calls it by.
    pub id: String,
    /// What it says.
    pub grant: Grant,
    /// Cancelled when it is revoked or its record goes: what is relayed under
    /// it is cut. That it expires cuts nothing: a turn that began in time ends
    /// in its own.
    pub lease: Tenure,
    hash: TokenHash,
}

/// The grants of this host.
pub struct Grants {
    store: Arc<dyn Store>,
    table: Arc<Table>,
    mirror: Mirror,
}

impl Grants {
    /// Reads the grants, follows their changes, and sweeps what is stale.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn open(store: Arc<dyn Store>, now: Timestamp) -> Result<Self, StoreError> {
        let table = Arc::new(Table::default());
        let mirror = Mirror::start(Arc::clone(&store), PREFIX, Arc::clone(&table) as _).await?;
        let grants = Self {
            store,
            table,
            mirror,
        };
        grants.sweep(now).await?;
        Ok(grants)
    }

    /// Issues a grant and returns its value, which is stored nowhere.
    ///
    /// # Errors
    /// When there is no such box or the store fails.
    pub async fn issue(
        &self,
        new: NewGrant,
        now: Timestamp,
    ) -> Result<(GrantValue, Arc<Known>), GrantError> {
        self.sweep(now).await?;
        let mut bytes = zeroize::Zeroizing::new([0; 32]);
        let mut id = [0; 8];
        getrandom::fill(bytes.as_mut()).map_err(|_| GrantError::Random)?;
        getrandom::fill(&mut id).map_err(|_| GrantError::Random)?;
        let value = GrantValue::from_random(&bytes);
        let known = Known {
            id: id.iter().map(|byte| format!("{byte:02x}")).collect(),
            grant: Grant {
                expires: new.ttl.after(now)?,
                box_name: new.box_name,
                upstream: new.upstream,
                credential: new.credential,
                principal: new.principal,
                issued: now,
                revoked: false,
            },
            lease: Tenure::new(),
            hash: value.hash(),
        };
        let key = key(&known.grant.box_name, &known.id);
        let conditions = vec![
            Condition::Present(boxes::key(&known.grant.box_name)),
            Condition::Absent(key.clone()),
        ];
        let put = Change::Put(key.clone(), write(&key, &known)?);
        loop {
            match self.commit(conditions.clone(), vec![put.clone()]).await {
                Ok(()) => break,
                Err(StoreError::Conflict) => {
                    let owner = boxes::key(&known.grant.box_name);
                    if self.store.get(&owner).await?.is_none() {
                        return Err(GrantError::UnknownBox(known.grant.box_name));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        let known = self.table.at(&key).unwrap_or_else(|| Arc::new(known));
        Ok((value, known))
    }

    /// Takes a grant back. It is spent on nothing from here on, and what it was
    /// spent on is cut.
    ///
    /// # Errors
    /// When no grant has that id or the store fails.
    pub async fn revoke(&self, id: &str) -> Result<Arc<Known>, GrantError> {
        let known = self.list().into_iter().find(|known| known.id == id);
        let known = known.ok_or(GrantError::Unknown)?;
        self.revoke_all(std::slice::from_ref(&known)).await?;
        Ok(known)
    }

    /// Takes every grant of a box back, and says how many were not before.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn revoke_of(&self, box_name: &BoxName) -> Result<usize, GrantError> {
        let mut of_box = self.list();
        of_box.retain(|known| known.grant.box_name == *box_name && !known.grant.revoked);
        self.revoke_all(&of_box).await?;
        Ok(of_box.len())
    }

    async fn revoke_all(&self, grants: &[Arc<Known>]) -> Result<(), GrantError> {
        for part in grants.chunks(AT_ONCE) {
            loop {
                match self.commit_revoked(part).await {
                    Err(StoreError::Conflict) => {}
                    done => break done?,
                }
            }
        }
        Ok(())
    }

    async fn commit_revoked(&self, grants: &[Arc<Known>]) -> Result<(), StoreError> {
        let (mut conditions, mut changes) = (Vec::new(), Vec::new());
        for known in grants {
            let key = key(&known.grant.box_name, &known.id);
            // Another may have revoked or swept it meanwhile.
            let Some(found) = self.store.get(&key).await? else {
                continue;
            };
            let mut stored: Stored = record::decode(&found, VERSION)?;
            stored.revoked = true;
            let value = record::encode(&key, VERSION, &stored)?;
            conditions.push(Condition::AtRevision(key.clone(), found.revision));
            changes.push(Change::Put(key, value));
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.commit(conditions, changes).await
    }

    /// Every grant there is, by box and id.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Known>> {
        self.table.read().by_key.values().cloned().collect()
    }

    /// The grant of this value.
    #[must_use]
    pub fn by_value(&self, value: &GrantValue) -> Option<Arc<Known>> {
        let hash = value.hash();
        // As for tokens, the comparison that decides takes the same time
        // wherever two hashes differ.
        let entries = self.table.read();
        let found = entries.by_hash.get(&hash);
        found.filter(|known| known.hash == hash).cloned()
    }

    /// Deletes the records that are worth nothing to anybody any more.
    async fn sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut stale = self.list();
        stale.retain(|known| known.grant.is_stale(now));
        for part in stale.chunks(AT_ONCE) {
            let keys = part
                .iter()
                .map(|known| key(&known.grant.box_name, &known.id));
            self.commit(Vec::new(), keys.map(Change::Delete).collect())
                .await?;
        }
        Ok(())
    }

    /// Commits, and waits until memory shows it.
    async fn commit(
        &self,
        conditions: Vec<Condition>,
        changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let batch = Batch {
            conditions,
            changes,
        };
        let revision: Revision = self.store.commit(batch).await?;
        if self.mirror.reached(revision).await {
            return Ok(());
        }
        Err(StoreError::Closed)
    }
}

/// Deletes the grants of a name that is no box's: a later box of that name finds
/// none.
pub(super) async fn purge(store: &Arc<dyn Store>, box_name: &BoxName) -> Result<(), StoreError> {
    let prefix = format!("{PREFIX}{box_name}/");
    let (found, _) = store.scan(prefix.as_bytes()).await?;
    for part in found.chunks(AT_ONCE) {
        let changes = part.iter().map(|found| Change::Delete(found.key.clone()));
        let batch = Batch {
            conditions: Vec::new(),
            changes: changes.collect(),
        };
        store.commit(batch).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
