//! Large records on their way into the journal: their parts are put down a few
//! at a time, under a mark, and seen once the mark goes in the same commit that
//! brings the records. Whatever still has its mark was given up.

use std::sync::Arc;

use crate::chant::journal::{part_prefix, place};
use crate::rules::names::{BoxName, PluginName};
use crate::store::{Batch, Change, Condition, MAX_VALUE, Page, Store, StoreError};

const MARKS: &str = "journal-stage/";

/// Before the name of a record's parts that are to be deleted.
const GONE: &str = "journal-gone/";

/// A mark this old is nobody's any more: no request takes as long to put its
/// records down.
const GIVEN_UP: i128 = 60 * 60 * 1_000_000_000;

/// How much one commit carries.
const COMMIT_BYTES: usize = 2 * MAX_VALUE;

/// Records of one plan that lie in parts, or none.
pub(in crate::chant) struct Staged(Option<Parts>);

struct Parts {
    store: Arc<dyn Store>,
    mark: Vec<u8>,
    prefixes: Vec<String>,
    at: i128,
    /// How many parts each record has.
    counts: Vec<u8>,
}

impl Staged {
    pub(super) fn nothing() -> Self {
        Self(None)
    }

    /// When they were put down, which is when they were noted.
    pub(super) fn at(&self) -> Option<i128> {
        self.0.as_ref().map(|parts| parts.at)
    }

    /// In how many parts a record lies.
    pub(super) fn parts(&self, index: usize) -> Option<u8> {
        self.0.as_ref()?.counts.get(index).copied()
    }

    /// What makes them seen: the mark must be there still, and goes.
    pub(super) fn seen(&self) -> Option<(Condition, Change)> {
        let mark = &self.0.as_ref()?.mark;
        Some((
            Condition::Present(mark.clone()),
            Change::Delete(mark.clone()),
        ))
    }

    /// They are seen now, and stay.
    pub(in crate::chant) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Staged {
    /// A plan that was not made, or whose box left, takes its parts away.
    fn drop(&mut self) {
        let (Some(parts), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(async move {
            if let Err(error) = parts.discard().await {
                tracing::warn!(%error, "parts of a record that was given up stay until the next start");
            }
        });
    }
}

impl Parts {
    async fn discard(self) -> Result<(), StoreError> {
        // A commit that was under way when its request ended may have made
        // them seen: then they are nobody's to take away.
        loop {
            let batch = Batch {
                conditions: vec![Condition::Present(self.mark.clone())],
                changes: vec![Change::Delete(self.mark.clone())],
            };
            match self.store.commit(batch).await {
                Ok(_) => break,
                Err(StoreError::Conflict) if self.store.get(&self.mark).await?.is_some() => {}
                Err(StoreError::Conflict) => return Ok(()),
                Err(failed) => return Err(failed),
            }
        }
        for prefix in &self.prefixes {
            delete_below(&self.store, prefix).await?;
        }
        Ok(())
    }
}

pub(super) async fn stage(
    store: &Arc<dyn Store>,
    plugin: &PluginName,
    box_name: &BoxName,
    records: &[Vec<u8>],
    mut at: i128,
) -> Result<Staged, StoreError> {
    // Whoever makes the mark has the moment for itself.
    let mark = loop {
        let mark = format!("{MARKS}{plugin}/{at:020}/{box_name}").into_bytes();
        let batch = Batch {
            conditions: vec![Condition::Absent(mark.clone())],
            changes: vec![Change::Put(mark.clone(), vec![count(records.len())?])],
        };
        match store.commit(batch).await {
            Ok(_) => break mark,
            Err(StoreError::Conflict) => at += 1,
            Err(failed) => return Err(failed),
        }
    };
    let prefixes = (0..records.len()).map(|index| part_prefix(plugin, &place(at, index, box_name)));
    let prefixes: Vec<String> = prefixes.collect();
    let mut counts = Vec::new();
    let mut changes = Vec::new();
    for (record, prefix) in records.iter().zip(&prefixes) {
        let parts = record.chunks(MAX_VALUE);
        counts.push(count(parts.len())?);
        changes.extend(parts.enumerate().map(|(index, part)| {
            Change::Put(format!("{prefix}{index:03}").into_bytes(), part.to_vec())
        }));
    }
    let staged = Staged(Some(Parts {
        store: Arc::clone(store),
        mark,
        prefixes,
        at,
        counts,
    }));
    for changes in groups(changes) {
        let batch = Batch {
            conditions: Vec::new(),
            changes,
        };
        store.commit(batch).await?;
    }
    Ok(staged)
}

/// Takes away what a host that was cut off had put down and never brought in.
pub(super) async fn clear(store: &Arc<dyn Store>, now: i128) -> Result<(), StoreError> {
    let (gone, _) = store.scan(GONE.as_bytes()).await?;
    for found in gone {
        let key = String::from_utf8_lossy(&found.key).into_owned();
        delete_gone(store, key.strip_prefix(GONE).unwrap_or_default()).await?;
    }
    let (marks, _) = store.scan(MARKS.as_bytes()).await?;
    for found in marks {
        let key = String::from_utf8_lossy(&found.key).into_owned();
        let mut names = key.strip_prefix(MARKS).unwrap_or_default().split('/');
        let (Some(plugin), Some(at), Some(box_name)) = (names.next(), names.next(), names.next())
        else {
            continue;
        };
        let (Ok(plugin), Ok(at), Ok(box_name)) = (
            PluginName::parse(plugin),
            at.parse::<i128>(),
            BoxName::parse(box_name),
        ) else {
            continue;
        };
        if at + GIVEN_UP > now {
            continue;
        }
        let records = found.value.first().copied().map_or(0, usize::from);
        let prefixes = (0..records).map(|index| part_prefix(&plugin, &place(at, index, &box_name)));
        let given_up = Parts {
            store: Arc::clone(store),
            mark: found.key,
            prefixes: prefixes.collect(),
            at,
            counts: Vec::new(),
        };
        given_up.discard().await?;
    }
    Ok(())
}

/// What has the parts of a deleted record deleted, now or at the next start.
pub(super) fn mark_gone(prefix: &str) -> Change {
    Change::Put(format!("{GONE}{prefix}").into_bytes(), Vec::new())
}

/// Deletes the parts of a deleted record, and then the mark.
pub(super) async fn delete_gone(store: &Arc<dyn Store>, prefix: &str) -> Result<(), StoreError> {
    delete_below(store, prefix).await?;
    let batch = Batch {
        conditions: Vec::new(),
        changes: vec![Change::Delete(format!("{GONE}{prefix}").into_bytes())],
    };
    store.commit(batch).await.map(|_| ())
}

/// Deletes every part below a prefix.
async fn delete_below(store: &Arc<dyn Store>, prefix: &str) -> Result<(), StoreError> {
    let page = Page {
        records: 64,
        bytes: COMMIT_BYTES,
    };
    loop {
        let found = store.page(prefix.as_bytes(), None, page).await?;
        if found.is_empty() {
            return Ok(());
        }
        let batch = Batch {
            conditions: Vec::new(),
            changes: found
                .into_iter()
                .map(|found| Change::Delete(found.key))
                .collect(),
        };
        store.commit(batch).await?;
    }
}

/// Changes in groups that a commit can carry.
fn groups(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut groups: Vec<Vec<Change>> = Vec::new();
    let mut room = 0;
    for change in changes {
        let size = match &change {
            Change::Put(key, value) => key.len() + value.len(),
            Change::Delete(key) => key.len(),
        };
        match groups.last_mut() {
            Some(group) if size <= room => {
                room -= size;
                group.push(change);
            }
            Some(_) | None => {
                room = COMMIT_BYTES.saturating_sub(size);
                groups.push(vec![change]);
            }
        }
    }
    groups
}

fn count(number: usize) -> Result<u8, StoreError> {
    u8::try_from(number).map_err(|_| StoreError::TooLarge {
        what: "journal record",
        size: number,
        limit: usize::from(u8::MAX),
    })
}
