//! The journal: whole records on disk before the answer, for the operator alone,
//! bounded, and pruned by hand.

use jackfield_tests::client::{Request, Response};
use jackfield_tests::plugins::Plugin;
use jackfield_tests::world::{World, is_refusal};
use serde_json::{Value, json};

use crate::world;

async fn clerk(limits: &str) -> World {
    let world = world()
        .plugins(&[Plugin::Clerk])
        .tables(&format!("[limits]\n{limits}"))
        .ready()
        .await;
    world.declare(&world.token, &[("clerk", &["file"])]).await;
    world
}

async fn note(world: &World, token: &str, path: &str, body: &[u8]) -> Response {
    let request = Request::post(&format!("/clerk/{path}")).bearer(token);
    world.send(&request.body(body.to_vec())).await
}

async fn records(world: &World, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["journal", "clerk", "--json"], arguments].concat();
    let printed = world.command(&arguments, "").await.ok().stdout;
    let lines = printed.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("a JSON line"))
        .collect()
}

#[tokio::test]
async fn a_record_of_a_mebibyte_lasts_whole() {
    let mut world = clerk("").await;
    let token = world.token.clone();
    let large = "é\n".repeat(1024 * 1024 / 3);
    assert_eq!(
        note(&world, &token, "note", b"small \x1b[31m\n")
            .await
            .status,
        200
    );
    assert_eq!(
        note(&world, &token, "note", large.as_bytes()).await.status,
        200
    );
    assert_eq!(note(&world, &token, "note", b"\xff\x00").await.status, 200);
    let host = world.take_host();
    host.crash().await;
    world.serve_as_approved().await;
    let records = records(&world, &[]).await;
    assert_eq!(records.len(), 3);
    assert_eq!(records[0]["record"], json!("small \u{1b}[31m\n"));
    assert_eq!(records[1]["record"], json!(large));
    assert_eq!(records[2]["base64"], json!("/wA="));
    assert!(records.iter().all(|record| record["box"] == json!("box-a")));
    // A terminal is not obeyed, and a record stays on its line.
    let printed = world.command(&["journal", "clerk"], "").await.ok().stdout;
    assert_eq!(printed.lines().count(), 3);
    assert!(
        printed
            .lines()
            .next()
            .unwrap_or_default()
            .ends_with(" box-a small \\u{1b}[31m\\u{a}")
    );
    // More than the plugin may say at once is refused whole.
    let response = note(&world, &token, "note-twice", &vec![b'x'; 600 * 1024]).await;
    is_refusal(
        "too much at once",
        &response,
        502,
        &["clerk", "journals at once"],
    );
}

#[tokio::test]
async fn a_full_journal_refuses_until_it_is_pruned() {
    let mut world = clerk("journal_bytes = 150000\njournal_bytes_per_box = 110000\n").await;
    let token = world.token.clone();
    let other = world.add_box("box-b").await;
    world.declare(&other, &[("clerk", &["file"])]).await;
    assert_eq!(
        note(&world, &token, "note", &[b'a'; 100_000]).await.status,
        200
    );
    // A box that has its share takes nothing from another's.
    for size in [10_001, 200_000] {
        let response = note(&world, &token, "note", &vec![b'c'; size]).await;
        let words = [
            "box-a",
            "clerk",
            "110000 bytes, journal_bytes_per_box",
            "--prune",
        ];
        is_refusal("a share that is full", &response, 429, &words);
    }
    let response = note(&world, &other, "note", &[b'b'; 50_001]).await;
    let words = [
        "150000 bytes, journal_bytes",
        "jackfield journal clerk --prune",
    ];
    is_refusal("a full journal", &response, 503, &words);
    assert_eq!(
        note(&world, &other, "note", &[b'b'; 40_000]).await.status,
        200
    );
    let metrics = world.home.metrics().await;
    for (limit, scope, count) in [
        ("journal_bytes_per_box", "box", 2),
        ("journal_bytes", "plugin", 1),
    ] {
        let line = format!(
            "jackfield_limit_refusals_total{{limit=\"{limit}\",scope=\"{scope}\"}} {count}\n"
        );
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    // Neither a restart nor a new box of the same name gives the share back.
    world.restart().await;
    let response = note(&world, &token, "note", &[b'c'; 10_001]).await;
    is_refusal("after a restart", &response, 429, &["box-a"]);
    world.command(&["box", "remove", "box-a"], "").await.ok();
    let token = world.add_box("box-a").await;
    world.declare(&token, &[("clerk", &["file"])]).await;
    let response = note(&world, &token, "note", &[b'c'; 10_001]).await;
    is_refusal("a new box of that name", &response, 429, &["box-a"]);
    let of_b = records(&world, &["--box", "box-b"]).await;
    assert_eq!(of_b.len(), 1);
    let at = of_b[0]["at"].as_str().expect("a time");
    assert_eq!(records(&world, &["--since", at]).await.len(), 1);
    let pruned = world
        .command(&["journal", "clerk", "--prune", at], "")
        .await
        .ok();
    assert!(
        pruned.stdout.contains("deleted 1 records"),
        "{}",
        pruned.stdout
    );
    assert_eq!(records(&world, &[]).await.len(), 1);
    assert_eq!(
        note(&world, &token, "note", &[b'c'; 100_000]).await.status,
        200
    );
}
