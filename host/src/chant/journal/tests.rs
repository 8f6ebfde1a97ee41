//! The journal: whole records, bounds, parts, pruning, on the awkward engine.

use crate::store::memory::{Awkward, open_memory};

use super::*;

const ROOM: u64 = 4 * 1024 * 1024;

fn plugin() -> PluginName {
    PluginName::parse("p").unwrap()
}

fn name(text: &str) -> BoxName {
    BoxName::parse(text).unwrap()
}

async fn open(most_bytes: u64) -> Journal {
    Journal::open(open_memory(Awkward::default()), most_bytes)
        .await
        .unwrap()
}

/// Notes records as a plan does.
async fn note(journal: &Journal, box_name: &str, records: &[Vec<u8>]) -> Result<(), JournalError> {
    let (plugin, box_name) = (plugin(), name(box_name));
    let staged = journal.stage(&plugin, &box_name, records).await?;
    loop {
        let changes = journal
            .changes(&plugin, &box_name, records, &staged)
            .await?;
        let (conditions, changes) = changes;
        match journal
            .store
            .commit(Batch {
                conditions,
                changes,
            })
            .await
        {
            Ok(_) => {
                staged.keep();
                return Ok(());
            }
            Err(StoreError::Conflict) => {}
            Err(failed) => return Err(failed.into()),
        }
    }
}

async fn all(journal: &Journal, box_name: Option<&str>) -> Vec<Noted> {
    let box_name = box_name.map(name);
    let (mut noted, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = journal
            .read(&plugin(), box_name.as_ref(), 0, after.as_deref())
            .await
            .unwrap();
        let Some(last) = page.last() else {
            return noted;
        };
        after = Some(last.place.clone());
        noted.extend(page);
    }
}

async fn count(journal: &Journal) -> u64 {
    journal.count(&plugin()).await.unwrap().0.bytes
}

fn large(byte: u8) -> Vec<u8> {
    vec![byte; 1024 * 1024]
}

#[tokio::test]
async fn records_come_back_whole_and_in_order() {
    let journal = open(ROOM).await;
    note(&journal, "a", &[b"one".to_vec(), Vec::new()])
        .await
        .unwrap();
    note(&journal, "b", &[large(7), b"beside".to_vec()])
        .await
        .unwrap();
    note(&journal, "a", &[b"last".to_vec()]).await.unwrap();
    let found: Vec<Vec<u8>> = all(&journal, None)
        .await
        .into_iter()
        .map(|each| each.record)
        .collect();
    let expected = [
        b"one".to_vec(),
        Vec::new(),
        large(7),
        b"beside".to_vec(),
        b"last".to_vec(),
    ];
    assert_eq!(found, expected);
    let of_a: Vec<Vec<u8>> = all(&journal, Some("a"))
        .await
        .into_iter()
        .map(|each| each.record)
        .collect();
    assert_eq!(of_a, [b"one".to_vec(), Vec::new(), b"last".to_vec()]);
    assert_eq!(count(&journal).await, 13 + 1024 * 1024);
    assert!(
        journal
            .store
            .scan(b"journal-stage/")
            .await
            .unwrap()
            .0
            .is_empty()
    );
}

#[tokio::test]
async fn two_records_of_one_moment_stand_beside_each_other() {
    let journal = open(ROOM).await;
    let store = &journal.store;
    let (plugin, owner) = (plugin(), name("a"));
    let one = staged::stage(store, &plugin, &owner, &[b"1".to_vec()], 5)
        .await
        .unwrap();
    let two = staged::stage(store, &plugin, &owner, &[b"2".to_vec()], 5)
        .await
        .unwrap();
    assert_eq!((one.at(), two.at()), (Some(5), Some(6)));
}

#[tokio::test]
async fn no_record_is_written_over_whatever_the_clock_says() {
    let journal = open(ROOM).await;
    let (plugin, owner) = (plugin(), name("a"));
    for records in [vec![b"1".to_vec(), b"2".to_vec()], vec![large(1)]] {
        let staged = journal.stage(&plugin, &owner, &records).await.unwrap();
        let made = journal.changes(&plugin, &owner, &records, &staged).await;
        let (conditions, changes) = made.unwrap();
        for change in changes {
            let Change::Put(key, _) = change else {
                continue;
            };
            if key.starts_with(b"journal/") {
                assert!(conditions.contains(&Condition::Absent(key)));
            }
        }
    }
}

#[tokio::test]
async fn what_would_not_fit_leaves_nothing() {
    let journal = open(2 * 1024 * 1024).await;
    note(&journal, "a", &[large(1)]).await.unwrap();
    note(&journal, "a", &[vec![0; 1024 * 1024 - 10]])
        .await
        .unwrap();
    for record in [large(2), vec![0; 11]] {
        let full = note(&journal, "a", &[record]).await;
        assert!(matches!(full, Err(JournalError::Full)), "{full:?}");
    }
    note(&journal, "a", &[vec![0; 10]]).await.unwrap();
    assert_eq!(all(&journal, None).await.len(), 3);
}

#[tokio::test]
async fn requests_side_by_side_do_not_pass_the_limit() {
    for seed in 0..20 {
        let awkward = Awkward {
            seed,
            ..Awkward::default()
        };
        let journal = &Journal::open(open_memory(awkward), 4).await.unwrap();
        let notes = (0..8).map(|_| async move { note(journal, "a", &[vec![1]]).await.is_ok() });
        let made = futures_util::future::join_all(notes).await;
        assert_eq!(made.iter().filter(|made| **made).count(), 4, "{seed}");
        assert_eq!(all(journal, None).await.len(), 4);
    }
}

#[tokio::test]
async fn parts_of_what_was_given_up_are_taken_away() {
    let journal = open(ROOM).await;
    let owner = name("a");
    let staged = journal.stage(&plugin(), &owner, &[large(1)]).await.unwrap();
    assert!(
        !journal
            .store
            .scan(b"journal-part/")
            .await
            .unwrap()
            .0
            .is_empty()
    );
    assert!(all(&journal, None).await.is_empty(), "nobody sees them yet");
    drop(staged);
    let gone = async {
        while !journal.store.scan(b"journal-").await.unwrap().0.is_empty() {
            tokio::task::yield_now().await;
        }
    };
    let waited = tokio::time::timeout(std::time::Duration::from_secs(20), gone).await;
    waited.expect("the parts go");
}

#[tokio::test]
async fn a_start_clears_what_a_host_that_was_cut_off_left() {
    let journal = open(ROOM).await;
    let store = journal.store.clone();
    let owner = name("a");
    let hour = 60 * 60 * 1_000_000_000;
    let staged = staged::stage(&store, &plugin(), &owner, &[large(1)], 5)
        .await
        .unwrap();
    // The host ends here: nobody drops it.
    std::mem::forget(staged);
    staged::clear(&store, 5 + hour - 1).await.unwrap();
    assert!(
        !store.scan(b"journal-").await.unwrap().0.is_empty(),
        "somebody may be at it"
    );
    staged::clear(&store, 5 + hour).await.unwrap();
    assert!(store.scan(b"journal-").await.unwrap().0.is_empty());
}

#[tokio::test]
async fn pruning_makes_room() {
    let journal = open(ROOM).await;
    for _ in 0..130 {
        note(&journal, "a", &[b"old".to_vec()]).await.unwrap();
    }
    note(&journal, "a", &[large(1)]).await.unwrap();
    let before = all(&journal, None).await.last().unwrap().at + 1;
    note(&journal, "b", &[b"new".to_vec()]).await.unwrap();
    assert_eq!(journal.prune(&plugin(), before).await.unwrap(), 131);
    assert_eq!(journal.prune(&plugin(), before).await.unwrap(), 0);
    let left = all(&journal, None).await;
    assert_eq!(left.len(), 1);
    assert_eq!(
        (left[0].record.as_slice(), count(&journal).await),
        (&b"new"[..], 3)
    );
    assert!(journal.store.scan(b"journal-").await.unwrap().0.is_empty());
}
