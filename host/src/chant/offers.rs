//! What a request may use: the targets its words reach, where those are, and
//! the credentials the vault holds for them. Addresses come from the host's
//! own records and from nowhere else.

use std::collections::HashMap;
use std::sync::Arc;

use crate::relay::Destination;
use crate::rules::names::{BoxName, ScopeWord, UpstreamName};
use crate::rules::payer::Payer;
use crate::rules::permission::Grants;
use crate::rules::plan::{CredentialKey, CredentialKind, Offer, Target};
use crate::rules::refusal::Refusal;
use crate::vault::Vault;

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
///
/// # Errors
/// When the operator's credentials leave it open which one would pay.
pub(super) fn offers(
    targets: &[Target],
    box_name: &BoxName,
    upstreams: &Upstreams,
    vault: &Vault,
) -> Result<Vec<Offer>, Refusal> {
    let mut offers = Vec::new();
    for target in targets {
        match target {
            Target::Secret(name) => {
                if vault.secret(box_name, name).is_some() {
                    offers.push(Offer {
                        name: format!("secret/{name}"),
                        target: target.clone(),
                        kind: CredentialKind::Secret,
                        payer: None,
                        key: CredentialKey::Secret {
                            box_name: box_name.clone(),
                            name: name.clone(),
                        },
                    });
                }
            }
            Target::Upstream(name) => {
                let Some(destination) = upstreams.named(name) else {
                    continue;
                };
                let found = vault.credentials_for(name, box_name).map_err(|error| {
                    tracing::warn!(upstream = %name, %error, "it is open which credential pays");
                    Refusal::forbidden(format!(
                        "Several credentials for the upstream {name} have the same claim to pay for this box. The \
                         operator's log names them; one of them must go."
                    ))
                })?;
                let Some(record) = found else { continue };
                if record.bound_to != destination.origin {
                    tracing::warn!(
                        upstream = %name, set_for = %record.bound_to, is_now = %destination.origin,
                        "a credential was set for another address"
                    );
                    return Err(Refusal::forbidden(format!(
                        "The credential for the upstream {name} was set for another address than it has now. The \
                         operator must set it again with `jackfield credential set {name}`."
                    )));
                }
                offers.push(Offer {
                    name: format!("upstream/{name}/{}", record.name),
                    target: target.clone(),
                    kind: record.kind,
                    payer: record.payer.clone(),
                    key: CredentialKey::Credential {
                        upstream: name.clone(),
                        name: record.name.clone(),
                    },
                });
            }
        }
    }
    Ok(offers)
}

/// Who pays for a box's model calls: the payer of every upstream that routes
/// name, where they agree. Where they do not, none is said.
pub(super) fn payer<'a>(
    payer_of: impl Iterator<Item = &'a UpstreamName>,
    box_name: &BoxName,
    vault: &Vault,
) -> Option<Payer> {
    let mut said: Option<Payer> = None;
    for upstream in payer_of {
        let found = vault
            .credentials_for(upstream, box_name)
            .ok()
            .flatten()?
            .payer
            .clone()?;
        if said.as_ref().is_some_and(|payer| *payer != found) {
            return None;
        }
        said = Some(found);
    }
    said
}
