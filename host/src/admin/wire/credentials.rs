//! Credentials on the wire.

use serde::{Deserialize, Serialize};

use crate::admin::wire::Value;
use crate::config::Config;
use crate::vault::CredentialRecord;

/// A credential to set.
#[derive(Serialize, Deserialize)]
pub struct NewCredential {
    /// `api-key`, `setup-token` or `bearer`.
    pub kind: String,
    /// `shared`, `owner` or `visitor`.
    #[serde(default)]
    pub payer: Option<String>,
    /// Who pays.
    #[serde(default)]
    pub principal: Option<String>,
    /// The only box that may spend it.
    #[serde(default, rename = "box")]
    pub box_name: Option<String>,
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Whether a value under 12 bytes is meant.
    #[serde(default)]
    pub short: bool,
    /// The value.
    pub value: Value,
}

/// A credential, without its value.
#[derive(Debug, Serialize, Deserialize)]
pub struct CredentialView {
    /// The upstream.
    pub upstream: String,
    /// Its name.
    pub name: String,
    /// What sort of value it is.
    pub kind: String,
    /// Who pays, where that is said.
    pub payer: Option<String>,
    /// Who, by name.
    pub principal: Option<String>,
    /// The only box that may spend it.
    #[serde(rename = "box")]
    pub box_name: Option<String>,
    /// The one origin that it may be sent to.
    pub bound_to: String,
    /// Whether the upstream is still there. Where it has moved, the value must
    /// be set again.
    pub usable: bool,
}

impl CredentialView {
    pub(in crate::admin) fn of(record: &CredentialRecord, config: &Config) -> Self {
        let upstream = config.upstreams.get(&record.upstream);
        let payer = record.payer.as_ref();
        Self {
            upstream: record.upstream.to_string(),
            name: record.name.to_string(),
            kind: record.kind.as_str().to_owned(),
            payer: payer.map(|payer| payer.kind.as_str().to_owned()),
            principal: payer
                .and_then(|payer| payer.principal.as_ref())
                .map(|principal| principal.as_str().to_owned()),
            box_name: record.box_name.as_ref().map(ToString::to_string),
            bound_to: record.bound_to.to_string(),
            usable: upstream.is_some_and(|upstream| upstream.origin == record.bound_to),
        }
    }
}
