//! Limits on heads and connections, and whom they concern.

use jackfield_tests::client::Request;
use jackfield_tests::world::messages;

use crate::world;

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_unread() {
    let world = world().ready().await;
    let mark = world.mark();
    let long = "x".repeat(1024 * 1024);
    let many = (0..2_000).fold(messages().bearer(&world.token), |request, number| {
        request.header(&format!("x-{number}"), "x")
    });
    for request in [
        messages().bearer(&world.token).header("x-long", &long),
        Request::post(&format!("/llm/anthropic/v1/messages?{long}")).bearer(&world.token),
        many,
    ] {
        let Ok(response) = world.try_send(&request).await else {
            continue; // Closed before an answer could be read: refused as well.
        };
        assert!(
            [400, 414, 431].contains(&response.status),
            "{}",
            response.status
        );
    }
    assert_eq!(world.mark(), mark, "a request reached an upstream");
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
}

#[tokio::test]
async fn a_head_that_is_none_is_a_400() {
    let world = world().ready().await;
    let mark = world.mark();
    let token = &world.token;
    for head in [
        "GET\r\n\r\n".to_owned(),
        "nonsense\r\n\r\n".to_owned(),
        "GET /llm/anthropic/api/hello HTTP/1.1\r\nbad header\r\n\r\n".to_owned(),
        "GET /llm/anthropic/api/hello HTTP/1.1\r\nna me: x\r\n\r\n".to_owned(),
        "GET /llm/anthropic/api/hello HTTP/9.9\r\n\r\n".to_owned(),
        "GET /llm/anthropic/api/hello HTTP/1.1\r\n folded: x\r\n\r\n".to_owned(),
        format!(
            "POST /egress/OPENAI/x HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\nx: a\0b\r\n\r\n"
        ),
        format!(
            "POST /egress/OPENAI/x HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\ncontent-length: x\r\n\r\n"
        ),
        format!(
            "POST /egress/OPENAI/a b HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\r\n"
        ),
    ] {
        let mut client = world.client().await;
        client
            .send_bytes(head.as_bytes())
            .await
            .expect("the host reads");
        if let Ok(response) = client.response().await {
            assert!(
                [400, 505].contains(&response.status),
                "{head:?}: {}",
                response.status
            );
        }
    }
    assert_eq!(world.mark(), mark, "a request reached an upstream");
}

#[tokio::test]
async fn connections_that_say_nothing_hold_up_nobody() {
    let world = world().ready().await;
    let mut silent = Vec::new();
    for number in 0..200 {
        let mut client = world.client().await;
        if number % 2 == 0 {
            client
                .send_bytes(b"POST /llm/anthropic")
                .await
                .expect("the host reads");
        }
        silent.push(client);
    }
    for _ in 0..5 {
        assert_eq!(
            world.send(&messages().bearer(&world.token)).await.status,
            200
        );
    }
    drop(silent);
}

#[tokio::test]
async fn a_head_that_does_not_arrive_in_its_time_is_given_up() {
    let world = world().tables("[limits]\nhead_seconds = 1\n").ready().await;
    for begun in [
        &b""[..],
        b"P",
        b"POST /llm/anthropic",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        let mut client = world.client().await;
        if !begun.is_empty() {
            client.send_bytes(begun).await.expect("the host reads");
        }
        client.gone().await;
    }
    // And one that begins its second request, but does not end it.
    let mut client = world.client().await;
    client.send(&messages().bearer(&world.token)).await;
    assert_eq!(client.response().await.expect("an answer").status, 200);
    client
        .send_bytes(b"POST /llm")
        .await
        .expect("the host reads");
    client.gone().await;
}

#[tokio::test]
async fn a_box_has_so_many_requests_at_a_time_and_others_have_theirs() {
    let world = world()
        .tables("[limits]\nrequests_per_box = 2\n")
        .ready()
        .await;
    let other = world.add_box("box-b").await;
    world.declare(&other, &[("inference", &["agent"])]).await;
    world.anthropic.take_over();
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut client = world.client().await;
        client.send(&messages().bearer(&world.token)).await;
        held.push((client, world.anthropic.next().await));
    }
    let response = world
        .refuses(&messages().bearer(&world.token), 429, &[])
        .await;
    assert_eq!(response.json()["error"]["type"], "rate_limit_error");
    world.anthropic.let_go();
    assert_eq!(world.send(&messages().bearer(&other)).await.status, 200);
    // Once one has ended there is room again.
    let (mut client, mut exchange) = held.pop().expect("two were held");
    exchange.body().await.expect("the whole request");
    exchange
        .send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        .await
        .expect("the host reads");
    exchange.keep_alive();
    assert_eq!(client.response().await.expect("an answer").status, 200);
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
}
