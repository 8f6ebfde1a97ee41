//! What of the vault lives in memory: records to look at, values that are
//! still sealed, and the lease that relays hold on each. It follows the store
//! and is written by nothing else.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::fleeting::Fleeting;
use crate::lease::Tenure;
use crate::rules::names::{BoxName, CredentialName, SecretName, UpstreamName};
use crate::rules::origin::Origin;
use crate::rules::plan::{CredentialKey, CredentialKind};
use crate::store::mirror::Mirrored;
use crate::store::{Event, Record, Revision};
use crate::vault::credentials::Payers;
use crate::vault::{
    AmbiguousCredential, CredentialRecord, OpenedValue, SecretRecord, check, credentials, secrets,
};

/// A sealed value and what its record says it is for.
pub(super) struct Sealed {
    pub(super) kind: CredentialKind,
    pub(super) box_name: Option<BoxName>,
    pub(super) origin: Origin,
    pub(super) value: Vec<u8>,
    /// The value, out of its seal, while requests use it.
    pub(super) opened: Fleeting<OpenedValue>,
}

/// Everything held, by the key it lies under in the store.
#[derive(Default)]
pub(super) struct Held(RwLock<State>);

#[derive(Default)]
struct State {
    secrets: BTreeMap<Vec<u8>, (Arc<SecretRecord>, Arc<Sealed>)>,
    credentials: BTreeMap<Vec<u8>, (Arc<CredentialRecord>, Arc<Sealed>)>,
    /// The credentials again, as a request looks for them.
    payers: HashMap<UpstreamName, Payers>,
}

/// The record that lay under a key before.
enum Before {
    Secret(Arc<SecretRecord>),
    Credential(Arc<CredentialRecord>),
}

impl Held {
    pub(super) fn secret(
        &self,
        box_name: &BoxName,
        name: &SecretName,
    ) -> Option<Arc<SecretRecord>> {
        let state = self.read();
        let (record, _) = state.secrets.get(&secrets::key(box_name, name))?;
        Some(Arc::clone(record))
    }

    pub(super) fn secrets(&self) -> Vec<Arc<SecretRecord>> {
        let state = self.read();
        let records = state.secrets.values();
        records.map(|(record, _)| Arc::clone(record)).collect()
    }

    pub(super) fn credential(
        &self,
        upstream: &UpstreamName,
        name: &CredentialName,
    ) -> Option<Arc<CredentialRecord>> {
        let state = self.read();
        let (record, _) = state.credentials.get(&credentials::key(upstream, name))?;
        Some(Arc::clone(record))
    }

    pub(super) fn credentials(&self) -> Vec<Arc<CredentialRecord>> {
        let state = self.read();
        let records = state.credentials.values();
        records.map(|(record, _)| Arc::clone(record)).collect()
    }

    /// The credential of an upstream that pays for a box without a grant.
    pub(super) fn credential_for(
        &self,
        upstream: &UpstreamName,
        box_name: &BoxName,
    ) -> Result<Option<Arc<CredentialRecord>>, AmbiguousCredential> {
        match self.read().payers.get(upstream) {
            Some(payers) => credentials::choose(payers, upstream, box_name),
            None => Ok(None),
        }
    }

    pub(super) fn sealed(&self, key: &CredentialKey) -> Option<Arc<Sealed>> {
        let state = self.read();
        let found = match key {
            CredentialKey::Secret { box_name, name } => {
                let secret = state.secrets.get(&secrets::key(box_name, name));
                secret.map(|(_, sealed)| sealed)
            }
            CredentialKey::Credential { upstream, name } => {
                let credential = state.credentials.get(&credentials::key(upstream, name));
                credential.map(|(_, sealed)| sealed)
            }
        };
        found.cloned()
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Mirrored for Held {
    fn reset(&self, records: &[Record]) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *state);
        for record in records {
            // What was missed may have been a removal and a new value: only a
            // record that has not changed is known to have stood all the while.
            let stood = before
                .take(&record.key)
                .and_then(|stood| stood.unless_changed(record.revision));
            state.put(&record.key, &record.value, record.revision, stood);
        }
        before.cut();
    }

    fn apply(&self, event: &Event) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Whatever was there is out of date, also when what comes is unreadable.
        let before = state.take(&event.key);
        match &event.value {
            Some(value) => state.put(&event.key, value, event.revision, before),
            None => before.iter().for_each(Before::cut),
        }
    }
}

impl State {
    fn take(&mut self, key: &[u8]) -> Option<Before> {
        let secret = self.secrets.remove(key);
        let credential = self.credentials.remove(key);
        if let Some((record, _)) = &credential
            && let Some(payers) = self.payers.get_mut(&record.upstream)
        {
            payers.remove(record);
        }
        let secret = secret.map(|(record, _)| Before::Secret(record));
        secret.or_else(|| credential.map(|(record, _)| Before::Credential(record)))
    }

    /// Takes a record in. It goes on under the lease of the one before it
    /// where only the value is another; otherwise that one's lease ends.
    fn put(&mut self, key: &[u8], value: &[u8], revision: Revision, before: Option<Before>) {
        if let Some((mut record, sealed)) = secrets::read(key, value, revision) {
            match &before {
                Some(Before::Secret(old)) if old.stands_for(&record) => {
                    record.lease = old.lease.clone();
                }
                Some(other) => other.cut(),
                None => {}
            }
            self.secrets
                .insert(key.to_vec(), (Arc::new(record), Arc::new(sealed)));
        } else if let Some((mut record, sealed)) = credentials::read(key, value, revision) {
            match &before {
                Some(Before::Credential(old)) if old.stands_for(&record) => {
                    record.lease = old.lease.clone();
                }
                Some(other) => other.cut(),
                None => {}
            }
            let record = Arc::new(record);
            let payers = self.payers.entry(record.upstream.clone()).or_default();
            payers.add(&record);
            self.credentials
                .insert(key.to_vec(), (record, Arc::new(sealed)));
        } else if key != check::KEY {
            before.iter().for_each(Before::cut);
            let key = String::from_utf8_lossy(key);
            tracing::error!(%key, "a record of the vault cannot be read, and is left out: set it again");
        }
    }

    /// Ends every lease: what these records were is gone.
    fn cut(&self) {
        let secrets = self.secrets.values().map(|(record, _)| &record.lease);
        let credentials = self.credentials.values().map(|(record, _)| &record.lease);
        secrets.chain(credentials).for_each(Tenure::cancel);
    }
}

impl Before {
    fn cut(&self) {
        match self {
            Self::Secret(record) => record.lease.cancel(),
            Self::Credential(record) => record.lease.cancel(),
        }
    }

    /// This record, where it is still the one of that revision.
    fn unless_changed(self, now: Revision) -> Option<Self> {
        let then = match &self {
            Self::Secret(record) => record.revision,
            Self::Credential(record) => record.revision,
        };
        if then == now {
            return Some(self);
        }
        self.cut();
        None
    }
}
