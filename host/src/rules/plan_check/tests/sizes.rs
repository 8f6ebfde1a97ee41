//! How much a plugin may say and keep, and what of it it must be granted.

use super::*;

fn answer() -> SaidPlan {
    plan(SaidAction::Answer {
        status: 200,
        headers: vec![],
        body: vec![],
    })
}

fn everything() -> Uses {
    Uses {
        keep: true,
        journal: true,
        owned_kinds: [ThingKind::parse("rooms").unwrap()].into(),
    }
}

fn said_thing(kind: &str, id: &str) -> SaidThing {
    SaidThing {
        kind: kind.to_owned(),
        id: id.to_owned(),
    }
}

/// Bends an honest answer; `expected` stands in the fault, or is empty where
/// there is none.
fn check(expected: &str, bend: impl FnOnce(&mut SaidPlan)) {
    let mut said = answer();
    bend(&mut said);
    match held_with(&everything(), &["tell"], said) {
        Ok(_) => assert!(expected.is_empty(), "accepted, not {expected}"),
        Err(fault) => {
            let text = fault.to_string();
            assert!(!expected.is_empty() && text.contains(expected), "{text}");
        }
    }
}

/// As [`check`], for a fault that is one of size.
fn too_large(expected: &str, bend: impl FnOnce(&mut SaidPlan)) {
    let mut said = answer();
    bend(&mut said);
    let fault = held_with(&everything(), &["tell"], said).unwrap_err();
    assert!(matches!(fault, PlanFault::TooLarge(_)), "{fault:?}");
    assert!(fault.to_string().contains(expected), "{fault}");
}

#[test]
fn what_is_kept_and_journaled_at_once_is_bounded() {
    check("", |said| {
        said.writes = vec![write("k", Some(vec![0; MOST_VALUE_BYTES]))]
    });
    too_large("a value of its keep", |said| {
        said.writes = vec![write("k", Some(vec![0; MOST_VALUE_BYTES + 1]))];
    });
    too_large("a value of its keep", |said| {
        said.writes = vec![Write {
            expects: Expected::Value(vec![0; MOST_VALUE_BYTES + 1]),
            ..write("k", None)
        }];
    });
    let many = |count: usize, size: usize| -> Vec<Write> {
        (0..count)
            .map(|index| write(&format!("{index:04}"), Some(vec![0; size])))
            .collect()
    };
    check("", |said| said.writes = many(64, 100));
    too_large("65 writes", |said| said.writes = many(65, 1));
    too_large("keeps at once", |said| said.writes = many(7, 32 * 1024));
    check("", |said| said.journal = vec![vec![0; MOST_RECORD_BYTES]]);
    too_large("a journal record", |said| {
        said.journal = vec![vec![0; MOST_RECORD_BYTES + 1]]
    });
    too_large("journals at once", |said| {
        said.journal = vec![vec![0; 600 * 1024]; 2]
    });
    too_large("65 journal records", |said| said.journal = vec![vec![]; 65]);
    too_large("65 things", |said| {
        said.owns = vec![said_thing("rooms", "1"); 65]
    });
    too_large("a key of its keep", |said| {
        said.writes = vec![write(&"k".repeat(257), None)]
    });
    check("empty", |said| said.writes = vec![write("", None)]);
    check("twice", |said| {
        said.writes = vec![write("k", None), write("k", None)]
    });
    check("control character", |said| {
        said.writes = vec![write("a\nb", None)]
    });
}

#[test]
fn a_thing_is_of_a_granted_kind_and_has_an_id() {
    let id = "i".repeat(256);
    check("", |said| said.owns = vec![said_thing("rooms", &id)]);
    check("", |said| {
        said.owns = vec![said_thing("rooms", "a/b %2F é")]
    });
    for (kind, id, expected) in [
        ("parcels", "1", "was not granted"),
        ("Rooms", "1", "was not granted"),
        ("", "1", "was not granted"),
        ("rooms", "", "no thing's id"),
        ("rooms", "a\nb", "no thing's id"),
        ("rooms", "a\0b", "no thing's id"),
        ("rooms", "a\u{85}b", "no thing's id"),
        ("rooms", &"i".repeat(257), "no thing's id"),
    ] {
        check(expected, |said| said.owns = vec![said_thing(kind, id)]);
    }
    let mut said = answer();
    said.owns = vec![said_thing("rooms", "1")];
    assert!(held_with(&Uses::default(), &["tell"], said).is_err());
}

#[test]
fn a_need_is_bounded_and_granted() {
    let manifest = manifest();
    let words = [ScopeWord::parse("tell").unwrap()];
    let reachable = [upstream("one")];
    let check = |uses: &Uses, expected: &str, bend: &dyn Fn(&mut SaidNeed)| {
        let bounds = Bounds {
            manifest: &manifest,
            words: &words,
            reachable: &reachable,
            offers: &[],
            credential_headers: &[],
            uses,
            method: &Method::GET,
            tail: "",
            query: None,
            max_calls: 64,
        };
        let mut need = SaidNeed {
            calls: vec![],
            reads: vec![],
            lists: vec![],
            owned: vec![],
            deadline_ms: 0,
            state: vec![],
        };
        bend(&mut need);
        match check_need(need, &bounds) {
            Ok(_) => assert!(expected.is_empty(), "accepted, not {expected}"),
            Err(fault) => {
                let text = fault.to_string();
                assert!(!expected.is_empty() && text.contains(expected), "{text}");
            }
        }
    };
    let call = |bytes: usize| SaidCall {
        to: SaidTarget::Upstream("one".to_owned()),
        method: "POST".to_owned(),
        path: SaidPath::Literal("/literal".to_owned()),
        query: SaidQuery::None,
        headers: vec![],
        body: vec![0; bytes],
        credential: None,
        placement: SaidPlacement::Bearer,
    };
    let listing = |prefix: &str, after: Option<&str>| Listing {
        prefix: prefix.to_owned(),
        after: after.map(str::to_owned),
    };
    let all = everything();
    let (mib, none) = (1024 * 1024, Uses::default());
    check(&all, "", &|need| need.calls = vec![call(1); 64]);
    check(&all, "65 calls", &|need| need.calls = vec![call(1); 65]);
    check(&all, "", &|need| need.calls = vec![call(mib); 16]);
    check(&all, "send together", &|need| {
        need.calls = vec![call(mib); 17]
    });
    check(&all, "a call's body", &|need| {
        need.calls = vec![call(mib + 1)]
    });
    check(&all, "", &|need| need.lists = vec![listing("", Some("k"))]);
    check(&all, "17 listings", &|need| {
        need.lists = vec![listing("", None); 17]
    });
    check(&all, "control", &|need| {
        need.lists = vec![listing("a\n", None)]
    });
    check(&all, "empty", &|need| {
        need.lists = vec![listing("a", Some(""))]
    });
    check(&none, "not granted", &|need| {
        need.lists = vec![listing("", None)]
    });
    check(&all, "", &|need| {
        need.owned = vec![said_thing("rooms", "1"); 1024]
    });
    check(&all, "1025 things", &|need| {
        need.owned = vec![said_thing("rooms", "1"); 1025]
    });
    check(&none, "not granted", &|need| {
        need.owned = vec![said_thing("rooms", "1")]
    });
    check(&all, "its state", &|need| need.state = vec![0; 5 * mib]);
}
