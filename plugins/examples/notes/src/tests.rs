use jackfield_sdk::contract::{Action, Expected};

use super::*;

fn request(method: &str, path: &str) -> Request {
    Request {
        method: method.to_owned(),
        prefix: "/notes".to_owned(),
        path: path.to_owned(),
        query: None,
        headers: Vec::new(),
        body: Some(b"a note".to_vec()),
        time: None,
        settings: None,
    }
}

/// What comes of a request for a note that holds this.
fn done(request: Request, held: Option<&str>) -> Plan {
    let need = match Notes::route(request, Caller::of("one")) {
        Step::Need(need) => need,
        Step::Plan(plan) => return plan,
    };
    assert_eq!(need.reads, ["x"]);
    let answers = Answers {
        reads: vec![held.map(|held| held.as_bytes().to_vec())],
        ..Answers::nothing()
    };
    match Notes::resume(need.state, answers) {
        Step::Plan(plan) => plan,
        Step::Need(_) => panic!("it asks again"),
    }
}

fn status(plan: &Plan) -> u16 {
    match &plan.action {
        Action::Answer(answer) => answer.status,
        Action::Refuse(refusal) => refusal.status,
        Action::Forward(_) => panic!("it is forwarded"),
    }
}

#[test]
fn each_request_has_its_word() {
    let check = |method: &str, path: &str, expected: Option<&str>| {
        let words = Notes::scopes(&request(method, path));
        assert_eq!(
            words,
            expected.map(|word| vec![word.to_owned()]),
            "{method} {path}"
        );
    };
    check("GET", "", Some("read"));
    check("GET", "/x", Some("read"));
    check("PUT", "/x.y_z-1", Some("write"));
    check("DELETE", "/x", Some("write"));
    check("GET", "/", None);
    check("PUT", "", None);
    check("DELETE", "", None);
    check("PUT", "/x/", None);
    check("PUT", "/x/y", None);
    check("PUT", "/%78", None);
    check("POST", "/x", None);
    check("PUT", &format!("/{}", "k".repeat(101)), None);
}

#[test]
fn a_note_is_written_read_and_deleted() {
    let put = done(request("PUT", "/x"), None);
    assert_eq!(status(&put), 201);
    assert_eq!(put.writes[0].key, "x");
    assert_eq!(put.writes[0].value.as_deref(), Some(&b"a note"[..]));
    assert_eq!(put.writes[0].expects, Expected::Nothing);
    let put = done(request("PUT", "/x"), Some("before"));
    assert_eq!(status(&put), 204);
    assert_eq!(put.writes[0].expects, Expected::Value(b"before".to_vec()));

    let read = done(request("GET", "/x"), Some("a\nnote"));
    let Action::Answer(answer) = &read.action else {
        panic!("it is answered");
    };
    assert_eq!(
        (answer.status, answer.body.as_slice()),
        (200, &b"a\nnote"[..])
    );
    assert!(read.writes.is_empty());
    let gone = done(request("DELETE", "/x"), Some("a note"));
    assert_eq!((status(&gone), gone.writes.len()), (204, 1));
    assert_eq!(gone.writes[0].value, None);
    for method in ["GET", "DELETE"] {
        let missing = done(request(method, "/x"), None);
        assert_eq!((status(&missing), missing.writes.len()), (404, 0));
    }
}

#[test]
fn a_condition_holds_or_nothing_is_changed() {
    let check = |name: &str, value: &str, held: Option<&str>, expected: u16| {
        let mut request = request("PUT", "/x");
        request.headers = vec![header(name, value)];
        let plan = done(request, held);
        assert_eq!(status(&plan), expected, "{name}: {value}");
        assert_eq!(plan.writes.len(), usize::from(expected < 300));
    };
    let tag = key::tag(b"before");
    check("if-none-match", "*", None, 201);
    check("if-none-match", "*", Some("before"), 412);
    check("if-match", &tag, Some("before"), 204);
    check("if-match", &tag, Some("after"), 412);
    check("if-match", &tag, None, 412);
    check("if-match", "*", Some("before"), 400);
    check("if-match", "put", Some("before"), 400);
    check("if-none-match", &tag, Some("before"), 400);
}

#[test]
fn what_is_no_text_is_no_note() {
    let mut bytes = request("PUT", "/x");
    bytes.body = Some(vec![0xff]);
    let plan = done(bytes, None);
    assert_eq!((status(&plan), plan.writes.len()), (400, 0));
}

#[test]
fn notes_are_listed_page_by_page() {
    let asked = |query: Option<&str>| {
        let mut request = request("GET", "");
        request.query = query.map(str::to_owned);
        match Notes::route(request, Caller::of("one")) {
            Step::Need(need) => need.lists[0].after.clone().ok_or(()),
            Step::Plan(plan) => Ok(status(&plan).to_string()),
        }
    };
    assert_eq!(asked(None), Err(()));
    assert_eq!(asked(Some("after=x")), Ok("x".to_owned()));
    assert_eq!(asked(Some("after=x&y")), Ok("400".to_owned()));
    assert_eq!(asked(Some("")), Ok("400".to_owned()));
    let listed = |names: Vec<String>| {
        let answers = Answers {
            lists: vec![names],
            ..Answers::nothing()
        };
        let Step::Plan(plan) = Notes::resume(Vec::new(), answers) else {
            panic!("it asks again");
        };
        let Action::Answer(answer) = plan.action else {
            panic!("it is answered");
        };
        String::from_utf8(answer.body).expect("a text")
    };
    assert_eq!(listed(vec![]), r#"{"notes":[],"more":false}"#);
    let names = vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(listed(names), r#"{"notes":["a","b"],"more":false}"#);
    assert!(listed(vec!["a".to_owned(); 1_000]).ends_with("\"more\":true}"));
}
