//! What the stand-in upstreams answer: enough of the Anthropic API that a
//! Messages call and a structured one are served, whatever Fountain is asked,
//! and a host that repeats the authorization it received.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde_json::{Value, json};

use crate::conformance::instance::instance;
use crate::conformance::upstreams::{Received, Upstream};

/// The model that the suite asks for.
pub(super) const MODEL: &str = "claude-conformance";

/// The id of every message, by which an answer is known to be the upstream's.
pub(super) const MESSAGE_ID: &str = "msg_conformance";

/// The header in which the secret's host repeats the authorization.
pub(super) const ECHO: &str = "x-conformance-echo";

pub(super) fn answer(received: &Received) -> Response<Full<Bytes>> {
    match received.upstream {
        Upstream::Anthropic => anthropic(received),
        Upstream::Fountain => {
            let path = path_of(received);
            let id = path.rsplit('/').next().unwrap_or_default();
            said(StatusCode::OK, &json!({"id": id, "path": received.target}))
        }
        Upstream::Echo => {
            let mut answer = said(StatusCode::OK, &json!({"path": received.target}));
            let repeated = received.headers.get(header::AUTHORIZATION);
            let repeated = repeated.cloned().unwrap_or(HeaderValue::from_static(""));
            answer.headers_mut().insert(ECHO, repeated);
            answer
        }
    }
}

fn anthropic(received: &Received) -> Response<Full<Bytes>> {
    match (received.method.as_str(), path_of(received)) {
        ("POST", "/v1/messages") => message(&received.body),
        ("POST", "/v1/messages/count_tokens") => said(StatusCode::OK, &json!({"input_tokens": 1})),
        ("GET", "/v1/models") => said(
            StatusCode::OK,
            &json!({"data": [model(MODEL)], "has_more": false, "first_id": MODEL, "last_id": MODEL}),
        ),
        ("GET", path) if path.starts_with("/v1/models/") => {
            let id = path.trim_start_matches("/v1/models/");
            said(StatusCode::OK, &model(id))
        }
        _ => fault(StatusCode::NOT_FOUND, "not_found_error", "no such route"),
    }
}

fn message(body: &[u8]) -> Response<Full<Bytes>> {
    let Ok(asked) = serde_json::from_slice::<Value>(body) else {
        let message = "the body is not JSON";
        return fault(StatusCode::BAD_REQUEST, "invalid_request_error", message);
    };
    let format = asked
        .pointer("/output_config/format")
        .or_else(|| asked.get("output_format"));
    let text = match format.and_then(|format| format.get("schema")) {
        Some(schema) => instance(schema).to_string(),
        None => "conformance".to_owned(),
    };
    let model = asked.get("model").and_then(Value::as_str).unwrap_or(MODEL);
    said(
        StatusCode::OK,
        &json!({
            "id": MESSAGE_ID,
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "stop_sequence": null,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }),
    )
}

fn model(id: &str) -> Value {
    json!({"id": id, "type": "model", "display_name": "Conformance", "created_at": "2026-01-01T00:00:00Z"})
}

fn fault(status: StatusCode, kind: &str, message: &str) -> Response<Full<Bytes>> {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    said(status, &body)
}

fn said(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    answer
}

fn path_of(received: &Received) -> &str {
    received.target.split('?').next().unwrap_or_default()
}
