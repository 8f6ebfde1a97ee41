//! What a box's agents report: kept or sent on as it came, by the words that
//! the batch needs and with the owner's consent.

use jackfield_tests::client::Request;
use jackfield_tests::plugins::Plugin;
use jackfield_tests::upstream::Reply;
use jackfield_tests::world::{Builder, World, is_refusal};
use serde_json::{Value, json};

use crate::world;

const RECEIVER: &str = "[upstreams.feedback]\nurl = \"{echo}/base\"\nallow_private = true\n";
const ENTRIES: &str = r#"{"entries": [ {"note":"é","n":1.50} ], "more":null}"#;
const COUNTS: &str = r#"{"counts":{"refusals":1}}"#;
const BOTH: &str = r#"{"entries":[1],"counts":{"refusals":1}}"#;

fn feedback(tables: &str) -> Builder {
    world().plugins(&[Plugin::Feedback]).tables(tables)
}

async fn ready(tables: &str) -> World {
    let world = feedback(tables).ready().await;
    world
        .declare(&world.token, &[("feedback", &["agent", "passive"])])
        .await;
    world
}

fn batch(world: &World, body: &str) -> Request {
    Request::post("/api/feedback")
        .header("content-type", "application/json")
        .body(body.to_owned())
        .bearer(&world.token)
}

/// The batches that were kept, oldest first.
async fn kept(world: &World) -> Vec<String> {
    let printed = world.command(&["journal", "feedback", "--json"], "").await;
    let printed = printed.ok().stdout;
    let records = printed.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a JSON line");
        assert_eq!(record["box"], "box-a");
        record["record"].as_str().expect("a text").to_owned()
    });
    records.collect()
}

#[tokio::test]
async fn without_a_receiver_batches_are_kept_as_they_came() {
    let mut world = ready("").await;
    for body in [ENTRIES, COUNTS, BOTH] {
        let response = world.send(&batch(&world, body)).await;
        assert_eq!(response.status, 202, "{}", response.text());
    }
    // What was answered as taken is on disk.
    world.take_host().crash().await;
    world.serve_as_approved().await;
    assert_eq!(kept(&world).await, [ENTRIES, COUNTS, BOTH]);
    assert_eq!(world.echo.connections(), 0);
}

#[tokio::test]
async fn a_batch_needs_the_words_of_all_that_it_holds() {
    let world = ready("").await;
    for (words, body, missing) in [
        (&["agent"][..], COUNTS, "passive"),
        (&["agent"][..], BOTH, "passive"),
        (&["passive"][..], ENTRIES, "agent"),
        (&["passive"][..], BOTH, "agent"),
        (&[][..], ENTRIES, "agent"),
    ] {
        world.declare(&world.token, &[("feedback", words)]).await;
        world
            .refuses(&batch(&world, body), 403, &["feedback", missing])
            .await;
    }
    // An empty part is none.
    world
        .declare(&world.token, &[("feedback", &["agent"])])
        .await;
    let body = r#"{"entries":[1],"counts":{}}"#;
    assert_eq!(world.send(&batch(&world, body)).await.status, 202);
    world
        .declare(&world.token, &[("inference", &["agent"])])
        .await;
    world
        .refuses(&batch(&world, ENTRIES), 403, &["feedback"])
        .await;
    assert_eq!(kept(&world).await, [body]);
}

#[tokio::test]
async fn what_is_no_batch_is_a_400_and_kept_nowhere() {
    let world = ready(RECEIVER).await;
    for body in [
        "",
        "nonsense",
        "[]",
        "7",
        "{}",
        r#"{"entries":[],"counts":{}}"#,
        r#"{"entries":"x"}"#,
        r#"{"entries":[1],"counts":[1]}"#,
        r#"{"entries":[1],"entries":[]}"#,
        r#"{"entries":[1]"#,
    ] {
        world.refuses(&batch(&world, body), 400, &[]).await;
    }
    let deep = format!(r#"{{"entries":[{}{}]}}"#, "[".repeat(70), "]".repeat(70));
    world.refuses(&batch(&world, &deep), 400, &["deeper"]).await;
    let long = format!(r#"{{"entries":["{}"]}}"#, "a".repeat(1024 * 1024));
    world.refuses(&batch(&world, &long), 413, &[]).await;
    for request in [
        Request::get("/api/feedback"),
        Request::post("/api/feedback/"),
        Request::post("/api/feedback/x").body(ENTRIES),
    ] {
        world.refuses(&request.bearer(&world.token), 404, &[]).await;
    }
    assert!(kept(&world).await.is_empty());
    assert_eq!(world.send(&batch(&world, ENTRIES)).await.status, 202);
}

#[tokio::test]
async fn the_largest_batch_is_kept_whole() {
    let world = ready("").await;
    let body = format!(r#"{{"entries":["{}"]}}"#, "a".repeat(1024 * 1024 - 16));
    assert_eq!(body.len(), 1024 * 1024);
    let response = world.send(&batch(&world, &body)).await;
    assert_eq!(response.status, 202, "{}", response.text());
    assert_eq!(kept(&world).await, [body]);
}

#[tokio::test]
async fn a_receiver_gets_the_batch_with_the_operator_s_credential() {
    const RECEIVERS_KEY: &str = "receiver-key-0123456789";
    let world = ready(RECEIVER).await;
    world.echo.reply(Reply::status(200));
    assert_eq!(world.send(&batch(&world, ENTRIES)).await.status, 202);
    let received = world.echo.last();
    assert_eq!(received.method, "POST");
    assert_eq!(received.target, "/base/api/feedback");
    assert_eq!(received.body, ENTRIES);
    assert_eq!(received.fields.all("content-type"), ["application/json"]);
    assert!(!received.fields.has("authorization"));

    world
        .credential(RECEIVERS_KEY, &["feedback", "--kind", "bearer"])
        .await;
    assert_eq!(world.send(&batch(&world, COUNTS)).await.status, 202);
    let bearer = format!("Bearer {RECEIVERS_KEY}");
    assert_eq!(world.echo.last().fields.all("authorization"), [bearer]);
    assert!(kept(&world).await.is_empty(), "it is sent on, not kept");
}

#[tokio::test]
async fn a_batch_that_the_receiver_did_not_take_was_not_taken() {
    let world = ready(RECEIVER).await;
    let body = json!({"error": {"message": "theirs"}});
    for status in [400, 409, 422, 429] {
        let reply = Reply::json(status, &body)
            .header("retry-after", "3")
            .header("x-theirs", "1");
        world.echo.reply(reply);
        let response = world.send(&batch(&world, ENTRIES)).await;
        assert_eq!((response.status, response.json()), (status, body.clone()));
        assert_eq!(response.fields.all("retry-after"), ["3"]);
        assert!(!response.fields.has("x-theirs"));
    }
    let broken = Reply::Raw(b"HTTP/1.1 202 Taken\r\ncontent-length: 9\r\n\r\n{".to_vec());
    let replies = [307, 401, 403, 407, 500, 503].map(Reply::status);
    for reply in replies.into_iter().chain([broken]) {
        world.echo.reply(reply);
        let response = world.send(&batch(&world, ENTRIES)).await;
        is_refusal("a receiver", &response, 502, &["send it later"]);
    }
    world.echo.stop();
    let response = world.send(&batch(&world, ENTRIES)).await;
    is_refusal("no receiver", &response, 502, &["send it later"]);
    assert!(kept(&world).await.is_empty());
}

#[tokio::test]
async fn a_broker_that_keeps_none_says_501_after_the_rule() {
    let world = ready("[plugins.feedback]\ngrant = []\n").await;
    world
        .refuses(&batch(&world, ENTRIES), 501, &["send it later"])
        .await;
    world
        .declare(&world.token, &[("feedback", &["agent"])])
        .await;
    world
        .refuses(&batch(&world, COUNTS), 403, &["passive"])
        .await;
    world.refuses(&batch(&world, "{}"), 400, &[]).await;
    // A receiver that is not granted is none.
    let tables = format!("{RECEIVER}[plugins.feedback]\ngrant = []\n");
    let world = ready(&tables).await;
    world
        .refuses(&batch(&world, ENTRIES), 501, &["send it later"])
        .await;
}

#[tokio::test]
async fn an_owner_who_has_not_consented_is_told_so_by_policy() {
    for consent in ["\"none\"", "[]", "[\"box-b\"]"] {
        let tables =
            format!("{RECEIVER}[plugins.feedback]\nsettings = {{ consent = {consent} }}\n");
        let world = ready(&tables).await;
        let response = world
            .refuses(&batch(&world, ENTRIES), 403, &["consent", "box-a"])
            .await;
        assert!(
            !response.text().contains("Add \\\"agent\\\""),
            "it is not the declaration: {}",
            response.text()
        );
        assert!(kept(&world).await.is_empty());
    }
    let tables = "[plugins.feedback]\nsettings = { consent = [\"box-b\", \"box-a\"] }\n";
    let world = ready(tables).await;
    assert_eq!(world.send(&batch(&world, ENTRIES)).await.status, 202);
}

#[tokio::test]
async fn settings_that_nobody_understands_keep_nothing_and_are_logged() {
    let world = ready("[plugins.feedback]\nsettings = { consnt = \"none\" }\n").await;
    world
        .refuses(&batch(&world, ENTRIES), 503, &["consnt", "send it later"])
        .await;
    assert!(kept(&world).await.is_empty());
    assert!(world.home.log().contains("consnt"));
}

#[tokio::test]
async fn a_token_in_a_batch_is_neither_kept_nor_sent() {
    for tables in ["", RECEIVER] {
        let world = ready(tables).await;
        let body = |text: &str| format!(r#"{{"entries":["{text}"]}}"#);
        let response = world.send(&batch(&world, &body(&world.token))).await;
        assert_eq!(response.status, 202, "{}", response.text());
        let masked = body(&"*".repeat(world.token.len()));
        match tables {
            "" => assert_eq!(kept(&world).await, [masked]),
            _ => assert_eq!(world.echo.last().body, masked),
        }
    }
}
