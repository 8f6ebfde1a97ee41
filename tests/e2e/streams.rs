//! Streams: bytes and their timing unchanged in both directions, a break that
//! looks like one, and an upstream that learns at once when the box has left.
//! Each step waits for the one before it to have arrived.

use std::time::{Duration, Instant};

use jackfield_tests::client::{Client, Request};
use jackfield_tests::h2::{self, H2Client};
use jackfield_tests::soon;
use jackfield_tests::stand_ins::events;
use jackfield_tests::upstream::Exchange;
use jackfield_tests::world::{World, is_refusal, messages};

use crate::world;

/// How soon an upstream must learn that the box has left.
const A_SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_stream_is_the_same_bytes_wherever_it_is_cut() {
    let world = world().ready().await;
    world.anthropic.take_over();
    let bytes = "event: x\r\ndata: {\"t\":\"北é😀\"}\r\n\r\n: ping\n\ndata: \u{0}\r\r".as_bytes();
    for cut in 1..bytes.len() {
        let (mut client, mut exchange) = streaming(&world).await;
        exchange.begin_events().await.expect("the host reads");
        client.head().await.expect("a head");
        let (before, after) = bytes.split_at(cut);
        exchange.send_chunk(before).await.expect("the host reads");
        // The second part is sent only once the first has arrived.
        let first = client
            .body_bytes(before.len())
            .await
            .expect("the first part");
        assert_eq!(first, before, "cut at {cut}");
        exchange.send_chunk(after).await.expect("the host reads");
        exchange.send_chunk("").await.expect("the host reads");
        let second = client.body().await.expect("a clean end");
        assert_eq!(second, after, "cut at {cut}");
    }
}

#[tokio::test]
async fn each_event_leaves_before_the_next_one_arrives() {
    let world = world().ready().await;
    world.anthropic.take_over();
    let (mut client, mut exchange) = streaming(&world).await;
    exchange.begin_events().await.expect("the host reads");
    // The head does not wait for a body.
    let head = client.head().await.expect("a head");
    assert_eq!(head.status, 200);
    assert_eq!(head.fields.all("content-type"), ["text/event-stream"]);
    assert!(!head.fields.has("content-encoding"), "{:?}", head.fields);
    for event in events("A text of a few words, with pings between. 北") {
        exchange.send_chunk(&event).await.expect("the host reads");
        exchange
            .send_chunk(": ping\n\n")
            .await
            .expect("the host reads");
        let expected = format!("{event}: ping\n\n");
        let arrived = client.body_bytes(expected.len()).await.expect("an event");
        assert_eq!(arrived, expected);
    }
    exchange.send_chunk("").await.expect("the host reads");
    assert_eq!(client.body().await.expect("a clean end"), "");
}

#[tokio::test]
async fn each_event_leaves_at_once_over_http_2_too() {
    let world = world().ready().await;
    world.anthropic.take_over();
    let (mut response, mut exchange) = h2_streaming(&world).await;
    for event in events("Word by word by word.") {
        exchange.send_chunk(&event).await.expect("the host reads");
        let mut arrived = Vec::new();
        while arrived.len() < event.len() {
            let part = h2::part(&mut response).await.expect("an event");
            arrived.extend_from_slice(&part.expect("more"));
        }
        assert_eq!(arrived, event.as_bytes());
    }
    exchange.send_chunk("").await.expect("the host reads");
    assert!(
        h2::part(&mut response)
            .await
            .expect("a clean end")
            .is_none()
    );
}

#[tokio::test]
async fn a_request_s_body_is_sent_on_as_it_arrives() {
    let world = world().ready().await;
    world.echo.take_over();
    let mut client = world.client().await;
    let request = Request::post("/egress/OPENAI/v1/upload")
        .bearer(&world.token)
        .header("transfer-encoding", "chunked");
    client.send(&request).await;
    client.send_chunk(b"part 0").await.expect("the host reads");
    let mut exchange = world.echo.next().await;
    for number in 0..10 {
        let part = format!("part {number}");
        let arrived = exchange.body_bytes(part.len()).await.expect("a part");
        assert_eq!(arrived, part);
        let next = format!("part {}", number + 1);
        client
            .send_chunk(next.as_bytes())
            .await
            .expect("the host reads");
    }
    client.send_chunk(b"").await.expect("the host reads");
    assert_eq!(exchange.body().await.expect("a clean end"), "part 10");
    exchange
        .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await
        .expect("the host reads");
    assert_eq!(client.response().await.expect("an answer").status, 200);
}

#[tokio::test]
async fn an_answer_may_come_before_the_request_has_ended() {
    let world = world().ready().await;
    world.echo.take_over();
    let mut client = world.client().await;
    let request = Request::post("/egress/OPENAI/v1/duplex")
        .bearer(&world.token)
        .header("transfer-encoding", "chunked");
    client.send(&request).await;
    client.send_chunk(b"hello").await.expect("the host reads");
    let mut exchange = world.echo.next().await;
    assert_eq!(exchange.body_bytes(5).await.expect("a part"), "hello");
    exchange.begin_events().await.expect("the host reads");
    exchange
        .send_chunk("data: early\n\n")
        .await
        .expect("the host reads");
    assert_eq!(client.head().await.expect("a head").status, 200);
    assert_eq!(
        client.body_bytes(13).await.expect("an event"),
        "data: early\n\n"
    );
    client.send_chunk(b"more").await.expect("the host reads");
    assert_eq!(exchange.body_bytes(4).await.expect("a part"), "more");
    client.send_chunk(b"").await.expect("the host reads");
    exchange.send_chunk("").await.expect("the host reads");
    assert_eq!(client.body().await.expect("a clean end"), "");
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_seen_as_broken() {
    let world = world().ready().await;
    world.anthropic.take_over();
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let counted = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n";
    for (head, delta) in [
        (chunked, "d\r\ndata: delta\n\n\r\n"),
        (chunked, "20\r\ndata: delta\n\n"),
        (counted, "data: delta\n\n"),
    ] {
        for with_reset in [true, false] {
            let (mut client, mut exchange) = streaming(&world).await;
            exchange.send(head).await.expect("the host reads");
            client.head().await.expect("a head");
            exchange.send(delta).await.expect("the host reads");
            assert_eq!(
                client.body_bytes(13).await.expect("an event"),
                "data: delta\n\n"
            );
            break_off(exchange, with_reset);
            let end = client.body().await;
            assert!(
                end.is_err(),
                "{head:?} {with_reset}: a clean end after {end:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_seen_as_broken_over_http_2() {
    let world = world().ready().await;
    world.anthropic.take_over();
    for with_reset in [true, false] {
        let (mut response, mut exchange) = h2_streaming(&world).await;
        exchange
            .send_chunk("data: delta\n\n")
            .await
            .expect("the host reads");
        let part = h2::part(&mut response).await.expect("an event");
        assert_eq!(part.expect("more"), "data: delta\n\n");
        break_off(exchange, with_reset);
        let end = loop {
            match h2::part(&mut response).await {
                Ok(Some(_)) => {}
                end => break end,
            }
        };
        assert!(end.is_err(), "a clean end");
    }
}

#[tokio::test]
async fn a_break_before_the_answer_s_head_is_a_502() {
    let world = world().ready().await;
    world.anthropic.take_over();
    for with_reset in [true, false] {
        let before = world.anthropic.requests().len();
        let (mut client, mut exchange) = streaming(&world).await;
        exchange.body().await.expect("the whole request");
        break_off(exchange, with_reset);
        let response = client.response().await.expect("an answer");
        is_refusal("a break", &response, 502, &["anthropic"]);
        assert_eq!(world.anthropic.requests().len(), before + 1, "said again");
    }
}

#[tokio::test]
async fn a_request_that_breaks_off_is_seen_as_broken_upstream() {
    let world = world().ready().await;
    world.echo.take_over();
    for framing in [("transfer-encoding", "chunked"), ("content-length", "100")] {
        let mut client = world.client().await;
        let request = Request::post("/egress/OPENAI/v1/upload")
            .bearer(&world.token)
            .header(framing.0, framing.1);
        client.send(&request).await;
        client
            .send_bytes(b"4\r\npart\r\n")
            .await
            .expect("the host reads");
        let mut exchange = world.echo.next().await;
        exchange.part().await.expect("a part");
        client.reset();
        let end = exchange.body().await;
        assert!(end.is_err(), "{framing:?}: a clean end after {end:?}");
    }
}

/// When the box leaves.
#[derive(Debug, Clone, Copy)]
enum Phase {
    BeforeTheHead,
    MidStream,
    MidAnswer,
}

#[tokio::test]
async fn the_box_leaving_cancels_the_upstream_in_every_phase() {
    let world = world().ready().await;
    world.anthropic.take_over();
    for phase in [Phase::BeforeTheHead, Phase::MidStream, Phase::MidAnswer] {
        for pipelined in [&b""[..], b"G", b"\r\n"] {
            for with_reset in [true, false] {
                let (mut client, mut exchange) = streaming(&world).await;
                exchange.body().await.expect("the whole request");
                reach(phase, &mut client, &mut exchange).await;
                if !pipelined.is_empty() {
                    client.send_bytes(pipelined).await.expect("the host reads");
                }
                let left = Instant::now();
                match with_reset {
                    true => client.reset(),
                    false => drop(client),
                }
                soon("the upstream is left", exchange.gone()).await;
                let took = left.elapsed();
                assert!(
                    took < A_SECOND,
                    "{phase:?} {pipelined:?} {with_reset}: {took:?}"
                );
            }
        }
    }
}

#[tokio::test]
async fn a_box_that_leaves_over_http_2_cancels_the_upstream() {
    let world = world().ready().await;
    world.anthropic.take_over();
    // One stream of a connection that stays.
    let mut client = H2Client::connect(world.address()).await;
    let (response, mut exchange) = h2_streaming_on(&mut client, &world).await;
    let left = Instant::now();
    drop(response);
    soon("the upstream is left", exchange.gone()).await;
    assert!(left.elapsed() < A_SECOND, "{:?}", left.elapsed());

    // Before the head.
    let mut waiting = client.clone();
    let token = world.token.clone();
    let call = tokio::spawn(async move {
        let target = "/llm/anthropic/v1/messages";
        waiting.send("POST", target, &token, "{}").await.map(|_| ())
    });
    let mut exchange = world.anthropic.next().await;
    let left = Instant::now();
    call.abort();
    soon("the upstream is left", exchange.gone()).await;
    assert!(left.elapsed() < A_SECOND, "{:?}", left.elapsed());
}

#[tokio::test]
async fn a_reader_that_does_not_read_holds_up_only_itself() {
    let world = world().ready().await;
    world.echo.take_over();
    let mut stuck = world.client().await;
    stuck
        .send(&Request::get("/egress/OPENAI/v1/big").bearer(&world.token))
        .await;
    let mut exchange = world.echo.next().await;
    exchange.begin_events().await.expect("the host reads");
    stuck.head().await.expect("a head");
    let before = world.host().peak_memory();

    // While nobody reads it, the flood stops; everybody else is served.
    let most = 256 * 1024 * 1024;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let flood = tokio::spawn(async move {
        let taken = exchange
            .flood(most, async {
                let _ = stopped.await;
            })
            .await;
        (taken, exchange)
    });
    for _ in 0..50 {
        let response = world.send(&messages().bearer(&world.token)).await;
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let _ = stop.send(());
    let (taken, exchange) = soon("the flood stops", flood).await.expect("no panic");
    assert!(
        taken < most,
        "all {taken} bytes were taken although nobody reads"
    );
    let grown = world.host().peak_memory().saturating_sub(before);
    assert!(
        grown < 48 * 1024 * 1024,
        "the host holds {grown} bytes more"
    );
    drop(exchange);
}

#[tokio::test]
async fn unread_streams_do_not_hold_up_the_others_of_their_connection() {
    let world = world().ready().await;
    world.anthropic.take_over();
    let mut client = H2Client::connect(world.address()).await;
    let mut held = Vec::new();
    for _ in 0..8 {
        let (response, mut exchange) = h2_streaming_on(&mut client, &world).await;
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let flood = tokio::spawn(async move {
            let most = 64 * 1024 * 1024;
            exchange
                .flood(most, async {
                    let _ = stopped.await;
                })
                .await
        });
        held.push((response, stop, flood));
    }
    // All eight are stuck or on their way to it; a ninth goes through.
    let (mut response, mut exchange) = h2_streaming_on(&mut client, &world).await;
    for number in 0..20 {
        let event = format!("data: {number}\n\n");
        exchange.send_chunk(&event).await.expect("the host reads");
        let part = h2::part(&mut response).await.expect("an event");
        assert_eq!(part.expect("more"), event);
    }
    for (response, stop, flood) in held {
        let _ = stop.send(());
        drop(response);
        soon("the flood ends", flood).await.expect("no panic");
    }
}

#[tokio::test]
async fn a_stream_that_stands_still_is_cut_and_one_that_flows_is_not() {
    let idle = Duration::from_secs(1);
    let world = world().tables("[limits]\nidle_seconds = 1\n").ready().await;
    world.anthropic.take_over();
    let (mut client, mut exchange) = streaming(&world).await;
    exchange.begin_events().await.expect("the host reads");
    client.head().await.expect("a head");
    // Pings for longer than the limit: there is none on the whole.
    let started = Instant::now();
    while started.elapsed() < idle + idle / 2 {
        exchange
            .send_chunk(": ping\n\n")
            .await
            .expect("the host reads");
        assert_eq!(client.body_bytes(8).await.expect("a ping"), ": ping\n\n");
    }
    // Then nothing: the box sees a break, and the upstream is left.
    assert!(client.body().await.is_err(), "a clean end");
    soon("the upstream is left", exchange.gone()).await;

    // An upstream that never answers is given up too, in words.
    let (mut client, mut exchange) = streaming(&world).await;
    let response = client.response().await.expect("an answer");
    is_refusal("no answer", &response, 504, &["anthropic"]);
    soon("the upstream is left", exchange.gone()).await;
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_seen_as_broken_over_http_1_0() {
    let world = world().ready().await;
    world.anthropic.take_over();
    let mut client = world.client().await;
    let request = messages().bearer(&world.token);
    let bytes = request.bytes(world.address());
    let old = String::from_utf8_lossy(&bytes).replacen("HTTP/1.1", "HTTP/1.0", 1);
    client
        .send_bytes(old.as_bytes())
        .await
        .expect("the host reads");
    let mut exchange = world.anthropic.next().await;
    exchange.begin_events().await.expect("the host reads");
    let head = client.head().await.expect("a head");
    assert!(!head.fields.has("transfer-encoding"), "it knows no chunks");
    exchange
        .send_chunk("data: delta\n\n")
        .await
        .expect("the host reads");
    assert_eq!(
        client.body_bytes(13).await.expect("an event"),
        "data: delta\n\n"
    );
    // The connection's end is the answer's: a break must not look like one.
    exchange.reset();
    assert!(client.body().await.is_err(), "a clean end");
}

#[tokio::test]
async fn the_streams_of_a_removed_box_are_cut() {
    let world = world().ready().await;
    world.anthropic.take_over();
    let (mut client, mut exchange) = streaming(&world).await;
    exchange.begin_events().await.expect("the host reads");
    client.head().await.expect("a head");
    exchange
        .send_chunk("data: one\n\n")
        .await
        .expect("the host reads");
    assert_eq!(
        client.body_bytes(11).await.expect("an event"),
        "data: one\n\n"
    );
    world.command(&["box", "remove", "box-a"], "").await.ok();
    let removed = Instant::now();
    assert!(client.body().await.is_err(), "a clean end");
    soon("the upstream is left", exchange.gone()).await;
    assert!(removed.elapsed() < A_SECOND, "{:?}", removed.elapsed());
}

async fn streaming(world: &World) -> (Client, Exchange) {
    let mut client = world.client().await;
    client.send(&messages().bearer(&world.token)).await;
    (client, world.anthropic.next().await)
}

async fn h2_streaming(world: &World) -> (http::Response<hyper::body::Incoming>, Exchange) {
    let mut client = H2Client::connect(world.address()).await;
    h2_streaming_on(&mut client, world).await
}

/// A Messages call over HTTP/2 whose answer has begun.
async fn h2_streaming_on(
    client: &mut H2Client,
    world: &World,
) -> (http::Response<hyper::body::Incoming>, Exchange) {
    let answer = async {
        let mut exchange = world.anthropic.next().await;
        exchange.begin_events().await.expect("the host reads");
        exchange
    };
    let call = client.send("POST", "/llm/anthropic/v1/messages", &world.token, "{}");
    let (response, exchange) = tokio::join!(call, answer);
    let response = response.expect("an answer");
    assert_eq!(response.status(), 200);
    (response, exchange)
}

async fn reach(phase: Phase, client: &mut Client, exchange: &mut Exchange) {
    let head = match phase {
        Phase::BeforeTheHead => return,
        Phase::MidStream => "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        Phase::MidAnswer => "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello",
    };
    exchange.send(head).await.expect("the host reads");
    client.head().await.expect("a head");
    assert_eq!(client.body_bytes(5).await.expect("a part"), "hello");
}

fn break_off(exchange: Exchange, with_reset: bool) {
    match with_reset {
        true => exchange.reset(),
        false => drop(exchange),
    }
}
