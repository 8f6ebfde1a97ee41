//! Grants: issued for a box on a visitor's credential, listed without their
//! values, revoked.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::Json;
use jiff::Timestamp;
use serde::Deserialize;

use crate::admin::boxes::{done, known};
use crate::admin::failure::Failure;
use crate::admin::{Parts, read, wire};
use crate::chant::grants::{Known, NewGrant};
use crate::chant::pointed;
use crate::rules::grant::{Ttl, Turn};
use crate::rules::names::{BoxName, CredentialName, UpstreamName};
use crate::rules::payer::Principal;
use crate::vault::CredentialRecord;

/// Which grants a command means.
#[derive(Deserialize)]
pub(super) struct Which {
    /// Those of one box.
    #[serde(rename = "box")]
    box_name: Option<String>,
}

pub(super) async fn list(
    State(parts): State<Arc<Parts>>,
    Query(which): Query<Which>,
) -> Result<Json<Vec<wire::GrantView>>, Failure> {
    let one = which
        .box_name
        .map(|name| known(&parts, &name))
        .transpose()?;
    let now = Timestamp::now();
    let mut grants = parts.grants.list();
    grants.retain(|known| {
        one.as_ref()
            .is_none_or(|name| known.grant.box_name == *name)
    });
    grants.sort_by_key(|known| (known.grant.box_name.clone(), known.grant.issued));
    let views = grants.iter().map(|known| view(&parts, known, now));
    Ok(Json(views.collect()))
}

pub(super) async fn issue(
    State(parts): State<Arc<Parts>>,
    body: Bytes,
) -> Result<Json<wire::Issued>, Failure> {
    let sent: wire::NewGrant = read(&body)?;
    let box_name = known(&parts, &sent.box_name)?;
    let ttl =
        Ttl::from_seconds(sent.ttl_seconds).map_err(|error| Failure::invalid(error.to_string()))?;
    let (credential, principal) = visitors_credential(&parts, &sent.credential, &box_name)?;
    let new = NewGrant {
        box_name,
        upstream: credential.upstream.clone(),
        credential: credential.name.clone(),
        principal,
        ttl,
    };
    let now = Timestamp::now();
    let issued = parts.grants.issue(new, now).await;
    let (value, known) = issued.map_err(|error| Failure::said(&error))?;
    Ok(Json(wire::Issued {
        grant: value.as_str().to_owned(),
        view: view(&parts, &known, now),
    }))
}

pub(super) async fn revoke(
    State(parts): State<Arc<Parts>>,
    Path(id): Path<String>,
) -> Result<Json<wire::Done>, Failure> {
    let revoked = parts.grants.revoke(&id).await;
    let known = revoked.map_err(|error| Failure::said(&error))?;
    let (id, grant) = (&known.id, &known.grant);
    Ok(done(format!(
        "revoked grant {id} of box {}; what it had open is cut",
        grant.box_name
    )))
}

pub(super) async fn revoke_of(
    State(parts): State<Arc<Parts>>,
    Query(which): Query<Which>,
) -> Result<Json<wire::Done>, Failure> {
    let Some(box_name) = which.box_name else {
        return Err(Failure::invalid("say whose grants: pass --box BOX"));
    };
    let box_name = known(&parts, &box_name)?;
    let revoked = parts.grants.revoke_of(&box_name).await;
    let count = revoked.map_err(|error| Failure::said(&error))?;
    Ok(done(match count {
        0 => format!("box {box_name} had no grant in force"),
        1 => format!("revoked the grant of box {box_name}; what it had open is cut"),
        many => format!("revoked {many} grants of box {box_name}; what they had open is cut"),
    }))
}

/// The credential that `NAME` or `UPSTREAM/NAME` means, and whose it is: a
/// visitor's, that this box may spend where its upstream is now.
fn visitors_credential(
    parts: &Parts,
    text: &str,
    box_name: &BoxName,
) -> Result<(Arc<CredentialRecord>, Principal), Failure> {
    let (upstream, name) = match text.split_once('/') {
        Some((upstream, name)) => (Some(upstream), name),
        None => (None, text),
    };
    let invalid = |error: String| Failure::invalid(error);
    let upstream = upstream
        .map(UpstreamName::parse)
        .transpose()
        .map_err(|error| invalid(error.to_string()))?;
    let name = CredentialName::parse(name).map_err(|error| invalid(error.to_string()))?;
    let mut named = parts.vault.credentials();
    named.retain(|record| record.name == name);
    named.retain(|record| {
        upstream
            .as_ref()
            .is_none_or(|upstream| record.upstream == *upstream)
    });
    let (visitors, others): (Vec<_>, Vec<_>) = named
        .into_iter()
        .partition(|record| record.visitor().is_some());
    let record = match (visitors.as_slice(), others.as_slice()) {
        ([only], _) => Arc::clone(only),
        ([], []) => return Err(none_of_that_name(text)),
        ([], [other, ..]) => {
            return Err(Failure::conflict(format!(
                "the credential {name} of {} is not a visitor's, and needs no grant: a grant spends one that was set \
                 with --payer visitor",
                other.upstream
            )));
        }
        (several, _) => {
            let full: Vec<String> = several
                .iter()
                .map(|record| format!("{}/{}", record.upstream, record.name))
                .collect();
            return Err(Failure::conflict(format!(
                "several upstreams have a visitor's credential {name}; say which: {}",
                full.join(" or ")
            )));
        }
    };
    if let Some(only) = record.box_name.as_ref().filter(|only| *only != box_name) {
        return Err(Failure::conflict(format!(
            "the credential {name} may be spent by the box {only} alone"
        )));
    }
    let configured = parts.config.upstreams.get(&record.upstream);
    if configured.is_none_or(|upstream| upstream.origin != record.bound_to) {
        return Err(Failure::conflict(format!(
            "the credential {name} was set for another address than {upstream} has now; set it again with \
             `jackfield credential set {upstream}`",
            upstream = record.upstream
        )));
    }
    let principal = record.visitor().cloned();
    let principal = principal.ok_or_else(|| none_of_that_name(text))?;
    Ok((record, principal))
}

/// What was given is not repeated: somebody may have pasted a value.
fn none_of_that_name(text: &str) -> Failure {
    let upstream = text.split_once('/').map(|_| " for that upstream");
    Failure::unknown(format!(
        "no credential has that name{}; `jackfield credential list` shows them, and `jackfield credential set UPSTREAM \
         --payer visitor --principal WHO --name NAME` saves a visitor's",
        upstream.unwrap_or_default()
    ))
}

fn view(parts: &Parts, known: &Known, now: Timestamp) -> wire::GrantView {
    let grant = &known.grant;
    let upstream = parts.config.upstreams.get(&grant.upstream);
    let record = parts.vault.credential(&grant.upstream, &grant.credential);
    let state = match upstream {
        None => "no such upstream".to_owned(),
        Some(upstream) => {
            let turn = Turn {
                box_name: &grant.box_name,
                upstream: &grant.upstream,
                origin: &upstream.origin,
                now,
            };
            match grant.spends(&turn, record.as_deref().map(pointed)) {
                Ok(()) => "valid".to_owned(),
                Err(why) => why.to_string(),
            }
        }
    };
    wire::GrantView {
        id: known.id.clone(),
        box_name: grant.box_name.to_string(),
        credential: format!("{}/{}", grant.upstream, grant.credential),
        principal: grant.principal.as_str().to_owned(),
        issued: grant.issued.to_string(),
        expires: grant.expires.to_string(),
        state,
    }
}
