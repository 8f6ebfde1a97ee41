//! HTTP/2 that is none: the connection ends, or the stream alone where the rest
//! can go on; nothing reaches an upstream, and others are served.

use jackfield_tests::h2::H2Client;
use jackfield_tests::soon;
use jackfield_tests::world::World;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::bad_input::{hello, ready};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a small frame");
    let mut bytes = length.to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// A header, spelled out.
fn header(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = vec![0];
    for text in [name, value] {
        bytes.push(u8::try_from(text.len()).expect("a short text"));
        bytes.extend(text.as_bytes());
    }
    bytes
}

fn headers(lines: &[(&str, &str)]) -> Vec<u8> {
    lines
        .iter()
        .flat_map(|(name, value)| header(name, value))
        .collect()
}

/// A head that the host serves.
fn served() -> Vec<u8> {
    headers(&[
        (":method", "HEAD"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", "/llm/anthropic/api/hello"),
    ])
}

async fn connect(world: &World) -> TcpStream {
    let mut stream = TcpStream::connect(world.address())
        .await
        .expect("the host listens");
    stream.write_all(PREFACE).await.expect("the host reads");
    stream
        .write_all(&frame(SETTINGS, 0, 0, &[]))
        .await
        .expect("the host reads");
    stream
}

/// The next frame's type and stream; none at the connection's end.
async fn next(stream: &mut TcpStream) -> Option<(u8, u32)> {
    let mut head = [0; 9];
    soon("a frame", stream.read_exact(&mut head)).await.ok()?;
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let mut payload = vec![0; length as usize];
    soon("its payload", stream.read_exact(&mut payload))
        .await
        .ok()?;
    let number = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
    Some((head[3], number))
}

#[tokio::test]
async fn frames_that_are_none_end_their_connection_and_no_other() {
    let world = ready("").await;
    let mark = world.mark();
    let open = || frame(HEADERS, END_HEADERS, 1, &served());
    for (name, bytes) in [
        (
            "another protocol",
            b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        ),
        ("noise", vec![0xaa; 4096]),
        (
            "a frame of 16 MiB",
            vec![0xff, 0xff, 0xff, DATA, 0, 0, 0, 0, 1],
        ),
        ("settings of 5 bytes", frame(SETTINGS, 0, 0, &[0; 5])),
        ("settings of a stream", frame(SETTINGS, 0, 1, &[])),
        (
            "headers of no stream",
            frame(HEADERS, END_HEADERS, 0, &served()),
        ),
        (
            "headers of the host's stream",
            frame(HEADERS, END_HEADERS, 2, &served()),
        ),
        (
            "headers that cannot be unpacked",
            frame(HEADERS, END_HEADERS, 1, &[0xff; 40]),
        ),
        ("data of an unopened stream", frame(DATA, 0, 1, b"x")),
        (
            "a continuation of nothing",
            frame(CONTINUATION, END_HEADERS, 1, &served()),
        ),
        (
            "headers that are broken into",
            [frame(HEADERS, 0, 1, &served()), frame(DATA, 0, 1, b"x")].concat(),
        ),
        (
            "a push of a client's",
            frame(PUSH_PROMISE, END_HEADERS, 1, &[0, 0, 0, 2]),
        ),
        ("a window of nothing", frame(WINDOW_UPDATE, 0, 0, &[0; 4])),
        (
            "a window beyond all",
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 0xff, 0xff, 0xff]).repeat(2),
        ),
        (
            "a reset of 3 bytes",
            [open(), frame(RST_STREAM, 0, 1, &[0; 3])].concat(),
        ),
        ("padding beyond the frame", frame(DATA, 8, 1, &[200, 1, 2])),
        (
            "a stream that comes again",
            [
                frame(HEADERS, END_HEADERS, 5, &served()),
                frame(HEADERS, END_HEADERS, 3, &served()),
            ]
            .concat(),
        ),
    ] {
        let mut stream = connect(&world).await;
        // It may be closed while it is still being written to.
        let _ = stream.write_all(&bytes).await;
        while let Some((kind, _)) = next(&mut stream).await {
            if kind == GOAWAY {
                break;
            }
        }
        assert_eq!(world.send(&hello()).await.status, 200, "after {name}");
    }
    assert_eq!(world.mark(), mark);
}

#[tokio::test]
async fn frames_without_end_end_their_connection() {
    let world = ready("").await;
    let mark = world.mark();
    // Headers that go on and on; streams that are taken back at once.
    let continued = frame(CONTINUATION, 0, 1, &headers(&[("x-more", "more")]));
    let taken_back = |number: u32| {
        let open = frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &served());
        [open, frame(RST_STREAM, 0, 2 * number + 1, &[0, 0, 0, 8])].concat()
    };
    let floods = [
        [frame(HEADERS, 0, 1, &served()), continued.repeat(100_000)].concat(),
        (0..20_000).flat_map(taken_back).collect(),
    ];
    for flood in floods {
        let stream = connect(&world).await;
        let (mut reading, mut writing) = stream.into_split();
        let said = tokio::spawn(async move { writing.write_all(&flood).await });
        let mut rest = Vec::new();
        // Broken off or ended: it does not go on.
        let _ = soon("the end", reading.read_to_end(&mut rest)).await;
        said.abort();
        assert_eq!(world.send(&hello()).await.status, 200);
    }
    assert_eq!(world.mark(), mark);
}

#[tokio::test]
async fn a_head_that_is_none_ends_its_stream_or_its_connection_alone() {
    let world = ready("").await;
    let mark = world.mark();
    let token = format!("Bearer {}", world.token);
    let pseudo = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", "/egress/OPENAI/x"),
        ("authorization", &token),
    ];
    let and = |more: &[(&'static str, &'static str)]| [headers(&pseudo), headers(more)].concat();
    for (name, head) in [
        ("a name in capitals", and(&[("X-Upper", "x")])),
        ("a connection header", and(&[("connection", "close")])),
        ("a coding", and(&[("transfer-encoding", "chunked")])),
        ("a second path", and(&[(":path", "/other")])),
        ("an unknown pseudo-header", and(&[(":token", "x")])),
        ("a line's end in a value", and(&[("x-line", "a\r\nb: c")])),
        ("NUL in a value", and(&[("x-nul", "a\0b")])),
        ("an empty name", and(&[("", "x")])),
        (
            "no path",
            headers(&[(":method", "GET"), (":scheme", "http"), (":authority", "x")]),
        ),
        (
            "an empty path",
            headers(&[(":method", "GET"), (":scheme", "http"), (":path", "")]),
        ),
        ("no method", headers(&[(":scheme", "http"), (":path", "/")])),
        ("a length that is none", and(&[("content-length", "x")])),
    ] {
        let mut stream = connect(&world).await;
        let bad = frame(HEADERS, END_HEADERS | END_STREAM, 1, &head);
        let good = frame(HEADERS, END_HEADERS | END_STREAM, 3, &served());
        stream
            .write_all(&[bad, good].concat())
            .await
            .expect("the host reads");
        let (mut answered, mut ended) = (Vec::new(), true);
        while let Some((kind, number)) = next(&mut stream).await {
            answered.extend((kind == HEADERS).then_some(number));
            if kind == GOAWAY || answered.contains(&3) {
                ended = kind == GOAWAY;
                break;
            }
        }
        // Some of these the HTTP library takes for the connection's end.
        assert!(ended || answered.contains(&3), "after {name}: {answered:?}");
        assert_eq!(world.send(&hello()).await.status, 200, "after {name}");
        assert_eq!(world.mark(), mark, "{name} reached an upstream");
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused_and_the_connection_goes_on() {
    let world = ready("").await;
    let mark = world.mark();
    let mut client = H2Client::connect(world.address()).await;
    let long = "x".repeat(35_000);
    let large = http::Request::get(format!("http://{}/egress/OPENAI/x", world.address()))
        .header("authorization", format!("Bearer {}", world.token))
        .header("x-long", &long)
        .header("x-longer", &long);
    let large = large.body(Default::default()).expect("a request");
    let refused = client.say(large).await.expect("an answer");
    assert_eq!(refused.status(), 431);
    let target = "/llm/anthropic/v1/unknown";
    let response = client.send("POST", target, &world.token, "{}").await;
    assert_eq!(response.expect("the connection goes on").status(), 404);
    assert_eq!(world.mark(), mark);
    assert_eq!(world.send(&hello()).await.status, 200);
}
