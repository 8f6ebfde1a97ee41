use jackfield_sdk::contract::{
    Action, CallAnswer, CallFailure, Header, PathChoice, QueryChoice, Target,
};

use super::*;

const ENTRIES: &str = r#"{"entries":[{"note":1.50}]}"#;

fn request(body: &str, settings: Option<&str>) -> Request {
    Request {
        method: "POST".to_owned(),
        prefix: PATH.to_owned(),
        path: String::new(),
        query: None,
        headers: Vec::new(),
        body: Some(body.as_bytes().to_vec()),
        time: None,
        settings: settings.map(str::to_owned),
    }
}

fn receiver() -> Target {
    upstream("feedback")
}

fn journal() -> Caller {
    let mut caller = Caller::of("box-a");
    caller.uses.journal = true;
    caller
}

fn plan(step: Step) -> Plan {
    match step {
        Step::Plan(plan) => plan,
        Step::Need(_) => panic!("it asks"),
    }
}

fn need(step: Step) -> Need {
    match step {
        Step::Need(need) => need,
        Step::Plan(plan) => panic!("it asks nothing: {:?}", plan.action),
    }
}

fn refused(step: Step, status: u16, words: &[&str]) -> Plan {
    let plan = plan(step);
    let Action::Refuse(refusal) = &plan.action else {
        panic!("it is not refused: {:?}", plan.action);
    };
    assert_eq!(refusal.status, status, "{}", refusal.message);
    for word in words {
        assert!(
            refusal.message.contains(word),
            "no {word:?}: {}",
            refusal.message
        );
    }
    assert!(plan.journal.is_empty(), "what is refused is not kept");
    plan
}

#[test]
fn the_words_are_what_the_batch_holds() {
    let check = |body: &str, expected: &[&str]| {
        let words = Feedback::scopes(&request(body, None));
        let expected = expected.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(words, Some(expected), "{body}");
    };
    check(ENTRIES, &["agent"]);
    check(r#"{"counts":{"refusals":1}}"#, &["passive"]);
    check(
        r#"{"entries":[1],"counts":{"x":1},"more":true}"#,
        &["agent", "passive"],
    );
    check(r#"{"entries":[],"counts":{"x":1}}"#, &["passive"]);
    check(r#"{"entries":[null],"counts":{}}"#, &["agent"]);
}

#[test]
fn what_is_no_batch_needs_no_word_and_is_a_400() {
    let check = |body: &str, word: &str| {
        assert_eq!(
            Feedback::scopes(&request(body, None)),
            Some(Vec::new()),
            "{body}"
        );
        refused(
            Feedback::route(request(body, None), journal()),
            400,
            &[word],
        );
    };
    check("", "JSON");
    check("{", "JSON");
    check("[]", "object");
    check("null", "object");
    check("{}", "neither");
    check(r#"{"entries":[],"counts":{}}"#, "neither");
    check(r#"{"other":1}"#, "neither");
    check(r#"{"entries":{}}"#, "entries");
    check(r#"{"entries":null}"#, "entries");
    check(r#"{"entries":[1],"counts":[]}"#, "counts");
    check(r#"{"entries":[1],"counts":3}"#, "counts");
    check(r#"{"entries":[1],"entries":[]}"#, "twice");
}

#[test]
fn it_has_one_path() {
    let check = |method: &str, path: &str| {
        let mut request = request(ENTRIES, None);
        request.method = method.to_owned();
        request.path = path.to_owned();
        assert_eq!(Feedback::scopes(&request), None, "{method} {path}");
    };
    check("GET", "");
    check("PUT", "");
    check("POST", "/");
    check("POST", "/x");
}

#[test]
fn without_a_receiver_the_batch_is_kept_as_it_came() {
    let plan = plan(Feedback::route(request(ENTRIES, Some("{}")), journal()));
    assert_eq!(plan.journal, [ENTRIES.as_bytes()]);
    assert!(matches!(plan.action, Action::Answer(answer) if answer.status == 202));
    assert!(plan.writes.is_empty());
}

#[test]
fn without_a_receiver_and_a_journal_it_is_a_501() {
    let step = Feedback::route(request(ENTRIES, None), Caller::of("box-a"));
    refused(step, 501, &["keeps no feedback", "send it later"]);
}

#[test]
fn a_receiver_gets_the_batch_and_the_journal_does_not() {
    let mut caller = journal();
    caller.targets = vec![receiver()];
    let sent = need(Feedback::route(request(ENTRIES, None), caller.clone()));
    let [call] = sent.calls.as_slice() else {
        panic!("one call");
    };
    assert_eq!((call.method.as_str(), &call.to), ("POST", &receiver()));
    assert_eq!(call.path, PathChoice::Literal("/api/feedback".to_owned()));
    assert_eq!(call.query, QueryChoice::None);
    assert_eq!(call.body, ENTRIES.as_bytes());
    assert_eq!(call.credential, None);

    let offer = |kind: &str| Offer {
        name: "offer-1".to_owned(),
        target: receiver(),
        kind: kind.to_owned(),
        payer: None,
    };
    caller.credentials = vec![offer("bearer")];
    let sent = need(Feedback::route(request(ENTRIES, None), caller.clone()));
    assert_eq!(sent.calls[0].credential.as_deref(), Some("offer-1"));
    assert_eq!(sent.calls[0].placement, Placement::Bearer);
    caller.credentials = vec![offer("setup-token")];
    let step = Feedback::route(request(ENTRIES, None), caller);
    refused(
        step,
        503,
        &["setup-token", "--kind bearer", "send it later"],
    );
}

#[test]
fn what_the_receiver_says_is_what_the_box_is_told() {
    let said = |status: u16| {
        let answers = Answers {
            calls: vec![Ok(CallAnswer {
                status,
                headers: vec![
                    header("Content-Type", "text/plain"),
                    header("retry-after", "3"),
                    header("x-other", "1"),
                ],
                body: b"theirs".to_vec(),
            })],
            ..Answers::nothing()
        };
        Feedback::resume(Vec::new(), answers)
    };
    for status in [200, 202, 204] {
        assert_eq!(plan(said(status)).action, Action::Answer(taken()));
    }
    for status in [400, 404, 409, 413, 422, 429] {
        let Action::Answer(answer) = plan(said(status)).action else {
            panic!("{status} is handed on");
        };
        assert_eq!(answer.status, status);
        assert_eq!(answer.body, b"theirs");
        let names: Vec<String> = answer
            .headers
            .into_iter()
            .map(|Header { name, .. }| name)
            .collect();
        assert_eq!(names, ["Content-Type", "retry-after"]);
    }
    for status in [302, 401, 403, 407, 500, 502, 503] {
        refused(said(status), 502, &[&status.to_string(), "send it later"]);
    }
    for failure in [
        CallFailure::Broken,
        CallFailure::TooLarge,
        CallFailure::Timeout,
        CallFailure::Unreachable,
    ] {
        let answers = Answers {
            calls: vec![Err(failure)],
            ..Answers::nothing()
        };
        refused(
            Feedback::resume(Vec::new(), answers),
            502,
            &["send it later"],
        );
    }
    let step = Feedback::resume(Vec::new(), Answers::nothing());
    refused(step, 502, &["send it later"]);
}

#[test]
fn consent_stands_before_all_keeping() {
    let kept = |settings: &str| {
        let step = Feedback::route(request(ENTRIES, Some(settings)), journal());
        !plan(step).journal.is_empty()
    };
    assert!(kept(r#"{"consent":"all"}"#));
    assert!(kept(r#"{"consent":["box-b","box-a"]}"#));
    for settings in [
        r#"{"consent":"none"}"#,
        r#"{"consent":[]}"#,
        r#"{"consent":["box-b","box","BOX-A"]}"#,
    ] {
        let mut caller = journal();
        for _ in 0..2 {
            let step = Feedback::route(request(ENTRIES, Some(settings)), caller.clone());
            refused(step, 403, &["consent", "box-a"]);
            caller.targets = vec![receiver()];
        }
    }
}

#[test]
fn settings_that_nobody_understands_keep_nothing() {
    for settings in [
        r#"{"consnt":"none"}"#,
        r#"{"consent":"nobody"}"#,
        r#"{"consent":true}"#,
        r#"{"consent":["box-a",1]}"#,
        "[]",
        "",
    ] {
        let step = Feedback::route(request(ENTRIES, Some(settings)), journal());
        let plan = refused(step, 503, &["settings", "consent", "send it later"]);
        assert_eq!(plan.log.len(), 1, "the operator is told");
    }
}
