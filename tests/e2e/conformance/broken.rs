//! Brokers that each break one rule, and the checks that must say so.

use std::collections::BTreeSet;

use super::{TABLE, judge};

/// Each fault with exactly the checks that fail for it.
const FAULTS: [(&str, &[&str]); 37] = [
    ("keep-foreign-entries", &["declaration-kept"]),
    ("know-every-token", &["declaration-unknown-token"]),
    ("take-malformed-reports", &["declaration-malformed"]),
    ("change-spend", &["declaration-listing-spend"]),
    ("serve-unreported", &["unreported-refused"]),
    ("hello-needs-token", &["inference-hello"]),
    ("drop-query", &["inference-forwards"]),
    ("change-body", &["inference-forwards"]),
    ("invent-answers", &["inference-forwards"]),
    ("forward-every-path", &["inference-unknown-route"]),
    ("answer-401", &["inference-unknown-token"]),
    (
        "grant-everything",
        &[
            "inference-agent-refused",
            "decide-refused",
            "egress-refused",
            "feedback-refused",
            "fountain-refused",
        ],
    ),
    (
        "refuse-without-words",
        &[
            "inference-agent-refused",
            "decide-refused",
            "egress-refused",
            "feedback-refused",
            "fountain-refused",
        ],
    ),
    (
        "touch-upstream-before-refusing",
        &[
            "unreported-refused",
            "inference-agent-refused",
            "decide-refused",
            "egress-refused",
            "feedback-refused",
            "fountain-refused",
        ],
    ),
    ("rename-model", &["decide-answers"]),
    ("skip-question", &["decide-answers"]),
    ("decide-without-credential", &["decide-answers"]),
    ("invent-decisions", &["decide-answers"]),
    ("take-no-question", &["decide-invalid"]),
    ("hide-decide", &["decide-unknown-token"]),
    ("keep-stand-in", &["egress-forwards", "token-isolation"]),
    (
        "leak-secret-header",
        &["egress-forwards", "token-isolation"],
    ),
    ("send-elsewhere", &["egress-forwards"]),
    ("unheld-is-404", &["egress-unheld"]),
    ("take-any-name", &["egress-bad-name"]),
    ("refuse-feedback", &["feedback-taken", "feedback-empty"]),
    ("take-empty-batch", &["feedback-empty"]),
    ("fountain-without-key", &["fountain-forwards"]),
    ("payer-disagrees", &["payer-consistent"]),
    ("payer-on-report-only", &["payer-consistent"]),
    (
        "payer-nonsense",
        &[
            "declaration-kept",
            "declaration-listing-spend",
            "payer-consistent",
        ],
    ),
    ("pass-token", &["token-isolation"]),
    ("pass-token-encoded", &["token-isolation"]),
    (
        "pass-token-in-query",
        &["inference-forwards", "token-isolation"],
    ),
    ("leak-credential", &["token-isolation"]),
    // Of extra capabilities only; the table's checks do not see these.
    ("one-word-opens-all", &[]),
    ("notes-for-strangers", &[]),
];

#[tokio::test]
async fn every_broken_rule_fails_its_check_and_no_other() {
    for (fault, expected) in FAULTS {
        let judged = judge(&format!("--{fault}"), &[]).await;
        assert_eq!(judged.checks("FAIL"), expected, "{fault}: {judged:#?}");
        let code = i32::try_from(expected.len()).expect("a few");
        assert_eq!(judged.code, Some(code), "{fault}");
    }
}

/// What is sent on while the refusal is answered is seen, too, though it comes
/// after the answer.
#[tokio::test]
async fn a_refusal_that_is_sent_on_all_the_same_is_seen() {
    let judged = judge("--touch-upstream-while-refusing", &[]).await;
    assert_ne!(judged.code, Some(0), "{judged:#?}");
    assert!(judged.stdout.contains("received GET /v1/models"));
}

#[test]
fn every_check_of_the_table_has_a_broker_that_fails_it() {
    let failed: BTreeSet<&str> = FAULTS
        .iter()
        .flat_map(|(_, ids)| ids.iter().copied())
        .collect();
    let all: BTreeSet<&str> = TABLE.into_iter().collect();
    assert_eq!(failed, all);
}

#[tokio::test]
async fn a_failure_shows_the_exchange_and_never_a_credential() {
    let faults = "--leak-secret-header --leak-credential --pass-token --pass-token-encoded --grant-everything";
    let judged = judge(faults, &[]).await;
    let out = &judged.stdout;
    for words in [
        "expected 403, got 200",
        "sent     POST /llm/anthropic/v1/messages [",
        "x-api-key: <the token of conformance-a>",
        "got      200 [",
        "upstream the Anthropic upstream received POST /v1/messages [",
        "x-api-key: <the Anthropic credential>",
        "it must not have been sent on, and the Anthropic upstream received POST /v1/messages",
        "the Anthropic upstream received the token of conformance-a, in the header x-box-token of",
        "the Anthropic upstream received the token of conformance-a, inside base64, in the header x-box of",
        "the value of CONFORMANCE came back, in the header x-conformance-echo of the answer 200",
        "the Anthropic credential came back, percent-encoded, in the header x-debug of the answer 200",
    ] {
        assert!(out.contains(words), "{words:?} is not in:\n{out}");
    }
    // What the suite draws, and what the broker draws.
    for secret in ["conformance-secret-", "api03-conformance-", "box_"] {
        assert!(!out.contains(secret), "{secret} is in:\n{out}");
    }
}
