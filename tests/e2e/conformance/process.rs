//! The broker's command: how it is started, told, asked and ended, and that
//! nothing which it does hangs the suite or brings it down.

use std::process::Stdio;

use jackfield_tests::soon;
use jackfield_tests::suite::{self, Judged};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{TABLE, judge, reference};

async fn start(command: &str, more: &[&str]) -> Judged {
    suite::judge(crate::BINARY, &[&["--start", command], more].concat()).await
}

#[tokio::test]
async fn a_broker_that_does_not_start_is_125_with_the_reason() {
    for (command, words) in [
        ("exit 7", "exit status: 7"),
        ("echo something is wrong; exit 1", "something is wrong"),
        ("no-such-program-anywhere", "exit status: 127"),
        (reference("--crash").as_str(), "exit status: 3"),
        (reference("--bad-line").as_str(), "missing field `tokens`"),
        ("echo '{nonsense'; cat", "the command's line is no"),
        (
            r#"echo '{"url":"http://a","tokens":{}}'; cat"#,
            "none for the box conformance-a",
        ),
        (
            r#"echo '{"url":"https://a","tokens":{"conformance-a":"x","conformance-b":"y"}}'; cat"#,
            "plain HTTP",
        ),
        (
            r#"echo '{"url":"nowhere","tokens":{"conformance-a":"x","conformance-b":"y"}}'; cat"#,
            "no scheme",
        ),
        ("yes", "1 MiB and no line"),
        (
            "exec >&-; exec sleep 600",
            "it runs on, with its output closed",
        ),
    ] {
        let judged = start(command, &[]).await;
        assert_eq!(judged.code, Some(125), "{command}: {judged:#?}");
        assert!(
            judged.stderr.contains(words),
            "{command}: {}",
            judged.stderr
        );
        assert_eq!(judged.stdout, "", "{command}");
    }
    let judged = start("exit 7", &["--json"]).await;
    let error: serde_json::Value = serde_json::from_str(judged.stderr.trim()).expect("JSON");
    assert!(
        error["error"]["message"]
            .as_str()
            .expect("a text")
            .contains("exit status: 7")
    );
}

#[tokio::test]
async fn a_broker_that_prints_no_line_is_given_up() {
    let command = reference("--no-line");
    let judged = start(
        &format!("echo a banner; {command}"),
        &["--start-timeout", "1"],
    )
    .await;
    assert_eq!(judged.code, Some(125), "{judged:#?}");
    for words in ["no line", "within 1 s", "a banner", "--start-timeout"] {
        assert!(judged.stderr.contains(words), "{words}: {}", judged.stderr);
    }
}

#[tokio::test]
async fn standard_error_passes_through_and_other_lines_hold_nothing_up() {
    let judged = judge("--chatter", &[]).await;
    assert_eq!(judged.code, Some(0), "{judged:#?}");
    let command = format!("echo a remark >&2; {}", reference(""));
    let judged = start(&command, &["--capabilities", "feedback"]).await;
    assert_eq!(judged.code, Some(0), "{judged:#?}");
    assert!(judged.stderr.contains("a remark"), "{judged:#?}");
}

/// Whatever it answers, it is a failed check with a reason.
#[tokio::test]
async fn a_hostile_broker_fails_its_checks_and_nothing_else() {
    for (fault, words) in [
        ("--garbage", "no answer"),
        ("--huge-answers", "the answer is larger than 1 MiB"),
        ("--compress", "encoded as \"gzip\""),
        (
            "--end-early",
            "the broker's command has ended: exit status: 4",
        ),
        ("--hang", "no whole answer within 1.0 s"),
    ] {
        let judged = judge(fault, &["--timeout", "1"]).await;
        // Nothing came back and nothing went out, so the last check holds; and
        // a HEAD has no body that could be too large.
        let holds = |id: &str| id == "inference-hello" && fault == "--huge-answers";
        let checks = TABLE.iter().take(TABLE.len() - 1);
        let expected: Vec<&str> = checks.copied().filter(|id| !holds(id)).collect();
        assert_eq!(judged.checks("FAIL"), expected, "{fault}: {judged:#?}");
        assert!(judged.stdout.contains(words), "{fault}: {}", judged.stdout);
        let given_up = "not asked: the whole run has taken too long already";
        assert_eq!(judged.stdout.contains(given_up), fault == "--hang");
    }
}

#[tokio::test]
async fn a_command_is_ended_with_everything_it_started() {
    for (fault, ended_by) in [
        ("", "closed input"),
        ("--ignore-input", "SIGTERM"),
        ("--ignore-term", "SIGKILL"),
    ] {
        // The broker is a grandchild, and has a sibling that hears nothing.
        let command = format!("sleep 600 & echo $! >&2; ({}) ; exit 0", reference(fault));
        let arguments = ["--start", &command, "--capabilities", "feedback", "--json"];
        let judged = suite::judge(crate::BINARY, &arguments).await;
        assert_eq!(judged.code, Some(0), "{fault}: {judged:#?}");
        // The sibling ends on SIGTERM at the earliest.
        let expected = if ended_by == "closed input" {
            "SIGTERM"
        } else {
            ended_by
        };
        let summary = judged.json().pop().expect("a summary");
        assert_eq!(summary["summary"]["ended_by"], expected, "{fault}");
        let sibling: i32 = judged.stderr.trim().parse().expect("a process id");
        assert!(is_gone(sibling), "{fault}: {sibling} lives");
    }
    let judged = judge("", &["--json"]).await;
    let summary = judged.json().pop().expect("a summary");
    assert_eq!(summary["summary"]["ended_by"], "closed input");
}

/// A signal ends the run, and the broker with it: while it starts, and while it
/// is asked.
#[tokio::test]
async fn a_stopped_suite_leaves_no_broker_behind() {
    for (faults, event) in [
        ("--no-line --ignore-input", ""),
        ("--hang --ignore-input", "asked"),
    ] {
        let command = format!("echo $$ >&2; {}", reference(faults));
        let mut child = suite::command(crate::BINARY, &["--start", &command])
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary starts");
        let mut errors = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut line = async || {
            let line = soon("the broker says something", errors.next_line()).await;
            line.expect("text").expect("a line")
        };
        let broker: i32 = line().await.parse().expect("a process id");
        if !event.is_empty() {
            assert_eq!(line().await, event);
        }
        let suite = child.id().and_then(|id| i32::try_from(id).ok());
        let suite = suite.and_then(rustix::process::Pid::from_raw);
        let term = rustix::process::Signal::TERM;
        rustix::process::kill_process(suite.expect("a process id"), term).expect("a signal");
        let status = soon("the suite ends", child.wait())
            .await
            .expect("a status");
        assert_eq!(status.code(), Some(125), "{faults}");
        let mut rest = String::new();
        while let Some(line) = soon("all is said", errors.next_line()).await.expect("text") {
            rest.push_str(&line);
        }
        assert!(rest.contains("the run was stopped"), "{faults}: {rest}");
        assert!(is_gone(broker), "{faults}: the broker lives");
    }
}

/// Whether a process has ended; one that nobody has waited for yet has, too.
fn is_gone(id: i32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{id}/stat")) else {
        return true;
    };
    let state = status
        .rsplit(") ")
        .next()
        .and_then(|rest| rest.chars().next());
    state == Some('Z')
}
