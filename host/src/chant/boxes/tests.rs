//! Boxes and their reports on the awkward engine, which delays, conflicts and
//! loses watches.

use super::*;
use crate::chant::declarations::{Declarations, Reported};
use crate::rules::declaration::parse_report;
use crate::store::memory::{Awkward, open_memory};

fn name(text: &str) -> BoxName {
    BoxName::parse(text).unwrap()
}

/// The store that makes trouble: every third conditional commit conflicts
/// without a reason, and watches are lost.
fn awkward(seed: u64) -> Arc<dyn Store> {
    open_memory(Awkward {
        seed,
        conflicts: 80,
        ..Awkward::default()
    })
}

async fn added(boxes: &Boxes, box_name: &BoxName) -> BoxToken {
    loop {
        // An injected conflict looks like a name that is taken; it is not.
        match boxes.add(box_name, "2026-01-01T00:00:00Z").await {
            Ok(token) => return token,
            Err(BoxError::Exists(_)) if boxes.named(box_name).is_none() => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_token_is_known_from_add_to_rotate_and_to_remove() {
    for seed in 0..8 {
        let boxes = Boxes::open(awkward(seed), 4).await.unwrap();
        let alice = name("alice");
        let first = added(&boxes, &alice).await;
        assert!(
            boxes
                .by_token(&first)
                .is_some_and(|known| known.name == alice)
        );
        let lease = boxes.named(&alice).unwrap().lease.clone();

        boxes.pause(&alice, true).await.unwrap();
        assert!(boxes.by_token(&first).unwrap().paused);
        assert!(!lease.is_cancelled(), "a pause keeps the token");

        let second = boxes.rotate(&alice).await.unwrap();
        assert!(
            boxes.by_token(&first).is_none(),
            "the old token must be unknown at once"
        );
        assert!(
            boxes.by_token(&second).unwrap().paused,
            "a rotation keeps the pause"
        );
        assert!(
            lease.is_cancelled(),
            "what the old token opened must be cut"
        );

        let lease = boxes.named(&alice).unwrap().lease.clone();
        while boxes.named(&alice).is_some() {
            match boxes.remove(&alice).await {
                Ok(()) | Err(BoxError::Unknown(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert!(boxes.by_token(&second).is_none());
        assert!(lease.is_cancelled());
        assert!(matches!(
            boxes.rotate(&alice).await,
            Err(BoxError::Unknown(_))
        ));
    }
}

#[tokio::test]
async fn a_name_is_given_once() {
    let boxes = Boxes::open(open_memory(Awkward::default()), 4)
        .await
        .unwrap();
    boxes.add(&name("alice"), "now").await.unwrap();
    assert!(matches!(
        boxes.add(&name("alice"), "now").await,
        Err(BoxError::Exists(_))
    ));
}

#[tokio::test]
async fn another_host_s_changes_are_seen() {
    let store = open_memory(Awkward::default());
    let here = Boxes::open(store.clone(), 4).await.unwrap();
    let there = Boxes::open(store.clone(), 4).await.unwrap();
    let token = there.add(&name("alice"), "now").await.unwrap();
    // Any later commit of our own waits until memory has caught up with it.
    here.add(&name("bob"), "now").await.unwrap();
    assert!(here.by_token(&token).is_some());
}

#[tokio::test]
async fn no_token_stands_in_the_store() {
    let store = open_memory(Awkward::default());
    let boxes = Boxes::open(store.clone(), 4).await.unwrap();
    let token = boxes.add(&name("alice"), "now").await.unwrap();
    let (records, _) = store.scan(b"").await.unwrap();
    for record in records {
        assert!(memchr::memmem::find(&record.value, token.as_str().as_bytes()).is_none());
    }
}

#[tokio::test]
async fn a_report_is_kept_until_the_next_and_leaves_with_its_box() {
    let store = open_memory(Awkward::default());
    let boxes = Boxes::open(store.clone(), 4).await.unwrap();
    let declarations = Declarations::open(store.clone()).await.unwrap();
    let alice = name("alice");
    let reported = |word: &str| {
        let body = format!(
            r#"{{"capabilities":[{{"name":"outbound","broker":"lobby","scope":["{word}"]}}],
                "listing":{{"title":"T","line":"L","x":1.50}}}}"#
        );
        Reported {
            declaration: parse_report(body.as_bytes(), "lobby").unwrap(),
            at: word.to_owned(),
        }
    };
    boxes.add(&alice, "now").await.unwrap();
    let known = boxes.named(&alice).unwrap();
    for word in ["ONE", "TWO"] {
        declarations.keep(&known, &reported(word)).await.unwrap();
        assert_eq!(*declarations.of(&alice).unwrap(), reported(word));
    }
    // A successor reads what was kept, the spelling of numbers included.
    let successor = Declarations::open(store.clone()).await.unwrap();
    assert_eq!(*successor.of(&alice).unwrap(), reported("TWO"));

    boxes.remove(&alice).await.unwrap();
    boxes.add(&alice, "now").await.unwrap();
    let late = declarations.keep(&known, &reported("LATE")).await;
    assert_eq!(
        late,
        Err(StoreError::Conflict),
        "the old box reports no more"
    );
    let successor = Declarations::open(store).await.unwrap();
    assert!(
        successor.of(&alice).is_none(),
        "a new box of the same name must start with nothing"
    );
}

#[tokio::test]
async fn a_new_token_ends_the_reports_of_the_old_one() {
    let store = open_memory(Awkward::default());
    let boxes = Boxes::open(store.clone(), 4).await.unwrap();
    let alice = name("alice");
    let old = boxes.add(&alice, "now").await.unwrap();
    let before = boxes.by_token(&old).unwrap();
    let new = boxes.rotate(&alice).await.unwrap();
    assert!(boxes.refreshed(&alice, &old).await.unwrap().is_none());
    assert!(boxes.refreshed(&alice, &new).await.unwrap().is_some());
    let batch = Batch {
        conditions: vec![before.unchanged()],
        changes: vec![],
    };
    assert_eq!(store.commit(batch).await, Err(StoreError::Conflict));
}

#[tokio::test]
async fn a_box_with_a_large_keep_can_be_removed_and_leaves_nothing() {
    let store = open_memory(Awkward::default());
    let boxes = Boxes::open(store.clone(), 4).await.unwrap();
    let alice = name("alice");
    boxes.add(&alice, "now").await.unwrap();
    for part in 0..5 {
        let key =
            |index: usize| format!("keep/alice/p/{part}-{index}-{}", "k".repeat(200)).into_bytes();
        let changes = (0..300)
            .map(|index| Change::Put(key(index), b"v".to_vec()))
            .collect();
        store
            .commit(Batch {
                conditions: vec![],
                changes,
            })
            .await
            .unwrap();
    }
    boxes.remove(&alice).await.unwrap();
    let (left, _) = store.scan(b"keep/alice/").await.unwrap();
    assert!(left.is_empty());
}
