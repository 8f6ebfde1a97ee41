//! Revocation reaches the living: whatever a relay stands on, taking it back
//! cuts both directions within a second, and the box sees a break. What it
//! does not stand on leaves it alone.

use std::time::{Duration, Instant};

use jackfield_tests::client::{Client, Request};
use jackfield_tests::h2::{self, H2Client};
use jackfield_tests::plugins::Plugin;
use jackfield_tests::soon;
use jackfield_tests::upstream::{Exchange, Upstream};
use jackfield_tests::world::{KEY, VALUE, World, is_refusal, messages};
use serde_json::Value;

use crate::world;

const A_SECOND: Duration = Duration::from_secs(1);

/// The value of a visitor's credential.
const VISITORS: &str = "sk-ant-visitor-0123456789abcdef";

/// A world with a visitor's credential, in which an upstream is in the test's
/// hand.
async fn ready() -> World {
    let world = world().ready().await;
    let visitor = ["anthropic", "--kind", "api-key", "--payer", "visitor"];
    let who = ["--principal", "github:ada", "--name", "ada"];
    world
        .credential(VISITORS, &[&visitor[..], &who].concat())
        .await;
    world.anthropic.take_over();
    world.echo.take_over();
    world
}

fn model_call(world: &World) -> Request {
    messages().bearer(&world.token)
}

fn egress_call(world: &World) -> Request {
    Request::post("/egress/OPENAI/v1/x").bearer(&world.token)
}

/// A request whose answer has begun.
async fn streaming(world: &World, request: &Request, upstream: &Upstream) -> (Client, Exchange) {
    let mut client = world.client().await;
    client.send(request).await;
    let mut exchange = upstream.next().await;
    exchange.begin_events().await.expect("the host reads");
    client.head().await.expect("a head");
    flows(&mut client, &mut exchange).await;
    (client, exchange)
}

/// The stream goes on.
async fn flows(client: &mut Client, exchange: &mut Exchange) {
    exchange
        .send_chunk("data: on\n\n")
        .await
        .expect("the host reads");
    let arrived = client.body_bytes(10).await.expect("an event");
    assert_eq!(arrived, "data: on\n\n");
}

/// Both ends see the break within a second of the command's end.
async fn is_cut(label: &str, mut client: Client, mut exchange: Exchange) {
    let revoked = Instant::now();
    assert!(client.body().await.is_err(), "{label}: a clean end");
    soon("the upstream is left", exchange.gone()).await;
    assert!(
        revoked.elapsed() < A_SECOND,
        "{label}: {:?}",
        revoked.elapsed()
    );
}

async fn hash_of(world: &World, plugin: &str) -> String {
    let listed = world.command(&["plugin", "list", "--json"], "").await.ok();
    let listed: Value = listed.json();
    let listed = listed.as_array().expect("a list");
    let found = listed.iter().find(|found| found["name"] == plugin);
    let hash = &found.expect("the plugin is listed")["hash"];
    hash.as_str().expect("a hash").to_owned()
}

#[tokio::test]
async fn taking_back_what_a_stream_stands_on_cuts_it() {
    for (label, command) in [
        (
            "its credential",
            "credential remove anthropic --name default",
        ),
        ("its plugin by name", "plugin revoke inference"),
        ("its plugin by hash", "plugin revoke HASH"),
        ("its box's token", "box rotate box-a"),
        ("its box", "box remove box-a"),
    ] {
        let world = ready().await;
        let request = model_call(&world);
        let (client, exchange) = streaming(&world, &request, &world.anthropic).await;
        let hash = hash_of(&world, "inference").await;
        let command = command.replace("HASH", &hash);
        let arguments: Vec<&str> = command.split(' ').collect();
        world.home.run(&arguments, b"").await.ok();
        is_cut(label, client, exchange).await;
        let log = world.home.log();
        assert!(log.contains("revoke"), "{label}: {log}");
    }
}

#[tokio::test]
async fn taking_back_a_secret_or_what_it_is_bound_to_cuts_its_streams() {
    for change in [
        &["remove"][..],
        &["set", "--allow", "POST /v1/"],
        &["set", "--host", "another.example"],
    ] {
        let world = ready().await;
        let request = egress_call(&world);
        let (client, exchange) = streaming(&world, &request, &world.echo).await;
        let host = world.echo.url();
        let mut arguments = vec!["secret", change[0], "OPENAI", "--box", "box-a"];
        if change[0] == "set" {
            arguments.push("--allow-private");
            arguments.extend(&change[1..]);
            if !change.contains(&"--host") {
                arguments.extend(["--host", &host]);
            }
        }
        world.command(&arguments, VALUE).await.ok();
        is_cut(&format!("{change:?}"), client, exchange).await;
    }
}

#[tokio::test]
async fn a_grant_taken_back_cuts_what_it_spends_and_nothing_else() {
    for command in [
        "grant revoke ID",
        "grant revoke --box box-a",
        "credential remove anthropic --name ada",
    ] {
        let world = ready().await;
        let (id, grant) = world.grant("box-a", "ada").await;
        let request = model_call(&world).header("chant-grant", &grant);
        let (client, exchange) = streaming(&world, &request, &world.anthropic).await;
        assert_eq!(exchange.received.fields.all("x-api-key"), [VISITORS]);
        let (mut others, mut theirs) =
            streaming(&world, &model_call(&world), &world.anthropic).await;
        assert_eq!(theirs.received.fields.all("x-api-key"), [KEY]);

        let command = command.replace("ID", &id);
        let arguments: Vec<&str> = command.split(' ').collect();
        world.command(&arguments, "").await.ok();
        is_cut(&command, client, exchange).await;
        flows(&mut others, &mut theirs).await;

        // And the general one is none of the grant's business.
        let (_, grant) = match command.starts_with("credential") {
            true => continue,
            false => world.grant("box-a", "ada").await,
        };
        let request = model_call(&world).header("chant-grant", &grant);
        let (mut client, mut exchange) = streaming(&world, &request, &world.anthropic).await;
        let remove = ["credential", "remove", "anthropic", "--name", "default"];
        world.command(&remove, "").await.ok();
        is_cut(&command, others, theirs).await;
        flows(&mut client, &mut exchange).await;
    }
}

#[tokio::test]
async fn what_a_stream_does_not_stand_on_leaves_it_alone() {
    let world = ready().await;
    let (id, _) = world.grant("box-a", "ada").await;
    world.add_box("box-b").await;
    let host = world.echo.url();
    let private = ["--allow-private"];
    world
        .secret("box-a", "OTHER", &host, "another-0123456789", &private)
        .await;
    let models = model_call(&world);
    let egress = egress_call(&world);
    let (mut model, mut anthropic) = streaming(&world, &models, &world.anthropic).await;
    let (mut secret, mut echo) = streaming(&world, &egress, &world.echo).await;

    // Another value, which the next request carries.
    let another = "sk-ant-another-0123456789abcdef";
    world
        .credential(another, &["anthropic", "--kind", "api-key"])
        .await;
    let another_secret = "sk-live-another-0123456789abcdef";
    world
        .secret("box-a", "OPENAI", &host, another_secret, &private)
        .await;
    for command in [
        format!("grant revoke {id}"),
        "credential remove anthropic --name ada".to_owned(),
        "secret remove OTHER --box box-a".to_owned(),
        "box rotate box-b".to_owned(),
        "box remove box-b".to_owned(),
        "box pause box-a".to_owned(),
        "box resume box-a".to_owned(),
    ] {
        let arguments: Vec<&str> = command.split(' ').collect();
        world.home.run(&arguments, b"").await.ok();
    }
    flows(&mut model, &mut anthropic).await;
    flows(&mut secret, &mut echo).await;
    let (_client, exchange) = streaming(&world, &models, &world.anthropic).await;
    assert_eq!(exchange.received.fields.all("x-api-key"), [another]);

    // Each plugin for itself.
    let revoke = ["plugin", "revoke", "egress"];
    world.command(&revoke, "").await.ok();
    is_cut("egress", secret, echo).await;
    flows(&mut model, &mut anthropic).await;
    anthropic.send_chunk("").await.expect("the host reads");
    assert_eq!(model.body().await.expect("a clean end"), "");
}

#[tokio::test]
async fn a_cut_stream_is_broken_over_http_2_too() {
    let world = ready().await;
    let mut client = H2Client::connect(world.address()).await;
    let answer = async {
        let mut exchange = world.anthropic.next().await;
        exchange.begin_events().await.expect("the host reads");
        exchange.send_chunk("data").await.expect("the host reads");
        exchange
    };
    let path = "/llm/anthropic/v1/messages";
    let call = client.send("POST", path, &world.token, "{}");
    let (response, mut exchange) = tokio::join!(call, answer);
    let mut response = response.expect("an answer");
    let part = h2::part(&mut response).await.expect("a part");
    assert_eq!(part.expect("more"), "data");

    let remove = ["credential", "remove", "anthropic", "--name", "default"];
    world.command(&remove, "").await.ok();
    let revoked = Instant::now();
    assert!(h2::part(&mut response).await.is_err(), "a clean end");
    soon("the upstream is left", exchange.gone()).await;
    assert!(revoked.elapsed() < A_SECOND, "{:?}", revoked.elapsed());
    // The connection lives on: only what stood on the credential is cut.
    let unknown = client.send("GET", "/nowhere", &world.token, "").await;
    assert_eq!(unknown.expect("an answer").status(), 404);
}

#[tokio::test]
async fn an_upload_is_cut_before_there_is_an_answer() {
    for command in ["secret remove OPENAI --box box-a", "plugin revoke egress"] {
        let world = ready().await;
        let request = egress_call(&world).header("transfer-encoding", "chunked");
        let mut client = world.client().await;
        client.send(&request).await;
        client.send_chunk(b"begun").await.expect("the host reads");
        let mut exchange = world.echo.next().await;
        let begun = exchange.body_bytes(5).await.expect("the upload");
        assert_eq!(begun, "begun");

        let arguments: Vec<&str> = command.split(' ').collect();
        world.command(&arguments, "").await.ok();
        let revoked = Instant::now();
        assert!(exchange.part().await.is_err(), "{command}: a clean end");
        let response = client.response().await.expect("an answer");
        assert!(revoked.elapsed() < A_SECOND, "{:?}", revoked.elapsed());
        is_refusal(command, &response, 403, &["revoked"]);
    }
}

#[tokio::test]
async fn an_upload_that_outlives_its_answer_is_cut() {
    let world = ready().await;
    let request = egress_call(&world).header("transfer-encoding", "chunked");
    let mut client = world.client().await;
    client.send(&request).await;
    client.send_chunk(b"begun").await.expect("the host reads");
    let mut exchange = world.echo.next().await;
    exchange.body_bytes(5).await.expect("the upload");
    exchange
        .send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi")
        .await
        .expect("the host reads");
    client.head().await.expect("a head");
    assert_eq!(client.body_bytes(2).await.expect("an answer"), "hi");
    let remove = ["secret", "remove", "OPENAI", "--box", "box-a"];
    world.command(&remove, "").await.ok();
    assert!(exchange.part().await.is_err(), "a clean end");
}

#[tokio::test]
async fn the_calls_of_a_need_are_cut_and_the_plugin_is_not_asked_again() {
    for command in [
        "credential remove anthropic --name default",
        "plugin revoke liar",
        "box rotate box-a",
    ] {
        let world = world()
            .plugins(&[Plugin::Inference, Plugin::Egress, Plugin::Liar])
            .ready()
            .await;
        world.declare(&world.token, &[("liar", &["tell"])]).await;
        world.anthropic.take_over();
        // In either phase: before the answer's head, and in its body.
        for begun in ["", "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhello"] {
            if !begun.is_empty() && command != "credential remove anthropic --name default" {
                continue;
            }
            world
                .credential(KEY, &["anthropic", "--kind", "api-key"])
                .await;
            let mut client = world.client().await;
            let request = Request::post("/liar/call").bearer(&world.token);
            client.send(&request).await;
            let mut exchange = world.anthropic.next().await;
            exchange.send(begun).await.expect("the host reads");
            let arguments: Vec<&str> = command.split(' ').collect();
            world.home.run(&arguments, b"").await.ok();
            let revoked = Instant::now();
            let response = client.response().await.expect("an answer");
            assert!(revoked.elapsed() < A_SECOND, "{:?}", revoked.elapsed());
            // The liar would have said what its call brought.
            is_refusal(command, &response, 403, &["revoked"]);
            soon("the upstream is left", exchange.gone()).await;
        }
    }
}

#[tokio::test]
async fn a_revoked_plugin_stays_out_until_it_is_approved_again() {
    let mut world = world().ready().await;
    let call = model_call(&world);
    assert_eq!(world.send(&call).await.status, 200);
    let said = world.command(&["plugin", "revoke", "inference"], "").await;
    assert!(said.ok().stdout.contains("inference"));
    world.refuses(&call, 404, &[]).await;
    let egress = Request::get("/egress/OPENAI/x").bearer(&world.token);
    assert_eq!(world.send(&egress).await.status, 200, "the other serves");
    let said = world.command(&["plugin", "revoke", "inference"], "").await;
    assert!(said.failed().contains("not approved"));
    let said = world.command(&["plugin", "revoke", "nobody"], "").await;
    assert!(said.failed().contains("nobody"));

    world.restart().await;
    world.refuses(&call, 404, &[]).await;
    let listed = world.command(&["plugin", "list"], "").await.ok();
    assert!(listed.stdout.contains("jackfield plugin approve inference"));
    let approve = ["plugin", "approve", "inference"];
    world.command(&approve, "").await.ok();
    assert_eq!(world.send(&call).await.status, 200);
    world.restart().await;
    assert_eq!(world.send(&call).await.status, 200);
}
