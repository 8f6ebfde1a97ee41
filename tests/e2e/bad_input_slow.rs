//! Whoever says too little, too slowly, on too many connections: each is given
//! up in its time, and nobody else waits.

use jackfield_tests::client::Request;
use jackfield_tests::soon;
use jackfield_tests::world::{World, is_refusal, messages};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::bad_input::{hello, ready, takers};

#[tokio::test]
async fn a_head_that_does_not_end_in_its_time_is_a_408() {
    let world = ready("[limits]\nhead_seconds = 1\n").await;
    let mark = world.mark();
    let mut slow = Vec::new();
    for begun in [
        "G",
        "POST /llm/anthropic",
        "POST /llm/anthropic/v1/messages HTTP/1.1\r\n",
        "POST /llm/anthropic/v1/messages HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n",
    ] {
        for after_another in [false, true] {
            let mut client = world.client().await;
            if after_another {
                client.send(&hello()).await;
                assert_eq!(client.response().await.expect("an answer").status, 200);
            }
            client
                .send_bytes(begun.as_bytes())
                .await
                .expect("the host reads");
            slow.push((begun, client));
        }
    }
    for (begun, mut client) in slow {
        let response = client.response().await.expect("an answer");
        assert_eq!(response.status, 408, "{begun:?}");
        assert_eq!(response.fields.all("connection"), ["close"]);
        client.gone().await;
    }
    assert_eq!(world.mark(), mark);
    assert_eq!(world.send(&hello()).await.status, 200);
}

#[tokio::test]
async fn a_body_that_does_not_end_in_its_time_is_a_408_and_others_are_served_meanwhile() {
    for (limits, drips) in [
        ("[limits]\nidle_seconds = 1\n", false),
        ("[limits]\nbody_seconds = 1\n", true),
    ] {
        let world = ready(limits).await;
        for taker in takers() {
            let mark = world.mark();
            let mut client = world.client().await;
            let request = taker
                .request(&world, "")
                .header("content-length", taker.good.len().to_string());
            client.send(&request).await;
            let (first, second) = taker.good.as_bytes().split_at(5);
            client.send_bytes(first).await.expect("the host reads");
            assert_eq!(world.send(&hello()).await.status, 200);
            if drips {
                client
                    .send_bytes(&second[..5])
                    .await
                    .expect("the host reads");
            }
            let response = client.response().await.expect("an answer");
            is_refusal(taker.target, &response, 408, &["too long"]);
            client.gone().await;
            assert_eq!(world.mark(), mark, "{} reached an upstream", taker.target);
            let good = taker.request(&world, taker.good.clone());
            assert_eq!(world.send(&good).await.status, taker.taken);
        }
    }
}

#[tokio::test]
async fn a_body_that_is_handed_on_as_it_comes_may_not_stand_still_either() {
    let world = ready("[limits]\nidle_seconds = 1\n").await;
    let mut client = world.client().await;
    let request = messages_of(&world).header("content-length", "100");
    client.send(&request).await;
    client.send_bytes(b"{").await.expect("the host reads");
    let response = client.response().await.expect("an answer");
    is_refusal("a slow upload", &response, 408, &[]);
    client.gone().await;
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
}

fn messages_of(world: &World) -> Request {
    Request::post("/llm/anthropic/v1/messages").bearer(&world.token)
}

#[tokio::test]
async fn ten_thousand_idle_connections_keep_nobody_out() {
    const IDLE: usize = 10_000;
    let allowed = jackfield_tests::raise_descriptors();
    assert!(
        allowed > 15_000,
        "{allowed} descriptors are too few for this test"
    );
    // They stay for as long as the test wants.
    let world = ready("[limits]\nhead_seconds = 600\n").await;
    let before = world.host().peak_memory();
    let mut idle = open(&world, IDLE).await;
    soon("all are there", async {
        while open_connections(&world).await < IDLE as u64 {}
    })
    .await;
    for _ in 0..3 {
        let response = world.send(&messages().bearer(&world.token)).await;
        assert_eq!(response.status, 200, "{}", response.text());
    }
    let grown = world.host().peak_memory().saturating_sub(before);
    assert!(grown < 320 * 1024 * 1024, "they take {grown} bytes");
    // None of them was given up for the others.
    for stream in idle.iter_mut().step_by(500) {
        assert!(is_open(stream), "it was closed");
    }
    // They end, and nothing is left of them.
    for mut stream in idle {
        stream.shutdown().await.expect("the host reads");
        let mut rest = Vec::new();
        soon("the host closes", stream.read_to_end(&mut rest))
            .await
            .ok();
    }
    soon("all is released", async {
        while open_connections(&world).await > 2 {}
    })
    .await;
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
}

#[tokio::test]
async fn idle_connections_beyond_the_limit_make_room_for_those_that_ask() {
    let world = ready("[limits]\nmax_connections = 50\nhead_seconds = 600\n").await;
    let mark = world.mark();
    let mut idle = open(&world, 200).await;
    for _ in 0..5 {
        assert_eq!(world.send(&hello()).await.status, 200);
    }
    assert!(open_connections(&world).await <= 50);
    // The first to come are gone.
    for stream in &mut idle[..100] {
        soon("the host closes", stream.read_to_end(&mut Vec::new()))
            .await
            .ok();
    }
    assert_eq!(world.mark(), mark);
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
}

#[tokio::test]
async fn connections_that_are_used_are_not_taken_away() {
    let world = ready("[limits]\nmax_connections = 2\n").await;
    world.anthropic.take_over();
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = world.client().await;
        client.send(&messages().bearer(&world.token)).await;
        held.push((client, world.anthropic.next().await));
    }
    // One more waits, and harms nobody.
    let mut waiting = world.client().await;
    waiting.send(&hello()).await;
    for (mut client, mut exchange) in held {
        exchange.body().await.expect("the whole request");
        exchange
            .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .expect("the host reads");
        assert_eq!(client.response().await.expect("an answer").status, 200);
    }
    assert_eq!(waiting.response().await.expect("an answer").status, 200);
}

/// Opens this many connections: most say nothing, some half a head.
async fn open(world: &World, count: usize) -> Vec<TcpStream> {
    let address = world.address();
    let mut opening = JoinSet::new();
    let mut streams = Vec::with_capacity(count);
    for number in 0..count {
        if opening.len() >= 64 {
            let opened = soon("a connection", opening.join_next()).await;
            streams.push(opened.expect("one is opening").expect("no panic"));
        }
        opening.spawn(async move {
            let mut stream = TcpStream::connect(address).await.expect("the host listens");
            if number % 10 == 0 {
                stream.write_all(b"GET / HT").await.expect("the host reads");
            }
            stream
        });
    }
    while let Some(opened) = soon("a connection", opening.join_next()).await {
        streams.push(opened.expect("no panic"));
    }
    streams
}

fn is_open(stream: &TcpStream) -> bool {
    let mut byte = [0];
    match stream.try_read(&mut byte) {
        Ok(count) => count > 0,
        Err(error) => error.kind() == std::io::ErrorKind::WouldBlock,
    }
}

/// How many connections the host says it has.
async fn open_connections(world: &World) -> u64 {
    let metrics = world.home.metrics().await;
    let line = metrics
        .lines()
        .find_map(|line| line.strip_prefix("jackfield_connections_open "));
    line.and_then(|number| number.trim().parse().ok())
        .expect("a number of connections")
}
