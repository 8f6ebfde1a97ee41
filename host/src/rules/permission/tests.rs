//! Tables for permissions and what an operator grants of them.

use super::*;
use crate::rules::manifest_check::{SaidManifest, SaidRoute, SaidWord};
use crate::rules::plan::SaidTarget;

fn manifest() -> Arc<Manifest> {
    let said = SaidManifest {
        name: "sample".to_owned(),
        version: "1.0.0".to_owned(),
        capability: "sample".to_owned(),
        routes: vec![
            SaidRoute {
                prefix: "/sample".to_owned(),
                public: true,
                token_headers: Some(Vec::new()),
                query: true,
                headers: vec!["accept".to_owned()],
                ..SaidRoute::default()
            },
            SaidRoute {
                prefix: "/sample/paid".to_owned(),
                token_headers: None,
                body: 1,
                payer_of: Some("vendor".to_owned()),
                ..SaidRoute::default()
            },
        ],
        paths: vec!["/v1/x".to_owned(), "/v1/a:b".to_owned()],
        words: vec![
            SaidWord {
                name: "ask".to_owned(),
                reaches: vec![SaidTarget::Upstream("vendor".to_owned())],
                ..SaidWord::default()
            },
            SaidWord {
                name: "FIXED".to_owned(),
                reaches: vec![SaidTarget::Secret("OTHER".to_owned())],
                ..SaidWord::default()
            },
            SaidWord {
                name: OPEN_WORD.to_owned(),
                reaches: vec![SaidTarget::Secret(OPEN_WORD.to_owned())],
                ..SaidWord::default()
            },
        ],
        keep: true,
        journal: true,
        owned_kinds: vec!["parcels".to_owned(), "rooms".to_owned()],
        ..SaidManifest::default()
    };
    Arc::new(Manifest::check(said).unwrap())
}

fn grants(texts: Option<&[&str]>) -> Grants {
    let grant = texts.map(|texts| {
        texts
            .iter()
            .map(|text| Permission::parse(text).unwrap())
            .collect()
    });
    Grants::new(manifest(), grant)
}

fn target(text: &str) -> Target {
    match text.split_once(':').unwrap() {
        ("upstream", name) => Target::Upstream(UpstreamName::parse(name).unwrap()),
        (_, name) => Target::Secret(SecretName::parse(name).unwrap()),
    }
}

#[test]
fn a_word_opens_what_it_stands_for_and_nothing_else() {
    let check = |grant: Option<&[&str]>, word: &str, to: &str, expected: bool| {
        let word = ScopeWord::parse(word).unwrap();
        let reached = grants(grant).reached(&word).contains(&target(to));
        assert_eq!(reached, expected, "{grant:?} {word} {to}");
    };
    check(None, "ask", "upstream:vendor", true);
    check(None, "ask", "upstream:other", false);
    check(None, "ask", "secret:OPENAI", false);
    check(None, "OPENAI", "secret:OPENAI", true);
    check(None, "OPENAI", "secret:GITHUB", false);
    check(None, "OPENAI", "upstream:vendor", false);
    check(None, "openai", "secret:OPENAI", false);
    check(None, "<NAME>", "secret:OPENAI", false);
    check(None, "FIXED", "secret:OTHER", true);
    check(None, "FIXED", "secret:FIXED", false);
    check(Some(&[]), "ask", "upstream:vendor", false);
    check(Some(&["upstream:vendor"]), "ask", "upstream:vendor", true);
    check(Some(&["upstream:vendor"]), "OPENAI", "secret:OPENAI", false);
    check(Some(&["secret:OPENAI"]), "OPENAI", "secret:OPENAI", true);
    check(Some(&["secret:OPENAI"]), "GITHUB", "secret:GITHUB", false);
    check(Some(&["secret:<NAME>"]), "GITHUB", "secret:GITHUB", true);
    check(Some(&["upstream:other"]), "ask", "upstream:other", false);
}

#[test]
fn keep_journal_and_public_need_manifest_and_grant() {
    let all = grants(None);
    assert!(all.uses().keep && all.uses().journal && all.public("/sample"));
    assert!(!all.public("/elsewhere"));
    let none = grants(Some(&[]));
    assert!(none.uses() == Uses::default() && !none.public("/sample"));
    let some = grants(Some(&["keep", "journal", "public:/sample"]));
    assert!(some.uses().keep && some.uses().journal && some.public("/sample"));
}

#[test]
fn a_kind_of_things_needs_manifest_and_grant() {
    let kinds = |grant: Option<&[&str]>| -> Vec<String> {
        let kinds = grants(grant).uses().owned_kinds;
        kinds.iter().map(ToString::to_string).collect()
    };
    assert_eq!(kinds(None), ["parcels", "rooms"]);
    assert_eq!(kinds(Some(&["owned:rooms"])), ["rooms"]);
    assert_eq!(kinds(Some(&["owned:others"])), [""; 0]);
    let vain = grants(Some(&["owned:others"])).unused();
    assert_eq!(vain, [Permission::parse("owned:others").unwrap()]);
}

#[test]
fn permissions_are_said_in_words() {
    let texts: Vec<String> = Permission::of(&manifest())
        .iter()
        .map(ToString::to_string)
        .collect();
    let expected = [
        "upstream:vendor",
        "secret:OTHER",
        "secret:<NAME>",
        "keep",
        "journal",
        "owned:parcels",
        "owned:rooms",
        "public:/sample",
        "route:/sample",
        "route:/sample/paid",
        "sees:/sample:query",
        "sees:/sample:header accept",
        "sees:/sample/paid:body",
        "token-anywhere:/sample/paid",
        "path:/v1/a:b",
        "path:/v1/x",
        "payer:/sample/paid:vendor",
        "word:<NAME>:secret:<NAME>",
        "word:FIXED:secret:OTHER",
        "word:ask:upstream:vendor",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn a_grant_is_read_or_refused() {
    let check = |text: &str, expected: bool| {
        assert_eq!(Permission::parse(text).is_ok(), expected, "{text}");
    };
    check("upstream:vendor", true);
    check("secret:OPENAI", true);
    check("secret:<NAME>", true);
    check("keep", true);
    check("journal", true);
    check("owned:rooms", true);
    check("owned:Rooms", false);
    check("owned:", false);
    check("public:/x", true);
    check("public:x", false);
    check("token-anywhere:/x", true);
    check("token-anywhere:x", false);
    check("path:/v1/x", true);
    check("path:v1", false);
    check("payer:/x:vendor", true);
    check("payer:/x", false);
    check("payer:/x:Vendor", false);
    check("payer:x:vendor", false);
    check("upstream:Vendor", false);
    check("secret:openai", false);
    check("everything", false);
    check("route:/x", false);
    check("", false);
}

#[test]
fn what_a_grant_lists_is_read_as_it_is_shown() {
    let listed: Vec<Permission> = Permission::of(&manifest())
        .into_iter()
        .filter(|permission| {
            let text = permission.to_string();
            !["route:", "sees:", "word:"]
                .iter()
                .any(|kind| text.starts_with(kind))
        })
        .collect();
    assert_eq!(listed.len(), 12);
    for permission in listed {
        assert_eq!(Permission::parse(&permission.to_string()), Ok(permission));
    }
}

#[test]
fn what_a_grant_cannot_narrow_is_neither_lost_without_it_nor_vain_with_it() {
    let kinds = [
        "token-anywhere:/sample/paid",
        "path:/v1/x",
        "payer:/sample/paid:vendor",
    ];
    let narrow = grants(Some(&["upstream:vendor"]));
    let wide = grants(Some(&[&["upstream:vendor"], &kinds[..]].concat()));
    let ask = ScopeWord::parse("ask").unwrap();
    for grants in [&narrow, &wide] {
        assert!(grants.reached(&ask).contains(&target("upstream:vendor")));
        assert!(!grants.uses().keep && !grants.public("/sample"));
        assert_eq!(grants.unused(), []);
    }
    let vain = grants(Some(&["path:/v1/y"])).unused();
    assert_eq!(vain, [Permission::parse("path:/v1/y").unwrap()]);
}

#[test]
fn a_later_version_that_asks_for_another_path_waits() {
    let before: BTreeSet<String> = Permission::of(&manifest())
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut next = Manifest::clone(&manifest());
    next.paths.push("/v2/x".to_owned());
    assert_eq!(
        more_than(&before, &Permission::of(&next)),
        [Permission::Path("/v2/x".to_owned())]
    );
}

#[test]
fn what_a_grant_names_in_vain_is_told() {
    let vain = grants(Some(&["upstream:vendro", "secret:OPENAI", "keep"])).unused();
    assert_eq!(vain, [Permission::parse("upstream:vendro").unwrap()]);
}

#[test]
fn more_than_before_is_named() {
    let wanted = Permission::of(&manifest());
    let mut approved: BTreeSet<String> = wanted.iter().map(ToString::to_string).collect();
    assert_eq!(more_than(&approved, &wanted), []);
    approved.remove("sees:/sample/paid:body");
    assert_eq!(
        more_than(&approved, &wanted),
        [Permission::Sees("/sample/paid".to_owned(), Sight::Body)]
    );
}
