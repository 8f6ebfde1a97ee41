//! The operator's credentials as records: how they are stored, what is shown of
//! them, which name a new one gets, and which one pays.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::fleeting::Fleeting;
use crate::lease::Tenure;
use crate::rules::names::{BoxName, CredentialName, UpstreamName};
use crate::rules::origin::Origin;
use crate::rules::payer::{Payer, PayerKind, Principal};
use crate::rules::plan::CredentialKind;
use crate::store::{Change, Condition, Record, Revision, record};
use crate::vault::held::Sealed;
use crate::vault::{AmbiguousCredential, VaultError};

pub(super) const PREFIX: &str = "vault/credential/";
const VERSION: u32 = 1;

/// The name of an upstream's first general credential.
const GENERAL: &str = "default";
/// The name of an upstream's first visitor's credential.
const VISITOR: &str = "visitor";

/// An operator's credential, without its value.
#[derive(Debug, Clone)]
pub struct CredentialRecord {
    /// The upstream.
    pub upstream: UpstreamName,
    /// Its name, unique for the upstream.
    pub name: CredentialName,
    /// What sort of value it is.
    pub kind: CredentialKind,
    /// Whose it is, where that is said.
    pub payer: Option<Payer>,
    /// The box, for a box's own.
    pub box_name: Option<BoxName>,
    /// The only origin it may be sent to.
    pub bound_to: Origin,
    /// When it was last set.
    pub revision: Revision,
    /// Cancelled when it is removed, or becomes somebody else's or another
    /// address's: what is relayed under it is cut. A new value alone leaves it.
    pub lease: Tenure,
}

impl CredentialRecord {
    /// The visitor whose it is; none when it is no visitor's.
    #[must_use]
    pub fn visitor(&self) -> Option<&Principal> {
        let payer = self.payer.as_ref()?;
        match payer.kind {
            PayerKind::Visitor => payer.principal.as_ref(),
            PayerKind::Shared | PayerKind::Owner => None,
        }
    }

    /// Whether another record is spent by the same ones at the same place, with
    /// whatever value.
    pub(super) fn stands_for(&self, other: &Self) -> bool {
        self.bound_to == other.bound_to && Rank::of_record(self) == Rank::of_record(other)
    }
}

/// A credential to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCredential {
    /// The upstream.
    pub upstream: UpstreamName,
    /// Its name; none for the first of its rank.
    pub name: Option<CredentialName>,
    /// What sort of value it is.
    pub kind: CredentialKind,
    /// Whose it is, where that is said.
    pub payer: Option<Payer>,
    /// The box, for a box's own.
    pub box_name: Option<BoxName>,
    /// The only origin it may be sent to: the upstream's.
    pub bound_to: Origin,
}

/// The stored form. Upstream and name stand in the key alone.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    kind: String,
    payer: Option<String>,
    principal: Option<String>,
    #[serde(rename = "box")]
    box_name: Option<String>,
    origin: String,
    sealed: String,
}

/// Where a credential lies.
pub(super) fn key(upstream: &UpstreamName, name: &CredentialName) -> Vec<u8> {
    format!("{PREFIX}{upstream}/{name}").into_bytes()
}

/// Whether a record is this box's own credential.
pub(super) fn belongs_to(record: &Record, box_name: &BoxName) -> bool {
    read(&record.key, &record.value, record.revision)
        .is_some_and(|(record, _)| record.box_name.as_ref() == Some(box_name))
}

/// What is wrong with a credential whatever else is kept.
pub(super) fn check(new: &NewCredential) -> Result<(), VaultError> {
    match new.kind {
        CredentialKind::ApiKey | CredentialKind::SetupToken | CredentialKind::Bearer => {}
        CredentialKind::Secret => return Err(VaultError::SecretIsNoCredential),
    }
    match &new.payer {
        Some(payer) if payer.kind == PayerKind::Visitor && payer.principal.is_none() => {
            Err(VaultError::VisitorWithoutPrincipal)
        }
        Some(_) | None => Ok(()),
    }
}

/// The name a new credential is kept under, and what must still hold then.
pub(super) fn place(
    new: &NewCredential,
    existing: &[CredentialRecord],
) -> Result<(CredentialName, Condition), VaultError> {
    let rank = Rank::of(new.box_name.as_ref(), new.payer.as_ref());
    let name = new.name.clone().unwrap_or_else(|| rank.first_name());
    let same_rank = |record: &&CredentialRecord| Rank::of_record(record) == rank;
    if new.name.is_none()
        && let Some(other) = existing
            .iter()
            .filter(same_rank)
            .find(|record| record.name != name)
    {
        return Err(VaultError::NeedsName {
            upstream: new.upstream.clone(),
            box_name: new.box_name.clone(),
            existing: other.name.clone(),
        });
    }
    let key = key(&new.upstream, &name);
    match existing.iter().find(|record| record.name == name) {
        None => Ok((name, Condition::Absent(key))),
        Some(record) if Rank::of_record(record) == rank => {
            Ok((name, Condition::AtRevision(key, record.revision)))
        }
        Some(record) => Err(VaultError::NameTaken {
            upstream: new.upstream.clone(),
            name,
            box_name: record.box_name.clone(),
        }),
    }
}

/// The credentials of one upstream that pay without a grant: what a request
/// looks at, however many boxes have one of their own.
#[derive(Default)]
pub(super) struct Payers {
    general: Vec<Arc<CredentialRecord>>,
    own: HashMap<BoxName, Vec<Arc<CredentialRecord>>>,
}

impl Payers {
    /// Takes a credential in; a visitor's pays by a grant alone.
    pub(super) fn add(&mut self, record: &Arc<CredentialRecord>) {
        match Rank::of_record(record) {
            Rank::General => self.general.push(Arc::clone(record)),
            Rank::Own(box_name) => {
                let own = self.own.entry(box_name).or_default();
                own.push(Arc::clone(record));
            }
            Rank::Visitor(..) => {}
        }
    }

    /// Lets a credential go.
    pub(super) fn remove(&mut self, record: &CredentialRecord) {
        let stays = |other: &Arc<CredentialRecord>| other.name != record.name;
        match Rank::of_record(record) {
            Rank::General => self.general.retain(stays),
            Rank::Own(box_name) => {
                if let Entry::Occupied(mut own) = self.own.entry(box_name) {
                    own.get_mut().retain(stays);
                    if own.get().is_empty() {
                        own.remove();
                    }
                }
            }
            Rank::Visitor(..) => {}
        }
    }
}

/// The credential that pays for a box without a grant.
pub(super) fn choose(
    payers: &Payers,
    upstream: &UpstreamName,
    box_name: &BoxName,
) -> Result<Option<Arc<CredentialRecord>>, AmbiguousCredential> {
    let own = payers.own.get(box_name).map_or(&[][..], Vec::as_slice);
    for (of_rank, first_name) in [(own, box_name.as_str()), (&payers.general, GENERAL)] {
        let mut named = of_rank.iter();
        let first = named.find(|record| record.name.as_str() == first_name);
        match (of_rank, first) {
            ([], _) => {}
            ([only], _) => return Ok(Some(Arc::clone(only))),
            (_, Some(first)) => return Ok(Some(Arc::clone(first))),
            (several, None) => {
                let names = several.iter().map(|record| record.name.clone());
                let mut names: Vec<_> = names.collect();
                names.sort();
                return Err(AmbiguousCredential {
                    upstream: upstream.clone(),
                    names,
                });
            }
        }
    }
    Ok(None)
}

/// The credentials of one upstream among records of the vault.
pub(super) fn read_all(records: &[Record], upstream: &UpstreamName) -> Vec<CredentialRecord> {
    records
        .iter()
        .filter_map(|record| read(&record.key, &record.value, record.revision))
        .map(|(record, _)| record)
        .filter(|record| record.upstream == *upstream)
        .collect()
}

pub(super) fn write(
    new: &NewCredential,
    name: &CredentialName,
    sealed: &[u8],
) -> Result<Change, VaultError> {
    let key = key(&new.upstream, name);
    let payer = new.payer.as_ref();
    let principal = payer.and_then(|payer| payer.principal.as_ref());
    let stored = Stored {
        kind: new.kind.as_str().to_owned(),
        payer: payer.map(|payer| payer.kind.as_str().to_owned()),
        principal: principal.map(|principal| principal.as_str().to_owned()),
        box_name: new.box_name.as_ref().map(BoxName::to_string),
        origin: new.bound_to.to_string(),
        sealed: STANDARD.encode(sealed),
    };
    let value = record::encode(&key, VERSION, &stored)?;
    Ok(Change::Put(key, value))
}

/// Reads a credential; none when the record is none that this host wrote.
pub(super) fn read(
    key: &[u8],
    value: &[u8],
    revision: Revision,
) -> Option<(CredentialRecord, Sealed)> {
    let (upstream, name) = record::key_parts(key, PREFIX)?;
    let stored: Stored = record::decode_value(key, value, VERSION).ok()?;
    let kind = [
        CredentialKind::ApiKey,
        CredentialKind::SetupToken,
        CredentialKind::Bearer,
    ]
    .into_iter()
    .find(|kind| kind.as_str() == stored.kind)?;
    let payer = match (stored.payer, stored.principal) {
        (Some(kind), principal) => Some(Payer {
            kind: PayerKind::parse(&kind)?,
            principal: match principal {
                Some(principal) => Some(Principal::parse(&principal)?),
                None => None,
            },
        }),
        (None, None) => None,
        (None, Some(_)) => return None,
    };
    let box_name = match stored.box_name {
        Some(box_name) => Some(BoxName::parse(&box_name).ok()?),
        None => None,
    };
    let origin = Origin::parse(&stored.origin).ok()?;
    let sealed = Sealed {
        kind,
        box_name: box_name.clone(),
        origin: origin.clone(),
        value: STANDARD.decode(stored.sealed).ok()?,
        opened: Fleeting::default(),
    };
    let record = CredentialRecord {
        upstream: UpstreamName::parse(upstream).ok()?,
        name: CredentialName::parse(name).ok()?,
        kind,
        payer,
        box_name,
        bound_to: origin,
        revision,
        lease: Tenure::new(),
    };
    Some((record, sealed))
}

/// Which credentials stand for one another.
#[derive(PartialEq, Eq)]
enum Rank {
    /// The upstream's general ones.
    General,
    /// A box's own.
    Own(BoxName),
    /// A visitor's, for one box or all; spent only under a grant.
    Visitor(Option<BoxName>, Option<String>),
}

impl Rank {
    fn of(box_name: Option<&BoxName>, payer: Option<&Payer>) -> Self {
        match (payer, box_name) {
            (Some(payer), _) if payer.kind == PayerKind::Visitor => {
                let principal = payer.principal.as_ref().map(|who| who.as_str().to_owned());
                Self::Visitor(box_name.cloned(), principal)
            }
            (_, Some(box_name)) => Self::Own(box_name.clone()),
            (_, None) => Self::General,
        }
    }

    fn of_record(record: &CredentialRecord) -> Self {
        Self::of(record.box_name.as_ref(), record.payer.as_ref())
    }

    /// The name that the first of a rank gets, and that comes first later.
    fn first_name(&self) -> CredentialName {
        let name = match self {
            Self::General => GENERAL,
            Self::Own(box_name) => box_name.as_str(),
            Self::Visitor(..) => VISITOR,
        };
        CredentialName::parse(name).expect("a box's name is a credential's name, and so are these")
    }
}

#[cfg(test)]
mod tests;
