//! What only the embedded engine does: keep, lock, recover and break.

use std::fs::File;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::*;
use crate::store::{Change, MAX_VALUE};

fn put(key: &str, value: &[u8]) -> Batch {
    Batch {
        conditions: vec![],
        changes: vec![Change::Put(key.into(), value.to_vec())],
    }
}

fn open(folder: &Path) -> Arc<dyn Store> {
    open_sled(folder, SledSettings::default()).unwrap()
}

#[tokio::test]
async fn a_successor_finds_records_revisions_and_history() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep/store");
    for round in 0..5_u64 {
        let store = open(&path);
        let (records, revision) = store.scan(b"").await.unwrap();
        assert_eq!((records.len() as u64, revision), (round, Revision(round)));
        let long = vec![7; 10_000];
        store
            .commit(put(&format!("k{round}"), &long))
            .await
            .unwrap();
        let mut watch = store.watch(b"", Revision(0)).await.unwrap();
        for seen in 1..=round + 1 {
            let changes = watch.next().await.unwrap();
            assert_eq!(changes.revision, Revision(seen));
            assert_eq!(changes.events[0].value.as_deref(), Some(&long[..]));
        }
        store.close().await;
    }
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[tokio::test]
async fn a_second_host_is_told_which_folder_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    let Err(error) = open_sled(folder.path(), SledSettings::default()) else {
        panic!("two hosts hold one folder");
    };
    let path = folder.path().to_owned();
    assert_eq!(error, StoreError::Locked { path: path.clone() });
    assert!(
        error.to_string().contains(path.to_str().unwrap()),
        "{error}"
    );
    first.close().await;
    open(&path).close().await;
}

#[tokio::test]
async fn closing_keeps_what_was_begun() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let commits: Vec<_> = (0..50)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit(put(&format!("k{n}"), b"v")).await })
        })
        .collect();
    tokio::task::yield_now().await;
    store.close().await;
    let mut kept = 0;
    for commit in commits {
        kept += usize::from(commit.await.unwrap().is_ok());
    }
    let (records, _) = open(folder.path()).scan(b"").await.unwrap();
    assert_eq!(records.len(), kept);
}

#[tokio::test]
async fn nothing_is_written_into_files_that_sled_never_syncs() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    let prefix = "k".repeat(200);
    for round in 0..3_u8 {
        let puts =
            (0..40).map(|n| store.commit(put(&format!("{prefix}{n}"), &vec![round; MAX_VALUE])));
        futures_util::future::try_join_all(puts).await.unwrap();
    }
    assert_eq!(
        std::fs::read_dir(folder.path().join("blobs"))
            .unwrap()
            .count(),
        0
    );
    store.close().await;
    let (records, _) = open(folder.path()).scan(b"").await.unwrap();
    assert_eq!(records.len(), 40);
    assert!(
        records
            .iter()
            .all(|record| record.value == vec![2; MAX_VALUE])
    );
}

#[tokio::test]
async fn after_a_failed_write_nothing_is_acknowledged_or_shown() {
    static FAILS: AtomicBool = AtomicBool::new(false);
    let sync = |file: &File| match FAILS.load(Ordering::SeqCst) {
        true => Err(io::Error::from_raw_os_error(5)),
        false => file.sync_data(),
    };
    let folder = tempfile::tempdir().unwrap();
    let store = Embedded::open(folder.path(), SledSettings::default(), sync).unwrap();
    store.commit(put("kept", b"v")).await.unwrap();
    let mut watch = store.watch(b"", Revision(1)).await.unwrap();

    FAILS.store(true, Ordering::SeqCst);
    let error = store.commit(put("lost", b"v")).await.unwrap_err();
    assert!(matches!(error, StoreError::Broken { .. }), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("restart the host") && text.contains("os error 5"),
        "{text}"
    );

    // A sync that works again proves nothing about the one that did not.
    FAILS.store(false, Ordering::SeqCst);
    assert_eq!(store.commit(put("later", b"v")).await, Err(error.clone()));
    assert_eq!(store.get(b"lost").await, Err(error.clone()));
    assert_eq!(watch.next().await, Err(error));
    store.close().await;
}

#[tokio::test]
async fn nobody_waits_for_a_writer_that_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let sync = |_: &File| panic!("as sled does where it cannot go on");
    let store = Embedded::open(folder.path(), SledSettings::default(), sync).unwrap();
    let mut watch = store.watch(b"", Revision(0)).await.unwrap();
    let error = dead_writer(folder.path());
    assert_eq!(store.commit(put("k", b"v")).await, Err(error.clone()));
    let told = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
    assert_eq!(told.expect("the watch ends"), Err(error.clone()));
    assert_eq!(store.commit(put("k", b"v")).await, Err(error.clone()));
    assert_eq!(store.get(b"k").await, Err(error));
    store.close().await;
}

#[tokio::test]
async fn nobody_sees_a_commit_before_the_disk_has_it() {
    use std::sync::{Condvar, Mutex};

    // The sync waits until the test lets it go on.
    static GATE: Mutex<(bool, bool)> = Mutex::new((false, false));
    static CHANGED: Condvar = Condvar::new();
    let sync = |file: &File| {
        let mut gate = GATE.lock().unwrap();
        gate.0 = true;
        CHANGED.notify_all();
        drop(CHANGED.wait_while(gate, |gate| !gate.1).unwrap());
        file.sync_data()
    };
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Embedded::open(folder.path(), SledSettings::default(), sync).unwrap());
    let mut watch = store.watch(b"", Revision(0)).await.unwrap();
    let committing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(put("k", b"v")).await }
    });
    tokio::task::spawn_blocking(|| {
        let gate = GATE.lock().unwrap();
        drop(CHANGED.wait_while(gate, |gate| !gate.0).unwrap());
    })
    .await
    .unwrap();

    // The bytes are in sled and in the page cache; the disk has not answered.
    let reading = store.get(b"k");
    let watching = watch.next();
    tokio::pin!(reading, watching);
    assert!(futures_util::poll!(&mut reading).is_pending());
    assert!(futures_util::poll!(&mut watching).is_pending());
    assert!(store.shared.settled.try_read().is_err());
    assert!(!committing.is_finished());

    GATE.lock().unwrap().1 = true;
    CHANGED.notify_all();
    assert_eq!(committing.await.unwrap(), Ok(Revision(1)));
    assert_eq!(reading.await.unwrap().unwrap().value, b"v");
    assert_eq!(watching.await.unwrap().revision, Revision(1));
    store.close().await;
}

#[tokio::test]
async fn batches_of_one_group_are_held_against_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path(), SledSettings::default(), files::sync_data);
    let mut database = database.unwrap();
    let mut group = database.group();
    let absent = |value: &[u8]| Batch {
        conditions: vec![crate::store::Condition::Absent(b"k".to_vec())],
        ..put("k", value)
    };
    let delete = Batch {
        conditions: vec![],
        changes: vec![Change::Delete(b"k".to_vec())],
    };
    let mut admit = |batch| database.admit(batch, &mut group);
    assert_eq!(admit(absent(&[1; 9000])), Ok(Revision(1)));
    assert_eq!(admit(absent(b"no")), Err(StoreError::Conflict));
    assert_eq!(admit(delete), Ok(Revision(2)));
    assert_eq!(admit(absent(&[2; 5000])), Ok(Revision(3)));
    database.put_on_disk(group).unwrap();
    let record = database.get(b"k").unwrap().unwrap();
    assert_eq!(
        (record.value, record.revision),
        (vec![2; 5000], Revision(3))
    );
    assert_eq!(database.scan(b"").unwrap().len(), 1);
}
