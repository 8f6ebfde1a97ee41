//! Plugins: listed with their permissions, approved.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Json;

use crate::admin::failure::Failure;
use crate::admin::{Parts, wire};

pub(super) async fn list(State(parts): State<Arc<Parts>>) -> Json<Vec<wire::PluginView>> {
    Json(parts.plugins.list().into_iter().map(Into::into).collect())
}

pub(super) async fn approve(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
) -> Result<Json<wire::PluginView>, Failure> {
    let status = parts
        .plugins
        .approve(&name)
        .await
        .map_err(|error| Failure::said(&error))?;
    Ok(Json(status.into()))
}
