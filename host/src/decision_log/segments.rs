//! The files: one being written, those before it, and the head that was signed
//! last. A batch is written with one call and counts once that has succeeded;
//! what a failed one left behind is cut off before the next.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;

use crate::decision_log::chain::{FORMAT, Header, Line, SignedHead, State, hex};
use crate::decision_log::record::Entry;
use crate::decision_log::sign::Signer;

/// The file of the head that was signed last.
pub(super) const HEAD: &str = "head.json";

/// What bounds the files.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// A segment that is as large is followed by another.
    pub(super) bytes: u64,
    /// How many are kept, with the one that is written.
    pub(super) segments: u64,
}

/// The segments of one folder, open for writing.
pub(super) struct Segments {
    folder: PathBuf,
    bounds: Bounds,
    number: u64,
    kept_from: u64,
    file: File,
    /// What counts of the file.
    length: u64,
    /// Something may lie behind that.
    dirty: bool,
    state: State,
    /// Lines since the last link: a signed head's.
    pending: Vec<u8>,
    signed: u64,
}

/// What a folder was found to hold.
pub(super) struct Found {
    pub(super) segments: Segments,
    /// Whether it was ended in order, or is new.
    pub(super) clean: bool,
    /// What was cut off.
    pub(super) cut_bytes: u64,
    /// The head that was signed last, where the log ends before it.
    pub(super) short: Option<SignedHead>,
}

impl Segments {
    /// Takes up the folder's log where it ends. What stands behind the last
    /// link is cut off: a write that a crash tore.
    pub(super) fn open(folder: &Path, bounds: Bounds) -> io::Result<Found> {
        let mut cut_bytes = 0;
        let mut numbers = list(folder)?;
        let head = read_head(folder)?;
        let last = loop {
            let Some(number) = numbers.last().copied() else {
                break None;
            };
            let path = path(folder, number);
            let bytes = fs::read(&path)?;
            match Tail::of(&bytes) {
                Some(tail) => break Some((number, path, bytes, tail)),
                // Not one batch of it was written whole.
                None => {
                    cut_bytes += bytes.len() as u64;
                    fs::remove_file(&path)?;
                    numbers.pop();
                }
            }
        };
        let (segments, clean) = match last {
            Some((number, path, bytes, tail)) => {
                let file = OpenOptions::new().append(true).open(&path)?;
                cut_bytes += (bytes.len() - tail.length) as u64;
                file.set_len(tail.length as u64)?;
                let pending = bytes.get(tail.linked..tail.length).unwrap_or_default();
                let segments = Self {
                    folder: folder.to_owned(),
                    bounds,
                    number,
                    kept_from: tail.kept_from,
                    file,
                    length: tail.length as u64,
                    dirty: false,
                    state: tail.state,
                    pending: pending.to_vec(),
                    signed: 0,
                };
                (segments, tail.ended && cut_bytes == 0)
            }
            None => {
                let segments = Self {
                    folder: folder.to_owned(),
                    bounds,
                    number: 1,
                    kept_from: 1,
                    file: create(folder, 1)?,
                    length: 0,
                    dirty: false,
                    state: State::BEGINNING,
                    pending: Vec::new(),
                    signed: 0,
                };
                (segments, cut_bytes == 0)
            }
        };
        let short = head.filter(|head| head.signed > segments.state.links);
        Ok(Found {
            clean: clean && short.is_none(),
            segments,
            cut_bytes,
            short,
        })
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Writes these as one batch. Gives how many bytes that took.
    pub(super) fn append(&mut self, entries: &[Entry], synced: bool) -> io::Result<u64> {
        if self.length >= self.bounds.bytes {
            self.next()?;
        }
        let mut lines = std::mem::take(&mut self.pending);
        let known = lines.len();
        let fresh = self.length == 0;
        if fresh {
            lines.extend_from_slice(&self.header()?);
        }
        let mut number = self.state.records;
        for entry in entries {
            number += 1;
            entry.write(number, &mut lines);
        }
        let state = self.state.after(&lines, number - self.state.records);
        let link = state.line();
        let written = [lines.get(known..).unwrap_or_default(), link.as_bytes()].concat();
        if let Err(cause) = self.write(&written, synced || fresh) {
            lines.truncate(known);
            self.pending = lines;
            return Err(cause);
        }
        self.state = state;
        if fresh {
            self.prune();
        }
        Ok(written.len() as u64)
    }

    /// Signs the head, if anything has come since it was signed last: all that
    /// it covers is on disk first.
    pub(super) fn sign(&mut self, signer: &Signer, time: Timestamp) -> io::Result<()> {
        if self.signed == self.state.links {
            return Ok(());
        }
        let head = signer.sign(&self.state, time);
        let line = head.line();
        self.write(line.as_bytes(), true)?;
        self.pending.extend_from_slice(line.as_bytes());
        write_head(&self.folder, &line)?;
        self.signed = self.state.links;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], synced: bool) -> io::Result<()> {
        if self.dirty {
            self.file.set_len(self.length)?;
        }
        self.dirty = true;
        self.file.write_all(bytes)?;
        if synced {
            self.file.sync_data()?;
        }
        self.dirty = false;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn next(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.file = create(&self.folder, self.number + 1)?;
        self.number += 1;
        self.length = 0;
        self.dirty = false;
        self.pending.clear();
        let oldest = (self.number + 1).saturating_sub(self.bounds.segments);
        self.kept_from = self.kept_from.max(oldest);
        Ok(())
    }

    fn header(&self) -> io::Result<Vec<u8>> {
        let header = Header {
            segment: self.number,
            format: FORMAT.to_owned(),
            time: Timestamp::now(),
            kept_from: self.kept_from,
            links: self.state.links,
            records: self.state.records,
            previous: hex(&self.state.head),
        };
        let mut line = serde_json::to_vec(&header)?;
        line.push(b'\n');
        Ok(line)
    }

    /// Deletes what is no longer kept; the log has said so already.
    fn prune(&self) {
        // What follows must be there for good before anything goes.
        if let Err(cause) = File::open(&self.folder).and_then(|folder| folder.sync_all()) {
            return tracing::warn!(%cause, "old segments of the decision log stay");
        }
        let gone = list(&self.folder).unwrap_or_default();
        for number in gone.into_iter().filter(|number| *number < self.kept_from) {
            if let Err(cause) = fs::remove_file(path(&self.folder, number)) {
                tracing::warn!(number, %cause, "an old segment of the decision log stays");
            }
        }
    }
}

/// Where a segment ends.
struct Tail {
    /// Behind its last link.
    linked: usize,
    /// Behind that and a signed head that follows.
    length: usize,
    state: State,
    kept_from: u64,
    /// Whether the log was ended in order there.
    ended: bool,
}

impl Tail {
    fn of(bytes: &[u8]) -> Option<Self> {
        let mut at = 0;
        let mut kept_from = None;
        let mut ended = false;
        let mut tail: Option<Self> = None;
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            at += line.len();
            let whole = line.strip_suffix(b"\n");
            let parsed = whole.and_then(Line::parse);
            match parsed {
                Some(Line::Header(header)) => kept_from = Some(header.kept_from),
                Some(Line::Record(record)) => ended = record.ended.is_some(),
                Some(Line::Link(link)) => {
                    if let (Some(state), Some(kept_from)) = (link.state(), kept_from) {
                        tail = Some(Self {
                            linked: at,
                            length: at,
                            state,
                            kept_from,
                            ended,
                        });
                    }
                }
                Some(Line::Signed(_)) => {
                    if let Some(tail) = tail.as_mut().filter(|tail| tail.length == at - line.len())
                    {
                        tail.length = at;
                    }
                }
                None => {}
            }
        }
        tail
    }
}

pub(super) fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}.log"))
}

/// The numbers of a folder's segments, in order.
pub(super) fn list(folder: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".log"));
        if let Some(number) = number.and_then(|digits| digits.parse().ok())
            && path(folder, number).file_name() == Some(&name)
        {
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The head that was signed last; none where there is no file. One that cannot
/// be read as a head is an error of its own for a verifier, and none for a
/// start.
fn read_head(folder: &Path) -> io::Result<Option<SignedHead>> {
    let mut text = String::new();
    match File::open(folder.join(HEAD)) {
        Ok(file) => file.take(4096).read_to_string(&mut text)?,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(cause),
    };
    Ok(serde_json::from_str(&text).ok())
}

fn create(folder: &Path, number: u64) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(0o600)
        .open(path(folder, number))
}

fn write_head(folder: &Path, line: &str) -> io::Result<()> {
    let draft = folder.join("head.new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)?;
    file.write_all(line.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, folder.join(HEAD))?;
    File::open(folder)?.sync_all()
}
