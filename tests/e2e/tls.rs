//! TLS on both sides, and HTTP/2 towards an upstream that speaks nothing else.

use http_body_util::BodyExt;
use jackfield_tests::client::Client;
use jackfield_tests::h2::H2Client;
use jackfield_tests::tap::Tap;
use jackfield_tests::tls::Authority;
use jackfield_tests::upstream::Speaks;
use jackfield_tests::wire::Transport;
use jackfield_tests::world::{KEY, World, is_refusal, messages};

use crate::world;

#[tokio::test]
async fn an_upstream_under_tls_is_reached_when_its_authority_is_known() {
    let authority = Authority::new();
    let world = world()
        .speaks(Speaks::Tls(authority.acceptor(&["http/1.1"])))
        .file("ca.pem", authority.pem())
        .upstream("extra_ca = \"ca.pem\"\n")
        .ready()
        .await;
    for _ in 0..3 {
        reached(&world).await;
    }
    assert_eq!(world.anthropic.connections(), 1, "the connection is kept");
}

#[tokio::test]
async fn an_upstream_that_speaks_only_http_2_is_reached() {
    let authority = Authority::new();
    let world = world()
        .speaks(Speaks::H2(authority.acceptor(&["h2"])))
        .file("ca.pem", authority.pem())
        .upstream("extra_ca = \"ca.pem\"\n")
        .ready()
        .await;
    for _ in 0..3 {
        reached(&world).await;
    }
}

#[tokio::test]
async fn an_upstream_whose_authority_nobody_knows_is_not_spoken_to() {
    let (authority, other) = (Authority::new(), Authority::new());
    for lines in ["", "extra_ca = \"ca.pem\"\n"] {
        let world = world()
            .speaks(Speaks::Tls(authority.acceptor(&["http/1.1"])))
            .file("ca.pem", other.pem())
            .upstream(lines)
            .ready()
            .await;
        let response = world.send(&messages().bearer(&world.token)).await;
        is_refusal("an unknown authority", &response, 502, &["anthropic"]);
        assert!(world.anthropic.requests().is_empty(), "it heard a request");
    }
}

#[tokio::test]
async fn boxes_may_come_under_tls() {
    let authority = Authority::new();
    let (certificate, key) = authority.issue();
    let world = world()
        .file("cert.pem", certificate)
        .file("key.pem", key)
        .tables("[tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n")
        .start()
        .await;
    assert!(
        world.host().url.starts_with("https://"),
        "{}",
        world.host().url
    );
    let token = world.add_box("box-a").await;

    let stream = authority.connect(world.address(), &["http/1.1"]).await;
    let mut client = Client::over(
        Transport::Tls(Box::new(stream)),
        world.address(),
        Tap::default(),
    );
    client.send(&messages().bearer(&token)).await;
    let response = client.response().await.expect("an answer");
    is_refusal("a box that never reported", &response, 403, &["inference"]);

    let stream = authority
        .connect(world.address(), &["h2", "http/1.1"])
        .await;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = H2Client::over(stream, world.address()).await;
    let response = client
        .send("POST", "/llm/anthropic/v1/messages", &token, "{}")
        .await
        .expect("an answer");
    assert_eq!(response.status(), 403);
    let body = response
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    assert!(body.starts_with(b"{"), "{body:?}");
}

async fn reached(world: &World) {
    let request = messages().bearer(&world.token);
    let response = world.send(&request).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let received = world.anthropic.last();
    assert_eq!(received.target, "/v1/messages");
    assert_eq!(received.body, request.body);
    assert_eq!(received.fields.all("x-api-key"), [KEY]);
}
