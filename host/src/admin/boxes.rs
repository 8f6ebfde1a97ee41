//! Boxes: added, rotated, removed, paused; and the environment one needs.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Json;

use crate::admin::failure::Failure;
use crate::admin::{Parts, env, read, wire};
use crate::chant::boxes::Known;
use crate::rules::names::{BoxName, SecretName};
use crate::rules::token::BoxToken;

pub(super) async fn list(State(parts): State<Arc<Parts>>) -> Json<Vec<wire::BoxView>> {
    let boxes = parts.boxes.list();
    let view = |known: &Arc<Known>| {
        let reported = parts.declarations.of(&known.name);
        wire::BoxView::of(known, reported.as_deref())
    };
    Json(boxes.iter().map(view).collect())
}

pub(super) async fn add(
    State(parts): State<Arc<Parts>>,
    body: Bytes,
) -> Result<Json<wire::Token>, Failure> {
    let new: wire::NewBox = read(&body)?;
    let name = parse(&new.name)?;
    let token = parts
        .boxes
        .add(&name, &jiff::Timestamp::now().to_string())
        .await
        .map_err(|error| Failure::said(&error))?;
    Ok(shown_once(&name, &token))
}

pub(super) async fn rotate(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
) -> Result<Json<wire::Token>, Failure> {
    let name = known(&parts, &name)?;
    let token = parts
        .boxes
        .rotate(&name)
        .await
        .map_err(|error| Failure::said(&error))?;
    Ok(shown_once(&name, &token))
}

/// The secrets go first: should the host stop in between, a box without
/// secrets is left, and never secrets that the next box of that name inherits.
pub(super) async fn remove(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
) -> Result<Json<wire::Done>, Failure> {
    let name = known(&parts, &name)?;
    parts
        .vault
        .remove_box(&name)
        .await
        .map_err(|error| Failure::said(&error))?;
    parts
        .boxes
        .remove(&name)
        .await
        .map_err(|error| Failure::said(&error))?;
    Ok(done(format!(
        "removed box {name}, its token, its secrets and its grants"
    )))
}

pub(super) async fn pause(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
) -> Result<Json<wire::Done>, Failure> {
    let name = known(&parts, &name)?;
    parts
        .boxes
        .pause(&name, true)
        .await
        .map_err(|error| Failure::said(&error))?;
    Ok(done(format!("paused box {name}")))
}

pub(super) async fn resume(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
) -> Result<Json<wire::Done>, Failure> {
    let name = known(&parts, &name)?;
    parts
        .boxes
        .pause(&name, false)
        .await
        .map_err(|error| Failure::said(&error))?;
    Ok(done(format!("resumed box {name}")))
}

pub(super) async fn env(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
) -> Result<Json<wire::EnvView>, Failure> {
    let name = known(&parts, &name)?;
    let mut secrets: Vec<SecretName> = parts
        .vault
        .secrets()
        .iter()
        .filter(|record| record.box_name == name)
        .map(|record| record.name.clone())
        .collect();
    secrets.sort();
    let base_url = parts.config.box_url(parts.listen);
    Ok(Json(wire::EnvView {
        name: name.to_string(),
        variables: env::variables(&parts.config.env, &base_url, &secrets),
    }))
}

/// A box that is there.
pub(super) fn known(parts: &Parts, name: &str) -> Result<BoxName, Failure> {
    let name = parse(name)?;
    if parts.boxes.named(&name).is_some() {
        return Ok(name);
    }
    Err(Failure::unknown(format!(
        "there is no box {name}; `jackfield box add {name}` makes it"
    )))
}

fn parse(name: &str) -> Result<BoxName, Failure> {
    BoxName::parse(name).map_err(|error| Failure::invalid(error.to_string()))
}

fn shown_once(name: &BoxName, token: &BoxToken) -> Json<wire::Token> {
    Json(wire::Token {
        name: name.to_string(),
        token: token.as_str().to_owned(),
    })
}

pub(super) fn done(done: String) -> Json<wire::Done> {
    Json(wire::Done { done })
}
