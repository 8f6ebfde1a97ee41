//! The one thread that writes: it takes what the queue holds, makes a batch of
//! it, and signs the head now and then.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::decision_log::chain::Lost;
use crate::decision_log::inputs::{Inputs, NewInputs};
use crate::decision_log::record::{About, Decision, Entry};
use crate::decision_log::segments::Segments;
use crate::decision_log::sign::Signer;
use crate::decision_log::{Mode, Shared, Slot};

/// How long records gather before they are written: under load a link stands
/// for many, and the requests wake this thread seldom.
const GATHER: Duration = Duration::from_millis(5);

/// How many records one link stands for at most.
const MOST_IN_BATCH: usize = 1024;

/// How long a disk that takes nothing is left alone.
const PAUSE: Duration = Duration::from_millis(200);

/// How often a batch is tried at the end of the host before it is given up.
const TRIES_AT_END: u32 = 5;

/// What the queue holds.
pub(super) enum Message {
    Decision {
        time: Timestamp,
        decision: Box<Decision>,
        inputs: Option<NewInputs>,
        slot: Option<Slot>,
    },
    End,
}

pub(super) struct Writer {
    pub(super) segments: Segments,
    pub(super) inputs: Option<Inputs>,
    pub(super) signer: Signer,
    pub(super) shared: Arc<Shared>,
    pub(super) mode: Mode,
    pub(super) sign_every: Duration,
    pub(super) queue: Receiver<Message>,
}

/// A batch, and the room in the queue that its records were promised.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    inputs: Vec<(Timestamp, NewInputs)>,
    slots: Vec<Slot>,
}

impl Writer {
    /// Writes until it is told to end.
    pub(super) fn run(mut self) {
        let mut signed_at = Instant::now();
        loop {
            let until = self.sign_every.saturating_sub(signed_at.elapsed());
            let (batch, ends) = match self.queue.recv_timeout(until) {
                Ok(first) => self.gather(first),
                Err(RecvTimeoutError::Timeout) => (Batch::default(), false),
                Err(RecvTimeoutError::Disconnected) => (Batch::default(), true),
            };
            self.keep(batch, ends);
            if ends {
                return self.end();
            }
            if signed_at.elapsed() >= self.sign_every {
                if let Err(cause) = self.segments.sign(&self.signer, Timestamp::now()) {
                    tracing::warn!(%cause, "the head of the decision log could not be signed");
                }
                signed_at = Instant::now();
            }
        }
    }

    fn gather(&self, first: Message) -> (Batch, bool) {
        let mut batch = Batch::default();
        let mut next = Some(first);
        let mut gathered = false;
        loop {
            match next.take() {
                Some(Message::Decision {
                    time,
                    decision,
                    inputs,
                    slot,
                }) => {
                    batch.inputs.extend(inputs.map(|inputs| (time, inputs)));
                    batch
                        .entries
                        .push(Entry::new(time, About::Decision(decision)));
                    batch.slots.extend(slot);
                }
                Some(Message::End) => return (batch, true),
                None if gathered => return (batch, false),
                None => {
                    std::thread::sleep(GATHER);
                    gathered = true;
                }
            }
            if batch.entries.len() == MOST_IN_BATCH {
                return (batch, false);
            }
            next = self.queue.try_recv().ok();
        }
    }

    /// Writes a batch. Where the disk takes nothing, `must` keeps it and tries
    /// again, and requests are refused meanwhile; `best-effort` counts it.
    fn keep(&mut self, mut batch: Batch, at_end: bool) {
        self.record_inputs(std::mem::take(&mut batch.inputs));
        let mut tries = 0;
        loop {
            let lost = self.shared.lost.swap(0, Ordering::AcqRel);
            if lost > 0 {
                let about = About::Lost(Lost { count: lost });
                batch.entries.push(Entry::new(Timestamp::now(), about));
            }
            if batch.entries.is_empty() {
                return;
            }
            let written = self
                .segments
                .append(&batch.entries, self.mode == Mode::Must);
            match written {
                Ok(bytes) => {
                    self.shared.kept(batch.entries.len(), bytes);
                    return;
                }
                Err(cause) => {
                    if !self.shared.failing.swap(true, Ordering::AcqRel) {
                        tracing::error!(%cause, mode = self.mode.word(), "the decision log cannot be written");
                    }
                    if lost > 0 {
                        batch.entries.pop();
                        self.shared.lost.fetch_add(lost, Ordering::AcqRel);
                    }
                    tries += 1;
                    let gives_up = at_end && tries >= TRIES_AT_END;
                    if self.mode == Mode::BestEffort || gives_up {
                        return self.shared.lose(batch.entries.len());
                    }
                    std::thread::sleep(PAUSE);
                }
            }
        }
    }

    /// Inputs are kept as well as can be: the log does not wait for them.
    fn record_inputs(&mut self, all: Vec<(Timestamp, NewInputs)>) {
        let Some(files) = &mut self.inputs else {
            return;
        };
        for (time, inputs) in all {
            if let Err(cause) = files.append(&inputs.make(time)) {
                self.shared.metrics.inputs_lost();
                tracing::warn!(%cause, "the inputs of a decision could not be recorded");
            }
        }
    }

    fn end(mut self) {
        let batch = Batch {
            entries: vec![Entry::new(Timestamp::now(), About::Ended)],
            ..Batch::default()
        };
        self.keep(batch, true);
        if let Err(cause) = self.segments.sign(&self.signer, Timestamp::now()) {
            tracing::error!(%cause, "the last head of the decision log could not be signed");
        }
        let lost = self.shared.lost.load(Ordering::Acquire);
        if lost > 0 {
            tracing::error!(
                lost,
                "decisions were not kept, and the decision log does not say so"
            );
        }
    }
}

/// The way into the queue.
pub(super) type Queue = SyncSender<Message>;
