//! Leaving: the box, or whoever revokes what it was allowed.

use crate::relay::tests::line::{Line, Upstream, within};
use crate::relay::tests::stage::{Broker, Script, relay};

async fn stage() -> (Upstream, Line, Script, Broker) {
    let upstream = Upstream::start().await;
    let script = Script::to(&upstream.origin());
    let broker = Broker::start(relay(), script.clone()).await;
    let client = Line::connect(broker.address).await;
    (upstream, client, script, broker)
}

/// How the upstream has answered when the box leaves.
const PHASES: [&str; 3] = [
    "",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhi",
];

#[tokio::test]
async fn the_box_leaving_cancels_the_upstream_within_a_second() {
    for said in PHASES {
        for ahead in ["", "G", "GET /next HTTP/1.1\r\nHost: b\r\n\r\n"] {
            let (upstream, mut client, _script, _broker) = stage().await;
            client
                .send(format!(
                    "POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nhi{ahead}"
                ))
                .await;
            let mut line = upstream.accept().await;
            line.head().await;
            line.take(2).await;
            line.send(said).await;
            if !said.is_empty() {
                client.until(b"hi").await;
            }
            drop(client);
            let left = tokio::time::Instant::now();
            line.rest().await;
            assert!(left.elapsed().as_millis() < 1000, "{said:?} {ahead:?}");
        }
    }
}

#[tokio::test]
async fn the_box_leaving_while_it_uploads_cancels_the_upstream() {
    let (upstream, mut client, _script, _broker) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 100\r\n\r\nhi")
        .await;
    let mut line = upstream.accept().await;
    line.head().await;
    line.take(2).await;
    drop(client);
    line.rest().await;
}

#[tokio::test]
async fn a_cut_lease_ends_the_stream_as_broken() {
    for said in &PHASES[1..] {
        let (upstream, mut client, script, _broker) = stage().await;
        client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
        let mut line = upstream.accept().await;
        line.head().await;
        line.send(said).await;
        client.until(b"hi").await;
        script.lease.cancel();
        line.rest().await;
        let (rest, _) = client.rest().await;
        assert!(!rest.windows(3).any(|bytes| bytes == b"0\r\n"), "{rest:?}");
        assert!(rest.len() < 98);
    }
}

#[tokio::test]
async fn a_cut_lease_before_an_answer_is_a_403() {
    let (upstream, mut client, script, _broker) = stage().await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let mut line = upstream.accept().await;
    line.head().await;
    script.lease.cancel();
    line.rest().await;
    assert!(client.head().await.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn a_cut_lease_lets_go_of_the_upstream_although_nobody_reads() {
    let (upstream, mut client, script, _broker) = stage().await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let line = upstream.accept().await;
    line.stream.try_write(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
    client.head().await;
    // Written until nothing moves any more, then a while longer.
    let part = vec![b'x'; 256 * 1024];
    while let Ok(ready) = tokio::time::timeout(
        std::time::Duration::from_millis(300),
        line.stream.writable(),
    )
    .await
    {
        ready.unwrap();
        let _ = line.stream.try_write(&part);
    }
    script.lease.cancel();
    within(line.stream.ready(tokio::io::Interest::PRIORITY))
        .await
        .unwrap();
}

#[tokio::test]
async fn a_cut_lease_ends_an_upload_that_outlives_its_answer() {
    let (upstream, mut client, script, _broker) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 100\r\n\r\nhi")
        .await;
    let mut line = upstream.accept().await;
    line.head().await;
    line.take(2).await;
    line.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        .await;
    client.until(b"hi").await;
    script.lease.cancel();
    line.rest().await;
}

#[tokio::test]
async fn what_is_revoked_before_it_is_sent_is_not_sent() {
    let (upstream, mut client, script, _broker) = stage().await;
    script.lease.cancel();
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    assert!(client.head().await.starts_with("HTTP/1.1 403 "));
    assert!(upstream.is_untouched());
}
