//! One honest plan, and every way to bend it.

use std::sync::Arc;

use super::*;
use crate::rules::manifest::{Inputs, Reach, Route, TokenPlace, WantedLimits, Word};
use crate::rules::names::{
    BoxName, CapabilityName, CredentialName, PluginName, ThingKind, UpstreamName,
};
use crate::rules::permission::Grants;
use crate::rules::plan::{
    CredentialKey, CredentialKind, Expected, SaidCall, SaidEdit, SaidForward, SaidPath,
    SaidPlacement, SaidQuery, SaidStep, SaidTarget, SaidThing,
};

mod sizes;

fn manifest() -> Manifest {
    let word = |name, reaches| Word {
        name,
        description: "d".to_owned(),
        reaches,
    };
    let upstream = |name: &str| Reach::Upstream(UpstreamName::parse(name).unwrap());
    Manifest {
        name: PluginName::parse("p").unwrap(),
        version: "0.1.0".to_owned(),
        capability: CapabilityName::parse("cap").unwrap(),
        summary: "s".to_owned(),
        routes: vec![Route {
            methods: vec![],
            prefix: "/p".to_owned(),
            public: false,
            token: TokenPlace::Headers(vec![]),
            inputs: Inputs {
                query: false,
                headers: vec![],
                body: 0,
                time: false,
                settings: false,
            },
            payer_of: None,
        }],
        words: vec![
            word(
                WordName::Literal(ScopeWord::parse("tell").unwrap()),
                vec![upstream("one")],
            ),
            word(
                WordName::Literal(ScopeWord::parse("ask").unwrap()),
                vec![upstream("two")],
            ),
            word(WordName::AnySecret, vec![Reach::SecretOfThatName]),
        ],
        paths: vec!["/literal".to_owned()],
        uses: Uses::default(),
        limits: WantedLimits::default(),
    }
}

fn offer(name: &str, target: Target) -> Offer {
    let key = match &target {
        Target::Upstream(upstream) => CredentialKey::Credential {
            upstream: upstream.clone(),
            name: CredentialName::parse("default").unwrap(),
        },
        Target::Secret(secret) => CredentialKey::Secret {
            box_name: BoxName::parse("b").unwrap(),
            name: secret.clone(),
        },
    };
    Offer {
        name: name.to_owned(),
        target,
        kind: CredentialKind::ApiKey,
        payer: None,
        key,
    }
}

fn upstream(name: &str) -> Target {
    Target::Upstream(UpstreamName::parse(name).unwrap())
}

fn forward() -> SaidForward {
    SaidForward {
        to: SaidTarget::Upstream("one".to_owned()),
        path: SaidPath::Received(0),
        query: SaidQuery::Received,
        credential: Some("one-key".to_owned()),
        placement: SaidPlacement::Bearer,
        request_headers: vec![],
        response_headers: vec![],
        substitutions: vec![],
    }
}

fn plan(action: SaidAction) -> SaidPlan {
    SaidPlan {
        action,
        writes: vec![],
        journal: vec![],
        owns: vec![],
        log: vec![],
    }
}

fn write(key: &str, value: Option<Vec<u8>>) -> Write {
    Write {
        key: key.to_owned(),
        value,
        expects: Expected::Anything,
    }
}

fn held(words: &[&str], plan: SaidPlan) -> Result<CheckedPlan, PlanFault> {
    held_with(&Uses::default(), words, plan)
}

fn held_with(uses: &Uses, words: &[&str], plan: SaidPlan) -> Result<CheckedPlan, PlanFault> {
    let manifest = manifest();
    let words: Vec<ScopeWord> = words
        .iter()
        .map(|word| ScopeWord::parse(word).unwrap())
        .collect();
    let granted = Grants::new(Arc::new(manifest.clone()), None);
    let reachable: Vec<Target> = words
        .iter()
        .flat_map(|word| granted.reached(word))
        .collect();
    let offers = [
        offer("one-key", upstream("one")),
        offer("two-key", upstream("two")),
    ];
    let credential_headers = [HeaderName::from_static("x-key")];
    let bounds = Bounds {
        manifest: &manifest,
        words: &words,
        reachable: &reachable,
        offers: &offers,
        credential_headers: &credential_headers,
        uses,
        method: &Method::POST,
        tail: "/a/b",
        query: Some("q=%20"),
        max_calls: 2,
    };
    check_plan(plan, &bounds)
}

/// Bends the honest forward and expects the fault to say `expected`.
fn lie(bend: impl FnOnce(&mut SaidForward), expected: &str) {
    let mut said = forward();
    bend(&mut said);
    let fault = held(&["tell"], plan(SaidAction::Forward(Box::new(said))))
        .unwrap_err()
        .to_string();
    assert!(
        fault.contains(expected),
        "{fault:?} does not say {expected:?}"
    );
}

#[test]
fn an_honest_forward_passes() {
    let checked = held(&["tell"], plan(SaidAction::Forward(Box::new(forward())))).unwrap();
    let CheckedAction::Forward(forward) = checked.action else {
        panic!("no forward")
    };
    let outbound = forward.into_inner().outbound;
    assert_eq!(
        (outbound.path.as_str(), outbound.query.as_deref()),
        ("/a/b", Some("q=%20"))
    );
    assert_eq!(outbound.target, upstream("one"));
}

#[test]
fn what_reaches_beyond_the_words_is_refused() {
    lie(
        |said| said.to = SaidTarget::Upstream("two".to_owned()),
        "none of the permitted words reaches",
    );
    lie(
        |said| said.to = SaidTarget::Upstream("never".to_owned()),
        "none of the permitted words reaches",
    );
    lie(
        |said| said.to = SaidTarget::Upstream("http://evil/".to_owned()),
        "none of the permitted words reaches",
    );
    lie(
        |said| said.to = SaidTarget::Secret("OTHER".to_owned()),
        "none of the permitted words reaches",
    );
    lie(
        |said| said.credential = Some("two-key".to_owned()),
        "is for another target",
    );
    lie(
        |said| said.credential = Some("three".to_owned()),
        "was not on offer",
    );
    let without_word = held(&[], plan(SaidAction::Forward(Box::new(forward())))).unwrap_err();
    assert!(
        without_word.to_string().contains("asked no scope word"),
        "{without_word}"
    );
    assert!(held(&["ask"], plan(SaidAction::Forward(Box::new(forward())))).is_err());
}

#[test]
fn a_path_is_what_was_received_or_a_literal() {
    lie(
        |said| said.path = SaidPath::Literal("/foreign".to_owned()),
        "not in its manifest",
    );
    lie(
        |said| said.path = SaidPath::Literal("/literal/..".to_owned()),
        "not in its manifest",
    );
    lie(
        |said| said.path = SaidPath::Literal("/literal\r\nx: y".to_owned()),
        "not in its manifest",
    );
    lie(
        |said| said.path = SaidPath::Received(3),
        "fewer than 3 segments",
    );
}

#[test]
fn headers_of_the_host_and_control_characters_are_refused() {
    for name in [
        "Host",
        "content-length",
        "Transfer-Encoding",
        "connection",
        "authorization",
        "X-Key",
        "chant-payer",
        "chant-grant",
    ] {
        lie(
            |said| {
                said.request_headers
                    .push(SaidEdit::Set(name.to_owned(), b"x".to_vec()))
            },
            "is the host's own",
        );
        lie(
            |said| {
                said.response_headers
                    .push(SaidEdit::Remove(name.to_owned()))
            },
            "is the host's own",
        );
        lie(
            |said| {
                said.request_headers
                    .push(SaidEdit::AddToList(name.to_owned(), b"x".to_vec()))
            },
            "is the host's own",
        );
    }
    for bad in ["a\rb", "a\nb", "a\0b"] {
        lie(
            |said| {
                said.request_headers
                    .push(SaidEdit::Set("x-a".to_owned(), bad.as_bytes().to_vec()))
            },
            "control character",
        );
        lie(
            |said| {
                said.request_headers
                    .push(SaidEdit::Set(bad.to_owned(), b"x".to_vec()))
            },
            "not a header's name",
        );
        lie(
            |said| {
                said.response_headers.push(SaidEdit::AddToList(
                    "x-a".to_owned(),
                    bad.as_bytes().to_vec(),
                ))
            },
            "control character",
        );
        lie(
            |said| said.placement = SaidPlacement::Query(bad.to_owned()),
            "control character",
        );
        lie(
            |said| {
                said.placement = SaidPlacement::Header {
                    name: bad.to_owned(),
                    template: "{}".to_owned(),
                }
            },
            "not a header's name",
        );
        lie(
            |said| {
                said.placement = SaidPlacement::Header {
                    name: "x".to_owned(),
                    template: format!("{{}}{bad}"),
                }
            },
            "not printable ASCII",
        );
        let refusal = |kind: &str, message: &str| SaidRefusal {
            status: 403,
            kind: kind.to_owned(),
            message: message.to_owned(),
        };
        lie(
            |said| said.substitutions.push((401, refusal(bad, "m"))),
            "control character",
        );
        lie(
            |said| said.substitutions.push((401, refusal("t", bad))),
            "control character",
        );
        assert!(held(&["tell"], plan(SaidAction::Refuse(refusal("t", bad)))).is_err());
        let mut logged = plan(SaidAction::Refuse(refusal("t", "m")));
        logged.log.push(LogLine {
            level: crate::rules::plan::LogLevel::Warn,
            message: bad.to_owned(),
        });
        assert!(held(&["tell"], logged).is_err());
    }
    lie(
        |said| {
            said.placement = SaidPlacement::Header {
                name: "x".to_owned(),
                template: "none".to_owned(),
            }
        },
        "must hold {} once",
    );
    lie(
        |said| {
            said.placement = SaidPlacement::Header {
                name: "x".to_owned(),
                template: "{}{}".to_owned(),
            }
        },
        "must hold {} once",
    );
    lie(
        |said| {
            said.placement = SaidPlacement::Header {
                name: "host".to_owned(),
                template: "{}".to_owned(),
            }
        },
        "cannot carry a credential",
    );
}

#[test]
fn statuses_stay_in_their_ranges() {
    let answer = |status| {
        held(
            &[],
            plan(SaidAction::Answer {
                status,
                headers: vec![],
                body: vec![],
            }),
        )
        .is_ok()
    };
    assert!(answer(200) && answer(599));
    assert!(!answer(99) && !answer(101) && !answer(600) && !answer(1000));
    let refuse = |status| {
        held(
            &[],
            plan(SaidAction::Refuse(SaidRefusal {
                status,
                kind: "t".to_owned(),
                message: "m".to_owned(),
            })),
        )
        .is_ok()
    };
    assert!(refuse(400) && refuse(599));
    assert!(!refuse(200) && !refuse(399) && !refuse(600));
}

#[test]
fn effects_need_their_place_in_the_manifest() {
    let answer = || {
        plan(SaidAction::Answer {
            status: 200,
            headers: vec![],
            body: vec![],
        })
    };
    let mut writing = answer();
    writing.writes.push(write("k", None));
    assert!(
        held(&["tell"], writing)
            .unwrap_err()
            .to_string()
            .contains("keep")
    );
    let mut journaling = answer();
    journaling.journal.push(vec![]);
    assert!(
        held(&["tell"], journaling)
            .unwrap_err()
            .to_string()
            .contains("journal")
    );
}

#[test]
fn a_word_outside_the_manifest_is_refused() {
    let manifest = manifest();
    let check = |said: &[&str], expected: bool| {
        let said: Vec<String> = said.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(check_words(&manifest, &said).is_ok(), expected, "{said:?}");
    };
    check(&[], true);
    check(&["tell", "ask"], true);
    check(&["OPENAI"], true);
    check(&["tell", "undeclared"], false);
    check(&["<NAME>"], false);
    check(&["tell\r\n"], false);
}

#[test]
fn calls_are_held_to_the_same_bounds() {
    let call = |to: &str, method: &str| SaidCall {
        to: SaidTarget::Upstream(to.to_owned()),
        method: method.to_owned(),
        path: SaidPath::Literal("/literal".to_owned()),
        query: SaidQuery::None,
        headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
        body: vec![],
        credential: Some("one-key".to_owned()),
        placement: SaidPlacement::Bearer,
    };
    let manifest = manifest();
    let words = [ScopeWord::parse("tell").unwrap()];
    let reachable = Grants::new(Arc::new(manifest.clone()), None).reached(&words[0]);
    let uses = Uses::default();
    let offers = [offer("one-key", upstream("one"))];
    let bounds = Bounds {
        manifest: &manifest,
        words: &words,
        reachable: &reachable,
        offers: &offers,
        credential_headers: &[],
        uses: &uses,
        method: &Method::GET,
        tail: "",
        query: None,
        max_calls: 2,
    };
    let check = |calls: Vec<SaidCall>, reads: &[&str], expected: bool| {
        let reads = reads.iter().map(|key| (*key).to_owned()).collect();
        let step = SaidStep::Need(SaidNeed {
            calls,
            reads,
            lists: vec![],
            owned: vec![],
            deadline_ms: 0,
            state: vec![],
        });
        let SaidStep::Need(need) = step else {
            panic!("no need")
        };
        assert_eq!(check_need(need, &bounds).is_ok(), expected);
    };
    check(vec![call("one", "POST")], &[], true);
    check(vec![call("two", "POST")], &[], false);
    check(vec![call("one", "post")], &[], false);
    check(vec![call("one", "CONNECT")], &[], false);
    check(
        vec![call("one", "GET"), call("one", "GET"), call("one", "GET")],
        &[],
        false,
    );
    check(vec![], &["key"], false);
    let mut bent = call("one", "GET");
    bent.headers.push(("host".to_owned(), b"evil".to_vec()));
    check(vec![bent], &[], false);
}
