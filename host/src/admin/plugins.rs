//! Plugins: handed over, listed with their permissions, approved, and no longer
//! so; tried beside the live version, taken back to an earlier one, and blocked.

use std::sync::Arc;

use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, Query, State};
use axum::response::Json;
use bytes::Bytes;

use crate::admin::boxes::done;
use crate::admin::failure::Failure;
use crate::admin::{Parts, wire};
use crate::plugins::{ComponentHash, MOST_BYTES, Outcome, PluginError, PluginStatus};
use crate::rules::trial::{Share, Trial};

pub(super) async fn list(State(parts): State<Arc<Parts>>) -> Json<Vec<wire::PluginView>> {
    Json(parts.plugins.list().into_iter().map(Into::into).collect())
}

pub(super) async fn load(
    State(parts): State<Arc<Parts>>,
    Query(asked): Query<wire::LoadQuery>,
    bytes: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::PluginView>, Failure> {
    let too_large = |_| Failure::invalid(format!("a plugin has at most {MOST_BYTES} bytes"));
    let bytes = bytes.map_err(too_large)?;
    let trial = match (asked.shadow, asked.canary.as_deref()) {
        (false, None) => None,
        (true, None) => Some(Trial::Shadow),
        (false, Some(share)) => {
            let share = Share::parse(share).map_err(|error| Failure::said(&error))?;
            Some(Trial::Canary(share))
        }
        (true, Some(_)) => {
            let told = "a version is a shadow or a canary, not both";
            return Err(Failure::invalid(told));
        }
    };
    let (file, signature) = (asked.file, asked.signature);
    let plugins = &parts.plugins;
    let report = match trial {
        None => plugins.load_bytes(file, bytes.into(), signature).await,
        Some(trial) => {
            plugins
                .try_bytes(file, bytes.into(), signature, trial)
                .await
        }
    };
    match report.outcome {
        Outcome::Live(status)
        | Outcome::Waiting(status)
        | Outcome::Tried(status)
        | Outcome::Replaced(status) => Ok(Json(status.into())),
        Outcome::Refused(error) => Err(Failure::said(&error)),
    }
}

pub(super) async fn approve(
    State(parts): State<Arc<Parts>>,
    Path(which): Path<String>,
    Query(asked): Query<wire::ApproveQuery>,
) -> Result<Json<wire::PluginView>, Failure> {
    view(parts.plugins.approve(&which, asked.signer).await)
}

pub(super) async fn reject(
    State(parts): State<Arc<Parts>>,
    Path(which): Path<String>,
) -> Result<Json<wire::PluginView>, Failure> {
    view(parts.plugins.reject(&which).await)
}

pub(super) async fn rollback(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
    Query(asked): Query<wire::RollbackQuery>,
) -> Result<Json<wire::PluginView>, Failure> {
    view(parts.plugins.rollback(&name, asked.to.as_deref()).await)
}

pub(super) async fn promote(
    State(parts): State<Arc<Parts>>,
    Path(which): Path<String>,
) -> Result<Json<wire::PluginView>, Failure> {
    view(parts.plugins.promote(&which).await)
}

pub(super) async fn compare(
    State(parts): State<Arc<Parts>>,
    Path(which): Path<String>,
) -> Result<Json<wire::ComparisonView>, Failure> {
    let comparison = parts.plugins.compare(&which);
    let comparison = comparison.map_err(|error| Failure::said(&error))?;
    Ok(Json(comparison.into()))
}

pub(super) async fn history(
    State(parts): State<Arc<Parts>>,
    Path(name): Path<String>,
) -> Result<Json<Vec<wire::EventView>>, Failure> {
    let events = parts.plugins.history(&name).await;
    let events = events.map_err(|error| Failure::said(&error))?;
    Ok(Json(events.into_iter().map(Into::into).collect()))
}

pub(super) async fn blocked(
    State(parts): State<Arc<Parts>>,
) -> Result<Json<Vec<wire::BlockedView>>, Failure> {
    let blocked = parts.plugins.blocked().await;
    let blocked = blocked.map_err(|error| Failure::said(&error))?;
    Ok(Json(blocked.into_iter().map(Into::into).collect()))
}

pub(super) async fn block(
    State(parts): State<Arc<Parts>>,
    Path(hash): Path<String>,
) -> Result<Json<wire::Done>, Failure> {
    let hash = parse(&hash)?;
    let was_live = parts.plugins.block(&hash).await;
    let was_live = was_live.map_err(|error| Failure::said(&error))?;
    let told = if was_live {
        "; it was live, and is stopped: what it had open is cut"
    } else {
        ""
    };
    Ok(done(format!("blocked {hash}{told}")))
}

pub(super) async fn unblock(
    State(parts): State<Arc<Parts>>,
    Path(hash): Path<String>,
) -> Result<Json<wire::Done>, Failure> {
    let hash = parse(&hash)?;
    let unblocked = parts.plugins.unblock(&hash).await;
    unblocked.map_err(|error| Failure::said(&error))?;
    Ok(done(format!(
        "unblocked {hash}; its approval stands as it did"
    )))
}

fn parse(hash: &str) -> Result<ComponentHash, Failure> {
    ComponentHash::parse(hash).ok_or_else(|| Failure::invalid("a hash has 64 hexadecimal digits"))
}

fn view(said: Result<PluginStatus, PluginError>) -> Result<Json<wire::PluginView>, Failure> {
    let status = said.map_err(|error| Failure::said(&error))?;
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
    for key in &revoked.signers {
        text += &format!("\nwhat {key} signs is no longer approved under that name, either");
    }
    for other in &revoked.others {
        text += &format!("\n{other} is still approved under that name");
    }
    Ok(done(text))
}
