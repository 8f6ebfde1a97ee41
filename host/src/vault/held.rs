//! What of the vault lives in memory: records to look at, and values that are
//! still sealed. It follows the store and is written by nothing else.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::rules::names::{BoxName, SecretName, UpstreamName};
use crate::rules::origin::Origin;
use crate::rules::plan::{CredentialKey, CredentialKind};
use crate::store::mirror::Mirrored;
use crate::store::{Event, Record, Revision};
use crate::vault::{CredentialRecord, SecretRecord, check, credentials, secrets};

/// A sealed value and what its record says it is for.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) kind: CredentialKind,
    pub(super) box_name: Option<BoxName>,
    pub(super) origin: Origin,
    pub(super) value: Arc<[u8]>,
}

/// Everything held, by the key it lies under in the store.
#[derive(Default)]
pub(super) struct Held(RwLock<State>);

#[derive(Default)]
struct State {
    secrets: BTreeMap<Vec<u8>, (Arc<SecretRecord>, Sealed)>,
    credentials: BTreeMap<Vec<u8>, (Arc<CredentialRecord>, Sealed)>,
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

    pub(super) fn credentials(&self) -> Vec<Arc<CredentialRecord>> {
        let state = self.read();
        let records = state.credentials.values();
        records.map(|(record, _)| Arc::clone(record)).collect()
    }

    pub(super) fn credentials_of(&self, upstream: &UpstreamName) -> Vec<Arc<CredentialRecord>> {
        let state = self.read();
        let records = state.credentials.values().map(|(record, _)| record);
        let of_upstream = records.filter(|record| record.upstream == *upstream);
        of_upstream.cloned().collect()
    }

    pub(super) fn sealed(&self, key: &CredentialKey) -> Option<Sealed> {
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
        let mut fresh = State::default();
        for record in records {
            fresh.put(&record.key, &record.value, record.revision);
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = fresh;
    }

    fn apply(&self, event: &Event) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Whatever was there is out of date, also when what comes is unreadable.
        state.secrets.remove(&event.key);
        state.credentials.remove(&event.key);
        if let Some(value) = &event.value {
            state.put(&event.key, value, event.revision);
        }
    }
}

impl State {
    fn put(&mut self, key: &[u8], value: &[u8], revision: Revision) {
        if let Some((record, sealed)) = secrets::read(key, value, revision) {
            self.secrets
                .insert(key.to_vec(), (Arc::new(record), sealed));
        } else if let Some((record, sealed)) = credentials::read(key, value, revision) {
            self.credentials
                .insert(key.to_vec(), (Arc::new(record), sealed));
        } else if key != check::KEY {
            let key = String::from_utf8_lossy(key);
            tracing::error!(%key, "a record of the vault cannot be read, and is left out: set it again");
        }
    }
}
