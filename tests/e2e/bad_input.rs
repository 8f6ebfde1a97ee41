//! Bodies that are not what a route takes: each gets a refusal that says so,
//! touches no upstream, and leaves the next request unharmed, on its own
//! connection and on others.
//!
//! A route that reads a body is one more entry of [`takers`].

use bytes::Bytes;
use jackfield_tests::client::{Client, Request};
use jackfield_tests::plugins::Plugin;
use jackfield_tests::world::{World, declaration, is_refusal, report};
use serde_json::{Value, json};

use crate::world;

/// A route that reads a body.
pub(crate) struct Taker {
    pub(crate) target: &'static str,
    /// What it takes: a JSON object.
    pub(crate) good: String,
    /// What is JSON and none of that.
    wrong: Vec<Value>,
    /// The status of what it takes.
    pub(crate) taken: u16,
    /// The statuses of what is not in its format.
    refused: &'static [u16],
    /// The status of other methods, where none is served.
    other_method: Option<u16>,
    /// The statuses of paths below it.
    below: &'static [u16],
    /// The most bytes that it reads.
    most: usize,
}

/// Every route that reads a body, of a world as [`ready`] makes it.
pub(crate) fn takers() -> Vec<Taker> {
    let question = json!({"type": "noul", "instructions": "Ship it?",
        "criteria": {"true": "ship", "false": "hold"}});
    let decide = json!({"model": "m", "state": {}, "questions": {"ship": question}});
    let feedback = json!({"entries": [{"note": "x"}]});
    let conversation = json!({"agent_id": "a-1", "wanted": "c-1"});
    let with = |whole: &Value, member: &str, value: Value| {
        let mut whole = whole.clone();
        whole[member] = value;
        whole
    };
    let anything = || [json!(null), json!(true), json!(7), json!("text"), json!([])];
    let report: Value = serde_json::from_str(&declared()).expect("JSON");
    vec![
        Taker {
            target: "/api/box/declaration",
            good: declared(),
            wrong: anything()
                .into_iter()
                .filter(|value| *value != json!([]))
                .chain([json!({}), json!([7]), json!([{"name": 7}])])
                .map(|value| with(&report, "capabilities", value))
                .collect(),
            taken: 200,
            refused: &[400],
            other_method: Some(405),
            below: &[404],
            most: 32_768,
        },
        Taker {
            target: "/decide/v1/systemone",
            good: decide.to_string(),
            wrong: anything()
                .into_iter()
                .chain([json!({})])
                .flat_map(|value| {
                    let model =
                        (value != json!("text")).then(|| with(&decide, "model", value.clone()));
                    model.into_iter().chain([with(&decide, "questions", value)])
                })
                .collect(),
            taken: 200,
            refused: &[422],
            other_method: Some(404),
            below: &[404],
            most: 1024 * 1024,
        },
        Taker {
            target: "/api/feedback",
            good: feedback.to_string(),
            wrong: anything()
                .into_iter()
                .chain([json!({})])
                .map(|value| with(&feedback, "entries", value))
                .collect(),
            taken: 202,
            refused: &[400],
            other_method: Some(404),
            below: &[404],
            most: 1024 * 1024,
        },
        Taker {
            target: "/fountain/api/conversations",
            good: conversation.to_string(),
            wrong: anything()
                .into_iter()
                .chain([json!({}), json!("another's")])
                .map(|value| with(&conversation, "agent_id", value))
                .collect(),
            taken: 201,
            // JSON that names nothing, or nothing of the box's own.
            refused: &[400, 403],
            other_method: None,
            below: &[400, 403, 404],
            most: 1024 * 1024,
        },
    ]
}

fn declared() -> String {
    report(&[
        ("inference", &["agent", "decide"]),
        ("egress", &["OPENAI"]),
        ("feedback", &["agent"]),
        ("fountain", &["agent", "conversations"]),
    ])
}

/// A world whose box may use every taker.
pub(crate) async fn ready(tables: &str) -> World {
    let fountain = "[upstreams.fountain]\nurl = \"{fountain}\"\nallow_private = true\n";
    let world = world()
        .plugins(&[
            Plugin::Inference,
            Plugin::Egress,
            Plugin::Feedback,
            Plugin::Fountain,
        ])
        .tables(&format!("{fountain}{tables}"))
        .ready()
        .await;
    let credential = ["fountain", "--kind", "bearer"];
    world
        .credential("fountain-0123456789abcdefghijklmnop", &credential)
        .await;
    let own = ["box", "own", "box-a", "agents", "a-1"];
    world.command(&own, "").await.ok();
    let response = world
        .send(&declaration(&declared()).bearer(&world.token))
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    world
}

/// The cheapest request that is served.
pub(crate) fn hello() -> Request {
    Request::new("HEAD", "/llm/anthropic/api/hello")
}

impl Taker {
    pub(crate) fn request(&self, world: &World, body: impl Into<Bytes>) -> Request {
        Request::post(self.target)
            .header("content-type", "application/json")
            .bearer(&world.token)
            .body(body)
    }

    /// What it takes, with these members before its own.
    fn beside(&self, members: &str) -> String {
        let rest = self.good.strip_prefix('{').expect("an object");
        format!("{{{members},{rest}")
    }

    /// Bodies that are not in its format, and what they are called.
    fn nonsense(&self) -> Vec<(String, Vec<u8>)> {
        let good = self.good.as_bytes();
        let mut bodies: Vec<(String, Vec<u8>)> = [
            ("nothing", ""),
            ("a word", "nonsense"),
            ("half an object", "{"),
            ("the other half", "}"),
            ("a comma too many", "{\"a\":1,}"),
            ("a comment", "/* */ {}"),
            ("single quotes", "{'a': 1}"),
            ("markup", "<xml/>"),
            ("a form", "a=1&b=2"),
            ("NUL", "\0"),
            ("null", "null"),
            ("true", "true"),
            ("a number", "7"),
            ("a text", "\"text\""),
            ("a list", "[]"),
            ("an empty object", "{}"),
            ("a list of lists, never closed", &"[".repeat(20_000)),
            ("objects, never closed", &"{\"a\":".repeat(4_000)),
        ]
        .map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec()))
        .to_vec();
        for (name, members) in [
            ("a key twice", "\"extra\":1,\"extra\":2".to_owned()),
            (
                "a key twice below",
                "\"extra\":[{\"a\":1,\"a\":2}]".to_owned(),
            ),
            (
                "a key twice in two spellings",
                "\"extra\":{\"a\":1,\"\\u0061\":2}".to_owned(),
            ),
            ("half a surrogate pair", "\"extra\":\"\\ud800\"".to_owned()),
            ("a zero before a number", "\"extra\":01".to_owned()),
            ("no number", "\"extra\":NaN".to_owned()),
            ("a line's end in a text", "\"extra\":\"a\nb\"".to_owned()),
            (
                "65 levels",
                format!("\"extra\":{}{}", "[".repeat(64), "]".repeat(64)),
            ),
            (
                "9,000 levels",
                format!("\"extra\":{}{}", "[".repeat(9_000), "]".repeat(9_000)),
            ),
        ] {
            bodies.push((name.to_owned(), self.beside(&members).into_bytes()));
        }
        bodies.push(("no UTF-8".to_owned(), {
            let text = self.beside("\"extra\":\"?\"").into_bytes();
            text.into_iter()
                .map(|byte| if byte == b'?' { 0xff } else { byte })
                .collect()
        }));
        let utf16 = self.good.encode_utf16().flat_map(u16::to_le_bytes);
        bodies.push(("UTF-16".to_owned(), utf16.collect()));
        bodies.push((
            "a byte order mark".to_owned(),
            [b"\xef\xbb\xbf", good].concat(),
        ));
        bodies.push(("gzip".to_owned(), [&[0x1f, 0x8b, 8, 0], good].concat()));
        bodies.push(("a NUL at the end".to_owned(), [good, b"\0"].concat()));
        bodies.push(("it twice".to_owned(), [good, good].concat()));
        for length in [1, good.len() / 4, good.len() / 2, good.len() - 1] {
            bodies.push((format!("its first {length} bytes"), good[..length].to_vec()));
        }
        for value in &self.wrong {
            bodies.push(("a wrong type".to_owned(), value.to_string().into_bytes()));
        }
        bodies
    }
}

/// Holds the request to this refusal; then the next requests are served, on its
/// connection where that goes on, and on a fresh one.
async fn refused(world: &World, label: &str, client: &mut Client, statuses: &[u16]) {
    let response = client
        .response()
        .await
        .unwrap_or_else(|error| panic!("{label}: {error}"));
    let status = response.status;
    assert!(
        statuses.contains(&status),
        "{label}: {status} {}",
        response.text()
    );
    is_refusal(label, &response, status, &[]);
    if response.fields.all("connection") == ["close"] {
        client.gone().await;
    } else {
        client.send(&hello()).await;
        let next = client.response().await;
        let next = next.unwrap_or_else(|error| panic!("after {label}: {error}"));
        assert_eq!(next.status, 200, "after {label}, on its connection");
    }
    let next = world.send(&hello()).await;
    assert_eq!(next.status, 200, "after {label}, on a fresh connection");
}

async fn still_taken(world: &World, taker: &Taker) {
    let response = world.send(&taker.request(world, taker.good.clone())).await;
    assert_eq!(
        response.status,
        taker.taken,
        "{}: {}",
        taker.target,
        response.text()
    );
}

#[tokio::test]
async fn what_is_not_in_the_format_is_refused_by_name_and_harms_nobody() {
    let world = ready("").await;
    for taker in takers() {
        let mark = world.mark();
        for (name, body) in taker.nonsense() {
            let label = format!("{} with {name}", taker.target);
            let mut client = world.client().await;
            client.send(&taker.request(&world, body)).await;
            refused(&world, &label, &mut client, taker.refused).await;
        }
        assert_eq!(world.mark(), mark, "{} reached an upstream", taker.target);
        still_taken(&world, &taker).await;
    }
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_it_is_read() {
    let world = ready("").await;
    for taker in takers() {
        let mark = world.mark();
        let open = taker.request(&world, "");
        for length in [taker.most as u64 + 1, 1 << 40, 1 << 62] {
            let label = format!("{} of {length} bytes", taker.target);
            let mut client = world.client().await;
            client
                .send(&open.clone().header("content-length", length.to_string()))
                .await;
            refused(&world, &label, &mut client, &[413]).await;
        }
        // All of it is sent, in one piece and in chunks that do not end.
        let padding = "x".repeat(taker.most);
        let large = taker.beside(&format!("\"extra\":\"{padding}\""));
        let mut client = world.client().await;
        client.send(&taker.request(&world, large)).await;
        refused(&world, taker.target, &mut client, &[413]).await;
        let mut client = world.client().await;
        client
            .send(&open.clone().header("transfer-encoding", "chunked"))
            .await;
        let half = taker.most / 2 + 1;
        for _ in 0..2 {
            client
                .send_chunk(&vec![b' '; half])
                .await
                .expect("the host reads");
        }
        refused(&world, taker.target, &mut client, &[413]).await;
        assert_eq!(world.mark(), mark, "{} reached an upstream", taker.target);
        still_taken(&world, &taker).await;
    }
}

#[tokio::test]
async fn chunks_that_are_none_are_refused() {
    let world = ready("").await;
    let trailers = "x: y\r\n".repeat(20_000);
    for taker in takers() {
        let mark = world.mark();
        for chunks in [
            "zz\r\n".to_owned(),
            "-1\r\n".to_owned(),
            "+1\r\nx\r\n0\r\n\r\n".to_owned(),
            "0x1\r\nx\r\n0\r\n\r\n".to_owned(),
            "\r\n".to_owned(),
            "1\r\nxy\r\n0\r\n\r\n".to_owned(),
            "2\r\n{}0\r\n\r\n".to_owned(),
            "ffffffffffffffff0\r\n".to_owned(),
            "2\n{}\n0\n\n".to_owned(),
            format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "e".repeat(100_000)),
            format!("2\r\n{{}}\r\n0\r\n{trailers}\r\n"),
            "2\r\n{}\r\n0\r\nno trailer\r\n\r\n".to_owned(),
        ] {
            let shown: String = chunks.chars().take(40).collect();
            let label = format!("{} in {shown:?}", taker.target);
            let mut client = world.client().await;
            let open = taker
                .request(&world, "")
                .header("transfer-encoding", "chunked");
            client.send(&open).await;
            // It may be refused while it is still being sent.
            let _ = client.send_bytes(chunks.as_bytes()).await;
            refused(&world, &label, &mut client, &[400]).await;
        }
        assert_eq!(world.mark(), mark, "{} reached an upstream", taker.target);
        still_taken(&world, &taker).await;
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_nothing_and_harms_nobody() {
    let world = ready("").await;
    for taker in takers() {
        let mark = world.mark();
        let half = &taker.good.as_bytes()[..taker.good.len() / 2];
        let length = taker.good.len().to_string();
        let declared = taker.request(&world, "").header("content-length", length);
        let chunked = taker
            .request(&world, "")
            .header("transfer-encoding", "chunked");
        // The sending half ends: there is still somebody to be told.
        let mut client = world.client().await;
        client.send(&declared).await;
        client.send_bytes(half).await.expect("the host reads");
        client.end().await.expect("the host reads");
        refused(&world, taker.target, &mut client, &[400]).await;
        // A whole body, as JSON goes, but for the last chunk.
        let mut client = world.client().await;
        client.send(&chunked).await;
        client
            .send_chunk(taker.good.as_bytes())
            .await
            .expect("the host reads");
        client.end().await.expect("the host reads");
        refused(&world, taker.target, &mut client, &[400]).await;
        // The connection breaks: there is nobody.
        for request in [&declared, &chunked] {
            let mut client = world.client().await;
            client.send(request).await;
            client.reset();
            assert_eq!(world.send(&hello()).await.status, 200);
        }
        assert_eq!(world.mark(), mark, "{} reached an upstream", taker.target);
        still_taken(&world, &taker).await;
    }
}

#[tokio::test]
async fn another_method_and_another_path_are_refused_whatever_the_body() {
    let world = ready("").await;
    for taker in takers() {
        let mark = world.mark();
        for body in ["", "{", &taker.good] {
            for method in [
                "GET", "PUT", "PATCH", "DELETE", "OPTIONS", "FOO", "post", "TRACE",
            ] {
                let Some(status) = taker.other_method else {
                    break;
                };
                let mut request = taker.request(&world, body.to_owned());
                method.clone_into(&mut request.method);
                let label = format!("{method} {} with {body:?}", taker.target);
                let mut client = world.client().await;
                client.send(&request).await;
                refused(&world, &label, &mut client, &[status]).await;
            }
            for below in ["/", "/more", "x", "%00", "/.."] {
                let mut request = taker.request(&world, body.to_owned());
                request.target = format!("{}{below}", taker.target);
                let label = format!("{} with {body:?}", request.target);
                let mut client = world.client().await;
                client.send(&request).await;
                refused(&world, &label, &mut client, taker.below).await;
            }
        }
        assert_eq!(world.mark(), mark, "{} reached an upstream", taker.target);
        still_taken(&world, &taker).await;
    }
}
