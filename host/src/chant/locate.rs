//! Where a target is: from the configuration for an upstream, from the vault's
//! record for a secret, and from nowhere else.

use std::path::Path;
use std::sync::Arc;

use crate::chant::Chant;
use crate::relay::{Destination, ExtraCa};
use crate::rules::names::{BoxName, SecretName};
use crate::rules::plan::Target;
use crate::rules::refusal::Refusal;
use crate::vault::SecretRecord;

impl Chant {
    /// Where a target is for this box.
    ///
    /// # Errors
    /// When the operator configured no such upstream or saved no such secret.
    pub(super) fn locate(
        &self,
        target: &Target,
        box_name: &BoxName,
    ) -> Result<Arc<Destination>, Refusal> {
        match target {
            Target::Upstream(name) => self.0.settings.upstreams.named(name).cloned().ok_or_else(|| {
                Refusal::unavailable(format!(
                    "The operator has configured no upstream named {name}. Add [upstreams.{name}] with its url to \
                     jackfield.toml."
                ))
            }),
            Target::Secret(name) => match self.0.parts.vault.secret(box_name, name) {
                Some(record) => of_secret(&record).map(Arc::new),
                None => Err(no_value(name)),
            },
        }
    }
}

/// The refusal of a secret that is not held.
pub(super) fn no_value(name: &SecretName) -> Refusal {
    Refusal::forbidden(format!("This broker holds no value for the secret {name}."))
}

fn of_secret(record: &SecretRecord) -> Result<Destination, Refusal> {
    Ok(Destination {
        origin: record.origin.clone(),
        base_path: String::new(),
        allow_private: record.allow_private,
        extra_ca: record
            .extra_ca
            .as_deref()
            .map(|path| load(path, record))
            .transpose()?,
        allow: record.allow.clone(),
        name: format!("secret {}", record.name),
    })
}

fn load(path: &Path, record: &SecretRecord) -> Result<Arc<ExtraCa>, Refusal> {
    // A certificate file is read when it is used, so that the operator can
    // replace it; it is small, and few secrets have one.
    ExtraCa::load(path).map(Arc::new).map_err(|error| {
        tracing::warn!(secret = %record.name, %error, "the extra CA of a secret cannot be read");
        Refusal::unavailable(format!(
            "The certificates that the secret {} is trusted by cannot be read; the operator's log says why.",
            record.name
        ))
    })
}
