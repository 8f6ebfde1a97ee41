//! The host knows no capability: whoever adds one adds a plugin. The words that
//! would give it away occur in its sources only as defaults of the
//! configuration, in the demo and in the suite that judges brokers, comments and
//! tests included.

use jackfield_tests::sources;

/// Words of capabilities. They are data of plugins and of the configuration.
/// `decide` is also what hosts do, so it counts as a path and as a text.
const WORDS: [&str; 8] = [
    "anthropic",
    "egress",
    "feedback",
    "fountain",
    "/llm",
    "/decide",
    "\"decide\"",
    "x-api-key",
];

/// Where they may stand: the configuration's defaults, the demo, and the
/// conformance suite, which no part of the host names.
const MAY: [&str; 3] = ["config", "demo", "conformance"];

#[test]
fn no_word_of_a_capability_stands_in_the_host_s_sources() {
    let mut found = Vec::new();
    for source in sources::host() {
        if MAY.contains(&source.layer()) {
            continue;
        }
        for (number, line) in source.text.lines().enumerate() {
            let line_lower = line.to_ascii_lowercase();
            for word in WORDS.iter().filter(|word| line_lower.contains(**word)) {
                found.push(format!(
                    "{}:{} says {word}: {}",
                    source.path,
                    number + 1,
                    line.trim()
                ));
            }
        }
    }
    assert!(
        found.is_empty(),
        "{} places:\n{}",
        found.len(),
        found.join("\n")
    );
}
