//! Who owns what, and who may say so, on the awkward engine.

use crate::chant::boxes::Boxes;
use crate::store::memory::{Awkward, open_memory};

use super::*;

struct Stage {
    store: Arc<dyn Store>,
    boxes: Boxes,
    owned: Owned,
}

fn name(text: &str) -> BoxName {
    BoxName::parse(text).unwrap()
}

fn thing(kind: &str, id: &str) -> Thing {
    Thing {
        kind: ThingKind::parse(kind).unwrap(),
        id: ThingId::parse(id).unwrap(),
    }
}

impl Stage {
    async fn of(boxes: &[&str]) -> Self {
        let store = open_memory(Awkward::default());
        let stage = Self {
            boxes: Boxes::open(store.clone(), 4).await.unwrap(),
            owned: Owned::open(store.clone()).await.unwrap(),
            store,
        };
        for each in boxes {
            stage.boxes.add(&name(each), "now").await.unwrap();
        }
        stage
    }

    /// Claims as a plan does.
    async fn claim(&self, box_name: &str, thing: &Thing) -> Result<(), ClaimError> {
        let box_name = name(box_name);
        loop {
            let things = std::slice::from_ref(thing);
            let (conditions, changes) = self.owned.claims(&box_name, things).await?;
            let batch = Batch {
                conditions,
                changes,
            };
            match self.store.commit(batch).await {
                Ok(revision) => return Ok(self.owned.reached(revision).await?),
                Err(StoreError::Conflict) => {}
                Err(failed) => return Err(failed.into()),
            }
        }
    }

    async fn give(&self, box_name: &str, thing: &Thing) {
        let known = self.boxes.named(&name(box_name)).unwrap();
        self.owned.give(&known, thing).await.unwrap();
    }

    fn has(&self, box_name: &str, thing: &Thing) -> bool {
        self.owned.has(&name(box_name), thing)
    }
}

#[tokio::test]
async fn the_first_box_holds_a_thing_until_it_is_gone() {
    let stage = Stage::of(&["alice", "bob"]).await;
    let room = thing("rooms", "a/b");
    stage.claim("alice", &room).await.unwrap();
    stage.claim("alice", &room).await.unwrap();
    assert!(stage.has("alice", &room) && !stage.has("bob", &room));
    assert!(!stage.has("alice", &thing("halls", "a/b")));
    assert!(!stage.has("alice", &thing("rooms", "a")));
    let taken = stage.claim("bob", &room).await.unwrap_err();
    assert!(matches!(taken, ClaimError::Taken), "{taken:?}");
    stage.boxes.remove(&name("alice")).await.unwrap();
    stage.claim("bob", &room).await.unwrap();
    assert!(!stage.has("alice", &room) && stage.has("bob", &room));
    // A box of the old name begins with nothing.
    stage.boxes.add(&name("alice"), "now").await.unwrap();
    assert!(!stage.has("alice", &room));
}

#[tokio::test]
async fn of_two_boxes_that_claim_at_once_one_is_first() {
    for seed in 0..30 {
        let store = open_memory(Awkward {
            seed,
            ..Awkward::default()
        });
        let stage = Stage {
            boxes: Boxes::open(store.clone(), 4).await.unwrap(),
            owned: Owned::open(store.clone()).await.unwrap(),
            store,
        };
        let room = thing("rooms", "1");
        let (one, two) = tokio::join!(stage.claim("alice", &room), stage.claim("bob", &room));
        assert!(one.is_ok() != two.is_ok(), "{seed}: {one:?} {two:?}");
        assert!(stage.has("alice", &room) != stage.has("bob", &room));
    }
}

#[tokio::test]
async fn the_operator_may_let_boxes_share() {
    let stage = Stage::of(&["alice", "bob", "carol"]).await;
    let room = thing("rooms", "1");
    stage.claim("alice", &room).await.unwrap();
    stage.give("bob", &room).await;
    stage.give("bob", &room).await;
    assert!(stage.has("alice", &room) && stage.has("bob", &room));
    // Neither's end gives it to a third.
    stage.boxes.remove(&name("alice")).await.unwrap();
    assert!(stage.claim("carol", &room).await.is_err());
    assert!(stage.owned.take(&name("bob"), &room).await.unwrap());
    assert!(!stage.owned.take(&name("bob"), &room).await.unwrap());
    stage.claim("carol", &room).await.unwrap();
    assert_eq!(stage.owned.of(&name("carol")), [room]);
}

#[tokio::test]
async fn a_box_that_is_gone_is_given_nothing() {
    let stage = Stage::of(&["alice"]).await;
    let known = stage.boxes.named(&name("alice")).unwrap();
    stage.boxes.remove(&name("alice")).await.unwrap();
    let given = stage.owned.give(&known, &thing("rooms", "1")).await;
    assert_eq!(given, Err(StoreError::Conflict));
}

#[tokio::test]
async fn a_box_with_many_things_leaves_none() {
    let stage = Stage::of(&["alice", "bob"]).await;
    for index in 0..150 {
        stage
            .give("alice", &thing("rooms", &format!("{index}")))
            .await;
    }
    stage.boxes.remove(&name("alice")).await.unwrap();
    let (left, _) = stage.store.scan(b"owned/").await.unwrap();
    let (held, _) = stage.store.scan(b"holders/").await.unwrap();
    assert!(left.is_empty() && held.is_empty());
}

#[tokio::test]
async fn what_was_owned_is_owned_after_a_start() {
    let stage = Stage::of(&["alice"]).await;
    let room = thing("rooms", "1");
    stage.claim("alice", &room).await.unwrap();
    let again = Owned::open(stage.store.clone()).await.unwrap();
    assert!(again.has(&name("alice"), &room));
}
