//! Fountain: a box reaches what is its own there, and nothing tells it of
//! anything else.

use jackfield_tests::client::{Request, Response};
use jackfield_tests::plugins::Plugin;
use jackfield_tests::upstream::Reply;
use jackfield_tests::world::{World, is_refusal};
use serde_json::{Value, json};

use crate::world;

/// The operator's key at Fountain.
const KEY: &str = "fountain-0123456789abcdefghijklmnop";

/// What a box's attempts to start one conversation have in common.
const KEY_OF_ONE: &str = "\"8e03978e-40d5\"";

const WORDS: &[&str] = &["agent", "conversations", "sandboxes", "vault"];

/// A world in which two boxes may reach all of Fountain, and `box-a` has an
/// agent there. Gives the other box's token.
async fn fountain() -> (World, String) {
    let world = world()
        .plugins(&[Plugin::Fountain])
        .tables("[upstreams.fountain]\nurl = \"{fountain}\"\nallow_private = true\n")
        .ready()
        .await;
    world
        .credential(KEY, &["fountain", "--kind", "bearer"])
        .await;
    let other = world.add_box("box-b").await;
    for token in [&world.token, &other] {
        world.declare(token, &[("fountain", WORDS)]).await;
    }
    own(&world, "box-a", "agents", "a-1").await;
    (world, other)
}

async fn own(world: &World, box_name: &str, kind: &str, id: &str) {
    world
        .command(&["box", "own", box_name, kind, id], "")
        .await
        .ok();
}

fn get(token: &str, path: &str) -> Request {
    Request::get(&format!("/fountain/api/{path}")).bearer(token)
}

fn post(token: &str, path: &str, body: &Value) -> Request {
    Request::post(&format!("/fountain/api/{path}"))
        .bearer(token)
        .json(body)
}

async fn start(world: &World, token: &str, wanted: &str) -> Response {
    let body = json!({"agent_id": "a-1", "wanted": wanted});
    let request = post(token, "conversations", &body).header("idempotency-key", KEY_OF_ONE);
    world.send(&request).await
}

/// Holds a request to the one refusal of what is not the box's own.
async fn is_foreign(world: &World, request: &Request) {
    let response = world
        .refuses(request, 403, &["fountain", "not this box's own"])
        .await;
    let words = response.json();
    let known = world
        .refuses(&get(&world.token, "vaults/nobody"), 403, &[])
        .await
        .json();
    assert_eq!(words, known, "{} {}", request.method, request.target);
}

#[tokio::test]
async fn what_was_created_for_a_box_is_its_own_and_nobody_elses() {
    let (mut world, other) = fountain().await;
    let token = world.token.clone();
    is_foreign(&world, &get(&token, "conversations/c-1")).await;
    let response = start(&world, &token, "c-1").await;
    assert_eq!(
        (response.status, response.json()),
        (201, json!({"id": "c-1"}))
    );
    let created = world.fountain.last();
    assert_eq!(
        (created.method.as_str(), created.target.as_str()),
        ("POST", "/api/conversations")
    );
    assert_eq!(
        created.fields.first("authorization"),
        Some(format!("Bearer {KEY}"))
    );
    assert_eq!(
        created.fields.first("idempotency-key").as_deref(),
        Some(KEY_OF_ONE)
    );
    let path = "conversations/c-1/messages?limit=5";
    let response = world.send(&get(&token, path)).await;
    assert_eq!(
        (response.status, response.json()),
        (200, json!({"path": format!("/api/{path}")}))
    );
    let read = world.fountain.last();
    assert_eq!(
        read.fields.first("authorization"),
        Some(format!("Bearer {KEY}"))
    );
    is_foreign(&world, &get(&other, path)).await;
    // It is on disk before it is answered.
    world.take_host().crash().await;
    world.serve_as_approved().await;
    assert_eq!(world.send(&get(&token, path)).await.status, 200);
    is_foreign(&world, &get(&other, path)).await;
}

#[tokio::test]
async fn a_foreign_id_reaches_nobody_wherever_it_stands() {
    let (world, other) = fountain().await;
    let token = world.token.clone();
    own(&world, "box-a", "conversations", "mine").await;
    own(&world, "box-b", "agents", "theirs").await;
    own(&world, "box-b", "conversations", "theirs").await;
    let say = |body: &Value| post(&token, "conversations/mine/messages", body);
    for request in [
        get(&token, "conversations/theirs"),
        get(&token, "conversations/nobodys"),
        get(&token, "conversations/mine/sandboxes/theirs"),
        get(&token, "conversations/m%69ne%20"),
        get(&token, "conversations/mine?agent_id=theirs"),
        get(&token, "conversations/mine?a=1;agentIds%5B%5D=theirs"),
        get(&token, "sandboxes/mine"),
        get(&token, "conversations?agent=theirs"),
        say(&json!({"agent_id": "theirs"})),
        say(&json!({"a": [{"b": {"agents": ["a-1", "theirs"]}}]})),
        say(&json!({"agent": {"id": 1}})),
        say(&json!({"agent_id": {"$in": ["a-1", "theirs"]}})),
        say(&json!({"agent_id": {"$ne": "a-1"}})),
        say(&json!({"agents": {"theirs": true}})),
        get(&token, "conversations/mine/linked-agents/theirs"),
        get(&token, "conversations/mine?agent_id%5Bne%5D=a-1"),
        post(
            &token,
            "conversations",
            &json!({"agent_id": "theirs", "wanted": "c-1"}),
        ),
        post(
            &token,
            "conversations",
            &json!({"agent_id": "a-1", "vault_ids": ["v"]}),
        ),
        post(
            &other,
            "conversations",
            &json!({"agent_id": "a-1", "wanted": "c-1"}),
        ),
    ] {
        is_foreign(&world, &request).await;
    }
    assert_eq!(
        world.send(&say(&json!({"agent_id": "a-1"}))).await.status,
        200
    );
    assert_eq!(
        world
            .send(&get(&token, "conversations/m%69ne"))
            .await
            .status,
        200
    );
    assert_eq!(world.fountain.last().target, "/api/conversations/m%69ne");
}

#[tokio::test]
async fn each_path_needs_its_word_and_others_are_not_served() {
    let (world, _) = fountain().await;
    let token = world.token.clone();
    own(&world, "box-a", "conversations", "mine").await;
    let asked = [
        (
            post(&token, "conversations", &json!({"agent_id": "a-1"})),
            "agent",
        ),
        (get(&token, "conversations"), "conversations"),
        (get(&token, "conversations/mine"), "conversations"),
        (get(&token, "sandboxes"), "sandboxes"),
        (get(&token, "vaults/v-1"), "vault"),
    ];
    for (request, word) in &asked {
        let others: Vec<&str> = WORDS.iter().copied().filter(|each| each != word).collect();
        world.declare(&token, &[("fountain", &others)]).await;
        world.refuses(request, 403, &["fountain", word]).await;
    }
    world.declare(&token, &[("fountain", WORDS)]).await;
    for path in [
        "sandboxesX",
        "agents",
        "agents/a-1",
        "conversations/",
        "conversations/mine%2Fx",
        "conversations//mine",
        "Conversations",
        "%63onversations",
        "",
    ] {
        world.refuses(&get(&token, path), 404, &[]).await;
    }
    for method in ["DELETE", "PUT", "PATCH"] {
        let request = Request::new(method, "/fountain/api/conversations").bearer(&token);
        world.refuses(&request, 405, &["fountain"]).await;
    }
    world
        .refuses(
            &post(&token, "vaults", &json!({})),
            403,
            &["creates no vaults"],
        )
        .await;
}

#[tokio::test]
async fn a_listing_shows_the_boxs_own_alone() {
    let (world, other) = fountain().await;
    assert_eq!(start(&world, &world.token, "c-1").await.status, 201);
    let listed = async |token: &str, path: &str| {
        let response = world.send(&get(token, path)).await;
        assert_eq!(response.status, 200, "{path}: {}", response.text());
        response.json()
    };
    let page = |things: Value| json!({"data": things, "has_more": true, "next_cursor": "more"});
    let mine = page(json!([{"id": "c-1", "title": "t"}]));
    assert_eq!(listed(&world.token, "conversations?limit=3").await, mine);
    assert_eq!(world.fountain.last().target, "/api/conversations?limit=3");
    assert_eq!(listed(&other, "conversations").await, page(json!([])));
    assert_eq!(
        listed(&world.token, "sandboxes").await,
        page(json!([])),
        "a kind is part of it"
    );
    let shapes = [
        "",
        "{}",
        "<html>",
        r#"{"data":{"c-1":{}}}"#,
        r#"[{"id":"c-1"},{}]"#,
    ];
    for shape in shapes {
        world.fountain.reply(Reply::status(200).body(shape));
        let response = world.send(&get(&world.token, "conversations")).await;
        is_refusal(shape, &response, 502, &["fountain", "listing"]);
    }
    world
        .fountain
        .reply(Reply::json(200, &json!([{"id": "theirs"}, {"id": "c-1"}])));
    assert_eq!(
        listed(&world.token, "conversations").await,
        json!([{"id": "c-1"}])
    );
}

#[tokio::test]
async fn what_fountain_refuses_is_handed_on_and_a_wrong_key_is_told() {
    let (world, _) = fountain().await;
    let token = world.token.clone();
    own(&world, "box-a", "conversations", "mine").await;
    let create = post(
        &token,
        "conversations",
        &json!({"agent_id": "a-1", "wanted": "c-1"}),
    );
    for request in [
        &create,
        &get(&token, "conversations"),
        &get(&token, "conversations/mine"),
    ] {
        for status in [302, 404, 409, 503] {
            let reply = Reply::json(status, &json!({"why": "x"})).header("location", "/elsewhere");
            world.fountain.reply(reply);
            let response = world.send(request).await;
            assert_eq!(
                (response.status, response.json()),
                (status, json!({"why": "x"}))
            );
            assert_eq!(
                response.fields.first("location").as_deref(),
                Some("/elsewhere")
            );
        }
        world.fountain.reply(Reply::json(401, &json!({"key": KEY})));
        let response = world.send(request).await;
        is_refusal(
            "a wrong key",
            &response,
            502,
            &["fountain", "jackfield credential set"],
        );
    }
    // What could not be created is nobody's own.
    world
        .refuses(&get(&token, "conversations/c-1"), 403, &[])
        .await;
    world
        .fountain
        .reply(Reply::json(201, &json!({"name": "no id"})));
    let response = world.send(&create).await;
    is_refusal("no id", &response, 502, &["fountain", "no id"]);
}

#[tokio::test]
async fn a_body_that_could_be_read_otherwise_reaches_nobody() {
    let (world, _) = fountain().await;
    own(&world, "box-a", "sandboxes", "mine").await;
    let send = |content: &str, body: &str| {
        Request::post("/fountain/api/sandboxes/mine/files")
            .bearer(&world.token)
            .header("content-type", content)
            .body(body.to_owned())
    };
    let json = "application/json";
    let form = send("application/x-www-form-urlencoded", "agent_id=a-2");
    world.refuses(&form, 415, &["fountain"]).await;
    world
        .refuses(&send("application/json; charset=utf-16", "{}"), 415, &[])
        .await;
    world
        .refuses(&send(json, "agent_id=a-2"), 400, &["fountain"])
        .await;
    let twice = r#"{"agent_id":"a-1","agent_id":"a-2"}"#;
    world.refuses(&send(json, twice), 400, &["fountain"]).await;
    let large = format!("\"{}\"", "x".repeat(1024 * 1024));
    world.refuses(&send(json, &large), 413, &[]).await;
    assert_eq!(world.send(&send(json, r#"{"a":1}"#)).await.status, 200);
}

#[tokio::test]
async fn a_stream_passes_event_by_event() {
    let (world, _) = fountain().await;
    own(&world, "box-a", "conversations", "mine").await;
    world.fountain.take_over();
    let mut client = world.client().await;
    client
        .send(&get(&world.token, "conversations/mine/events"))
        .await;
    let mut exchange = world.fountain.next().await;
    exchange.begin_events().await.expect("the host reads");
    assert_eq!(client.head().await.expect("a head").status, 200);
    for number in 0..3 {
        let event = format!("data: {number}\n\n");
        exchange.send_chunk(&event).await.expect("the host reads");
        let seen = client.body_bytes(event.len()).await.expect("the event");
        assert_eq!(seen, event.as_bytes());
    }
    exchange.send_chunk("").await.expect("the host reads");
    assert_eq!(client.part().await.expect("a clean end"), None);
}

#[tokio::test]
async fn two_boxes_are_never_given_one_thing() {
    let (world, other) = fountain().await;
    own(&world, "box-b", "agents", "a-1").await;
    assert_eq!(start(&world, &world.token, "c-1").await.status, 201);
    // Fountain names the same id to another box: it is told of a fault.
    let response = start(&world, &other, "c-1").await;
    is_refusal("a thing twice", &response, 502, &["fountain"]);
    is_foreign(&world, &get(&other, "conversations/c-1")).await;
    assert_eq!(
        world
            .send(&get(&world.token, "conversations/c-1"))
            .await
            .status,
        200
    );
}
