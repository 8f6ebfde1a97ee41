//! What the host holds for others: boxes' secrets and the operator's
//! credentials, sealed at rest and in memory.
//!
//! A value is opened by [`Vault::open_value`] alone, for the one file that
//! seals it into a request; every other question is answered from records
//! that hold none.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use crate::rules::names::{BoxName, CredentialName, SecretName, UpstreamName};
use crate::rules::origin::Origin;
use crate::rules::plan::{CredentialKey, CredentialKind};
use crate::rules::scrub::Matcher;
use crate::rules::secret::Secret;
use crate::store::mirror::Mirror;
use crate::store::{Batch, Change, Condition, Record, Store, StoreError};

mod check;
mod credentials;
mod error;
mod frames;
mod held;
mod key;
mod seal;
mod secrets;
#[cfg(test)]
mod tests;

pub use credentials::{CredentialRecord, NewCredential};
pub use error::{AmbiguousCredential, VaultError};
pub use frames::FrameSealer;
pub use key::{KeyError, VaultKey, load_key, read_key};
pub use seal::{MAX_SECRET, MIN_SECRET, UnfitValue};
pub use secrets::{NewSecret, SecretRecord};

use held::Held;
use seal::{Binding, Sealer};

/// Where everything of the vault lies in the store.
const PREFIX: &str = "vault/";

/// How often a change is tried again after somebody else's came first.
const TRIES: u32 = 32;

/// Boxes' secrets and the operator's credentials. Clones share one vault.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    sealer: Sealer,
    held: Arc<Held>,
    mirror: Mirror,
}

/// A value, out of its seal, shared by the requests that use it now. Neither
/// cloned nor shown.
pub struct OpenedValue {
    /// The value.
    pub value: Secret,
    /// What sort it is.
    pub kind: CredentialKind,
    /// The only origin it may be sent to.
    pub bound_to: Origin,
    /// What finds it in answers, once the file that seals requests has compiled
    /// that.
    pub finder: OnceLock<Option<Arc<Matcher>>>,
}

impl OpenedValue {
    /// A value and what it is for.
    #[must_use]
    pub fn new(value: Secret, kind: CredentialKind, bound_to: Origin) -> Self {
        Self {
            value,
            kind,
            bound_to,
            finder: OnceLock::new(),
        }
    }
}

impl Vault {
    /// Opens the vault with its key. The first key is remembered by a check
    /// record; from then on no other opens it.
    ///
    /// # Errors
    /// [`VaultError::WrongKey`] when the values were sealed under another key;
    /// nothing has been written then.
    pub async fn open(store: Arc<dyn Store>, key: VaultKey) -> Result<Self, VaultError> {
        check::hold_to(store.as_ref(), &key).await?;
        let held = Arc::new(Held::default());
        let mirror = Mirror::start(Arc::clone(&store), PREFIX, Arc::clone(&held) as _).await?;
        Ok(Self(Arc::new(Inner {
            store,
            sealer: Sealer::new(&key),
            held,
            mirror,
        })))
    }

    /// A box's secret, without its value; from memory.
    #[must_use]
    pub fn secret(&self, box_name: &BoxName, name: &SecretName) -> Option<Arc<SecretRecord>> {
        self.0.held.secret(box_name, name)
    }

    /// Every secret, without its value, by box and name; from memory.
    #[must_use]
    pub fn secrets(&self) -> Vec<Arc<SecretRecord>> {
        self.0.held.secrets()
    }

    /// A credential, without its value; from memory.
    #[must_use]
    pub fn credential(
        &self,
        upstream: &UpstreamName,
        name: &CredentialName,
    ) -> Option<Arc<CredentialRecord>> {
        self.0.held.credential(upstream, name)
    }

    /// Every credential, without its value, by upstream and name; from memory.
    #[must_use]
    pub fn credentials(&self) -> Vec<Arc<CredentialRecord>> {
        self.0.held.credentials()
    }

    /// The credential that pays for a box where no grant says otherwise: its
    /// own, else the upstream's general one; never a visitor's. The caller
    /// holds its `bound_to` against the upstream's origin.
    ///
    /// # Errors
    /// When several have the same claim and none of them is the first one.
    pub fn credentials_for(
        &self,
        upstream: &UpstreamName,
        box_name: &BoxName,
    ) -> Result<Option<Arc<CredentialRecord>>, AmbiguousCredential> {
        self.0.held.credential_for(upstream, box_name)
    }

    /// Seals and keeps a secret, in place of one of the same box and name.
    /// `short` means a value under 12 bytes.
    ///
    /// # Errors
    /// When the value does not fit, or the store fails.
    pub async fn set_secret(
        &self,
        new: NewSecret,
        value: Secret,
        short: bool,
    ) -> Result<(), VaultError> {
        let key = CredentialKey::Secret {
            box_name: new.box_name.clone(),
            name: new.name.clone(),
        };
        let binding = Binding {
            key: &key,
            kind: CredentialKind::Secret,
            box_name: Some(&new.box_name),
            origin: &new.origin,
        };
        let sealed = self.0.sealer.seal(&value, short, &binding)?;
        let put = secrets::write(&new, &sealed)?;
        self.commit(Vec::new(), vec![put]).await
    }

    /// Removes a secret; false when there is none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove_secret(
        &self,
        box_name: &BoxName,
        name: &SecretName,
    ) -> Result<bool, VaultError> {
        self.remove(secrets::key(box_name, name)).await
    }

    /// Seals and keeps a credential, and says under which name. One of the same
    /// rank (upstream, and box or none) that is given no name must be the only
    /// one of its rank; one of the same name and rank is replaced.
    ///
    /// # Errors
    /// When the value does not fit, a name or a principal is missing, the name
    /// belongs to a credential of another rank, or the store fails.
    pub async fn set_credential(
        &self,
        new: NewCredential,
        value: Secret,
        short: bool,
    ) -> Result<CredentialName, VaultError> {
        credentials::check(&new)?;
        for _ in 0..TRIES {
            let (records, _) = self.0.store.scan(PREFIX.as_bytes()).await?;
            let existing = credentials::read_all(&records, &new.upstream);
            let (name, condition) = credentials::place(&new, &existing)?;
            let key = CredentialKey::Credential {
                upstream: new.upstream.clone(),
                name: name.clone(),
            };
            let binding = Binding {
                key: &key,
                kind: new.kind,
                box_name: new.box_name.as_ref(),
                origin: &new.bound_to,
            };
            let sealed = self.0.sealer.seal(&value, short, &binding)?;
            let put = credentials::write(&new, &name, &sealed)?;
            match self.commit(vec![condition], vec![put]).await {
                Err(VaultError::Store(StoreError::Conflict)) => {}
                done => return done.map(|()| name),
            }
        }
        Err(VaultError::Store(StoreError::Conflict))
    }

    /// Removes a credential; false when there is none.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn remove_credential(
        &self,
        upstream: &UpstreamName,
        name: &CredentialName,
    ) -> Result<bool, VaultError> {
        self.remove(credentials::key(upstream, name)).await
    }

    /// Removes a box's secrets and its own credentials.
    ///
    /// # Errors
    /// When the store fails; some may have been removed by then.
    pub async fn remove_box(&self, box_name: &BoxName) -> Result<(), VaultError> {
        for _ in 0..TRIES {
            let (records, _) = self.0.store.scan(PREFIX.as_bytes()).await?;
            let belongs = |record: &&Record| {
                secrets::belongs_to(record, box_name) || credentials::belongs_to(record, box_name)
            };
            let own: Vec<Record> = records.iter().filter(belongs).cloned().collect();
            if own.is_empty() {
                return Ok(());
            }
            let conditions = own.iter().map(unchanged).collect();
            let changes = own.iter().map(|record| Change::Delete(record.key.clone()));
            match self.commit(conditions, changes.collect()).await {
                Ok(()) | Err(VaultError::Store(StoreError::Conflict)) => {}
                Err(error) => return Err(error),
            }
        }
        Err(VaultError::Store(StoreError::Conflict))
    }

    /// Opens a value for the file that seals it into a request. It stays open
    /// while requests use it and for some seconds more.
    ///
    /// # Errors
    /// When none is held, or its record was changed or moved since it was
    /// sealed.
    pub fn open_value(&self, key: &CredentialKey) -> Result<Arc<OpenedValue>, VaultError> {
        let sealed = self.0.held.sealed(key);
        let sealed = sealed.ok_or_else(|| VaultError::NotHeld { key: key.clone() })?;
        let binding = Binding {
            key,
            kind: sealed.kind,
            box_name: sealed.box_name.as_ref(),
            origin: &sealed.origin,
        };
        sealed.opened.get_or_try(|| {
            let value = self.0.sealer.open(&sealed.value, &binding)?;
            let bound_to = sealed.origin.clone();
            Ok(OpenedValue::new(value, sealed.kind, bound_to))
        })
    }

    async fn remove(&self, key: Vec<u8>) -> Result<bool, VaultError> {
        for _ in 0..TRIES {
            let Some(record) = self.0.store.get(&key).await? else {
                return Ok(false);
            };
            let delete = Change::Delete(key.clone());
            match self.commit(vec![unchanged(&record)], vec![delete]).await {
                Err(VaultError::Store(StoreError::Conflict)) => {}
                done => return done.map(|()| true),
            }
        }
        Err(VaultError::Store(StoreError::Conflict))
    }

    /// Commits, and waits until memory shows it.
    async fn commit(
        &self,
        conditions: Vec<Condition>,
        changes: Vec<Change>,
    ) -> Result<(), VaultError> {
        let batch = Batch {
            conditions,
            changes,
        };
        let revision = self.0.store.commit(batch).await?;
        if self.0.mirror.reached(revision).await {
            return Ok(());
        }
        Err(VaultError::Store(StoreError::Closed))
    }
}

impl fmt::Debug for Vault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Vault(redacted)")
    }
}

impl fmt::Debug for OpenedValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OpenedValue(redacted)")
    }
}

fn unchanged(record: &Record) -> Condition {
    Condition::AtRevision(record.key.clone(), record.revision)
}

/// A path as it is stored: text.
fn path_text(path: &std::path::Path) -> Result<String, VaultError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| VaultError::PathNotText {
        path: PathBuf::from(path),
    })
}
