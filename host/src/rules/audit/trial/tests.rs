//! An honest step passes, and each dishonest one is named for what it is.

use std::sync::Arc;

use http::Method;

use super::*;
use crate::rules::audit::requests::bare;
use crate::rules::manifest_check::{SaidManifest, SaidRoute, SaidWord};
use crate::rules::plan::{
    SaidAction, SaidForward, SaidNeed, SaidPath, SaidPlacement, SaidPlan, SaidQuery, SaidTarget,
};

fn manifest() -> Manifest {
    let route = |prefix: &str, public| SaidRoute {
        prefix: prefix.to_owned(),
        public,
        token_headers: Some(Vec::new()),
        ..SaidRoute::default()
    };
    Manifest::check(SaidManifest {
        name: "p".to_owned(),
        version: "1.0.0".to_owned(),
        capability: "p".to_owned(),
        routes: vec![route("/p", false), route("/public", true)],
        words: vec![SaidWord {
            name: "tell".to_owned(),
            reaches: vec![SaidTarget::Upstream("one".to_owned())],
            ..SaidWord::default()
        }],
        ..SaidManifest::default()
    })
    .unwrap()
}

fn forward(to: &str) -> SaidStep {
    let forward = SaidForward {
        to: SaidTarget::Upstream(to.to_owned()),
        path: SaidPath::Received(0),
        query: SaidQuery::Received,
        credential: Some("upstream/one/audit".to_owned()),
        placement: SaidPlacement::Bearer,
        request_headers: Vec::new(),
        response_headers: Vec::new(),
        substitutions: Vec::new(),
    };
    plan(SaidAction::Forward(Box::new(forward)))
}

fn answer(status: u16) -> SaidStep {
    plan(SaidAction::Answer {
        status,
        headers: Vec::new(),
        body: Vec::new(),
    })
}

fn plan(action: SaidAction) -> SaidStep {
    SaidStep::Plan(Box::new(SaidPlan {
        action,
        writes: Vec::new(),
        journal: Vec::new(),
        owns: Vec::new(),
        log: Vec::new(),
    }))
}

fn need(reads: &[&str]) -> SaidStep {
    SaidStep::Need(SaidNeed {
        calls: Vec::new(),
        reads: reads.iter().map(|key| (*key).to_owned()).collect(),
        lists: Vec::new(),
        owned: Vec::new(),
        deadline_ms: 0,
        state: b"state".to_vec(),
    })
}

#[test]
fn each_step_is_judged_as_the_host_judges_it() {
    let manifest = manifest();
    let grants = Grants::new(Arc::new(manifest.clone()), None);
    let check = |path: &str, luck, words: &[&str], step: SaidStep, expected: Option<Check>| {
        let case = Case {
            luck,
            ..bare(Method::GET, path)
        };
        let trial = Trial::of(&manifest, &case).unwrap();
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let judged = trial
            .stand(&grants, &words)
            .and_then(|stand| stand.judge(step.clone()));
        let found = judged.err().map(|(check, _)| check);
        assert_eq!(found, expected, "{path} {words:?} {step:?}");
    };
    let good = Luck::Good(0);
    check("/p", good, &["tell"], forward("one"), None);
    check("/p", good, &[], answer(200), None);
    check("/p", good, &["tell"], need(&[]), None);
    check("/public", good, &[], answer(200), None);
    check(
        "/p",
        good,
        &["shout"],
        answer(200),
        Some(Check::UndeclaredWord),
    );
    check(
        "/p",
        good,
        &["a\nb"],
        answer(200),
        Some(Check::UndeclaredWord),
    );
    check(
        "/p",
        good,
        &["tell"],
        forward("two"),
        Some(Check::BeyondWords),
    );
    check("/p", good, &[], forward("one"), Some(Check::BeyondWords));
    check(
        "/p",
        Luck::Bad,
        &["tell"],
        forward("one"),
        Some(Check::BeyondWords),
    );
    check(
        "/p",
        good,
        &["tell"],
        need(&["key"]),
        Some(Check::BeyondWords),
    );
    check("/p", good, &["tell"], answer(99), Some(Check::IllFormed));
    check(
        "/public",
        good,
        &["tell"],
        answer(200),
        Some(Check::PublicNeedsBox),
    );
    check("/public", good, &[], need(&[]), Some(Check::PublicNeedsBox));
    let many = vec!["tell"; 1_000];
    check("/p", good, &many, answer(200), Some(Check::TooLarge));
}

#[test]
fn a_plugin_is_shown_what_its_route_asks_for_alone() {
    let manifest = manifest();
    let mut case = bare(Method::GET, "/p/a");
    case.query = Some("q".to_owned());
    case.headers = vec![("x-a".to_owned(), b"v".to_vec())];
    case.body = Bytes::from_static(b"body");
    let trial = Trial::of(&manifest, &case).unwrap();
    let shown = trial.shown("{}");
    assert_eq!((shown.prefix.as_str(), shown.path.as_str()), ("/p", "/a"));
    assert_eq!((shown.query, shown.body, shown.time), (None, None, None));
    assert!(shown.headers.is_empty() && shown.settings.is_none());
}

#[test]
fn no_request_of_no_route_is_tried() {
    let manifest = manifest();
    let case = bare(Method::GET, "/px");
    assert!(Trial::of(&manifest, &case).is_none());
    assert_eq!(shown_unclaimed(&manifest, &case).prefix, "/px");
}
