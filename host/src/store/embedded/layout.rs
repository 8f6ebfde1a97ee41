//! How records, the change log and the counter lie in sled's keys.
//!
//! `d` key NUL chunk: a record. `l` revision chunk: a commit's changes.
//! `m` name: the counter and the layout's version.
//!
//! Values are cut into chunks because sled writes a tree node of up to 17
//! entries as one item, and puts an item over 128 KiB into a file of its own
//! that it never syncs. 17 chunks with the longest keys stay well below that,
//! and so does an index node of 257 keys.

use crate::store::{Event, Record, Revision};

/// The version of this layout.
pub(super) const FORMAT: u8 = 1;
pub(super) const FORMAT_KEY: &[u8] = b"mformat";
pub(super) const REVISION_KEY: &[u8] = b"mrevision";
pub(super) const LOG_PREFIX: &[u8] = b"l";

const CHUNK: usize = 4096;
/// A record's first chunk begins with its revision and how many chunks follow.
const HEADER: usize = 9;

/// The prefix of every record whose key begins with `prefix`.
pub(super) fn record_prefix(prefix: &[u8]) -> Vec<u8> {
    [b"d", prefix].concat()
}

/// Where a record's chunk lies. The NUL keeps the order of the keys, because
/// no key holds one.
pub(super) fn record_key(key: &[u8], chunk: u8) -> Vec<u8> {
    [b"d", key, &[0, chunk]].concat()
}

/// Where the last chunk of a record could lie: before every later record.
pub(super) fn last_record_key(key: &[u8]) -> Vec<u8> {
    record_key(key, u8::MAX)
}

/// A record's chunks, from the first.
pub(super) fn record_chunks(revision: Revision, value: &[u8]) -> Vec<Vec<u8>> {
    let mut chunks: Vec<Vec<u8>> = value.chunks(CHUNK).map(<[u8]>::to_vec).collect();
    if chunks.is_empty() {
        chunks.push(Vec::new());
    }
    let more = u8::try_from(chunks.len() - 1).expect("64 KiB are at most 16 chunks");
    if let Some(first) = chunks.first_mut() {
        let header = [&revision.0.to_be_bytes()[..], &[more]].concat();
        first.splice(0..0, header);
    }
    chunks
}

/// What a record's first chunk says.
pub(super) struct Head<'chunk> {
    pub(super) revision: Revision,
    pub(super) more: u8,
    pub(super) value: &'chunk [u8],
}

/// Reads a record's first chunk; none when it is none.
pub(super) fn read_head(chunk: &[u8]) -> Option<Head<'_>> {
    let (header, value) = chunk.split_at_checked(HEADER)?;
    let (revision, more) = header.split_first_chunk::<8>()?;
    Some(Head {
        revision: Revision(u64::from_be_bytes(*revision)),
        more: *more.first()?,
        value,
    })
}

/// Puts a record together from what a scan of its chunks brings, in order.
pub(super) struct Gather {
    record: Record,
    missing: u8,
}

impl Gather {
    /// Begins at a first chunk, stored under `stored_key`.
    pub(super) fn begin(stored_key: &[u8], chunk: &[u8]) -> Option<Self> {
        let key = stored_key.strip_prefix(b"d")?.strip_suffix(&[0, 0])?;
        let head = read_head(chunk)?;
        Some(Self {
            record: Record {
                key: key.to_vec(),
                value: head.value.to_vec(),
                revision: head.revision,
            },
            missing: head.more,
        })
    }

    /// How many chunks are still to come.
    pub(super) fn missing(&self) -> u8 {
        self.missing
    }

    /// Adds the next chunk.
    pub(super) fn add(&mut self, chunk: &[u8]) {
        self.record.value.extend_from_slice(chunk);
        self.missing = self.missing.saturating_sub(1);
    }

    pub(super) fn finish(self) -> Record {
        self.record
    }
}

/// Where a chunk of a commit's changes lies.
pub(super) fn log_key(revision: Revision, chunk: u16) -> Vec<u8> {
    [LOG_PREFIX, &revision.0.to_be_bytes(), &chunk.to_be_bytes()].concat()
}

/// The revision that a chunk of the log belongs to.
pub(super) fn log_revision(stored_key: &[u8]) -> Option<Revision> {
    let (revision, _) = stored_key
        .strip_prefix(LOG_PREFIX)?
        .split_first_chunk::<8>()?;
    Some(Revision(u64::from_be_bytes(*revision)))
}

/// A commit's changes in chunks: for each its key and value with their
/// lengths, and whether there is a value.
pub(super) fn log_chunks(events: &[Event]) -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    for event in events {
        let value = event.value.as_deref();
        bytes.push(u8::from(value.is_some()));
        for part in [&event.key, value.unwrap_or_default()] {
            let length = u32::try_from(part.len()).expect("a batch is at most 256 KiB");
            bytes.extend_from_slice(&length.to_be_bytes());
            bytes.extend_from_slice(part);
        }
    }
    let chunks: Vec<Vec<u8>> = bytes.chunks(CHUNK).map(<[u8]>::to_vec).collect();
    if chunks.is_empty() {
        return vec![Vec::new()];
    }
    chunks
}

/// Reads what [`log_chunks`] wrote; none when it is malformed.
pub(super) fn read_log(revision: Revision, mut bytes: &[u8]) -> Option<Vec<Event>> {
    let mut events = Vec::new();
    while let Some((kept, rest)) = bytes.split_first() {
        let (key, rest) = read_part(rest)?;
        let (value, rest) = read_part(rest)?;
        bytes = rest;
        events.push(Event {
            revision,
            key: key.to_vec(),
            value: (*kept == 1).then(|| value.to_vec()),
        });
    }
    Some(events)
}

fn read_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}
