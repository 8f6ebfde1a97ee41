//! What boxes own: listed, given and taken by the operator.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Json;

use crate::admin::boxes::{done, known};
use crate::admin::failure::Failure;
use crate::admin::{Parts, read, wire};
use crate::rules::names::{ThingId, ThingKind};
use crate::rules::owned::Thing;
use crate::store::StoreError;

pub(super) async fn list(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
) -> Result<Json<Vec<wire::ThingView>>, Failure> {
    let name = known(&parts, &name)?;
    let things = parts.owned.of(&name);
    Ok(Json(things.iter().map(wire::ThingView::from).collect()))
}

pub(super) async fn give(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<wire::Done>, Failure> {
    let name = known(&parts, &name)?;
    let thing = parse(&body)?;
    let gone = || Failure::unknown(format!("there is no box {name} any more"));
    let known = parts.boxes.named(&name).ok_or_else(gone)?;
    match parts.owned.give(&known, &thing).await {
        Err(StoreError::Conflict) => Err(gone()),
        Err(failed) => Err(Failure::said(&failed)),
        Ok(()) => {
            let vain = match asked_about(&parts, &thing.kind) {
                true => "",
                false => "; no plugin that is live asks about things of that kind",
            };
            Ok(done(format!(
                "{} {} is box {name}'s own{vain}",
                thing.kind, thing.id
            )))
        }
    }
}

pub(super) async fn take(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Json<wire::Done>, Failure> {
    let name = known(&parts, &name)?;
    let thing = parse(&body)?;
    let taken = parts.owned.take(&name, &thing).await;
    if taken.map_err(|failed| Failure::said(&failed))? {
        return Ok(done(format!(
            "{} {} is no more box {name}'s own",
            thing.kind, thing.id
        )));
    }
    Err(Failure::unknown(format!(
        "box {name} owns no {} {}; `jackfield box owned {name}` lists what it owns",
        thing.kind, thing.id
    )))
}

fn asked_about(parts: &Parts, kind: &ThingKind) -> bool {
    let live = parts.plugins.live();
    let mut manifests = live.plugins().iter().map(|plugin| plugin.manifest());
    manifests.any(|manifest| manifest.uses.owned_kinds.contains(kind))
}

fn parse(body: &Bytes) -> Result<Thing, Failure> {
    let said: wire::ThingView = read(body)?;
    let invalid = |error: crate::rules::names::NameError| Failure::invalid(error.to_string());
    Ok(Thing {
        kind: ThingKind::parse(&said.kind).map_err(invalid)?,
        id: ThingId::parse(&said.id).map_err(invalid)?,
    })
}
