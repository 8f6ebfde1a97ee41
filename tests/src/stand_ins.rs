//! What the stand-in upstreams say: an Anthropic API that answers from its
//! request, and a host that repeats in headers what it was sent.

use serde_json::{Value, json};

use crate::upstream::{Received, Reply};

/// The model that the stand-in serves.
pub const MODEL: &str = "claude-stand-in-1";

/// The Anthropic API, as far as the protocol forwards it.
#[must_use]
pub fn anthropic(received: &Received) -> Reply {
    let path = received.target.split('?').next().unwrap_or("");
    match (received.method.as_str(), path) {
        ("POST", "/v1/messages") => message(received),
        ("POST", "/v1/messages/count_tokens") => Reply::json(200, &json!({"input_tokens": 12})),
        ("GET", "/v1/models") => Reply::json(
            200,
            &json!({"data": [model()], "has_more": false, "first_id": MODEL, "last_id": MODEL}),
        ),
        ("GET", path) if path == format!("/v1/models/{MODEL}") => Reply::json(200, &model()),
        _ => Reply::json(
            404,
            &json!({"type": "error", "error": {"type": "not_found_error", "message": "no such route"}}),
        ),
    }
}

/// A streamed message, event by event.
#[must_use]
pub fn events(text: &str) -> Vec<String> {
    let event = |value: Value| {
        let kind = value["type"].as_str().unwrap_or("").to_owned();
        format!("event: {kind}\ndata: {value}\n\n")
    };
    let mut events = vec![
        event(json!({"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": [],
            "stop_reason": null, "stop_sequence": null,
            "usage": {"input_tokens": 12, "output_tokens": 1},
        }})),
        event(json!({"type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""}})),
        event(json!({"type": "ping"})),
    ];
    for word in text.split_inclusive(' ') {
        events.push(event(json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": word}})));
    }
    events.extend([
        event(json!({"type": "content_block_stop", "index": 0})),
        event(json!({"type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": {"output_tokens": 5}})),
        event(json!({"type": "message_stop"})),
    ]);
    events
}

/// A host that repeats the credential it received in a header, and answers a
/// chat completion where it is asked for one.
#[must_use]
pub fn echo(received: &Received) -> Reply {
    let reply = if received.target.starts_with("/v1/chat/completions") {
        Reply::json(
            200,
            &json!({"id": "chatcmpl-1", "object": "chat.completion", "created": 1_700_000_000,
                "model": MODEL, "choices": [{"index": 0, "finish_reason": "stop",
                    "message": {"role": "assistant", "content": "Hello from the echo host."}}],
                "usage": {"prompt_tokens": 1, "completion_tokens": 5, "total_tokens": 6}}),
        )
    } else {
        Reply::json(200, &json!({"echoed": true}))
    };
    match received.fields.first("authorization") {
        Some(authorization) => reply.header("x-echo-authorization", authorization),
        None => reply,
    }
}

/// A whole message of one text.
#[must_use]
pub fn said(text: &str) -> Reply {
    Reply::json(
        200,
        &json!({"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL,
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn", "stop_sequence": null,
            "usage": {"input_tokens": 12, "output_tokens": 5}}),
    )
}

/// Something that a JSON Schema holds of: of an enumeration the first, and of
/// the numbers in one object an even share.
#[must_use]
pub fn instance(schema: &Value) -> Value {
    if let Some(first) = schema["enum"].get(0) {
        return first.clone();
    }
    match schema["type"].as_str() {
        Some("object") => {
            let Some(properties) = schema["properties"].as_object() else {
                return json!({});
            };
            let is_number = |property: &&Value| property["type"] == "number";
            let numbers = properties.values().filter(is_number).count();
            let filled = properties.iter().map(|(name, property)| {
                let value = if is_number(&property) {
                    json!(1.0 / numbers as f64)
                } else {
                    instance(property)
                };
                (name.clone(), value)
            });
            Value::Object(filled.collect())
        }
        Some("string") => json!("The stand-in's reason."),
        Some("number") => json!(0.5),
        _ => Value::Null,
    }
}

fn message(received: &Received) -> Reply {
    let asked: Value = serde_json::from_slice(&received.body).unwrap_or(Value::Null);
    let schema = &asked["output_config"]["format"]["schema"];
    if schema.is_object() {
        return said(&instance(schema).to_string());
    }
    if asked["stream"] == json!(true) {
        return Reply::status(200)
            .header("content-type", "text/event-stream")
            .body(events("Hello from the stand-in.").concat());
    }
    said("Hello from the stand-in.")
}

fn model() -> Value {
    json!({"id": MODEL, "type": "model", "display_name": "Stand-in", "created_at": "2026-01-01T00:00:00Z"})
}

/// Fountain's API, as far as the protocol names it: what is asked for as `wanted`
/// is created, a collection shows everybody's, and a thing shows its path.
#[must_use]
pub fn fountain(received: &Received) -> Reply {
    let path = received.target.split('?').next().unwrap_or("");
    let collection = path.rsplit('/').next().unwrap_or("");
    let asked: Value = serde_json::from_slice(&received.body).unwrap_or(Value::Null);
    match (received.method.as_str(), collection) {
        ("POST", "conversations") => Reply::json(201, &json!({"id": asked["wanted"]})),
        ("POST", "sandboxes") => Reply::json(201, &json!({"data": {"id": asked["wanted"]}})),
        ("GET", "conversations" | "sandboxes" | "vaults") => {
            let things = ["c-1", "c-2", "theirs"].map(|id| json!({"id": id, "title": "t"}));
            Reply::json(
                200,
                &json!({"data": things, "total": 3, "has_more": true, "next_cursor": "more"}),
            )
        }
        _ => Reply::json(200, &json!({"path": received.target})),
    }
}
