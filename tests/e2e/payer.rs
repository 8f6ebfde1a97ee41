//! Who pays: said on the declaration's answer and on every answer of the routes
//! that somebody pays for, alike in both places, and not at all where it is
//! open.

use jackfield_tests::client::{Request, Response};
use jackfield_tests::plugins::Plugin;
use jackfield_tests::upstream::Reply;
use jackfield_tests::world::{KEY, World, is_refusal, messages};
use serde_json::{Value, json};

use crate::world;

const OWNERS: [&str; 4] = ["--payer", "owner", "--principal", "github:octocat"];
const SAID: &str = "owner github:octocat";

async fn credential(world: &World, value: &str, more: &[&str]) {
    let fixed = ["anthropic", "--kind", "api-key"];
    world.credential(value, &[&fixed[..], more].concat()).await;
}

/// A world whose owner pays.
async fn owned() -> World {
    let world = world()
        .plugins(&[Plugin::Inference, Plugin::Egress, Plugin::Liar])
        .tables("[limits]\nrequests_per_box = 1\n")
        .ready()
        .await;
    credential(&world, KEY, &OWNERS).await;
    declare(&world).await;
    world
}

async fn declare(world: &World) -> Value {
    let all: [(&str, &[&str]); 2] = [("inference", &["agent"]), ("liar", &["tell"])];
    world.declare(&world.token, &all).await
}

fn says(label: &str, response: &Response, status: u16, payer: &[&str]) {
    assert_eq!(response.status, status, "{label}: {}", response.text());
    assert_eq!(response.fields.all("chant-payer"), payer, "{label}");
}

#[tokio::test]
async fn every_answer_says_who_pays_refusals_included() {
    let world = owned().await;
    let call = || messages().bearer(&world.token);
    let lie = |name: &str| Request::post(&format!("/liar/{name}")).bearer(&world.token);
    for (label, request, status) in [
        ("an answer", call(), 200),
        ("an answer of the plugin's", lie("state"), 200),
        (
            "an unknown path",
            Request::get("/llm/anthropic/x").bearer(&world.token),
            404,
        ),
        (
            "an unknown method",
            Request::new("PUT", "/llm/anthropic/v1/messages").bearer(&world.token),
            404,
        ),
        ("a stray token", call().header("x-note", &world.token), 400),
        ("the plugin's refusal", lie("refusal"), 403),
        ("a plugin that fails", lie("trap"), 502),
        ("a plugin that lies", lie("other-upstream"), 502),
    ] {
        says(label, &world.send(&request).await, status, &[SAID]);
    }
    for (label, reply, status) in [
        ("an upstream's 500", Reply::status(500), 500),
        ("an upstream's 401", Reply::status(401), 403),
        ("an upstream that breaks off", Reply::Reset, 502),
    ] {
        world.anthropic.reply(reply);
        says(label, &world.send(&call()).await, status, &[SAID]);
    }
    // One request more than the box may have.
    world.anthropic.take_over();
    let mut client = world.client().await;
    client.send(&call()).await;
    let mut exchange = world.anthropic.next().await;
    says("one too many", &world.send(&call()).await, 429, &[SAID]);
    exchange.begin_events().await.expect("the host reads");
    let head = client.head().await.expect("a head");
    says("a stream", &head, 200, &[SAID]);
    exchange.send_chunk("").await.expect("the host reads");
    assert_eq!(client.body().await.expect("a clean end"), "");
    // Nobody would answer on that connection any more.
    drop(exchange);
    world.anthropic.let_go();
    // The rule, and a pause.
    world.command(&["box", "pause", "box-a"], "").await.ok();
    says("a paused box", &world.send(&call()).await, 403, &[SAID]);
    world.command(&["box", "resume", "box-a"], "").await.ok();
    world.declare(&world.token, &[]).await;
    says("the rule", &world.send(&call()).await, 403, &[SAID]);
    declare(&world).await;
    world.anthropic.stop();
    says("nobody there", &world.send(&call()).await, 502, &[SAID]);
}

#[tokio::test]
async fn no_other_answer_says_who_pays() {
    let world = owned().await;
    let unknown = format!("jft_{}", "a".repeat(43));
    for (label, request, status) in [
        (
            "hello",
            Request::new("HEAD", "/llm/anthropic/api/hello"),
            200,
        ),
        (
            "hello with a token",
            Request::get("/llm/anthropic/api/hello").bearer(&world.token),
            200,
        ),
        ("no token", messages(), 403),
        ("an unknown token", messages().bearer(&unknown), 403),
        (
            "two tokens",
            messages()
                .bearer(&world.token)
                .header("x-api-key", &unknown),
            403,
        ),
        (
            "nowhere",
            Request::get("/nowhere").bearer(&world.token),
            404,
        ),
        (
            "egress",
            Request::get("/egress/OPENAI/x").bearer(&world.token),
            403,
        ),
        (
            "a declaration",
            Request::post("/api/box/declaration").bearer(&world.token),
            400,
        ),
    ] {
        says(label, &world.send(&request).await, status, &[]);
    }
}

#[tokio::test]
async fn what_an_upstream_says_of_payers_is_dropped() {
    let world = owned().await;
    let forged = "visitor github:mallory";
    let reply = || Reply::json(200, &json!({})).header("chant-payer", forged);
    world
        .anthropic
        .reply(reply().header("Chant-Payer", "shared"));
    let call = messages().bearer(&world.token);
    says("a header", &world.send(&call).await, 200, &[SAID]);
    // As a trailer, for a box that reads them.
    let raw = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: chant-payer, x-kept\r\n\r\n\
               2\r\n{}\r\n0\r\nchant-payer: visitor github:mallory\r\nx-kept: 1\r\n\r\n";
    world.anthropic.reply(Reply::Raw(raw.into()));
    let response = world.send(&call.header("te", "trailers")).await;
    says("a trailer", &response, 200, &[SAID]);
    assert_eq!(response.trailers.all("x-kept"), ["1"]);
    assert!(!response.trailers.has("chant-payer"));
    // And where nobody said who pays, nobody does.
    credential(&world, KEY, &[]).await;
    world.anthropic.reply(reply());
    let call = messages().bearer(&world.token);
    says("none", &world.send(&call).await, 200, &[]);
}

/// Both places, of one box.
async fn said(world: &World, status: u16) -> (Option<Value>, Vec<String>) {
    let declared = declare(world).await;
    let response = world.send(&messages().bearer(&world.token)).await;
    assert_eq!(response.status, status, "{}", response.text());
    let unknown = Request::get("/llm/anthropic/x").bearer(&world.token);
    let header = response.fields.all("chant-payer");
    let elsewhere = world.send(&unknown).await.fields.all("chant-payer");
    assert_eq!(header, elsewhere, "every answer says the same");
    (declared.get("payer").cloned(), header)
}

#[tokio::test]
async fn both_places_say_the_same_of_whoever_pays() {
    let world = owned().await;
    let owner = json!({"kind": "owner", "principal": "github:octocat"});
    let expected = (Some(owner), vec![SAID.to_owned()]);
    assert_eq!(said(&world, 200).await, expected);

    credential(&world, KEY, &["--payer", "shared"]).await;
    let shared = json!({"kind": "shared", "principal": null});
    let expected = (Some(shared), vec!["shared".to_owned()]);
    assert_eq!(said(&world, 200).await, expected);

    // A visitor's changes nothing without a grant.
    let who = ["--payer", "visitor", "--principal", "github:ada"];
    let visitors = "sk-ant-visitor-0123456789abcdef";
    credential(&world, visitors, &who).await;
    assert_eq!(said(&world, 200).await, expected);

    // The box's own goes first.
    let own = "sk-ant-own-0123456789abcdefghij";
    credential(&world, own, &[&OWNERS[..], &["--box", "box-a"]].concat()).await;
    let owner = json!({"kind": "owner", "principal": "github:octocat"});
    let expected = (Some(owner), vec![SAID.to_owned()]);
    assert_eq!(said(&world, 200).await, expected);
    assert_eq!(world.anthropic.last().fields.all("x-api-key"), [own]);

    // Nobody said whose it is.
    credential(&world, own, &["--box", "box-a"]).await;
    assert_eq!(said(&world, 200).await, (None, vec![]));
}

#[tokio::test]
async fn where_it_is_open_who_pays_nothing_is_said() {
    // Nobody pays.
    let mut world = owned().await;
    let remove = ["credential", "remove", "anthropic"];
    world.command(&remove, "").await.ok();
    assert_eq!(said(&world, 403).await, (None, vec![]));
    // Several could.
    for name in ["one", "two"] {
        let more = [&OWNERS[..], &["--name", name]].concat();
        credential(&world, KEY, &more).await;
    }
    assert_eq!(said(&world, 403).await, (None, vec![]));
    let remove = ["credential", "remove", "anthropic", "--name", "two"];
    world.command(&remove, "").await.ok();
    assert_eq!(said(&world, 200).await.1, [SAID]);
    // The one that could was set for another address.
    world.take_host().stop().await;
    world.configure(&world.echo.url());
    world.serve_as_approved().await;
    assert_eq!(said(&world, 403).await, (None, vec![]));
}

#[tokio::test]
async fn a_second_of_the_same_rank_needs_a_name() {
    let world = owned().await;
    let set = async |more: &[&str]| {
        let fixed = ["credential", "set", "anthropic", "--kind", "api-key"];
        world.command(&[&fixed[..], more].concat(), KEY).await
    };
    let own = ["--box", "box-a"];
    let visitor = ["--payer", "visitor", "--principal", "github:ada"];
    for (rank, first) in [(&[][..], "first"), (&own, "mine"), (&visitor, "ada")] {
        let remove = ["credential", "remove", "anthropic", "--name", "default"];
        let _ = world.command(&remove, "").await;
        set(&[rank, &["--name", first]].concat()).await.ok();
        let said = set(rank).await.failed();
        assert!(said.contains("--name") && said.contains(first), "{said}");
        // With one it is taken, and the first of them can be replaced by its.
        set(&[rank, &["--name", "another"]].concat()).await.ok();
        set(&[rank, &["--name", first]].concat()).await.ok();
        for name in [first, "another"] {
            let remove = ["credential", "remove", "anthropic", "--name", name];
            world.command(&remove, "").await.ok();
        }
    }
    let said = set(&["--payer", "visitor"]).await.failed();
    assert!(said.contains("--principal"), "{said}");
    // What could not stand in a header is no principal.
    let long = "x".repeat(201);
    for principal in ["two words", "é", "a\tb", "a\u{7f}", "", long.as_str()] {
        let who = ["--payer", "owner", "--principal", principal];
        let said = set(&who).await.failed();
        assert!(said.contains("principal"), "{principal:?}: {said}");
    }
    let longest = "x".repeat(200);
    set(&["--payer", "owner", "--principal", &longest])
        .await
        .ok();
    let response = world.send(&messages().bearer(&world.token)).await;
    says(
        "the longest",
        &response,
        200,
        &[&format!("owner {longest}")],
    );
    let refused = world.send(&messages()).await;
    is_refusal("no token", &refused, 403, &["token"]);
}
