//! A plugin's keep: what it holds, how much, and what happens when two requests
//! want to change the same.

use std::sync::Arc;

use jackfield_tests::client::Request;
use jackfield_tests::plugins::Plugin;
use jackfield_tests::world::{World, is_refusal};

use crate::world;

/// A world in which the clerk serves `box-a`, with these lines in its limits.
async fn clerk(limits: &str) -> World {
    let world = world()
        .plugins(&[Plugin::Clerk])
        .tables(&format!("[limits]\n{limits}"))
        .ready()
        .await;
    world.declare(&world.token, &[("clerk", &["file"])]).await;
    world
}

fn ask(world: &World, path: &str) -> Request {
    Request::post(&format!("/clerk/{path}")).bearer(&world.token)
}

async fn text(world: &World, path: &str) -> String {
    let response = world.send(&ask(world, path)).await;
    assert_eq!(response.status, 200, "{path}: {}", response.text());
    response.text()
}

#[tokio::test]
async fn keys_are_listed_for_their_box_alone() {
    let world = clerk("").await;
    let other = world.add_box("box-b").await;
    world.declare(&other, &[("clerk", &["file"])]).await;
    for key in ["n-2", "n-1", "m", "o"] {
        text(&world, &format!("set/{key}/x")).await;
    }
    let set = Request::post("/clerk/set/n-3/x").bearer(&other);
    assert_eq!(world.send(&set).await.status, 200);
    assert_eq!(text(&world, "list/n-").await, "n-1\nn-2");
    assert_eq!(text(&world, "list/n-/n-1").await, "n-2");
    assert_eq!(text(&world, "list/").await, "m\nn-1\nn-2\no");
    assert_eq!(text(&world, "list/z").await, "");
}

#[tokio::test]
async fn what_is_kept_has_a_limit_in_bytes_and_in_keys() {
    let world = clerk("keep_bytes_per_box = 1000\nkeep_keys_per_box = 3\n").await;
    let full = async |request: &Request, words: &[&str]| {
        let response = world.send(request).await;
        is_refusal("a full keep", &response, 429, words);
    };
    let fill =
        |key: &str, bytes: usize| ask(&world, &format!("fill/{key}")).body(vec![b'x'; bytes]);
    assert_eq!(world.send(&fill("a", 900)).await.status, 200);
    full(&fill("b", 100), &["clerk", "1000 bytes"]).await;
    assert_eq!(text(&world, "list/").await, "a", "nothing was kept");
    // Another box has room of its own.
    let other = world.add_box("box-b").await;
    world.declare(&other, &[("clerk", &["file"])]).await;
    let set = Request::post("/clerk/fill/a")
        .bearer(&other)
        .body(vec![b'x'; 900]);
    assert_eq!(world.send(&set).await.status, 200);
    assert_eq!(world.send(&fill("a", 10)).await.status, 200);
    text(&world, "set/b/x").await;
    text(&world, "set/c/x").await;
    full(&ask(&world, "set/d/x"), &["clerk", "3 keys"]).await;
    text(&world, "delete/b").await;
    text(&world, "set/d/x").await;
    let metrics = world.home.metrics().await;
    for line in [
        "jackfield_limit_refusals_total{limit=\"keep_bytes_per_box\",scope=\"box\"} 1",
        "jackfield_limit_refusals_total{limit=\"keep_keys_per_box\",scope=\"box\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_plan_is_made_whole_or_not_at_all() {
    let world = clerk("").await;
    text(&world, "set/k/one").await;
    for expected in ["-", "two"] {
        let request = ask(&world, &format!("set-if/k/{expected}/three"));
        world
            .refuses(&request, 409, &["clerk", "Send it again"])
            .await;
    }
    assert_eq!(text(&world, "read/k").await, "one");
    assert_eq!(text(&world, "owns/rooms/set-if").await, "no");
    let journal = world.command(&["journal", "clerk"], "").await.ok();
    assert_eq!(journal.stdout, "");
    assert_eq!(text(&world, "set-if/k/one/three").await, "set");
    assert_eq!(text(&world, "read/k").await, "three");
    assert_eq!(text(&world, "owns/rooms/set-if").await, "yes");
    let journal = world.command(&["journal", "clerk"], "").await.ok();
    assert!(
        journal.stdout.ends_with(" box-a set-if\n"),
        "{}",
        journal.stdout
    );
}

#[tokio::test]
async fn of_two_requests_that_read_the_same_one_is_told_to_come_again() {
    let world = Arc::new(clerk("").await);
    world.anthropic.take_over();
    let claim = || {
        let world = Arc::clone(&world);
        tokio::spawn(async move { world.send(&ask(&world, "claim/k")).await.status })
    };
    // Both have read when both calls are out.
    let (one, two) = (claim(), claim());
    let (mut first, mut second) = (world.anthropic.next().await, world.anthropic.next().await);
    for call in [&mut first, &mut second] {
        call.send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
            .await
            .expect("the host waits");
    }
    let mut statuses = [one.await.expect("an answer"), two.await.expect("an answer")];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    world.anthropic.let_go();
    assert_eq!(text(&world, "read/k").await, "i");
}

#[tokio::test]
async fn a_need_may_hold_many_calls_side_by_side() {
    let world = clerk("").await;
    let statuses = text(&world, "calls/64").await;
    assert_eq!(statuses.lines().count(), 64);
    world
        .refuses(&ask(&world, "calls/65"), 502, &["clerk", "65 calls"])
        .await;
}

#[tokio::test]
async fn a_plugin_knows_where_its_words_lead_and_what_it_was_granted() {
    let world = clerk("").await;
    assert_eq!(
        text(&world, "shown").await,
        "upstream anthropic\nsecret OPENAI\nkeep true\njournal true\nkinds parcels,rooms\n"
    );
    let narrow = crate::world()
        .plugins(&[Plugin::Clerk])
        .tables("[plugins.clerk]\ngrant = [\"keep\", \"owned:rooms\"]\n")
        .ready()
        .await;
    narrow.declare(&narrow.token, &[("clerk", &["file"])]).await;
    assert_eq!(
        text(&narrow, "shown").await,
        "keep true\njournal false\nkinds rooms\n"
    );
    for path in ["note", "own/parcels/1", "owns/parcels/1"] {
        narrow
            .refuses(&ask(&narrow, path), 502, &["clerk", "granted"])
            .await;
    }
    assert_eq!(text(&narrow, "own/rooms/1").await, "owned");
}
