//! Calls on a plugin's behalf.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use crate::lease::Lease;
use crate::relay::decode::tests::{CODINGS, name, whole};
use crate::relay::tests::line::{Upstream, field, within};
use crate::relay::tests::stage::{Script, VALUE, relay, shown, token};
use crate::relay::{CallLimits, CallRoom, seal_call};
use crate::rules::names::SecretName;
use crate::rules::plan::{Call, CallAnswer, CallFailure, Outbound, Placement, Target};
use crate::rules::plan_check::Checked;

const LIMITS: CallLimits = CallLimits {
    deadline: Duration::from_secs(20),
    max_bytes: 100,
};

/// Room for so many bytes.
struct Most(usize);

impl CallRoom for Most {
    fn take(&mut self, bytes: usize) -> bool {
        match self.0.checked_sub(bytes) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

async fn call(upstream: &Upstream, limits: CallLimits) -> Result<CallAnswer, CallFailure> {
    call_into(upstream, limits, usize::MAX).await
}

async fn call_into(
    upstream: &Upstream,
    limits: CallLimits,
    room: usize,
) -> Result<CallAnswer, CallFailure> {
    let script = Script::to(&upstream.origin());
    let outbound = Outbound {
        target: Target::Secret(SecretName::parse("KEY").unwrap()),
        method: Method::POST,
        path: "/v1".to_owned(),
        query: Some("a=1".to_owned()),
        credential: Some((script.credential.clone(), Placement::Bearer)),
    };
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("x-a", "1"),
        ("authorization", "x"),
        ("host", "h"),
        ("cookie", "c"),
    ] {
        headers.append(
            HeaderName::from_static(name),
            HeaderValue::from_static(value),
        );
    }
    let call = Checked::unchecked(Call {
        outbound,
        headers,
        body: Bytes::from_static(b"body"),
    });
    let sealed = seal_call(
        &call,
        &script.destination,
        &shown(&token()),
        &script.credential_headers,
        &*script.values,
    )
    .unwrap_or_else(|refused| panic!("{refused}"));
    within(relay().call(
        sealed,
        call.into_inner().body,
        limits,
        Lease::default(),
        &mut Most(room),
    ))
    .await
}

#[tokio::test]
async fn a_call_is_buffered_and_scrubbed() {
    let upstream = Upstream::start().await;
    let serve = async {
        let mut line = upstream.accept().await;
        let head = line.head().await;
        assert!(head.starts_with("POST /v1?a=1 HTTP/1.1\r\n"), "{head}");
        assert_eq!(field(&head, "authorization"), [format!("Bearer {VALUE}")]);
        assert_eq!(field(&head, "host"), [upstream.address().to_string()]);
        assert_eq!(field(&head, "x-a"), ["1"]);
        assert!(field(&head, "cookie").is_empty());
        assert_eq!(line.take(4).await, b"body");
        let (first, second) = VALUE.split_at(9);
        line.send(format!(
            "HTTP/1.1 401 No\r\nX-Echo: {VALUE}\r\nSet-Cookie: a=1\r\nConnection: x-hop\r\n\
             X-Hop: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
        ))
        .await;
        for part in [first, second] {
            line.send(format!("{:x}\r\n{part}\r\n", part.len())).await;
        }
        line.send("0\r\n\r\n").await;
    };
    let (answer, ()) = tokio::join!(call(&upstream, LIMITS), serve);
    let answer = answer.unwrap();
    assert_eq!(answer.status, 401);
    assert_eq!(
        answer.headers,
        [("x-echo".to_owned(), b"********".to_vec())]
    );
    assert_eq!(answer.body, Bytes::from_static(b"********"));
}

#[tokio::test]
async fn a_call_is_capped_and_bounded() {
    let check = async |said: &str, limits: CallLimits, expected: CallFailure| {
        let upstream = Upstream::start().await;
        let serve = async {
            let mut line = upstream.accept().await;
            line.head().await;
            line.send(said).await;
            line.rest().await;
        };
        let (answer, ()) = tokio::join!(call(&upstream, limits), serve);
        assert_eq!(answer.unwrap_err(), expected, "{said:?}");
    };
    let long = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n{}",
        "x".repeat(101)
    );
    check(&long, LIMITS, CallFailure::TooLarge).await;
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{}", "x".repeat(5000));
    check(&endless, LIMITS, CallFailure::TooLarge).await;
    let short = CallLimits {
        deadline: Duration::from_millis(200),
        ..LIMITS
    };
    check("", short, CallFailure::Timeout).await;
    check(
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx",
        short,
        CallFailure::Timeout,
    )
    .await;
}

#[tokio::test]
async fn a_call_brings_no_more_than_there_is_room_for() {
    for (room, brought) in [(10, true), (9, false), (0, false)] {
        let upstream = Upstream::start().await;
        let serve = async {
            let mut line = upstream.accept().await;
            line.until(b"body").await;
            line.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789")
                .await;
        };
        let (answer, ()) = tokio::join!(call_into(&upstream, LIMITS, room), serve);
        assert_eq!(answer.is_ok(), brought, "{room}");
    }
}

#[tokio::test]
async fn a_call_that_breaks_off_brings_nothing() {
    let upstream = Upstream::start().await;
    let serve = async {
        let mut line = upstream.accept().await;
        line.until(b"body").await;
        line.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nx")
            .await;
    };
    let (answer, ()) = tokio::join!(call(&upstream, LIMITS), serve);
    assert_eq!(answer.unwrap_err(), CallFailure::Broken);
}

/// What a call brings of an answer that is encoded.
async fn encoded_call(
    codings: &str,
    body: &[u8],
    limits: CallLimits,
) -> Result<CallAnswer, CallFailure> {
    let upstream = Upstream::start().await;
    let serve = async {
        let mut line = upstream.accept().await;
        let head = line.head().await;
        assert_eq!(field(&head, "accept-encoding"), ["identity"]);
        let length = body.len();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {codings}\r\nDigest: x\r\nContent-Length: {length}\r\n\r\n"
        );
        line.send([head.as_bytes(), body].concat()).await;
        line.rest().await;
    };
    tokio::join!(call(&upstream, limits), serve).0
}

#[tokio::test]
async fn an_encoded_call_is_decoded_and_scrubbed() {
    let text = format!("the key is {VALUE}");
    for coding in CODINGS {
        let body = whole(coding, text.as_bytes());
        let answer = encoded_call(name(coding), &body, LIMITS).await.unwrap();
        assert_eq!(answer.body, "the key is ********", "{coding:?}");
        assert!(answer.headers.is_empty(), "{:?}", answer.headers);

        let cut = encoded_call(name(coding), &body[..body.len() - 1], LIMITS).await;
        assert_eq!(cut.unwrap_err(), CallFailure::Broken, "{coding:?}");
        // What counts is what it becomes.
        let long = whole(coding, &[b'x'; 101]);
        let long = encoded_call(name(coding), &long, LIMITS).await;
        assert_eq!(long.unwrap_err(), CallFailure::TooLarge, "{coding:?}");
    }
    let unknown = encoded_call("compress", b"x", LIMITS).await;
    assert_eq!(unknown.unwrap_err(), CallFailure::Broken);
}
