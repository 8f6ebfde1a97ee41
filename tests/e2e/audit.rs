//! `jackfield plugin audit`: what it says of the plugins that ship, of one that
//! does all the harm it can, and of bytes that are no plugin.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use jackfield_tests::host::Output;
use jackfield_tests::plugins::{self, Plugin};
use serde_json::Value;
use tokio::process::Command;
use tokio::time::timeout;

/// How long an audit may take; it ends a test that would hang.
const LIMIT: Duration = Duration::from_secs(180);

const SHIPPED: [Plugin; 5] = [
    Plugin::Inference,
    Plugin::Egress,
    Plugin::Feedback,
    Plugin::Fountain,
    Plugin::Notes,
];

const API: &str = r#"
{"method":"GET","path":"/fountain/api/conversations"}
{"method":"POST","path":"/fountain/api/conversations","body":"{\"agent_id\":\"a\"}"}
{"method":"GET","path":"/fountain/api/agents/a"}
{"method":"GET","path":"/llm/anthropic/v1/models"}
"#;

fn component(plugin: Plugin) -> PathBuf {
    plugins::component(Path::new(crate::BINARY), plugin)
}

/// Audits a file where no host runs and nothing is configured.
async fn audit(file: &Path, more: &[&str]) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    let audit = Command::new(crate::BINARY)
        .args(["plugin", "audit"])
        .arg(file)
        .args(more)
        .env_clear()
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = timeout(LIMIT, audit)
        .await
        .expect("the audit ends")
        .expect("the audit ran");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let left = fs::read_dir(folder.path()).expect("a folder").count();
    assert_eq!(left, 0, "an audit writes nothing");
    Output {
        code: output.status.code(),
        stdout: text(&output.stdout),
        stderr: text(&output.stderr),
    }
}

fn findings(report: &Value) -> &Vec<Value> {
    report["findings"].as_array().expect("findings")
}

fn ids(report: &Value) -> BTreeSet<&str> {
    let id = |finding: &'_ Value| finding["id"].as_str().map(str::len);
    assert!(findings(report).iter().all(|each| id(each).is_some()));
    findings(report)
        .iter()
        .filter_map(|each| each["id"].as_str())
        .collect()
}

#[tokio::test]
async fn what_ships_comes_out_without_errors() {
    // A reviewer knows the API where guessing does not get far.
    let folder = tempfile::tempdir().expect("a folder");
    let requests = folder.path().join("requests");
    fs::write(&requests, API).expect("a file");
    let requests = requests.to_str().expect("a path");
    for plugin in SHIPPED {
        let more = ["--json", "--requests", requests];
        let output = audit(&component(plugin), &more).await;
        let report = output.json();
        assert_eq!(output.code, Some(0), "{plugin:?}: {output:#?}");
        for finding in findings(&report) {
            assert_eq!(finding["severity"], "note", "{plugin:?}: {finding}");
        }
        assert_eq!(report["imports"], serde_json::json!([]), "{plugin:?}");
        assert_eq!(report["world"]["fits"], true, "{plugin:?}");
        assert!(
            report["manifest"]["permissions"][0]["means"].is_string(),
            "{plugin:?}"
        );
        let behaviour = &report["behaviour"];
        assert!(
            behaviour["served"].as_u64() > Some(0),
            "{plugin:?}: {behaviour}"
        );
        for function in ["describe", "scopes", "route"] {
            let measured = &behaviour["measured"][function];
            assert!(
                measured["most_fuel"].as_u64() > Some(0),
                "{plugin:?}: {behaviour}"
            );
            assert!(
                measured["most_memory"].as_u64() > Some(0),
                "{plugin:?}: {behaviour}"
            );
        }
    }
}

#[tokio::test]
async fn the_same_audit_says_the_same() {
    let file = component(Plugin::Notes);
    let first = audit(&file, &["--json"]).await.ok();
    assert_eq!(first.stdout, audit(&file, &["--json"]).await.ok().stdout);
    let asked = |report: &Value| report["behaviour"]["asked"].as_u64();
    let fewer = audit(&file, &["--json", "--count", "1"]).await.ok().json();
    assert!(asked(&fewer) < asked(&first.json()));
}

#[tokio::test]
async fn everything_that_the_villain_does_is_flagged() {
    let output = audit(&component(Plugin::Villain), &["--json"]).await;
    assert_eq!(output.code, Some(1), "{output:#?}");
    let report = output.json();
    let flagged = |id: &str, words: &str| {
        findings(&report).iter().any(|finding| {
            let told = format!("{} {}", finding["what"], finding["request"]);
            finding["id"] == id && told.contains(words)
        })
    };
    for (id, words) in [
        ("out-of-fuel", "/villain/spin"),
        ("out-of-fuel", "/villain/spin-scopes"),
        ("out-of-memory", "/villain/allocate"),
        ("trap", "call stack exhausted"),
        ("trap", "route failed (unreachable code reached)"),
        ("trap", "resume failed"),
        ("remembers", "scopes says another thing"),
        ("remembers", "route says another thing"),
        ("describe-differs", "another thing each time"),
        ("undeclared-word", "shout"),
        ("beyond-words", "reaches the upstream \\\"vault\\\""),
        ("beyond-words", "/admin"),
        ("beyond-words", "upstream/bank/root"),
        ("beyond-words", "it asked no scope word"),
        ("beyond-words", "writes to a keep"),
        ("endless-needs", "/villain/endless"),
        ("control-character", "a header of the answer"),
        ("control-character", "the message of a refusal"),
        ("control-character", "a log line"),
        ("control-character", "a header of a call"),
        ("control-character", "a scope word"),
        ("ill-formed", "99"),
        ("too-large", "/villain/huge"),
        ("public-needs-box", "/villain/open"),
        ("answers-unclaimed", "/unclaimed"),
        ("cut-short", "/villain/spin"),
    ] {
        assert!(flagged(id, words), "no {id} with {words:?}: {report:#}");
    }
}

/// What a route says into a header that its path decodes to is found by a
/// hostile path, and by no plain one.
#[tokio::test]
async fn what_is_echoed_into_a_header_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let requests = folder.path().join("requests");
    let line = r#"{"method":"POST","path":"/villain/echo/%0d%0ax:y"}"#;
    fs::write(&requests, line).expect("a file");
    let file = requests.to_str().expect("a path");
    let more = ["--json", "--count", "0", "--requests", file];
    let report = audit(&component(Plugin::Villain), &more).await.json();
    let echoed = findings(&report).iter().any(|finding| {
        finding["id"] == "control-character"
            && finding["request"]
                .as_str()
                .is_some_and(|name| name.contains("/echo/"))
    });
    let header = findings(&report).iter().any(|finding| {
        finding["id"] == "ill-formed"
            && finding["what"]
                .as_str()
                .is_some_and(|what| what.contains("x-echo"))
    });
    assert!(echoed && header, "{report:#}");
    fs::write(&requests, "{\"path\":\"nowhere\"}").expect("a file");
    let refused = audit(&component(Plugin::Villain), &more).await;
    assert_eq!(refused.code, Some(2));
    assert!(refused.failed().contains("line 1"));
}

#[tokio::test]
async fn sarif_has_what_its_schema_requires() {
    let output = audit(&component(Plugin::Villain), &["--sarif", "--count", "0"]).await;
    assert_eq!(output.code, Some(1));
    let sarif = output.json();
    assert_eq!(sarif["version"], "2.1.0");
    let run = &sarif["runs"][0];
    let driver = &run["tool"]["driver"];
    assert!(driver["name"].is_string());
    let rules = driver["rules"].as_array().expect("rules");
    let results = run["results"].as_array().expect("results");
    assert!(!results.is_empty());
    for result in results {
        let index = result["ruleIndex"].as_u64().expect("an index");
        let rule = &rules[usize::try_from(index).expect("small")];
        assert_eq!(rule["id"], result["ruleId"]);
        assert_eq!(rule["defaultConfiguration"]["level"], result["level"]);
        assert!(
            ["note", "warning", "error"]
                .iter()
                .any(|level| result["level"] == *level)
        );
        assert!(
            result["message"]["text"]
                .as_str()
                .is_some_and(|text| !text.is_empty())
        );
        let place = &result["locations"][0]["physicalLocation"]["artifactLocation"];
        assert_eq!(place["uri"], run["artifacts"][0]["location"]["uri"]);
    }
}

#[tokio::test]
async fn two_versions_are_held_against_each_other() {
    let notes = component(Plugin::Notes);
    let path = notes.to_str().expect("a path");
    let same = audit(&notes, &["--json", "--against", path])
        .await
        .ok()
        .json();
    let comparison = &same["comparison"];
    assert_eq!(comparison["permissions"], serde_json::json!([]));
    assert_eq!(comparison["apart"], 0);
    assert!(comparison["asked"].as_u64() > Some(50));

    let clerk = component(Plugin::Clerk);
    let more = ["--against", path, "--count", "4"];
    let text = audit(&clerk, &more).await.stdout;
    for words in [
        "gains       route:/clerk",
        "loses       route:/notes",
        "claims no such route",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[tokio::test]
async fn what_cannot_be_audited_is_said_at_once_and_is_a_2() {
    let folder = tempfile::tempdir().expect("a folder");
    let large = folder.path().join("large");
    fs::File::create(&large)
        .and_then(|file| file.set_len(200 << 20))
        .expect("a file");
    let text = folder.path().join("text");
    fs::write(&text, "(component)").expect("a file");
    let cut = folder.path().join("cut");
    let whole = fs::read(component(Plugin::Notes)).expect("a component");
    fs::write(&cut, &whole[..whole.len() / 2]).expect("a file");
    for (file, words) in [
        (large, "a plugin at most"),
        (text, "not binary WebAssembly"),
        (cut, "malformed"),
        (folder.path().join("nowhere"), "No such file"),
        (folder.path().to_owned(), "not a regular file"),
    ] {
        let output = audit(&file, &[]).await;
        assert_eq!(output.code, Some(2), "{output:#?}");
        assert_eq!(output.stdout, "");
        assert!(output.failed().contains(words), "{words}");
    }
}

#[tokio::test]
async fn what_is_no_plugin_is_an_error_that_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let module = folder.path().join("module.wasm");
    fs::write(&module, b"\0asm\x01\0\0\0").expect("a file");
    let output = audit(&module, &["--json"]).await;
    assert_eq!(output.code, Some(1), "{output:#?}");
    let report = output.json();
    assert_eq!(ids(&report), BTreeSet::from(["other-world"]));
    assert_eq!(report["world"]["fits"], false);
    assert_eq!(report["behaviour"], Value::Null);
}

/// The walk of `docs/security.md` names tests; whoever follows it finds them.
#[test]
fn every_test_that_the_walk_names_exists() {
    let root = plugins::root();
    let walk = fs::read_to_string(root.join("docs/security.md")).expect("the walk");
    let sources: String = ["tests/e2e", "host/src"]
        .iter()
        .flat_map(|folder| sources_under(&root.join(folder)))
        .map(|file| fs::read_to_string(file).expect("a source"))
        .collect();
    let is_test = |name: &&str| {
        name.matches('_').count() >= 3
            && name
                .chars()
                .all(|each| each.is_ascii_lowercase() || each == '_' || each == '2')
    };
    let named: BTreeSet<&str> = walk.split('`').skip(1).step_by(2).filter(is_test).collect();
    assert!(named.len() > 25, "{named:?}");
    for name in named {
        assert!(sources.contains(&format!("fn {name}()")), "no test {name}");
    }
}

fn sources_under(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths
        .flat_map(|path| match path.is_dir() {
            true => sources_under(&path),
            false => vec![path],
        })
        .collect()
}
