//! The operator's API: JSON over a Unix socket of the host's own, for the
//! user that the host runs as and for root. It reads and changes the records
//! of boxes, secrets, credentials, grants and plugins; it is never on the data path.

mod boxes;
pub mod client;
mod credentials;
mod env;
mod failure;
mod grants;
mod journal;
mod owned;
mod plugins;
mod secrets;
mod socket;
pub mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Json;
use axum::routing::{delete, get, post, put};
use axum::{Router, body};
use tokio_util::sync::CancellationToken;

use crate::chant::boxes::Boxes;
use crate::chant::declarations::Declarations;
use crate::chant::grants::Grants;
use crate::chant::journal::Journal;
use crate::chant::owned::Owned;
use crate::config::Config;
use crate::plugins::{MOST_BYTES, Plugins};
use crate::telemetry::Metrics;
use crate::vault::Vault;

use failure::Failure;

pub use socket::{AdminSocket, AdminSocketError};

/// The largest body of the operator's API: a value of 64 KiB in base64, and
/// what stands around it.
const MAX_BODY: usize = 256 * 1024;

/// The largest component that is handed over, in bytes.
#[expect(clippy::cast_possible_truncation, reason = "it fits 32 bits")]
const MAX_COMPONENT: usize = MOST_BYTES as usize;

/// What the operator's API reads and changes.
pub struct Parts {
    /// The configuration.
    pub config: Arc<Config>,
    /// The address that the host listens on.
    pub listen: SocketAddr,
    /// Boxes.
    pub boxes: Arc<Boxes>,
    /// Their reports.
    pub declarations: Arc<Declarations>,
    /// Grants.
    pub grants: Arc<Grants>,
    /// What boxes own.
    pub owned: Arc<Owned>,
    /// What plugins note.
    pub journal: Arc<Journal>,
    /// Secrets and credentials.
    pub vault: Vault,
    /// Plugins.
    pub plugins: Plugins,
    /// Counters.
    pub metrics: Arc<Metrics>,
}

impl AdminSocket {
    /// Answers until `shutdown`; commands under way are finished first.
    pub async fn serve(self, parts: Parts, shutdown: CancellationToken) {
        let router = router(Arc::new(parts));
        let served = axum::serve(self.listener(), router)
            .with_graceful_shutdown(shutdown.cancelled_owned())
            .await;
        if let Err(cause) = served {
            tracing::error!(%cause, "the admin socket failed");
        }
    }
}

fn router(parts: Arc<Parts>) -> Router {
    Router::new()
        .route("/status", get(status))
        .route("/metrics", get(metrics))
        .route("/boxes", get(boxes::list).post(boxes::add))
        .route("/boxes/{box}", delete(boxes::remove))
        .route("/boxes/{box}/rotate", post(boxes::rotate))
        .route("/boxes/{box}/pause", post(boxes::pause))
        .route("/boxes/{box}/resume", post(boxes::resume))
        .route("/boxes/{box}/env", get(boxes::env))
        .route(
            "/boxes/{box}/owned",
            get(owned::list).put(owned::give).delete(owned::take),
        )
        .route("/secrets", get(secrets::list))
        .route(
            "/secrets/{box}/{name}",
            put(secrets::set).delete(secrets::remove),
        )
        .route("/credentials", get(credentials::list))
        .route(
            "/credentials/{upstream}",
            put(credentials::set).delete(credentials::remove),
        )
        .route(
            "/grants",
            get(grants::list)
                .post(grants::issue)
                .delete(grants::revoke_of),
        )
        .route("/grants/{id}", delete(grants::revoke))
        .route("/plugins", get(plugins::list))
        .route(
            "/plugin-loads",
            post(plugins::load).layer(axum::extract::DefaultBodyLimit::max(MAX_COMPONENT)),
        )
        .route("/plugin-blocks", get(plugins::blocked))
        .route(
            "/plugin-blocks/{hash}",
            put(plugins::block).delete(plugins::unblock),
        )
        .route("/plugins/{name}/approve", post(plugins::approve))
        .route("/plugins/{name}/reject", post(plugins::reject))
        .route("/plugins/{name}/revoke", post(plugins::revoke))
        .route("/plugins/{name}/rollback", post(plugins::rollback))
        .route("/plugins/{name}/promote", post(plugins::promote))
        .route("/plugins/{name}/compare", get(plugins::compare))
        .route("/plugins/{name}/history", get(plugins::history))
        .route(
            "/plugins/{name}/journal",
            get(journal::read).delete(journal::prune),
        )
        .fallback(async || Failure::unknown("the operator's API has no such path"))
        .method_not_allowed_fallback(async || Failure::unknown("that path takes another method"))
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY))
        .with_state(parts)
}

async fn status(State(parts): State<Arc<Parts>>) -> Json<wire::Status> {
    Json(wire::Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        broker: parts.config.broker.clone(),
        listen: parts.listen.to_string(),
        url: parts.config.local_url(parts.listen),
    })
}

async fn metrics(State(parts): State<Arc<Parts>>) -> String {
    parts.metrics.render()
}

/// Reads a body as JSON, whatever its content type says.
fn read<T: serde::de::DeserializeOwned>(bytes: &body::Bytes) -> Result<T, Failure> {
    // serde's message may quote the text, so it is not passed on: a value may
    // stand in it.
    serde_json::from_slice(bytes).map_err(|error| {
        Failure::invalid(format!(
            "the body does not fit, at column {}",
            error.column()
        ))
    })
}

#[cfg(test)]
mod tests;
