//! What was sealed into a request comes back in no form, and what a box shows
//! for itself reaches no upstream: the bodies of both, through the whole host.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use jackfield_tests::client::{Client, Request};
use jackfield_tests::h2::{self, H2Client};
use jackfield_tests::tap::Tap;
use jackfield_tests::tls::Authority;
use jackfield_tests::upstream::{Reply, Speaks};
use jackfield_tests::wire::Transport;
use jackfield_tests::world::{KEY, VALUE, World, is_refusal, messages};
use serde_json::json;
use tokio::net::TcpSocket;

use crate::world;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).expect("it is in memory");
    encoder.finish().expect("it is in memory")
}

/// The value in every form that the protocol speaks of, and what the box gets.
fn forms(token: &str) -> Vec<(String, String)> {
    let percent: String = VALUE.bytes().map(|byte| format!("%{byte:02X}")).collect();
    vec![
        (VALUE.to_owned(), token.to_owned()),
        (percent.to_lowercase(), token.to_owned()),
        (percent, token.to_owned()),
        (VALUE.replace('/', "\\/"), token.to_owned()),
        (
            VALUE.replace('/', "%2f").replace('+', "%2B"),
            token.to_owned(),
        ),
        (VALUE.replace('/', "\\u002F"), token.to_owned()),
    ]
}

#[tokio::test]
async fn a_body_that_repeats_the_value_repeats_the_token() {
    let world = world().ready().await;
    let request = Request::get("/egress/OPENAI/v1/echo").bearer(&world.token);
    for (form, expected) in forms(&world.token) {
        let (text, expected) = (format!("<{form}>"), format!("<{expected}>"));
        let plain = Reply::status(401).body(text.clone());
        let encoded = Reply::status(401)
            .header("content-encoding", "gzip")
            .header("etag", "\"a\"")
            .body(gzip(text.as_bytes()));
        for reply in [plain, encoded] {
            world.echo.reply(reply);
            let response = world.send(&request).await;
            assert_eq!(response.status, 401);
            assert_eq!(response.text(), expected, "{form}");
            assert!(!response.fields.has("content-encoding"));
        }
    }
    // Inside `Basic` something stays on either side, and none of the value.
    for user in ["", "u:", "us:", "user:"] {
        let basic = format!("Basic {}", STANDARD.encode(format!("{user}{VALUE}:")));
        world.echo.reply(Reply::status(200).body(basic));
        let response = world.send(&request).await;
        assert!(
            response.text().contains(&world.token),
            "{}",
            response.text()
        );
    }
}

#[tokio::test]
async fn the_operator_s_key_comes_back_in_no_error() {
    let world = world().ready().await;
    let said = json!({"type": "error", "error": {"message": format!("invalid x-api-key: {KEY}")}});
    world.anthropic.reply(Reply::json(400, &said));
    let response = world.send(&messages().bearer(&world.token)).await;
    assert_eq!(response.status, 400);
    let message = format!("invalid x-api-key: {}", world.token);
    assert_eq!(response.json()["error"]["message"], json!(message));
}

#[tokio::test]
async fn an_answer_in_an_unknown_coding_is_a_502() {
    let world = world().ready().await;
    let reply = Reply::status(200).header("content-encoding", "compress");
    world.echo.reply(reply.body("xx"));
    let request = Request::get("/egress/OPENAI/v1/x").bearer(&world.token);
    let response = world.send(&request).await;
    is_refusal("compress", &response, 502, &["secret OPENAI", "searched"]);
}

#[tokio::test]
async fn a_token_in_a_body_is_overwritten_on_every_route() {
    let world = world().ready().await;
    let text = format!("{{\"a\":\"{0}\",\"b\":\"{0}\"}}", world.token);
    let masked = text.replace(&world.token, &"*".repeat(world.token.len()));
    for target in ["/egress/OPENAI/v1/x", "/llm/anthropic/v1/messages"] {
        let request = Request::post(target)
            .bearer(&world.token)
            .body(text.clone());
        assert_eq!(world.send(&request).await.status, 200);
        let upstream = if target.starts_with("/egress") {
            &world.echo
        } else {
            &world.anthropic
        };
        let received = upstream.last();
        assert_eq!(received.body, masked, "{target}");
        let length = text.len().to_string();
        assert_eq!(received.fields.all("content-length"), [length]);
    }
}

#[tokio::test]
async fn an_encoded_body_is_searched_and_an_unknown_coding_refused() {
    let world = world().ready().await;
    let target = "/egress/OPENAI/v1/x";
    let encoded = |coding: &str, body: Vec<u8>| {
        let request = Request::post(target).bearer(&world.token);
        request.header("content-encoding", coding).body(body)
    };
    let body = gzip(b"nothing to see");
    assert_eq!(world.send(&encoded("gzip", body.clone())).await.status, 200);
    assert_eq!(world.echo.last().body, body, "byte for byte");

    let before = world.echo.requests().len();
    let body = gzip(format!("see {}", world.token).as_bytes());
    let response = world.send(&encoded("gzip", body)).await;
    is_refusal("a token in gzip", &response, 400, &["token"]);
    assert_eq!(world.echo.requests().len(), before, "none arrived whole");

    let request = encoded("compress", b"xx".to_vec());
    world
        .refuses(&request, 415, &["neither gzip nor deflate"])
        .await;
}

#[tokio::test]
async fn a_body_that_a_plugin_is_shown_may_not_be_encoded() {
    let world = world().ready().await;
    world
        .declare(&world.token, &[("inference", &["decide"])])
        .await;
    let body = gzip(format!("{{\"state\": \"{}\"}}", world.token).as_bytes());
    for (coding, body) in [("gzip", body), ("compress", b"xx".to_vec())] {
        let request = Request::post("/decide/v1/systemone")
            .bearer(&world.token)
            .header("content-encoding", coding)
            .body(body);
        world.refuses(&request, 415, &["content coding"]).await;
    }
}

#[tokio::test]
async fn an_answer_over_http_2_is_searched_too() {
    let authority = Authority::new();
    let world = world()
        .speaks(Speaks::H2(authority.acceptor(&["h2"])))
        .file("ca.pem", authority.pem())
        .upstream("extra_ca = \"ca.pem\"\n")
        .ready()
        .await;
    let text = format!("<{KEY}>");
    for reply in [
        Reply::status(400).body(text.clone()),
        Reply::status(400)
            .header("content-encoding", "gzip")
            .body(gzip(text.as_bytes())),
    ] {
        world.anthropic.reply(reply);
        let mut client = H2Client::connect(world.address()).await;
        let mut response = client
            .send("POST", "/llm/anthropic/v1/messages", &world.token, "{}")
            .await
            .expect("an answer");
        assert!(!response.headers().contains_key("content-encoding"));
        let mut body = Vec::new();
        while let Some(part) = h2::part(&mut response).await.expect("more") {
            body.extend_from_slice(&part);
        }
        assert_eq!(String::from_utf8_lossy(&body), format!("<{}>", world.token));
    }
}

#[tokio::test]
async fn readers_that_never_read_hold_up_nobody() {
    const READERS: usize = 256;
    let world = world()
        .tables("[limits]\nrequests_per_box = 1000\n")
        .ready()
        .await;
    world.echo.take_over();
    let request = Request::get("/egress/OPENAI/v1/big").bearer(&world.token);
    let before = world.host().peak_memory();
    let mut stuck = Vec::new();
    for _ in 0..READERS {
        let mut client = narrow_client(&world).await;
        client.send(&request).await;
        let mut exchange = world.echo.next().await;
        exchange.begin_events().await.expect("the host reads");
        client.head().await.expect("a head");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let flood = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            exchange.flood(64 * 1024 * 1024, stopped).await
        });
        stuck.push((client, stop, flood));
    }
    // One more, which reads, gets all of its answer, the token for the value.
    let mut client = world.client().await;
    client.send(&request).await;
    let mut exchange = world.echo.next().await;
    exchange.begin_events().await.expect("the host reads");
    client.head().await.expect("a head");
    for number in 0..64 {
        let event = format!("data: {number} {VALUE} {}\n\n", "x".repeat(16 * 1024));
        exchange.send_chunk(&event).await.expect("the host reads");
        let expected = event.replace(VALUE, &world.token);
        let read = client.body_bytes(expected.len()).await.expect("an event");
        assert!(read == expected.as_bytes(), "event {number}");
    }
    exchange.send_chunk("").await.expect("the host reads");
    assert_eq!(client.body().await.expect("a clean end"), "");
    let grown = world.host().peak_memory().saturating_sub(before);
    let most = READERS as u64 * 1024 * 1024;
    assert!(grown < most, "the host holds {grown} bytes more");
    for (client, stop, flood) in stuck {
        let _ = stop.send(());
        drop(client);
        let taken = flood.await.expect("no panic");
        assert!(
            taken < 64 * 1024 * 1024,
            "all was taken although nobody reads"
        );
    }
}

/// A box whose system takes in little of what it does not read.
async fn narrow_client(world: &World) -> Client {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a size");
    let stream = socket
        .connect(world.address())
        .await
        .expect("the host listens");
    Client::over(Transport::Plain(stream), world.address(), Tap::default())
}

#[tokio::test]
async fn an_event_leaves_although_its_end_may_begin_the_value() {
    let world: World = world().ready().await;
    world.echo.take_over();
    let mut client = world.client().await;
    client
        .send(&Request::get("/egress/OPENAI/v1/events").bearer(&world.token))
        .await;
    let mut exchange = world.echo.next().await;
    exchange.begin_events().await.expect("the host reads");
    client.head().await.expect("a head");
    let (first, second) = VALUE.split_at(11);
    exchange
        .send_chunk(format!("data: 1\n\n{first}"))
        .await
        .expect("the host reads");
    assert_eq!(client.body_bytes(9).await.expect("an event"), "data: 1\n\n");
    exchange
        .send_chunk(format!("{second}data: 2\n\n"))
        .await
        .expect("the host reads");
    let expected = format!("{}data: 2\n\n", world.token);
    let read = client.body_bytes(expected.len()).await.expect("an event");
    assert_eq!(read, expected.as_bytes());
}
