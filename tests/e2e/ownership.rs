//! What a box owns: by a plugin's word for the first box, by the operator's for
//! any, on disk, and gone with the box.

use jackfield_tests::client::Request;
use jackfield_tests::plugins::Plugin;
use jackfield_tests::world::World;
use serde_json::json;

use crate::world;

async fn clerks() -> (World, String) {
    let world = world().plugins(&[Plugin::Clerk]).ready().await;
    let other = world.add_box("box-b").await;
    for token in [&world.token, &other] {
        world.declare(token, &[("clerk", &["file"])]).await;
    }
    (world, other)
}

fn ask(token: &str, path: &str) -> Request {
    Request::post(&format!("/clerk/{path}")).bearer(token)
}

async fn owns(world: &World, token: &str, path: &str) -> bool {
    let response = world.send(&ask(token, &format!("owns/{path}"))).await;
    match response.text().as_str() {
        "yes" => true,
        "no" => false,
        other => panic!("{path}: {} {other}", response.status),
    }
}

#[tokio::test]
async fn the_first_box_owns_a_thing_and_no_plugin_gives_it_to_another() {
    let (mut world, other) = clerks().await;
    let token = world.token.clone();
    assert!(!owns(&world, &token, "rooms/1").await);
    assert_eq!(world.send(&ask(&token, "own/rooms/1")).await.status, 200);
    assert!(owns(&world, &token, "rooms/1").await);
    assert!(
        !owns(&world, &token, "parcels/1").await,
        "a kind is part of it"
    );
    assert!(!owns(&world, &other, "rooms/1").await);
    let response = world
        .refuses(&ask(&other, "own/rooms/1"), 502, &["clerk"])
        .await;
    assert!(!response.text().contains("box-a"), "{}", response.text());
    assert!(!owns(&world, &other, "rooms/1").await);
    // Saying it again changes nothing.
    assert_eq!(world.send(&ask(&token, "own/rooms/1")).await.status, 200);
    world.take_host().crash().await;
    world.serve_as_approved().await;
    assert!(owns(&world, &token, "rooms/1").await);
    assert!(!owns(&world, &other, "rooms/1").await);
}

#[tokio::test]
async fn the_operator_gives_takes_and_shares() {
    let (world, other) = clerks().await;
    let token = world.token.clone();
    let own = |command: &'static str, name: &'static str, kind: &'static str| {
        let world = &world;
        async move {
            world
                .command(&["box", command, name, kind, "r/1 ä"], "")
                .await
        }
    };
    own("own", "box-a", "rooms").await.ok();
    own("own", "box-b", "rooms").await.ok();
    let said = own("own", "box-b", "halls").await.ok().stdout;
    assert!(said.contains("no plugin"), "{said}");
    let listed = world
        .command(&["box", "owned", "box-b", "--json"], "")
        .await
        .ok()
        .json();
    let expected = json!([{"kind": "halls", "id": "r/1 ä"}, {"kind": "rooms", "id": "r/1 ä"}]);
    assert_eq!(listed, expected);
    world
        .command(&["box", "own", "box-a", "rooms", "7"], "")
        .await
        .ok();
    assert!(owns(&world, &token, "rooms/7").await);
    // Shared on purpose, both hold it; taken from one, the other keeps it.
    world
        .command(&["box", "own", "box-b", "rooms", "7"], "")
        .await
        .ok();
    assert!(owns(&world, &token, "rooms/7").await && owns(&world, &other, "rooms/7").await);
    world
        .command(&["box", "disown", "box-a", "rooms", "7"], "")
        .await
        .ok();
    assert!(!owns(&world, &token, "rooms/7").await && owns(&world, &other, "rooms/7").await);
    world
        .refuses(&ask(&token, "own/rooms/7"), 502, &["clerk"])
        .await;
    let vain = world
        .command(&["box", "disown", "box-a", "rooms", "7"], "")
        .await
        .failed();
    assert!(vain.contains("owns no rooms 7"), "{vain}");
    let nobody = world
        .command(&["box", "own", "nobody", "rooms", "7"], "")
        .await
        .failed();
    assert!(nobody.contains("no box nobody"), "{nobody}");
}

#[tokio::test]
async fn what_a_box_owned_is_gone_with_it() {
    let (world, other) = clerks().await;
    assert_eq!(
        world.send(&ask(&world.token, "own/rooms/1")).await.status,
        200
    );
    world.command(&["box", "remove", "box-a"], "").await.ok();
    let again = world.add_box("box-a").await;
    world.declare(&again, &[("clerk", &["file"])]).await;
    assert!(
        !owns(&world, &again, "rooms/1").await,
        "a box of that name is another box"
    );
    assert_eq!(world.send(&ask(&other, "own/rooms/1")).await.status, 200);
    assert!(owns(&world, &other, "rooms/1").await);
}

#[tokio::test]
async fn permissions_to_own_are_shown_in_words() {
    let (world, _) = clerks().await;
    let listed = world.command(&["plugin", "list"], "").await.ok().stdout;
    let line = "owned:rooms: ask which rooms a box owns, and record new rooms as a box's own";
    assert!(listed.contains(line), "{listed}");
}
