//! Heads on the wire, in both directions.

use http::{HeaderName, HeaderValue, StatusCode};

use crate::relay::HeaderPolicy;
use crate::relay::tests::line::{Line, Upstream, field};
use crate::relay::tests::stage::{Broker, Script, VALUE, relay, token};
use crate::rules::plan::{Edit, Placement};
use crate::rules::refusal::Refusal;

async fn stage(script: impl Fn(&mut Script)) -> (Upstream, Line) {
    let upstream = Upstream::start().await;
    let mut said = Script::to(&upstream.origin());
    script(&mut said);
    let broker = Broker::start(relay(), said).await;
    (upstream, Line::connect(broker.address).await)
}

#[tokio::test]
async fn hop_by_hop_headers_stop_here_both_ways() {
    let (upstream, mut client) = stage(|_| {}).await;
    client
        .send(
            "GET /a?b=%20+ HTTP/1.1\r\nHost: broker\r\nConnection: x-hop, authorization\r\n\
             X-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nTE: trailers\r\n\
             Authorization: Bearer of-the-box\r\nX-Two: 1\r\nX-Other: z\r\nX-Two: 2\r\n\r\n",
        )
        .await;
    let mut line = upstream.accept().await;
    let head = line.head().await;
    assert!(head.starts_with("GET /a?b=%20+ HTTP/1.1\r\n"), "{head}");
    assert_eq!(field(&head, "host"), [upstream.address().to_string()]);
    assert_eq!(field(&head, "authorization"), [format!("Bearer {VALUE}")]);
    assert_eq!(field(&head, "x-two"), ["1", "2"]);
    // Made anew: the connection takes trailers, and says so itself.
    assert_eq!(field(&head, "te"), ["trailers"]);
    assert_eq!(field(&head, "connection"), ["te"]);
    for gone in [
        "x-hop",
        "keep-alive",
        "proxy-connection",
        "content-length",
        "transfer-encoding",
    ] {
        assert!(field(&head, gone).is_empty(), "{gone} in {head}");
    }

    line.send(
        "HTTP/1.1 200 Fine with sk-live\r\nConnection: x-back, keep-alive\r\nX-Back: 1\r\n\
         Keep-Alive: timeout=1\r\nProxy-Authenticate: Basic\r\nChant-Payer: owner\r\n\
         Chant-Grant: g\r\nSet-Cookie: a=1\r\nX-Two: 1\r\nX-Other: z\r\nX-Two: 2\r\n\
         Content-Length: 2\r\n\r\nhi",
    )
    .await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert_eq!(field(&head, "x-two"), ["1", "2"]);
    // A body that is searched may change its length.
    assert_eq!(field(&head, "transfer-encoding"), ["chunked"]);
    for gone in [
        "content-length",
        "x-back",
        "keep-alive",
        "proxy-authenticate",
        "chant-payer",
        "chant-grant",
        "set-cookie",
        "connection",
    ] {
        assert!(field(&head, gone).is_empty(), "{gone} in {head}");
    }
    assert_eq!(client.chunks().await, b"hi");
}

#[tokio::test]
async fn a_redirect_is_handed_back_and_not_followed() {
    let elsewhere = Upstream::start().await;
    for status in [301, 302, 303, 307, 308] {
        let (upstream, mut client) = stage(|_| {}).await;
        client
            .send("POST /v1 HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nhi")
            .await;
        let mut line = upstream.accept().await;
        line.until(b"hi").await;
        let location = format!("http://{}/steal", elsewhere.address());
        line.send(format!(
            "HTTP/1.1 {status} X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
        ))
        .await;
        let head = client.head().await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(field(&head, "location"), [location]);
        assert!(elsewhere.is_untouched());
        assert!(upstream.is_untouched());
    }
}

#[tokio::test]
async fn an_absolute_target_and_a_host_move_nothing() {
    let elsewhere = Upstream::start().await;
    let (upstream, mut client) = stage(|_| {}).await;
    client
        .send(format!(
            "GET http://{0}/x HTTP/1.1\r\nHost: {0}\r\n\r\n",
            elsewhere.address()
        ))
        .await;
    let mut line = upstream.accept().await;
    let head = line.head().await;
    assert!(head.starts_with("GET /x HTTP/1.1\r\n"), "{head}");
    assert_eq!(field(&head, "host"), [upstream.address().to_string()]);
    assert!(elsewhere.is_untouched());
}

#[tokio::test]
async fn a_repeated_value_comes_back_as_the_token() {
    let (upstream, mut client) = stage(|script| {
        script.policy = HeaderPolicy { cookies: true };
        script.placement = Some(Placement::StandIn);
    })
    .await;
    client
        .send(format!(
            "GET / HTTP/1.1\r\nHost: b\r\nTE: trailers\r\nX-Key: {}\r\n\r\n",
            token().as_str()
        ))
        .await;
    let mut line = upstream.accept().await;
    assert_eq!(field(&line.head().await, "x-key"), [VALUE]);
    let escaped = VALUE
        .replace('/', "%2F")
        .replace('+', "%2b")
        .replace('=', "%3D");
    line.send(format!(
        "HTTP/1.1 401 {VALUE}\r\nX-Echo: Bearer {VALUE}\r\nLocation: /?key={escaped}&a=1\r\n\
         Set-Cookie: k={VALUE}; Path=/\r\nX-{VALUE_NAME}: 1\r\nTrailer: x-end\r\n\
         Transfer-Encoding: chunked\r\n\r\n0\r\nX-End: {VALUE}\r\nAuthorization: {VALUE}\r\n\r\n",
        VALUE_NAME = "plain",
    ))
    .await;
    let token = token();
    let token = token.as_str();
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 401 Unauthorized\r\n"), "{head}");
    assert_eq!(field(&head, "x-echo"), [format!("Bearer {token}")]);
    assert_eq!(field(&head, "location"), [format!("/?key={token}&a=1")]);
    assert_eq!(field(&head, "set-cookie"), [format!("k={token}; Path=/")]);
    assert_eq!(field(&head, "trailer"), ["x-end"]);
    assert_eq!(client.chunk().await, None);
    let trailers = client.head().await;
    assert_eq!(trailers, format!("x-end: {token}\r\n\r\n"));
}

#[tokio::test]
async fn response_edits_are_made_and_scrubbed() {
    let (upstream, mut client) = stage(|script| {
        let name = HeaderName::from_static;
        script.response_edits = vec![
            Edit::Set(name("x-set"), HeaderValue::from_static("new")),
            Edit::Remove(name("x-gone")),
        ];
    })
    .await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let mut line = upstream.accept().await;
    line.head().await;
    line.send("HTTP/1.1 200 OK\r\nX-Gone: 1\r\nX-Set: old\r\nContent-Length: 0\r\n\r\n")
        .await;
    let head = client.head().await;
    assert_eq!(field(&head, "x-set"), ["new"]);
    assert!(field(&head, "x-gone").is_empty());
}

#[tokio::test]
async fn a_substituted_answer_is_not_read() {
    let (upstream, mut client) = stage(|script| {
        script.substitutions = vec![(
            StatusCode::UNAUTHORIZED,
            Refusal::forbidden("The credential is not accepted."),
        )];
    })
    .await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let mut line = upstream.accept().await;
    line.head().await;
    line.send("HTTP/1.1 401 No\r\nX-Echo: 1\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    assert!(field(&head, "x-echo").is_empty());
    client.until(b"The credential is not accepted.").await;
    line.rest().await;
    assert!(upstream.is_untouched());
}

#[tokio::test]
async fn head_answers_keep_their_length_and_have_no_body() {
    for length in [Some("123"), None] {
        let (upstream, mut client) = stage(|_| {}).await;
        client.send("HEAD / HTTP/1.1\r\nHost: b\r\n\r\n").await;
        let mut line = upstream.accept().await;
        assert!(line.head().await.starts_with("HEAD / "));
        let said = length.map_or(String::new(), |length| {
            format!("Content-Length: {length}\r\n")
        });
        line.send(format!("HTTP/1.1 200 OK\r\n{said}\r\n")).await;
        let head = client.head().await;
        assert_eq!(
            field(&head, "content-length"),
            length.into_iter().collect::<Vec<_>>()
        );
        // The same connections carry the next request.
        client.send("GET /next HTTP/1.1\r\nHost: b\r\n\r\n").await;
        assert!(line.head().await.starts_with("GET /next "));
    }
}

#[tokio::test]
async fn interim_answers_are_not_passed_on() {
    let (upstream, mut client) = stage(|_| {}).await;
    client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
    let mut line = upstream.accept().await;
    line.head().await;
    line.send(format!(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: {VALUE}\r\n\r\n\
         HTTP/1.1 204 No Content\r\n\r\n"
    ))
    .await;
    let head = client.head().await;
    assert!(head.starts_with("HTTP/1.1 204 "), "{head}");
}

#[tokio::test]
async fn a_transfer_coding_beside_chunked_is_a_502() {
    for coding in ["gzip, chunked", "gzip"] {
        let (upstream, mut client) = stage(|_| {}).await;
        client.send("GET / HTTP/1.1\r\nHost: b\r\n\r\n").await;
        let mut line = upstream.accept().await;
        line.head().await;
        line.send(format!(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: {coding}\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
        ))
        .await;
        let head = client.head().await;
        assert!(head.starts_with("HTTP/1.1 502 "), "{head}");
        client.until(b"transfer coding").await;
        line.rest().await;
    }
}

#[tokio::test]
async fn a_switch_of_protocols_is_a_502() {
    let (upstream, mut client) = stage(|_| {}).await;
    client
        .send("GET / HTTP/1.1\r\nHost: b\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        .await;
    let mut line = upstream.accept().await;
    let head = line.head().await;
    assert!(field(&head, "upgrade").is_empty(), "{head}");
    line.send("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
        .await;
    assert!(client.head().await.starts_with("HTTP/1.1 502 "));
}

#[tokio::test]
async fn request_framing_is_ours() {
    let check = async |request: &str, expected: &[(&str, &str)], body: &str| {
        let (upstream, mut client) = stage(|_| {}).await;
        client.send(request).await;
        let mut line = upstream.accept().await;
        let head = line.head().await;
        for (name, value) in expected {
            let found = field(&head, name);
            let expected: Vec<&str> = Some(*value).filter(|v| !v.is_empty()).into_iter().collect();
            assert_eq!(found, expected, "{name} in {head}");
        }
        let read = line.take(body.len()).await;
        assert_eq!(String::from_utf8(read).unwrap(), body);
    };
    check(
        "POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nhi",
        &[("content-length", "2"), ("transfer-encoding", "")],
        "hi",
    )
    .await;
    check(
        "POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 0\r\n\r\n",
        &[("content-length", "0"), ("transfer-encoding", "")],
        "",
    )
    .await;
    check(
        "GET / HTTP/1.1\r\nHost: b\r\n\r\n",
        &[("content-length", ""), ("transfer-encoding", "")],
        "",
    )
    .await;
    for method in ["POST", "GET", "DELETE"] {
        check(
            &format!("{method} / HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"),
            &[("content-length", ""), ("transfer-encoding", "chunked")],
            "2\r\nhi\r\n0\r\n\r\n",
        )
        .await;
    }
}

#[tokio::test]
async fn request_trailers_pass_made_anew() {
    let (upstream, mut client) = stage(|_| {}).await;
    client
        .send(format!(
            "POST / HTTP/1.1\r\nHost: b\r\nTrailer: X-Sum, X-Leak, Authorization\r\n\
             Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\nX-Sum: 1\r\nX-Leak: {}\r\n\
             Authorization: x\r\nX-Key: y\r\n\r\n",
            token().as_str()
        ))
        .await;
    let mut line = upstream.accept().await;
    let head = line.head().await;
    assert_eq!(field(&head, "trailer"), ["x-sum, x-leak"]);
    assert_eq!(line.chunk().await.unwrap(), b"hi");
    assert_eq!(line.chunk().await, None);
    assert_eq!(line.head().await, "x-sum: 1\r\n\r\n");
}
