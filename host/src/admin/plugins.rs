//! Plugins: listed with their permissions, approved, and no longer so.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Json;

use crate::admin::boxes::done;
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

pub(super) async fn revoke(
    State(parts): State<Arc<Parts>>,
    Path(which): Path<String>,
) -> Result<Json<wire::Done>, Failure> {
    let revoked = parts.plugins.revoke(&which).await;
    let revoked = revoked.map_err(|error| Failure::said(&error))?;
    let (name, hash) = (&revoked.name, &revoked.hash);
    let mut text =
        format!("took back the approval of plugin {name}, {hash}; what it had open is cut");
    for other in &revoked.others {
        text += &format!("\n{other} is still approved under that name");
    }
    Ok(done(text))
}
