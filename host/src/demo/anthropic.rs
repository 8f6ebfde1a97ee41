//! A stand-in for the Anthropic API: enough of it that a client sees a
//! message, streamed or whole, a token count and the models; and a 401 for
//! whoever does not hold the demo's key.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, StatusCode, header};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::demo::stand_in;

/// The key that the demo's operator holds. It opens nothing but this.
pub(super) const KEY: &str = "sk-ant-demo-key-that-no-box-ever-sees";

/// Between two events, so that a person sees the stream arrive.
const PAUSE: Duration = Duration::from_millis(150);

pub(super) async fn start(shutdown: CancellationToken) -> Result<SocketAddr> {
    let router = Router::new()
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .route("/v1/models", get(async || Json(json!({"data": [model("claude-demo")], "has_more": false, "first_id": "claude-demo", "last_id": "claude-demo"}))))
        .route("/v1/models/{id}", get(async |Path(id): Path<String>| Json(model(&id))))
        .fallback(async || fault(StatusCode::NOT_FOUND, "not_found_error", "no such path"))
        .layer(middleware::from_fn(key_required));
    stand_in(router, shutdown).await
}

async fn key_required(request: Request, next: Next) -> Response {
    if holds_key(request.headers()) {
        return next.run(request).await;
    }
    fault(
        StatusCode::UNAUTHORIZED,
        "authentication_error",
        "invalid x-api-key",
    )
}

fn holds_key(headers: &HeaderMap) -> bool {
    headers.get("x-api-key").is_some_and(|value| value == KEY)
}

async fn messages(body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return fault(
            StatusCode::BAD_REQUEST,
            "invalid_request_error",
            "the body is not JSON",
        );
    };
    let model = request
        .get("model")
        .and_then(Value::as_str)
        .unwrap_or("claude-demo");
    let answer = format!(
        "You said: {}. I am a stand-in upstream: I saw the operator's key and never your box's token.",
        last_words(&request)
    );
    let words: Vec<String> = answer.split_inclusive(' ').map(str::to_owned).collect();
    let tokens = words.len();
    if request.get("stream").and_then(Value::as_bool) != Some(true) {
        return Json(message(model, &answer, tokens)).into_response();
    }
    let events = stream::iter(events(model, words)).then(async |event| {
        tokio::time::sleep(PAUSE).await;
        Ok::<_, Infallible>(event)
    });
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(events),
    )
        .into_response()
}

async fn count_tokens(body: Bytes) -> Json<Value> {
    let request = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    let words = last_words(&request).split_whitespace().count();
    Json(json!({ "input_tokens": words }))
}

fn events(model: &str, words: Vec<String>) -> Vec<String> {
    let tokens = words.len();
    let mut start = message(model, "", 0);
    if let Some(start) = start.as_object_mut() {
        start.insert("content".to_owned(), json!([]));
        start.insert("stop_reason".to_owned(), Value::Null);
    }
    let deltas = words.into_iter().map(|text| {
        event(
            "content_block_delta",
            json!({"index": 0, "delta": {"type": "text_delta", "text": text}}),
        )
    });
    [
        event("message_start", json!({ "message": start })),
        event("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}})),
        event("ping", json!({})),
    ]
    .into_iter()
    .chain(deltas)
    .chain([
        event("content_block_stop", json!({"index": 0})),
        event("message_delta", json!({"delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": tokens}})),
        event("message_stop", json!({})),
    ])
    .collect()
}

fn event(name: &str, more: Value) -> String {
    let mut data = json!({ "type": name });
    if let (Some(data), Value::Object(more)) = (data.as_object_mut(), more) {
        data.extend(more);
    }
    format!("event: {name}\ndata: {data}\n\n")
}

fn message(model: &str, text: &str, tokens: usize) -> Value {
    json!({
        "id": "msg_demo",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": null,
        "usage": {"input_tokens": 1, "output_tokens": tokens},
    })
}

fn model(id: &str) -> Value {
    json!({"type": "model", "id": id, "display_name": "A stand-in", "created_at": "2026-01-01T00:00:00Z"})
}

/// The text of the last message, whose content is a text or a list of blocks.
fn last_words(request: &Value) -> String {
    let content = request
        .get("messages")
        .and_then(Value::as_array)
        .and_then(|messages| messages.last())
        .and_then(|message| message.get("content"));
    match content {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks
            .iter()
            .filter_map(|block| block.get("text").and_then(Value::as_str))
            .collect::<Vec<_>>()
            .join(" "),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            "nothing".to_owned()
        }
    }
}

fn fault(status: StatusCode, kind: &str, message: &str) -> Response {
    let body = json!({"type": "error", "error": {"type": kind, "message": message}});
    (status, Json(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_holds_the_events_that_clients_expect() {
        let all = events("m", vec!["a ".to_owned(), "b".to_owned()]);
        let names: Vec<&str> = all
            .iter()
            .map(|event| {
                event
                    .lines()
                    .next()
                    .unwrap()
                    .strip_prefix("event: ")
                    .unwrap()
            })
            .collect();
        assert_eq!(
            names,
            [
                "message_start",
                "content_block_start",
                "ping",
                "content_block_delta",
                "content_block_delta",
                "content_block_stop",
                "message_delta",
                "message_stop",
            ]
        );
        for event in &all {
            let data = event
                .lines()
                .nth(1)
                .unwrap()
                .strip_prefix("data: ")
                .unwrap();
            let data: Value = serde_json::from_str(data).unwrap();
            assert!(event.starts_with(&format!("event: {}\n", data["type"].as_str().unwrap())));
            assert!(event.ends_with("\n\n"));
        }
    }

    #[test]
    fn the_last_words_are_found_in_either_shape() {
        let check = |content: Value, expected: &str| {
            assert_eq!(
                last_words(&json!({"messages": [{"content": content}]})),
                expected
            );
        };
        check(json!("hello"), "hello");
        check(
            json!([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]),
            "a b",
        );
        check(json!(3), "nothing");
        assert_eq!(last_words(&json!({})), "nothing");
    }
}
