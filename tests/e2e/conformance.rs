//! The conformance suite: it passes a broker that does what the protocol's
//! page says, and for each check there is a broker that it fails.

mod broken;
mod host;
mod process;

use std::path::Path;

use jackfield_tests::suite::{self, Judged};

/// Every check of the page's table, in its order.
const TABLE: [&str; 25] = [
    "declaration-kept",
    "declaration-unknown-token",
    "declaration-malformed",
    "declaration-listing-spend",
    "unreported-refused",
    "inference-hello",
    "inference-forwards",
    "inference-unknown-route",
    "inference-unknown-token",
    "inference-agent-refused",
    "decide-answers",
    "decide-refused",
    "decide-invalid",
    "decide-unknown-token",
    "egress-forwards",
    "egress-refused",
    "egress-unheld",
    "egress-bad-name",
    "feedback-taken",
    "feedback-refused",
    "feedback-empty",
    "fountain-forwards",
    "fountain-refused",
    "payer-consistent",
    "token-isolation",
];

const ALL_FOUR: &str = "inference,egress,feedback,fountain";

/// A capability that no part of the suite has heard of.
const NOTES: &str = r#"{"name": "notes", "words": ["read", "write"], "probes": {
    "read": {"method": "GET", "path": "/notes/a"},
    "write": {"method": "POST", "path": "/notes/a", "headers": {"x-note": "1"}, "body": {"text": "b"}}}}"#;

/// The command that starts the reference broker, with these of its faults.
fn reference(faults: &str) -> String {
    suite::shell(Path::new(env!("CARGO_BIN_EXE_reference-broker")), faults)
}

/// Judges the reference broker, which serves everything, with these faults.
async fn judge(faults: &str, more: &[&str]) -> Judged {
    let start = reference(faults);
    let arguments = ["--start", &start, "--capabilities", ALL_FOUR];
    suite::judge(crate::BINARY, &[&arguments, more].concat()).await
}

#[tokio::test]
async fn the_reference_broker_passes_every_check_in_the_page_s_order() {
    let judged = judge("", &[]).await;
    assert_eq!(judged.code, Some(0), "{judged:#?}");
    assert_eq!(judged.checks("ok"), TABLE);
    assert!(
        judged
            .stdout
            .contains("the broker: 25 passed, 0 failed, 0 skipped"),
        "{}",
        judged.stdout
    );
}

#[tokio::test]
async fn what_is_not_served_is_skipped() {
    let start = reference("");
    let judged = suite::judge(crate::BINARY, &["--start", &start, "--name", "mine"]).await;
    assert_eq!(judged.code, Some(0), "{judged:#?}");
    assert_eq!(
        judged.checks("skip"),
        ["fountain-forwards", "fountain-refused"]
    );
    assert!(judged.stdout.contains("the broker does not serve fountain"));
    assert!(
        judged
            .stdout
            .contains("mine: 23 passed, 0 failed, 2 skipped")
    );

    let only = ["--start", &start, "--capabilities", "feedback"];
    let judged = suite::judge(crate::BINARY, &only).await;
    assert_eq!(judged.code, Some(0), "{judged:#?}");
    assert_eq!(judged.checks("ok").len(), 5 + 3 + 1);
    assert_eq!(judged.checks("skip").len(), 16);
}

#[tokio::test]
async fn a_capability_of_one_s_own_is_held_to_the_rule() {
    let expected = ["read", "write"].map(|word| {
        ["served", "refused", "unreported", "unknown-token"]
            .map(|holds| format!("notes-{word}-{holds}"))
    });
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("notes.json");
    std::fs::write(&file, format!("[{NOTES}]")).expect("a file");
    let file = file.display().to_string();
    for extra in [NOTES, file.as_str()] {
        let judged = judge("", &["--extra", extra]).await;
        assert_eq!(judged.code, Some(0), "{judged:#?}");
        let ids = judged.checks("ok");
        assert_eq!(ids.len(), 25 + 8);
        // Before the check over the whole run, which comes last.
        assert_eq!(ids[24..32], expected.concat());
        assert_eq!(ids[32], "token-isolation");
    }
    for (fault, failed) in [
        (
            "--one-word-opens-all",
            vec!["notes-read-refused", "notes-write-refused"],
        ),
        (
            "--notes-for-strangers",
            vec!["notes-read-unknown-token", "notes-write-unknown-token"],
        ),
        (
            "--grant-everything",
            vec!["notes-read-refused", "notes-write-refused"],
        ),
        (
            "--serve-unreported",
            vec!["notes-read-unreported", "notes-write-unreported"],
        ),
    ] {
        let judged = judge(fault, &["--extra", NOTES]).await;
        let found = judged.checks("FAIL");
        let found: Vec<_> = found.iter().filter(|id| id.starts_with("notes")).collect();
        assert_eq!(found, failed.iter().collect::<Vec<_>>(), "{judged:#?}");
    }
}

#[tokio::test]
async fn results_come_as_json_too() {
    let judged = judge("--drop-query", &["--json", "--broker", "house"]).await;
    assert_eq!(judged.code, Some(1), "{judged:#?}");
    let lines = judged.json();
    assert_eq!(lines.len(), 26);
    let line = |id: &str| {
        lines
            .iter()
            .find(|line| line["check"] == id)
            .expect("a line")
    };
    assert_eq!(line("declaration-kept")["outcome"], "ok");
    assert_eq!(line("declaration-kept")["capability"], "declaration");
    let failed = line("inference-forwards");
    assert_eq!(failed["outcome"], "failed");
    let problem = failed["problems"][0].as_str().expect("a text");
    assert!(problem.contains("/v1/messages?beta=true"), "{problem}");
    let exchange = &failed["exchanges"][0];
    assert!(
        exchange["sent"]
            .as_str()
            .expect("a text")
            .contains("POST /llm/anthropic")
    );
    assert!(
        exchange["upstream"][0]
            .as_str()
            .expect("a text")
            .contains("POST /v1/messages ")
    );
    let summary = &lines[25]["summary"];
    assert_eq!(summary["failed"], serde_json::json!(["inference-forwards"]));
    assert_eq!(summary["passed"], 24);
    assert_eq!(summary["ended_by"], "closed input");
}

#[tokio::test]
async fn wrong_arguments_are_2_and_say_why() {
    for (arguments, words) in [
        (vec![], "--start"),
        (
            vec!["--start", "x", "--capabilities", "magic"],
            "--extra takes others",
        ),
        (vec!["--start", "x", "--timeout", "0"], "--timeout"),
        (vec!["--start", "x", "--broker", ""], "1 to 64 characters"),
        (
            vec!["--start", "x", "--extra", "{}"],
            "{name, words, probes}",
        ),
        (
            vec!["--start", "x", "--extra", "/no/such/file"],
            "could not read the file",
        ),
    ] {
        let judged = suite::judge(crate::BINARY, &arguments).await;
        assert_eq!(judged.code, Some(2), "{arguments:?}: {judged:#?}");
        assert!(
            judged.stderr.contains(words),
            "{arguments:?}: {}",
            judged.stderr
        );
    }
    let help = suite::judge(crate::BINARY, &["--help"]).await;
    assert_eq!(help.code, Some(0));
    for words in [
        "CONFORMANCE_ENV",
        "\"tokens\"",
        "jackfield serve --conformance",
        "125",
    ] {
        assert!(help.stdout.contains(words), "{words}: {}", help.stdout);
    }
}
