//! A version that fails after it went live, where the one before it does not:
//! how it is taken back by itself, and when it is not.

use jackfield_tests::client::Request;
use jackfield_tests::world::World;

use crate::moods::{
    file, has_happened, hash_of, history, is_tinted, moods_in, moody, tint, tint_of, until,
};
use crate::world;

/// A world in which two boxes are enough, with tokens of two more boxes.
async fn watchful() -> (World, [String; 2]) {
    let world = moods_in(world().tables("[watch]\nboxes = 2\n")).await;
    let mut others = Vec::new();
    for name in ["box-b", "box-c"] {
        let token = world.add_box(name).await;
        world.declare(&token, &[("moody", &["feel"])]).await;
        others.push(token);
    }
    let others = others.try_into().expect("two");
    (world, others)
}

/// A red version that fails so.
fn red(step: &str) -> Vec<u8> {
    let step = format!("step:{step}");
    moody(&[("tint:green", "tint:red  "), ("step:as-ever", &step)])
}

async fn act(world: &World, arguments: &[&str]) {
    world.command(arguments, "").await.ok();
}

async fn goes_live(world: &World, bytes: &[u8]) {
    let path = file(world, "next.wasm", bytes);
    act(world, &["plugin", "load", &path]).await;
    if tint(world).await != "tint:red" {
        act(world, &["plugin", "approve", "moody"]).await;
    }
    is_tinted(world, "tint:red").await;
}

async fn fails(world: &World, token: &str, path: &str) {
    let response = world.send(&Request::post(path).bearer(token)).await;
    assert_eq!(response.status, 502, "{}", response.text());
}

async fn taken_back(world: &World) -> usize {
    let events = history(world).await;
    let by_itself = events.iter().filter(|event| {
        let text = event["text"].as_str().unwrap_or_default();
        event["happened"] == "rolled-back" && text.contains("by itself")
    });
    by_itself.count()
}

async fn has_logged(world: &World, text: &str, times: usize) {
    until(text, world, async |world| {
        world.home.log().matches(text).count() >= times
    })
    .await;
}

const COUNTED: &str = "fails where the one before it does not";

#[tokio::test]
async fn a_version_that_fails_where_the_one_before_does_not_is_taken_back_once() {
    for step in ["failing", "reaches"] {
        let (world, [second, third]) = watchful().await;
        goes_live(&world, &red(step)).await;
        // One box, however often, is one box.
        for _ in 0..5 {
            fails(&world, &world.token, "/moody/x").await;
        }
        has_logged(&world, COUNTED, 1).await;
        assert_eq!(tint(&world).await, "tint:red");
        fails(&world, &second, "/moody/x").await;
        is_tinted(&world, "tint:green").await;
        has_happened(&world, "rolled-back", "for 2 boxes").await;
        has_happened(&world, "rolled-back", "box-a, box-b").await;
        // The version before is nobody's to watch: there is no way on from it.
        for token in [&world.token, &second, &third] {
            fails(&world, token, "/moody/trap").await;
        }
        assert_eq!(tint(&world).await, "tint:green");
        assert_eq!(taken_back(&world).await, 1);
        assert_eq!(world.home.log().matches(COUNTED).count(), 1);
    }
}

#[tokio::test]
async fn what_fails_before_it_as_well_takes_nothing_back() {
    let (world, [second, third]) = watchful().await;
    goes_live(&world, &red("failing")).await;
    for token in [&world.token, &second, &third] {
        fails(&world, token, "/moody/trap").await;
    }
    // They are looked at in order: after this one they all have been.
    fails(&world, &third, "/moody/x").await;
    has_logged(&world, COUNTED, 1).await;
    assert_eq!(tint(&world).await, "tint:red");
    assert_eq!(world.home.log().matches(COUNTED).count(), 1);
    assert_eq!(taken_back(&world).await, 0);
}

#[tokio::test]
async fn nothing_goes_back_to_a_version_that_is_blocked() {
    let (world, [second, third]) = watchful().await;
    let green = hash_of(&world, "live").await;
    goes_live(&world, &red("failing")).await;
    act(&world, &["plugin", "block", &green]).await;
    for token in [&world.token, &second, &third] {
        fails(&world, token, "/moody/x").await;
    }
    has_logged(&world, "the version before it is blocked", 1).await;
    assert_eq!(tint(&world).await, "tint:red");
    assert_eq!(taken_back(&world).await, 0);
}

#[tokio::test]
async fn a_box_whose_requests_trap_is_throttled_alone() {
    let world = moods_in(world().tables("[limits]\nfailures_per_box = 1\n")).await;
    let other = world.add_box("box-b").await;
    world.declare(&other, &[("moody", &["feel"])]).await;
    fails(&world, &world.token, "/moody/trap").await;
    // Whatever it asks of that plugin next has to wait.
    let request = Request::get("/moody").bearer(&world.token);
    let told = ["moody", "failures_per_box"];
    let refused = world.refuses(&request, 429, &told).await;
    assert!(refused.fields.first("retry-after").is_some());
    let metrics = world.home.metrics().await;
    let counted = "jackfield_limit_refusals_total{limit=\"failures_per_box\",scope=\"box\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(tint_of(&world, &other).await, "tint:green");
    let elsewhere = Request::get("/liar/hello").bearer(&world.token);
    assert_ne!(world.send(&elsewhere).await.status, 429);
}
