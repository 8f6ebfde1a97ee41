//! sled's tree as records, revisions and a change log. Blocking; knows nothing
//! of threads or callers.

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use crate::store::embedded::files::{DataFile, Folder, Sync, failed};
use crate::store::embedded::{SledSettings, layout};
use crate::store::history::{Bounds, Commit, History};
use crate::store::{Batch, Change, Changes, Event, Page, Record, Revision, StoreError};

/// How often sled's own lock is tried once ours is held: a thread of a store
/// just closed may still be letting go of it.
const LOCK_TRIES: u32 = 200;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// An open database. Fields drop in order: sled first, our lock last.
pub(super) struct Database {
    tree: sled::Db,
    data_file: DataFile,
    history: History,
    revision: Revision,
    folder: Folder,
}

/// Commits that go to disk together.
pub(super) struct Group {
    writes: sled::Batch,
    commits: Vec<Commit>,
    revision: Revision,
    /// What earlier commits of this group made of a key: its revision and how
    /// many chunks follow the first.
    changed: HashMap<Vec<u8>, Option<(Revision, u8)>>,
}

impl Database {
    pub(super) fn open(
        path: &Path,
        settings: SledSettings,
        sync: Sync,
    ) -> Result<Self, StoreError> {
        let folder = Folder::hold(path)?;
        let tree = open_tree(path, settings)?;
        let data_file = folder.settle(sync)?;
        let reading = |error: sled::Error| failed("reading", path, &error);
        match tree.get(layout::FORMAT_KEY).map_err(reading)?.as_deref() {
            Some([layout::FORMAT]) => {}
            None => {
                let writing = |error: sled::Error| failed("writing", path, &error);
                tree.insert(layout::FORMAT_KEY, &[layout::FORMAT])
                    .map_err(writing)?;
            }
            Some(_) => {
                let cause = "it was written by another version of the host, which must read it";
                return Err(failed("opening", path, &cause));
            }
        }
        let revision = match tree.get(layout::REVISION_KEY).map_err(reading)? {
            Some(bytes) => <[u8; 8]>::try_from(bytes.as_ref())
                .map(u64::from_be_bytes)
                .map(Revision)
                .map_err(|_| corrupt(layout::REVISION_KEY))?,
            None => Revision(0),
        };
        let bounds = Bounds {
            commits: settings.history_commits,
            bytes: settings.history_bytes,
        };
        let history = read_history(&tree, path, bounds, revision)?;
        Ok(Self {
            tree,
            data_file,
            history,
            revision,
            folder,
        })
    }

    /// The newest commit.
    pub(super) fn revision(&self) -> Revision {
        self.revision
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Record>, StoreError> {
        let prefix = [key, &[0]].concat();
        Ok(self.scan(&prefix)?.pop())
    }

    pub(super) fn scan(&self, prefix: &[u8]) -> Result<Vec<Record>, StoreError> {
        let chunks = self.tree.scan_prefix(layout::record_prefix(prefix));
        self.gather(chunks).collect()
    }

    pub(super) fn page(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        page: Page,
    ) -> Result<Vec<Record>, StoreError> {
        let begin = layout::record_prefix(prefix);
        let from = match after {
            Some(after) if after > prefix => Bound::Excluded(layout::last_record_key(after)),
            Some(_) | None => Bound::Included(begin.clone()),
        };
        let chunks = self.tree.range((from, Bound::Unbounded));
        // An error is told, not passed over.
        let below = move |chunk: &sled::Result<(sled::IVec, sled::IVec)>| {
            chunk
                .as_ref()
                .map_or(true, |(key, _)| key.starts_with(&begin))
        };
        page.fill(self.gather(chunks.take_while(below)))
    }

    /// Puts records together from their chunks, as they come.
    fn gather(
        &self,
        mut chunks: impl Iterator<Item = sled::Result<(sled::IVec, sled::IVec)>>,
    ) -> impl Iterator<Item = Result<Record, StoreError>> {
        std::iter::from_fn(move || {
            let gathered = chunks.next()?.map_err(|error| self.reading(&error));
            Some(gathered.and_then(|(stored_key, chunk)| {
                let mut gather = layout::Gather::begin(&stored_key, &chunk)
                    .ok_or_else(|| corrupt(&stored_key))?;
                while gather.missing() > 0 {
                    let next = chunks.next().ok_or_else(|| corrupt(&stored_key))?;
                    gather.add(&next.map_err(|error| self.reading(&error))?.1);
                }
                Ok(gather.finish())
            }))
        })
    }

    pub(super) fn since(
        &self,
        prefix: &[u8],
        after: Revision,
    ) -> Result<VecDeque<Changes>, StoreError> {
        self.history.since(prefix, after, self.revision)
    }

    /// Begins a group.
    pub(super) fn group(&self) -> Group {
        Group {
            writes: sled::Batch::default(),
            commits: Vec::new(),
            revision: self.revision,
            changed: HashMap::new(),
        }
    }

    /// Adds a batch to a group if its conditions hold after those before it.
    pub(super) fn admit(&self, batch: Batch, group: &mut Group) -> Result<Revision, StoreError> {
        for condition in &batch.conditions {
            let found = self.head(condition.key(), group)?;
            if !condition.holds(found.map(|(revision, _)| revision)) {
                return Err(StoreError::Conflict);
            }
        }
        let heads = batch
            .changes
            .iter()
            .map(|change| self.head(change.key(), group));
        let heads = heads.collect::<Result<Vec<_>, StoreError>>()?;

        // Nothing below fails: a batch is in the group whole, or not at all.
        let revision = Revision(group.revision.0 + 1);
        group.revision = revision;
        let mut events = Vec::new();
        for (change, head) in batch.changes.into_iter().zip(heads) {
            events.extend(group.write(change, head, revision));
        }
        group.commits.push(Commit {
            revision,
            events: events.into(),
        });
        Ok(revision)
    }

    /// Puts a group on disk. All of it or nothing is found after a cut: sled
    /// recovers a batch whole. After an error nothing is known of what the
    /// disk holds, and the database must not be used again.
    pub(super) fn put_on_disk(&mut self, mut group: Group) -> Result<Vec<Commit>, StoreError> {
        for commit in &group.commits {
            for (index, chunk) in (0_u16..).zip(layout::log_chunks(&commit.events)) {
                group
                    .writes
                    .insert(layout::log_key(commit.revision, index), chunk);
            }
            for key in self.history.push(commit.clone()).iter().flat_map(log_keys) {
                group.writes.remove(key);
            }
        }
        let revision = group.revision.0.to_be_bytes();
        group.writes.insert(layout::REVISION_KEY, &revision);
        let writing = |error: sled::Error| failed("writing", self.folder.path(), &error);
        self.tree.apply_batch(group.writes).map_err(writing)?;
        self.tree.flush().map_err(writing)?;
        self.data_file
            .put_on_disk()
            .map_err(|error| failed("writing to disk", self.folder.path(), &error))?;
        self.revision = group.revision;
        Ok(group.commits)
    }

    /// A key's revision and how many chunks follow its first, as the group
    /// leaves it.
    fn head(&self, key: &[u8], group: &Group) -> Result<Option<(Revision, u8)>, StoreError> {
        if let Some(changed) = group.changed.get(key) {
            return Ok(*changed);
        }
        let stored_key = layout::record_key(key, 0);
        let chunk = self
            .tree
            .get(&stored_key)
            .map_err(|error| self.reading(&error))?;
        let Some(chunk) = chunk else {
            return Ok(None);
        };
        let head = layout::read_head(&chunk).ok_or_else(|| corrupt(&stored_key))?;
        Ok(Some((head.revision, head.more)))
    }

    fn reading(&self, error: &sled::Error) -> StoreError {
        failed("reading", self.folder.path(), error)
    }
}

impl Group {
    pub(super) fn is_empty(&self) -> bool {
        self.commits.is_empty()
    }

    /// Writes one change over what was there; a delete of nothing is no event.
    fn write(
        &mut self,
        change: Change,
        before: Option<(Revision, u8)>,
        revision: Revision,
    ) -> Option<Event> {
        let mut after = None;
        let (key, value) = match change {
            Change::Put(key, value) => {
                let chunks = layout::record_chunks(revision, &value);
                for (index, chunk) in (0_u8..).zip(chunks) {
                    self.writes.insert(layout::record_key(&key, index), chunk);
                    after = Some((revision, index));
                }
                (key, Some(value))
            }
            Change::Delete(key) => {
                before?;
                (key, None)
            }
        };
        if let Some((_, last)) = before {
            let first = after.map_or(0, |(_, kept)| kept + 1);
            for index in first..=last {
                self.writes.remove(layout::record_key(&key, index));
            }
        }
        self.changed.insert(key.clone(), after);
        Some(Event {
            revision,
            key,
            value,
        })
    }
}

fn open_tree(path: &Path, settings: SledSettings) -> Result<sled::Db, StoreError> {
    let config = || {
        sled::Config::new()
            .path(path)
            .cache_capacity(settings.cache_bytes)
            // Nothing is flushed behind our back: the group commit is the only
            // one who decides what is on disk.
            .flush_every_ms(None)
    };
    for _ in 0..LOCK_TRIES {
        match config().open() {
            Ok(tree) => return Ok(tree),
            Err(sled::Error::Io(error)) if error.to_string().contains("could not acquire lock") => {
                std::thread::sleep(LOCK_PAUSE);
            }
            Err(error) => return Err(failed("opening", path, &error)),
        }
    }
    Err(StoreError::Locked {
        path: path.to_owned(),
    })
}

fn read_history(
    tree: &sled::Db,
    path: &Path,
    bounds: Bounds,
    newest: Revision,
) -> Result<History, StoreError> {
    let mut commits: Vec<(Revision, Vec<u8>)> = Vec::new();
    for entry in tree.scan_prefix(layout::LOG_PREFIX) {
        let (stored_key, chunk) = entry.map_err(|error| failed("reading", path, &error))?;
        let revision = layout::log_revision(&stored_key).ok_or_else(|| corrupt(&stored_key))?;
        match commits.last_mut() {
            Some((last, bytes)) if *last == revision => bytes.extend_from_slice(&chunk),
            Some(_) | None => commits.push((revision, chunk.to_vec())),
        }
    }
    let oldest = commits
        .first()
        .map_or(newest.0, |(revision, _)| revision.0 - 1);
    let mut history = History::new(bounds, Revision(oldest));
    for (revision, bytes) in commits {
        let events = layout::read_log(revision, &bytes)
            .ok_or_else(|| corrupt(&layout::log_key(revision, 0)))?;
        let dropped = history.push(Commit {
            revision,
            events: events.into(),
        });
        // Smaller bounds than last time push out some; nothing depends on when.
        for key in dropped.iter().flat_map(log_keys) {
            tree.remove(key)
                .map_err(|error| failed("writing", path, &error))?;
        }
    }
    Ok(history)
}

fn log_keys(commit: &Commit) -> Vec<Vec<u8>> {
    let chunks = layout::log_chunks(&commit.events).len();
    let indexes = (0_u16..).take(chunks);
    indexes
        .map(|index| layout::log_key(commit.revision, index))
        .collect()
}

fn corrupt(stored_key: &[u8]) -> StoreError {
    StoreError::Corrupt {
        key: String::from_utf8_lossy(stored_key).into_owned(),
        reason: "the engine's own layout is broken there: restore the folder from a backup"
            .to_owned(),
    }
}
