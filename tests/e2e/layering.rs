//! The house's arrows run one way, and each big dependency has one home.

use std::collections::BTreeSet;

use jackfield_tests::sources::{self, Source};

/// Each layer and the layers that it may name.
const ARROWS: [(&str, &[&str]); 21] = [
    ("rules", &[]),
    ("fleeting", &[]),
    ("lease", &[]),
    ("telemetry", &["rules", "config"]),
    ("config", &["rules"]),
    ("listen", &["rules", "telemetry"]),
    ("store", &["rules", "telemetry"]),
    (
        "vault",
        &["rules", "fleeting", "lease", "telemetry", "store"],
    ),
    ("plugins", &["rules", "lease", "telemetry", "store"]),
    ("relay", &["rules", "lease", "telemetry", "vault"]),
    ("decision_log", &["rules", "telemetry", "vault"]),
    (
        "chant",
        &[
            "decision_log",
            "rules",
            "fleeting",
            "lease",
            "telemetry",
            "listen",
            "store",
            "vault",
            "plugins",
            "relay",
        ],
    ),
    (
        "admin",
        &[
            "rules",
            "telemetry",
            "config",
            "listen",
            "store",
            "vault",
            "plugins",
            "relay",
            "chant",
        ],
    ),
    // An author's project is files and cargo's work.
    ("author", &["rules"]),
    // It judges brokers, this one among them, so it shares nothing with them.
    ("conformance", &["rules"]),
    // They put the house together, or stand in front of it.
    ("cli", EVERYTHING),
    ("serve", EVERYTHING),
    ("demo", EVERYTHING),
    ("app", EVERYTHING),
    ("lib", EVERYTHING),
    ("main", EVERYTHING),
];

const EVERYTHING: &[&str] = &[
    "rules",
    "fleeting",
    "lease",
    "telemetry",
    "config",
    "listen",
    "store",
    "vault",
    "plugins",
    "relay",
    "chant",
    "decision_log",
    "admin",
    "author",
    "cli",
    "conformance",
    "serve",
    "demo",
    "app",
];

/// What names a big dependency, and where it may be named.
const HOMES: [(&str, &[&str]); 10] = [
    ("wasmtime", &["plugins"]),
    ("sled", &["store"]),
    // The admin socket's own client, the demo and the conformance suite are
    // clients of nothing else.
    ("hyper::client", &["relay", "admin", "demo", "conformance"]),
    ("hyper_util::client", &["relay", "admin", "demo"]),
    ("TlsConnector", &["relay"]),
    ("ClientConfig", &["relay"]),
    ("ring::signature", &["decision_log"]),
    ("chacha20poly1305", &["vault", "plugins"]),
    (
        "anyhow",
        &["main", "lib", "app", "serve", "cli", "config", "demo"],
    ),
    (
        "tokio::net::TcpStream",
        &["relay", "listen", "demo", "conformance"],
    ),
];

#[test]
fn arrows_run_one_way() {
    let mut wrong = Vec::new();
    for source in sources::host() {
        let layer = source.layer().to_owned();
        let Some((_, may)) = ARROWS.iter().find(|(known, _)| *known == layer) else {
            wrong.push(format!(
                "{} belongs to no layer that this test knows",
                source.path
            ));
            continue;
        };
        for named in layers_named_by(&source) {
            if named != layer && !may.contains(&named.as_str()) {
                wrong.push(format!("{} names {named}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_big_dependency_has_one_home() {
    let mut wrong = Vec::new();
    for source in sources::host() {
        for (name, homes) in HOMES {
            let named = source.code().iter().any(|line| names(line, name));
            if named && !homes.contains(&source.layer()) {
                wrong.push(format!("{} names {name}", source.path));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The suite knows the protocol by its page and its schema alone: of what
/// decides in the house it takes what makes text safe to print, if anything.
#[test]
fn the_conformance_suite_shares_nothing_with_what_it_judges() {
    let mut wrong = Vec::new();
    for source in sources::host()
        .iter()
        .filter(|source| source.layer() == "conformance")
    {
        for line in source.code() {
            let judged = line.contains("rules::") && !line.contains("rules::escape");
            if judged || line.contains("super::super::") {
                wrong.push(format!("{}: {}", source.path, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_secret_is_revealed_in_two_files() {
    let reveals: Vec<String> = sources::host()
        .iter()
        .filter(|source| source.code().iter().any(|line| line.contains(".reveal(")))
        .map(|source| source.path.clone())
        .collect();
    assert_eq!(reveals, ["relay/seal.rs", "vault/seal.rs"]);
    let exposes: Vec<String> = sources::host()
        .iter()
        .filter(|source| source.text.contains("expose_secret"))
        .map(|source| source.path.clone())
        .collect();
    assert_eq!(exposes, ["rules/secret.rs"], "the type is opened elsewhere");
}

#[test]
fn two_files_are_unsafe_and_both_speak_to_the_engine() {
    let is_unsafe = |source: &Source| {
        source.code().iter().any(|line| {
            line.contains("unsafe {") || line.contains("unsafe fn") || line.contains("unsafe impl")
        })
    };
    let files: Vec<String> = sources::host()
        .iter()
        .filter(|source| is_unsafe(source))
        .map(|source| source.path.clone())
        .collect();
    assert_eq!(files, ["plugins/cache.rs", "plugins/functions.rs"]);
}

#[test]
fn every_file_says_what_it_owns() {
    let silent: Vec<String> = sources::host()
        .iter()
        .filter(|source| source.path.ends_with(".rs") && !source.text.starts_with("//!"))
        .map(|source| source.path.clone())
        .collect();
    assert!(silent.is_empty(), "{silent:?}");
}

#[test]
fn rules_do_no_i_o_and_know_no_clock() {
    let mut wrong = Vec::new();
    for source in sources::host()
        .iter()
        .filter(|source| source.layer() == "rules")
    {
        for line in source.code() {
            for word in [
                "tokio",
                "async fn",
                ".await",
                "std::fs",
                "std::net::Tcp",
                "std::env",
                "getrandom",
                "SystemTime",
                "Instant::now",
                "Timestamp::now",
            ] {
                if line.contains(word) {
                    wrong.push(format!("{} names {word}", source.path));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn layers_named_by(source: &Source) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for line in source.code() {
        for after in line.split("crate::").skip(1) {
            // A list in braces names layers of its own: `crate::{rules, store}`.
            let list = after.strip_prefix('{').unwrap_or(after);
            let items = match after.starts_with('{') {
                true => list.split([',', '}']).collect::<Vec<_>>(),
                false => vec![list],
            };
            for item in items {
                let word: String = item
                    .trim_start()
                    .chars()
                    .take_while(|letter| letter.is_ascii_alphanumeric() || *letter == '_')
                    .collect();
                if ARROWS.iter().any(|(layer, _)| *layer == word) {
                    named.insert(word);
                }
            }
        }
    }
    named
}

/// Whether a line names this, as a word of its own.
fn names(line: &str, name: &str) -> bool {
    line.match_indices(name).any(|(at, _)| {
        let letter = |byte: Option<&u8>| {
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_')
        };
        let bytes = line.as_bytes();
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        !letter(before) && !letter(bytes.get(at + name.len()))
    })
}
