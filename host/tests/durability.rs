//! What was acknowledged is there after the power is cut: the store runs in a
//! process of its own, on a disk that forgets every write no `fdatasync`
//! followed, and is killed in the middle of its work.

#![expect(clippy::unwrap_used, reason = "a test ends where its ground gives way")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use jackfield::rules::names::{BoxName, SecretName};
use jackfield::rules::origin::Origin;
use jackfield::rules::plan::CredentialKey;
use jackfield::rules::secret::Secret;
use jackfield::store::{Batch, Change, SledSettings, Store, open_sled};
use jackfield::vault::{NewSecret, Vault, load_key};

#[path = "../../tests/durability/forgetful.rs"]
mod forgetful;

/// The test binary runs itself again with these to become the writer.
const FOLDER: &str = "JACKFIELD_DURABILITY_FOLDER";
const LENGTH: &str = "JACKFIELD_DURABILITY_LENGTH";

const WRITERS: u32 = 16;

#[test]
fn small_records_survive_a_cut() {
    check(100, 400);
}

#[test]
fn large_records_survive_a_cut() {
    check(60_000, 150);
}

#[test]
fn records_that_a_successor_wrote_survive_a_second_cut() {
    let folders = tempfile::tempdir().unwrap();
    let first = folders.path().join("first");
    let second = folders.path().join("second");
    let mut acknowledged = cut("writer", &folders.path().join("live"), &first, 100, 100);
    // The successor starts from what the disk kept. Its own disk is seeded with
    // the same, as the machine's would be.
    copy(&first, &second);
    for (key, round) in cut("writer", &first, &second, 100, 100) {
        acknowledged.insert(key, round);
    }
    assert_kept(&second, &acknowledged);
}

#[test]
fn a_secret_and_the_key_it_is_sealed_under_survive_a_cut() {
    let folders = tempfile::tempdir().unwrap();
    let shadow = folders.path().join("shadow");
    let kept = cut("sealer", &folders.path().join("live"), &shadow, 0, 20);
    runtime().block_on(async {
        let store = open_sled(&shadow.join("store"), SledSettings::default()).unwrap();
        let key = load_key(&shadow.join("vault.key"), &*store).await.unwrap();
        let vault = Vault::open(Arc::clone(&store), key).await.unwrap();
        for name in kept.keys() {
            let key = CredentialKey::Secret {
                box_name: BoxName::parse("a").unwrap(),
                name: SecretName::parse(name).unwrap(),
            };
            assert!(vault.open_value(&key).is_ok(), "{name}");
        }
        store.close().await;
    });
}

/// Not a test of its own: sets secrets under a key that it makes first.
#[test]
fn sealer() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    runtime().block_on(async move {
        let folder = Path::new(&folder);
        let store = open_sled(&folder.join("store"), SledSettings::default()).unwrap();
        let key = load_key(&folder.join("vault.key"), &*store).await.unwrap();
        let vault = Vault::open(store, key).await.unwrap();
        for round in 0_u32.. {
            let name = format!("S{round}");
            let secret = NewSecret {
                box_name: BoxName::parse("a").unwrap(),
                name: SecretName::parse(&name).unwrap(),
                origin: Origin::parse("api.test").unwrap(),
                allow: vec![],
                allow_private: false,
                extra_ca: None,
            };
            let value = Secret::new(b"a value to be kept".to_vec());
            vault.set_secret(secret, value, false).await.unwrap();
            say_kept(&name, round);
        }
    });
}

/// Not a test of its own: the writer that the others run and kill.
#[test]
fn writer() {
    let (Some(folder), Some(length)) = (std::env::var_os(FOLDER), std::env::var_os(LENGTH)) else {
        return;
    };
    runtime().block_on(async move {
        let store = open_sled(Path::new(&folder), SledSettings::default()).unwrap();
        let length: usize = length.to_str().unwrap().parse().unwrap();
        let writers = (0..WRITERS).map(|writer| write_for_ever(Arc::clone(&store), writer, length));
        futures_util::future::join_all(writers).await;
    });
}

/// Writes new records and overwrites old ones, and says so once each is kept.
async fn write_for_ever(store: Arc<dyn Store>, writer: u32, length: usize) {
    for round in 0_u32.. {
        let key = format!("writer-{writer}/{}", round % 40);
        let batch = Batch {
            conditions: vec![],
            changes: vec![Change::Put(key.clone().into(), value(&key, round, length))],
        };
        store.commit(batch).await.unwrap();
        say_kept(&key, round);
    }
}

/// Tells the test, which counts on it from here on.
fn say_kept(key: &str, round: u32) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\nkept {key} {round}").unwrap();
    out.flush().unwrap();
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

fn value(key: &str, round: u32, length: usize) -> Vec<u8> {
    let mut value = format!("{round} {key} ").into_bytes();
    let filler = (0..).map(|index: u32| (index.wrapping_mul(round + 7) >> 3).to_le_bytes()[0]);
    value.extend(filler.take(length));
    value
}

fn check(length: usize, enough: usize) {
    let folders = tempfile::tempdir().unwrap();
    let shadow = folders.path().join("shadow");
    let acknowledged = cut(
        "writer",
        &folders.path().join("live"),
        &shadow,
        length,
        enough,
    );
    assert_kept(&shadow, &acknowledged);
}

/// Runs a child on a forgetful disk until it has acknowledged `enough`, kills
/// it, and returns the last round acknowledged for each key.
fn cut(
    child: &str,
    live: &Path,
    shadow: &Path,
    length: usize,
    enough: usize,
) -> BTreeMap<String, u32> {
    let shim = forgetful::build_shim(Path::new(env!("CARGO_TARGET_TMPDIR")));
    std::fs::create_dir_all(live).unwrap();
    std::fs::create_dir_all(shadow).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", child, "--nocapture"])
        .env(FOLDER, live)
        .env(LENGTH, length.to_string())
        .stdout(Stdio::piped());
    forgetful::put_under(&mut command, &shim, live, shadow);
    let mut child = command.spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = BTreeMap::new();
    let mut count = 0;
    for line in lines {
        let line = line.unwrap();
        // The kill may cut the last line short; then nobody was told.
        let words: Vec<&str> = line.split(' ').collect();
        let ["kept", key, round] = words[..] else {
            continue;
        };
        acknowledged.insert(key.to_owned(), round.parse().unwrap());
        count += 1;
        if count == enough {
            child.kill().unwrap();
        }
    }
    assert!(
        count >= enough,
        "the child ended early: {count} of {enough}"
    );
    child.wait().unwrap();
    acknowledged
}

/// Opens the store from what the disk kept: every acknowledged record is there,
/// in the round acknowledged or a later one, and every record is whole.
fn assert_kept(shadow: &Path, acknowledged: &BTreeMap<String, u32>) {
    runtime().block_on(async {
        let store = open_sled(shadow, SledSettings::default()).unwrap();
        let (records, _) = store.scan(b"").await.unwrap();
        let mut found = BTreeMap::new();
        for record in records {
            let key = String::from_utf8(record.key).unwrap();
            let text = String::from_utf8_lossy(&record.value).into_owned();
            let round: u32 = text.split(' ').next().unwrap().parse().unwrap();
            let start = format!("{round} {key} ").len();
            assert!(record.value == value(&key, round, record.value.len() - start));
            found.insert(key, round);
        }
        for (key, round) in acknowledged {
            let kept = found.get(key);
            assert!(
                kept >= Some(round),
                "{key}: acknowledged {round}, kept {kept:?}"
            );
        }
        store.close().await;
    });
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}
