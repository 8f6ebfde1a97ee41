//! `POST /api/box/declaration`: what is kept, what is refused, how it is
//! measured.

use jackfield_tests::client::{Request, Response};
use jackfield_tests::schema;
use jackfield_tests::world::{KEY, World, declaration, is_refusal, messages, report};
use regex_lite::Regex;
use serde_json::{Value, json};

use crate::world;

/// The most bytes that a report may have.
const MOST: usize = 32_768;

#[tokio::test]
async fn a_report_is_answered_with_the_entries_of_this_broker() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    let body = json!({"capabilities": [
        {"name": "inference", "broker": "lobby", "scope": ["agent", "decide"]},
        {"name": "egress", "broker": "fountain", "scope": ["OPENAI"]},
        {"name": "feedback", "broker": null, "scope": ["agent"]},
        {"name": "fountain", "scope": ["agent"]},
        {"name": "mail", "broker": "lobby"},
        {"name": "egress", "broker": "Lobby", "scope": ["OPENAI"]},
    ]});
    let answer = kept(&world, &token, &body.to_string()).await;
    assert_eq!(
        answer["capabilities"],
        json!([
            {"name": "inference", "broker": "lobby", "scope": ["agent", "decide"]},
            {"name": "mail", "broker": "lobby", "scope": []},
        ])
    );
    let at = answer["at"].as_str().expect("a time");
    let iso = Regex::new(r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})$");
    assert!(iso.expect("a pattern").is_match(at), "{at}");
}

#[tokio::test]
async fn the_broker_word_is_the_operator_s() {
    let world = world().top("broker = \"panel\"\n").start().await;
    let token = world.add_box("box-a").await;
    let body = json!({"capabilities": [
        {"name": "inference", "broker": "panel", "scope": ["agent"]},
        {"name": "egress", "broker": "lobby", "scope": ["OPENAI"]},
    ]});
    let answer = kept(&world, &token, &body.to_string()).await;
    assert_eq!(
        answer["capabilities"],
        json!([{"name": "inference", "broker": "panel", "scope": ["agent"]}])
    );
}

#[tokio::test]
async fn entries_of_one_name_are_merged_and_their_words_are_unique() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    let answer = world
        .declare(
            &token,
            &[
                ("egress", &["B", "A", "B"]),
                ("inference", &["agent"]),
                ("egress", &["A", "C"]),
            ],
        )
        .await;
    assert_eq!(
        answer["capabilities"],
        json!([
            {"name": "egress", "broker": "lobby", "scope": ["B", "A", "C"]},
            {"name": "inference", "broker": "lobby", "scope": ["agent"]},
        ])
    );
}

#[tokio::test]
async fn a_token_that_is_no_box_s_reports_nothing() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    let body = report(&[("inference", &["agent"])]);
    let stranger = format!("jft_{}", "A".repeat(43));
    world.refuses(&declaration(&body), 403, &["token"]).await;
    for unknown in [stranger.as_str(), "nonsense", "", &token[..token.len() - 1]] {
        let request = declaration(&body).bearer(unknown);
        world.refuses(&request, 403, &["token"]).await;
    }
}

#[tokio::test]
async fn what_is_no_report_is_a_400_and_changes_nothing() {
    let world = world().ready().await;
    for body in malformed() {
        let request = declaration(&body).bearer(&world.token);
        let response = world.refuses(&request, 400, &[]).await;
        let error = &response.json()["error"]["type"];
        assert_eq!(error, "invalid_request_error", "{body}");
    }
    let bytes = b"{\"capabilities\": [], \"note\": \"\xff\"}".to_vec();
    let request = declaration("").body(bytes).bearer(&world.token);
    world.refuses(&request, 400, &[]).await;

    let response = world.send(&messages().bearer(&world.token)).await;
    assert_eq!(response.status, 200, "the last good report still stands");
}

fn malformed() -> Vec<String> {
    let mut bodies: Vec<String> = [
        "",
        "no json",
        "[]",
        "null",
        "\"capabilities\"",
        "{}",
        r#"{"capabilities": null}"#,
        r#"{"capabilities": {}}"#,
        r#"{"capabilities": ["inference"]}"#,
        r#"{"capabilities": [null]}"#,
        r#"{"capabilities": []} {}"#,
        r#"{"capabilities": [],}"#,
        r#"{"capabilities": [], "capabilities": []}"#,
        r#"{"capabilities": [], "note": {"a": 1, "a": 2}}"#,
        r#"{"capabilities": [], "note": {"a": 1, "\u0061": 2}}"#,
        r#"{"capabilities": [{"name": "a", "name": "a", "broker": "lobby"}]}"#,
        r#"{"capabilities": [], "note": "\ud800"}"#,
        r#"{"capabilities": [], "note": 01}"#,
        r#"{"capabilities": [], "note": NaN}"#,
    ]
    .map(str::to_owned)
    .to_vec();
    bodies.push(nested(65));

    let entry = |entry: Value| json!({"capabilities": [entry]}).to_string();
    bodies.extend(
        [
            json!({"broker": "lobby", "scope": ["a"]}),
            json!({"name": 1, "broker": "lobby", "scope": ["a"]}),
            json!({"name": "", "broker": "lobby", "scope": ["a"]}),
            json!({"name": "Inference", "broker": "lobby", "scope": ["a"]}),
            json!({"name": "1x", "broker": "lobby", "scope": ["a"]}),
            json!({"name": "a_b", "broker": "lobby", "scope": ["a"]}),
            json!({"name": "a".repeat(64), "broker": "lobby", "scope": ["a"]}),
            json!({"name": "a\n", "broker": "lobby", "scope": ["a"]}),
            json!({"name": "a", "broker": 1, "scope": ["a"]}),
            json!({"name": "a", "broker": ["lobby"], "scope": ["a"]}),
            json!({"name": "a", "broker": "lobby", "scope": "agent"}),
            json!({"name": "a", "broker": "lobby", "scope": [1]}),
            json!({"name": "a", "broker": "lobby", "scope": [null]}),
            json!({"name": "a", "broker": "lobby", "scope": [""]}),
            json!({"name": "a", "broker": "lobby", "scope": ["w".repeat(65)]}),
            json!({"name": "a", "broker": "lobby", "scope": ["é".repeat(65)]}),
            json!({"name": "a", "broker": "lobby", "scope": ["a\u{1f}b"]}),
            json!({"name": "a", "broker": "lobby", "scope": ["a\u{0}"]}),
            json!({"name": "a", "broker": "lobby", "scope": words(51)}),
            // An entry of another broker's is dropped, and checked all the same.
            json!({"name": "Bad", "broker": "fountain", "scope": ["a"]}),
            json!({"name": "a", "broker": "fountain", "scope": [""]}),
            json!({"name": "a", "broker": null, "scope": words(51)}),
        ]
        .map(entry),
    );
    let many: Vec<Value> = (0..21)
        .map(|number| json!({"name": format!("a{number}"), "broker": "lobby", "scope": []}))
        .collect();
    bodies.push(json!({ "capabilities": many }).to_string());

    let listing = |listing: Value| json!({"capabilities": [], "listing": listing}).to_string();
    bodies.extend(
        [
            json!("a title"),
            json!([]),
            json!({"line": "l"}),
            json!({"title": "t"}),
            json!({"title": null, "line": "l"}),
            json!({"title": "t".repeat(61), "line": "l"}),
            json!({"title": "t", "line": "l".repeat(141)}),
            json!({"title": "t\u{7}", "line": "l"}),
            json!({"title": "t", "line": "l\u{7f}"}),
            json!({"title": "t", "line": "l\n"}),
            json!({"title": "t", "line": "l", "published": "yes"}),
            json!({"title": "t", "line": "l", "published": null}),
        ]
        .map(listing),
    );

    let spends = [
        ("month", json!("2026-13")),
        ("month", json!("2026-1")),
        ("month", json!("2026-01-01")),
        ("month", json!(null)),
        ("usd", json!(-0.01)),
        ("usd", json!(1_000_000_000)),
        ("usd", json!("1.50")),
        ("usd", json!(null)),
        ("runs", json!(1.5)),
        ("runs", json!(-1)),
        ("runs", json!(1_000_000_000)),
        ("unpriced", json!("0")),
        ("byPrincipal", json!({})),
        (
            "byPrincipal",
            json!([{"principal": "", "usd": 0, "runs": 0, "unpriced": 0}]),
        ),
        (
            "byPrincipal",
            json!([{"principal": "p".repeat(201), "usd": 0, "runs": 0, "unpriced": 0}]),
        ),
        (
            "byPrincipal",
            json!([{"principal": 1, "usd": 0, "runs": 0, "unpriced": 0}]),
        ),
        ("byPrincipal", json!([{"usd": 0, "runs": 0, "unpriced": 0}])),
        (
            "byPrincipal",
            json!([{"principal": null, "usd": -1, "runs": 0, "unpriced": 0}]),
        ),
        (
            "byPrincipal",
            json!([{"principal": null, "usd": 0, "runs": 0.5, "unpriced": 0}]),
        ),
        (
            "byPrincipal",
            json!([{"principal": null, "usd": 0, "runs": 0}]),
        ),
        ("byPrincipal", json!(vec![principal("p"); 51])),
    ];
    for (member, value) in spends {
        let mut spend = spend();
        spend[member] = value;
        bodies.push(json!({"capabilities": [], "spend": spend}).to_string());
    }
    for member in ["month", "usd", "runs", "unpriced", "byPrincipal"] {
        let mut spend = spend();
        spend.as_object_mut().expect("an object").remove(member);
        bodies.push(json!({"capabilities": [], "spend": spend}).to_string());
    }
    bodies
}

#[tokio::test]
async fn what_just_fits_is_kept() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    let many: Vec<Value> = (0..20)
        .map(|number| json!({"name": format!("a{number}"), "broker": "lobby", "scope": words(50)}))
        .collect();
    let one = |entry: Value| json!({"capabilities": [entry]}).to_string();
    let with = |member: &str, value: Value| json!({"capabilities": [], member: value}).to_string();
    let mut whole_numbers = spend().to_string();
    whole_numbers = whole_numbers.replace("\"runs\":3", "\"runs\":3.0");
    let bodies = [
        json!({ "capabilities": many }).to_string(),
        r#"{"capabilities": []}"#.to_owned(),
        r#" {"capabilities" : [ ] , "more": [{"unknown": true}]} "#.to_owned(),
        one(json!({"name": "a".repeat(63), "broker": "lobby", "scope": ["a"]})),
        one(json!({"name": "a", "broker": "lobby", "scope": ["😀".repeat(64)]})),
        one(json!({"name": "a", "broker": "lobby", "scope": ["\u{7f} any printable"]})),
        one(json!({"name": "a", "broker": "lobby", "more": 1, "scope": []})),
        with(
            "listing",
            json!({"title": "t".repeat(60), "line": "l".repeat(140)}),
        ),
        with("listing", json!({"title": "é".repeat(60), "line": ""})),
        with("listing", Value::Null),
        with("spend", Value::Null),
        with(
            "spend",
            json!({"month": "2026-12", "usd": 999_999_999, "runs": 999_999_999,
            "unpriced": 0, "byPrincipal": vec![principal("p"); 50]}),
        ),
        format!(r#"{{"capabilities": [], "spend": {whole_numbers}}}"#),
        nested(64),
        padded(MOST),
    ];
    for body in bodies {
        kept(&world, &token, &body).await;
    }
}

#[tokio::test]
async fn a_report_is_measured_in_bytes_and_read_no_further_than_the_limit() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;

    let request = declaration(&padded(MOST + 1)).bearer(&token);
    world.refuses(&request, 413, &["32"]).await;
    // Fewer characters than the limit, more bytes.
    let text = "é".repeat(MOST / 2);
    let request = declaration(&json!({"capabilities": [], "note": text}).to_string());
    world.refuses(&request.bearer(&token), 413, &[]).await;

    // Declared too long: the answer comes although not a byte was sent.
    let mut client = world.client().await;
    let mut request = declaration("").bearer(&token);
    request
        .fields
        .push(("content-length".to_owned(), b"32769".to_vec()));
    client.send(&request).await;
    let response = client.response().await.expect("an answer");
    is_refusal("a declared length", &response, 413, &[]);

    // Undeclared: the answer comes although the end was never sent.
    let mut client = world.client().await;
    let request = declaration("")
        .bearer(&token)
        .header("transfer-encoding", "chunked");
    client.send(&request).await;
    client
        .send_chunk(&vec![b' '; MOST + 1])
        .await
        .expect("the host still reads");
    let response = client.response().await.expect("an answer");
    is_refusal("chunks without an end", &response, 413, &[]);

    // And what fits comes through chunk by chunk.
    let mut client = world.client().await;
    let request = declaration("")
        .bearer(&token)
        .header("transfer-encoding", "chunked");
    client.send(&request).await;
    for chunk in padded(MOST).as_bytes().chunks(1_000) {
        client.send_chunk(chunk).await.expect("the host reads");
    }
    client.send_chunk(b"").await.expect("the host reads");
    let response = client.response().await.expect("an answer");
    assert_eq!(response.status, 200, "{}", response.text());
}

#[tokio::test]
async fn listing_and_spend_come_back_as_they_were_written() {
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    let listing = r#"{"line":"A \u00e9 line","title":"A title"}"#;
    let spend = concat!(
        r#"{"month":"2026-11","usd":1.50,"runs":3,"unpriced":0,"byPrincipal":["#,
        r#"{"principal":null,"usd":1e2,"runs":1,"unpriced":1},"#,
        r#"{"principal":"github:octocat","usd":0.10,"runs":2,"unpriced":0}]}"#
    );
    let body = format!(r#"{{"capabilities":[],"listing":{listing},"spend":{spend}}}"#);
    let response = world.send(&declaration(&body).bearer(&token)).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let answer = response.json();
    schema::holds("declarationKept", &answer);
    let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    assert_eq!(answer["listing"], value(listing));
    assert_eq!(answer["spend"], value(spend));
    let text = response.text();
    for spelling in ["1.50", "1e2", "0.10"] {
        assert!(text.contains(spelling), "{spelling} is gone: {text}");
    }
    assert!(answer["listing"].get("published").is_none(), "{answer}");

    let answer = kept(&world, &token, r#"{"capabilities":[]}"#).await;
    assert!(answer.get("listing").is_none(), "it was replaced: {answer}");
    assert!(answer.get("spend").is_none(), "it was replaced: {answer}");
}

#[tokio::test]
async fn each_report_replaces_the_last() {
    let world = world().ready().await;
    let call = messages().bearer(&world.token);
    assert_eq!(world.send(&call).await.status, 200);
    world
        .declare(&world.token, &[("egress", &["OPENAI"])])
        .await;
    world.refuses(&call, 403, &["inference", "agent"]).await;
    world
        .declare(&world.token, &[("inference", &["agent"])])
        .await;
    assert_eq!(world.send(&call).await.status, 200);
    let request = Request::get("/egress/OPENAI/x").bearer(&world.token);
    world.refuses(&request, 403, &["egress", "OPENAI"]).await;
}

#[tokio::test]
async fn a_report_speaks_for_its_own_box_alone() {
    let world = world().ready().await;
    let other = world.add_box("box-b").await;
    world.declare(&other, &[]).await;
    let response = world.send(&messages().bearer(&world.token)).await;
    assert_eq!(response.status, 200, "{}", response.text());
    world
        .refuses(&messages().bearer(&other), 403, &["inference"])
        .await;
}

#[tokio::test]
async fn another_method_is_a_405_that_names_the_right_one() {
    let world = world().ready().await;
    for method in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        let request = Request::new(method, "/api/box/declaration").bearer(&world.token);
        let response = world.refuses(&request, 405, &[]).await;
        assert_eq!(response.fields.all("allow"), ["POST"], "{method}");
        assert_eq!(response.json()["error"]["type"], "method_not_allowed");
    }
    let request = Request::new("HEAD", "/api/box/declaration").bearer(&world.token);
    assert_eq!(world.send(&request).await.status, 405);
}

#[tokio::test]
async fn who_pays_is_said_alike_in_both_places() {
    let owner = ["--payer", "owner", "--principal", "github:octocat"];
    for (arguments, header, payer) in [
        (&[][..], None, None),
        (
            &["--payer", "shared"],
            Some("shared"),
            Some(json!({"kind": "shared"})),
        ),
        (
            &owner,
            Some("owner github:octocat"),
            Some(json!({"kind": "owner", "principal": "github:octocat"})),
        ),
    ] {
        let world = world().ready().await;
        let credential = [&["anthropic", "--kind", "api-key"], arguments].concat();
        world.credential(KEY, &credential).await;
        let mut declared = world
            .declare(&world.token, &[("inference", &["agent"])])
            .await;
        // A principal that nobody knows may be left out or null.
        if let Some(said) = declared.get_mut("payer").and_then(Value::as_object_mut) {
            said.retain(|_, value| !value.is_null());
        }
        assert_eq!(declared.get("payer"), payer.as_ref());
        let header: Vec<&str> = header.into_iter().collect();
        for (request, status) in [
            (messages(), 200),
            (Request::post("/llm/anthropic/v1/unknown"), 404),
        ] {
            let response = world.send(&request.bearer(&world.token)).await;
            assert_eq!(response.status, status);
            assert_eq!(response.fields.all("chant-payer"), header, "{status}");
        }
        world.declare(&world.token, &[]).await;
        let response = world.send(&messages().bearer(&world.token)).await;
        assert_eq!(response.status, 403);
        assert_eq!(response.fields.all("chant-payer"), header, "a refusal too");
        let egress = Request::get("/egress/OPENAI/x").bearer(&world.token);
        let response = world.send(&egress).await;
        assert!(!response.fields.has("chant-payer"), "no model call");
    }
}

async fn kept(world: &World, token: &str, body: &str) -> Value {
    let response: Response = world.send(&declaration(body).bearer(token)).await;
    let shown: String = body.chars().take(200).collect();
    assert_eq!(response.status, 200, "{shown}: {}", response.text());
    let answer = response.json();
    schema::holds("declarationKept", &answer);
    answer
}

fn words(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("w{number}")).collect()
}

fn principal(name: &str) -> Value {
    json!({"principal": name, "usd": 0.5, "runs": 1, "unpriced": 0})
}

fn spend() -> Value {
    json!({"month": "2026-11", "usd": 1.5, "runs": 3, "unpriced": 0,
        "byPrincipal": [principal("github:octocat")]})
}

/// A report whose deepest array or object is this many levels deep.
fn nested(depth: usize) -> String {
    let inner = depth - 1;
    format!(
        r#"{{"capabilities": [], "note": {}{}}}"#,
        "[".repeat(inner),
        "]".repeat(inner)
    )
}

/// A report of exactly this many bytes.
fn padded(length: usize) -> String {
    let (before, after) = (r#"{"capabilities": [], "note": ""#, r#""}"#);
    let padding = length - before.len() - after.len();
    format!("{before}{}{after}", "x".repeat(padding))
}
