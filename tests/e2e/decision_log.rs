//! The decision log of the real host: it holds after a load and a kill, every
//! tampering is found, a full disk stops what must be recorded, and nothing
//! secret stands in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jackfield_tests::client::Request;
use jackfield_tests::plugins::root;
use jackfield_tests::world::{KEY, VALUE, World, files_below, is_refusal, messages};
use jackfield_tests::{contains, soon};
use ring::digest::{SHA256, digest};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::{Value, json};

use crate::world;

const CANARY: &str = "canary-7f3a9c51";

async fn kept(mode: &str, more: &str) -> World {
    world()
        .tables(&format!("[decision_log]\nmode = {mode:?}\n{more}"))
        .ready()
        .await
}

fn folder(world: &World) -> PathBuf {
    world.home.state().join("decision-log")
}

/// The records of requests.
async fn decisions(world: &World, arguments: &[&str]) -> Vec<Value> {
    let arguments = [&["log", "show", "--json"], arguments].concat();
    let printed = world.command(&arguments, "").await.ok().stdout;
    let records = printed.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a JSON line");
        record["decision"].clone()
    });
    records.filter(|decision| !decision.is_null()).collect()
}

async fn holds(world: &World) -> Value {
    let output = world.command(&["log", "verify", "--json"], "").await;
    let report = output.json();
    assert_eq!(output.code, Some(0), "{report:#}");
    report
}

async fn does_not_hold(world: &World, arguments: &[&str]) -> Value {
    let arguments = [&["log", "verify", "--json"], arguments].concat();
    let output = world.command(&arguments, "").await;
    assert_eq!(output.code, Some(1), "{output:#?}");
    output.json()["findings"][0].clone()
}

#[tokio::test]
async fn a_request_leaves_one_record_that_holds_nothing_secret() {
    let mut world = kept("must", "").await;
    let token = world.token.clone();
    let secret = messages()
        .bearer(&token)
        .header("x-note", CANARY)
        .body(format!("{{\"model\":\"{CANARY}\"}}"));
    let target = format!("/egress/OPENAI/{CANARY}?q={CANARY}");
    assert_eq!(world.send(&secret).await.status, 200);
    let request = Request::get(&target)
        .bearer(&token)
        .header("cookie", CANARY);
    assert_eq!(world.send(&request).await.status, 200);
    let undeclared = Request::get(&format!("/egress/GITHUB/{CANARY}"));
    world
        .refuses(&undeclared.bearer(&token), 403, &["GITHUB"])
        .await;
    world.refuses(&messages().bearer("nobody"), 403, &[]).await;
    let hello = Request::get("/llm/anthropic/api/hello");
    assert_eq!(world.send(&hello).await.status, 200);
    world.take_host().stop().await;

    let told = decisions(&world, &[]).await;
    assert_eq!(told.len(), 5, "{told:#?}");
    let check = |index: usize, expected: Value| {
        for (name, value) in expected.as_object().expect("members") {
            assert_eq!(
                &told[index][name], value,
                "{index} {name}: {:#}",
                told[index]
            );
        }
    };
    check(
        0,
        json!({"box": "box-a", "route": "/llm/anthropic", "capability": "inference", "words": ["agent"],
            "verdict": "forward", "outcome": "forward", "refusal": null, "plugin": "inference",
            "target": "upstream:anthropic", "status": 200, "bytes_in": 27}),
    );
    assert_eq!(told[0]["hash"].as_str().map(str::len), Some(64));
    let times = ["decided_us", "answered_us", "ended_us"].map(|name| told[0][name].as_u64());
    assert!(
        times.iter().all(Option::is_some) && times.is_sorted(),
        "{times:?}"
    );
    check(
        1,
        json!({"box": "box-a", "route": "/egress", "words": ["OPENAI"], "verdict": "forward",
            "target": "secret:OPENAI", "status": 200}),
    );
    check(
        2,
        json!({"box": "box-a", "words": ["GITHUB"], "verdict": "refuse", "refusal": "permission_error",
            "target": null, "status": 403}),
    );
    check(
        3,
        json!({"box": null, "words": null, "verdict": "refuse", "status": 403}),
    );
    check(
        4,
        json!({"box": null, "words": [], "verdict": "answer", "status": 200}),
    );
    assert_eq!(decisions(&world, &["--box", "box-a"]).await.len(), 3);
    let late = decisions(&world, &["--since", "2999-01-01T00:00:00Z"]).await;
    assert!(late.is_empty());
    let shown = world.command(&["log", "show"], "").await.ok().stdout;
    assert!(
        shown.contains("box-a /llm/anthropic words [\"agent\"]"),
        "{shown}"
    );

    assert_eq!(holds(&world).await["notes"], json!([]));
    let files = files_below(&folder(&world));
    assert!(files.len() >= 2);
    for file in files {
        let bytes = fs::read(&file).expect("a file");
        for secret in [CANARY, KEY, VALUE, &token] {
            assert!(!contains(&bytes, secret.as_bytes()), "{}", file.display());
        }
    }
}

#[tokio::test]
async fn without_a_log_nothing_is_kept() {
    let mut world = world().ready().await;
    assert_eq!(
        world.send(&messages().bearer(&world.token)).await.status,
        200
    );
    world.take_host().stop().await;
    assert!(!folder(&world).exists());
    let said = world.command(&["log", "verify"], "").await.failed();
    assert!(said.contains("could not verify"), "{said}");
}

/// Boxes that ask until their connection breaks, and how many answers they got.
async fn load(world: &World, boxes: usize) -> (Vec<tokio::task::JoinHandle<()>>, Arc<AtomicUsize>) {
    let answered = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for _ in 0..boxes {
        let mut client = world.client().await;
        let request = messages().bearer(&world.token);
        let answered = Arc::clone(&answered);
        tasks.push(tokio::spawn(async move {
            loop {
                if client
                    .send_bytes(&request.bytes(([127, 0, 0, 1], 1).into()))
                    .await
                    .is_err()
                {
                    return;
                }
                match client.response().await {
                    Ok(response) => assert_eq!(response.status, 200),
                    Err(_) => return,
                }
                answered.fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    (tasks, answered)
}

#[tokio::test]
async fn a_log_holds_after_a_load_with_a_kill_in_its_middle() {
    let mut world = kept("must", "segment_bytes = 16384\nsegments = 1000\n").await;
    let (tasks, answered) = load(&world, 4).await;
    let enough = async {
        while answered.load(Ordering::SeqCst) < 200 {
            tokio::task::yield_now().await;
        }
    };
    soon("a load", enough).await;
    world.take_host().crash().await;
    for task in tasks {
        soon("a box ends", task).await.expect("no answer was wrong");
    }
    // As the kill left it, before any start.
    let before = holds(&world).await;
    let kept = before["decisions"].as_u64().expect("a number");
    assert!(kept > 0, "{before:#}");
    world.serve_as_approved().await;
    for _ in 0..25 {
        assert_eq!(
            world.send(&messages().bearer(&world.token)).await.status,
            200
        );
    }
    world.take_host().stop().await;
    let after = holds(&world).await;
    assert_eq!(after["decisions"].as_u64(), Some(kept + 25), "{after:#}");
    let notes = after["notes"].to_string();
    assert!(notes.contains("was not ended in order"), "{notes}");
    assert!(after["segments"].as_u64() > Some(1), "{after:#}");
}

#[tokio::test]
async fn tampering_is_found_and_its_place_is_said() {
    let mut world = kept("best-effort", "segment_bytes = 4096\n").await;
    for _ in 0..20 {
        assert_eq!(
            world.send(&messages().bearer(&world.token)).await.status,
            200
        );
    }
    let key = world.command(&["log", "key"], "").await.ok().stdout;
    world.take_host().stop().await;
    let head = world.command(&["log", "head"], "").await.ok();
    let anchor = world.home.path().join("anchor.json");
    fs::write(&anchor, &head.stdout).expect("a file");
    let anchor = anchor.display().to_string();
    assert_eq!(head.json()["key"].as_str(), Some(key.trim()));
    holds(&world).await;
    let with_anchor = ["log", "verify", "--anchor", &anchor, "--key", key.trim()];
    world.command(&with_anchor, "").await.ok();

    // Who was served is changed.
    let first = folder(&world).join("0000000001.log");
    let text = fs::read_to_string(&first).expect("a segment");
    fs::write(&first, text.replacen("box-a", "box-b", 1)).expect("a segment");
    let finding = does_not_hold(&world, &[]).await;
    let place = finding["place"].as_str().unwrap_or_default();
    assert!(place.starts_with("0000000001.log, line"), "{finding}");
    fs::write(&first, &text).expect("a segment");
    holds(&world).await;
    // A segment goes.
    let second = folder(&world).join("0000000002.log");
    let aside = world.home.path().join("aside");
    fs::rename(&second, &aside).expect("it goes");
    let finding = does_not_hold(&world, &[]).await;
    assert!(
        finding["what"].to_string().contains("segment 2 before it"),
        "{finding}"
    );
    fs::rename(&aside, &second).expect("it comes back");
    // The whole log goes, and the host itself writes and signs another.
    fs::remove_dir_all(folder(&world)).expect("it goes");
    world.serve_as_approved().await;
    world.take_host().stop().await;
    holds(&world).await;
    let finding = does_not_hold(&world, &["--anchor", &anchor]).await;
    assert!(
        finding["what"].to_string().contains("written anew"),
        "{finding}"
    );
}

/// What `docs/decision-log.md` says, and nothing of the host's: the links of the
/// log, and the signed heads that hold.
fn by_the_page(folder: &Path) -> (u64, u64) {
    let (mut head, mut links, mut signed) = ([0_u8; 32], 0_u64, 0);
    let mut files = files_below(folder);
    files.sort();
    for file in files {
        if file.extension().is_none_or(|end| end != "log") {
            continue;
        }
        let bytes = fs::read(&file).expect("a segment");
        let mut lines: Vec<u8> = Vec::new();
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let value: Value = serde_json::from_slice(line).expect("a line of JSON");
            let hex = |head: &[u8; 32]| {
                head.iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>()
            };
            if value.get("segment").is_some() {
                assert_eq!(value["previous"], json!(hex(&head)), "{value}");
            }
            if value.get("signed").is_some() {
                let text = |name: &str| value[name].as_str().expect("a text").to_owned();
                let message = format!(
                    "jackfield decision log 1 head\n{}\n{}\n{}\n{}\n",
                    value["signed"],
                    value["records"],
                    text("head"),
                    text("time")
                );
                let bytes = |name: &str| STANDARD.decode(text(name)).expect("base64");
                let key = UnparsedPublicKey::new(&ED25519, bytes("key"));
                let holds = key.verify(message.as_bytes(), &bytes("signature"));
                assert!(
                    holds.is_ok() && value["head"] == json!(hex(&head)),
                    "{value}"
                );
                signed += 1;
            }
            if value.get("link").is_none() {
                lines.extend_from_slice(line);
                continue;
            }
            links += 1;
            let mut covered = b"jackfield decision log 1\n".to_vec();
            covered.extend_from_slice(&head);
            covered.extend_from_slice(&links.to_be_bytes());
            covered.append(&mut lines);
            let hash = digest(&SHA256, &covered);
            head.copy_from_slice(hash.as_ref());
            assert_eq!(value["link"], json!(links));
            assert_eq!(value["head"], json!(hex(&head)), "{value}");
        }
    }
    (links, signed)
}

#[tokio::test]
async fn another_program_verifies_it_by_the_page_alone() {
    let mut world = kept("must", "segment_bytes = 4096\nsegments = 1000\n").await;
    for _ in 0..2 {
        for _ in 0..15 {
            assert_eq!(
                world.send(&messages().bearer(&world.token)).await.status,
                200
            );
        }
        world.restart().await;
    }
    world.take_host().stop().await;
    let report = holds(&world).await;
    let (links, signed) = by_the_page(&folder(&world));
    assert_eq!(report["links"], json!(links));
    assert_eq!(report["signed_heads"], json!(signed));
    assert!(links > 6 && signed >= 6, "{report:#}");
    let page = fs::read_to_string(root().join("docs/decision-log.md")).expect("the page");
    for line in page.lines().filter(|line| line.starts_with("{\"link\"")) {
        // The page's example is the one that its command makes.
        let mut covered = b"jackfield decision log 1\n".to_vec();
        covered.extend_from_slice(&[0; 39]);
        covered.extend_from_slice(b"\x01{\"record\":1}\n");
        let hash = digest(&SHA256, &covered);
        let hash: String = hash
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert!(line.contains(&hash), "{line}");
    }
}

/// Puts the host on a disk whose log folder is full while `flag` exists.
fn on_a_full_disk(world: &mut World, flag: &Path) {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("full_disk/full.c");
    let draft = tempfile::tempdir_in(target).expect("a folder");
    let (built, shim) = (draft.path().join("full.so"), target.join("full.so"));
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
        .args([&built, &source])
        .arg("-ldl")
        .status()
        .expect("the C compiler `cc` runs: install gcc");
    assert!(compiled.success(), "full.c does not compile");
    fs::rename(built, &shim).expect("both lie in the target folder");
    let watch = folder(world);
    world.home.set("LD_PRELOAD", shim);
    world.home.set("FULL_WATCH", watch);
    world.home.set("FULL_FLAG", flag);
}

async fn on_a_disk(mode: &str, flag: &Path) -> World {
    let mut world = world()
        .tables(&format!("[decision_log]\nmode = {mode:?}\n"))
        .prepare()
        .await;
    on_a_full_disk(&mut world, flag);
    world.serve().await;
    world.token = world.add_box("box-a").await;
    world
        .credential(KEY, &["anthropic", "--kind", "api-key"])
        .await;
    world
        .declare(&world.token, &[("inference", &["agent"])])
        .await;
    world
}

async fn until_status(world: &World, status: u16) -> usize {
    let mut served = 0;
    let met = async {
        loop {
            let response = world.send(&messages().bearer(&world.token)).await;
            served += usize::from(response.status == 200);
            if response.status == status {
                return response;
            }
        }
    };
    let response = soon("the status", met).await;
    if status == 503 {
        let words = ["must keep a record", "cannot be written"];
        is_refusal("a full disk", &response, 503, &words);
    }
    served
}

#[tokio::test]
async fn a_full_disk_stops_what_must_be_recorded_and_loses_nothing() {
    let outer = tempfile::tempdir().expect("a folder");
    let flag = outer.path().join("full");
    let mut world = on_a_disk("must", &flag).await;
    let mut served = until_status(&world, 200).await;
    fs::write(&flag, "").expect("a file");
    served += until_status(&world, 503).await;
    let mark = world.mark();
    world
        .refuses(&messages().bearer(&world.token), 503, &[])
        .await;
    assert_eq!(world.mark(), mark);
    fs::remove_file(&flag).expect("room again");
    served += until_status(&world, 200).await;
    world.take_host().stop().await;
    let report = holds(&world).await;
    assert_eq!(report["lost"], json!(0), "{report:#}");
    let told = decisions(&world, &[]).await;
    let forwarded = told.iter().filter(|one| one["status"] == json!(200));
    assert_eq!(forwarded.count(), served);
}

#[tokio::test]
async fn a_full_disk_is_counted_where_the_best_is_done() {
    let outer = tempfile::tempdir().expect("a folder");
    let flag = outer.path().join("full");
    let mut world = on_a_disk("best-effort", &flag).await;
    until_status(&world, 200).await;
    fs::write(&flag, "").expect("a file");
    let mut served = 1;
    let lost = async {
        loop {
            let metrics = world.home.metrics().await;
            let lost = metrics
                .lines()
                .find_map(|line| line.strip_prefix("jackfield_decision_log_lost_total "));
            if lost.is_some_and(|count| count != "0") {
                return;
            }
            served += until_status(&world, 200).await;
        }
    };
    soon("a loss", lost).await;
    fs::remove_file(&flag).expect("room again");
    served += until_status(&world, 200).await;
    world.take_host().stop().await;
    let report = holds(&world).await;
    let lost = report["lost"].as_u64().expect("a number");
    let kept = report["decisions"].as_u64().expect("a number");
    assert!(lost > 0, "{report:#}");
    assert_eq!(lost + kept, served as u64, "{report:#}");
    assert!(
        report["notes"].to_string().contains("could not be written"),
        "{report:#}"
    );
}
