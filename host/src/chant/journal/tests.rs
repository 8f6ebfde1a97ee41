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

/// For as many bytes in all, and of each box.
fn limits(bytes: u64, bytes_per_box: u64) -> JournalLimits {
    JournalLimits {
        bytes,
        bytes_per_box,
    }
}

async fn open(most_bytes: u64) -> Journal {
    let limits = limits(most_bytes, most_bytes);
    Journal::open(open_memory(Awkward::default()), limits)
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
    journal.count(&count_key(&plugin())).await.unwrap().0.bytes
}

async fn share(journal: &Journal, box_name: &str) -> u64 {
    let key = share_key(&plugin(), &name(box_name));
    journal.count(&key).await.unwrap().0.bytes
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
        assert!(matches!(full, Err(JournalError::ShareFull(_))), "{full:?}");
    }
    note(&journal, "a", &[vec![0; 10]]).await.unwrap();
    assert_eq!(all(&journal, None).await.len(), 3);
}

#[tokio::test]
async fn a_box_has_its_share_and_the_others_have_theirs() {
    let store = open_memory(Awkward::default());
    let open = || Journal::open(store.clone(), limits(10, 4));
    let journal = open().await.unwrap();
    note(&journal, "a", &[vec![0; 4]]).await.unwrap();
    // What is over both is said to be the box's own.
    for bytes in [1, 20] {
        let full = note(&journal, "a", &[vec![0; bytes]]).await;
        assert!(matches!(full, Err(JournalError::ShareFull(4))), "{full:?}");
    }
    note(&journal, "b", &[vec![0; 3], vec![0; 1]])
        .await
        .unwrap();
    let full = note(&journal, "c", &[vec![0; 3]]).await;
    assert!(matches!(full, Err(JournalError::Full(10))), "{full:?}");
    // Nothing is put down on the disk of what will not stay.
    let large = [large(1)];
    let full = journal.stage(&plugin(), &name("c"), &large).await.err();
    assert!(matches!(full, Some(JournalError::ShareFull(4))), "{full:?}");
    note(&journal, "c", &[vec![0; 2]]).await.unwrap();
    // The counts are the store's, and a start reads them.
    let journal = open().await.unwrap();
    assert_eq!((share(&journal, "a").await, count(&journal).await), (4, 10));
    let full = note(&journal, "a", &[vec![0; 1]]).await;
    assert!(matches!(full, Err(JournalError::ShareFull(4))), "{full:?}");
    // Pruning gives each its own back.
    let of_b = all(&journal, Some("b")).await[0].at;
    assert_eq!(journal.prune(&plugin(), of_b).await.unwrap(), 1);
    let shares = [
        share(&journal, "a").await,
        share(&journal, "b").await,
        share(&journal, "c").await,
    ];
    assert_eq!((shares, count(&journal).await), ([0, 4, 2], 6));
    note(&journal, "a", &[vec![0; 4]]).await.unwrap();
}

#[tokio::test]
async fn requests_side_by_side_do_not_pass_the_limit() {
    for seed in 0..20 {
        let awkward = Awkward {
            seed,
            ..Awkward::default()
        };
        let journal = Journal::open(open_memory(awkward), limits(4, 3));
        let journal = &journal.await.unwrap();
        let notes = ["a", "b"].into_iter().cycle().take(12);
        let notes = notes.map(|of| async move { note(journal, of, &[vec![1]]).await.is_ok() });
        let made = futures_util::future::join_all(notes).await;
        assert_eq!(made.iter().filter(|made| **made).count(), 4, "{seed}");
        assert_eq!(all(journal, None).await.len(), 4);
        let shares = share(journal, "a").await.max(share(journal, "b").await);
        assert!(shares <= 3, "{seed}: {shares}");
    }
}

#[tokio::test]
async fn what_is_noted_while_others_go_is_counted() {
    for seed in 0..40 {
        let awkward = Awkward {
            seed,
            ..Awkward::default()
        };
        let journal = Journal::open(open_memory(awkward), limits(ROOM, ROOM));
        let journal = &journal.await.unwrap();
        for of in ["a", "b", "a"] {
            note(journal, of, &[vec![1; 7]]).await.unwrap();
        }
        let before = all(journal, None).await[2].at + 1;
        let notes = ["a", "b", "a", "b"].into_iter();
        let notes = notes.map(|of| async move { note(journal, of, &[vec![1]]).await.unwrap() });
        let plugin = plugin();
        let (gone, _) = futures_util::join!(
            journal.prune(&plugin, before),
            futures_util::future::join_all(notes)
        );
        assert_eq!(gone.unwrap(), 3, "{seed}");
        let counts = [
            share(journal, "a").await,
            share(journal, "b").await,
            count(journal).await,
        ];
        assert_eq!(counts, [2, 2, 4], "{seed}");
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
