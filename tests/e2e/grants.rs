//! Whose turn: a grant spends one person's credential for one box while it is
//! valid, is ignored when it is not, and is seen by nobody but the host.

use jackfield::store::{Batch, Change, SledSettings, open_sled};
use jackfield_tests::client::{Request, Response};
use jackfield_tests::contains;
use jackfield_tests::plugins::Plugin;
use jackfield_tests::stand_ins::MODEL;
use jackfield_tests::world::{KEY, VALUE, World, files_below, messages};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::world;

/// The value of the visitor's credential.
const ADAS: &str = "sk-ant-ada-0123456789abcdefghij";

/// What is said where no grant is valid.
const WITHOUT: &str = "owner github:octocat";

/// A world whose owner pays, with the credential of the visitor `github:ada`
/// and another box.
async fn ready() -> (World, String) {
    let world = world()
        .plugins(&[Plugin::Inference, Plugin::Egress, Plugin::Liar])
        .ready()
        .await;
    let owner = ["anthropic", "--kind", "api-key", "--payer", "owner"];
    let octocat = ["--principal", "github:octocat"];
    world
        .credential(KEY, &[&owner[..], &octocat].concat())
        .await;
    visitor(&world, ADAS, "ada", "github:ada").await;
    declare(&world, &world.token).await;
    let other = world.add_box("box-b").await;
    declare(&world, &other).await;
    (world, other)
}

async fn visitor(world: &World, value: &str, name: &str, principal: &str) {
    let visitor = ["anthropic", "--kind", "api-key", "--payer", "visitor"];
    let who = ["--principal", principal, "--name", name];
    world
        .credential(value, &[&visitor[..], &who].concat())
        .await;
}

async fn declare(world: &World, token: &str) {
    let all: [(&str, &[&str]); 3] = [
        ("inference", &["agent"]),
        ("liar", &["tell"]),
        ("egress", &["OPENAI"]),
    ];
    world.declare(token, &all).await;
}

fn call(token: &str, grant: &str) -> Request {
    messages().bearer(token).header("chant-grant", grant)
}

/// The request is paid with this value, and the answer says by whom.
async fn is_paid(label: &str, world: &World, request: &Request, value: &str, payer: &str) {
    let response: Response = world.send(request).await;
    assert_eq!(response.status, 200, "{label}: {}", response.text());
    let received = world.anthropic.last();
    assert_eq!(received.fields.all("x-api-key"), [value], "{label}");
    assert!(!received.fields.has("chant-grant"), "{label}");
    assert_eq!(response.fields.all("chant-payer"), [payer], "{label}");
}

async fn list(world: &World) -> Vec<Value> {
    let listed = world.command(&["grant", "list", "--json"], "").await.ok();
    listed.json().as_array().expect("a list").clone()
}

#[tokio::test]
async fn a_valid_grant_spends_its_person_s_credential_and_says_so() {
    let (world, _) = ready().await;
    let (_, grant) = world.grant("box-a", "ada").await;
    let fits = grant.strip_prefix("jfg_").is_some_and(|body| {
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        body.len() == 43 && body.bytes().all(is_base64url)
    });
    assert!(fits, "a grant has its shape");
    let with = call(&world.token, &grant);
    let without = messages().bearer(&world.token);
    for _ in 0..2 {
        is_paid("a turn", &world, &with, ADAS, "visitor github:ada").await;
        is_paid("no turn", &world, &without, KEY, WITHOUT).await;
    }
    // Said in the name's full form, it is the same credential.
    let (_, full) = world.grant("box-a", "anthropic/ada").await;
    assert_ne!(full, grant);
    let request = call(&world.token, &full);
    is_paid("a second", &world, &request, ADAS, "visitor github:ada").await;
    // The declaration speaks of requests without one.
    let declared = world
        .declare(&world.token, &[("inference", &["agent"])])
        .await;
    let owner = json!({"kind": "owner", "principal": "github:octocat"});
    assert_eq!(declared["payer"], owner);
}

#[tokio::test]
async fn a_grant_pays_where_nobody_else_would() {
    let (world, _) = ready().await;
    let remove = ["credential", "remove", "anthropic", "--name", "default"];
    world.command(&remove, "").await.ok();
    let response = world
        .refuses(&messages().bearer(&world.token), 403, &["credential"])
        .await;
    assert!(
        !response.fields.has("chant-payer"),
        "a visitor's is nobody's"
    );
    let (_, grant) = world.grant("box-a", "ada").await;
    let request = call(&world.token, &grant);
    is_paid("a turn", &world, &request, ADAS, "visitor github:ada").await;
}

#[tokio::test]
async fn a_grant_that_fails_is_ignored() {
    let (world, other) = ready().await;
    let (_, grant) = world.grant("box-a", "ada").await;
    let (revoked, of_revoked) = world.grant("box-a", "ada").await;
    let revoke = ["grant", "revoke", revoked.as_str()];
    world.command(&revoke, "").await.ok();
    let unknown = format!("jfg_{}", "a".repeat(43));
    let padded = format!("{grant}x");
    let bearer = format!("Bearer {grant}");
    let twice = format!("{grant}, {grant}");
    for value in [
        unknown.as_str(),
        &of_revoked,
        &grant[..46],
        &padded,
        &bearer,
        &twice,
        "jfg_",
        "anything",
        "",
    ] {
        let request = call(&world.token, value);
        is_paid(value, &world, &request, KEY, WITHOUT).await;
    }
    let doubled = call(&world.token, &grant).header("chant-grant", &grant);
    is_paid("doubled", &world, &doubled, KEY, WITHOUT).await;
    let beside = call(&world.token, "anything").header("chant-grant", &grant);
    is_paid("beside another", &world, &beside, KEY, WITHOUT).await;
    let another_s = call(&other, &grant);
    is_paid("another box's", &world, &another_s, KEY, WITHOUT).await;
    // It holds all the while for its own.
    let own = call(&world.token, &grant);
    is_paid("its own", &world, &own, ADAS, "visitor github:ada").await;
    // Neither does it open anything: the rule comes first.
    world.declare(&world.token, &[]).await;
    let response = world.refuses(&own, 403, &["inference", "agent"]).await;
    let said = response.fields.all("chant-payer");
    assert_eq!(said, ["visitor github:ada"]);
}

#[tokio::test]
async fn a_person_who_holds_no_credential_any_more_pays_nothing() {
    let (world, _) = ready().await;
    let (_, grant) = world.grant("box-a", "ada").await;
    let request = call(&world.token, &grant);
    let remove = ["credential", "remove", "anthropic", "--name", "ada"];
    world.command(&remove, "").await.ok();
    is_paid("none", &world, &request, KEY, WITHOUT).await;
    assert_eq!(list(&world).await[0]["state"], "no credential");
    // Another person's of the same name is not theirs.
    let bobs = "sk-ant-bob-0123456789abcdefghij";
    visitor(&world, bobs, "ada", "github:bob").await;
    is_paid("another's", &world, &request, KEY, WITHOUT).await;
    world.command(&remove, "").await.ok();
    // Another value of theirs is.
    let newer = "sk-ant-newer-0123456789abcdefgh";
    visitor(&world, newer, "ada", "github:ada").await;
    let payer = "visitor github:ada";
    is_paid("their own", &world, &request, newer, payer).await;
    // But not where another box alone may spend it.
    world.command(&remove, "").await.ok();
    let visitor = ["anthropic", "--kind", "api-key", "--payer", "visitor"];
    let who = ["--principal", "github:ada", "--name", "ada"];
    let only = ["--box", "box-b"];
    world
        .credential(ADAS, &[&visitor[..], &who, &only].concat())
        .await;
    is_paid("of one box", &world, &request, KEY, WITHOUT).await;
}

#[tokio::test]
async fn an_expired_grant_is_ignored_and_a_restart_keeps_the_others() {
    let (mut world, _) = ready().await;
    let (expired, of_expired) = world.grant("box-a", "ada").await;
    let (_, grant) = world.grant("box-a", "ada").await;
    let (revoked, of_revoked) = world.grant("box-a", "ada").await;
    let revoke = ["grant", "revoke", revoked.as_str()];
    world.command(&revoke, "").await.ok();
    let old = call(&world.token, &of_expired);
    is_paid("in time", &world, &old, ADAS, "visitor github:ada").await;

    // Its record says that its hour is over.
    world.take_host().stop().await;
    expire(&world, &expired).await;
    world.serve_as_approved().await;
    let check = async |world: &World| {
        is_paid("expired", world, &old, KEY, WITHOUT).await;
        let request = call(&world.token, &of_revoked);
        is_paid("revoked", world, &request, KEY, WITHOUT).await;
        let request = call(&world.token, &grant);
        is_paid("kept", world, &request, ADAS, "visitor github:ada").await;
        let mut states: Vec<String> = list(world)
            .await
            .iter()
            .map(|grant| grant["state"].as_str().expect("a state").to_owned())
            .collect();
        states.sort();
        assert_eq!(states, ["expired", "revoked", "valid"]);
    };
    check(&world).await;
    world.take_host().crash().await;
    world.serve_as_approved().await;
    check(&world).await;
}

/// Lets a grant have expired when it was issued.
async fn expire(world: &World, id: &str) {
    let folder = world.home.state().join("store");
    let store = open_sled(&folder, SledSettings::default()).expect("the store opens");
    let key = format!("grant/box-a/{id}").into_bytes();
    let record = store.get(&key).await.expect("it reads").expect("a grant");
    let mut stored: Value = serde_json::from_slice(&record.value).expect("JSON");
    stored["data"]["expires"] = stored["data"]["issued"].clone();
    let value = serde_json::to_vec(&stored).expect("JSON");
    let batch = Batch {
        conditions: Vec::new(),
        changes: vec![Change::Put(key, value)],
    };
    store.commit(batch).await.expect("it is kept");
    store.close().await;
}

#[tokio::test]
async fn the_calls_of_a_need_are_paid_by_the_grant() {
    let (world, _) = ready().await;
    let (_, grant) = world.grant("box-a", "ada").await;
    for (path, count) in [
        ("call", 1),
        ("call-twice", 2),
        ("call-then-forward/v1/x", 2),
    ] {
        for (grant, value, payer) in [
            (grant.as_str(), ADAS, "visitor github:ada"),
            ("anything", KEY, WITHOUT),
        ] {
            let before = world.anthropic.requests().len();
            let request = Request::post(&format!("/liar/{path}"))
                .bearer(&world.token)
                .header("chant-grant", grant);
            let response = world.send(&request).await;
            assert_eq!(response.fields.all("chant-payer"), [payer], "{path}");
            let received = world.anthropic.requests();
            assert_eq!(received.len(), before + count, "{path}");
            for received in &received[before..] {
                let bearer = format!("Bearer {value}");
                assert_eq!(received.fields.all("authorization"), [bearer], "{path}");
                assert!(!received.fields.has("chant-grant"), "{path}");
            }
        }
    }
    // It is the only one on offer.
    let request = Request::post("/liar/payer").bearer(&world.token);
    let with = request.clone().header("chant-grant", &grant);
    let offers = world.send(&with).await.text();
    assert!(offers.contains("github:ada"), "{offers}");
    assert!(!offers.contains("octocat"), "{offers}");
    let offers = world.send(&request).await.text();
    assert!(!offers.contains("github:ada"), "{offers}");
}

#[tokio::test]
async fn a_decision_is_paid_by_the_grant() {
    let (world, _) = ready().await;
    let all: &[&str] = &["agent", "decide"];
    world.declare(&world.token, &[("inference", all)]).await;
    let (_, grant) = world.grant("box-a", "ada").await;
    let decide = |state: &str| {
        Request::post("/decide/v1/systemone")
            .bearer(&world.token)
            .json(&json!({"model": MODEL, "state": state, "questions": {
                "ship": {"type": "noul", "instructions": "Ship it?",
                    "criteria": {"true": "ship", "false": "hold"}}}}))
    };
    for (grant, value, payer) in [
        (grant.as_str(), ADAS, "visitor github:ada"),
        ("anything", KEY, WITHOUT),
    ] {
        let before = world.anthropic.requests().len();
        let request = decide("a state").header("chant-grant", grant);
        let response = world.send(&request).await;
        assert_eq!(response.fields.all("chant-payer"), [payer]);
        let received = world.anthropic.requests();
        assert!(received.len() > before, "{}", response.text());
        for received in &received[before..] {
            assert_eq!(received.fields.all("x-api-key"), [value]);
        }
    }
    // In the state that a model is shown it is overwritten.
    let request = decide(&format!("it is {grant}, is it?")).header("chant-grant", &grant);
    let before = world.anthropic.requests().len();
    world.send(&request).await;
    let received = world.anthropic.requests();
    let body = &received[before..][0].body;
    assert!(contains(body, "*".repeat(47).as_bytes()), "{body:?}");
    assert!(!contains(body, b"jfg_"));
    // Too much of it is refused, and says who would have paid.
    let request = decide(&"x".repeat(2_000_000)).header("chant-grant", &grant);
    let response = world.refuses(&request, 413, &[]).await;
    let said = response.fields.all("chant-payer");
    assert_eq!(said, ["visitor github:ada"]);
}

#[tokio::test]
async fn elsewhere_a_grant_means_nothing_and_goes_nowhere() {
    let (world, _) = ready().await;
    let (_, grant) = world.grant("box-a", "ada").await;
    let request = Request::get("/egress/OPENAI/x")
        .bearer(&world.token)
        .header("chant-grant", &grant);
    let response = world.send(&request).await;
    assert_eq!(response.status, 200);
    assert!(!response.fields.has("chant-payer"));
    let received = world.echo.last();
    assert!(!received.fields.has("chant-grant"));
    assert_eq!(
        received.fields.all("authorization"),
        [format!("Bearer {VALUE}")]
    );
    // On the host's own routes and on public ones it is not looked at.
    for target in ["/llm/anthropic/api/hello", "/nowhere"] {
        let request = Request::get(target).header("chant-grant", &grant);
        assert!(!world.send(&request).await.fields.has("chant-payer"));
    }
}

#[tokio::test]
async fn a_grant_in_another_place_is_refused_before_any_upstream() {
    let (world, other) = ready().await;
    let (_, grant) = world.grant("box-a", "ada").await;
    let encoded = grant.replace('j', "%6A");
    let twice = grant.replace('j', "%256A");
    let at = |target: &str| Request {
        target: target.to_owned(),
        ..messages()
    };
    let path = "/llm/anthropic/v1/messages";
    for (place, request) in [
        ("the header x-note", messages().header("x-note", &grant)),
        ("the header x-note", messages().header("x-note", &encoded)),
        (
            "the header cookie",
            messages().header("cookie", format!("g={grant}")),
        ),
        ("the query", at(&format!("{path}?g={grant}"))),
        ("the query", at(&format!("{path}?g={encoded}"))),
        ("the query", at(&format!("{path}?g={twice}"))),
        ("the path", at(&format!("/llm/anthropic/v1/models/{grant}"))),
        (
            "the header x-shown",
            at("/liar/inputs").header("x-shown", &grant),
        ),
        ("the query", at(&format!("/liar/inputs?g={grant}"))),
    ] {
        for token in [&world.token, &other] {
            let request = request.clone().bearer(token);
            world.refuses(&request, 400, &["grant", place]).await;
        }
    }
    // Where tokens may stand anywhere, too.
    for request in [
        Request::get(&format!("/egress/OPENAI/x?g={grant}")),
        Request::get(&format!("/egress/OPENAI/{grant}")),
        Request::get("/egress/OPENAI/x").header("x-note", &grant),
    ] {
        let request = request.bearer(&world.token);
        world.refuses(&request, 400, &["grant"]).await;
    }
    // And in a place that is not sent on it harms nobody.
    let request = messages().header("x-api-key", &world.token);
    let request = request.header("authorization", format!("Basic {grant}"));
    let response = world.send(&request).await;
    assert!([200, 403].contains(&response.status), "{}", response.status);
}

#[tokio::test]
async fn no_plugin_sees_a_grant() {
    let (world, _) = ready().await;
    let (_, grant) = world.grant("box-a", "ada").await;
    let request = Request::post("/liar/inputs?q=1")
        .bearer(&world.token)
        .header("x-shown", "shown")
        .header("chant-grant", &grant);
    let said = world.send(&request).await.text();
    assert!(said.contains("shown") && !said.contains(&grant), "{said}");
    assert!(!said.contains("chant-grant"), "{said}");
}

#[tokio::test]
async fn a_grant_is_shown_once_and_kept_by_nobody() {
    let (mut world, _) = ready().await;
    let (id, grant) = world.grant("box-a", "ada").await;
    let request = call(&world.token, &grant);
    is_paid("a turn", &world, &request, ADAS, "visitor github:ada").await;
    for arguments in [
        &["grant", "list"][..],
        &["grant", "list", "--json"],
        &["grant", "list", "--box", "box-a"],
        &["box", "list", "--json"],
        &["box", "env", "box-a"],
        &["credential", "list", "--json"],
    ] {
        let said = world.command(arguments, "").await.ok();
        assert!(!said.stdout.contains(&grant), "{arguments:?}");
        assert!(!said.stderr.contains(&grant), "{arguments:?}");
        if arguments[0] == "grant" {
            for shown in [&id, "box-a", "anthropic/ada", "github:ada", "valid"] {
                assert!(said.stdout.contains(shown), "{arguments:?}: {shown}");
            }
        }
    }
    let metrics = metrics(&world).await;
    assert!(metrics.contains("box-a") || metrics.contains("jackfield"));
    assert!(!metrics.contains(&grant) && !metrics.contains("jfg_"));
    // The value alone is printed for a script, and what is known of it beside.
    let issue = ["grant", "issue", "--box", "box-a", "--credential", "ada"];
    let issue = [&issue[..], &["--ttl", "15m"]].concat();
    let said = world.command(&issue, "").await.ok();
    assert!(said.stdout.starts_with("jfg_") && said.stdout.len() == 48);
    assert!(said.stderr.contains("github:ada"), "{}", said.stderr);
    assert!(!said.stderr.contains(said.stdout.trim()));
    world.take_host().stop().await;
    for path in files_below(&world.home.state()) {
        let bytes = std::fs::read(&path).unwrap_or_default();
        for value in [grant.as_str(), said.stdout.trim()] {
            let clear = contains(&bytes, value.as_bytes());
            assert!(!clear, "{} holds a grant", path.display());
        }
    }
}

/// The counters, as the operator's API gives them.
async fn metrics(world: &World) -> String {
    let socket = world.home.state().join("admin.sock");
    let mut stream = tokio::net::UnixStream::connect(socket)
        .await
        .expect("the host listens");
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: jackfield\r\nconnection: close\r\n\r\n")
        .await
        .expect("the host reads");
    let mut said = String::new();
    stream.read_to_string(&mut said).await.expect("text");
    said
}

#[tokio::test]
async fn what_a_grant_may_be_issued_on_is_checked() {
    let (world, _) = ready().await;
    let issue = async |arguments: &str, words: &[&str]| {
        let line = format!("grant issue {arguments}");
        let arguments: Vec<&str> = line.split(' ').collect();
        let said = world.command(&arguments, "").await.failed();
        for word in words {
            assert!(said.contains(word), "{line}: no {word}: {said}");
        }
        assert!(!said.contains("jfg_"), "{line}: {said}");
    };
    issue("--box nobody --credential ada", &["nobody", "box add"]).await;
    issue("--box box-a --credential bob", &["credential list"]).await;
    issue("--box box-a --credential others/ada", &["credential list"]).await;
    issue("--box box-a --credential default", &["visitor"]).await;
    issue("--box box-a --credential anthropic/default", &["visitor"]).await;
    issue("--box box-a --credential Not/aName", &["name"]).await;
    for ttl in ["0s", "25h", "86401s", "1d", "x", "-1s"] {
        let arguments = format!("--box box-a --credential ada --ttl={ttl}");
        issue(&arguments, &["1s", "24h"]).await;
    }
    let revoke = ["grant", "revoke", "0123456789abcdef"];
    let said = world.command(&revoke, "").await.failed();
    assert!(said.contains("grant list"), "{said}");
    // One that belongs to another box alone.
    let visitor = ["anthropic", "--kind", "api-key", "--payer", "visitor"];
    let who = ["--principal", "github:bob", "--name", "bob"];
    let bobs = "sk-ant-bob-0123456789abcdefghij";
    let only = ["--box", "box-b"];
    world
        .credential(bobs, &[&visitor[..], &who, &only].concat())
        .await;
    issue("--box box-a --credential bob", &["box-b"]).await;
    let (_, _) = world.grant("box-b", "bob").await;
    assert!(list(&world).await.len() == 1, "nothing else was issued");
}

#[tokio::test]
async fn a_name_that_two_upstreams_have_must_be_said_in_full() {
    let world = world()
        .tables("[upstreams.others]\nurl = \"{echo}\"\nallow_private = true\n")
        .ready()
        .await;
    for upstream in ["anthropic", "others"] {
        let visitor = [upstream, "--kind", "api-key", "--payer", "visitor"];
        let who = ["--principal", "github:ada", "--name", "ada"];
        world.credential(ADAS, &[&visitor[..], &who].concat()).await;
    }
    let issue = ["grant", "issue", "--box", "box-a", "--credential", "ada"];
    let said = world.command(&issue, "").await.failed();
    assert!(said.contains("anthropic/ada or others/ada"), "{said}");
    // One for another upstream is not one for this route.
    let (_, other) = world.grant("box-a", "others/ada").await;
    let response = world.send(&call(&world.token, &other)).await;
    assert_eq!(response.status, 200);
    assert_eq!(world.anthropic.last().fields.all("x-api-key"), [KEY]);
    assert!(!response.fields.has("chant-payer"));
    let (_, grant) = world.grant("box-a", "anthropic/ada").await;
    let request = call(&world.token, &grant);
    is_paid("in full", &world, &request, ADAS, "visitor github:ada").await;
}

#[tokio::test]
async fn a_new_address_ends_a_grant_until_the_value_is_set_again() {
    let (mut world, _) = ready().await;
    let (_, grant) = world.grant("box-a", "ada").await;
    world.take_host().stop().await;
    world.configure(&world.echo.url());
    world.serve_as_approved().await;
    let request = call(&world.token, &grant);
    let mark = world.mark();
    let response = world.send(&request).await;
    assert_eq!(response.status, 403, "the general one has not moved either");
    assert!(!response.fields.has("chant-payer"), "nobody can pay");
    assert_eq!(world.mark(), mark);
    let state = list(&world).await[0]["state"].clone();
    assert_eq!(state, "credential for another address");
    let issue = ["grant", "issue", "--box", "box-a", "--credential", "ada"];
    let said = world.command(&issue, "").await.failed();
    assert!(said.contains("credential set"), "{said}");

    visitor(&world, ADAS, "ada", "github:ada").await;
    let response = world.send(&request).await;
    assert_eq!(response.status, 200);
    assert_eq!(response.fields.all("chant-payer"), ["visitor github:ada"]);
    assert_eq!(world.echo.last().fields.all("x-api-key"), [ADAS]);
}

#[tokio::test]
async fn grants_go_with_their_box() {
    let (world, other) = ready().await;
    let (_, grant) = world.grant("box-a", "ada").await;
    let (kept, of_kept) = world.grant("box-b", "ada").await;
    // A new token leaves them: they are the box's, not the token's.
    let rotated = world.rotate_box("box-a").await;
    let request = call(&rotated, &grant);
    is_paid("rotated", &world, &request, ADAS, "visitor github:ada").await;

    world.command(&["box", "remove", "box-a"], "").await.ok();
    let left = list(&world).await;
    assert_eq!(left.len(), 1);
    assert_eq!(left[0]["id"], json!(kept));
    let again = world.add_box("box-a").await;
    declare(&world, &again).await;
    let request = call(&again, &grant);
    is_paid("a namesake", &world, &request, KEY, WITHOUT).await;
    let request = call(&other, &of_kept);
    is_paid("the other", &world, &request, ADAS, "visitor github:ada").await;
}
