//! A plugin's keep: values for one plugin and one box, counted as they change.
//!
//! The count stands in a record of its own that every change renews under a
//! condition, so two requests cannot both take the last room, and neither can
//! two hosts on one store.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rules::names::{BoxName, PluginName};
use crate::rules::plan::{Listing, Write};
use crate::rules::plan_check::MOST_LISTED;
use crate::store::{Batch, Change, Condition, Page, Store, StoreError, record};

const VERSION: u32 = 1;
const MIB: usize = 1024 * 1024;

/// How much may be kept for one box by one plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepLimits {
    /// Bytes of keys and values.
    pub bytes: usize,
    /// Keys.
    pub keys: usize,
}

/// Why writes are not made.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeepError {
    /// A key does not hold what was expected.
    #[error("a key does not hold what was expected")]
    Unexpected,
    /// There would be too many bytes.
    #[error("there would be too many bytes")]
    Bytes,
    /// There would be too many keys.
    #[error("there would be too many keys")]
    Keys,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Serialize, Deserialize, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    bytes: usize,
    keys: usize,
}

/// One plugin's keep for one box.
pub(super) struct Keep<'a> {
    pub(super) store: &'a Arc<dyn Store>,
    pub(super) box_name: &'a BoxName,
    pub(super) plugin: &'a PluginName,
}

impl Keep<'_> {
    /// The values of keys.
    pub(super) async fn read(&self, keys: &[String]) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            let found = self.store.get(&self.key(key)).await?;
            values.push(found.map(|found| found.value));
        }
        Ok(values)
    }

    /// The keys that listings ask for.
    pub(super) async fn list(&self, lists: &[Listing]) -> Result<Vec<Vec<String>>, StoreError> {
        let mut answers = Vec::with_capacity(lists.len());
        for listing in lists {
            answers.push(self.list_one(listing).await?);
        }
        Ok(answers)
    }

    async fn list_one(&self, listing: &Listing) -> Result<Vec<String>, StoreError> {
        let own = self.key("");
        let prefix = self.key(&listing.prefix);
        let mut after = listing.after.as_deref().map(|after| self.key(after));
        let mut keys: Vec<String> = Vec::new();
        // A page stands in memory with its values.
        while keys.len() < MOST_LISTED {
            let page = Page {
                records: MOST_LISTED - keys.len(),
                bytes: MIB,
            };
            let found = self.store.page(&prefix, after.as_deref(), page).await?;
            let Some(last) = found.last() else { break };
            after = Some(last.key.clone());
            let names = found
                .iter()
                .filter_map(|each| each.key.strip_prefix(own.as_slice()));
            keys.extend(names.map(|key| String::from_utf8_lossy(key).into_owned()));
        }
        Ok(keys)
    }

    /// What makes writes last: conditions and changes for the commit that they
    /// are part of.
    pub(super) async fn changes(
        &self,
        writes: &[Write],
        limits: KeepLimits,
    ) -> Result<(Vec<Condition>, Vec<Change>), KeepError> {
        if writes.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let (before, counted) = self.count().await?;
        let (mut conditions, mut changes) = (vec![counted], Vec::new());
        let mut after = before;
        for write in writes {
            let key = self.key(&write.key);
            let found = self.store.get(&key).await?;
            let held = found.as_ref().map(|found| found.value.as_slice());
            if !write.expects.is_met_by(held) {
                return Err(KeepError::Unexpected);
            }
            if let Some(held) = held {
                after.keys = after.keys.saturating_sub(1);
                after.bytes = after.bytes.saturating_sub(write.key.len() + held.len());
            }
            if let Some(value) = &write.value {
                after.keys += 1;
                after.bytes += write.key.len() + value.len();
            }
            conditions.push(match found {
                Some(found) => Condition::AtRevision(key.clone(), found.revision),
                None => Condition::Absent(key.clone()),
            });
            changes.push(match &write.value {
                Some(value) => Change::Put(key, value.clone()),
                None => Change::Delete(key),
            });
        }
        // What is over a limit that was lowered may still shrink.
        if after.bytes > limits.bytes && after.bytes > before.bytes {
            return Err(KeepError::Bytes);
        }
        if after.keys > limits.keys && after.keys > before.keys {
            return Err(KeepError::Keys);
        }
        let key = count_key(self.box_name, self.plugin);
        changes.push(if after == Count::default() {
            Change::Delete(key)
        } else {
            let value = record::encode(&key, VERSION, &after)?;
            Change::Put(key, value)
        });
        Ok((conditions, changes))
    }

    /// What is kept now, and what holds as long as that does.
    async fn count(&self) -> Result<(Count, Condition), StoreError> {
        let key = count_key(self.box_name, self.plugin);
        match self.store.get(&key).await? {
            Some(found) => {
                let count = record::decode(&found, VERSION)?;
                Ok((count, Condition::AtRevision(key, found.revision)))
            }
            None => Ok((Count::default(), Condition::Absent(key))),
        }
    }

    fn key(&self, key: &str) -> Vec<u8> {
        format!("{}{}/{key}", keep_prefix(self.box_name), self.plugin).into_bytes()
    }
}

/// Deletes what plugins keep for a box that is no more.
pub(super) async fn purge(store: &Arc<dyn Store>, box_name: &BoxName) -> Result<(), StoreError> {
    for prefix in [keep_prefix(box_name), count_prefix(box_name)] {
        let page = Page {
            records: 256,
            bytes: MIB,
        };
        loop {
            let found = store.page(prefix.as_bytes(), None, page).await?;
            if found.is_empty() {
                break;
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
    Ok(())
}

fn keep_prefix(box_name: &BoxName) -> String {
    format!("keep/{box_name}/")
}

fn count_prefix(box_name: &BoxName) -> String {
    format!("kept/{box_name}/")
}

fn count_key(box_name: &BoxName, plugin: &PluginName) -> Vec<u8> {
    format!("{}{plugin}", count_prefix(box_name)).into_bytes()
}

#[cfg(test)]
mod tests;
