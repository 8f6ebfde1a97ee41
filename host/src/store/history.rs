//! The last commits, bounded, so that a watch can begin in the past.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::store::{Changes, Event, Revision, StoreError};

/// One commit and all that it changed.
#[derive(Clone, Debug)]
pub(super) struct Commit {
    pub(super) revision: Revision,
    pub(super) events: Arc<[Event]>,
}

impl Commit {
    /// What of it lies below a prefix.
    pub(super) fn below(&self, prefix: &[u8]) -> Changes {
        let events = self.events.iter();
        Changes {
            revision: self.revision,
            events: events
                .filter(|event| event.key.starts_with(prefix))
                .cloned()
                .collect(),
        }
    }

    fn size(&self) -> usize {
        let sizes = self
            .events
            .iter()
            .map(|event| event.key.len() + event.value.as_ref().map_or(0, Vec::len));
        sizes.sum()
    }
}

/// How much of the past is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) commits: usize,
    pub(super) bytes: usize,
}

/// The newest commits, and where knowledge of the past ends.
#[derive(Debug)]
pub(super) struct History {
    bounds: Bounds,
    commits: VecDeque<Commit>,
    bytes: usize,
    /// The newest commit that is no longer held.
    forgotten: Revision,
}

impl History {
    /// A history that knows nothing up to and including `forgotten`.
    pub(super) fn new(bounds: Bounds, forgotten: Revision) -> Self {
        Self {
            bounds,
            commits: VecDeque::new(),
            bytes: 0,
            forgotten,
        }
    }

    /// Adds the next commit and returns those that had to make room.
    pub(super) fn push(&mut self, commit: Commit) -> Vec<Commit> {
        self.bytes += commit.size();
        self.commits.push_back(commit);
        let mut dropped = Vec::new();
        while self.commits.len() > self.bounds.commits || self.bytes > self.bounds.bytes {
            let Some(oldest) = self.commits.pop_front() else {
                break;
            };
            self.bytes -= oldest.size();
            self.forgotten = oldest.revision;
            dropped.push(oldest);
        }
        dropped
    }

    /// What came after `after` below `prefix`, when `now` is the newest commit.
    ///
    /// # Errors
    /// `Compacted` when some of it is forgotten, and when `after` lies in the
    /// future: whoever says so has seen a store that this one is not.
    pub(super) fn since(
        &self,
        prefix: &[u8],
        after: Revision,
        now: Revision,
    ) -> Result<VecDeque<Changes>, StoreError> {
        if after < self.forgotten || after > now {
            return Err(StoreError::Compacted);
        }
        let newer = self.commits.iter().filter(|commit| commit.revision > after);
        Ok(newer.map(|commit| commit.below(prefix)).collect())
    }
}
