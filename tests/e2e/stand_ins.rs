//! The stand-ins by themselves, with no host between: what the other tests
//! rest on holds.

use jackfield_tests::client::{Client, Request};
use jackfield_tests::schema;
use jackfield_tests::stand_ins::{self, MODEL};
use jackfield_tests::tap::{Tap, Taps};
use jackfield_tests::tls::Authority;
use jackfield_tests::upstream::{Reply, Speaks, Upstream};
use jackfield_tests::wire::Transport;
use jackfield_tests::world::messages;
use serde_json::json;

async fn upstream() -> Upstream {
    Upstream::start(stand_ins::anthropic, Speaks::Plain, Taps::default()).await
}

async fn client(upstream: &Upstream) -> Client {
    Client::connect(upstream.address, Tap::default())
        .await
        .expect("it listens")
}

#[tokio::test]
async fn an_upstream_records_bytes_and_counts_connections() {
    let upstream = upstream().await;
    for number in 1..=2 {
        let mut client = client(&upstream).await;
        for _ in 0..2 {
            let request = Request {
                target: "/v1/messages?a=%2f&&b".to_owned(),
                ..messages()
            };
            client
                .send(&request.header("X-A", b"1").header("x-a", b"\xff"))
                .await;
            let response = client.response().await.expect("an answer");
            assert_eq!(response.status, 200);
            assert_eq!(response.json()["model"], MODEL);
        }
        assert_eq!(upstream.connections(), number);
    }
    assert_eq!(upstream.requests().len(), 4);
    let received = upstream.last();
    assert_eq!(received.target, "/v1/messages?a=%2f&&b");
    assert_eq!(received.connection, 2);
    let lines: Vec<_> = received
        .fields
        .0
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("x-a"))
        .collect();
    assert_eq!(
        lines,
        [
            &("X-A".to_owned(), b"1".to_vec()),
            &("x-a".to_owned(), b"\xff".to_vec())
        ]
    );
}

#[tokio::test]
async fn a_test_holds_a_stream_in_its_hand() {
    let upstream = upstream().await;
    upstream.take_over();
    let mut client = client(&upstream).await;
    let request = Request {
        target: "/x".to_owned(),
        ..messages()
    };
    client.send(&request).await;
    let mut exchange = upstream.next().await;
    assert_eq!(exchange.body().await.expect("a body"), request.body);
    exchange.begin_events().await.expect("taken");
    assert_eq!(client.head().await.expect("a head").status, 200);
    for event in ["data: one\n\n", "data: two\n\n"] {
        exchange.send_chunk(event).await.expect("taken");
        assert_eq!(
            client.body_bytes(event.len()).await.expect("an event"),
            event
        );
    }
    exchange.reset();
    assert!(client.body().await.is_err(), "a reset is no clean end");
}

#[tokio::test]
async fn a_client_tells_every_break_from_an_end() {
    let upstream = upstream().await;
    let head = "HTTP/1.1 200 OK\r\n";
    for (raw, clean) in [
        (format!("{head}content-length: 2\r\n\r\nok"), true),
        (format!("{head}content-length: 3\r\n\r\nok"), false),
        (
            format!("{head}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"),
            true,
        ),
        (
            format!("{head}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nx-t: 1\r\n\r\n"),
            true,
        ),
        (
            format!("{head}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"),
            false,
        ),
        (
            format!("{head}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n"),
            false,
        ),
        (
            format!("{head}transfer-encoding: chunked\r\n\r\n3\r\nok"),
            false,
        ),
        (format!("{head}\r\nok"), true),
        (head.to_owned(), false),
        (String::new(), false),
    ] {
        upstream.reply(Reply::Raw(raw.clone().into_bytes()));
        let mut client = client(&upstream).await;
        client.send(&Request::get("/x")).await;
        let response = client.response().await;
        assert_eq!(response.is_ok(), clean, "{raw:?}: {response:?}");
        if let Ok(response) = response {
            assert_eq!(response.text(), "ok");
        }
    }
}

#[tokio::test]
async fn an_upstream_notices_that_its_peer_has_left() {
    let upstream = upstream().await;
    upstream.take_over();
    for with_reset in [true, false] {
        let mut client = client(&upstream).await;
        client.send(&Request::get("/x")).await;
        let mut exchange = upstream.next().await;
        match with_reset {
            true => client.reset(),
            false => drop(client),
        }
        jackfield_tests::soon("it is noticed", exchange.gone()).await;
    }
}

#[tokio::test]
async fn tls_and_http_2_are_spoken_for_loopback() {
    let authority = Authority::new();
    let tls = Upstream::start(
        stand_ins::echo,
        Speaks::Tls(authority.acceptor(&["http/1.1"])),
        Taps::default(),
    )
    .await;
    let stream = authority.connect(tls.address, &["http/1.1"]).await;
    let mut client = Client::over(
        Transport::Tls(Box::new(stream)),
        tls.address,
        Tap::default(),
    );
    client.send(&Request::get("/x").bearer("t")).await;
    let response = client.response().await.expect("an answer");
    assert_eq!(response.fields.all("x-echo-authorization"), ["Bearer t"]);

    let speaks = Speaks::H2(authority.acceptor(&["h2"]));
    let h2 = Upstream::start(stand_ins::anthropic, speaks, Taps::default()).await;
    let stream = authority.connect(h2.address, &["h2"]).await;
    let mut client = jackfield_tests::h2::H2Client::over(stream, h2.address).await;
    let response = client
        .send("POST", "/v1/messages/count_tokens?x=1", "t", "{}")
        .await
        .expect("an answer");
    assert_eq!(response.status(), 200);
    assert_eq!(h2.last().target, "/v1/messages/count_tokens?x=1");
    assert_eq!(h2.last().fields.all("authorization"), ["Bearer t"]);
}

#[test]
fn the_schema_tells_right_from_wrong() {
    let kept =
        json!({"capabilities": [{"name": "a", "broker": "lobby", "scope": ["w"]}], "at": "now"});
    schema::holds("declarationKept", &kept);
    let refusal = json!({"type": "error", "error": {"type": "x", "message": "m"}});
    schema::holds("refusal", &refusal);
    for (definition, body) in [
        ("declarationKept", json!({"capabilities": []})),
        (
            "declarationKept",
            json!({"capabilities": [{"name": "A", "broker": "b", "scope": []}], "at": "x"}),
        ),
        ("refusal", json!({"error": {"message": ""}})),
        ("refusal", json!({})),
        ("payer", json!({"kind": "someone"})),
    ] {
        let held = std::panic::catch_unwind(|| schema::holds(definition, &body));
        assert!(held.is_err(), "{body} was taken for a {definition}");
    }
}
