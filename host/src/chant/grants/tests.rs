//! Grants on the awkward engine, which delays, conflicts and loses watches.

use super::*;
use crate::chant::boxes::{BoxError, Boxes};
use crate::store::memory::{Awkward, open_memory};

fn awkward(seed: u64) -> Arc<dyn Store> {
    open_memory(Awkward {
        seed,
        conflicts: 80,
        ..Awkward::default()
    })
}

fn name(text: &str) -> BoxName {
    BoxName::parse(text).unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn new(box_name: &str) -> NewGrant {
    NewGrant {
        box_name: name(box_name),
        upstream: UpstreamName::parse("models").unwrap(),
        credential: CredentialName::parse("ada").unwrap(),
        principal: Principal::parse("github:ada").unwrap(),
        ttl: Ttl::from_seconds(60).unwrap(),
    }
}

/// A lease that ends, under a limit that measures nothing.
async fn ends(lease: &Tenure) {
    let limit = std::time::Duration::from_secs(20);
    let ended = tokio::time::timeout(limit, lease.cancelled()).await;
    ended.expect("the lease ends");
}

/// A store in which these boxes are.
async fn boxes(store: &Arc<dyn Store>, names: &[&str]) -> Boxes {
    let boxes = Boxes::open(Arc::clone(store), 4).await.unwrap();
    for each in names {
        // An injected conflict looks like a name that is taken; it is not.
        while boxes.named(&name(each)).is_none() {
            let added = boxes.add(&name(each), "2026-01-01T00:00:00Z").await;
            assert!(matches!(added, Ok(_) | Err(BoxError::Exists(_))));
        }
    }
    boxes
}

#[tokio::test]
async fn a_grant_is_known_from_issue_to_revocation() {
    for seed in 0..8 {
        let store = awkward(seed);
        let _boxes = boxes(&store, &["a", "b"]).await;
        let grants = Grants::open(Arc::clone(&store), at(0)).await.unwrap();
        let (value, issued) = grants.issue(new("a"), at(100)).await.unwrap();
        let (other, _) = grants.issue(new("b"), at(100)).await.unwrap();
        let known = grants.by_value(&value).unwrap();
        assert_eq!((&known.id, &known.grant), (&issued.id, &issued.grant));
        assert_eq!(known.grant.expires, at(160));
        assert_ne!(value, other);
        assert_eq!(grants.list().len(), 2);
        assert!(
            grants
                .by_value(&GrantValue::from_random(&[1; 32]))
                .is_none()
        );

        let lease = known.lease.clone();
        let untouched = grants.by_value(&other).unwrap().lease.clone();
        grants.revoke(&issued.id).await.unwrap();
        assert!(lease.is_cancelled(), "what it had open is cut");
        assert!(!untouched.is_cancelled());
        assert!(grants.by_value(&value).unwrap().grant.revoked);
        assert!(matches!(
            grants.revoke("0123").await,
            Err(GrantError::Unknown)
        ));

        assert_eq!(grants.revoke_of(&name("b")).await.unwrap(), 1);
        assert!(untouched.is_cancelled());
        assert_eq!(grants.revoke_of(&name("b")).await.unwrap(), 0);

        // Another host on the same store finds them so.
        let again = Grants::open(store, at(100)).await.unwrap();
        assert!(again.by_value(&value).unwrap().grant.revoked);
    }
}

#[tokio::test]
async fn another_writer_s_revocation_reaches_this_one_s_leases() {
    let store = awkward(3);
    let _boxes = boxes(&store, &["a"]).await;
    let one = Grants::open(Arc::clone(&store), at(0)).await.unwrap();
    let two = Grants::open(store, at(0)).await.unwrap();
    let (value, issued) = one.issue(new("a"), at(100)).await.unwrap();
    // The other one sees it once it has issued one itself.
    two.issue(new("a"), at(100)).await.unwrap();
    let lease = two.by_value(&value).unwrap().lease.clone();
    one.revoke(&issued.id).await.unwrap();
    ends(&lease).await;
}

#[tokio::test]
async fn a_removed_box_leaves_no_grant_to_the_next_of_its_name() {
    for seed in 0..8 {
        let store = awkward(seed);
        let of_store = boxes(&store, &["a", "ab"]).await;
        let grants = Grants::open(Arc::clone(&store), at(0)).await.unwrap();
        let (value, issued) = grants.issue(new("a"), at(100)).await.unwrap();
        let (kept, _) = grants.issue(new("ab"), at(100)).await.unwrap();
        while of_store.named(&name("a")).is_some() {
            match of_store.remove(&name("a")).await {
                Ok(()) | Err(BoxError::Unknown(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
        ends(&issued.lease).await;
        assert!(matches!(
            grants.issue(new("a"), at(100)).await,
            Err(GrantError::UnknownBox(_))
        ));
        drop(boxes(&store, &["a"]).await);
        // Memory is abreast once this one's own write shows in it.
        grants.issue(new("a"), at(100)).await.unwrap();
        assert!(grants.by_value(&value).is_none());
        assert!(grants.by_value(&kept).is_some());
    }
}

#[tokio::test]
async fn a_stale_record_is_swept_and_a_fresh_one_stays() {
    let store = awkward(5);
    let _boxes = boxes(&store, &["a"]).await;
    let grants = Grants::open(Arc::clone(&store), at(0)).await.unwrap();
    let (old, issued) = grants.issue(new("a"), at(100)).await.unwrap();
    let day = 24 * 60 * 60;
    let (young, _) = grants.issue(new("a"), at(160 + day - 1)).await.unwrap();
    assert!(grants.by_value(&old).is_some(), "not yet a day");
    assert!(!issued.lease.is_cancelled(), "expiry cuts nothing");
    let (_, _) = grants.issue(new("a"), at(160 + day)).await.unwrap();
    assert!(grants.by_value(&old).is_none());
    assert!(grants.by_value(&young).is_some());
    // And at start.
    let again = Grants::open(store, at(1_000_000)).await.unwrap();
    assert!(again.list().is_empty());
}

#[tokio::test]
async fn no_record_holds_a_grant() {
    let store = awkward(7);
    let _boxes = boxes(&store, &["a"]).await;
    let grants = Grants::open(Arc::clone(&store), at(0)).await.unwrap();
    let (value, known) = grants.issue(new("a"), at(100)).await.unwrap();
    let (records, _) = store.scan(b"").await.unwrap();
    let body = value.as_str().trim_start_matches("jfg_");
    for record in &records {
        assert!(!String::from_utf8_lossy(&record.key).contains(body));
        assert!(!String::from_utf8_lossy(&record.value).contains(body));
    }
    assert!(
        records
            .iter()
            .any(|found| found.key.starts_with(b"grant/a/"))
    );
    assert!(!format!("{known:?} {value:?}").contains(body));
}
