//! A stand-in for any API that wants a key: it says what it received, whether
//! the key was the right one, and repeats the key in a header of its answer,
//! as careless APIs do.

use std::net::SocketAddr;

use anyhow::Result;
use axum::Router;
use axum::extract::Request;
use axum::response::{IntoResponse, Json, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::demo::stand_in;

/// The demo's secret.
pub(super) const VALUE: &str = "demo-value-of-the-secret-ECHO";

pub(super) async fn start(shutdown: CancellationToken) -> Result<SocketAddr> {
    stand_in(Router::new().fallback(echo), shutdown).await
}

async fn echo(request: Request) -> Response {
    let received = request.headers().get(header::AUTHORIZATION);
    let right =
        received.is_some_and(|value| value.as_bytes() == format!("Bearer {VALUE}").as_bytes());
    let body = json!({
        "method": request.method().as_str(),
        "path": request.uri().path(),
        "query": request.uri().query(),
        "key": if right { "the secret's value arrived here" } else { "not the secret's value" },
    });
    let repeated = received
        .cloned()
        .unwrap_or(HeaderValue::from_static("none"));
    let status = if right {
        StatusCode::OK
    } else {
        StatusCode::UNAUTHORIZED
    };
    (status, [("x-key-received", repeated)], Json(body)).into_response()
}
