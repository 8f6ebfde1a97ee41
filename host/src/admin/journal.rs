//! The journals of plugins: read a page at a time, and pruned.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Json;

use crate::admin::boxes::done;
use crate::admin::failure::Failure;
use crate::admin::{Parts, wire};
use crate::rules::names::{BoxName, PluginName};

pub(super) async fn read(
    State(parts): State<Arc<Parts>>,
    Path(plugin): Path<String>,
    Query(asked): Query<wire::JournalQuery>,
) -> Result<Json<Vec<wire::RecordView>>, Failure> {
    let plugin = parse(&plugin)?;
    let box_name = asked.box_name.as_deref().map(BoxName::parse).transpose();
    let box_name = box_name.map_err(|error| Failure::invalid(error.to_string()))?;
    let since = asked.since.as_deref().map_or(Ok(0), nanoseconds)?;
    let after = asked.after.as_deref();
    let noted = parts
        .journal
        .read(&plugin, box_name.as_ref(), since, after)
        .await;
    let noted = noted.map_err(|failed| Failure::said(&failed))?;
    Ok(Json(
        noted.into_iter().map(wire::RecordView::from).collect(),
    ))
}

pub(super) async fn prune(
    State(parts): State<Arc<Parts>>,
    Path(plugin): Path<String>,
    Query(asked): Query<wire::PruneQuery>,
) -> Result<Json<wire::Done>, Failure> {
    let plugin = parse(&plugin)?;
    let before = nanoseconds(&asked.before)?;
    let gone = parts.journal.prune(&plugin, before).await;
    let gone = gone.map_err(|failed| Failure::said(&failed))?;
    Ok(done(format!(
        "deleted {gone} records of {plugin} from before {}",
        asked.before
    )))
}

fn parse(plugin: &str) -> Result<PluginName, Failure> {
    PluginName::parse(plugin).map_err(|error| Failure::invalid(error.to_string()))
}

fn nanoseconds(text: &str) -> Result<i128, Failure> {
    let time: Result<jiff::Timestamp, _> = text.parse();
    let time = time.map_err(|_| {
        Failure::invalid("a time is written like 2026-01-31T12:00:00Z, with its zone")
    })?;
    Ok(time.as_nanosecond())
}
