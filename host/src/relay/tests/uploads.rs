//! Requests whose bodies carry the box's token, over real sockets.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Request;

use crate::relay::decode::tests::{name, whole};
use crate::relay::tests::http2::{self, Fed, data, fed};
use crate::relay::tests::line::{Line, Upstream, field, within};
use crate::relay::tests::stage::{Broker, Script, relay, token};
use crate::rules::codings::Coding;

const GRANT: &str = "jfg_ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopq";

async fn stage() -> (Upstream, Line) {
    let upstream = Upstream::start().await;
    let broker = Broker::start(relay(), Script::to(&upstream.origin())).await;
    (upstream, Line::connect(broker.address).await)
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn stars(text: &str) -> String {
    "*".repeat(text.len())
}

/// A body with the token and the grant in it, and what must become of it.
fn fixture() -> (String, String) {
    let token = token();
    let token = token.as_str();
    let half = &token[..20];
    let line = |token: &str, grant: &str| {
        format!("北{token}é {half}{token}{token} {grant} jft_{half} {{\"k\":\"{token}\"}} {half}")
    };
    (line(token, GRANT), line(&stars(token), &stars(GRANT)))
}

/// The codings that a request may have.
const SEARCHED: [Coding; 2] = [Coding::Gzip, Coding::Deflate];

#[tokio::test]
async fn a_token_is_overwritten_at_every_cut_over_http1() {
    let (upstream, mut client) = stage().await;
    let (body, masked) = fixture();
    let mut line: Option<Line> = None;
    for cut in 0..=body.len() {
        let (first, second) = body.as_bytes().split_at(cut);
        let known = cut % 2 == 0;
        let framing = match known {
            true => format!("Content-Length: {}", body.len()),
            false => "Transfer-Encoding: chunked".to_owned(),
        };
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: b\r\nChant-Grant: {GRANT}\r\n{framing}\r\n\r\n"
            ))
            .await;
        let mut on = match line.take() {
            Some(line) => line,
            None => upstream.accept().await,
        };
        let head = on.head().await;
        assert!(field(&head, "chant-grant").is_empty());
        let received = if known {
            // Two writes, of which the second waits for the first to arrive
            // where it must: what is no tail of a token leaves at once.
            client.send(first).await;
            client.send(second).await;
            assert_eq!(field(&head, "content-length"), [body.len().to_string()]);
            on.take(body.len()).await
        } else {
            client
                .send([chunk(first), chunk(second), b"0\r\n\r\n".to_vec()].concat())
                .await;
            on.chunks().await
        };
        assert!(
            received == masked.as_bytes(),
            "at {cut}: {:?}",
            String::from_utf8_lossy(&received)
        );
        on.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .await;
        client.head().await;
        line = Some(on);
    }
}

#[tokio::test]
async fn a_token_is_overwritten_at_every_cut_over_http2() {
    let mut upstream = http2::Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut client = http2::client::<Fed>(broker.address).await;
    let (body, masked) = fixture();
    for cut in 0..=body.len() {
        let (upload, frames) = fed();
        let request = Request::post("http://broker/v1")
            .header("chant-grant", GRANT)
            .body(frames)
            .unwrap();
        let sending = tokio::spawn(client.send_request(request));
        let (first, second) = body.as_bytes().split_at(cut);
        for part in [first, second] {
            upload
                .send(data(Bytes::copy_from_slice(part)))
                .await
                .unwrap();
        }
        drop(upload);
        let mut asked = upstream.asked().await;
        let received = http_body_util::BodyExt::collect(asked.request.body_mut());
        let received = within(received).await.unwrap().to_bytes();
        assert!(received == masked.as_bytes(), "at {cut}");
        drop(asked.answer());
        within(sending).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn only_what_may_be_the_token_s_beginning_waits() {
    let (upstream, mut client) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let mut line = upstream.accept().await;
    line.head().await;
    let token = token();
    let (first, second) = token.as_str().split_at(11);
    client.send(chunk(format!("one {first}").as_bytes())).await;
    assert_eq!(line.chunk().await.unwrap(), b"one ");
    client
        .send(chunk(format!("{second} two jf").as_bytes()))
        .await;
    let expected = format!("{} two ", stars(token.as_str()));
    assert_eq!(line.chunk().await.unwrap(), expected.as_bytes());
    client.send(b"0\r\n\r\n").await;
    assert_eq!(line.chunks().await, b"jf");
}

#[tokio::test]
async fn a_token_is_found_in_base64_and_in_escapes() {
    let (upstream, mut client) = stage().await;
    let token = token();
    let mut line: Option<Line> = None;
    for body in [
        STANDARD.encode(token.as_str()),
        format!("Basic {}", STANDARD.encode(format!("u:{}", token.as_str()))),
        STANDARD.encode(format!("us:{}", token.as_str())),
        token.as_str().replace('_', "%5F"),
        token.as_str().replace('j', "\\u006a"),
    ] {
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: b\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ))
            .await;
        let mut on = match line.take() {
            Some(line) => line,
            None => upstream.accept().await,
        };
        on.head().await;
        let received = String::from_utf8(on.take(body.len()).await).unwrap();
        let stars = received.matches('*').count();
        // All of it but the characters that it shares with what stands beside.
        assert!(
            stars >= token.as_str().len(),
            "{body} was sent as {received}"
        );
        on.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .await;
        client.head().await;
        line = Some(on);
    }
}

#[tokio::test]
async fn trailers_follow_the_rest_of_a_body() {
    let (upstream, mut client) = stage().await;
    client
        .send("POST / HTTP/1.1\r\nHost: b\r\nTrailer: x-sum\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    client
        .send([chunk(b"all jft"), b"0\r\nx-sum: 1\r\n\r\n".to_vec()].concat())
        .await;
    let mut line = upstream.accept().await;
    line.head().await;
    assert_eq!(line.chunk().await.unwrap(), b"all ");
    assert_eq!(line.chunk().await.unwrap(), b"jft");
    assert_eq!(line.chunk().await, None);
    let trailers = line.until(b"\r\n\r\n").await;
    assert_eq!(trailers, b"x-sum: 1\r\n\r\n");
}

#[tokio::test]
async fn an_encoded_body_goes_on_byte_for_byte() {
    let (upstream, mut client) = stage().await;
    let mut line: Option<Line> = None;
    for coding in SEARCHED {
        let body = whole(coding, b"{\"nothing\": \"to see\"}");
        client
            .send(format!(
                "POST / HTTP/1.1\r\nHost: b\r\nContent-Encoding: {}\r\nContent-Length: {}\r\n\r\n",
                name(coding),
                body.len()
            ))
            .await;
        client.send(&body).await;
        let mut on = match line.take() {
            Some(line) => line,
            None => upstream.accept().await,
        };
        let head = on.head().await;
        assert_eq!(field(&head, "content-encoding"), [name(coding)]);
        assert_eq!(field(&head, "content-length"), [body.len().to_string()]);
        assert!(on.take(body.len()).await == body);
        on.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            .await;
        client.head().await;
        line = Some(on);
    }
}

#[tokio::test]
async fn a_token_in_an_encoded_body_never_arrives() {
    let (text, _) = fixture();
    for coding in SEARCHED {
        let body = whole(coding, text.as_bytes());
        for part in [body.len(), 7, 1] {
            let (upstream, mut client) = stage().await;
            client
                .send(format!(
                    "POST / HTTP/1.1\r\nHost: b\r\nContent-Encoding: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
                    name(coding)
                ))
                .await;
            let mut line = upstream.accept().await;
            line.head().await;
            let chunks: Vec<u8> = body.chunks(part).flat_map(chunk).collect();
            client.send([&chunks[..], b"0\r\n\r\n"].concat()).await;
            let head = client.head().await;
            assert!(
                head.starts_with("HTTP/1.1 400 "),
                "{coding:?} {part}: {head}"
            );
            client.until(b"token").await;
            let (received, _) = line.rest().await;
            assert!(
                !received.ends_with(b"0\r\n\r\n"),
                "{coding:?} {part} arrived whole"
            );
        }
    }
}

#[tokio::test]
async fn an_encoded_body_that_cannot_be_searched_is_refused() {
    // Not known: before anything is sent.
    for codings in ["compress", "gzip, gzip", "br", "zstd", "gzip, dcz"] {
        let (upstream, mut client) = stage().await;
        client
            .send(format!("POST / HTTP/1.1\r\nHost: b\r\nContent-Encoding: {codings}\r\nContent-Length: 2\r\n\r\nhi"))
            .await;
        assert!(
            client.head().await.starts_with("HTTP/1.1 415 "),
            "{codings}"
        );
        client.until(b"neither gzip nor deflate").await;
        assert!(upstream.is_untouched());
    }
    // Not what it says, and not to its end.
    let cut = whole(Coding::Gzip, b"data");
    for body in [&b"not gzip at all"[..], &cut[..cut.len() - 1]] {
        let (upstream, mut client) = stage().await;
        client.send("POST / HTTP/1.1\r\nHost: b\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        let mut line = upstream.accept().await;
        line.head().await;
        client.send([&chunk(body)[..], b"0\r\n\r\n"].concat()).await;
        assert!(client.head().await.starts_with("HTTP/1.1 400 "));
        client.until(b"does not decode").await;
        let (received, _) = line.rest().await;
        assert!(!received.ends_with(b"0\r\n\r\n"), "it arrived whole");
    }
}
