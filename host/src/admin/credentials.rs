//! The operator's credentials for upstreams: set, listed without their
//! values, removed.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::Json;
use serde::Deserialize;

use crate::admin::boxes::{done, known};
use crate::admin::failure::Failure;
use crate::admin::{Parts, read, wire};
use crate::rules::names::{CredentialName, UpstreamName};
use crate::rules::payer::{Payer, PayerKind, Principal};
use crate::rules::plan::CredentialKind;
use crate::vault::NewCredential;

/// Which credential a command means.
#[derive(Deserialize)]
pub(super) struct Which {
    name: Option<String>,
}

pub(super) async fn list(State(parts): State<Arc<Parts>>) -> Json<Vec<wire::CredentialView>> {
    let mut records = parts.vault.credentials();
    records.sort_by(|a, b| (&a.upstream, &a.name).cmp(&(&b.upstream, &b.name)));
    Json(
        records
            .iter()
            .map(|record| wire::CredentialView::of(record, &parts.config))
            .collect(),
    )
}

pub(super) async fn set(
    State(parts): State<Arc<Parts>>,
    Path(upstream): Path<String>,
    body: Bytes,
) -> Result<Json<wire::CredentialView>, Failure> {
    let sent: wire::NewCredential = read(&body)?;
    let upstream = parse_upstream(&upstream)?;
    let bound_to = match parts.config.upstreams.get(&upstream) {
        Some(configured) => configured.origin.clone(),
        None => return Err(no_upstream(&parts, &upstream)),
    };
    let kind = parse_kind(&sent.kind)?;
    let payer = parse_payer(sent.payer.as_deref(), sent.principal.as_deref())?;
    let box_name = sent
        .box_name
        .as_deref()
        .map(|name| known(&parts, name))
        .transpose()?;
    let name = sent.name.as_deref().map(parse_name).transpose()?;
    let value = sent
        .value
        .unwrap_value()
        .ok_or_else(|| Failure::invalid("the value is not base64"))?;
    let new = NewCredential {
        upstream: upstream.clone(),
        name,
        kind,
        payer,
        box_name,
        bound_to,
    };
    let name = parts
        .vault
        .set_credential(new, value, sent.short)
        .await
        .map_err(|error| Failure::said(&error))?;
    parts
        .vault
        .credentials()
        .iter()
        .find(|record| record.upstream == upstream && record.name == name)
        .map(|record| Json(wire::CredentialView::of(record, &parts.config)))
        .ok_or_else(|| Failure::conflict("the credential was removed again while it was set"))
}

pub(super) async fn remove(
    State(parts): State<Arc<Parts>>,
    Path(upstream): Path<String>,
    Query(which): Query<Which>,
) -> Result<Json<wire::Done>, Failure> {
    let upstream = parse_upstream(&upstream)?;
    let mut names: Vec<CredentialName> = parts
        .vault
        .credentials()
        .iter()
        .filter(|record| record.upstream == upstream)
        .map(|record| record.name.clone())
        .collect();
    names.sort();
    let name = match (which.name, names.as_slice()) {
        (Some(name), _) => parse_name(&name)?,
        (None, []) => return Err(Failure::unknown(format!("{upstream} has no credential"))),
        (None, [only]) => only.clone(),
        (None, several) => {
            return Err(Failure::conflict(format!(
                "{upstream} has several credentials; pass --name with one of {}",
                joined(several)
            )));
        }
    };
    let was_there = parts
        .vault
        .remove_credential(&upstream, &name)
        .await
        .map_err(|error| Failure::said(&error))?;
    if was_there {
        return Ok(done(format!("removed credential {name} of {upstream}")));
    }
    Err(Failure::unknown(format!(
        "{upstream} has no credential {name}"
    )))
}

fn joined(names: &[CredentialName]) -> String {
    let names: Vec<&str> = names.iter().map(CredentialName::as_str).collect();
    names.join(", ")
}

fn parse_upstream(text: &str) -> Result<UpstreamName, Failure> {
    UpstreamName::parse(text).map_err(|error| Failure::invalid(error.to_string()))
}

fn parse_name(text: &str) -> Result<CredentialName, Failure> {
    CredentialName::parse(text).map_err(|error| Failure::invalid(error.to_string()))
}

fn parse_kind(text: &str) -> Result<CredentialKind, Failure> {
    [
        CredentialKind::ApiKey,
        CredentialKind::SetupToken,
        CredentialKind::Bearer,
    ]
    .into_iter()
    .find(|kind| kind.as_str() == text)
    .ok_or_else(|| Failure::invalid("the kind is api-key, setup-token or bearer"))
}

fn parse_payer(kind: Option<&str>, principal: Option<&str>) -> Result<Option<Payer>, Failure> {
    let principal = principal
        .map(|text| {
            Principal::parse(text).ok_or_else(|| {
                Failure::invalid(
                    "a principal is 1 to 200 printable ASCII characters without a space, such as github:octocat",
                )
            })
        })
        .transpose()?;
    match (kind.map(PayerKind::parse), principal) {
        (Some(Some(kind)), principal) => Ok(Some(Payer { kind, principal })),
        (Some(None), _) => Err(Failure::invalid("the payer is shared, owner or visitor")),
        (None, Some(_)) => Err(Failure::invalid(
            "a principal without --payer says nothing: add --payer owner or --payer visitor",
        )),
        (None, None) => Ok(None),
    }
}

fn no_upstream(parts: &Parts, upstream: &UpstreamName) -> Failure {
    let known: Vec<&str> = parts
        .config
        .upstreams
        .keys()
        .map(UpstreamName::as_str)
        .collect();
    Failure::unknown(format!(
        "no upstream {upstream} is configured (there is {}); add [upstreams.{upstream}] with its url to jackfield.toml and start the host again",
        known.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payer_is_a_sort_and_a_principal() {
        let check = |kind: Option<&str>, principal: Option<&str>, expected: bool| {
            assert_eq!(
                parse_payer(kind, principal).is_ok(),
                expected,
                "{kind:?} {principal:?}"
            );
        };
        check(None, None, true);
        check(Some("shared"), None, true);
        check(Some("owner"), Some("github:octocat"), true);
        check(Some("owner"), Some("two words"), false);
        check(Some("everybody"), None, false);
        check(None, Some("github:octocat"), false);
    }
}
