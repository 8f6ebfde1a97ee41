//! Two decisions, part by part: what differs, and what is told of it.

use super::*;
use crate::rules::plan::{Expected, SaidCall, SaidRefusal, SaidThing, Write};

/// A text that must stand in nothing that is told.
const HIDDEN: &str = "hidden-value";

fn forward() -> SaidForward {
    SaidForward {
        to: SaidTarget::Upstream("a".to_owned()),
        path: SaidPath::Received(0),
        query: SaidQuery::Received,
        credential: Some("key".to_owned()),
        placement: SaidPlacement::Bearer,
        request_headers: Vec::new(),
        response_headers: Vec::new(),
        substitutions: Vec::new(),
    }
}

fn plan(action: SaidAction) -> SaidPlan {
    SaidPlan {
        action,
        writes: Vec::new(),
        journal: Vec::new(),
        owns: Vec::new(),
        log: Vec::new(),
    }
}

fn forwarding(change: impl FnOnce(&mut SaidForward)) -> SaidPlan {
    let mut said = forward();
    change(&mut said);
    plan(SaidAction::Forward(Box::new(said)))
}

fn answer(status: u16, headers: &[&str], body: &str) -> SaidPlan {
    let headers = headers.iter();
    plan(SaidAction::Answer {
        status,
        headers: headers
            .map(|name| ((*name).to_owned(), HIDDEN.as_bytes().to_vec()))
            .collect(),
        body: body.as_bytes().to_vec(),
    })
}

fn refusal(status: u16, kind: &str) -> SaidRefusal {
    SaidRefusal {
        status,
        kind: kind.to_owned(),
        message: HIDDEN.to_owned(),
    }
}

fn decided(plan: SaidPlan) -> Decided {
    Decided {
        words: Some(vec!["w".to_owned(), "v".to_owned()]),
        end: End::Plan(Box::new(plan)),
    }
}

fn need(path: &str, state: &[u8]) -> SaidNeed {
    SaidNeed {
        calls: vec![SaidCall {
            to: SaidTarget::Upstream("a".to_owned()),
            method: "GET".to_owned(),
            path: SaidPath::Literal(path.to_owned()),
            query: SaidQuery::None,
            headers: Vec::new(),
            body: HIDDEN.as_bytes().to_vec(),
            credential: None,
            placement: SaidPlacement::Bearer,
        }],
        reads: Vec::new(),
        lists: Vec::new(),
        owned: Vec::new(),
        deadline_ms: 0,
        state: state.to_vec(),
    }
}

/// What two decisions differ in: each way round the same, of one with itself
/// nothing, and no value stands in it.
fn check(live: &Decided, other: &Decided, expected: &[(Kind, &str, &str)]) {
    let found = differences(live, other);
    let told: Vec<_> = found
        .iter()
        .map(|found| (found.kind, found.live.as_str(), found.other.as_str()))
        .collect();
    assert_eq!(told, expected);
    assert!(!format!("{found:?}").contains(HIDDEN), "{found:?}");
    let kinds = |found: Vec<Difference>| -> Vec<Kind> {
        found.into_iter().map(|found| found.kind).collect()
    };
    assert_eq!(kinds(differences(other, live)), kinds(found));
    for same in [live, other] {
        assert_eq!(differences(same, same), []);
    }
}

#[test]
fn each_part_of_a_plan_is_held_against_the_other() {
    let header = |name: &str, template: &str| SaidPlacement::Header {
        name: name.to_owned(),
        template: template.to_owned(),
    };
    let set = |value: &str| SaidEdit::Set("x-a".to_owned(), value.as_bytes().to_vec());
    let one = |change: fn(&mut SaidForward), expected: (Kind, &str, &str)| {
        check(
            &decided(forwarding(|_| {})),
            &decided(forwarding(change)),
            &[expected],
        );
    };
    one(
        |said| said.to = SaidTarget::Secret("S".to_owned()),
        (Kind::Target, "the upstream a", "the host of the secret S"),
    );
    one(
        |said| said.path = SaidPath::Literal("/x".to_owned()),
        (Kind::Path, "as it came", "/x"),
    );
    one(
        |said| said.query = SaidQuery::None,
        (Kind::Query, "as it came", "none"),
    );
    one(
        |said| said.credential = None,
        (Kind::Credential, "key", "none"),
    );
    one(
        |said| said.placement = SaidPlacement::Query("k".to_owned()),
        (Kind::Placement, "as a bearer", "in the query as k"),
    );
    one(
        |said| said.response_headers = vec![SaidEdit::Remove("x-b".to_owned())],
        (Kind::ResponseHeaders, "none", "remove x-b"),
    );
    one(
        |said| said.substitutions = vec![(401, refusal(502, "x"))],
        (Kind::Substitutions, "none", "401 by 502"),
    );
    // Of what a name stands for only its name is told.
    check(
        &decided(forwarding(|said| {
            said.placement = header("x-key", HIDDEN);
            said.request_headers = vec![set(HIDDEN)];
        })),
        &decided(forwarding(|said| {
            said.placement = header("x-key", "{}");
            said.request_headers = vec![set("other")];
        })),
        &[
            (
                Kind::Placement,
                "in the header x-key",
                "in the header x-key, of another value",
            ),
            (Kind::RequestHeaders, "set x-a", "set x-a, of another value"),
        ],
    );
    check(
        &decided(answer(200, &["x-a"], HIDDEN)),
        &decided(answer(201, &["x-a", "x-b"], "four")),
        &[
            (Kind::Status, "200", "201"),
            (Kind::ResponseHeaders, "x-a", "x-a, x-b"),
            (Kind::Body, "12 bytes", "4 bytes"),
        ],
    );
    let refuses = |status, kind| decided(plan(SaidAction::Refuse(refusal(status, kind))));
    check(
        &refuses(403, "a"),
        &refuses(404, "a"),
        &[(Kind::Status, "403 a", "404 a")],
    );
    check(
        &refuses(403, "a"),
        &decided(answer(200, &[], "")),
        &[(Kind::Action, "refuses 403", "answers 200")],
    );
}

#[test]
fn effects_are_told_by_key_and_count() {
    let write = |key: &str, value: &str| Write {
        key: key.to_owned(),
        value: Some(value.as_bytes().to_vec()),
        expects: Expected::Anything,
    };
    let with = |writes: Vec<Write>, journal: &[&str], owns: &[&str]| {
        let mut plan = answer(200, &[], "");
        plan.writes = writes;
        plan.journal = journal
            .iter()
            .map(|text| text.as_bytes().to_vec())
            .collect();
        plan.owns = owns
            .iter()
            .map(|id| SaidThing {
                kind: "agent".to_owned(),
                id: (*id).to_owned(),
            })
            .collect();
        decided(plan)
    };
    check(
        &with(vec![write("a", HIDDEN)], &[HIDDEN], &[HIDDEN]),
        &with(vec![write("a", "x"), write("b", "x")], &["x"], &[]),
        &[
            (Kind::Writes, "a", "a, b"),
            (Kind::Journal, "1 records", "1 records, of another value"),
            (Kind::Owns, "agent", "none"),
        ],
    );
}

#[test]
fn what_differs_first_is_what_is_told() {
    let named = |words: Option<&[&str]>, end: End| Decided {
        words: words.map(|words| words.iter().map(|word| (*word).to_owned()).collect()),
        end,
    };
    let plan = || End::Plan(Box::new(answer(200, &[], "")));
    let failed = |how| named(None, End::Failed(Failing(how)));
    check(
        &named(Some(&["a", "b"]), plan()),
        &named(Some(&["b", "a"]), plan()),
        &[],
    );
    check(
        &named(Some(&["a"]), plan()),
        &named(Some(&[]), End::Named),
        &[(Kind::Words, "a", "none")],
    );
    // Where the rule refused it nobody was asked further.
    check(
        &named(Some(&["a"]), plan()),
        &named(Some(&["a"]), End::Named),
        &[],
    );
    check(
        &named(Some(&[]), plan()),
        &named(None, End::NotServed),
        &[(Kind::Served, "answers 200", "does not serve it")],
    );
    check(
        &named(Some(&[]), plan()),
        &failed("trapped"),
        &[(Kind::Failure, "answers 200", "fails: trapped")],
    );
    check(&failed("trapped"), &failed("trapped"), &[]);
    check(
        &failed("trapped"),
        &failed("timed_out"),
        &[(Kind::Failure, "fails: trapped", "fails: timed_out")],
    );
    let needs = |path, state: &[u8]| named(Some(&[]), End::Need(need(path, state)));
    check(&needs("/a", b"1"), &needs("/a", b"2"), &[]);
    check(
        &needs("/a", b""),
        &needs("/b", b""),
        &[(
            Kind::Need,
            "needs 1 calls, 0 reads, 0 listings, 0 things",
            "needs 1 calls, 0 reads, 0 listings, 0 things, of another value",
        )],
    );
    check(
        &needs("/a", b""),
        &named(Some(&[]), plan()),
        &[(
            Kind::Need,
            "needs 1 calls, 0 reads, 0 listings, 0 things",
            "answers 200",
        )],
    );
    assert!(is_same_need(&need("/a", b"1"), &need("/a", b"2")));
    assert!(!is_same_need(&need("/a", b""), &need("/b", b"")));
}

#[test]
fn a_tally_counts_all_and_keeps_few() {
    let mut tally = Tally::default();
    let differ = |kind| Difference::new(kind, "a\u{1b}", "b");
    let example = |differences| Example {
        box_name: None,
        method: "GET".to_owned(),
        path: "/x\n".to_owned(),
        differences,
    };
    tally.note(Vec::new(), example);
    for _ in 0..100 {
        tally.note(vec![differ(Kind::Path), differ(Kind::Query)], example);
    }
    tally.note(vec![differ(Kind::Query), differ(Kind::Body)], example);
    assert_eq!((tally.compared, tally.differing), (102, 101));
    let kinds: Vec<_> = tally.kinds.into_iter().collect();
    assert_eq!(
        kinds,
        [(Kind::Path, 100), (Kind::Query, 101), (Kind::Body, 1)]
    );
    assert_eq!(tally.examples.len(), 4);
    assert_eq!(tally.examples[0].path, "/x\\u{a}");
    assert_eq!(tally.examples[0].differences[0].live, "a\\u{1b}");
}
