//! The awkward engine: in memory, for tests. It does whatever a store across a
//! network may do (commits overtake each other, answers and watches lag,
//! watches are lost), from a seed, so that a failure can be had again.
//!
//! It keeps nothing: never for a host that serves.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::store::history::{Bounds, Commit, History};
use crate::store::notify::Notifier;
use crate::store::{
    Batch, Change, Event, MAX_BATCH, Page, Record, Revision, Store, StoreError, Watch,
};

/// How awkward the engine is. The rates are in 256ths.
#[derive(Debug, Clone, Copy)]
pub struct Awkward {
    /// Where the pseudo-random numbers begin.
    pub seed: u64,
    /// The most times a call or an answer gives way to other tasks. With more
    /// than none, commits that are under way together happen in any order.
    pub delay: u8,
    /// How often a commit loses each watch.
    pub losses: u8,
    /// How often a conditional commit is refused though its conditions hold,
    /// as it is when an unrelated writer came first and went again.
    pub conflicts: u8,
    /// How many commits the history holds.
    pub history: usize,
}

impl Default for Awkward {
    /// Delays and losses, no conflicts but true ones.
    fn default() -> Self {
        Self {
            seed: 1,
            delay: 4,
            losses: 32,
            conflicts: 0,
            history: 4,
        }
    }
}

/// Opens an empty store in memory.
#[must_use]
pub fn open_memory(awkward: Awkward) -> Arc<dyn Store> {
    let bounds = Bounds {
        commits: awkward.history,
        bytes: 4 * MAX_BATCH,
    };
    Arc::new(Memory {
        awkward,
        pace: Pace::new(awkward.seed, awkward.delay),
        notifier: Notifier::default(),
        state: Mutex::new(State {
            records: BTreeMap::new(),
            revision: Revision(0),
            history: History::new(bounds, Revision(0)),
            closed: false,
        }),
    })
}

struct Memory {
    awkward: Awkward,
    pace: Pace,
    notifier: Notifier,
    state: Mutex<State>,
}

struct State {
    records: BTreeMap<Vec<u8>, (Vec<u8>, Revision)>,
    revision: Revision,
    history: History,
    closed: bool,
}

impl Memory {
    fn open(&self) -> Result<MutexGuard<'_, State>, StoreError> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(StoreError::Closed);
        }
        Ok(state)
    }

    fn apply(&self, batch: Batch) -> Result<Revision, StoreError> {
        let mut state = self.open()?;
        let holds = batch.conditions.iter().all(|condition| {
            let found = state.records.get(condition.key());
            condition.holds(found.map(|(_, revision)| *revision))
        });
        let injected = !batch.conditions.is_empty() && self.pace.happens(self.awkward.conflicts);
        if !holds || injected {
            return Err(StoreError::Conflict);
        }
        let revision = Revision(state.revision.0 + 1);
        state.revision = revision;
        let mut events = Vec::new();
        for change in batch.changes {
            let (key, value) = match change {
                Change::Put(key, value) => {
                    state.records.insert(key.clone(), (value.clone(), revision));
                    (key, Some(value))
                }
                Change::Delete(key) => match state.records.remove(&key) {
                    Some(_) => (key, None),
                    None => continue,
                },
            };
            events.push(Event {
                revision,
                key,
                value,
            });
        }
        let commit = Commit {
            revision,
            events: events.into(),
        };
        state.history.push(commit.clone());
        // Under the lock, so that watches see commits in their order.
        self.notifier.publish(&commit);
        self.notifier
            .end(&StoreError::Lost, || self.pace.happens(self.awkward.losses));
        Ok(revision)
    }
}

#[async_trait]
impl Store for Memory {
    async fn get(&self, key: &[u8]) -> Result<Option<Record>, StoreError> {
        self.pace.wait().await;
        let state = self.open()?;
        Ok(state.records.get(key).map(|(value, revision)| Record {
            key: key.to_vec(),
            value: value.clone(),
            revision: *revision,
        }))
    }

    async fn scan(&self, prefix: &[u8]) -> Result<(Vec<Record>, Revision), StoreError> {
        self.pace.wait().await;
        let state = self.open()?;
        let records = state
            .records
            .range(prefix.to_vec()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, (value, revision))| Record {
                key: key.clone(),
                value: value.clone(),
                revision: *revision,
            });
        Ok((records.collect(), state.revision))
    }

    async fn page(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        page: Page,
    ) -> Result<Vec<Record>, StoreError> {
        self.pace.wait().await;
        let state = self.open()?;
        let from = match after {
            Some(after) if after > prefix => Bound::Excluded(after),
            Some(_) | None => Bound::Included(prefix),
        };
        let records = state
            .records
            .range::<[u8], _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, (value, revision))| {
                Ok(Record {
                    key: key.clone(),
                    value: value.clone(),
                    revision: *revision,
                })
            });
        page.fill(records)
    }

    async fn commit(&self, batch: Batch) -> Result<Revision, StoreError> {
        batch.check()?;
        self.pace.wait().await;
        let revision = self.apply(batch)?;
        self.pace.wait().await;
        Ok(revision)
    }

    async fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watch, StoreError> {
        self.pace.wait().await;
        let state = self.open()?;
        let past = state.history.since(prefix, after, state.revision)?;
        Ok(self.notifier.watch(prefix, past, Some(self.pace.clone())))
    }

    async fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        self.notifier.end(&StoreError::Closed, || true);
    }
}

/// Pseudo-random giving way: no clock, so the same seed and the same tasks on
/// one thread run the same way.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    state: Arc<Mutex<u64>>,
    delay: u8,
}

impl Pace {
    fn new(seed: u64, delay: u8) -> Self {
        Self {
            state: Arc::new(Mutex::new(seed)),
            delay,
        }
    }

    pub(super) async fn wait(&self) {
        let turns = self.draw() % (u64::from(self.delay) + 1);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
    }

    fn happens(&self, rate: u8) -> bool {
        self.draw() % 256 < u64::from(rate)
    }

    /// splitmix64.
    fn draw(&self) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
