//! What can go wrong with the vault. No error holds a value.

use std::path::PathBuf;

use crate::rules::names::{BoxName, CredentialName, UpstreamName};
use crate::rules::plan::CredentialKey;
use crate::store::StoreError;
use crate::vault::key::KeyError;
use crate::vault::seal::UnfitValue;

/// Why the vault did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The values were sealed under another key.
    #[error(
        "the vault key does not open this store: its values were sealed under another key. Give the host the key it had (vault.key in state_dir, or JACKFIELD_VAULT_KEY); nothing has been changed"
    )]
    WrongKey,
    /// The store holds sealed values and the key is gone.
    #[error(
        "the vault key {} is missing, and the store holds values sealed under it. Restore the file from a backup or set JACKFIELD_VAULT_KEY; no new key has been made",
        path.display()
    )]
    MissingKey {
        /// Where the key should be.
        path: PathBuf,
    },
    /// Sealed values without the record that tells keys apart.
    #[error(
        "the store holds sealed values but not the record that tells which key sealed them: it was changed by something other than this host. Restore it from a backup"
    )]
    NoCheck,
    /// The key cannot be had.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The value cannot be kept.
    #[error(transparent)]
    Unfit(#[from] UnfitValue),
    /// No value for this.
    #[error("{} is not held: set it first", describe(key))]
    NotHeld {
        /// What was asked for.
        key: CredentialKey,
    },
    /// A value that does not open.
    #[error(
        "{} does not open: its record was moved or changed since it was sealed. Set it again",
        describe(key)
    )]
    DoesNotOpen {
        /// What was asked for.
        key: CredentialKey,
    },
    /// A visitor's credential without the visitor.
    #[error("a visitor's credential needs to say whose it is: add --principal, as in github:LOGIN")]
    VisitorWithoutPrincipal,
    /// A box's secret where an operator's credential belongs.
    #[error("a credential is an api-key, a setup-token or a bearer; a box's secret is set as one")]
    SecretIsNoCredential,
    /// A second credential of the same rank, without a name.
    #[error(
        "upstream {upstream} already has the credential {existing} {}: name this one with --name, or replace that one with --name {existing}",
        rank(box_name.as_ref())
    )]
    NeedsName {
        /// The upstream.
        upstream: UpstreamName,
        /// The box, for a box's own.
        box_name: Option<BoxName>,
        /// The one that is there.
        existing: CredentialName,
    },
    /// The name belongs to a credential of another rank.
    #[error(
        "upstream {upstream} already has a credential named {name} {}: give this one another --name, or remove that one first",
        rank(box_name.as_ref())
    )]
    NameTaken {
        /// The upstream.
        upstream: UpstreamName,
        /// The name.
        name: CredentialName,
        /// Whose the one of that name is.
        box_name: Option<BoxName>,
    },
    /// A path that cannot be written as text.
    #[error("the path {path:?} is not UTF-8, and cannot be kept: give the file another name")]
    PathNotText {
        /// The path.
        path: PathBuf,
    },
    /// The operating system gave no randomness.
    #[error("the operating system gave no random bytes: {0}")]
    NoRandomness(String),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Several credentials could pay, and none comes first.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "upstream {upstream} has several credentials that could pay for this box ({}): remove all but one of them",
    names.iter().map(CredentialName::as_str).collect::<Vec<_>>().join(", ")
)]
pub struct AmbiguousCredential {
    /// The upstream.
    pub upstream: UpstreamName,
    /// The credentials.
    pub names: Vec<CredentialName>,
}

fn describe(key: &CredentialKey) -> String {
    match key {
        CredentialKey::Secret { box_name, name } => format!("secret {name} of box {box_name}"),
        CredentialKey::Credential { upstream, name } => {
            format!("credential {name} of upstream {upstream}")
        }
    }
}

fn rank(box_name: Option<&BoxName>) -> String {
    match box_name {
        Some(box_name) => format!("for box {box_name}"),
        None => "for every box".to_owned(),
    }
}
