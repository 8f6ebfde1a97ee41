//! The decision log: one record for each request that a plugin's route served,
//! in append-only files whose records are chained by hash, and whose head the
//! host signs. `docs/decision-log.md` says how another program verifies it.
//!
//! A request hands its record to a bounded queue and waits for nothing; one
//! thread writes. In reading order: [`DecisionLog`] here is what a request
//! meets, `record` what it hands over, `writer` the thread, `segments` the
//! files, `chain` and `sign` what makes them hold, `verify` and `read` what an
//! operator does with them.

mod chain;
mod inputs;
mod read;
mod record;
mod segments;
mod sign;
mod verify;
mod writer;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use jiff::Timestamp;

use crate::telemetry::Metrics;
use crate::vault::{FrameSealer, VaultKey};
use chain::{Began, Short};
use inputs::Inputs;
use record::{About, Entry};
use segments::{Bounds, Found, Segments};
use writer::{Message, Queue, Writer};

pub use chain::SignedHead;
pub use inputs::{NewInputs, Unread, inputs_folder, read_inputs};
pub use read::{Shown, read};
pub use record::{Decision, Verdict};
pub use sign::{PublicKey, Signer};
pub use verify::{Expected, Finding, Report, head, verify};

/// What becomes of requests while the log cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// They are served, and the log says how many it has lost.
    BestEffort,
    /// They are refused.
    Must,
}

impl Mode {
    /// The word in the configuration.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::BestEffort => "best-effort",
            Self::Must => "must",
        }
    }
}

/// How the log is kept.
#[derive(Debug, Clone)]
pub struct LogSettings {
    /// What becomes of requests while it cannot be written.
    pub mode: Mode,
    /// Where it lies: a folder of the host's alone.
    pub folder: PathBuf,
    /// A segment that is as large is followed by another.
    pub segment_bytes: u64,
    /// How many segments are kept.
    pub segments: u64,
    /// How many records may wait to be written.
    pub queue: usize,
    /// How often the head is signed.
    pub sign_every: Duration,
    /// Where inputs are recorded, where they are.
    pub inputs: Option<InputSettings>,
}

/// How inputs are recorded.
#[derive(Debug, Clone)]
pub struct InputSettings {
    /// Where they lie: a folder of the host's alone.
    pub folder: PathBuf,
    /// How many bytes they take in all.
    pub bytes: u64,
}

/// What the log is signed and its inputs are sealed with.
pub struct LogKeys {
    signer: Signer,
    sealer: FrameSealer,
}

impl LogKeys {
    /// Those of the host that has this vault key.
    #[must_use]
    pub fn of(key: &VaultKey) -> Self {
        Self {
            signer: Signer::of(key),
            sealer: inputs::sealer(key),
        }
    }
}

/// The log cannot be kept.
#[derive(Debug, thiserror::Error)]
#[error("the decision log in {} cannot be kept", folder.display())]
pub struct LogError {
    folder: PathBuf,
    #[source]
    cause: io::Error,
}

/// A log that takes records.
pub struct DecisionLog {
    mode: Mode,
    room: usize,
    queue: Queue,
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// What requests and the writer both see.
struct Shared {
    metrics: Arc<Metrics>,
    /// The disk took nothing when it was last tried.
    failing: AtomicBool,
    /// Records that are not kept, and of which the log does not know yet.
    lost: AtomicU64,
    /// Bytes of inputs in the queue.
    inputs: AtomicUsize,
    /// Records in the queue, and those that are promised room in it.
    taken: AtomicUsize,
}

/// Room in the queue for one record, promised before its request is served.
pub struct Slot(Arc<Shared>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.taken.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The log takes no record, and there must be one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRecord {
    /// The disk takes nothing.
    Disk,
    /// As many records wait, or are promised room, as may.
    Queue,
}

impl DecisionLog {
    /// Takes up the log where it ends, and starts the thread that writes it.
    ///
    /// # Errors
    /// When its folder cannot be read or written.
    pub fn open(
        settings: &LogSettings,
        keys: LogKeys,
        metrics: Arc<Metrics>,
    ) -> Result<Self, LogError> {
        let failed = |cause| LogError {
            folder: settings.folder.clone(),
            cause,
        };
        let LogKeys { signer, sealer } = keys;
        let inputs = settings.inputs.as_ref().map(|inputs| {
            Inputs::open(&inputs.folder, sealer, inputs.bytes).map_err(|cause| LogError {
                folder: inputs.folder.clone(),
                cause,
            })
        });
        let inputs = inputs.transpose()?;
        let segments = begin(settings, &signer).map_err(failed)?;
        let (queue, receiver) = sync_channel(settings.queue);
        let shared = Arc::new(Shared {
            metrics,
            failing: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            inputs: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
        });
        let writer = Writer {
            segments,
            inputs,
            signer,
            shared: Arc::clone(&shared),
            mode: settings.mode,
            sign_every: settings.sign_every,
            queue: receiver,
        };
        let thread = std::thread::Builder::new()
            .name("decision-log".to_owned())
            .spawn(move || writer.run())
            .map_err(failed)?;
        Ok(Self {
            mode: settings.mode,
            room: settings.queue,
            queue,
            shared,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Asks for a request to be served: where there must be a record of it,
    /// only with room for one.
    ///
    /// # Errors
    /// Why there would be none.
    pub fn admit(&self) -> Result<Option<Slot>, NoRecord> {
        if self.mode == Mode::BestEffort {
            return Ok(None);
        }
        if self.shared.failing.load(Ordering::Acquire) {
            return Err(NoRecord::Disk);
        }
        let taken = self.shared.taken.fetch_add(1, Ordering::AcqRel);
        let slot = Slot(Arc::clone(&self.shared));
        if taken >= self.room {
            return Err(NoRecord::Queue);
        }
        Ok(Some(slot))
    }

    /// Hands a record over. It waits for nothing: where the queue is full, the
    /// record is lost, and counted.
    pub fn tell(&self, decision: Decision, inputs: Option<NewInputs>, slot: Option<Slot>) {
        let message = Message::Decision {
            time: Timestamp::now(),
            decision: Box::new(decision),
            inputs: inputs.and_then(|inputs| inputs.admitted(&self.shared)),
            slot,
        };
        if self.queue.try_send(message).is_err() {
            self.shared.lose(1);
        }
    }

    /// Ends the log in order: what waits is written, and the head signed. It
    /// waits for the disk.
    pub fn close(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A thread that is gone has nothing left to write.
            let _gone = self.queue.send(Message::End);
            if thread.join().is_err() {
                tracing::error!("the decision log's writer ended in a panic");
            }
        }
    }
}

impl Drop for DecisionLog {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lose(&self, records: usize) {
        let records = u64::try_from(records).unwrap_or(u64::MAX);
        self.lost.fetch_add(records, Ordering::AcqRel);
        self.metrics.decisions_lost(records);
    }

    fn kept(&self, records: usize, bytes: u64) {
        if self.failing.swap(false, Ordering::AcqRel) {
            tracing::info!("the decision log is written again");
        }
        self.metrics
            .decisions_kept(u64::try_from(records).unwrap_or(u64::MAX), bytes);
    }
}

/// Opens the files and writes that the host has started, signed: from here on
/// there is a head to compare with.
fn begin(settings: &LogSettings, signer: &Signer) -> io::Result<Segments> {
    let bounds = Bounds {
        bytes: settings.segment_bytes,
        segments: settings.segments,
    };
    let Found {
        mut segments,
        clean,
        cut_bytes,
        short,
    } = Segments::open(&settings.folder, bounds)?;
    let now = Timestamp::now();
    let mut entries = vec![Entry::new(now, About::Began(Began { clean, cut_bytes }))];
    if let Some(head) = short {
        let found = segments.state().links;
        let signed = head.signed;
        tracing::error!(
            signed,
            found,
            "the decision log ends before its signed head: part of it was taken away"
        );
        entries.push(Entry::new(now, About::Short(Short { signed, found })));
    } else if !clean {
        tracing::warn!(
            cut_bytes,
            "the decision log was not ended in order; what had no link yet is cut off"
        );
    }
    segments.append(&entries, true)?;
    segments.sign(signer, now)?;
    Ok(segments)
}

/// The folder of the log in a state folder.
#[must_use]
pub fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("decision-log")
}

#[cfg(test)]
mod tests;
