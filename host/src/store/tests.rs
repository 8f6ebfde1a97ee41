//! How a store behaves, whichever engine is behind it. Each test runs on the
//! embedded engine and, from several seeds, on the awkward one.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::memory::{Awkward, open_memory};
use super::mirror::{Mirror, Mirrored};
use super::*;

const SEEDS: u64 = 12;

/// Runs a behavior on every engine.
async fn on_every_engine<F>(behavior: impl Fn(Arc<dyn Store>) -> F)
where
    F: Future<Output = ()>,
{
    let folder = tempfile::tempdir().unwrap();
    behavior(open_embedded(folder.path())).await;
    for seed in 0..SEEDS {
        behavior(open_memory(Awkward {
            seed,
            ..Awkward::default()
        }))
        .await;
    }
}

/// As [`on_every_engine`], but no watch is lost.
async fn on_every_steady_engine<F>(behavior: impl Fn(Arc<dyn Store>) -> F)
where
    F: Future<Output = ()>,
{
    let folder = tempfile::tempdir().unwrap();
    behavior(open_embedded(folder.path())).await;
    for seed in 0..SEEDS {
        behavior(open_memory(Awkward {
            seed,
            losses: 0,
            history: 1024,
            ..Awkward::default()
        }))
        .await;
    }
}

fn open_embedded(folder: &Path) -> Arc<dyn Store> {
    open_sled(&folder.join("store"), SledSettings::default()).unwrap()
}

fn put(key: &str, value: &[u8]) -> Batch {
    Batch {
        conditions: vec![],
        changes: vec![Change::Put(key.into(), value.to_vec())],
    }
}

fn delete(key: &str) -> Batch {
    Batch {
        conditions: vec![],
        changes: vec![Change::Delete(key.into())],
    }
}

fn on_condition(condition: Condition, key: &str, value: &[u8]) -> Batch {
    Batch {
        conditions: vec![condition],
        ..put(key, value)
    }
}

async fn value(store: &dyn Store, key: &str) -> Option<Vec<u8>> {
    let record = store.get(key.as_bytes()).await.unwrap();
    record.map(|record| record.value)
}

async fn keys(store: &dyn Store, prefix: &str) -> Vec<String> {
    let (records, _) = store.scan(prefix.as_bytes()).await.unwrap();
    let keys = records.into_iter().map(|record| record.key);
    keys.map(|key| String::from_utf8(key).unwrap()).collect()
}

#[tokio::test]
async fn what_was_put_is_found_until_it_is_deleted() {
    on_every_engine(|store| async move {
        assert_eq!(value(&*store, "a/1").await, None);
        let first = store.commit(put("a/1", b"one")).await.unwrap();
        let second = store.commit(put("a/1", b"two")).await.unwrap();
        assert!(Revision(0) < first && first < second);
        let record = store.get(b"a/1").await.unwrap().unwrap();
        assert_eq!((record.value, record.revision), (b"two".to_vec(), second));
        store.commit(delete("a/1")).await.unwrap();
        store.commit(delete("a/1")).await.unwrap();
        assert_eq!(value(&*store, "a/1").await, None);
    })
    .await;
}

#[tokio::test]
async fn a_scan_holds_its_prefix_in_order() {
    on_every_engine(|store| async move {
        for key in ["b/1", "a/2", "a/10", "a", "a/1", "a/1/x", "a-"] {
            store.commit(put(key, key.as_bytes())).await.unwrap();
        }
        assert_eq!(keys(&*store, "a/").await, ["a/1", "a/1/x", "a/10", "a/2"]);
        assert_eq!(
            keys(&*store, "a").await,
            ["a", "a-", "a/1", "a/1/x", "a/10", "a/2"]
        );
        assert_eq!(keys(&*store, "").await.len(), 7);
        assert!(keys(&*store, "c").await.is_empty());
        assert_eq!(store.scan(b"c").await.unwrap().1, Revision(7));
    })
    .await;
}

#[tokio::test]
async fn pages_hold_their_prefix_in_order_and_end() {
    on_every_engine(|store| async move {
        let long = vec![1; 10_000];
        for key in ["a", "b/", "b/1", "b/1/x", "b/2", "b/20", "b/3", "b0", "c"] {
            store.commit(put(key, &long)).await.unwrap();
        }
        let page = async |after: Option<&str>, records: usize, bytes: usize| -> Vec<String> {
            let page = Page { records, bytes };
            let after = after.map(str::as_bytes);
            let found = store.page(b"b/", after, page).await.unwrap();
            assert!(found.iter().all(|record| record.value == long));
            let names = found
                .into_iter()
                .map(|record| String::from_utf8(record.key).unwrap());
            names.collect()
        };
        let all = ["b/", "b/1", "b/1/x", "b/2", "b/20", "b/3"];
        assert_eq!(page(None, 100, usize::MAX).await, all);
        assert_eq!(page(None, 2, usize::MAX).await, all[..2]);
        assert_eq!(page(Some("b/1"), 2, usize::MAX).await, all[2..4]);
        assert_eq!(page(Some("b/2"), 9, usize::MAX).await, all[4..]);
        assert_eq!(page(Some("b/25"), 9, usize::MAX).await, all[5..]);
        assert_eq!(page(Some("a"), 9, usize::MAX).await, all);
        assert_eq!(page(Some("b/3"), 9, usize::MAX).await, [""; 0]);
        assert_eq!(page(Some("zz"), 9, usize::MAX).await, [""; 0]);
        // One at least, and no more than there is room for.
        assert_eq!(page(None, 9, 1).await, all[..1]);
        assert_eq!(page(None, 9, 25_000).await, all[..3]);
        assert_eq!(page(None, 0, usize::MAX).await, [""; 0]);
    })
    .await;
}

#[tokio::test]
async fn a_batch_happens_whole_or_not_at_all() {
    on_every_engine(|store| async move {
        let revision = store.commit(put("k", b"1")).await.unwrap();
        let holds = [
            Condition::Present(b"k".to_vec()),
            Condition::AtRevision(b"k".to_vec(), revision),
        ];
        let fails = [
            Condition::Absent(b"k".to_vec()),
            Condition::Present(b"missing".to_vec()),
            Condition::AtRevision(b"k".to_vec(), Revision(revision.0 + 1)),
            Condition::AtRevision(b"missing".to_vec(), revision),
        ];
        for failing in fails {
            let batch = Batch {
                conditions: holds.iter().cloned().chain([failing.clone()]).collect(),
                changes: vec![
                    Change::Put(b"x".to_vec(), b"x".to_vec()),
                    Change::Delete(b"k".to_vec()),
                ],
            };
            assert_eq!(
                store.commit(batch).await,
                Err(StoreError::Conflict),
                "{failing:?}"
            );
            assert_eq!(value(&*store, "x").await, None);
            assert_eq!(value(&*store, "k").await, Some(b"1".to_vec()));
        }
        let batch = Batch {
            conditions: holds.to_vec(),
            changes: vec![
                Change::Put(b"x".to_vec(), b"x".to_vec()),
                Change::Delete(b"k".to_vec()),
            ],
        };
        let both = store.commit(batch).await.unwrap();
        assert_eq!(store.get(b"x").await.unwrap().unwrap().revision, both);
        assert_eq!(value(&*store, "k").await, None);
        store
            .commit(on_condition(Condition::Absent(b"k".to_vec()), "k", b"2"))
            .await
            .unwrap();
    })
    .await;
}

#[tokio::test]
async fn of_two_that_claim_one_key_one_gets_it() {
    on_every_engine(|store| async move {
        for round in 0..8 {
            let key = format!("claim/{round}");
            let claim = |who: &[u8]| {
                let condition = Condition::Absent(key.clone().into_bytes());
                store.commit(on_condition(condition, &key, who))
            };
            let results = tokio::join!(claim(b"a"), claim(b"b"), claim(b"c"));
            let won = [results.0, results.1, results.2];
            assert_eq!(won.iter().filter(|result| result.is_ok()).count(), 1);
        }
    })
    .await;
}

#[tokio::test]
async fn no_increment_is_lost_between_writers_that_retry() {
    on_every_engine(|store| async move {
        store.commit(put("n", b"0")).await.unwrap();
        let increment = || async {
            loop {
                let record = store.get(b"n").await.unwrap().unwrap();
                let number: u32 = String::from_utf8(record.value).unwrap().parse().unwrap();
                let condition = Condition::AtRevision(b"n".to_vec(), record.revision);
                let next = (number + 1).to_string();
                match store
                    .commit(on_condition(condition, "n", next.as_bytes()))
                    .await
                {
                    Ok(_) => return,
                    Err(StoreError::Conflict) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        };
        futures_util::future::join_all((0..20).map(|_| increment())).await;
        assert_eq!(value(&*store, "n").await, Some(b"20".to_vec()));
    })
    .await;
}

#[tokio::test]
async fn long_values_come_back_whole_and_leave_nothing_behind() {
    on_every_engine(|store| async move {
        for length in [0, 1, 4095, 4096, 4097, 8192, MAX_VALUE, 5000, 0, 10_000, 3] {
            let long: Vec<u8> = (0..=250).cycle().take(length).collect();
            store.commit(put("a/long", &long)).await.unwrap();
            store.commit(put("a/long2", b"next")).await.unwrap();
            assert!(
                value(&*store, "a/long").await == Some(long),
                "{length} bytes"
            );
            assert_eq!(keys(&*store, "a/").await, ["a/long", "a/long2"]);
        }
        store.commit(delete("a/long")).await.unwrap();
        assert_eq!(keys(&*store, "").await, ["a/long2"]);
    })
    .await;
}

#[tokio::test]
async fn what_is_too_large_or_malformed_is_refused() {
    on_every_engine(|store| async move {
        let check = async |batch: Batch, expected: &str| {
            let error = store.commit(batch).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(put("k", &vec![0; MAX_VALUE + 1]), "a value of 65537 bytes").await;
        check(put(&"k".repeat(MAX_KEY + 1), b""), "a key of 513 bytes").await;
        check(put("", b""), "malformed").await;
        check(put("a\0b", b""), "malformed").await;
        let many = (0..17).map(|n| Change::Put(format!("k{n}").into(), vec![0; MAX_VALUE]));
        let batch = Batch {
            conditions: vec![],
            changes: many.collect(),
        };
        check(batch, "a batch of").await;
        let twice = Batch {
            conditions: vec![],
            changes: vec![
                Change::Delete(b"k".to_vec()),
                Change::Put(b"k".to_vec(), vec![]),
            ],
        };
        check(twice, "one key twice").await;
        assert!(keys(&*store, "").await.is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_watch_shows_each_commit_once_and_in_order() {
    on_every_steady_engine(|store| async move {
        store.commit(put("a/0", b"before")).await.unwrap();
        let from = store.commit(put("b/0", b"other")).await.unwrap();
        let mut early = store.watch(b"a/", Revision(0)).await.unwrap();
        let mut late = store.watch(b"a/", from).await.unwrap();
        store.commit(put("a/1", b"1")).await.unwrap();
        store.commit(delete("a/0")).await.unwrap();
        store.commit(delete("a/0")).await.unwrap();
        store.commit(put("b/1", b"other")).await.unwrap();

        let seen = async |watch: &mut Watch, from: u64, until: u64| {
            let mut seen = Vec::new();
            for revision in from + 1..=until {
                let changes = watch.next().await.unwrap();
                assert_eq!(changes.revision, Revision(revision));
                seen.extend(changes.events.into_iter().map(|event| {
                    assert_eq!(event.revision, Revision(revision));
                    (String::from_utf8(event.key).unwrap(), event.value)
                }));
            }
            seen
        };
        let expected_late = vec![
            ("a/1".to_owned(), Some(b"1".to_vec())),
            ("a/0".to_owned(), None),
        ];
        let mut expected_early = vec![("a/0".to_owned(), Some(b"before".to_vec()))];
        expected_early.extend(expected_late.clone());
        assert_eq!(seen(&mut late, 2, 6).await, expected_late);
        assert_eq!(seen(&mut early, 0, 6).await, expected_early);
    })
    .await;
}

#[tokio::test]
async fn a_watch_from_the_forgotten_past_or_the_future_is_compacted() {
    let compacted = |result: Result<Watch, StoreError>| {
        assert!(matches!(result, Err(StoreError::Compacted)), "{result:?}");
    };
    let check = async |store: Arc<dyn Store>| {
        for round in 0..10 {
            store.commit(put(&format!("k{round}"), b"v")).await.unwrap();
        }
        compacted(store.watch(b"", Revision(0)).await);
        compacted(store.watch(b"", Revision(5)).await);
        compacted(store.watch(b"", Revision(11)).await);
        let mut watch = store.watch(b"", Revision(6)).await.unwrap();
        assert_eq!(watch.next().await.unwrap().revision, Revision(7));
    };
    let folder = tempfile::tempdir().unwrap();
    let settings = SledSettings {
        history_commits: 4,
        ..SledSettings::default()
    };
    check(open_sled(&folder.path().join("store"), settings).unwrap()).await;
    check(open_memory(Awkward {
        losses: 0,
        ..Awkward::default()
    }))
    .await;
}

#[tokio::test]
async fn a_watch_that_falls_behind_is_lost_and_blocks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let store = open_embedded(folder.path());
    let mut watch = store.watch(b"", Revision(0)).await.unwrap();
    let puts = (0..2000).map(|n| store.commit(put(&format!("k{n}"), b"v")));
    futures_util::future::try_join_all(puts).await.unwrap();
    let mut shown = 0;
    let end = loop {
        let next = tokio::time::timeout(Duration::from_secs(30), watch.next()).await;
        match next.expect("the watch ends") {
            Ok(_) => shown += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((shown, end), (1024, StoreError::Lost));
}

#[tokio::test]
async fn a_closed_store_ends_its_watches_and_takes_nothing() {
    on_every_steady_engine(|store| async move {
        let mut watch = store.watch(b"", Revision(0)).await.unwrap();
        store.commit(put("k", b"v")).await.unwrap();
        store.close().await;
        store.close().await;
        assert_eq!(watch.next().await.unwrap().revision, Revision(1));
        assert_eq!(watch.next().await.unwrap_err(), StoreError::Closed);
        assert_eq!(store.commit(put("k", b"w")).await, Err(StoreError::Closed));
        assert_eq!(store.get(b"k").await, Err(StoreError::Closed));
        assert_eq!(store.scan(b"").await, Err(StoreError::Closed));
        assert!(store.watch(b"", Revision(1)).await.is_err());
    })
    .await;
}

/// A mirror that keeps what it is told, and how often it was told everything.
#[derive(Default)]
struct Copy {
    records: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    resets: Mutex<u32>,
}

impl Copy {
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.records.lock().unwrap().get(key.as_bytes()).cloned()
    }
}

impl Mirrored for Copy {
    fn reset(&self, records: &[Record]) {
        *self.resets.lock().unwrap() += 1;
        let records = records
            .iter()
            .map(|record| (record.key.clone(), record.value.clone()));
        *self.records.lock().unwrap() = records.collect();
    }

    fn apply(&self, event: &Event) {
        let mut records = self.records.lock().unwrap();
        match &event.value {
            Some(value) => records.insert(event.key.clone(), value.clone()),
            None => records.remove(&event.key),
        };
    }
}

#[tokio::test]
async fn a_mirror_shows_a_commit_once_it_says_so_even_when_watches_are_lost() {
    let resets = Mutex::new(0);
    let resets_seen = &resets;
    on_every_engine(move |store| async move {
        store.commit(put("m/old", b"old")).await.unwrap();
        let copy = Arc::new(Copy::default());
        let mirror = Mirror::start(Arc::clone(&store), "m/", Arc::clone(&copy) as _)
            .await
            .unwrap();
        assert_eq!(copy.get("m/old"), Some(b"old".to_vec()));

        let (store, copy, mirror) = (&store, &copy, &mirror);
        let writers = (0..5).map(|writer| async move {
            for round in 0..10 {
                let key = format!("m/{writer}");
                let now = format!("{round}").into_bytes();
                let revision = store.commit(put(&key, &now)).await.unwrap();
                assert!(mirror.reached(revision).await);
                assert_eq!(copy.get(&key), Some(now));
                // Commits elsewhere are reached as well.
                let elsewhere = store.commit(put("n/x", b"x")).await.unwrap();
                assert!(mirror.reached(elsewhere).await);
            }
        });
        futures_util::future::join_all(writers).await;
        let revision = store.commit(delete("m/0")).await.unwrap();
        assert!(mirror.reached(revision).await);
        assert_eq!(copy.get("m/0"), None);
        assert_eq!(copy.get("n/x"), None);
        *resets_seen.lock().unwrap() += *copy.resets.lock().unwrap() - 1;
    })
    .await;
    assert!(resets.into_inner().unwrap() > 0, "no seed lost a watch");
}

#[tokio::test]
async fn a_mirror_of_a_closed_store_says_that_it_no_longer_follows() {
    on_every_engine(|store| async move {
        let mirror = Mirror::start(Arc::clone(&store), "m/", Arc::new(Copy::default()))
            .await
            .unwrap();
        store.close().await;
        assert!(!mirror.reached(Revision(99)).await);
    })
    .await;
}

#[tokio::test]
async fn the_awkward_engine_is_awkward_the_same_way_twice() {
    let run = async |seed| {
        let store = open_memory(Awkward {
            seed,
            conflicts: 128,
            ..Awkward::default()
        });
        let commits = (0..10).map(|n: u8| {
            let store = Arc::clone(&store);
            async move {
                let condition = Condition::Absent(vec![n + 1]);
                let batch = on_condition(condition, &char::from(n + 1).to_string(), b"");
                store.commit(batch).await
            }
        });
        futures_util::future::join_all(commits).await
    };
    let first = run(7).await;
    assert_eq!(first, run(7).await);
    assert_ne!(first, run(8).await);
    assert!(first.contains(&Err(StoreError::Conflict)));
    let order: Vec<u64> = first.iter().flatten().map(|revision| revision.0).collect();
    assert!(!order.is_sorted(), "{order:?}");
}
