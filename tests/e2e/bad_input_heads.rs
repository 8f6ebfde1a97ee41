//! Heads that are none, or that could be read in two ways: each gets a status
//! that says so and the connection's end, touches no upstream, and leaves the
//! next request unharmed.

use jackfield_tests::client::Request;
use jackfield_tests::schema;
use jackfield_tests::world::{VALUE, World, messages};

use crate::bad_input::{hello, ready};

/// Sends these bytes and holds what comes back to one of these statuses: with
/// no body, as HTTP itself refuses a head, or with the protocol's own refusal.
async fn refused(world: &World, bytes: &[u8], statuses: &[u16]) {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(90)]).into_owned();
    let mark = world.mark();
    let mut client = world.client().await;
    // A host that refuses early does not read it all.
    let _ = client.send_bytes(bytes).await;
    let response = client
        .response()
        .await
        .unwrap_or_else(|error| panic!("{shown:?}: {error}"));
    assert!(
        statuses.contains(&response.status),
        "{shown:?} … {:?}: {} {}",
        String::from_utf8_lossy(&bytes[bytes.len() - bytes.len().min(60)..]),
        response.status,
        response.text()
    );
    if !response.body.is_empty() {
        schema::holds("refusal", &response.json());
    }
    if [400, 408, 414, 431].contains(&response.status) {
        client.gone().await;
    }
    assert_eq!(world.mark(), mark, "{shown:?} reached an upstream");
    let next = world.send(&hello()).await;
    assert_eq!(next.status, 200, "after {shown:?}");
}

/// A request that would be served, but for these lines.
fn with(world: &World, lines: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST /egress/OPENAI/x HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n",
        world.token
    );
    [head.as_bytes(), lines, b"\r\n\r\n0\r\n\r\n"].concat()
}

#[tokio::test]
async fn a_head_that_is_too_large_is_a_431() {
    let world = ready("").await;
    let long = "x".repeat(1024 * 1024);
    let many = |count: usize| {
        let lines: Vec<String> = (0..count).map(|number| format!("x-{number}: x")).collect();
        lines.join("\r\n")
    };
    refused(
        &world,
        &with(&world, format!("x-long: {long}").as_bytes()),
        &[431],
    )
    .await;
    refused(
        &world,
        &with(&world, format!("{long}: x").as_bytes()),
        &[431],
    )
    .await;
    refused(&world, &with(&world, many(10_000).as_bytes()), &[431]).await;
    refused(&world, &with(&world, many(300).as_bytes()), &[431]).await;
    for start in [
        format!("GET /egress/OPENAI/{long} HTTP/1.1\r\n\r\n"),
        format!("GET /egress/OPENAI/x?{long} HTTP/1.1\r\n\r\n"),
    ] {
        refused(&world, start.as_bytes(), &[414, 431]).await;
    }
    for endless in [
        long.clone(),
        format!("GET / HTTP/1.1\r\nx: {long}"),
        " ".repeat(1024 * 1024),
    ] {
        refused(&world, endless.as_bytes(), &[400, 431]).await;
    }
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
}

#[tokio::test]
async fn what_is_no_request_line_is_a_400() {
    let world = ready("").await;
    for start in [
        &b"GET\r\n\r\n"[..],
        b"nonsense\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET /\r\n",
        b"GET / HTTP/1.1 x\r\n\r\n",
        b"GET / HTP/1.1\r\n\r\n",
        b"GET / http/1.1\r\n\r\n",
        b"GET / HTTP/1.1\0\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET / HTTP/2.0\r\n\r\n",
        b"GET  / HTTP/1.1\r\n\r\n",
        b"GET /a b HTTP/1.1\r\n\r\n",
        b"GET\t/ HTTP/1.1\r\n\r\n",
        b" GET / HTTP/1.1\r\n\r\n",
        b"\"GET\" / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\rx: y\r\n\r\n",
        b"GET \0 HTTP/1.1\r\n\r\n",
        b"GET /\x7f HTTP/1.1\r\n\r\n",
        b"GET egress/OPENAI/x HTTP/1.1\r\n\r\n",
        b"\xff\xfe\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n",
        b"PRI * HTTP/1.1\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2p1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ] {
        refused(&world, start, &[400, 404, 505]).await;
    }
}

#[tokio::test]
async fn a_header_line_that_is_none_is_a_400() {
    let world = ready("").await;
    for line in [
        &b"no colon"[..],
        b": no name",
        b"na me: x",
        b"na\tme: x",
        b"name : x",
        b" folded: x",
        b"x: a\r\n folded",
        b"x: a\0b",
        b"x: a\rb",
        b"x: a\x01b",
        b"x: a\x7fb",
        b"x\0: a",
        b"n\xc3\xa4me: x",
    ] {
        refused(&world, &with(&world, line), &[400]).await;
    }
}

#[tokio::test]
async fn framing_that_is_not_plain_is_refused() {
    let world = ready("").await;
    for framing in [
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: +5",
        "content-length: -1",
        "content-length: x",
        "content-length: 0x5",
        "content-length:",
        "content-length: 5 5",
        "content-length: 18446744073709551616",
        "transfer-encoding: xchunked",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: identity",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "transfer-encoding:",
        "transfer-encoding : chunked",
    ] {
        refused(&world, &with(&world, framing.as_bytes()), &[400, 501]).await;
    }
    let endless = format!("content-length: {}", u64::MAX);
    refused(&world, &with(&world, endless.as_bytes()), &[400, 431]).await;
    // Of a length and chunks the chunks count, and what goes on has one framing.
    for framing in [
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
    ] {
        let mut client = world.client().await;
        let request = with(&world, framing.as_bytes());
        client.send_bytes(&request).await.expect("the host reads");
        assert_eq!(client.response().await.expect("an answer").status, 200);
        let received = world.echo.last();
        assert!(received.body.is_empty(), "{received:?}");
        let framed = ["content-length", "transfer-encoding"];
        let framed = framed.map(|name| received.fields.all(name).len());
        assert_eq!(framed.iter().sum::<usize>(), 1, "{received:?}");
        // Where the two could have meant different ends, the connection has one.
        client.send(&hello()).await;
        if let Ok(next) = client.response().await {
            assert_eq!(next.status, 200);
        }
    }
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
}

#[tokio::test]
async fn a_method_that_nobody_serves_is_a_404() {
    let world = ready("").await;
    let token = &world.token;
    let long = "G".repeat(33);
    for method in ["get", "Foo", "TRACE", "CONNECT", &long, "G_T", "G'T", "1"] {
        for path in ["/egress/OPENAI/x", "/llm/anthropic/v1/messages"] {
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
            );
            // What asks for a tunnel is not even a head with a path.
            let statuses: &[u16] = if method == "CONNECT" {
                &[400, 404]
            } else {
                &[404]
            };
            refused(&world, head.as_bytes(), statuses).await;
        }
    }
}

#[tokio::test]
async fn a_target_in_another_form_leads_to_nobody_else() {
    let world = ready("").await;
    let token = &world.token;
    for target in [
        "*",
        "//evil.test/egress/OPENAI/x",
        "http://evil.test",
        "http://evil.test/",
        "http://evil.test/../egress/OPENAI/x",
        "http://evil.test//egress/OPENAI/x",
        "ftp://evil.test/x",
        "/http://evil.test/egress/OPENAI/x",
    ] {
        let head = format!(
            "GET {target} HTTP/1.1\r\nhost: evil.test\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        refused(&world, head.as_bytes(), &[400, 404]).await;
    }
    for tunnel in [
        "CONNECT evil.test:443",
        "CONNECT 127.0.0.1:1",
        "OPTIONS *",
        "GET evil.test:443",
    ] {
        let head = format!(
            "{tunnel} HTTP/1.1\r\nhost: evil.test\r\nauthorization: Bearer {token}\r\n\r\n"
        );
        refused(&world, head.as_bytes(), &[400, 404]).await;
    }
    // In a proxy's form it is the same request: to the secret's host, with
    // nothing of the host that was named.
    for target in [
        "http://evil.test/egress/OPENAI/v1/x?y=1",
        "https://user:word@evil.test:9/egress/OPENAI/v1/x?y=1",
    ] {
        let request = Request::get(target)
            .bearer(token)
            .header("host", "evil.test");
        assert_eq!(world.send(&request).await.status, 200, "{target}");
        let received = world.echo.last();
        assert_eq!(received.target, "/v1/x?y=1");
        assert_eq!(
            received.fields.all("host"),
            [world.echo.address.to_string()]
        );
        assert_eq!(
            received.fields.all("authorization"),
            [format!("Bearer {VALUE}")]
        );
    }
}

#[tokio::test]
async fn what_follows_a_request_does_not_harm_it() {
    let world = ready("").await;
    for garbage in [
        &b"\0\0\0"[..],
        b"nonsense\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = world.client().await;
        let served = messages().bearer(&world.token).bytes(world.address());
        let both = [&served, garbage].concat();
        client.send_bytes(&both).await.expect("the host reads");
        assert_eq!(client.response().await.expect("an answer").status, 200);
        if let Ok(next) = client.response().await {
            assert!(
                [400, 404, 505].contains(&next.status),
                "{garbage:?}: {}",
                next.status
            );
        }
        client.gone().await;
        assert_eq!(world.send(&hello()).await.status, 200);
    }
}
