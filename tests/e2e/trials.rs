//! New versions beside the live one: a shadow that is asked the same and not
//! heeded, and a canary that serves some of the boxes.

use jackfield_tests::client::Request;
use jackfield_tests::soon;
use jackfield_tests::world::World;
use serde_json::{Value, json};

use crate::moods::{
    file, flows, has_happened, hash_of, in_mood, is_tinted, moods, moody, stream, stream_of, tint,
    tint_of, tinted, until,
};

fn stepping(step: &str) -> Vec<u8> {
    moody(&[("step:as-ever", &format!("step:{step}"))])
}

/// Hands a version over to be tried, and says what was answered.
async fn try_out(world: &World, bytes: &[u8], how: &[&str]) -> String {
    let path = file(world, "next.wasm", bytes);
    let load = [&["plugin", "load", &path], how].concat();
    world.command(&load, "").await.ok().stdout
}

async fn compared(world: &World) -> Value {
    let compare = ["plugin", "compare", "moody", "--json"];
    world.command(&compare, "").await.ok().json()
}

/// The comparison once so many requests are in it.
async fn once_compared(world: &World, count: u64) -> Value {
    until("all are compared", world, async |world| {
        compared(world).await["compared"] == count
    })
    .await;
    compared(world).await
}

async fn status(world: &World, token: &str, path: &str) -> u16 {
    let request = Request::post(path).bearer(token).body("hush-body");
    world.send(&request).await.status
}

async fn act(world: &World, arguments: &[&str]) -> String {
    world.command(arguments, "").await.ok().stdout
}

#[tokio::test]
async fn a_shadow_is_asked_the_same_and_nothing_it_says_is_done() {
    let world = moods().await;
    let said = try_out(&world, &tinted("red"), &["--shadow"]).await;
    assert!(said.contains("jackfield plugin compare moody"), "{said}");
    for _ in 0..3 {
        assert_eq!(tint(&world).await, "tint:green");
    }
    for path in [
        "/moody/x?hush-query",
        "/moody/x",
        "/moody/ask",
        "/moody/ask",
    ] {
        assert_ne!(status(&world, &world.token, path).await, 502, "{path}");
    }
    // What both need is brought once, and what the shadow says goes nowhere.
    let found = once_compared(&world, 7).await;
    assert_eq!(world.anthropic.requests().len(), 4);
    assert_eq!(found["differing"], 5, "{found}");
    assert_eq!(found["skipped"], 0, "{found}");
    assert_eq!(found["kinds"], json!({"body": 5}), "{found}");
    let example = &found["examples"][0];
    assert_eq!(example["box"], "box-a");
    assert_eq!(
        (&example["method"], &example["path"]),
        (&json!("GET"), &json!("/moody"))
    );
    let text = act(&world, &["plugin", "compare", "moody"]).await;
    assert!(
        text.contains("5 of 7 requests decided differently"),
        "{text}"
    );
    for hidden in ["tint:", "hush"] {
        assert!(!text.contains(hidden) && !found.to_string().contains(hidden));
    }
    let listed = act(&world, &["plugin", "list"]).await;
    assert!(listed.contains("is live"), "{listed}");
    assert!(
        listed.contains("is asked beside the live version"),
        "{listed}"
    );

    act(&world, &["plugin", "promote", "moody"]).await;
    assert_eq!(tint(&world).await, "tint:red");
    has_happened(&world, "live", "promoted by the operator; it was a shadow").await;
    let said = world.command(&["plugin", "compare", "moody"], "").await;
    assert!(said.failed().contains("is tried beside"));
}

#[tokio::test]
async fn each_kind_of_difference_is_told_by_name_and_not_by_value() {
    let world = moods().await;
    for (step, path, kind, told) in [
        ("refuses", "/moody/x", "action", "refuses 403"),
        (
            "reaches",
            "/moody/x",
            "failure",
            "reaches beyond its bounds",
        ),
        ("failing", "/moody/x", "failure", "fails: trapped"),
        ("looping", "/moody/x", "failure", "fails: timed_out"),
        ("edited!", "/moody/x", "request-headers", "set x-mood"),
        ("needing", "/moody/ask", "need", "needs 1 calls"),
    ] {
        try_out(&world, &stepping(step), &["--shadow"]).await;
        let target = format!("{path}?hush-query");
        assert_eq!(
            status(&world, &world.token, &target).await,
            expected(path),
            "{step}"
        );
        let found = once_compared(&world, 1).await;
        assert_eq!(found["kinds"], json!({kind: 1}), "{step}: {found}");
        let text = found.to_string();
        assert!(text.contains(told) && !text.contains("hush"), "{text}");
    }
    // Where both fail alike there is no difference.
    try_out(&world, &tinted("red"), &["--shadow"]).await;
    assert_eq!(status(&world, &world.token, "/moody/trap").await, 502);
    let found = once_compared(&world, 1).await;
    assert_eq!(found["differing"], 0, "{found}");
}

/// What the live one makes of it.
fn expected(path: &str) -> u16 {
    match path {
        "/moody/ask" => 200,
        // The stand-in knows no such path.
        _ => 404,
    }
}

#[tokio::test]
async fn a_shadow_that_is_behind_is_skipped_and_costs_nobody_an_answer() {
    let world = moods().await;
    try_out(&world, &stepping("looping"), &["--shadow"]).await;
    until("some are skipped", &world, async |world| {
        for _ in 0..20 {
            assert_eq!(status(world, &world.token, "/moody/x").await, 404);
        }
        compared(world).await["skipped"].as_u64().expect("a count") > 0
    })
    .await;
    // No box waits behind it for an instance, either.
    assert_eq!(tint(&world).await, "tint:green");
    let said = act(&world, &["plugin", "reject", "moody"]).await;
    assert!(said.contains("rejected"), "{said}");
    assert_eq!(tint(&world).await, "tint:green");
}

#[tokio::test]
async fn a_shadow_comes_the_way_that_every_version_comes() {
    let mut world = moods().await;
    let refused = async |world: &World, bytes: &[u8], cause: &str| {
        let path = file(world, "bad.wasm", bytes);
        let load = ["plugin", "load", &path, "--shadow"];
        let said = world.command(&load, "").await.failed();
        assert!(said.contains(cause), "{said}");
        assert_eq!(tint(world).await, "tint:green", "{cause}");
    };
    refused(&world, b"half", "not binary WebAssembly").await;
    refused(&world, &in_mood("claims"), "meets /liar").await;
    refused(&world, &moody(&[]), "the live version of moody itself").await;
    // More than the live one may waits, and begins as what it was handed as.
    let said = try_out(&world, &in_mood("greedy"), &["--shadow"]).await;
    assert!(said.contains("more than it: keep"), "{said}");
    let compare = ["plugin", "compare", "moody"];
    assert!(
        world
            .command(&compare, "")
            .await
            .failed()
            .contains("is tried")
    );
    world.restart().await;
    let said = act(&world, &["plugin", "approve", "moody"]).await;
    assert!(said.contains("is asked beside the live version"), "{said}");
    assert_eq!(tint(&world).await, "tint:green");
    // It goes on over a restart, until its hash is blocked.
    world.restart().await;
    assert_eq!(tint(&world).await, "tint:green");
    once_compared(&world, 1).await;
    let hash = hash_of(&world, "shadow").await;
    act(&world, &["plugin", "block", &hash]).await;
    assert!(
        world
            .command(&compare, "")
            .await
            .failed()
            .contains("is tried")
    );
    refused(&world, &in_mood("greedy"), "blocked").await;
    let promote = ["plugin", "promote", "moody"];
    assert!(
        world
            .command(&promote, "")
            .await
            .failed()
            .contains("is tried")
    );
    let unknown = world.command(&["plugin", "compare", "nobody"], "").await;
    assert!(unknown.failed().contains("nobody"));
}

/// A world with a second box that may use the moody one.
async fn two_boxes() -> (World, String) {
    let world = moods().await;
    let other = world.add_box("box-b").await;
    world.declare(&other, &[("moody", &["feel"])]).await;
    (world, other)
}

#[tokio::test]
async fn a_canary_serves_its_boxes_and_the_live_one_all_others() {
    let (mut world, other) = two_boxes().await;
    world.anthropic.take_over();
    let (mut client, mut exchange) = stream_of(&world, &other).await;
    // It serves, so somebody has to say yes; and then it is a canary.
    let said = try_out(&world, &tinted("red"), &["--canary", "box-b"]).await;
    assert!(said.contains("jackfield plugin approve moody"), "{said}");
    assert_eq!(tint_of(&world, &other).await, "tint:green");
    let said = act(&world, &["plugin", "approve", "moody"]).await;
    assert!(said.contains("serves box-b first"), "{said}");
    let both = async |world: &World| {
        for _ in 0..3 {
            assert_eq!(tint(world).await, "tint:green");
            assert_eq!(tint_of(world, &other).await, "tint:red");
        }
    };
    both(&world).await;
    let listed = act(&world, &["plugin", "list"]).await;
    assert!(listed.contains("is live") && listed.contains("serves box-b first"));
    // What began under the live one goes on under it.
    flows(&mut client, &mut exchange).await;
    let (mut on_canary, mut its_exchange) = stream_of(&world, &other).await;
    let said = world.command(&["plugin", "compare", "moody"], "").await;
    assert!(said.failed().contains("--shadow"));
    drop((client, exchange));

    let hash = hash_of(&world, "canary").await;
    act(&world, &["plugin", "reject", &hash]).await;
    assert_eq!(tint_of(&world, &other).await, "tint:green");
    flows(&mut on_canary, &mut its_exchange).await;
    // A block reaches what a canary that is gone has open.
    act(&world, &["plugin", "block", &hash]).await;
    assert!(on_canary.body().await.is_err(), "a clean end");
    soon("the upstream is left", its_exchange.gone()).await;
    act(&world, &["plugin", "unblock", &hash]).await;

    try_out(&world, &tinted("red"), &["--canary", "box-b"]).await;
    world.restart().await;
    both(&world).await;
    let (mut on_canary, mut its_exchange) = stream_of(&world, &other).await;
    act(&world, &["plugin", "promote", "moody"]).await;
    is_tinted(&world, "tint:red").await;
    assert_eq!(tint_of(&world, &other).await, "tint:red");
    flows(&mut on_canary, &mut its_exchange).await;
    has_happened(&world, "live", "it was a canary on box-b").await;
}

#[tokio::test]
async fn a_canary_harms_its_boxes_alone_and_ends_with_its_approval() {
    let (world, other) = two_boxes().await;
    world.anthropic.take_over();
    let failing = stepping("failing");
    let path = file(&world, "next.wasm", &failing);
    act(&world, &["plugin", "load", &path, "--canary", "box-b"]).await;
    act(&world, &["plugin", "approve", "moody"]).await;
    let refused = world.send(&Request::post("/moody/x").bearer(&other)).await;
    assert_eq!(refused.status, 502, "{}", refused.text());
    let (mut client, mut exchange) = stream(&world).await;
    let hash = hash_of(&world, "canary").await;
    act(&world, &["plugin", "revoke", &hash]).await;
    let (mut again, mut and_its) = stream_of(&world, &other).await;
    flows(&mut again, &mut and_its).await;
    flows(&mut client, &mut exchange).await;
    // All boxes are a share, too, and a token that names none has no version.
    let said = try_out(&world, &tinted("blue"), &["--canary", "100%"]).await;
    assert!(said.contains("approve"), "{said}");
    act(&world, &["plugin", "approve", "moody"]).await;
    assert_eq!(tint(&world).await, "tint:blue");
    assert_eq!(tint_of(&world, &other).await, "tint:blue");
    let stranger = Request::get("/moody").bearer("nobody");
    assert_eq!(world.send(&stranger).await.status, 403);
    // Another version that goes live ends it.
    try_out(&world, &tinted("red"), &[]).await;
    act(&world, &["plugin", "approve", "moody"]).await;
    is_tinted(&world, "tint:red").await;
    has_happened(&world, "dropped", "is tried no longer").await;
    for share in ["0%", "a b", "101%"] {
        let load = ["plugin", "load", &path, "--canary", share];
        assert!(world.command(&load, "").await.failed().contains("share"));
    }
}
