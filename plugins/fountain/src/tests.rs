//! The plugin as the host asks it, round by round.

mod listings;
mod naming;
mod paths;

use jackfield_sdk::contract::{Action, PathChoice, QueryChoice};

use super::*;

pub(super) fn request(method: &str, path: &str) -> Request {
    Request {
        method: method.to_owned(),
        prefix: "/fountain".to_owned(),
        path: path.to_owned(),
        query: None,
        headers: Vec::new(),
        body: None,
        time: None,
        settings: None,
    }
}

fn with_body(method: &str, path: &str, body: &str) -> Request {
    Request {
        headers: vec![header("content-type", "application/json")],
        body: Some(body.into()),
        ..request(method, path)
    }
}

fn caller() -> Caller {
    let mut caller = Caller::of("one");
    caller.credentials = vec![Offer {
        name: "offer-1".to_owned(),
        target: upstream(UPSTREAM),
        kind: "bearer".to_owned(),
        payer: None,
    }];
    caller.uses.owned_kinds = kinds::ALL.map(str::to_owned).into();
    caller
}

/// The first round: what is asked of the box's own.
fn asked(request: Request) -> Vec<(String, String)> {
    match Fountain::route(request, caller()) {
        Step::Need(need) => {
            assert!(
                need.calls.is_empty(),
                "an upstream is called before it is known"
            );
            need.owned
                .into_iter()
                .map(|thing| (thing.kind, thing.id))
                .collect()
        }
        Step::Plan(plan) => panic!("{:?}", plan.action),
    }
}

fn refused(step: Step) -> Refusal {
    match step {
        Step::Plan(plan) => match plan.action {
            Action::Refuse(refusal) => {
                assert!(plan.owns.is_empty());
                refusal
            }
            Action::Forward(_) | Action::Answer(_) => panic!("{:?}", plan.action),
        },
        Step::Need(need) => panic!("{need:?}"),
    }
}

fn need(step: Step) -> Need {
    match step {
        Step::Need(need) => need,
        Step::Plan(plan) => panic!("{:?}", plan.action),
    }
}

fn owned(owned: &[bool]) -> Answers {
    Answers {
        owned: owned.to_vec(),
        ..Answers::nothing()
    }
}

fn answered(status: u16, body: &str) -> Answers {
    let answer = CallAnswer {
        status,
        headers: vec![
            header("Content-Type", "application/json"),
            header("location", "/api/x"),
            header("x-total-count", "42"),
        ],
        body: body.into(),
    };
    Answers {
        calls: vec![Ok(answer)],
        ..Answers::nothing()
    }
}

fn answer(step: Step) -> (Answer, Vec<Thing>) {
    match step {
        Step::Plan(plan) => match plan.action {
            Action::Answer(answer) => (answer, plan.owns),
            Action::Forward(_) | Action::Refuse(_) => panic!("{:?}", plan.action),
        },
        Step::Need(need) => panic!("{need:?}"),
    }
}

#[test]
fn what_is_the_boxs_own_is_sent_on_with_the_operators_key() {
    let first = Fountain::route(request("GET", "/api/conversations/c-1/events"), caller());
    let state = need(first).state;
    let Step::Plan(plan) = Fountain::resume(state, owned(&[true])) else {
        panic!("it is decided");
    };
    let Action::Forward(forward) = plan.action else {
        panic!("{:?}", plan.action);
    };
    assert_eq!(forward.to, upstream("fountain"));
    assert_eq!(forward.path, PathChoice::Received(0));
    assert_eq!(forward.query, QueryChoice::Received);
    assert_eq!(forward.credential.as_deref(), Some("offer-1"));
    assert_eq!(forward.placement, Placement::Bearer);
    let statuses: Vec<u16> = forward
        .substitutions
        .iter()
        .map(|each| each.status)
        .collect();
    assert_eq!(statuses, [401]);
}

#[test]
fn what_is_not_is_one_refusal_whatever_it_is() {
    let foreign = refusals::foreign();
    assert_eq!(foreign.status, 403);
    let path = request("GET", "/api/conversations/c-1");
    let body = with_body(
        "POST",
        "/api/conversations",
        r#"{"agent_id":"a-1","vault_ids":["v"]}"#,
    );
    for (request, answers) in [
        (path.clone(), owned(&[false])),
        (path.clone(), owned(&[])),
        (body.clone(), owned(&[true, false])),
        (body, owned(&[false, true])),
    ] {
        let state = need(Fountain::route(request, caller())).state;
        assert_eq!(refused(Fountain::resume(state, answers)), foreign);
    }
    // What can be nobody's own is refused in the same words, unasked.
    for request in [
        request("GET", "/api/conversations/a%00b"),
        request("GET", &format!("/api/conversations/{}", "x".repeat(257))),
        with_body("POST", "/api/conversations", r#"{"agent_id":""}"#),
        with_body("POST", "/api/conversations", r#"{"agent_id":"a\u0000"}"#),
        with_body("POST", "/api/conversations", r#"{"agent_id":1.5}"#),
        with_body(
            "POST",
            "/api/conversations",
            r#"{"agent_id":"a","sandbox":-1}"#,
        ),
    ] {
        assert_eq!(refused(Fountain::route(request, caller())), foreign);
    }
}

#[test]
fn a_conversation_is_started_with_an_agent_and_recorded() {
    let body = r#"{"agent_id":"a-1","title":"hello"}"#;
    let mut request = with_body("POST", "/api/conversations", body);
    let key = header("idempotency-key", "\"k-1\"");
    request.headers.push(key);
    let first = need(Fountain::route(request, caller()));
    assert_eq!(first.owned, [thing("agents", "a-1")]);
    let second = need(Fountain::resume(first.state, owned(&[true])));
    let [call] = second.calls.as_slice() else {
        panic!("{second:?}");
    };
    assert_eq!(
        (call.method.as_str(), call.body.as_slice()),
        ("POST", body.as_bytes())
    );
    assert_eq!(
        (&call.path, call.query),
        (&PathChoice::Received(0), QueryChoice::Received)
    );
    assert_eq!(call.credential.as_deref(), Some("offer-1"));
    let names: Vec<&str> = call.headers.iter().map(|each| each.name.as_str()).collect();
    assert_eq!(names, ["accept", "content-type", "idempotency-key"]);
    for (body, id) in [
        (r#"{"id":"c-9","agent_id":"a-1"}"#, "c-9"),
        (r#"{"data":{"id":"c-9"}}"#, "c-9"),
        (r#"{"id":17}"#, "17"),
    ] {
        let (answer, owns) = answer(Fountain::resume(second.state.clone(), answered(201, body)));
        assert_eq!(
            (answer.status, answer.body.as_slice()),
            (201, body.as_bytes())
        );
        assert_eq!(owns, [thing("conversations", id)]);
        let names: Vec<&str> = answer
            .headers
            .iter()
            .map(|each| each.name.as_str())
            .collect();
        assert_eq!(names, ["Content-Type", "location"]);
    }
    for body in [
        "",
        "{}",
        "[]",
        "no json",
        r#"{"id":null}"#,
        r#"{"id":""}"#,
        r#"{"id":1,"id":2}"#,
    ] {
        let refusal = refused(Fountain::resume(second.state.clone(), answered(201, body)));
        assert_eq!(refusal.status, 502, "{body}");
    }
    // What failed upstream is handed on, and nothing is anybody's own.
    for status in [302, 404, 422, 500] {
        let (answer, owns) = answer(Fountain::resume(
            second.state.clone(),
            answered(status, "x"),
        ));
        assert_eq!(
            (answer.status, answer.body.as_slice(), owns.len()),
            (status, &b"x"[..], 0)
        );
    }
    let refusal = refused(Fountain::resume(second.state, answered(401, "x")));
    assert_eq!(refusal.status, 502);
    assert!(
        refusal
            .message
            .contains("jackfield credential set fountain"),
        "{}",
        refusal.message
    );
}

#[test]
fn a_conversation_without_an_agent_is_not_started() {
    for request in [
        request("POST", "/api/conversations"),
        with_body("POST", "/api/conversations", "{}"),
        with_body("POST", "/api/conversations", r#"{"agent_id":null}"#),
        with_body("POST", "/api/conversations", r#"{"text":"agent_id a-1"}"#),
    ] {
        assert_eq!(refused(Fountain::route(request, caller())).status, 400);
    }
    let mut by_query = request("POST", "/api/conversations");
    by_query.query = Some("agent_id=a-1".to_owned());
    assert_eq!(asked(by_query), [("agents".to_owned(), "a-1".to_owned())]);
}

#[test]
fn what_a_box_cannot_create_is_refused_before_anything_is_asked() {
    for path in [
        "/api/vaults",
        "/api/conversations/c-1/vaults",
        "/api/conversations/c-1/agents",
        "/api/sandboxes/s-1/environments",
    ] {
        let refusal = refused(Fountain::route(request("POST", path), caller()));
        assert_eq!(refusal.status, 403, "{path}");
        assert!(
            refusal.message.contains("creates no"),
            "{}",
            refusal.message
        );
    }
    let first = Fountain::route(request("POST", "/api/vaults/v-1/credentials"), caller());
    let second = need(Fountain::resume(need(first).state, owned(&[true])));
    let (_, owns) = answer(Fountain::resume(
        second.state,
        answered(201, r#"{"id":"k-1"}"#),
    ));
    assert_eq!(owns, [thing("credentials", "k-1")]);
}

#[test]
fn a_collection_is_asked_with_get_and_post_alone() {
    for method in ["DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"] {
        for path in [
            "/api/conversations",
            "/api/sandboxes",
            "/api/vaults/v-1/credentials",
        ] {
            let refusal = refused(Fountain::route(request(method, path), caller()));
            assert_eq!(refusal.status, 405, "{method} {path}");
        }
    }
}

#[test]
fn a_listing_shows_the_boxs_own_alone() {
    let first = need(Fountain::route(
        request("GET", "/api/conversations"),
        caller(),
    ));
    assert_eq!((first.calls.len(), first.owned.len()), (1, 0));
    let body = r#"{"data":[{"id":"c-2"},{"id":"c-1","n":1.0}],"total":2,"next_cursor":"x"}"#;
    let second = need(Fountain::resume(first.state.clone(), answered(200, body)));
    assert_eq!(
        second.owned,
        [thing("conversations", "c-1"), thing("conversations", "c-2")]
    );
    let (answer, owns) = answer(Fountain::resume(second.state, owned(&[true, false])));
    assert_eq!(
        String::from_utf8_lossy(&answer.body),
        r#"{"data":[{"id":"c-1","n":1.0}],"next_cursor":"x"}"#
    );
    assert!(owns.is_empty() && answer.headers.len() == 1);
    let (empty, _) = self::answer(Fountain::resume(first.state.clone(), answered(200, "[]")));
    assert_eq!(empty.body, b"[]");
    for unclear in ["", "{}", "null", "<html>", r#"{"data":{"c-1":{}}}"#] {
        let refusal = refused(Fountain::resume(
            first.state.clone(),
            answered(200, unclear),
        ));
        assert_eq!(refusal.status, 502, "{unclear}");
    }
    let refusal = refused(Fountain::resume(first.state.clone(), answered(401, "[]")));
    assert_eq!(refusal.status, 502);
    let (failed, _) = self::answer(Fountain::resume(first.state, answered(503, "later")));
    assert_eq!(
        (failed.status, failed.body.as_slice()),
        (503, &b"later"[..])
    );
}

#[test]
fn a_listing_by_a_foreign_id_is_not_asked_for() {
    let mut request = request("GET", "/api/sandboxes");
    request.query = Some("agent_id=a-2&limit=5".to_owned());
    let first = need(Fountain::route(request, caller()));
    assert_eq!(
        (first.calls.len(), &first.owned),
        (0, &vec![thing("agents", "a-2")])
    );
    assert_eq!(
        refused(Fountain::resume(first.state, owned(&[false]))),
        refusals::foreign()
    );
}

#[test]
fn without_key_or_grant_nothing_is_asked() {
    let path = || request("GET", "/api/conversations/c-1");
    let mut poor = caller();
    poor.credentials.clear();
    let refusal = refused(Fountain::route(path(), poor));
    assert!(
        refusal
            .message
            .contains("jackfield credential set fountain"),
        "{}",
        refusal.message
    );
    let mut narrow = caller();
    narrow.uses.owned_kinds.retain(|kind| kind != "agents");
    assert_eq!(
        refused(Fountain::route(path(), narrow)),
        refusals::not_granted()
    );
}

#[test]
fn a_state_comes_back_as_it_was() {
    let state = State {
        stage: Stage::Create,
        credential: "offer \"1\"\n".to_owned(),
        collection: Some(("vaults", "POST".to_owned())),
        headers: vec![("a".to_owned(), "b".to_owned())],
        status: 200,
        body: b"\n{\"x\":\n1}\n".to_vec(),
    };
    assert_eq!(State::from_bytes(&state.to_bytes()), Some(state));
    for lost in [&b""[..], b"{}", b"{}\n", b"\n", b"x\ny"] {
        assert_eq!(State::from_bytes(lost), None);
        assert_eq!(
            refused(Fountain::resume(lost.to_vec(), Answers::nothing())).status,
            500
        );
    }
}
