//! Who asks: where a box's token may stand, and what becomes of any other.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jackfield_tests::client::Request;
use jackfield_tests::stand_ins::MODEL;
use jackfield_tests::world::{KEY, World, declaration, messages, report};

use crate::world;

#[tokio::test]
async fn the_token_is_taken_as_a_bearer_in_any_case_or_as_x_api_key() {
    let world = world().ready().await;
    let token = world.token.clone();
    let bearer = |scheme: &str| messages().header("authorization", format!("{scheme} {token}"));
    for request in [
        bearer("Bearer"),
        bearer("bearer"),
        bearer("BEARER"),
        bearer("bEaReR"),
        messages().header("AUTHORIZATION", format!("Bearer {token}")),
        messages().header("x-api-key", &token),
        messages().header("X-Api-Key", &token),
        bearer("Bearer").header("x-api-key", &token),
        messages()
            .header("x-api-key", &token)
            .header("authorization", format!("Bearer {token}")),
    ] {
        let response = world.send(&request).await;
        assert_eq!(
            response.status,
            200,
            "{:?}: {}",
            request.fields,
            response.text()
        );
        let received = world.anthropic.last();
        // Both go, and exactly one comes.
        assert_eq!(received.fields.all("x-api-key"), [KEY]);
        assert!(
            !received.fields.has("authorization"),
            "{:?}",
            received.fields
        );
    }
}

#[tokio::test]
async fn two_different_tokens_are_a_403() {
    let world = world().ready().await;
    let other = world.add_box("box-b").await;
    world.declare(&other, &[("inference", &["agent"])]).await;
    let stranger = format!("jft_{}", "A".repeat(43));
    let token = world.token.as_str();
    for (bearer, key) in [
        (token, other.as_str()),
        (&other, token),
        (token, &stranger),
        (&stranger, token),
    ] {
        let request = messages().bearer(bearer).header("x-api-key", key);
        world.refuses(&request, 403, &[]).await;
    }
    let request = messages().bearer(token).bearer(&other);
    world.refuses(&request, 403, &[]).await;
    let request = messages()
        .header("x-api-key", token)
        .header("x-api-key", &other);
    world.refuses(&request, 403, &[]).await;
}

#[tokio::test]
async fn an_unknown_token_is_a_403_wherever_a_token_is_asked_for() {
    let world = world().ready().await;
    let token = world.token.as_str();
    let stranger = format!("jft_{}", "A".repeat(43));
    let shorter = &token[..token.len() - 1];
    let longer = format!("{token}A");
    let swapped: String = token
        .chars()
        .map(|letter| {
            if letter.is_ascii_lowercase() {
                letter.to_ascii_uppercase()
            } else {
                letter
            }
        })
        .collect();
    let unknown: [Option<&str>; 7] = [
        None,
        Some(""),
        Some("sk-ant-whatever"),
        Some(&stranger),
        Some(shorter),
        Some(&longer),
        Some(&swapped),
    ];
    let model = format!("/llm/anthropic/v1/models/{MODEL}");
    for request in [
        declaration(&report(&[])),
        messages(),
        Request::post("/llm/anthropic/v1/messages/count_tokens"),
        Request::get("/llm/anthropic/v1/models"),
        Request::get(&model),
        Request::post("/llm/anthropic/v1/unknown"),
        Request::get("/egress/OPENAI/v1/models"),
    ] {
        for token in unknown {
            let said = match token {
                Some(token) => request.clone().bearer(token),
                None => request.clone(),
            };
            world.refuses(&said, 403, &["token"]).await;
        }
    }
}

#[tokio::test]
async fn under_llm_no_refusal_is_a_401() {
    let world = world().ready().await;
    let basic = STANDARD.encode(format!("{}:", world.token));
    for request in [
        messages().header("authorization", format!("Basic {basic}")),
        messages().header("authorization", &world.token),
        messages().header("authorization", "Bearer"),
        messages().header("authorization", format!("Bearer  {} ", "x")),
        messages().header("x-api-key", format!("Bearer {}", world.token)),
    ] {
        let mark = world.mark();
        let response = world.send(&request).await;
        assert_eq!(
            response.status,
            403,
            "{:?}: {}",
            request.fields,
            response.text()
        );
        assert_eq!(world.mark(), mark, "{:?}", request.fields);
    }
}

#[tokio::test]
async fn hello_is_public_and_ignores_whatever_token_it_is_shown() {
    let world = world().ready().await;
    let hello = "/llm/anthropic/api/hello";
    let mark = world.mark();
    for method in ["HEAD", "GET"] {
        for token in [None, Some("nobody"), Some(world.token.as_str())] {
            let request = match token {
                Some(token) => Request::new(method, hello).bearer(token),
                None => Request::new(method, hello),
            };
            let response = world.send(&request).await;
            assert_eq!(response.status, 200, "{method} {token:?}");
            assert!(!response.fields.has("chant-payer"), "nobody pays for hello");
        }
    }
    assert_eq!(world.mark(), mark, "hello reaches no upstream");
}

#[tokio::test]
async fn a_token_elsewhere_than_in_a_credential_header_is_a_400() {
    let world = world().ready().await;
    let token = world.token.clone();
    let query = format!("/llm/anthropic/v1/messages?key={token}");
    let encoded = format!("/llm/anthropic/v1/messages?key=%6a{}", &token[1..]);
    let models = format!("/llm/anthropic/v1/models?after_id={token}");
    for request in [
        messages().header("x-custom", &token),
        messages().header("user-agent", format!("agent/{token}")),
        messages().header("anthropic-beta", format!("a, {token}")),
        Request {
            target: query,
            ..messages()
        },
        Request {
            target: encoded,
            ..messages()
        },
        Request {
            target: models,
            method: "GET".to_owned(),
            ..messages()
        },
    ] {
        world
            .refuses(&request.bearer(&token), 400, &["token"])
            .await;
    }
}

#[tokio::test]
async fn a_rotated_token_takes_effect_at_once_and_keeps_the_declaration() {
    let world = world().ready().await;
    let old = world.token.clone();
    let mut client = world.client().await;
    client.send(&messages().bearer(&old)).await;
    assert_eq!(client.response().await.expect("an answer").status, 200);

    let new = world.rotate_box("box-a").await;
    assert_ne!(old, new);
    assert_eq!(world.send(&messages().bearer(&new)).await.status, 200);
    world
        .refuses(&messages().bearer(&old), 403, &["token"])
        .await;
    // Not even on the connection that it was good on.
    client.send(&messages().bearer(&old)).await;
    assert_eq!(client.response().await.expect("an answer").status, 403);
}

#[tokio::test]
async fn a_removed_box_is_gone_at_once_and_returns_with_nothing() {
    let world = world().ready().await;
    let old = world.token.clone();
    world.command(&["box", "remove", "box-a"], "").await.ok();
    world
        .refuses(&messages().bearer(&old), 403, &["token"])
        .await;

    let new = world.add_box("box-a").await;
    world
        .refuses(&messages().bearer(&old), 403, &["token"])
        .await;
    world
        .refuses(&messages().bearer(&new), 403, &["inference"])
        .await;
    world.declare(&new, &[("egress", &["OPENAI"])]).await;
    let request = Request::get("/egress/OPENAI/x").bearer(&new);
    world.refuses(&request, 403, &["OPENAI"]).await;
}

#[tokio::test]
async fn a_box_is_added_once() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    let shape = regex_lite::Regex::new("^jft_[A-Za-z0-9_-]{43}$").expect("a pattern");
    assert!(shape.is_match(&token));
    let said = world.command(&["box", "add", "box-a"], "").await.failed();
    assert!(said.contains("box-a"), "{said}");
    for name in ["", "Box", "a b", "../x", &"a".repeat(64)] {
        world.command(&["box", "add", name], "").await.failed();
    }
    still_known(&world, &token).await;
}

async fn still_known(world: &World, token: &str) {
    world.declare(token, &[("inference", &["agent"])]).await;
}
