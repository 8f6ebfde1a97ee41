//! What a request may use: the targets its words reach, where those are, and
//! the credentials the vault holds for them. Addresses come from the host's
//! own records and from nowhere else.

use std::collections::HashMap;
use std::sync::Arc;

use crate::chant::locate::no_value;
use crate::chant::visitor::Turn;
use crate::lease::Lease;
use crate::relay::Destination;
use crate::rules::names::{BoxName, ScopeWord, UpstreamName};
use crate::rules::payer::Payer;
use crate::rules::permission::Grants;
use crate::rules::plan::{CredentialKey, CredentialKind, Offer, Outbound, Target};
use crate::rules::refusal::Refusal;
use crate::vault::{CredentialRecord, Vault};

/// The upstreams that the operator configured.
#[derive(Clone, Default)]
pub struct Upstreams(HashMap<UpstreamName, Arc<Destination>>);

impl Upstreams {
    /// Takes the configured upstreams in.
    #[must_use]
    pub fn new(upstreams: HashMap<UpstreamName, Arc<Destination>>) -> Self {
        Self(upstreams)
    }

    /// The upstream of this name.
    #[must_use]
    pub fn named(&self, name: &UpstreamName) -> Option<&Arc<Destination>> {
        self.0.get(name)
    }
}

/// The targets that permitted words reach, less what the operator keeps back.
pub(super) fn reachable(words: &[ScopeWord], granted: &Grants) -> Vec<Target> {
    let mut targets = Vec::new();
    for word in words {
        for target in granted.reached(word) {
            if !targets.contains(&target) {
                targets.push(target);
            }
        }
    }
    targets
}

/// What a request may spend: one credential for each target that has one, and
/// what is relayed on it stands on.
#[derive(Default)]
pub(super) struct Offered {
    /// The credentials, as a plugin is shown them.
    pub(super) offers: Vec<Offer>,
    /// A lease for each. Taken here, before a value is opened, so that whatever
    /// is revoked afterwards ends what is sent.
    leases: Vec<Lease>,
    /// What whatever is relayed stands on besides: the box and the plugin.
    pub(super) stands_on: Lease,
}

impl Offered {
    fn add(&mut self, offer: Offer, lease: Lease) {
        self.offers.push(offer);
        self.leases.push(lease);
    }

    /// What a request that goes out stands on: its box, its plugin, and the
    /// credential that it spends or the secret whose host it goes to.
    ///
    /// # Errors
    /// When it goes to the host of a secret that was not held.
    pub(super) fn lease(&self, outbound: &Outbound) -> Result<Lease, Refusal> {
        let is_meant = |offer: &Offer| match (&outbound.credential, &outbound.target) {
            (Some((key, _)), _) => offer.key == *key,
            (None, Target::Secret(_)) => offer.target == outbound.target,
            (None, Target::Upstream(_)) => false,
        };
        let mut meant = self.offers.iter().zip(&self.leases);
        match (meant.find(|(offer, _)| is_meant(offer)), &outbound.target) {
            (Some((_, lease)), _) => Ok(self.stands_on.clone().with(lease)),
            (None, Target::Secret(name)) => Err(no_value(name)),
            (None, Target::Upstream(_)) => Ok(self.stands_on.clone()),
        }
    }
}

/// Where targets lead right now: the configured upstreams and the secrets that
/// the box holds.
pub(super) fn leading(
    targets: &[Target],
    box_name: &BoxName,
    upstreams: &Upstreams,
    vault: &Vault,
) -> Vec<Target> {
    let leads = |target: &&Target| match target {
        Target::Upstream(name) => upstreams.named(name).is_some(),
        Target::Secret(name) => vault.secret(box_name, name).is_some(),
    };
    targets.iter().filter(leads).cloned().collect()
}

/// The credentials this request may use, one for each target that has one.
/// Where it is a person's turn, theirs is the one for its upstream.
///
/// # Errors
/// When the operator's credentials leave it open which one would pay.
pub(super) fn offers(
    targets: &[Target],
    box_name: &BoxName,
    turn: Option<&Turn>,
    upstreams: &Upstreams,
    vault: &Vault,
) -> Result<Offered, Refusal> {
    let mut offered = Offered::default();
    for target in targets {
        match target {
            Target::Secret(name) => {
                if let Some(record) = vault.secret(box_name, name) {
                    let offer = Offer {
                        name: format!("secret/{name}"),
                        target: target.clone(),
                        kind: CredentialKind::Secret,
                        payer: None,
                        key: CredentialKey::Secret {
                            box_name: box_name.clone(),
                            name: name.clone(),
                        },
                    };
                    offered.add(offer, Lease::from(record.lease.clone()));
                }
            }
            Target::Upstream(name) => {
                let Some(destination) = upstreams.named(name) else {
                    continue;
                };
                let turn = turn.filter(|turn| turn.record.upstream == *name);
                let found = match turn {
                    Some(turn) => Some((Arc::clone(&turn.record), turn.lease.clone())),
                    None => without_grant(name, box_name, destination, vault)?,
                };
                let Some((record, lease)) = found else {
                    continue;
                };
                let offer = Offer {
                    name: format!("upstream/{name}/{}", record.name),
                    target: target.clone(),
                    kind: record.kind,
                    payer: record.payer.clone(),
                    key: CredentialKey::Credential {
                        upstream: name.clone(),
                        name: record.name.clone(),
                    },
                };
                offered.add(offer, lease);
            }
        }
    }
    Ok(offered)
}

/// The credential that pays for a box where no grant says otherwise.
fn without_grant(
    upstream: &UpstreamName,
    box_name: &BoxName,
    destination: &Destination,
    vault: &Vault,
) -> Result<Option<(Arc<CredentialRecord>, Lease)>, Refusal> {
    let found = vault.credentials_for(upstream, box_name).map_err(|error| {
        tracing::warn!(%upstream, %error, "it is open which credential pays");
        Refusal::forbidden(format!(
            "Several credentials for the upstream {upstream} have the same claim to pay for this box. The operator's \
             log names them; one of them must go."
        ))
    })?;
    let Some(record) = found else {
        return Ok(None);
    };
    if record.bound_to != destination.origin {
        tracing::warn!(
            %upstream, set_for = %record.bound_to, is_now = %destination.origin,
            "a credential was set for another address"
        );
        return Err(Refusal::forbidden(format!(
            "The credential for the upstream {upstream} was set for another address than it has now. The operator must \
             set it again with `jackfield credential set {upstream}`."
        )));
    }
    let lease = Lease::from(record.lease.clone());
    Ok(Some((record, lease)))
}

/// Who pays for a box's model calls without a grant: the payer of every
/// upstream that routes name, where they agree. Where they do not, or where it
/// is open or nobody can, none is said.
pub(super) fn payer<'a>(
    payer_of: impl Iterator<Item = &'a UpstreamName>,
    box_name: &BoxName,
    upstreams: &Upstreams,
    vault: &Vault,
) -> Option<Payer> {
    let mut said: Option<Payer> = None;
    for upstream in payer_of {
        let origin = &upstreams.named(upstream)?.origin;
        let found = vault
            .credentials_for(upstream, box_name)
            .ok()
            .flatten()
            .filter(|record| record.bound_to == *origin)?
            .payer
            .clone()?;
        if said.as_ref().is_some_and(|payer| *payer != found) {
            return None;
        }
        said = Some(found);
    }
    said
}

#[cfg(test)]
mod tests;
