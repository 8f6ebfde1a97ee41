//! The moody plugin's versions, for the tests of what becomes of versions: how
//! one is made, put there or handed over, and which of them answers.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jackfield_tests::client::{Client, Request};
use jackfield_tests::plugins::{Plugin, component};
use jackfield_tests::soon;
use jackfield_tests::upstream::Exchange;
use jackfield_tests::world::{Builder, World};
use serde_json::Value;

use crate::{BINARY, world};

/// A version of the moody one, in which these texts stand instead.
pub(crate) fn moody(changes: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = fs::read(component(Path::new(BINARY), Plugin::Moody)).expect("a component");
    for (from, to) in changes {
        assert_eq!(from.len(), to.len());
        let mut windows = bytes.windows(from.len());
        let at = windows.position(|window| window == from.as_bytes());
        let at = at.unwrap_or_else(|| panic!("{from} stands nowhere"));
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    }
    bytes
}

pub(crate) fn tinted(tint: &str) -> Vec<u8> {
    moody(&[("tint:green", &format!("tint:{tint:<5}"))])
}

pub(crate) fn in_mood(mood: &str) -> Vec<u8> {
    moody(&[("mood:honest", &format!("mood:{mood}"))])
}

/// The hash that an approval of these bytes belongs to.
pub(crate) fn hash_of_bytes(bytes: &[u8]) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, bytes);
    let digits = digest.as_ref().iter();
    digits.map(|byte| format!("{byte:02x}")).collect()
}

/// A world in which a moody plugin is live, and `box-a` may use it.
pub(crate) async fn moods() -> World {
    moods_in(world()).await
}

/// The same, of a world that is begun.
pub(crate) async fn moods_in(builder: Builder) -> World {
    let world = builder
        .plugins(&[
            Plugin::Inference,
            Plugin::Egress,
            Plugin::Moody,
            Plugin::Liar,
        ])
        .ready()
        .await;
    world.declare(&world.token, &[("moody", &["feel"])]).await;
    world
}

/// Puts a file into the plugins folder, whole.
pub(crate) fn put(world: &World, name: &str, bytes: &[u8]) {
    let beside = world.home.path().join(name);
    fs::write(&beside, bytes).expect("a file");
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o644)).expect("a mode");
    fs::rename(beside, world.home.plugins().join(name)).expect("it is put there");
}

/// Puts a file beside the configuration, to be handed over.
pub(crate) fn file(world: &World, name: &str, bytes: &[u8]) -> String {
    let path = world.home.path().join(name);
    fs::write(&path, bytes).expect("a file");
    path.display().to_string()
}

/// Which version answers `box-a`.
pub(crate) async fn tint(world: &World) -> String {
    tint_of(world, &world.token).await
}

/// Which version answers the box with this token.
pub(crate) async fn tint_of(world: &World, token: &str) -> String {
    let response = world.send(&Request::get("/moody").bearer(token)).await;
    match response.status {
        200 => response.text().trim_end().to_owned(),
        status => status.to_string(),
    }
}

pub(crate) async fn until(what: &str, world: &World, holds: impl AsyncFn(&World) -> bool) {
    let held = async {
        while !holds(world).await {
            tokio::task::yield_now().await;
        }
    };
    soon(what, held).await;
}

pub(crate) async fn is_tinted(world: &World, expected: &str) {
    until(expected, world, async |world| tint(world).await == expected).await;
}

pub(crate) async fn history(world: &World) -> Vec<Value> {
    let told = world
        .command(&["plugin", "history", "moody", "--json"], "")
        .await;
    match told.code {
        Some(0) => told.json().as_array().expect("a list").clone(),
        // There is none before anything of the name came.
        _ => Vec::new(),
    }
}

pub(crate) async fn has_happened(world: &World, happened: &str, text: &str) {
    until(text, world, async |world| {
        let events = history(world).await;
        events.iter().any(|event| {
            let said = event["text"].as_str().unwrap_or_default();
            event["happened"] == happened && said.contains(text)
        })
    })
    .await;
}

pub(crate) async fn hash_of(world: &World, state: &str) -> String {
    let listed = world.command(&["plugin", "list", "--json"], "").await.ok();
    let listed = listed.json();
    let mut listed = listed.as_array().expect("a list").iter();
    let found = listed.find(|one| one["name"] == "moody" && one["state"] == state);
    let hash = &found.unwrap_or_else(|| panic!("none is {state}"))["hash"];
    hash.as_str().expect("a hash").to_owned()
}

/// A stream of the moody one's, of which the head has come.
pub(crate) async fn stream(world: &World) -> (Client, Exchange) {
    stream_of(world, &world.token).await
}

/// The same, of the box with this token.
pub(crate) async fn stream_of(world: &World, token: &str) -> (Client, Exchange) {
    let mut client = world.client().await;
    let request = Request::post("/moody/stream").bearer(token);
    client.send(&request).await;
    let mut exchange = world.anthropic.next().await;
    exchange.begin_events().await.expect("the host reads");
    client.head().await.expect("a head");
    flows(&mut client, &mut exchange).await;
    (client, exchange)
}

pub(crate) async fn flows(client: &mut Client, exchange: &mut Exchange) {
    exchange
        .send_chunk("data: on\n\n")
        .await
        .expect("the host reads");
    let arrived = client.body_bytes(10).await.expect("an event");
    assert_eq!(arrived, "data: on\n\n");
}
