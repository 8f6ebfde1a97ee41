//! Bodies: every byte, in its time, and an end that means what it says.

use http::StatusCode;

use crate::relay::tests::line::{Line, Upstream, field, within};
use crate::relay::tests::stage::{Broker, Script, relay, relay_with};
use crate::relay::{PoolLimits, RelaySettings};

async fn stage() -> (Upstream, Line) {
    let upstream = Upstream::start().await;
    let broker = Broker::start(relay(), Script::to(&upstream.origin())).await;
    (upstream, Line::connect(broker.address).await)
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
                       Transfer-Encoding: chunked\r\n\r\n";

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

#[tokio::test]
async fn every_split_of_an_event_arrives_as_it_was_written() {
    let event = "data: {\"t\":\"北é\"}\r\n\r\n: ping\n\n".as_bytes();
    let (upstream, mut client) = stage().await;
    let mut line = None;
    for split in 1..event.len() {
        client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
        let mut on = match line.take() {
            Some(line) => line,
            None => upstream.accept().await,
        };
        on.head().await;
        on.send(CHUNKED).await;
        client.head().await;
        let (first, second) = event.split_at(split);
        on.send(chunk(first)).await;
        assert_eq!(client.chunk().await.unwrap(), first, "at {split}");
        on.send(chunk(second)).await;
        assert_eq!(client.chunk().await.unwrap(), second, "at {split}");
        on.send("0\r\n\r\n").await;
        assert_eq!(client.chunk().await, None);
        client.take(2).await;
        line = Some(on);
    }
    assert!(upstream.is_untouched(), "one connection carried them all");
}

#[tokio::test]
async fn each_event_leaves_before_the_next_is_written() {
    let (upstream, mut client) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n")
        .await;
    let mut line = upstream.accept().await;
    line.head().await;
    line.send(CHUNKED).await;
    let head = client.head().await;
    assert_eq!(field(&head, "content-type"), ["text/event-stream"]);
    for event in ["data: 1\n\n", ": ping\n\n", "data: 2\n\n"] {
        line.send(chunk(event.as_bytes())).await;
        assert_eq!(client.chunk().await.unwrap(), event.as_bytes());
    }
    line.send("0\r\n\r\n").await;
    assert_eq!(client.chunk().await, None);
}

#[tokio::test]
async fn each_part_of_an_upload_leaves_before_the_next_is_sent() {
    let (upstream, mut client) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let mut line = upstream.accept().await;
    line.head().await;
    for part in ["one", "two"] {
        client.send(chunk(part.as_bytes())).await;
        assert_eq!(line.chunk().await.unwrap(), part.as_bytes());
    }
    client.send("0\r\n\r\n").await;
    assert_eq!(line.chunk().await, None);
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_seen_as_broken() {
    // Chunked, of known length, and ended by closing: each by reset, the
    // first two also by a plain close.
    for (head, by_reset) in [
        (CHUNKED, true),
        (CHUNKED, false),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", false),
        ("HTTP/1.1 200 OK\r\n\r\n", true),
    ] {
        for version in ["1.1", "1.0"] {
            let (upstream, mut client) = stage().await;
            client
                .send(format!("GET / HTTP/{version}\r\nHost: b\r\n\r\n"))
                .await;
            let mut line = upstream.accept().await;
            line.head().await;
            line.send(head).await;
            if head == CHUNKED {
                line.send(chunk(b"delta")).await;
            } else {
                line.send("delta").await;
            }
            let answer = client.head().await;
            client.until(b"delta").await;
            if by_reset {
                line.reset();
            } else {
                drop(line);
            }
            let (rest, clean) = client.rest().await;
            let rest = String::from_utf8(rest).unwrap();
            assert!(!rest.contains("0\r\n"), "{version} {head:?}: {rest:?}");
            let framed = !field(&answer, "transfer-encoding").is_empty()
                || !field(&answer, "content-length").is_empty();
            assert!(framed || !clean, "{version} {head:?} looks whole");
        }
    }
}

#[tokio::test]
async fn an_answer_that_ends_by_closing_ends_cleanly() {
    let (upstream, mut client) = stage().await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let mut line = upstream.accept().await;
    line.head().await;
    line.send("HTTP/1.1 200 OK\r\n\r\nall of it").await;
    drop(line);
    client.head().await;
    assert_eq!(client.chunks().await, b"all of it");
}

#[tokio::test]
async fn silence_is_limited_and_pings_end_it() {
    let upstream = Upstream::start().await;
    let settings = RelaySettings {
        idle: std::time::Duration::from_secs(1),
        ..RelaySettings::default()
    };
    let broker = Broker::start(relay_with(settings), Script::to(&upstream.origin())).await;

    // Before the head.
    let mut client = Line::connect(broker.address).await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let mut line = upstream.accept().await;
    line.head().await;
    assert!(client.head().await.starts_with("HTTP/1.1 504 "));
    line.rest().await;

    // In the middle; pings for longer than the limit come first.
    let mut client = Line::connect(broker.address).await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let mut line = upstream.accept().await;
    line.head().await;
    line.send(CHUNKED).await;
    client.head().await;
    let mut pause = tokio::time::interval(std::time::Duration::from_millis(100));
    for _ in 0..12 {
        pause.tick().await;
        line.send(chunk(b": ping\n\n")).await;
        assert_eq!(client.chunk().await.unwrap(), b": ping\n\n");
    }
    let (rest, _) = client.rest().await;
    assert!(rest.is_empty(), "no last chunk");
    line.rest().await;
}

#[tokio::test]
async fn an_upload_that_moves_is_no_silence() {
    let upstream = Upstream::start().await;
    let settings = RelaySettings {
        idle: std::time::Duration::from_secs(1),
        ..RelaySettings::default()
    };
    let broker = Broker::start(relay_with(settings), Script::to(&upstream.origin())).await;
    let mut client = Line::connect(broker.address).await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let mut line = upstream.accept().await;
    line.head().await;
    let mut pause = tokio::time::interval(std::time::Duration::from_millis(100));
    for _ in 0..12 {
        pause.tick().await;
        client.send(chunk(b"part")).await;
        assert_eq!(line.chunk().await.unwrap(), b"part");
    }
    line.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn an_early_answer_arrives_while_the_upload_goes_on() {
    let (upstream, mut client) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    client.send(chunk(b"one")).await;
    let mut line = upstream.accept().await;
    line.head().await;
    line.chunk().await;
    line.send(CHUNKED).await;
    line.send(chunk(b"early")).await;
    client.head().await;
    assert_eq!(client.chunk().await.unwrap(), b"early");
    client.send(chunk(b"two")).await;
    assert_eq!(line.chunk().await.unwrap(), b"two");
    client.send("0\r\n\r\n").await;
    assert_eq!(line.chunk().await, None);
    line.send("0\r\n\r\n").await;
    assert_eq!(client.chunk().await, None);
}

#[tokio::test]
async fn an_early_refusal_arrives_although_the_upstream_stopped_reading() {
    for _ in 0..5 {
        let (upstream, mut client) = stage().await;
        client
            .send("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 50000000\r\n\r\n")
            .await;
        let (reading, writing) = client.stream.into_split();
        let feed = tokio::spawn(async move {
            let part = vec![b'x'; 64 * 1024];
            while writing.writable().await.is_ok() {
                match writing.try_write(&part) {
                    Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
                    Ok(_) | Err(_) => {}
                }
            }
        });
        let mut line = upstream.accept().await;
        line.head().await;
        line.send("HTTP/1.1 413 No\r\nContent-Length: 3\r\nConnection: close\r\n\r\nbig")
            .await;
        // Closing with bytes unread makes the system reset the connection.
        drop(line);
        let mut answer = Vec::new();
        let mut buffer = [0; 1024];
        while !answer.ends_with(b"0\r\n\r\n") {
            within(reading.readable()).await.unwrap();
            match reading.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => answer.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
        assert!(answer.contains("\r\nbig\r\n"), "{answer}");
        feed.abort();
    }
}

#[tokio::test]
async fn a_large_body_streams_through_unread_buffers() {
    let (upstream, mut client) = stage().await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let mut line = upstream.accept().await;
    line.head().await;
    let size = 8 * 1024 * 1024;
    line.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n"))
        .await;
    let body: Vec<u8> = (0..=250).cycle().take(size).collect();
    let sent = body.clone();
    let sender = tokio::spawn(async move {
        line.send(sent).await;
        line
    });
    client.head().await;
    assert!(client.chunks().await == body);
    within(sender).await.unwrap();
}

#[tokio::test]
async fn an_upload_is_held_back_by_an_upstream_that_does_not_read() {
    let (upstream, mut client) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 200000000\r\n\r\n")
        .await;
    let mut line = upstream.accept().await;
    line.head().await;
    // Neither buffers nor sockets take in 200 MB: at some point it stands
    // still, and goes on when the upstream reads.
    let part = vec![b'x'; 1024 * 1024];
    let mut sent = 0;
    loop {
        let stuck = std::time::Duration::from_millis(500);
        let mut at = 0;
        while at < part.len() {
            match tokio::time::timeout(stuck, client.stream.writable()).await {
                Ok(ready) => ready.unwrap(),
                Err(_) => break,
            }
            match client.stream.try_write(&part[at..]) {
                Ok(written) => at += written,
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
        sent += at;
        if at < part.len() {
            break;
        }
        assert!(sent < 100_000_000, "it is buffered without a limit");
    }
    line.take(sent).await;
}

#[tokio::test]
async fn a_body_that_breaks_off_reaches_nobody_as_whole() {
    let (upstream, mut client) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n")
        .await;
    let mut line = upstream.accept().await;
    line.head().await;
    assert_eq!(line.chunk().await.unwrap(), b"hi");
    drop(client);
    let (rest, _) = line.rest().await;
    assert!(rest.is_empty(), "no last chunk: {rest:?}");
}

#[tokio::test]
async fn expect_is_answered_once_the_upstream_is_there() {
    let (upstream, mut client) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .await;
    let mut line = upstream.accept().await;
    let head = line.head().await;
    assert!(field(&head, "expect").is_empty(), "{head}");
    assert_eq!(client.head().await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hi").await;
    assert_eq!(line.take(2).await, b"hi");
    line.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn expect_gets_the_refusal_in_place_of_100() {
    let upstream = Upstream::start().await;
    let mut script = Script::to(&upstream.origin());
    script.destination.allow_private = false;
    let broker = Broker::start(relay(), script).await;
    let mut client = Line::connect(broker.address).await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .await;
    let head = client.head().await;
    let status = StatusCode::FORBIDDEN.as_u16();
    assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    assert_eq!(field(&head, "connection"), ["close"]);
    let (_, clean) = client.rest().await;
    assert!(clean);
    assert!(upstream.is_untouched());
}

#[tokio::test]
async fn limits_have_defaults_that_leave_streams_their_share() {
    let limits = PoolLimits::default();
    let whole = u64::from(limits.stream_window) * u64::from(limits.streams);
    assert!(whole <= i32::MAX as u64);
}
