//! Grants as records, and what of them lives in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use serde::{Deserialize, Serialize};

use crate::chant::grants::Known;
use crate::lease::Tenure;
use crate::rules::grant::Grant;
use crate::rules::names::{BoxName, CredentialName, UpstreamName};
use crate::rules::payer::Principal;
use crate::rules::token::TokenHash;
use crate::store::mirror::Mirrored;
use crate::store::{Event, Record, StoreError, record};

/// Where grants stand.
pub(super) const PREFIX: &str = "grant/";
/// How their records are written.
pub(super) const VERSION: u32 = 1;

/// The stored form. Box and id stand in the key alone.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stored {
    grant_sha256: String,
    upstream: String,
    credential: String,
    principal: String,
    issued: String,
    expires: String,
    pub(super) revoked: bool,
}

/// The grants, in memory.
#[derive(Default)]
pub(super) struct Table(RwLock<Entries>);

#[derive(Default)]
pub(super) struct Entries {
    pub(super) by_key: BTreeMap<Vec<u8>, Arc<Known>>,
    pub(super) by_hash: HashMap<TokenHash, Arc<Known>>,
}

/// Where a grant stands.
pub(super) fn key(box_name: &BoxName, id: &str) -> Vec<u8> {
    format!("{PREFIX}{box_name}/{id}").into_bytes()
}

pub(super) fn write(key: &[u8], known: &Known) -> Result<Vec<u8>, StoreError> {
    let grant = &known.grant;
    let stored = Stored {
        grant_sha256: known.hash.to_hex(),
        upstream: grant.upstream.to_string(),
        credential: grant.credential.to_string(),
        principal: grant.principal.as_str().to_owned(),
        issued: grant.issued.to_string(),
        expires: grant.expires.to_string(),
        revoked: grant.revoked,
    };
    record::encode(key, VERSION, &stored)
}

fn read(key: &[u8], value: &[u8]) -> Option<Known> {
    let (box_name, id) = record::key_parts(key, PREFIX)?;
    let stored: Stored = record::decode_value(key, value, VERSION).ok()?;
    Some(Known {
        id: id.to_owned(),
        grant: Grant {
            box_name: BoxName::parse(box_name).ok()?,
            upstream: UpstreamName::parse(&stored.upstream).ok()?,
            credential: CredentialName::parse(&stored.credential).ok()?,
            principal: Principal::parse(&stored.principal)?,
            issued: stored.issued.parse().ok()?,
            expires: stored.expires.parse().ok()?,
            revoked: stored.revoked,
        },
        lease: Tenure::new(),
        hash: TokenHash::from_hex(&stored.grant_sha256)?,
    })
}

impl Table {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn at(&self, key: &[u8]) -> Option<Arc<Known>> {
        self.read().by_key.get(key).cloned()
    }
}

impl Entries {
    /// Takes in what stands under a key now. What stood there before goes on
    /// only where nothing of it has changed.
    fn put(&mut self, key: &[u8], value: Option<&[u8]>, before: Option<&Arc<Known>>) {
        let mut now = value.and_then(|value| read(key, value));
        if value.is_some() && now.is_none() {
            let key = String::from_utf8_lossy(key);
            tracing::error!(%key, "a grant's record cannot be read; it is worth nothing");
        }
        if let Some(before) = before {
            match &mut now {
                Some(now) if now.grant == before.grant && now.hash == before.hash => {
                    now.lease = before.lease.clone();
                }
                Some(_) | None => before.lease.cancel(),
            }
        }
        if let Some(now) = now.map(Arc::new) {
            self.by_hash.insert(now.hash, Arc::clone(&now));
            self.by_key.insert(key.to_vec(), now);
        }
    }
}

impl Mirrored for Table {
    fn reset(&self, records: &[Record]) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *entries);
        for record in records {
            let stood = before.by_key.remove(&record.key);
            entries.put(&record.key, Some(&record.value), stood.as_ref());
        }
        before.by_key.values().for_each(|gone| gone.lease.cancel());
    }

    fn apply(&self, event: &Event) {
        let mut entries = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let before = entries.by_key.remove(&event.key);
        if let Some(before) = &before {
            entries.by_hash.remove(&before.hash);
        }
        entries.put(&event.key, event.value.as_deref(), before.as_ref());
    }
}
