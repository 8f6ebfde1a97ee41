//! A keep: counted exactly, conditional, listed, on the awkward engine.

use crate::rules::plan::Expected;
use crate::store::memory::{Awkward, open_memory};

use super::*;

const LIMITS: KeepLimits = KeepLimits {
    bytes: 100,
    keys: 4,
};

fn write(key: &str, value: Option<&[u8]>) -> Write {
    expecting(key, Expected::Anything, value)
}

fn expecting(key: &str, expects: Expected, value: Option<&[u8]>) -> Write {
    Write {
        key: key.to_owned(),
        value: value.map(<[u8]>::to_vec),
        expects,
    }
}

async fn make(keep: &Keep<'_>, writes: &[Write]) -> Result<(), KeepError> {
    loop {
        let (conditions, changes) = keep.changes(writes, LIMITS).await?;
        match keep
            .store
            .commit(Batch {
                conditions,
                changes,
            })
            .await
        {
            Ok(_) => return Ok(()),
            Err(StoreError::Conflict) => {}
            Err(failed) => return Err(failed.into()),
        }
    }
}

macro_rules! keep {
    ($keep:ident, $awkward:expr) => {
        let store = open_memory($awkward);
        let (box_name, plugin) = (
            BoxName::parse("b").unwrap(),
            PluginName::parse("p").unwrap(),
        );
        let $keep = Keep {
            store: &store,
            box_name: &box_name,
            plugin: &plugin,
        };
    };
}

#[tokio::test]
async fn bytes_and_keys_are_counted_exactly() {
    keep!(keep, Awkward::default());
    make(&keep, &[write("a", Some(&[0; 49]))]).await.unwrap();
    make(&keep, &[write("b", Some(&[0; 49]))]).await.unwrap();
    let over = make(&keep, &[write("c", Some(b""))]).await;
    assert!(matches!(over, Err(KeepError::Bytes)), "{over:?}");
    // What takes another's place is counted by what it adds.
    make(&keep, &[write("a", Some(&[1; 49]))]).await.unwrap();
    make(&keep, &[write("a", None), write("c", Some(&[0; 49]))])
        .await
        .unwrap();
    make(&keep, &[write("b", None), write("c", Some(b""))])
        .await
        .unwrap();
    for key in ["d", "e", "f"] {
        make(&keep, &[write(key, Some(b""))]).await.unwrap();
    }
    let over = make(&keep, &[write("g", Some(b""))]).await;
    assert!(matches!(over, Err(KeepError::Keys)), "{over:?}");
    for key in ["c", "d", "e", "f"] {
        make(&keep, &[write(key, None)]).await.unwrap();
    }
    assert!(keep.store.scan(b"ke").await.unwrap().0.is_empty());
}

#[tokio::test]
async fn requests_side_by_side_do_not_pass_a_limit() {
    for seed in 0..30 {
        let awkward = Awkward {
            seed,
            ..Awkward::default()
        };
        keep!(keep, awkward);
        let keep = &keep;
        let writes = (0..8).map(|index| async move {
            make(keep, &[write(&format!("{index}"), Some(b"x"))])
                .await
                .is_ok()
        });
        let made = futures_util::future::join_all(writes).await;
        assert_eq!(made.iter().filter(|made| **made).count(), 4, "{seed}");
        let listing = Listing {
            prefix: String::new(),
            after: None,
        };
        assert_eq!(keep.list(&[listing]).await.unwrap()[0].len(), 4);
    }
}

#[tokio::test]
async fn a_write_is_made_when_the_key_holds_what_was_expected() {
    keep!(keep, Awkward::default());
    let value = |text: &[u8]| Expected::Value(text.to_vec());
    make(&keep, &[expecting("k", Expected::Nothing, Some(b"1"))])
        .await
        .unwrap();
    for wrong in [Expected::Nothing, value(b"2"), value(b"")] {
        let writes = [
            write("other", Some(b"x")),
            expecting("k", wrong, Some(b"9")),
        ];
        let made = make(&keep, &writes).await;
        assert!(matches!(made, Err(KeepError::Unexpected)), "{made:?}");
    }
    let held = keep
        .read(&["k".to_owned(), "other".to_owned()])
        .await
        .unwrap();
    assert_eq!(held, [Some(b"1".to_vec()), None]);
    make(&keep, &[expecting("k", value(b"1"), None)])
        .await
        .unwrap();
    let gone = make(&keep, &[expecting("k", value(b"1"), Some(b"x"))]).await;
    assert!(matches!(gone, Err(KeepError::Unexpected)), "{gone:?}");
}

#[tokio::test]
async fn no_count_is_lost_to_a_request_that_runs_beside() {
    for seed in 0..30 {
        let awkward = Awkward {
            seed,
            ..Awkward::default()
        };
        keep!(keep, awkward);
        let keep = &keep;
        let claims = (0..4).map(|_| async move {
            make(keep, &[expecting("k", Expected::Nothing, Some(b"mine"))])
                .await
                .is_ok()
        });
        let made = futures_util::future::join_all(claims).await;
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{seed}");
    }
}

#[tokio::test]
async fn keys_are_listed_in_pages() {
    let store = open_memory(Awkward::default());
    let (box_name, plugin) = (
        BoxName::parse("b").unwrap(),
        PluginName::parse("p").unwrap(),
    );
    let key = |plugin: &str, key: &str| format!("keep/b/{plugin}/{key}").into_bytes();
    for index in 0..1005 {
        let change = Change::Put(key("p", &format!("n/{index:04}")), vec![0; 2000]);
        let batch = Batch {
            conditions: vec![],
            changes: vec![change],
        };
        store.commit(batch).await.unwrap();
    }
    for (plugin, name) in [("p", "m"), ("p", "o"), ("p-2", "n/0000"), ("other", "n/1")] {
        let batch = Batch {
            conditions: vec![],
            changes: vec![Change::Put(key(plugin, name), vec![])],
        };
        store.commit(batch).await.unwrap();
    }
    let keep = Keep {
        store: &store,
        box_name: &box_name,
        plugin: &plugin,
    };
    let list = async |prefix: &str, after: Option<&str>| {
        let listing = Listing {
            prefix: prefix.to_owned(),
            after: after.map(str::to_owned),
        };
        keep.list(&[listing]).await.unwrap().remove(0)
    };
    let first = list("n/", None).await;
    assert_eq!(first.len(), 1000);
    assert_eq!(first.first().map(String::as_str), Some("n/0000"));
    let rest = list("n/", Some(&first[999])).await;
    assert_eq!(rest, ["n/1000", "n/1001", "n/1002", "n/1003", "n/1004"]);
    assert_eq!(list("n/", Some("n/1004")).await, [""; 0]);
    assert_eq!(list("", Some("n/1004")).await, ["o"]);
    assert_eq!(list("n/100", Some("a")).await.len(), 5);
    assert_eq!(list("z", None).await, [""; 0]);
}
