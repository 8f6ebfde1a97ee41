//! Who watches what: a notifier of our own, because the engine's blocks its
//! writers behind a slow reader. Here a reader that falls behind loses its
//! watch, and is told so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::mpsc;

use crate::store::history::Commit;
use crate::store::memory::Pace;
use crate::store::{Changes, StoreError};

/// How many commits a watch may lag behind before it is lost.
const BUFFER: usize = 1024;

/// The watches of one store.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    watchers: Mutex<Vec<Watcher>>,
}

#[derive(Debug)]
struct Watcher {
    prefix: Vec<u8>,
    sender: mpsc::Sender<Changes>,
    end: Arc<OnceLock<StoreError>>,
}

impl Notifier {
    /// Begins a watch that first shows `past`. The engine sees to it that no
    /// commit is published between reading the past and this call.
    pub(super) fn watch(
        &self,
        prefix: &[u8],
        past: VecDeque<Changes>,
        pace: Option<Pace>,
    ) -> Watch {
        let (sender, live) = mpsc::channel(BUFFER);
        let end = Arc::new(OnceLock::new());
        self.lock().push(Watcher {
            prefix: prefix.to_vec(),
            sender,
            end: Arc::clone(&end),
        });
        Watch {
            past,
            live,
            end,
            pace,
        }
    }

    /// Shows a commit to every watch. Each hears of it even when nothing below
    /// its prefix changed: that is how it knows how far it has seen.
    pub(super) fn publish(&self, commit: &Commit) {
        self.lock().retain(|watcher| {
            match watcher.sender.try_send(commit.below(&watcher.prefix)) {
                Ok(()) => true,
                Err(mpsc::error::TrySendError::Full(_)) => {
                    watcher.end.get_or_init(|| StoreError::Lost);
                    false
                }
                Err(mpsc::error::TrySendError::Closed(_)) => false,
            }
        });
    }

    /// Ends the watches that `choose` picks; they show what they already hold,
    /// and then the reason.
    pub(super) fn end(&self, reason: &StoreError, mut choose: impl FnMut() -> bool) {
        self.lock().retain(|watcher| {
            let ends = choose();
            if ends {
                watcher.end.get_or_init(|| reason.clone());
            }
            !ends
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watcher>> {
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes as they come, one commit at a time and none split in two.
#[derive(Debug)]
pub struct Watch {
    past: VecDeque<Changes>,
    live: mpsc::Receiver<Changes>,
    end: Arc<OnceLock<StoreError>>,
    pace: Option<Pace>,
}

impl Watch {
    /// The next commit.
    ///
    /// # Errors
    /// [`StoreError::Lost`] or [`StoreError::Compacted`] when changes have been
    /// missed and the caller must scan; [`StoreError::Closed`] or
    /// [`StoreError::Broken`] when nothing more will come.
    pub async fn next(&mut self) -> Result<Changes, StoreError> {
        if let Some(pace) = &self.pace {
            pace.wait().await;
        }
        if let Some(changes) = self.past.pop_front() {
            return Ok(changes);
        }
        let next = self.live.recv().await;
        next.ok_or_else(|| self.end.get().cloned().unwrap_or(StoreError::Closed))
    }
}
