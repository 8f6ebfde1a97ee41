use jackfield_sdk::contract::{Action, PathChoice, QueryChoice};

use super::*;

fn request(path: &str) -> Request {
    Request {
        method: "POST".to_owned(),
        prefix: "/egress".to_owned(),
        path: path.to_owned(),
        query: None,
        headers: Vec::new(),
        body: None,
        time: None,
        settings: None,
    }
}

fn caller(secrets: &[&str]) -> Caller {
    Caller {
        credentials: secrets
            .iter()
            .map(|name| Offer {
                name: format!("offer-{name}"),
                target: secret(name),
                kind: "secret".to_owned(),
                payer: None,
            })
            .collect(),
        ..Caller::of("one")
    }
}

fn action(path: &str, secrets: &[&str]) -> Action {
    match Egress::route(request(path), caller(secrets)) {
        Step::Plan(plan) => plan.action,
        Step::Need(_) => panic!("egress needs nothing"),
    }
}

#[test]
fn the_word_is_the_name_in_the_path() {
    let check = |path: &str, expected: Option<&str>| {
        let words = Egress::scopes(&request(path));
        assert_eq!(words, expected.map(|word| vec![word.to_owned()]), "{path}");
    };
    check("/OPENAI/v1/chat/completions", Some("OPENAI"));
    check("/OPENAI/", Some("OPENAI"));
    check("/OPENAI", Some("OPENAI"));
    check("/A_1/x", Some("A_1"));
    check("/openai/v1", None);
    check("/_A/v1", None);
    check("/OPEN%41I/v1", None);
    check("//OPENAI/v1", None);
    check("/", None);
    check("", None);
    check(&format!("/{}/v1", "A".repeat(41)), None);
}

#[test]
fn the_value_goes_where_the_token_stood_and_to_its_own_host() {
    let Action::Forward(forward) = action("/OPENAI/v1/models", &["GITHUB", "OPENAI"]) else {
        panic!("it is forwarded");
    };
    assert_eq!(forward.to, secret("OPENAI"));
    assert_eq!(forward.credential.as_deref(), Some("offer-OPENAI"));
    assert_eq!(forward.placement, Placement::StandIn);
    assert_eq!(forward.path, PathChoice::Received(1));
    assert_eq!(forward.query, QueryChoice::Received);
    assert_eq!(forward.request_headers, []);
}

#[test]
fn a_secret_without_a_value_is_refused_by_name() {
    let Action::Refuse(refusal) = action("/OPENAI/v1/models", &["GITHUB"]) else {
        panic!("it is refused");
    };
    assert_eq!(refusal.status, 403);
    for expected in ["egress", "OPENAI", "jackfield secret set OPENAI --box one"] {
        assert!(refusal.message.contains(expected), "{}", refusal.message);
    }
}
