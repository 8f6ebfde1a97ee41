use super::*;

fn known(lie: &str) -> bool {
    let request = Request {
        method: "POST".to_owned(),
        prefix: "/liar".to_owned(),
        path: format!("/{lie}"),
        query: None,
        headers: Vec::new(),
        body: None,
        time: None,
        settings: None,
    };
    match Liar::route(request, Caller::of("one")) {
        Step::Plan(plan) => {
            plan.action != refuse::not_found(format!("liar knows no lie {lie:?}.")).into()
        }
        Step::Need(_) => true,
    }
}

#[test]
fn every_place_can_be_lied_in() {
    for place in PLACES {
        for what in WHATS {
            assert!(known(&format!("{what}-in-{place}")), "{what} {place}");
        }
    }
    assert!(!known("cr-in-nothing"));
}

#[test]
fn the_lies_of_the_list_are_told() {
    for lie in [
        "ok",
        "hello",
        "counts",
        "call",
        "call-other-box-secret",
        "call-guessed-credential",
        "other-box-secret",
        "foreign-literal",
        "edit-set-host",
        "answer-edit-add-connection",
        "call-header-host",
        "answer-header-transfer-encoding",
        "place-in-host",
        "template-twice",
        "refuse-200",
        "status-1000",
        "journal",
        "own",
        "ask-owned",
        "many-lists",
        "endless",
        "many-calls",
        "trap-in-resume",
    ] {
        assert!(known(lie), "{lie}");
    }
}
