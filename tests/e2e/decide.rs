//! Questions answered by a model: one call for each, side by side, and a
//! refusal for whatever is not an answer.

use std::sync::Arc;

use jackfield_tests::client::{Request, Response};
use jackfield_tests::schema;
use jackfield_tests::soon;
use jackfield_tests::stand_ins::{self, instance};
use jackfield_tests::upstream::{Exchange, Reply};
use jackfield_tests::world::{KEY, World, is_refusal};
use serde_json::{Value, json};

use crate::world;

const MODEL: &str = "claude-pinned-20260101";

async fn ready() -> World {
    let world = world().ready().await;
    world
        .credential(
            KEY,
            &["anthropic", "--kind", "api-key", "--payer", "shared"],
        )
        .await;
    world
        .declare(&world.token, &[("inference", &["decide"])])
        .await;
    world
}

fn questions() -> Value {
    json!({
        "tier": {"type": "choice", "instructions": "Pick the tier.",
            "criteria": {"small": "a small change", "large": "a large change"}},
        "ship": {"type": "noul", "instructions": "Ship it?",
            "criteria": {"true": "ship", "false": "hold"}},
        "mood": {"type": "score", "instructions": "How angry?",
            "criteria": ["calm", "cross", "furious, and says so at length"]},
    })
}

fn decide(questions: &Value) -> Request {
    Request::post("/decide/v1/systemone")
        .json(&json!({"model": MODEL, "state": {"change": 3}, "questions": questions}))
}

/// What the upstream was asked, as JSON.
fn asked(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("JSON")
}

/// Holds an answer to the protocol, and gives what it answers.
fn answers(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{}", response.text());
    let body = response.json();
    schema::holds("decideResponse", &body);
    assert_eq!(body["model"], MODEL);
    body["answers"].clone()
}

#[tokio::test]
async fn every_question_is_answered_by_a_call_of_its_own() {
    let world = ready().await;
    let response = world.send(&decide(&questions()).bearer(&world.token)).await;
    let said = answers(&response);
    assert_eq!(said["tier"]["choice"], "small");
    assert_eq!(
        said["tier"]["probabilities"],
        json!({"small": 0.5, "large": 0.5})
    );
    assert_eq!(said["tier"]["reason"], "The stand-in's reason.");
    assert_eq!(said["ship"]["noul"], json!(0.5));
    assert_eq!(said["mood"]["score"], json!(1.0));
    assert_eq!(said["mood"]["legend"], questions()["mood"]["criteria"]);
    assert_eq!(
        response.json()["usage"],
        json!({"input_tokens": 36, "output_tokens": 15})
    );
    assert_eq!(response.fields.all("chant-payer"), ["shared"]);

    let requests = world.anthropic.requests();
    assert_eq!(requests.len(), 3);
    for received in requests {
        assert_eq!(
            (received.method.as_str(), received.target.as_str()),
            ("POST", "/v1/messages")
        );
        assert_eq!(received.fields.all("x-api-key"), [KEY]);
        assert_eq!(received.fields.all("anthropic-version"), ["2023-06-01"]);
        assert!(!received.fields.has("authorization"));
        assert!(!received.fields.has("anthropic-beta"));
        assert_eq!(asked(&received.body)["model"], MODEL);
    }
}

#[tokio::test]
async fn all_calls_are_open_before_the_first_is_answered() {
    let world = Arc::new(ready().await);
    world.anthropic.take_over();
    let asking = tokio::spawn({
        let world = Arc::clone(&world);
        async move {
            let request = decide(&questions()).bearer(&world.token);
            world.send(&request).await
        }
    });
    let mut exchanges = Vec::new();
    for _ in 0..3 {
        exchanges.push(world.anthropic.next().await);
    }
    // The last to come is answered first: what belongs together is not what
    // comes in the same order.
    for exchange in exchanges.iter_mut().rev() {
        let body = exchange.body().await.expect("a body");
        let schema = &asked(&body)["output_config"]["format"]["schema"];
        let mut text = instance(schema);
        let labels = text["probabilities"].as_object_mut().expect("numbers");
        let last = labels.len() - 1;
        for (place, (_, share)) in labels.iter_mut().enumerate() {
            *share = json!(f64::from(u8::from(place == last)));
        }
        say(exchange, &text).await;
    }
    let response = soon("an answer", asking).await.expect("no panic");
    let said = answers(&response);
    assert_eq!(said["tier"]["probabilities"]["large"], json!(1.0));
    assert_eq!(said["ship"]["noul"], json!(0.0));
    assert_eq!(said["mood"]["score"], json!(2.0));
}

async fn say(exchange: &mut Exchange, text: &Value) {
    let Reply::Message { body, .. } = stand_ins::said(&text.to_string()) else {
        panic!("a message");
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    exchange.send(head).await.expect("the host reads");
    exchange.send(body).await.expect("the host reads");
}

#[tokio::test]
async fn a_setup_token_goes_as_a_bearer_with_its_beta() {
    const SETUP_TOKEN: &str = "sk-ant-oat01-0123456789abcdefghijkl";
    let world = world().start().await;
    let token = world.add_box("box-a").await;
    world
        .credential(SETUP_TOKEN, &["anthropic", "--kind", "setup-token"])
        .await;
    world.declare(&token, &[("inference", &["decide"])]).await;
    answers(&world.send(&decide(&questions()).bearer(&token)).await);
    for received in world.anthropic.requests() {
        let bearer = format!("Bearer {SETUP_TOKEN}");
        assert_eq!(received.fields.all("authorization"), [bearer]);
        assert_eq!(received.fields.all("anthropic-beta"), ["oauth-2025-04-20"]);
        assert!(!received.fields.has("x-api-key"));
    }
}

#[tokio::test]
async fn the_word_is_decide_and_no_other() {
    let world = world().ready().await;
    let request = decide(&questions()).bearer(&world.token);
    world.refuses(&request, 403, &["inference", "decide"]).await;
    // A body that is none is refused for the word as well.
    let nonsense = Request::post("/decide/v1/systemone").body("{");
    world
        .refuses(&nonsense.bearer(&world.token), 403, &["decide"])
        .await;
    world
        .declare(&world.token, &[("inference", &["decide"])])
        .await;
    answers(&world.send(&request).await);
    let messages = jackfield_tests::world::messages().bearer(&world.token);
    world.refuses(&messages, 403, &["inference", "agent"]).await;
}

#[tokio::test]
async fn nobody_but_a_box_of_this_host_is_answered() {
    let world = ready().await;
    for request in [
        decide(&questions()),
        decide(&questions()).bearer("unknown"),
        decide(&questions()).bearer(&format!("jft_{}", "a".repeat(43))),
    ] {
        world.refuses(&request, 403, &[]).await;
    }
    let silent = world.add_box("box-b").await;
    world
        .refuses(&decide(&questions()).bearer(&silent), 403, &["inference"])
        .await;
    world.command(&["box", "pause", "box-a"], "").await.ok();
    world
        .refuses(&decide(&questions()).bearer(&world.token), 403, &["paused"])
        .await;
}

#[tokio::test]
async fn what_is_not_in_the_format_is_a_422_and_asks_no_model() {
    let world = ready().await;
    let tier = questions()["tier"].clone();
    let with = |name: &str, value: Value| {
        let mut question = tier.clone();
        question[name] = value;
        json!({ "tier": question })
    };
    let deep = format!("{}{}", "[".repeat(70), "]".repeat(70));
    for body in [
        String::new(),
        "nonsense".to_owned(),
        "[]".to_owned(),
        json!({"state": 1, "questions": questions()}).to_string(),
        json!({"model": "", "state": 1, "questions": questions()}).to_string(),
        json!({"model": 7, "state": 1, "questions": questions()}).to_string(),
        json!({"model": MODEL, "questions": questions()}).to_string(),
        json!({"model": MODEL, "state": {}}).to_string(),
        json!({"model": MODEL, "state": {}, "questions": {}}).to_string(),
        json!({"model": MODEL, "state": {}, "questions": [tier]}).to_string(),
        json!({"model": MODEL, "state": {}, "questions": {"a": tier, "b": 1}}).to_string(),
        json!({"model": MODEL, "state": {}, "questions": with("type", json!(1))}).to_string(),
        json!({"model": MODEL, "state": {}, "questions": with("criteria", json!({}))}).to_string(),
        json!({"model": MODEL, "state": {}, "questions": with("criteria", json!("a"))}).to_string(),
        json!({"model": MODEL, "state": {}, "questions": with("instructions", json!(null))})
            .to_string(),
        format!(
            r#"{{"model":"m","model":"n","state":1,"questions":{}}}"#,
            questions()
        ),
        format!(
            r#"{{"model":"m","state":{deep},"questions":{}}}"#,
            questions()
        ),
    ] {
        let request = Request::post("/decide/v1/systemone").body(body.clone());
        world
            .refuses(&request.bearer(&world.token), 422, &["decide request"])
            .await;
    }
    answers(&world.send(&decide(&questions()).bearer(&world.token)).await);
}

#[tokio::test]
async fn more_than_a_mebibyte_is_a_413() {
    let world = ready().await;
    let state = "a".repeat(1024 * 1024);
    let request = Request::post("/decide/v1/systemone")
        .json(&json!({"model": MODEL, "state": state, "questions": questions()}));
    world.refuses(&request.bearer(&world.token), 413, &[]).await;
}

#[tokio::test]
async fn as_many_questions_as_may_be_are_asked_at_once() {
    let world = ready().await;
    let many = |count: usize| {
        let tier = questions()["tier"].clone();
        let questions = (0..count).map(|at| (format!("q{at}"), tier.clone()));
        Request::post("/decide/v1/systemone")
            .json(&json!({"model": MODEL, "state": "s".repeat(100_000),
                "questions": questions.collect::<serde_json::Map<_, _>>()}))
            .bearer(&world.token)
    };
    let said = answers(&world.send(&many(64)).await);
    assert_eq!(said.as_object().expect("answers").len(), 64);
    assert_eq!(world.anthropic.requests().len(), 64);
    world.refuses(&many(65), 422, &["65", "64"]).await;
}

#[tokio::test]
async fn a_mebibyte_of_small_values_is_one_more_request() {
    let world = ready().await;
    let tier = json!({"tier": questions()["tier"]});
    let many = |value: &str| vec![value; 1024 * 1000 / (value.len() + 1)].join(",");
    let post = |body: String| {
        Request::post("/decide/v1/systemone")
            .body(body)
            .bearer(&world.token)
    };
    let state = |state: String| {
        post(format!(
            r#"{{"model":"{MODEL}","state":{state},"questions":{tier}}}"#
        ))
    };
    let numbered = |count: usize| {
        let entries = (0..count).map(|at| format!("\"{at:08}\":0"));
        entries.collect::<Vec<String>>().join(",")
    };
    answers(&world.send(&state(format!("[{}]", many("0")))).await);
    answers(&world.send(&state(format!("[{}]", many("[]")))).await);
    answers(
        &world
            .send(&state(format!("{{{}}}", numbered(60_000))))
            .await,
    );
    let criteria = |criteria: String| {
        post(format!(
            r#"{{"model":"m","state":1,"questions":{{"q":{{"type":"choice","instructions":"i","criteria":{criteria}}}}}}}"#
        ))
    };
    for refused in [
        criteria(format!("[{}]", many("0"))),
        criteria(format!("[{}]", many("[]"))),
        criteria(format!("[{}]", many("{}"))),
        criteria(format!("{{{}}}", numbered(78_000))),
        post(format!("[{}]", many("0"))),
        post(format!(
            r#"{{"model":"m","state":1,"questions":{{{}}}}}"#,
            numbered(78_000)
        )),
    ] {
        world.refuses(&refused, 422, &["decide request"]).await;
    }
}

#[tokio::test]
async fn a_type_that_nobody_knows_is_unsupported_and_the_rest_is_answered() {
    let world = ready().await;
    let mut some = questions();
    some["order"] = json!({"type": "rank"});
    let said = answers(&world.send(&decide(&some).bearer(&world.token)).await);
    assert_eq!(said["order"], json!({"type": "unsupported"}));
    assert_eq!(said["ship"]["type"], "noul");
    assert_eq!(world.anthropic.requests().len(), 3);

    let mark = world.mark();
    let none = json!({"order": {"type": "rank"}});
    let said = answers(&world.send(&decide(&none).bearer(&world.token)).await);
    assert_eq!(said, json!({"order": {"type": "unsupported"}}));
    assert_eq!(world.mark(), mark, "no model is asked");
}

#[tokio::test]
async fn a_failing_or_nonsense_upstream_is_never_an_answer() {
    let world = ready().await;
    let tier = json!({"tier": questions()["tier"]});
    let check = async |reply: Reply, status: u16, words: &[&str]| {
        let before = world.anthropic.requests().len();
        world.anthropic.reply(reply);
        let response = world.send(&decide(&tier).bearer(&world.token)).await;
        is_refusal("a failing upstream", &response, status, words);
        assert_eq!(response.fields.all("chant-payer"), ["shared"]);
        assert_eq!(
            world.anthropic.requests().len(),
            before + 1,
            "nothing is tried again"
        );
        response
    };
    let error = json!({"type": "error", "error": {"type": "t", "message": "theirs"}});
    for (status, told) in [
        (400, 502),
        (403, 502),
        (404, 502),
        (500, 502),
        (503, 503),
        (529, 503),
    ] {
        check(Reply::json(status, &error), told, &["tier", "theirs"]).await;
    }
    let busy = Reply::json(429, &error).header("retry-after", "3");
    let response = check(busy, 429, &["tier"]).await;
    assert_eq!(response.fields.all("retry-after"), ["3"]);
    let denied = json!({"error": {"message": format!("bad key {KEY}")}});
    check(Reply::json(401, &denied), 403, &["credential"]).await;
    check(Reply::json(400, &denied), 502, &["bad key"]).await;

    let redirect = Reply::status(307).header("location", format!("{}/steal", world.echo.url()));
    check(redirect, 502, &["tier", "307"]).await;
    check(Reply::status(200), 502, &["tier"]).await;
    check(Reply::status(200).body("<html>"), 502, &["tier"]).await;
    check(Reply::json(200, &json!({})), 502, &["tier"]).await;
    check(
        Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{".to_vec()),
        502,
        &["tier"],
    )
    .await;
    check(stand_ins::said("large"), 502, &["tier"]).await;
    check(
        stand_ins::said(
            r#"{"reason":"","choice":"purple","probabilities":{"small":0.5,"large":0.5}}"#,
        ),
        502,
        &["tier", "purple", "offered"],
    )
    .await;
    let large = Reply::status(200).body(vec![b' '; 5 * 1024 * 1024]);
    check(large, 502, &["tier"]).await;
    assert_eq!(world.echo.connections(), 0);
}

#[tokio::test]
async fn an_upstream_that_is_gone_is_a_502() {
    let world = ready().await;
    world.anthropic.stop();
    let response = world.send(&decide(&questions()).bearer(&world.token)).await;
    is_refusal("nobody listens", &response, 502, &["tier"]);
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_a_504() {
    let world = world().tables("[limits]\ncall_seconds = 1\n").ready().await;
    world
        .declare(&world.token, &[("inference", &["decide"])])
        .await;
    world.anthropic.take_over();
    let response = world.send(&decide(&questions()).bearer(&world.token)).await;
    is_refusal("a silent upstream", &response, 504, &["tier", "too long"]);
    assert_eq!(world.anthropic.requests().len(), 3);
}

#[tokio::test]
async fn the_calls_of_a_box_that_leaves_are_ended() {
    let world = ready().await;
    world.anthropic.take_over();
    let mut client = world.client().await;
    client
        .send(&decide(&questions()).bearer(&world.token))
        .await;
    let mut exchanges = Vec::new();
    for _ in 0..3 {
        exchanges.push(world.anthropic.next().await);
    }
    drop(client);
    for exchange in &mut exchanges {
        let _ = exchange.body().await;
        exchange.gone().await;
    }
}

#[tokio::test]
async fn any_other_path_or_method_is_a_404() {
    let world = ready().await;
    for (method, path) in [
        ("GET", "/decide/v1/systemone"),
        ("PUT", "/decide/v1/systemone"),
        ("HEAD", "/decide/v1/systemone"),
        ("POST", "/decide/v1/systemone/"),
        ("POST", "/decide/v1/systemone/x"),
        ("POST", "/decide/v1/systemtwo"),
        ("POST", "/decide/v1"),
        ("POST", "/decide"),
        ("POST", "/decide//v1/systemone"),
        ("POST", "/decide/v1/messages"),
        ("POST", "/decide/api/hello"),
    ] {
        let request = Request::new(method, path).bearer(&world.token);
        if method == "HEAD" {
            assert_eq!(world.send(&request).await.status, 404);
            continue;
        }
        world.refuses(&request, 404, &[]).await;
    }
}
