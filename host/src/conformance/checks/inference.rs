//! The Anthropic API behind the broker.

use http::{HeaderName, HeaderValue, Method};
use serde_json::{Value, json};

use crate::conformance::checks::Check;
use crate::conformance::run::{Ask, Run, Who, same};
use crate::conformance::said::{MESSAGE_ID, MODEL};
use crate::conformance::upstreams::{Received, Upstream};

pub(super) const CHECKS: [Check; 5] = [
    Check {
        id: "inference-hello",
        title: "HEAD /llm/anthropic/api/hello is 200 with no token",
        ask: |run| Box::pin(hello(run)),
    },
    Check {
        id: "inference-forwards",
        title: "with agent, a Messages call reaches the upstream with its path, query and body unchanged and the credential in place of the token, and the upstream's answer comes back",
        ask: |run| Box::pin(forwards(run)),
    },
    Check {
        id: "inference-unknown-route",
        title: "a path that the proxy does not forward is a 404",
        ask: |run| Box::pin(unknown_route(run)),
    },
    Check {
        id: "inference-unknown-token",
        title: "an unknown token is a 403, not a 401, which the Anthropic client tries again",
        ask: |run| Box::pin(unknown_token(run)),
    },
    Check {
        id: "inference-agent-refused",
        title: "without agent, a 403 naming inference and agent",
        ask: |run| Box::pin(refused(run)),
    },
];

/// A Messages call, without a token.
pub(super) fn message() -> Ask {
    Ask::post("/llm/anthropic/v1/messages", body()).header(
        HeaderName::from_static("anthropic-version"),
        HeaderValue::from_static("2023-06-01"),
    )
}

fn body() -> Value {
    json!({"model": MODEL, "max_tokens": 16, "messages": [{"role": "user", "content": "conformance"}]})
}

async fn hello(run: &mut Run) {
    let ask = Ask::new(Method::HEAD, "/llm/anthropic/api/hello");
    if let Some(answer) = run.send(ask).await {
        run.expect_status(&answer, &[200], "");
    }
}

async fn forwards(run: &mut Run) {
    run.declare(&[("inference", &["agent"])]).await;
    let mark = run.log.len();
    let ask = Ask::post("/llm/anthropic/v1/messages?beta=true", body()).header(
        HeaderName::from_static("anthropic-version"),
        HeaderValue::from_static("2023-06-01"),
    );
    let Some(answer) = run.send(ask.api_key(Who::First)).await else {
        return;
    };
    if !run.expect_status(&answer, &[200], "") {
        return;
    }
    let received = run.log.since(mark);
    let calls: Vec<&Received> = received
        .iter()
        .filter(|one| one.upstream == Upstream::Anthropic)
        .collect();
    let [call] = calls.as_slice() else {
        let times = calls.len();
        return run.problem(&format!(
            "expected the Anthropic upstream to receive one request, got {times}"
        ));
    };
    if call.line() != "POST /v1/messages?beta=true" {
        run.problem(&format!(
            "expected the upstream to receive POST /v1/messages?beta=true, got {}",
            run.quoted(&call.line())
        ));
    }
    if !on_the_credential(run, call) {
        run.problem("the upstream did not receive the credential as x-api-key or as a bearer");
    }
    let arrived = serde_json::from_slice(&call.body).unwrap_or(Value::Null);
    if !same(&arrived, &body()) {
        run.problem("the upstream received another body than the box sent");
    }
    if answer.json().get("id").and_then(Value::as_str) != Some(MESSAGE_ID) {
        run.problem("the answer is not the upstream's");
    }
}

/// Whether a call carries the credential where the API expects it.
pub(super) fn on_the_credential(run: &Run, call: &Received) -> bool {
    let credential = run.environment.anthropic.credential.as_str();
    let bearer = format!("Bearer {credential}");
    call.header("x-api-key") == Some(credential) || call.header("authorization") == Some(&bearer)
}

async fn unknown_route(run: &mut Run) {
    run.declare(&[("inference", &["agent"])]).await;
    let ask = Ask::post("/llm/anthropic/v1/complete", body());
    run.not_found(ask.api_key(Who::First)).await;
}

async fn unknown_token(run: &mut Run) {
    run.refused(message().api_key(Who::Stranger), &[403], &[])
        .await;
}

async fn refused(run: &mut Run) {
    run.declare(&[("inference", &["decide"])]).await;
    let ask = message().api_key(Who::First);
    run.refused(ask, &[403], &["inference", "agent"]).await;
}
