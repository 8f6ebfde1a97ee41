//! The rule: a request that needs a word is refused unless the box's last
//! report lists it for this broker.

use jackfield_tests::client::Request;
use jackfield_tests::stand_ins::MODEL;
use jackfield_tests::world::{declaration, messages};
use serde_json::json;

use crate::world;

#[tokio::test]
async fn a_box_that_never_reported_is_refused_everything() {
    let world = world().ready().await;
    let other = world.add_box("box-b").await;
    let model = format!("/llm/anthropic/v1/models/{MODEL}");
    for (request, words) in [
        (messages(), ["inference", "agent"]),
        (
            Request::post("/llm/anthropic/v1/messages/count_tokens"),
            ["inference", "agent"],
        ),
        (
            Request::get("/llm/anthropic/v1/models"),
            ["inference", "agent"],
        ),
        (Request::get(&model), ["inference", "agent"]),
        (
            Request::get("/egress/OPENAI/v1/models"),
            ["egress", "OPENAI"],
        ),
        (Request::post("/egress/OPENAI"), ["egress", "OPENAI"]),
    ] {
        let response = world.refuses(&request.bearer(&other), 403, &words).await;
        assert_eq!(response.json()["error"]["type"], "permission_error");
    }
}

#[tokio::test]
async fn the_refusal_says_which_entry_to_add() {
    let world = world().ready().await;
    let call = messages().bearer(&world.token);
    for entries in [
        vec![],
        vec![("inference", &["decide"][..])],
        vec![("inference", &[][..])],
        vec![("inference", &["Agent", "agent ", "agents"][..])],
        vec![("inference-2", &["agent"][..])],
        vec![("egress", &["agent"][..])],
    ] {
        world.declare(&world.token, &entries).await;
        let words = ["inference", "agent", "box block"];
        world.refuses(&call, 403, &words).await;
    }
    world
        .declare(&world.token, &[("inference", &["decide"])])
        .await;
    world.refuses(&call, 403, &["decide", "agent"]).await;

    let secret = Request::get("/egress/GITHUB/user").bearer(&world.token);
    world
        .declare(&world.token, &[("egress", &["OPENAI"])])
        .await;
    world
        .refuses(&secret, 403, &["egress", "GITHUB", "box block"])
        .await;
}

#[tokio::test]
async fn an_entry_of_another_broker_opens_nothing() {
    let world = world().ready().await;
    for broker in [
        json!("fountain"),
        json!(null),
        json!("Lobby"),
        json!("lobby "),
    ] {
        let report = json!({"capabilities": [
            {"name": "inference", "broker": broker, "scope": ["agent"]}]});
        let request = declaration(&report.to_string()).bearer(&world.token);
        assert_eq!(world.send(&request).await.status, 200);
        world
            .refuses(
                &messages().bearer(&world.token),
                403,
                &["inference", "agent"],
            )
            .await;
    }
}

#[tokio::test]
async fn the_entries_of_one_name_count_together() {
    let world = world().ready().await;
    let entries: [(&str, &[&str]); 2] = [("inference", &["decide"]), ("inference", &["agent"])];
    world.declare(&world.token, &entries).await;
    let response = world.send(&messages().bearer(&world.token)).await;
    assert_eq!(response.status, 200, "{}", response.text());
}

#[tokio::test]
async fn what_no_capability_serves_is_a_404_for_whoever_asks() {
    let world = world().ready().await;
    let undeclared = world.add_box("box-b").await;
    for target in [
        "/llm/anthropic/v1/complete",
        "/llm/anthropic/v1/messages/batches",
        "/egress/lower/x",
    ] {
        for token in [&world.token, &undeclared] {
            let request = Request::post(target).bearer(token);
            let response = world.refuses(&request, 404, &[]).await;
            assert_eq!(response.json()["error"]["type"], "not_found_error");
        }
    }
}

#[tokio::test]
async fn what_lies_under_no_prefix_is_a_404() {
    let world = world().ready().await;
    for target in [
        "/",
        "/nothing",
        "/llm",
        "/llm/openai/v1/x",
        "/api",
        "/api/box",
        "/api/box/declaration/",
        "/api/box/declaration/x",
        "/api/box/declarations",
        "/fountain/api/conversations",
        "*",
        "/llm/anthropicx/v1/messages",
        "/egressX/OPENAI",
    ] {
        let method = if target == "*" { "OPTIONS" } else { "POST" };
        let request = Request::new(method, target);
        world
            .refuses(&request.clone().bearer(&world.token), 404, &[])
            .await;
        let response = world.send(&request).await;
        assert!(
            [403, 404].contains(&response.status),
            "{target} without a token: {}",
            response.status
        );
    }
}
