use jackfield_sdk::contract::{Action, HeaderPlacement};
use jackfield_sdk::contract::{HeaderEdit, PathChoice, QueryChoice};

use crate::pay::SETUP_TOKEN_BETA;

use super::*;

fn request(method: &str, prefix: &str, path: &str) -> Request {
    Request {
        method: method.to_owned(),
        prefix: prefix.to_owned(),
        path: path.to_owned(),
        query: None,
        headers: Vec::new(),
        body: None,
        time: None,
        settings: None,
    }
}

fn caller(kind: Option<&str>) -> Caller {
    Caller {
        box_name: Some("one".to_owned()),
        words: vec!["agent".to_owned()],
        credentials: kind
            .map(|kind| Offer {
                name: "offer-1".to_owned(),
                target: upstream(UPSTREAM),
                kind: kind.to_owned(),
                payer: None,
            })
            .into_iter()
            .collect(),
        ..Caller::of("one")
    }
}

fn action(step: Step) -> Action {
    match step {
        Step::Plan(plan) => plan.action,
        Step::Need(_) => panic!("a message needs nothing"),
    }
}

fn forwarded(kind: &str) -> Forward {
    let step = Inference::route(request("POST", PREFIX, "/v1/messages"), caller(Some(kind)));
    match action(step) {
        Action::Forward(forward) => forward,
        Action::Answer(_) | Action::Refuse(_) => panic!("{kind} is not forwarded"),
    }
}

#[test]
fn it_serves_the_routes_of_the_page_and_no_other() {
    let check = |method: &str, path: &str, expected: Option<&[&str]>| {
        let words = Inference::scopes(&request(method, PREFIX, path));
        let expected = expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(words, expected, "{method} {path}");
    };
    check("POST", "/v1/messages", Some(&["agent"]));
    check("POST", "/v1/messages/count_tokens", Some(&["agent"]));
    check("GET", "/v1/models", Some(&["agent"]));
    check("GET", "/v1/models/claude-x", Some(&["agent"]));
    check("GET", "/api/hello", Some(&[]));
    check("HEAD", "/api/hello", Some(&[]));
    check("POST", "/api/hello", None);
    check("GET", "/v1/messages", None);
    check("POST", "/v1/models", None);
    check("GET", "/v1/models/", None);
    check("GET", "/v1/models/a/b", None);
    check("POST", "/v1/messages/", None);
    check("POST", "/v1/messagesX", None);
    check("POST", "//v1/messages", None);
    check("POST", "/v1/messages/batches", None);
    check("POST", "/v1/complete", None);
    check("POST", "", None);
    check("POST", "/v1/systemone", None);
}

#[test]
fn questions_have_one_path_and_a_word_of_their_own() {
    let check = |method: &str, path: &str, expected: Option<&[&str]>| {
        let words = Inference::scopes(&request(method, DECIDE_PREFIX, path));
        let expected = expected.map(|words| words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(words, expected, "{method} {path}");
    };
    check("POST", "/v1/systemone", Some(&["decide"]));
    check("GET", "/v1/systemone", None);
    check("POST", "/v1/systemone/", None);
    check("POST", "/v1/systemoneX", None);
    check("POST", "/v1/messages", None);
    check("POST", "/api/hello", None);
    check("POST", "", None);
}

#[test]
fn hello_is_answered_by_the_plugin() {
    for method in ["GET", "HEAD"] {
        let hello = request(method, HELLO_PREFIX, "");
        assert_eq!(Inference::scopes(&hello), Some(Vec::new()));
        assert_eq!(
            action(Inference::route(hello, caller(None))),
            Action::Answer(Answer::status(200))
        );
    }
    assert_eq!(Inference::scopes(&request("GET", HELLO_PREFIX, "/x")), None);
}

#[test]
fn each_kind_of_credential_has_its_place() {
    let header = |name: &str| {
        Placement::Header(HeaderPlacement {
            name: name.to_owned(),
            template: "{}".to_owned(),
        })
    };
    let beta = HeaderEdit::AddToList(header_line("anthropic-beta", SETUP_TOKEN_BETA));
    let check = |kind: &str, placement: Placement, edits: Vec<HeaderEdit>| {
        let forward = forwarded(kind);
        assert_eq!(forward.placement, placement, "{kind}");
        assert_eq!(forward.request_headers, edits, "{kind}");
        assert_eq!(forward.credential.as_deref(), Some("offer-1"), "{kind}");
        assert_eq!(forward.to, upstream(UPSTREAM), "{kind}");
        assert_eq!(forward.path, PathChoice::Received(0), "{kind}");
        assert_eq!(forward.query, QueryChoice::Received, "{kind}");
    };
    check("api-key", header("x-api-key"), vec![]);
    check("setup-token", Placement::Bearer, vec![beta]);
    check("bearer", Placement::Bearer, vec![]);
}

#[test]
fn a_401_of_the_upstream_reaches_the_box_as_a_403() {
    let forward = forwarded("api-key");
    let [substitution] = forward.substitutions.as_slice() else {
        panic!("one status is replaced");
    };
    assert_eq!(substitution.status, 401);
    assert_eq!(substitution.refusal.status, 403);
    assert!(substitution.refusal.message.contains("anthropic"));
}

#[test]
fn what_it_cannot_pay_for_it_refuses() {
    let check = |kind: Option<&str>, expected: &str| {
        let step = Inference::route(request("POST", PREFIX, "/v1/messages"), caller(kind));
        match action(step) {
            Action::Refuse(refusal) => {
                assert_eq!(refusal.status, 403);
                assert!(refusal.message.contains(expected), "{}", refusal.message);
            }
            Action::Forward(_) | Action::Answer(_) => panic!("{kind:?} is not refused"),
        }
    };
    check(None, "jackfield credential set anthropic");
    check(Some("carrier-pigeon"), "kind carrier-pigeon");
}

fn header_line(name: &str, value: &str) -> jackfield_sdk::contract::Header {
    header(name, value)
}
