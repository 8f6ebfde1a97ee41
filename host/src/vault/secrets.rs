//! Boxes' secrets as records: how they are stored, and what is shown of them.

use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use crate::fleeting::Fleeting;
use crate::lease::Tenure;
use crate::rules::allow::AllowRule;
use crate::rules::names::{BoxName, SecretName};
use crate::rules::origin::Origin;
use crate::rules::plan::CredentialKind;
use crate::store::{Change, Record, Revision, record};
use crate::vault::held::Sealed;
use crate::vault::{VaultError, path_text};

pub(super) const PREFIX: &str = "vault/secret/";
const VERSION: u32 = 1;

/// A box's secret, without its value.
#[derive(Debug, Clone)]
pub struct SecretRecord {
    /// The box.
    pub box_name: BoxName,
    /// The secret's name.
    pub name: SecretName,
    /// The only origin it may be sent to.
    pub origin: Origin,
    /// What it may be spent on there; empty for everything.
    pub allow: Vec<AllowRule>,
    /// Whether the origin may be a private address.
    pub allow_private: bool,
    /// A CA of its own, beside the usual ones.
    pub extra_ca: Option<PathBuf>,
    /// When it was last set.
    pub revision: Revision,
    /// Cancelled when it is removed, or bound to something else than it was:
    /// what is relayed under it is cut. A new value alone leaves it.
    pub lease: Tenure,
}

impl SecretRecord {
    /// Whether another record lets the same things happen, with whatever value.
    pub(super) fn stands_for(&self, other: &Self) -> bool {
        self.origin == other.origin
            && self.allow == other.allow
            && self.allow_private == other.allow_private
            && self.extra_ca == other.extra_ca
    }
}

/// A secret to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSecret {
    /// The box.
    pub box_name: BoxName,
    /// The secret's name.
    pub name: SecretName,
    /// The only origin it may be sent to.
    pub origin: Origin,
    /// What it may be spent on there; empty for everything.
    pub allow: Vec<AllowRule>,
    /// Whether the origin may be a private address.
    pub allow_private: bool,
    /// A CA of its own, beside the usual ones.
    pub extra_ca: Option<PathBuf>,
}

/// The stored form. Box and name stand in the key alone, so that a record
/// cannot say one thing and lie under another.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    origin: String,
    allow: Vec<String>,
    allow_private: bool,
    extra_ca: Option<String>,
    sealed: String,
}

/// Where a secret lies.
pub(super) fn key(box_name: &BoxName, name: &SecretName) -> Vec<u8> {
    format!("{PREFIX}{box_name}/{name}").into_bytes()
}

/// Whether a record is a secret of this box, readable or not.
pub(super) fn belongs_to(record: &Record, box_name: &BoxName) -> bool {
    record::key_parts(&record.key, PREFIX).is_some_and(|(owner, _)| owner == box_name.as_str())
}

pub(super) fn write(new: &NewSecret, sealed: &[u8]) -> Result<Change, VaultError> {
    let key = key(&new.box_name, &new.name);
    let stored = Stored {
        origin: new.origin.to_string(),
        allow: new.allow.iter().map(AllowRule::to_string).collect(),
        allow_private: new.allow_private,
        extra_ca: new.extra_ca.as_deref().map(path_text).transpose()?,
        sealed: STANDARD.encode(sealed),
    };
    let value = record::encode(&key, VERSION, &stored)?;
    Ok(Change::Put(key, value))
}

/// Reads a secret; none when the record is none that this host wrote.
pub(super) fn read(key: &[u8], value: &[u8], revision: Revision) -> Option<(SecretRecord, Sealed)> {
    let (box_name, name) = record::key_parts(key, PREFIX)?;
    let box_name = BoxName::parse(box_name).ok()?;
    let stored: Stored = record::decode_value(key, value, VERSION).ok()?;
    let origin = Origin::parse(&stored.origin).ok()?;
    let sealed = Sealed {
        kind: CredentialKind::Secret,
        box_name: Some(box_name.clone()),
        origin: origin.clone(),
        value: STANDARD.decode(stored.sealed).ok()?,
        opened: Fleeting::default(),
    };
    let allow = stored.allow.iter().map(|rule| AllowRule::parse(rule).ok());
    let record = SecretRecord {
        box_name,
        name: SecretName::parse(name).ok()?,
        origin,
        // A rule that cannot be read must not become "everything".
        allow: allow.collect::<Option<Vec<_>>>()?,
        allow_private: stored.allow_private,
        extra_ca: stored.extra_ca.map(PathBuf::from),
        revision,
        lease: Tenure::new(),
    };
    Some((record, sealed))
}
