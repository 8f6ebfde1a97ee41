//! What a box, a plugin and all of them together may have at a time. Whoever has
//! too much is told so in its own words, and counted; others are served
//! meanwhile; and what was had is there again once it is given back.

use std::sync::Arc;

use jackfield_tests::client::{Client, Request, Response};
use jackfield_tests::plugins::Plugin;
use jackfield_tests::upstream::Reply;
use jackfield_tests::world::{World, declaration, is_refusal, messages, report};
use tokio::task::JoinSet;

use crate::world;

/// A world with two boxes that may use everything, and these limits. Gives the
/// other box's token.
async fn two_boxes(limits: &str) -> (World, String) {
    let world = world()
        .plugins(&[
            Plugin::Inference,
            Plugin::Egress,
            Plugin::Clerk,
            Plugin::Liar,
        ])
        .tables(&format!("[limits]\n{limits}"))
        .ready()
        .await;
    let other = world.add_box("box-b").await;
    for token in [&world.token, &other] {
        let response = world.send(&everything().bearer(token)).await;
        assert_eq!(response.status, 200, "{}", response.text());
    }
    (world, other)
}

/// The report of a box that may use everything.
fn everything() -> Request {
    declaration(&report(&[
        ("inference", &["agent", "decide"]),
        ("egress", &["OPENAI"]),
        ("clerk", &["file"]),
        ("liar", &["tell"]),
    ]))
}

/// A request whose body is read whole, and noted.
fn note(token: &str, bytes: usize) -> Request {
    Request::post("/clerk/note")
        .bearer(token)
        .body(vec![b'x'; bytes])
}

/// One to another plugin, which refuses it with a 422.
fn question(token: &str, bytes: usize) -> Request {
    Request::post("/decide/v1/systemone")
        .bearer(token)
        .body(vec![b' '; bytes])
}

/// Holds an answer to being this limit's refusal, with a time to come back at.
fn is_over(response: &Response, status: u16, words: &[&str]) {
    is_refusal("one too many", response, status, words);
    let kind = match status {
        429 => "rate_limit_error",
        _ => "unavailable_error",
    };
    assert_eq!(response.json()["error"]["type"], kind);
    let wait = response.fields.first("retry-after").expect("a retry-after");
    let seconds: u64 = wait.parse().expect("seconds");
    assert!((1..=60).contains(&seconds), "{seconds}");
}

/// How often a limit has refused somebody.
async fn refused(world: &World, limit: &str, scope: &str) -> u64 {
    let metrics = world.home.metrics().await;
    let name = format!("jackfield_limit_refusals_total{{limit=\"{limit}\",scope=\"{scope}\"}} ");
    let line = metrics.lines().find_map(|line| line.strip_prefix(&name));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or_else(|| panic!("no {name}: {metrics}"))
}

/// A request whose body's room has been taken and of which nothing has come.
async fn opened(world: &World, request: &Request, bytes: usize) -> Client {
    let mut client = world.client().await;
    let head = request
        .clone()
        .body("")
        .header("expect", "100-continue")
        .header("content-length", bytes.to_string());
    client.send(&head).await;
    // It is asked for once there is room for it.
    assert_eq!(client.head().await.expect("an interim answer").status, 100);
    client
}

async fn finish(client: &mut Client, body: &[u8]) {
    client.send_bytes(body).await.expect("the host reads");
    let response = client.response().await.expect("an answer");
    assert_eq!(response.status, 200, "{}", response.text());
}

#[tokio::test]
async fn a_plugin_has_so_many_requests_at_a_time_and_others_are_served() {
    let (world, other) = two_boxes("requests_per_plugin = 2\n").await;
    world.anthropic.take_over();
    let mut held = Vec::new();
    for token in [&world.token, &other] {
        let mut client = world.client().await;
        client.send(&messages().bearer(token)).await;
        held.push((client, world.anthropic.next().await));
    }
    let response = world.refuses(&messages().bearer(&other), 503, &[]).await;
    is_over(
        &response,
        503,
        &["plugin inference", "2, requests_per_plugin"],
    );
    let egress = Request::get("/egress/OPENAI/x").bearer(&world.token);
    assert_eq!(world.send(&egress).await.status, 200);
    assert_eq!(refused(&world, "requests_per_plugin", "plugin").await, 1);
    // Once one has ended there is room again.
    let (mut client, mut exchange) = held.pop().expect("two were held");
    exchange.body().await.expect("the whole request");
    exchange
        .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await
        .expect("the host reads");
    exchange.keep_alive();
    assert_eq!(client.response().await.expect("an answer").status, 200);
    world.anthropic.let_go();
    assert_eq!(world.send(&messages().bearer(&other)).await.status, 200);
}

#[tokio::test]
async fn a_box_that_has_too_many_requests_is_told_when_to_come_back() {
    let (world, _) = two_boxes("requests_per_box = 1\n").await;
    world.anthropic.take_over();
    let mut client = world.client().await;
    client.send(&messages().bearer(&world.token)).await;
    let exchange = world.anthropic.next().await;
    let response = world
        .refuses(&everything().bearer(&world.token), 429, &[])
        .await;
    is_over(&response, 429, &["box-a", "1, requests_per_box"]);
    assert_eq!(refused(&world, "requests_per_box", "box").await, 1);
    drop(exchange);
    assert_eq!(client.response().await.expect("an answer").status, 502);
    let response = world.send(&everything().bearer(&world.token)).await;
    assert_eq!(response.status, 200);
}

#[tokio::test]
async fn an_upload_that_outlives_its_answer_is_a_request_still() {
    let limits = "requests_per_box = 1\nrequests_per_plugin = 1\n";
    let (world, other) = two_boxes(limits).await;
    world.echo.take_over();
    let mut client = world.client().await;
    let request = Request::post("/egress/OPENAI/v1/duplex")
        .bearer(&world.token)
        .header("transfer-encoding", "chunked");
    client.send(&request).await;
    client.send_chunk(b"hello").await.expect("the host reads");
    let mut exchange = world.echo.next().await;
    exchange
        .send("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nearly")
        .await
        .expect("the host reads");
    assert_eq!(client.response().await.expect("an answer").text(), "early");
    // The answer has ended, and the upload goes on.
    let again = Request::get("/egress/OPENAI/x");
    let response = world
        .refuses(&again.clone().bearer(&world.token), 429, &[])
        .await;
    is_over(&response, 429, &["box-a", "1, requests_per_box"]);
    let response = world.refuses(&again.clone().bearer(&other), 503, &[]).await;
    is_over(&response, 503, &["1, requests_per_plugin"]);
    client.send_chunk(b"more").await.expect("the host reads");
    assert_eq!(exchange.body_bytes(9).await.expect("a part"), "hellomore");
    client.send_chunk(b"").await.expect("the host reads");
    assert_eq!(exchange.body().await.expect("a clean end"), "");
    exchange.keep_alive();
    world.echo.let_go();
    assert_eq!(world.send(&again.bearer(&world.token)).await.status, 200);
}

/// 64 KiB for a box, and these for the plugin and the host.
fn room(per_plugin: usize, all: usize) -> String {
    format!(
        "buffered_body_bytes = 65536\ncall_bytes = 65536\nbuffered_bytes_per_box = 65536\n\
         buffered_bytes_per_plugin = {per_plugin}\nbuffered_bytes = {all}\n"
    )
}

#[tokio::test]
async fn a_box_holds_so_much_in_memory_and_others_have_theirs() {
    let (world, other) = two_boxes(&room(1 << 18, 1 << 20)).await;
    let body = vec![b'x'; 40_000];
    let mut client = opened(&world, &note(&world.token, 0), body.len()).await;
    // Of its own plugin and of another, of a body declared and of one in chunks.
    let question = question(&world.token, 40_000);
    for request in [note(&world.token, 40_000), question] {
        let response = world.refuses(&request, 429, &[]).await;
        is_over(
            &response,
            429,
            &["box-a", "65536 bytes", "buffered_bytes_per_box"],
        );
    }
    let mut chunked = world.client().await;
    let head = note(&world.token, 0).header("transfer-encoding", "chunked");
    chunked.send(&head).await;
    chunked
        .send_chunk(&[b'x'; 40_000])
        .await
        .expect("the host reads");
    is_over(
        &chunked.response().await.expect("an answer"),
        429,
        &["box-a"],
    );
    // A report is held as well; a small one still fits.
    let report = |bytes: usize| declaration(&" ".repeat(bytes)).bearer(&world.token);
    is_over(&world.send(&report(30_000)).await, 429, &["box-a"]);
    assert_eq!(world.send(&report(20_000)).await.status, 400);
    assert_eq!(
        world.send(&everything().bearer(&world.token)).await.status,
        200
    );
    assert_eq!(world.send(&note(&other, 30_000)).await.status, 200);
    assert_eq!(refused(&world, "buffered_bytes_per_box", "box").await, 4);
    finish(&mut client, &body).await;
    assert_eq!(world.send(&note(&world.token, 30_000)).await.status, 200);
    // Nothing was left behind by what was refused, or by whoever leaves.
    for _ in 0..4 {
        let mut client = opened(&world, &note(&world.token, 0), 60_000).await;
        client.end().await.expect("the host reads");
        client.gone().await;
    }
    finish(
        &mut opened(&world, &note(&world.token, 0), body.len()).await,
        &body,
    )
    .await;
}

#[tokio::test]
async fn the_requests_of_a_plugin_hold_so_much_and_other_plugins_have_theirs() {
    let (world, other) = two_boxes(&room(1 << 17, 1 << 20)).await;
    let body = vec![b'x'; 30_000];
    let mut client = opened(&world, &note(&world.token, 0), body.len()).await;
    let mut more = opened(&world, &note(&world.token, 0), body.len()).await;
    let response = world.refuses(&note(&other, 50_000), 503, &[]).await;
    is_over(
        &response,
        503,
        &["plugin clerk", "131072 bytes", "buffered_bytes_per_plugin"],
    );
    // What leaves as much to others is taken, and another plugin has its own.
    assert_eq!(world.send(&note(&other, 30_000)).await.status, 200);
    let question = question(&other, 60_000);
    assert_eq!(world.send(&question).await.status, 422);
    assert_eq!(
        refused(&world, "buffered_bytes_per_plugin", "plugin").await,
        1
    );
    for client in [&mut client, &mut more] {
        finish(client, &body).await;
    }
    assert_eq!(world.send(&note(&other, 50_000)).await.status, 200);
}

#[tokio::test]
async fn all_together_hold_so_much() {
    let (world, other) = two_boxes(&room(1 << 17, 1 << 17)).await;
    let mut client = opened(&world, &note(&world.token, 0), 30_000).await;
    let mut more = opened(&world, &note(&world.token, 0), 30_000).await;
    let question = question(&other, 50_000);
    let response = world.refuses(&question, 503, &[]).await;
    is_over(
        &response,
        503,
        &["broker", "131072 bytes", "buffered_bytes"],
    );
    // Bodies that nobody reads whole are not held, whatever their size.
    let upload = Request::post("/egress/OPENAI/x")
        .bearer(&world.token)
        .body(vec![b'x'; 1 << 20]);
    assert_eq!(world.send(&upload).await.status, 200);
    assert_eq!(refused(&world, "buffered_bytes", "host").await, 1);
    for client in [&mut client, &mut more] {
        finish(client, &[b'x'; 30_000]).await;
    }
    assert_eq!(world.send(&question).await.status, 422);
}

#[tokio::test]
async fn what_calls_bring_back_and_plugins_answer_is_held_too() {
    let (world, other) = two_boxes(&room(1 << 18, 1 << 20)).await;
    let large = || Reply::status(200).body(vec![b'x'; 40_000]);
    let call = |token: &str, lie: &str| Request::post(&format!("/liar/{lie}")).bearer(token);
    // Two that are too much together, whichever comes first.
    world.anthropic.reply(large());
    world.anthropic.reply(large());
    let response = world.send(&call(&world.token, "call-twice")).await;
    is_over(&response, 429, &["box-a", "buffered_bytes_per_box"]);
    for token in [&world.token, &other] {
        world.anthropic.reply(large());
        let response = world.send(&call(token, "call")).await;
        assert_eq!((response.status, response.body.len()), (200, 40_000));
    }
    let big = |bytes: usize| Request::post(&format!("/clerk/big/{bytes}")).bearer(&world.token);
    let response = world.send(&big(70_000)).await;
    is_over(&response, 429, &["box-a", "buffered_bytes_per_box"]);
    // It is held until the box has it, and given back then.
    let mut client = world.client().await;
    for _ in 0..5 {
        client.send(&big(60_000)).await;
        let response = client.response().await.expect("an answer");
        assert_eq!((response.status, response.body.len()), (200, 60_000));
    }
    assert_eq!(refused(&world, "buffered_bytes_per_box", "box").await, 2);
}

#[tokio::test]
async fn a_box_takes_no_more_than_its_part_of_a_plugins_instances() {
    let limits = "plugin_instances = 8\ninstances_per_plugin = 2\ninstances_per_box = 1\n";
    let (world, other) = two_boxes(limits).await;
    let world = Arc::new(world);
    // Each computes for as long as it may; one after the other they take longer
    // than anybody waits.
    let mut looping = JoinSet::new();
    for _ in 0..24 {
        let world = Arc::clone(&world);
        looping.spawn(async move {
            let request = Request::post("/liar/loop").bearer(&world.token);
            world.send(&request).await
        });
    }
    let first = looping.join_next().await.expect("some");
    let request = Request::post("/liar/state").bearer(&other);
    assert_eq!(
        world.send(&request).await.status,
        200,
        "another box is served"
    );
    let request = messages().bearer(&world.token);
    assert_eq!(
        world.send(&request).await.status,
        200,
        "another plugin is asked"
    );
    let (mut waited, mut next) = (0, Some(first));
    while let Some(answer) = next {
        next = looping.join_next().await;
        let answer = answer.expect("no panic");
        if answer.status == 429 {
            is_over(
                &answer,
                429,
                &["box-a", "plugin liar", "1, instances_per_box"],
            );
            waited += 1;
        } else {
            // Stopped, or given up where the machine is slow.
            let status = if answer.status == 503 { 503 } else { 502 };
            is_refusal("a loop", &answer, status, &["liar"]);
        }
    }
    assert!(waited > 0, "all were served within their time");
    assert_eq!(refused(&world, "instances_per_box", "box").await, waited);
    let request = Request::post("/liar/state").bearer(&world.token);
    assert_eq!(world.send(&request).await.status, 200);
}

#[tokio::test]
async fn a_plugin_whose_instances_are_all_taken_is_busy_and_no_other_is() {
    let limits = "plugin_instances = 64\ninstances_per_plugin = 32\ninstances_per_box = 32\n";
    let (world, other) = two_boxes(limits).await;
    let world = Arc::new(world);
    let mut looping = JoinSet::new();
    for _ in 0..32 {
        let world = Arc::clone(&world);
        looping.spawn(async move {
            let request = Request::post("/liar/loop").bearer(&world.token);
            world.send(&request).await
        });
    }
    assert_eq!(world.send(&messages().bearer(&other)).await.status, 200);
    let mut busy = 0;
    while let Some(answer) = looping.join_next().await {
        let answer = answer.expect("no panic");
        if answer.status == 503 {
            is_over(&answer, 503, &["plugin liar", "instances_per_plugin"]);
            busy += 1;
        }
    }
    assert!(busy > 0, "so many loops are over within their time");
    assert_eq!(
        refused(&world, "instances_per_plugin", "plugin").await,
        busy
    );
    let request = Request::post("/liar/state").bearer(&other);
    assert_eq!(world.send(&request).await.status, 200);
}

#[tokio::test]
async fn what_a_plugin_says_to_the_log_is_bounded_for_a_box_and_in_all() {
    let limits = "log_bytes_per_box = 2000\nlog_bytes_per_plugin = 3000\n";
    let (world, other) = two_boxes(limits).await;
    let say = |token: &str, bytes: usize, key: &str| {
        Request::post(&format!("/clerk/say/{bytes}/{key}")).bearer(token)
    };
    let said = |world: &World| world.home.log().matches(&"s".repeat(1000)).count();
    for key in ["one", "two"] {
        let response = world.send(&say(&world.token, 1000, key)).await;
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let response = world
        .refuses(&say(&world.token, 1000, "three"), 429, &[])
        .await;
    is_over(
        &response,
        429,
        &["plugin clerk", "2000 bytes", "log_bytes_per_box"],
    );
    // Nothing was done, and nothing said.
    let read = Request::post("/clerk/read/three").bearer(&world.token);
    assert_eq!(world.send(&read).await.status, 404);
    assert_eq!(said(&world), 2);
    // Another box has its own, as far as the plugin's goes.
    assert_eq!(world.send(&say(&other, 1000, "one")).await.status, 200);
    let response = world.refuses(&say(&other, 1000, "two"), 503, &[]).await;
    is_over(
        &response,
        503,
        &["plugin clerk", "3000 bytes", "log_bytes_per_plugin"],
    );
    assert_eq!(said(&world), 3);
    // Who says nothing is served.
    let read = Request::post("/clerk/read/one").bearer(&other);
    assert_eq!(world.send(&read).await.status, 200);
    assert_eq!(refused(&world, "log_bytes_per_box", "box").await, 1);
    assert_eq!(refused(&world, "log_bytes_per_plugin", "plugin").await, 1);
}
