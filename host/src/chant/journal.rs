//! The journal: what plugins note for the operator, in the order it came. A
//! record is there whole or not at all; one that is too large for a commit of
//! the store lies in parts that are put down before it, and that nobody sees
//! until it stands.
//!
//! How many bytes a plugin's records have, and how many of them each box's have,
//! stands in records of their own, which every change renews under a condition.
//! A box's count stays with its records when the box goes: whoever has its name
//! next has what they leave of its share.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::rules::names::{BoxName, PluginName};
use crate::store::{Batch, Change, Condition, Page, Record, Store, StoreError, record};

mod staged;

pub(super) use staged::Staged;

const VERSION: u32 = 1;
const KIB: usize = 1024;

/// What stands in a record itself, and what lies in parts, by its first byte.
const WHOLE: u8 = 1;
const IN_PARTS: u8 = 2;

/// Records up to this many bytes together go into one commit with the rest of a
/// plan; more lies in parts.
const WHOLE_BYTES: usize = 48 * KIB;

/// How many records one page of the operator's reads holds, about.
const PAGE: Page = Page {
    records: 500,
    bytes: 256 * KIB,
};
const PAGE_BYTES: usize = 4 * KIB * KIB;

/// The journal of this host's plugins.
pub struct Journal {
    store: Arc<dyn Store>,
    limits: JournalLimits,
}

/// How much one plugin's journal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalLimits {
    /// Bytes of records.
    pub bytes: u64,
    /// Bytes of those that were noted for one box.
    pub bytes_per_box: u64,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// Where it stands: what a later page begins after.
    pub place: String,
    /// When it was noted, in nanoseconds since 1970.
    pub at: i128,
    /// For which box.
    pub box_name: BoxName,
    /// What was noted.
    pub record: Vec<u8>,
}

/// Why a journal does not take records.
#[derive(Debug, thiserror::Error)]
pub(super) enum JournalError {
    /// There would be too many bytes of one box.
    #[error("there would be more than {0} bytes of one box")]
    ShareFull(u64),
    /// There would be too many bytes.
    #[error("there would be more than {0} bytes")]
    Full(u64),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Serialize, Deserialize, Default, Clone, Copy)]
struct Count {
    bytes: u64,
}

impl Journal {
    /// Takes the journal up, and clears away what a host that was cut off left
    /// half done.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub async fn open(store: Arc<dyn Store>, limits: JournalLimits) -> Result<Self, StoreError> {
        staged::clear(&store, now()).await?;
        Ok(Self { store, limits })
    }

    /// Puts down records that are too large for one commit, unseen yet.
    pub(super) async fn stage(
        &self,
        plugin: &PluginName,
        box_name: &BoxName,
        records: &[Vec<u8>],
    ) -> Result<Staged, JournalError> {
        if size(records) <= WHOLE_BYTES as u64 {
            return Ok(Staged::nothing());
        }
        // The commit that makes them seen counts exactly; this saves the disk
        // what would not stay.
        let (all, own) = (count_key(plugin), share_key(plugin, box_name));
        let (all, own) = (self.count(&all).await?.0, self.count(&own).await?.0);
        self.room(all, own, records)?;
        Ok(staged::stage(&self.store, plugin, box_name, records, now()).await?)
    }

    /// What makes records last: conditions and changes for the commit that they
    /// are part of.
    pub(super) async fn changes(
        &self,
        plugin: &PluginName,
        box_name: &BoxName,
        records: &[Vec<u8>],
        staged: &Staged,
    ) -> Result<(Vec<Condition>, Vec<Change>), JournalError> {
        if records.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let (all, own) = (count_key(plugin), share_key(plugin, box_name));
        let (in_share, own_counted) = self.count(&own).await?;
        let (in_all, all_counted) = self.count(&all).await?;
        let (in_all, in_share) = self.room(in_all, in_share, records)?;
        let mut conditions = vec![all_counted, own_counted];
        let mut changes = vec![counted(all, in_all)?, counted(own, in_share)?];
        if let Some((seen, unmarked)) = staged.seen() {
            conditions.push(seen);
            changes.push(unmarked);
        }
        let at = staged.at().unwrap_or_else(now);
        for (index, record) in records.iter().enumerate() {
            let key = record_key(plugin, at, index, box_name);
            // No other record is written over, whatever the clock says.
            conditions.push(Condition::Absent(key.clone()));
            let value = match staged.parts(index) {
                Some(parts) => vec![IN_PARTS, parts],
                None => [&[WHOLE], record.as_slice()].concat(),
            };
            changes.push(Change::Put(key, value));
        }
        Ok((conditions, changes))
    }

    /// A page of a plugin's records, oldest first: those that come after
    /// `after`, or else from `since` on. Empty at the end.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn read(
        &self,
        plugin: &PluginName,
        box_name: Option<&BoxName>,
        since: i128,
        after: Option<&str>,
    ) -> Result<Vec<Noted>, StoreError> {
        let prefix = prefix(plugin);
        let mut after = match after {
            Some(place) => format!("{prefix}{place}"),
            None => format!("{prefix}{:020}", since.max(0)),
        };
        let (mut noted, mut bytes) = (Vec::new(), 0);
        while bytes < PAGE_BYTES && noted.len() < PAGE.records {
            let page = self
                .store
                .page(prefix.as_bytes(), Some(after.as_bytes()), PAGE)
                .await?;
            if page.is_empty() {
                break;
            }
            for found in page {
                let Some((place, at, owner)) = parse(&found.key, &prefix) else {
                    return Err(corrupt(&found.key));
                };
                after = format!("{prefix}{place}");
                if box_name.is_some_and(|wanted| *wanted != owner) {
                    continue;
                }
                let record = self.whole(plugin, &found, &place).await?;
                bytes += record.len();
                noted.push(Noted {
                    place,
                    at,
                    box_name: owner,
                    record,
                });
                if bytes >= PAGE_BYTES {
                    break;
                }
            }
        }
        Ok(noted)
    }

    /// Deletes a plugin's records that were noted before `before`. Returns how
    /// many.
    ///
    /// # Errors
    /// When the store fails; what has gone by then has gone.
    pub async fn prune(&self, plugin: &PluginName, before: i128) -> Result<u64, StoreError> {
        let prefix = prefix(plugin);
        let mut gone = 0;
        loop {
            let page = Page {
                records: 128,
                ..PAGE
            };
            let found = self.store.page(prefix.as_bytes(), None, page).await?;
            let old: Vec<Record> = found
                .into_iter()
                .take_while(|found| {
                    parse(&found.key, &prefix).is_some_and(|(_, at, _)| at < before)
                })
                .collect();
            if old.is_empty() {
                return Ok(gone);
            }
            gone += self.delete(plugin, &prefix, old).await?;
        }
    }

    async fn delete(
        &self,
        plugin: &PluginName,
        prefix: &str,
        old: Vec<Record>,
    ) -> Result<u64, StoreError> {
        let mut gone_of: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        let mut parts = Vec::new();
        for found in &old {
            let (place, _, box_name) =
                parse(&found.key, prefix).ok_or_else(|| corrupt(&found.key))?;
            let bytes = self.whole(plugin, found, &place).await?.len() as u64;
            for key in [count_key(plugin), share_key(plugin, &box_name)] {
                *gone_of.entry(key).or_default() += bytes;
            }
            if found.value.first() == Some(&IN_PARTS) {
                parts.push(part_prefix(plugin, &place));
            }
        }
        let (mut conditions, mut counts) = (Vec::new(), Vec::new());
        for (key, bytes) in gone_of {
            let (count, unchanged) = self.count(&key).await?;
            conditions.push(unchanged);
            counts.push(counted(key, count.without(bytes))?);
        }
        let gone = old.len() as u64;
        let deleted = old.into_iter().map(|found| Change::Delete(found.key));
        let marked = parts.iter().map(|prefix| staged::mark_gone(prefix));
        let batch = Batch {
            conditions,
            changes: deleted.chain(marked).chain(counts).collect(),
        };
        match self.store.commit(batch).await {
            Ok(_) => {}
            Err(StoreError::Conflict) => return Ok(0),
            Err(failed) => return Err(failed),
        }
        for prefix in parts {
            staged::delete_gone(&self.store, &prefix).await?;
        }
        Ok(gone)
    }

    async fn whole(
        &self,
        plugin: &PluginName,
        found: &Record,
        place: &str,
    ) -> Result<Vec<u8>, StoreError> {
        match found.value.as_slice() {
            [WHOLE, record @ ..] => Ok(record.to_vec()),
            [IN_PARTS, parts] => {
                let prefix = part_prefix(plugin, place);
                let (found, _) = self.store.scan(prefix.as_bytes()).await?;
                if found.len() != usize::from(*parts) {
                    return Err(corrupt(prefix.as_bytes()));
                }
                Ok(found.into_iter().flat_map(|part| part.value).collect())
            }
            _ => Err(corrupt(&found.key)),
        }
    }

    /// What a count says, and what holds as long as it says so.
    async fn count(&self, key: &[u8]) -> Result<(Count, Condition), StoreError> {
        match self.store.get(key).await? {
            Some(found) => {
                let count = record::decode(&found, VERSION)?;
                Ok((count, Condition::AtRevision(found.key, found.revision)))
            }
            None => Ok((Count::default(), Condition::Absent(key.to_vec()))),
        }
    }

    /// The counts with these records in them, where there is room: in the box's
    /// share first, since that is what the box itself can see to.
    fn room(
        &self,
        all: Count,
        own: Count,
        records: &[Vec<u8>],
    ) -> Result<(Count, Count), JournalError> {
        let (all, own) = (all.with(size(records)), own.with(size(records)));
        let JournalLimits {
            bytes,
            bytes_per_box,
        } = self.limits;
        if own.bytes > bytes_per_box {
            return Err(JournalError::ShareFull(bytes_per_box));
        }
        if all.bytes > bytes {
            return Err(JournalError::Full(bytes));
        }
        Ok((all, own))
    }
}

impl Count {
    fn with(self, bytes: u64) -> Self {
        Self {
            bytes: self.bytes.saturating_add(bytes),
        }
    }

    fn without(self, bytes: u64) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(bytes),
        }
    }
}

/// What makes a count say this. Of nothing, there is no count.
fn counted(key: Vec<u8>, count: Count) -> Result<Change, StoreError> {
    if count.bytes == 0 {
        return Ok(Change::Delete(key));
    }
    let value = record::encode(&key, VERSION, &count)?;
    Ok(Change::Put(key, value))
}

fn size(records: &[Vec<u8>]) -> u64 {
    records.iter().map(|record| record.len() as u64).sum()
}

fn now() -> i128 {
    jiff::Timestamp::now().as_nanosecond()
}

fn prefix(plugin: &PluginName) -> String {
    format!("journal/{plugin}/")
}

/// Where a record stands below its plugin.
fn place(at: i128, index: usize, box_name: &BoxName) -> String {
    format!("{at:020}-{index:02}/{box_name}")
}

fn record_key(plugin: &PluginName, at: i128, index: usize, box_name: &BoxName) -> Vec<u8> {
    format!("{}{}", prefix(plugin), place(at, index, box_name)).into_bytes()
}

fn part_prefix(plugin: &PluginName, place: &str) -> String {
    format!("journal-part/{plugin}/{place}/")
}

fn count_key(plugin: &PluginName) -> Vec<u8> {
    format!("journaled/{plugin}").into_bytes()
}

fn share_key(plugin: &PluginName, box_name: &BoxName) -> Vec<u8> {
    format!("journaled-for/{plugin}/{box_name}").into_bytes()
}

fn parse(key: &[u8], prefix: &str) -> Option<(String, i128, BoxName)> {
    let place = std::str::from_utf8(key).ok()?.strip_prefix(prefix)?;
    let (stamp, box_name) = place.split_once('/')?;
    let (at, _index) = stamp.split_once('-')?;
    let box_name = BoxName::parse(box_name).ok()?;
    Some((place.to_owned(), at.parse().ok()?, box_name))
}

fn corrupt(key: &[u8]) -> StoreError {
    StoreError::Corrupt {
        key: String::from_utf8_lossy(key).into_owned(),
        reason: "it is no record of the journal".to_owned(),
    }
}

#[cfg(test)]
mod tests;
