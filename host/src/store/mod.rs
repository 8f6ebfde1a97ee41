//! What is kept: a narrow trait over ordered keys, the engines behind it, and
//! the mirror that brings what is kept into memory.
//!
//! Nothing here knows what a record means, and nothing outside this folder may
//! assume that it is the only one that writes: conditions guard what was read,
//! and memory follows the watch alone.

use std::collections::HashSet;

use async_trait::async_trait;

mod embedded;
mod error;
mod history;
pub mod memory;
pub mod mirror;
mod notify;
pub mod record;
#[cfg(test)]
mod tests;

pub use embedded::{SledSettings, open_sled};
pub use error::StoreError;
pub use notify::Watch;

/// The longest value, in bytes.
pub const MAX_VALUE: usize = 64 * 1024;
/// The longest key, in bytes.
pub const MAX_KEY: usize = 512;
/// The most that one batch may hold, keys and values together, in bytes.
pub const MAX_BATCH: usize = 256 * 1024;

/// A point in the store's history: every commit makes the next one. 0 is
/// before everything.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Default)]
pub struct Revision(pub u64);

/// A key, its value, and when it last changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The commit that last changed it.
    pub revision: Revision,
}

/// How much one page of records may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// At most this many records.
    pub records: usize,
    /// About this many bytes of keys and values.
    pub bytes: usize,
}

impl Page {
    /// Takes records from the front for as long as there is room.
    fn fill<E>(self, records: impl Iterator<Item = Result<Record, E>>) -> Result<Vec<Record>, E> {
        let mut taken = Vec::new();
        let mut bytes = 0;
        for record in records.take(self.records) {
            let record = record?;
            bytes += record.key.len() + record.value.len();
            taken.push(record);
            if bytes >= self.bytes {
                break;
            }
        }
        Ok(taken)
    }
}

/// What must hold for a batch to be committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// No record has this key.
    Absent(Vec<u8>),
    /// A record has this key.
    Present(Vec<u8>),
    /// The record with this key last changed at this revision.
    AtRevision(Vec<u8>, Revision),
}

impl Condition {
    fn key(&self) -> &[u8] {
        match self {
            Self::Absent(key) | Self::Present(key) | Self::AtRevision(key, _) => key,
        }
    }

    fn holds(&self, found: Option<Revision>) -> bool {
        match self {
            Self::Absent(_) => found.is_none(),
            Self::Present(_) => found.is_some(),
            Self::AtRevision(_, revision) => found == Some(*revision),
        }
    }
}

/// One change of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// This key has this value from now on.
    Put(Vec<u8>, Vec<u8>),
    /// This key has no value from now on; a key that has none is left alone.
    Delete(Vec<u8>),
}

impl Change {
    fn key(&self) -> &[u8] {
        match self {
            Self::Put(key, _) | Self::Delete(key) => key,
        }
    }

    fn value(&self) -> Option<&[u8]> {
        match self {
            Self::Put(_, value) => Some(value),
            Self::Delete(_) => None,
        }
    }
}

/// Changes that happen together, or not at all when a condition fails.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// All of these must hold.
    pub conditions: Vec<Condition>,
    /// Each key at most once.
    pub changes: Vec<Change>,
}

impl Batch {
    /// What every engine refuses, in the same words.
    fn check(&self) -> Result<(), StoreError> {
        let mut seen = HashSet::new();
        let mut total = 0_usize;
        for change in &self.changes {
            let value = change.value().map_or(0, <[u8]>::len);
            limit("value", value, MAX_VALUE)?;
            total = total
                .saturating_add(change.key().len())
                .saturating_add(value);
            if !seen.insert(change.key()) {
                return Err(StoreError::Malformed("it changes one key twice"));
            }
        }
        limit("batch", total, MAX_BATCH)?;
        let conditions = self.conditions.iter().map(Condition::key);
        for key in self.changes.iter().map(Change::key).chain(conditions) {
            limit("key", key.len(), MAX_KEY)?;
            if key.is_empty() || key.contains(&0) {
                return Err(StoreError::Malformed("a key is empty or holds a NUL"));
            }
        }
        Ok(())
    }
}

fn limit(what: &'static str, size: usize, limit: usize) -> Result<(), StoreError> {
    if size > limit {
        return Err(StoreError::TooLarge { what, size, limit });
    }
    Ok(())
}

/// What became of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The commit that did it.
    pub revision: Revision,
    /// The key.
    pub key: Vec<u8>,
    /// The value; none when the record was deleted.
    pub value: Option<Vec<u8>>,
}

/// What one commit did below a watch's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changes {
    /// The commit. Everything up to it has now been seen.
    pub revision: Revision,
    /// All its changes below the prefix; empty when it changed none there.
    pub events: Vec<Event>,
}

/// Ordered keys with conditions, revisions and watches.
///
/// What `get`, `scan` and a watch show is on disk: a commit is not seen by
/// anybody before it can no longer be lost.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The record with this key.
    ///
    /// # Errors
    /// When the engine cannot read.
    async fn get(&self, key: &[u8]) -> Result<Option<Record>, StoreError>;

    /// Every record whose key begins with `prefix`, in order, and the revision
    /// at which they stood so.
    ///
    /// # Errors
    /// When the engine cannot read.
    async fn scan(&self, prefix: &[u8]) -> Result<(Vec<Record>, Revision), StoreError>;

    /// The records whose keys begin with `prefix` and come after `after`, in
    /// order: as many as `page` takes, and one at least where there is one.
    ///
    /// # Errors
    /// When the engine cannot read.
    async fn page(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        page: Page,
    ) -> Result<Vec<Record>, StoreError>;

    /// Makes the batch's changes if its conditions hold. Returns once they are
    /// on disk. A caller that stops waiting does not stop the commit.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when a condition does not hold: nothing has
    /// changed, and the caller reads again. After any other error nothing may
    /// be assumed kept.
    async fn commit(&self, batch: Batch) -> Result<Revision, StoreError>;

    /// Follows the changes below `prefix` that come after `after`.
    ///
    /// # Errors
    /// [`StoreError::Compacted`] when the history no longer reaches back that
    /// far: the caller scans.
    async fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watch, StoreError>;

    /// Finishes what was begun, takes nothing more, ends the watches and lets
    /// go of the folder. Returns when a successor can open it.
    async fn close(&self);
}
