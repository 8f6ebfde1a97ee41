//! Answers that repeat the value, plain and encoded, over real sockets.

use bytes::Bytes;
use http::Response;
use http_body::Frame;

use crate::relay::decode::tests::{CODINGS, encoded, name, whole};
use crate::relay::tests::http2::{self, data, get, next};
use crate::relay::tests::line::{Line, Upstream, field, within};
use crate::relay::tests::stage::{Broker, Script, VALUE, relay, token};
use crate::rules::codings::Coding;

async fn stage(change: impl FnOnce(&mut Script)) -> (Upstream, Line) {
    let upstream = Upstream::start().await;
    let mut script = Script::to(&upstream.origin());
    change(&mut script);
    let broker = Broker::start(relay(), script).await;
    (upstream, Line::connect(broker.address).await)
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// A small answer with the value in it, and what must become of it.
fn fixture() -> (String, String) {
    let escaped = VALUE.replace('/', "\\/");
    let half = &VALUE[..9];
    let text =
        format!("data: 北{VALUE}é\n\n: ping\n\ndata: {{\"k\":\"{escaped}\"}}\n\ndata: {half}\n\n");
    let token = token();
    let clean = text
        .replace(VALUE, token.as_str())
        .replace(&escaped, token.as_str());
    (text, clean)
}

/// Plain and each coding, with what is sent in it.
fn sent(text: &str) -> Vec<(Option<Coding>, Vec<u8>)> {
    let encoded = CODINGS
        .into_iter()
        .map(|coding| (Some(coding), whole(coding, text.as_bytes())));
    std::iter::once((None, text.as_bytes().to_vec()))
        .chain(encoded)
        .collect()
}

#[tokio::test]
async fn every_cut_over_http1_is_the_scrub_of_the_whole() {
    let (upstream, mut client) = stage(|_| {}).await;
    let (text, clean) = fixture();
    let mut line = None;
    for (coding, sent) in sent(&text) {
        let said = coding.map_or(String::new(), |coding| {
            format!("Content-Encoding: {}\r\n", name(coding))
        });
        for cut in 0..=sent.len() {
            client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
            let mut on: Line = match line.take() {
                Some(line) => line,
                None => upstream.accept().await,
            };
            let head = on.head().await;
            assert_eq!(field(&head, "accept-encoding"), ["identity"]);
            let (first, second) = sent.split_at(cut);
            let head = format!("HTTP/1.1 200 OK\r\n{said}Transfer-Encoding: chunked\r\n\r\n");
            on.send([head.as_bytes(), &chunk(first), &chunk(second), b"0\r\n\r\n"].concat())
                .await;
            let head = client.head().await;
            assert!(field(&head, "content-encoding").is_empty(), "{head}");
            let body = client.chunks().await;
            assert!(body == clean.as_bytes(), "{coding:?} at {cut}");
            line = Some(on);
        }
    }
    assert!(upstream.is_untouched(), "one connection carried them all");
}

#[tokio::test]
async fn every_cut_over_http2_is_the_scrub_of_the_whole() {
    let mut upstream = http2::Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut client = http2::client(broker.address).await;
    let (text, clean) = fixture();
    for (coding, sent) in sent(&text) {
        for cut in 0..=sent.len() {
            let sending = tokio::spawn(client.send_request(get("/")));
            let asked = upstream.asked().await;
            let (feed, body) = http2::fed();
            let mut response = Response::new(body);
            if let Some(coding) = coding {
                let value = name(coding).parse().unwrap();
                response.headers_mut().insert("content-encoding", value);
            }
            assert!(asked.answer.send(response).is_ok());
            let (first, second) = sent.split_at(cut);
            for part in [first, second] {
                feed.send(data(Bytes::copy_from_slice(part))).await.unwrap();
            }
            drop(feed);
            let response = within(sending).await.unwrap().unwrap();
            assert!(!response.headers().contains_key("content-encoding"));
            let body = http_body_util::BodyExt::collect(response.into_body());
            let body = within(body).await.unwrap().to_bytes();
            assert!(body == clean.as_bytes(), "{coding:?} at {cut}");
        }
    }
}

#[tokio::test]
async fn an_event_that_may_end_in_the_value_leaves_before_the_next() {
    let pieces = ["data: 1\n\ns", "k-li", "data: 2\n\nc2st"];
    let expected = ["data: 1\n\n", "", "sk-lidata: 2\n\n"];
    for coding in std::iter::once(None).chain(CODINGS.map(Some)) {
        let bytes = pieces.map(str::as_bytes);
        let sent = match coding {
            None => bytes.iter().map(|piece| piece.to_vec()).collect(),
            Some(coding) => encoded(coding, &bytes),
        };
        let said = coding.map_or(String::new(), |coding| {
            format!("Content-Encoding: {}\r\n", name(coding))
        });

        let (upstream, mut client) = stage(|_| {}).await;
        client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
        let mut line = upstream.accept().await;
        line.head().await;
        line.send(format!(
            "HTTP/1.1 200 OK\r\n{said}Transfer-Encoding: chunked\r\n\r\n"
        ))
        .await;
        client.head().await;
        for (piece, expected) in sent.iter().zip(expected) {
            line.send(chunk(piece)).await;
            if !expected.is_empty() {
                assert_eq!(
                    client.chunk().await.unwrap(),
                    expected.as_bytes(),
                    "{coding:?}"
                );
            }
        }
        line.send([&chunk(&sent[3..].concat())[..], b"0\r\n\r\n"].concat())
            .await;
        assert_eq!(client.chunks().await, b"c2st", "{coding:?}");

        let mut upstream = http2::Upstream::start(10).await;
        let broker = Broker::start(relay(), upstream.script()).await;
        let mut client = http2::client(broker.address).await;
        let sending = tokio::spawn(client.send_request(get("/")));
        let asked = upstream.asked().await;
        let (feed, body) = http2::fed();
        let mut response = Response::new(body);
        if let Some(coding) = coding {
            let value = name(coding).parse().unwrap();
            response.headers_mut().insert("content-encoding", value);
        }
        assert!(asked.answer.send(response).is_ok());
        let mut response = within(sending).await.unwrap().unwrap();
        for (piece, expected) in sent.iter().zip(expected) {
            feed.send(data(piece.clone())).await.unwrap();
            if !expected.is_empty() {
                assert_eq!(next(response.body_mut()).await, expected, "{coding:?}");
            }
        }
        feed.send(data(sent[3..].concat())).await.unwrap();
        drop(feed);
        assert_eq!(next(response.body_mut()).await, "c2st", "{coding:?}");
    }
}

/// Asks once and answers this; the box's side of it.
async fn answered(
    change: impl FnOnce(&mut Script),
    method: &str,
    answer: &[u8],
) -> (String, Line, Line) {
    let (upstream, mut client) = stage(change).await;
    client
        .send(format!("{method} / HTTP/1.1\r\nHost: b\r\nAccept-Encoding: zstd\r\nRange: bytes=0-3\r\nIf-Range: \"x\"\r\nTE: trailers\r\n\r\n"))
        .await;
    let mut line = upstream.accept().await;
    let asked = line.head().await;
    line.send(answer).await;
    (asked, client, line)
}

#[tokio::test]
async fn a_decoded_answer_says_only_what_is_true_of_it() {
    let body = whole(Coding::Gzip, VALUE.as_bytes());
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\nETag: \"a\"\r\n\
         Content-MD5: x\r\nDigest: x\r\nContent-Digest: x\r\nRepr-Digest: x\r\nAccept-Ranges: bytes\r\n\
         X-Other: 1\r\n\r\n",
        body.len()
    );
    let answer = [head.as_bytes(), &body].concat();
    let (asked, mut client, _line) = answered(|_| {}, "GET", &answer).await;
    // What is asked for is plain and whole.
    assert_eq!(field(&asked, "accept-encoding"), ["identity"]);
    for gone in ["range", "if-range"] {
        assert!(field(&asked, gone).is_empty(), "{asked}");
    }
    let head = client.head().await;
    for gone in [
        "content-encoding",
        "content-length",
        "content-md5",
        "digest",
        "content-digest",
        "repr-digest",
        "accept-ranges",
    ] {
        assert!(field(&head, gone).is_empty(), "{gone} in {head}");
    }
    assert_eq!(field(&head, "etag"), ["W/\"a\""]);
    assert_eq!(field(&head, "x-other"), ["1"]);
    assert_eq!(client.chunks().await, token().as_str().as_bytes());
}

#[tokio::test]
async fn an_answer_that_cannot_be_searched_is_a_502() {
    for fields in [
        "Content-Encoding: compress",
        "Content-Encoding: gzip, x-unheard-of",
        "Content-Encoding: gzip, gzip, gzip, gzip",
        "Content-Encoding: gzip\r\nContent-Encoding: dcb",
    ] {
        let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\nContent-Length: 2\r\n\r\nhi");
        let (_, mut client, _line) = answered(|_| {}, "GET", answer.as_bytes()).await;
        assert!(client.head().await.starts_with("HTTP/1.1 502 "), "{fields}");
        client.until(b"cannot be searched").await;
    }
    // A part, for which nobody asked.
    let part = "HTTP/1.1 206 Part\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nhi";
    let (_, mut client, _line) = answered(|_| {}, "GET", part.as_bytes()).await;
    assert!(client.head().await.starts_with("HTTP/1.1 502 "));
}

#[tokio::test]
async fn an_answer_without_a_credential_passes_as_it_is() {
    let fields =
        "Content-Encoding: x-unheard-of\r\nETag: \"a\"\r\nDigest: x\r\nAccept-Ranges: bytes";
    let answer = format!(
        "HTTP/1.1 206 Part\r\n{fields}\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\nhi"
    );
    let (asked, mut client, _line) =
        answered(|script| script.placement = None, "GET", answer.as_bytes()).await;
    assert_eq!(field(&asked, "accept-encoding"), ["zstd"]);
    assert_eq!(field(&asked, "range"), ["bytes=0-3"]);
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 206 "), "{head}");
    for line in fields.split("\r\n") {
        let (name, value) = line.split_once(": ").unwrap();
        assert_eq!(field(&head, name), [value]);
    }
    assert_eq!(field(&head, "content-length"), ["2"]);
    assert_eq!(client.take(2).await, b"hi");
}

#[tokio::test]
async fn answers_without_a_body_stay_without() {
    for (method, answer) in [
        (
            "HEAD",
            "200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 99\r\n",
        ),
        ("HEAD", "200 OK\r\nContent-Encoding: x-unheard-of\r\n"),
        ("GET", "204 No\r\nContent-Encoding: gzip\r\n"),
        ("GET", "304 No\r\nContent-Encoding: gzip\r\nETag: \"a\"\r\n"),
        ("GET", "304 No\r\nContent-Encoding: x-unheard-of\r\n"),
        (
            "GET",
            "200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 0\r\n",
        ),
        (
            "GET",
            "200 OK\r\nContent-Encoding: x-unheard-of\r\nContent-Length: 0\r\n",
        ),
    ] {
        let whole = format!("HTTP/1.1 {answer}\r\n");
        let (_, mut client, mut line) = answered(|_| {}, method, whole.as_bytes()).await;
        let head = client.head().await;
        let status = &answer[..3];
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{method} {answer}: {head}"
        );
        let length = field(&head, "content-length");
        assert!(
            length.is_empty() || (method == "GET" && length == ["0"]),
            "{head}"
        );
        assert!(field(&head, "transfer-encoding").is_empty(), "{head}");
        let unknown = answer.contains("unheard");
        assert_eq!(
            field(&head, "content-encoding").is_empty(),
            !unknown,
            "{head}"
        );
        // Both connections carry the next request.
        client.send("GET /next HTTP/1.1\r\nHost: b\r\n\r\n").await;
        assert!(line.head().await.starts_with("GET /next "));
    }
}

#[tokio::test]
async fn an_encoded_answer_of_no_bytes_is_empty() {
    let answer =
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let (_, mut client, _line) = answered(|_| {}, "GET", answer).await;
    client.head().await;
    assert!(client.chunks().await.is_empty());
}

#[tokio::test]
async fn an_encoded_answer_that_ends_too_early_is_seen_as_broken() {
    for coding in CODINGS {
        let events = [&b"data: 1\n\n"[..], b"data: 2\n\n"];
        let sent = encoded(coding, &events);
        let cut = [&sent[0][..], &sent[1][..sent[1].len() - 1]].concat();
        for (version, framed) in [("1.1", true), ("1.0", false)] {
            let (upstream, mut client) = stage(|_| {}).await;
            client
                .send(format!("GET / HTTP/{version}\r\nHost: b\r\n\r\n"))
                .await;
            let mut line = upstream.accept().await;
            line.head().await;
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Encoding: {}\r\nContent-Length: {}\r\n\r\n",
                name(coding),
                cut.len()
            );
            // The rest comes when the first event has left: what breaks off
            // takes along what was not sent yet.
            line.send([head.as_bytes(), &sent[0]].concat()).await;
            client.until(b"data: 1\n\n").await;
            line.send(&cut[sent[0].len()..]).await;
            let (rest, clean) = client.rest().await;
            let rest = String::from_utf8(rest).unwrap();
            assert!(!rest.contains("0\r\n\r\n"), "{coding:?}: {rest:?}");
            assert!(framed || !clean, "{coding:?} looks whole");
        }
        // Over HTTP/2 it is reset.
        let mut upstream = http2::Upstream::start(10).await;
        let broker = Broker::start(relay(), upstream.script()).await;
        let mut client = http2::client(broker.address).await;
        let sending = tokio::spawn(client.send_request(get("/")));
        let asked = upstream.asked().await;
        let (feed, body) = http2::fed();
        let mut response = Response::new(body);
        let value = name(coding).parse().unwrap();
        response.headers_mut().insert("content-encoding", value);
        assert!(asked.answer.send(response).is_ok());
        feed.send(data(sent[0].clone())).await.unwrap();
        let mut response = within(sending).await.unwrap().unwrap();
        assert_eq!(next(response.body_mut()).await, "data: 1\n\n");
        feed.send(data(cut[sent[0].len()..].to_vec()))
            .await
            .unwrap();
        drop(feed);
        let body = http_body_util::BodyExt::collect(response.into_body());
        assert!(within(body).await.is_err(), "{coding:?} looks whole");
    }
}

#[tokio::test]
async fn a_bomb_is_cut_and_seen_as_broken() {
    let nothing = vec![0; 64 * 1024 * 1024];
    for coding in [Coding::Gzip, Coding::Zstd] {
        let body = whole(coding, &nothing);
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {}\r\nContent-Length: {}\r\n\r\n",
            name(coding),
            body.len()
        );
        let answer = [head.as_bytes(), &body].concat();
        let (_, mut client, _line) = answered(|_| {}, "GET", &answer).await;
        client.head().await;
        let (rest, _) = client.rest().await;
        assert!(
            rest.len() < nothing.len() / 2,
            "{coding:?}: {} bytes",
            rest.len()
        );
        assert!(!rest.ends_with(b"0\r\n\r\n"), "{coding:?} looks whole");
    }
}

#[tokio::test]
async fn trailers_follow_what_was_held_back() {
    for coding in [None, Some(Coding::Gzip)] {
        let text = b"all sk-live";
        let body = coding.map_or(text.to_vec(), |coding| whole(coding, text));
        let said = coding.map_or(String::new(), |coding| {
            format!("Content-Encoding: {}\r\n", name(coding))
        });
        let head = format!(
            "HTTP/1.1 200 OK\r\n{said}Trailer: x-sum, x-echo, digest\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        let trailers = format!("0\r\nx-sum: 1\r\nx-echo: {VALUE}\r\ndigest: d\r\n\r\n");
        let answer = [head.as_bytes(), &chunk(&body), trailers.as_bytes()].concat();
        let (_, mut client, _line) = answered(|_| {}, "GET", &answer).await;
        client.head().await;
        let mut whole = Vec::new();
        while let Some(chunk) = client.chunk().await {
            whole.extend(chunk);
        }
        assert_eq!(whole, text, "{coding:?}");
        let rest = String::from_utf8(client.until(b"\r\n\r\n").await).unwrap();
        assert!(rest.contains("x-sum: 1\r\n"), "{rest}");
        assert!(
            rest.contains(&format!("x-echo: {}\r\n", token().as_str())),
            "{rest}"
        );
        assert_eq!(rest.contains("digest: d"), coding.is_none(), "{rest}");
    }
}

#[tokio::test]
async fn http2_trailers_follow_what_was_held_back() {
    let mut upstream = http2::Upstream::start(10).await;
    let broker = Broker::start(relay(), upstream.script()).await;
    let mut client = http2::client(broker.address).await;
    let sending = tokio::spawn(client.send_request(get("/")));
    let feed = upstream.asked().await.answer();
    feed.send(data("all sk-live")).await.unwrap();
    let mut trailers = http::HeaderMap::new();
    trailers.insert("x-echo", VALUE.parse().unwrap());
    feed.send(Ok(Frame::trailers(trailers))).await.unwrap();
    let mut response = within(sending).await.unwrap().unwrap();
    assert_eq!(next(response.body_mut()).await, "all ");
    assert_eq!(next(response.body_mut()).await, "sk-live");
    let last = http2::frame(response.body_mut()).await.unwrap().unwrap();
    assert_eq!(last.into_trailers().unwrap()["x-echo"], token().as_str());
}
