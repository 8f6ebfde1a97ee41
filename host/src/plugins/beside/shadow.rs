//! A new version that is asked what the live one is asked. One decision at a
//! time, of a queue that is bounded in number and in bytes: where it is full
//! the next decision is skipped and counted, before anything is copied.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::plugins::beside::again::ask_again;
use crate::plugins::beside::record::Record;
use crate::plugins::live::LivePlugin;
use crate::rules::compare::{Example, Tally, differences};
use crate::rules::names::BoxName;

/// How many decisions wait for the shadow.
const MOST_WAITING: usize = 64;

/// How many bytes they may hold together.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// A shadow. It ends when the last that could hand it a decision is gone.
pub(crate) struct Shadow {
    plugin: Arc<LivePlugin>,
    queue: Sender<Record>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    bytes: AtomicUsize,
    tally: Mutex<Tally>,
}

impl Shadow {
    /// Begins to follow.
    pub(crate) fn begin(plugin: Arc<LivePlugin>) -> Self {
        let (queue, records) = channel(MOST_WAITING);
        let shared = Arc::new(Shared::default());
        tokio::spawn(follow(Arc::clone(&plugin), records, Arc::clone(&shared)));
        Self {
            plugin,
            queue,
            shared,
        }
    }

    /// The version that it is.
    pub(crate) fn plugin(&self) -> &Arc<LivePlugin> {
        &self.plugin
    }

    /// Whether it takes one more decision; one that it does not take is
    /// counted.
    pub(crate) fn has_room(&self) -> bool {
        let bytes = self.shared.bytes.load(Ordering::Relaxed);
        let has_room = self.queue.capacity() > 0 && bytes < MOST_BYTES;
        if !has_room {
            self.shared.tally().skipped += 1;
        }
        has_room
    }

    /// Takes a decision of the live version's.
    pub(crate) fn take(&self, record: Record) {
        let weight = record.weight();
        let bytes = self.shared.bytes.fetch_add(weight, Ordering::Relaxed);
        // One that is large alone is not held, either.
        if bytes + weight > MOST_BYTES || self.queue.try_send(record).is_err() {
            self.shared.bytes.fetch_sub(weight, Ordering::Relaxed);
            self.shared.tally().skipped += 1;
        }
    }

    /// How the two went together so far.
    pub(crate) fn tally(&self) -> Tally {
        self.shared.tally().clone()
    }
}

impl Shared {
    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow(plugin: Arc<LivePlugin>, mut records: Receiver<Record>, shared: Arc<Shared>) {
    while let Some(mut record) = records.recv().await {
        let weight = record.weight();
        compare(&plugin, &mut record, &shared).await;
        shared.bytes.fetch_sub(weight, Ordering::Relaxed);
        // Requests first.
        tokio::task::yield_now().await;
    }
}

async fn compare(plugin: &Arc<LivePlugin>, record: &mut Record, shared: &Shared) {
    let Some(live) = record.decided() else {
        return;
    };
    let Some(other) = ask_again(plugin, record).await else {
        shared.tally().skipped += 1;
        return;
    };
    let found = differences(&live, &other);
    let request = &record.request;
    shared.tally().note(found, |differences| Example {
        box_name: record.box_name.as_ref().map(BoxName::to_string),
        method: request.method.to_string(),
        path: format!("{}{}", request.prefix.trim_end_matches('/'), request.path),
        differences,
    });
}
