//! A box's secrets: set, listed without their values, removed.

use std::path::PathBuf;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::response::Json;
use serde::Deserialize;

use crate::admin::boxes::{done, known};
use crate::admin::failure::Failure;
use crate::admin::{Parts, read, wire};
use crate::rules::allow::AllowRule;
use crate::rules::names::SecretName;
use crate::rules::origin::Origin;
use crate::vault::NewSecret;

/// Which secrets to list.
#[derive(Deserialize)]
pub(super) struct Which {
    /// Those of one box.
    #[serde(rename = "box")]
    box_name: Option<String>,
}

pub(super) async fn list(
    State(parts): State<Arc<Parts>>,
    Query(which): Query<Which>,
) -> Result<Json<Vec<wire::SecretView>>, Failure> {
    let one = which
        .box_name
        .map(|name| known(&parts, &name))
        .transpose()?;
    let mut records = parts.vault.secrets();
    records.retain(|record| one.as_ref().is_none_or(|name| record.box_name == *name));
    records.sort_by(|a, b| (&a.box_name, &a.name).cmp(&(&b.box_name, &b.name)));
    Ok(Json(
        records
            .iter()
            .map(|record| wire::SecretView::from(&**record))
            .collect(),
    ))
}

pub(super) async fn set(
    State(parts): State<Arc<Parts>>,
    Path((box_name, name)): Path<(String, String)>,
    body: Bytes,
) -> Result<Json<wire::SecretView>, Failure> {
    let sent: wire::NewSecret = read(&body)?;
    let invalid = |error: String| Failure::invalid(error);
    let box_name = known(&parts, &box_name)?;
    let name = SecretName::parse(&name).map_err(|error| invalid(error.to_string()))?;
    let origin = Origin::parse(&sent.host).map_err(|error| invalid(error.to_string()))?;
    let allow = sent
        .allow
        .iter()
        .map(|text| AllowRule::parse(text).map_err(|error| invalid(error.to_string())))
        .collect::<Result<Vec<_>, _>>()?;
    let value = sent
        .value
        .unwrap_value()
        .ok_or_else(|| Failure::invalid("the value is not base64"))?;
    let new = NewSecret {
        box_name: box_name.clone(),
        name: name.clone(),
        origin,
        allow,
        allow_private: sent.allow_private,
        extra_ca: sent.extra_ca.map(PathBuf::from),
    };
    parts
        .vault
        .set_secret(new, value, sent.short)
        .await
        .map_err(|error| Failure::said(&error))?;
    parts
        .vault
        .secrets()
        .iter()
        .find(|record| record.box_name == box_name && record.name == name)
        .map(|record| Json(wire::SecretView::from(&**record)))
        .ok_or_else(|| Failure::conflict("the secret was removed again while it was set"))
}

pub(super) async fn remove(
    State(parts): State<Arc<Parts>>,
    Path((box_name, name)): Path<(String, String)>,
) -> Result<Json<wire::Done>, Failure> {
    let box_name = known(&parts, &box_name)?;
    let name = SecretName::parse(&name).map_err(|error| Failure::invalid(error.to_string()))?;
    let was_there = parts
        .vault
        .remove_secret(&box_name, &name)
        .await
        .map_err(|error| Failure::said(&error))?;
    if was_there {
        return Ok(done(format!("removed secret {name} of box {box_name}")));
    }
    Err(Failure::unknown(format!(
        "box {box_name} has no secret {name}"
    )))
}
