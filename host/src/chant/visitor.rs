//! Whose turn it is: a valid grant makes one person's credential the one that
//! pays for a request, and the lease says for how long.

use std::sync::Arc;

use http::request::Parts as Head;
use jiff::Timestamp;

use crate::chant::Chant;
use crate::lease::Lease;
use crate::rules::grant::{Pointed, Turn as Asked, Unspent};
use crate::rules::identify;
use crate::rules::names::{BoxName, UpstreamName};
use crate::rules::payer::Payer;
use crate::vault::CredentialRecord;

/// A person's turn.
pub(super) struct Turn {
    /// The credential that it spends.
    pub(super) record: Arc<CredentialRecord>,
    /// What is relayed on it stands on the grant and on the credential.
    pub(super) lease: Lease,
}

impl Turn {
    /// Who pays.
    pub(super) fn payer(&self) -> Option<Payer> {
        self.record.payer.clone()
    }
}

impl Chant {
    /// The turn that a request's grant makes it, where the grant holds: of this
    /// box, in force, and of a person who still holds that credential. A grant
    /// that does not is ignored.
    pub(super) fn turn(
        &self,
        head: &Head,
        box_name: &BoxName,
        upstream: &UpstreamName,
        now: Timestamp,
    ) -> Option<Turn> {
        let shown = identify::shown_grant(&head.headers)?;
        let known = self.0.parts.grants.by_value(&shown)?;
        let origin = &self.0.settings.upstreams.named(upstream)?.origin;
        let grant = &known.grant;
        let vault = &self.0.parts.vault;
        let record = vault.credential(&grant.upstream, &grant.credential);
        let asked = Asked {
            box_name,
            upstream,
            origin,
            now,
        };
        let spends = grant.spends(&asked, record.as_deref().map(pointed));
        match (spends, record) {
            (Ok(()), Some(record)) => Some(Turn {
                lease: Lease::from(known.lease.clone()).and(&record.lease),
                record,
            }),
            (ignored, _) => {
                let why = ignored.err().unwrap_or(Unspent::NoCredential);
                tracing::debug!(grant = known.id, %box_name, %why, "a grant is ignored");
                None
            }
        }
    }
}

/// A credential as a grant is held against it.
pub(crate) fn pointed(record: &CredentialRecord) -> Pointed<'_> {
    Pointed {
        visitor: record.visitor(),
        box_name: record.box_name.as_ref(),
        bound_to: &record.bound_to,
    }
}
