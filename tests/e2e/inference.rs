//! The Anthropic proxy: what is forwarded, on whose credential, and what comes
//! back.

use std::sync::Arc;

use jackfield_tests::client::Request;
use jackfield_tests::soon;
use jackfield_tests::stand_ins::MODEL;
use jackfield_tests::upstream::Reply;
use jackfield_tests::world::{KEY, World, messages};
use serde_json::json;

use crate::world;

const SETUP_TOKEN: &str = "sk-ant-oat01-0123456789abcdefghijkl";

#[tokio::test]
async fn a_call_arrives_with_its_path_query_and_body_and_the_answer_comes_back() {
    let world = world().ready().await;
    let body = r#"{"model":"m", "max_tokens": 1e0,"messages":[ ],"x":"\u00e9"}"#;
    let reply = Reply::json(200, &json!({"said": "é"}))
        .header("request-id", "req_1")
        .header("anthropic-ratelimit-requests-remaining", "7");
    world.anthropic.reply(reply);
    let request = Request::post("/llm/anthropic/v1/messages?beta=true&x=%2F%20+&&y")
        .header("content-type", "application/json")
        .header("anthropic-version", "2023-06-01")
        .header("user-agent", "agent/1.0")
        .body(body)
        .bearer(&world.token);
    let response = world.send(&request).await;

    assert_eq!(response.status, 200);
    assert_eq!(response.json(), json!({"said": "é"}));
    assert_eq!(response.fields.all("request-id"), ["req_1"]);
    assert_eq!(
        response
            .fields
            .all("anthropic-ratelimit-requests-remaining"),
        ["7"]
    );
    let received = world.anthropic.last();
    assert_eq!(received.method, "POST");
    assert_eq!(received.target, "/v1/messages?beta=true&x=%2F%20+&&y");
    assert_eq!(received.body, body);
    assert_eq!(received.fields.all("x-api-key"), [KEY]);
    assert_eq!(
        received.fields.all("host"),
        [world.anthropic.address.to_string()]
    );
    assert_eq!(received.fields.all("content-type"), ["application/json"]);
    assert_eq!(received.fields.all("anthropic-version"), ["2023-06-01"]);
    assert_eq!(received.fields.all("user-agent"), ["agent/1.0"]);
    assert_eq!(world.anthropic.requests().len(), 1);
}

#[tokio::test]
async fn every_route_of_the_page_is_forwarded() {
    let world = world().ready().await;
    let model = format!("/v1/models/{MODEL}?x=1");
    for (method, target) in [
        ("POST", "/v1/messages"),
        ("POST", "/v1/messages/count_tokens?beta=true"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models?limit=20&after_id=a%2Fb"),
        ("GET", model.as_str()),
    ] {
        let request = Request::new(method, &format!("/llm/anthropic{target}"));
        let response = world.send(&request.bearer(&world.token)).await;
        assert_eq!(response.status, 200, "{target}: {}", response.text());
        let received = world.anthropic.last();
        assert_eq!(
            (received.method.as_str(), received.target.as_str()),
            (method, target)
        );
        assert_eq!(received.fields.all("x-api-key"), [KEY], "{target}");
    }
}

#[tokio::test]
async fn any_other_path_or_method_is_a_404() {
    let world = world().ready().await;
    for (method, tail) in [
        ("GET", "/v1/messages"),
        ("PUT", "/v1/messages"),
        ("POST", "/v1/messages/"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/messages;p"),
        ("POST", "/v1/messages%20"),
        ("POST", "/V1/messages"),
        ("POST", "/v1/message"),
        ("POST", "/v1/messages/count_tokens/x"),
        ("GET", "/v1/messages/count_tokens"),
        ("POST", "/v1/models"),
        ("GET", "/v1/models/"),
        ("GET", "/v1/models/a/b"),
        ("GET", "/v1/files"),
        ("POST", "/v1/complete"),
        ("POST", "/api/hello"),
        ("GET", "/api/hello/x"),
        ("GET", "/api"),
        ("GET", ""),
        ("GET", "/"),
        ("POST", "/llm/anthropic/v1/messages"),
    ] {
        let request = Request::new(method, &format!("/llm/anthropic{tail}"));
        let response = world.refuses(&request.bearer(&world.token), 404, &[]).await;
        assert_eq!(response.json()["error"]["type"], "not_found_error");
    }
}

#[tokio::test]
async fn an_upstream_s_status_and_body_come_back_as_they_are() {
    let world = world().ready().await;
    let counted = Request::post("/llm/anthropic/v1/messages/count_tokens?beta=true");
    for status in [400, 403, 404, 413, 429, 500, 503, 529] {
        for request in [messages(), counted.clone()] {
            let before = world.anthropic.requests().len();
            let body =
                json!({"type": "error", "error": {"type": "their_own", "message": "theirs"}});
            world
                .anthropic
                .reply(Reply::json(status, &body).header("retry-after", "3"));
            let response = world.send(&request.bearer(&world.token)).await;
            assert_eq!(response.status, status);
            assert_eq!(response.json(), body);
            assert_eq!(response.fields.all("retry-after"), ["3"]);
            assert_eq!(
                world.anthropic.requests().len(),
                before + 1,
                "nothing is tried again"
            );
        }
    }
}

#[tokio::test]
async fn an_upstream_s_401_is_the_operator_s_trouble_and_reaches_the_box_as_a_403() {
    let world = world().ready().await;
    for request in [
        messages(),
        Request::post("/llm/anthropic/v1/messages/count_tokens"),
        Request::get("/llm/anthropic/v1/models"),
    ] {
        let before = world.anthropic.requests().len();
        let body = json!({"type": "error", "error": {"type": "authentication_error",
            "message": format!("invalid x-api-key {KEY}")}});
        let reply = Reply::json(401, &body).header("www-authenticate", format!("Key {KEY}"));
        world.anthropic.reply(reply);
        let response = world.send(&request.bearer(&world.token)).await;
        jackfield_tests::world::is_refusal("a 401", &response, 403, &["credential"]);
        assert!(!response.fields.has("www-authenticate"));
        assert_eq!(world.anthropic.requests().len(), before + 1);
    }
}

#[tokio::test]
async fn without_a_credential_nothing_is_forwarded() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    world.declare(&token, &[("inference", &["agent"])]).await;
    world
        .refuses(&messages().bearer(&token), 403, &["credential"])
        .await;
}

#[tokio::test]
async fn a_setup_token_goes_as_a_bearer_with_its_beta_merged_into_the_box_s_list() {
    let world = with_setup_token().await;
    let list = |lines: &[&str]| {
        lines
            .iter()
            .fold(messages().bearer(&world.token), |request, line| {
                request.header("anthropic-beta", line)
            })
    };
    for (lines, expected) in [
        (&[][..], "oauth-2025-04-20"),
        (&["a", "b,c"][..], "a,b,c,oauth-2025-04-20"),
        (
            &["A-Beta, b", "b , A-Beta,d"][..],
            "A-Beta,b,d,oauth-2025-04-20",
        ),
        (&["oauth-2025-04-20", "x"][..], "oauth-2025-04-20,x"),
        (&["x,oauth-2025-04-20,y"][..], "x,oauth-2025-04-20,y"),
    ] {
        let response = world.send(&list(lines)).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let received = world.anthropic.last();
        let bearer = format!("Bearer {SETUP_TOKEN}");
        assert_eq!(received.fields.all("authorization"), [bearer]);
        assert!(!received.fields.has("x-api-key"), "{:?}", received.fields);
        let sent = received.fields.all("anthropic-beta");
        assert_eq!(sent.len(), 1, "one line: {sent:?}");
        let items: Vec<&str> = sent[0].split(',').map(str::trim).collect();
        assert_eq!(items.join(","), expected, "{lines:?}");
    }
}

#[tokio::test]
async fn with_an_api_key_the_box_s_beta_list_stays_as_it_is() {
    let world = world().ready().await;
    let request = messages().bearer(&world.token);
    world.send(&request).await;
    assert!(!world.anthropic.last().fields.has("anthropic-beta"));
    let request = request
        .header("anthropic-beta", "a, b")
        .header("Anthropic-Beta", "c,a");
    world.send(&request).await;
    assert_eq!(
        world.anthropic.last().fields.all("anthropic-beta"),
        ["a, b", "c,a"]
    );
}

#[tokio::test]
async fn both_of_the_box_s_credentials_stay_behind_whatever_is_sealed_in() {
    let world = with_setup_token().await;
    let request = messages()
        .bearer(&world.token)
        .header("x-api-key", &world.token);
    assert_eq!(world.send(&request).await.status, 200);
    let received = world.anthropic.last();
    let bearer = format!("Bearer {SETUP_TOKEN}");
    assert_eq!(received.fields.all("authorization"), [bearer]);
    assert!(!received.fields.has("x-api-key"));
}

#[tokio::test]
async fn what_is_not_the_upstream_s_business_stays_behind() {
    let world = world().ready().await;
    let reply = Reply::json(200, &json!({}))
        .header("set-cookie", "session=1")
        .header("chant-payer", "visitor github:nobody");
    world.anthropic.reply(reply);
    let request = messages()
        .bearer(&world.token)
        .header("cookie", "a=1")
        .header("chant-grant", "some-grant")
        .header("forwarded", "for=10.0.0.1")
        .header("x-forwarded-for", "10.0.0.1")
        .header("x-forwarded-host", "elsewhere")
        .header("x-forwarded-proto", "https")
        .header("x-real-ip", "10.0.0.1")
        .header("proxy-authorization", "Basic eDp5");
    let response = world.send(&request).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let fields = world.anthropic.last().fields;
    for name in [
        "cookie",
        "chant-grant",
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
        "proxy-authorization",
    ] {
        assert!(!fields.has(name), "{name} was sent on: {fields:?}");
    }
    assert!(
        !response.fields.has("set-cookie"),
        "cookies pass on egress alone"
    );
    assert!(
        response
            .fields
            .all("chant-payer")
            .iter()
            .all(|said| !said.contains("visitor")),
        "the upstream does not say who pays"
    );
}

#[tokio::test]
async fn the_upstream_s_base_path_stands_before_every_path() {
    let mut world = world().ready().await;
    world.take_host().stop().await;
    world.configure(&format!("{}/base/path", world.anthropic.url()));
    world.serve_as_approved().await;
    let response = world.send(&messages().bearer(&world.token)).await;
    assert_eq!(response.status, 404, "the stand-in knows no such path");
    assert_eq!(world.anthropic.last().target, "/base/path/v1/messages");
}

#[tokio::test]
async fn a_paused_box_is_refused_until_it_is_resumed() {
    let world = world().ready().await;
    world.command(&["box", "pause", "box-a"], "").await.ok();
    world
        .refuses(&messages().bearer(&world.token), 403, &["paused"])
        .await;
    let hello = Request::get("/llm/anthropic/api/hello");
    assert_eq!(
        world.send(&hello).await.status,
        200,
        "hello is for everybody"
    );
    world
        .declare(
            &world.token,
            &[("inference", &["agent"]), ("egress", &["OPENAI"])],
        )
        .await;
    world.command(&["box", "resume", "box-a"], "").await.ok();
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
}

#[tokio::test]
async fn eight_calls_at_a_time_each_get_their_own_answer() {
    let world = Arc::new(world().ready().await);
    world.anthropic.take_over();
    let calls: Vec<_> = (0..8)
        .map(|number| {
            let world = Arc::clone(&world);
            tokio::spawn(async move {
                let request = messages().bearer(&world.token).body(format!("{number}"));
                world.send(&request).await.text()
            })
        })
        .collect();
    // All eight are open at once before the first is answered.
    let mut exchanges = Vec::new();
    for _ in 0..8 {
        exchanges.push(world.anthropic.next().await);
    }
    for mut exchange in exchanges {
        let said = exchange.body().await.expect("a body");
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", said.len());
        exchange.send(answer).await.expect("the host reads");
        exchange.send(said).await.expect("the host reads");
    }
    for (number, call) in calls.into_iter().enumerate() {
        let answer = soon("an answer", call).await.expect("no panic");
        assert_eq!(answer, number.to_string());
    }
}

async fn with_setup_token() -> World {
    let world = world().start().await;
    let mut world = world;
    world.token = world.add_box("box-a").await;
    world
        .credential(SETUP_TOKEN, &["anthropic", "--kind", "setup-token"])
        .await;
    world
        .declare(&world.token, &[("inference", &["agent"])])
        .await;
    world
}
