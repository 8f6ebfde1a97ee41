//! HTTP between the two sides: what ends at each hop, what passes untouched,
//! and nothing said twice.

use http_body_util::BodyExt;
use jackfield_tests::client::Request;
use jackfield_tests::h2::H2Client;
use jackfield_tests::soon;
use jackfield_tests::upstream::Reply;
use jackfield_tests::world::{KEY, VALUE, is_refusal, messages};
use serde_json::json;

use crate::world;

#[tokio::test]
async fn hop_by_hop_headers_end_here_in_both_directions() {
    let world = world().ready().await;
    let reply = Reply::json(200, &json!({}))
        .header("connection", "x-their-hop, X-Other-Hop")
        .header("x-their-hop", "1")
        .header("x-other-hop", "1")
        .header("keep-alive", "timeout=5")
        .header("proxy-authenticate", "Basic")
        .header("proxy-connection", "keep-alive")
        .header("upgrade", "h2c")
        .header("x-kept", "1");
    world.anthropic.reply(reply);
    let request = messages()
        .bearer(&world.token)
        .header("connection", "x-my-hop, X-Other-Hop , keep-alive")
        .header("connection", "x-second")
        .header("x-my-hop", "1")
        .header("x-other-hop", "1")
        .header("x-second", "1")
        .header("keep-alive", "timeout=5")
        .header("proxy-authorization", "Basic eDp5")
        .header("proxy-connection", "keep-alive")
        .header("te", "trailers, deflate")
        .header("trailer", "x-after")
        .header("upgrade", "websocket")
        .header("x-kept", "1");
    let response = world.send(&request).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let fields = world.anthropic.last().fields;
    for name in [
        "x-my-hop",
        "x-other-hop",
        "x-second",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "trailer",
        "upgrade",
    ] {
        assert!(!fields.has(name), "{name} was sent on: {fields:?}");
    }
    for te in fields.all("te") {
        assert_eq!(te, "trailers", "a coding that we do not speak");
    }
    assert_eq!(fields.all("x-kept"), ["1"]);
    for name in [
        "x-their-hop",
        "x-other-hop",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "upgrade",
    ] {
        assert!(
            !response.fields.has(name),
            "{name} was handed on: {:?}",
            response.fields
        );
    }
    assert_eq!(response.fields.all("x-kept"), ["1"]);
}

#[tokio::test]
async fn naming_a_credential_header_in_connection_does_not_take_ours_away() {
    let world = world().ready().await;
    let request = messages().bearer(&world.token).header(
        "connection",
        "authorization, x-api-key, anthropic-version, content-type",
    );
    assert_eq!(world.send(&request).await.status, 200);
    assert_eq!(world.anthropic.last().fields.all("x-api-key"), [KEY]);

    let request = Request::get("/egress/OPENAI/x")
        .bearer(&world.token)
        .header("connection", "authorization, host");
    let response = world.send(&request).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let fields = world.echo.last().fields;
    assert_eq!(fields.all("authorization"), [format!("Bearer {VALUE}")]);
    assert_eq!(fields.all("host"), [world.echo.address.to_string()]);
}

#[tokio::test]
async fn repeated_headers_keep_their_count_order_and_bytes() {
    let world = world().ready().await;
    let lines: [&[u8]; 5] = [b"b", b"a, c", b"", b"b", b"caf\xe9 \xff\x80\t\"q\""];
    let mut reply = Reply::json(200, &json!({}));
    let mut request = Request::get("/egress/OPENAI/x").bearer(&world.token);
    for (number, line) in lines.iter().enumerate() {
        let name = if number % 2 == 0 {
            "X-Repeated"
        } else {
            "x-repeated"
        };
        reply = reply.header(name, line);
        request = request.header(name, line);
    }
    world.echo.reply(reply);
    let response = world.send(&request).await;
    let values = |fields: &jackfield_tests::wire::Fields| -> Vec<Vec<u8>> {
        let named = fields.0.iter();
        named
            .filter(|(name, _)| name.eq_ignore_ascii_case("x-repeated"))
            .map(|(_, value)| value.clone())
            .collect()
    };
    assert_eq!(values(&world.echo.last().fields), lines);
    assert_eq!(values(&response.fields), lines);
}

#[tokio::test]
async fn a_refusal_takes_the_place_of_100_continue() {
    let world = world().ready().await;
    let other = world.add_box("box-b").await;
    let mark = world.mark();
    for (target, token) in [
        ("/llm/anthropic/v1/messages", other.as_str()),
        ("/egress/OPENAI/v1/upload", &other),
        ("/llm/anthropic/v1/messages", "nobody"),
        ("/llm/anthropic/v1/unknown", &world.token),
        ("/api/box/declaration", "nobody"),
    ] {
        let mut client = world.client().await;
        let request = Request::post(target)
            .bearer(token)
            .header("expect", "100-continue")
            .header("content-length", "1000000");
        client.send(&request).await;
        let head = client.head().await.expect("an answer");
        assert!(
            [403, 404].contains(&head.status),
            "{target}: {}",
            head.status
        );
        client.body().await.expect("a reason");
        // The body was never read, so the connection cannot go on.
        client.gone().await;
    }
    assert_eq!(world.mark(), mark);
}

#[tokio::test]
async fn exactly_one_100_continue_follows_the_rule() {
    let world = world().ready().await;
    for target in ["/llm/anthropic/v1/messages", "/egress/OPENAI/v1/upload"] {
        let mut client = world.client().await;
        let request = Request::post(target)
            .bearer(&world.token)
            .header("expect", "100-continue")
            .header("content-length", "4");
        client.send(&request).await;
        let head = client.head().await.expect("a head");
        assert_eq!(head.status, 100, "{target}");
        client.send_bytes(b"body").await.expect("the host reads");
        let head = client.head().await.expect("a head");
        assert_eq!(head.status, 200, "{target}: one 100 and no more");
        client.body().await.expect("an answer");
    }
    assert_eq!(world.echo.last().body, "body");
    assert_eq!(world.anthropic.last().body, "body");
    assert!(
        !world.echo.last().fields.has("expect"),
        "the next hop is ours"
    );
}

#[tokio::test]
async fn a_report_gets_its_100_continue_too() {
    let world = world().ready().await;
    let report = jackfield_tests::world::report(&[("inference", &["agent"])]);
    let mut client = world.client().await;
    let request = Request::post("/api/box/declaration")
        .bearer(&world.token)
        .header("expect", "100-continue")
        .header("content-length", report.len().to_string());
    client.send(&request).await;
    assert_eq!(client.head().await.expect("a head").status, 100);
    client
        .send_bytes(report.as_bytes())
        .await
        .expect("the host reads");
    assert_eq!(client.response().await.expect("an answer").status, 200);
}

#[tokio::test]
async fn a_large_upload_passes_without_being_held() {
    let world = world().ready().await;
    world.echo.take_over();
    let mut client = world.client().await;
    let request = Request::post("/egress/OPENAI/v1/files")
        .bearer(&world.token)
        .header("content-type", "multipart/form-data; boundary=x")
        .header("transfer-encoding", "chunked");
    client.send(&request).await;
    let before = world.host().peak_memory();
    let (block, blocks) = (vec![b'm'; 1024 * 1024], 200);
    let sending = tokio::spawn(async move {
        for _ in 0..blocks {
            client.send_chunk(&block).await.expect("the host reads");
        }
        client.send_chunk(b"").await.expect("the host reads");
        client
    });
    let mut exchange = world.echo.next().await;
    let mut received = 0;
    while let Some(part) = exchange.part().await.expect("a whole body") {
        assert!(part.iter().all(|byte| *byte == b'm'));
        received += part.len();
    }
    assert_eq!(received, blocks * 1024 * 1024);
    exchange
        .send("HTTP/1.1 201 Created\r\ncontent-length: 0\r\n\r\n")
        .await
        .expect("the host reads");
    let mut client = soon("the upload ends", sending).await.expect("no panic");
    assert_eq!(client.response().await.expect("an answer").status, 201);
    let grown = world.host().peak_memory().saturating_sub(before);
    assert!(
        grown < 48 * 1024 * 1024,
        "the host holds {grown} bytes more"
    );
}

#[tokio::test]
async fn a_large_answer_passes_whole() {
    let world = world().ready().await;
    let body: Vec<u8> = (0..32 * 1024 * 1024_u32)
        .map(|number| (number % 251) as u8)
        .collect();
    world.echo.reply(Reply::status(200).body(body.clone()));
    let request = Request::post("/egress/OPENAI/v1/image")
        .bearer(&world.token)
        .body(body.clone());
    let response = world.send(&request).await;
    assert!(
        response.body == body,
        "{} bytes came back",
        response.body.len()
    );
    assert!(
        world.echo.last().body == body,
        "{} bytes arrived",
        world.echo.last().body.len()
    );
}

#[tokio::test]
async fn nothing_is_said_twice() {
    let world = world().ready().await;
    // On a fresh connection, and on one that served a request before.
    for warm in [false, true] {
        if warm {
            assert_eq!(
                world.send(&messages().bearer(&world.token)).await.status,
                200
            );
        }
        let before = world.anthropic.requests().len();
        world.anthropic.reply(Reply::Reset);
        let response = world.send(&messages().bearer(&world.token)).await;
        is_refusal("a reset", &response, 502, &["anthropic"]);
        let after = world.anthropic.requests().len();
        assert_eq!(after, before + 1, "warm {warm}: one arrival");
    }
}

#[tokio::test]
async fn a_connection_that_the_upstream_has_closed_harms_no_request() {
    let world = world().ready().await;
    for _ in 0..10 {
        // Answered and closed, though the answer did not say so.
        let raw = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok".to_vec();
        world.anthropic.reply(Reply::Raw(raw));
        let response = world.send(&messages().bearer(&world.token)).await;
        assert_eq!(response.status, 200, "{}", response.text());
    }
    assert_eq!(world.anthropic.requests().len(), 10);
}

#[tokio::test]
async fn a_transfer_coding_that_we_cannot_undo_is_a_502() {
    let world = world().ready().await;
    for coding in ["gzip, chunked", "deflate, chunked", "gzip"] {
        let raw =
            format!("HTTP/1.1 200 OK\r\ntransfer-encoding: {coding}\r\n\r\n2\r\nok\r\n0\r\n\r\n");
        world.anthropic.reply(Reply::Raw(raw.into_bytes()));
        let response = world.send(&messages().bearer(&world.token)).await;
        is_refusal(coding, &response, 502, &["anthropic"]);
    }
}

#[tokio::test]
async fn what_is_no_answer_is_a_502() {
    let world = world().ready().await;
    for raw in [
        "",
        "HTTP/1.1 banana\r\n\r\n",
        "not http at all\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nbad header\r\n\r\n",
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ] {
        world.anthropic.reply(Reply::Raw(raw.as_bytes().to_vec()));
        let response = world.send(&messages().bearer(&world.token)).await;
        is_refusal(raw, &response, 502, &["anthropic"]);
    }
}

#[tokio::test]
async fn interim_answers_do_not_end_the_request() {
    let world = world().ready().await;
    let raw = "HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n\
               HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    world.anthropic.reply(Reply::Raw(raw.as_bytes().to_vec()));
    let response = world.send(&messages().bearer(&world.token)).await;
    assert_eq!((response.status, response.text().as_str()), (200, "ok"));
}

#[tokio::test]
async fn answers_without_a_body_stay_without_one() {
    let world = world().ready().await;
    for status in [204, 304] {
        world
            .echo
            .reply(Reply::status(status).header("etag", "\"x\""));
        let mut client = world.client().await;
        for expected in [status, 200] {
            let request = Request::get("/egress/OPENAI/x").bearer(&world.token);
            client.send(&request).await;
            let response = client.response().await.expect("an answer");
            assert_eq!(response.status, expected, "the connection goes on");
        }
    }
    let mut client = world.client().await;
    let request = Request::new("HEAD", "/egress/OPENAI/x").bearer(&world.token);
    for _ in 0..2 {
        client.send(&request).await;
        let response = client.response().await.expect("an answer");
        assert_eq!(response.status, 200);
        assert!(response.fields.has("content-type"));
    }
}

#[tokio::test]
async fn framing_that_could_be_read_in_two_ways_is_refused() {
    let world = world().ready().await;
    let mark = world.mark();
    let token = &world.token;
    let smuggled = "GET /egress/OPENAI/smuggled HTTP/1.1\r\nhost: x\r\n\r\n";
    for framing in [
        "content-length: 5\r\ncontent-length: 6",
        "content-length: 5, 6",
        "content-length: +5",
        "content-length: 5\r\ntransfer-encoding: chunked",
        "transfer-encoding: chunked\r\ncontent-length: 5",
        "transfer-encoding: chunked, identity",
        "transfer-encoding: xchunked",
        "transfer-encoding: gzip, chunked",
        "transfer-encoding : chunked",
    ] {
        let mut client = world.client().await;
        let head = format!(
            "POST /egress/OPENAI/x HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n\
             {framing}\r\n\r\n0\r\n\r\n{smuggled}"
        );
        client
            .send_bytes(head.as_bytes())
            .await
            .expect("the host reads");
        // Either refused, or read in the one way that cannot be mistaken: the
        // second request is then one of its own, and shows no token.
        let first = client.response().await.expect("an answer");
        if first.status == 200 {
            let received = world.echo.last();
            assert!(received.body.is_empty(), "{framing:?}: {received:?}");
            if let Ok(second) = client.response().await {
                assert_ne!(second.status, 200, "{framing:?}");
            }
        } else {
            assert!(
                [400, 403, 501].contains(&first.status),
                "{framing:?}: {}",
                first.status
            );
        }
    }
    let smuggled = world
        .echo
        .requests()
        .iter()
        .any(|seen| seen.target.contains("smuggled"));
    assert!(!smuggled, "a hidden request went through");
    let _ = mark;
}

#[tokio::test]
async fn a_box_may_speak_http_2() {
    let world = world().ready().await;
    let mut client = H2Client::connect(world.address()).await;
    for _ in 0..3 {
        let target = "/llm/anthropic/v1/messages?x=1";
        let response = client
            .send("POST", target, &world.token, r#"{"model":"m"}"#)
            .await
            .expect("an answer");
        assert_eq!(response.status(), 200);
        let body = response
            .into_body()
            .collect()
            .await
            .expect("a body")
            .to_bytes();
        assert!(body.starts_with(b"{"), "{body:?}");
    }
    let received = world.anthropic.last();
    assert_eq!(received.target, "/v1/messages?x=1");
    assert_eq!(received.body, r#"{"model":"m"}"#);
    assert_eq!(received.fields.all("x-api-key"), [KEY]);
    let response = client
        .send("POST", "/llm/anthropic/v1/messages", "nobody", "{}")
        .await
        .expect("an answer");
    assert_eq!(response.status(), 403);
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let world = world().ready().await;
    let mut client = world.client().await;
    for round in 0..5 {
        for (token, expected) in [(world.token.as_str(), 200), ("nobody", 403)] {
            for request in [messages(), Request::get("/egress/OPENAI/x")] {
                client.send(&request.bearer(token)).await;
                let response = client.response().await.expect("an answer");
                assert_eq!(response.status, expected, "{round}: {}", response.text());
                // A refusal may leave its request's body unread, and then says
                // that the connection ends.
                if response.fields.all("connection") == ["close"] {
                    assert_eq!(expected, 403, "{round}");
                    client = world.client().await;
                }
            }
        }
    }
}

#[tokio::test]
async fn requests_said_at_once_are_answered_in_their_turn() {
    let world = world().ready().await;
    let mut client = world.client().await;
    let mut bytes = Vec::new();
    for (number, token) in [world.token.as_str(), "nobody", &world.token]
        .iter()
        .enumerate()
    {
        let request = Request::get(&format!("/egress/OPENAI/{number}")).bearer(token);
        bytes.extend_from_slice(&request.bytes(world.address()));
    }
    client.send_bytes(&bytes).await.expect("the host reads");
    for expected in [200, 403, 200] {
        assert_eq!(client.response().await.expect("an answer").status, expected);
    }
    let targets: Vec<String> = world
        .echo
        .requests()
        .into_iter()
        .map(|seen| seen.target)
        .collect();
    assert_eq!(targets, ["/0", "/2"]);
}

#[tokio::test]
async fn a_refusal_reaches_a_box_that_is_still_sending() {
    let world = world().ready().await;
    let mark = world.mark();
    // Nothing of the body is sent: the refusal does not wait for it.
    let mut client = world.client().await;
    let request = Request::post("/egress/OPENAI/x")
        .bearer("nobody")
        .header("content-length", "1000000");
    client.send(&request).await;
    let response = client.response().await.expect("an answer");
    is_refusal("nothing sent", &response, 403, &["token"]);
    assert_eq!(response.fields.all("connection"), ["close"]);
    client.gone().await;

    // All of it is under way: the answer is still there to be read.
    let mut client = world.client().await;
    let request = Request::post("/egress/OPENAI/x")
        .bearer("nobody")
        .body(vec![b'x'; 4 * 1024 * 1024]);
    client.send(&request).await;
    let response = client.response().await.expect("an answer");
    is_refusal("all sent", &response, 403, &["token"]);
    assert_eq!(world.mark(), mark, "it reached an upstream");
}
