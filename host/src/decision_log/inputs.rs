//! What decisions were made from, for the plugins whose inputs are recorded:
//! sealed frames in segments of their own, of a bounded size in all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use zeroize::Zeroizing;

use crate::decision_log::Shared;
use crate::vault::{FrameSealer, VaultKey};

/// What every file begins with.
const FORMAT: &[u8] = b"jackfield decision inputs 1\n";

/// What the frames' key is derived for.
const LABEL: &str = "decision inputs";

/// How many segments the bound is spread over.
const SEGMENTS: u64 = 8;

/// The largest frame, sealed.
const MOST_FRAME: usize = 16 * 1024 * 1024;

/// How many bytes of inputs may wait in the queue.
const MOST_WAITING: usize = 64 * 1024 * 1024;

/// What one decision was made from, not written yet.
pub struct NewInputs {
    size: usize,
    make: Box<dyn FnOnce(Timestamp) -> Vec<u8> + Send>,
    waits_in: Option<Arc<Shared>>,
}

impl NewInputs {
    /// Of about this size in memory; `make` gives the bytes to be kept, once
    /// that is nobody's time.
    #[must_use]
    pub fn new(size: usize, make: Box<dyn FnOnce(Timestamp) -> Vec<u8> + Send>) -> Self {
        Self {
            size,
            make,
            waits_in: None,
        }
    }

    /// Takes room in the queue; none where there is none, and that is counted.
    pub(super) fn admitted(mut self, shared: &Arc<Shared>) -> Option<Self> {
        let waiting = shared.inputs.fetch_add(self.size, Ordering::AcqRel);
        self.waits_in = Some(Arc::clone(shared));
        if waiting.saturating_add(self.size) > MOST_WAITING {
            shared.metrics.inputs_lost();
            return None;
        }
        Some(self)
    }

    pub(super) fn make(mut self, time: Timestamp) -> Vec<u8> {
        let make = std::mem::replace(&mut self.make, Box::new(|_| Vec::new()));
        make(time)
    }
}

impl Drop for NewInputs {
    fn drop(&mut self) {
        if let Some(shared) = &self.waits_in {
            shared.inputs.fetch_sub(self.size, Ordering::AcqRel);
        }
    }
}

/// The folder of inputs in a state folder.
#[must_use]
pub fn inputs_folder(state_dir: &Path) -> PathBuf {
    state_dir.join("decision-inputs")
}

/// What inputs are sealed with.
pub(super) fn sealer(key: &VaultKey) -> FrameSealer {
    FrameSealer::new(key, LABEL)
}

/// The files of inputs, open for writing. Each start begins another file, so
/// what a crash tore stays behind.
pub(super) struct Inputs {
    folder: PathBuf,
    sealer: FrameSealer,
    bytes: u64,
    number: u64,
    file: Option<File>,
    length: u64,
    frames: u64,
}

impl Inputs {
    pub(super) fn open(folder: &Path, sealer: FrameSealer, bytes: u64) -> io::Result<Self> {
        let number = list(folder)?.last().map_or(0, |(number, _)| *number);
        let inputs = Self {
            folder: folder.to_owned(),
            sealer,
            bytes,
            number,
            file: None,
            length: 0,
            frames: 0,
        };
        inputs.prune()?;
        Ok(inputs)
    }

    /// Seals these and writes them. What a failure left behind is cut off.
    pub(super) fn append(&mut self, inputs: &[u8]) -> io::Result<()> {
        let fresh = match self.file {
            Some(_) if self.length < self.bytes / SEGMENTS => false,
            Some(_) | None => {
                self.next()?;
                true
            }
        };
        let sealed = self.sealer.seal(inputs, &place(self.number, self.frames));
        let sealed = sealed.map_err(io::Error::other)?;
        if sealed.len() > MOST_FRAME {
            return Err(io::Error::other("it is too large to be recorded"));
        }
        let length = u32::try_from(sealed.len()).map_err(io::Error::other)?;
        let frame = [&length.to_be_bytes()[..], &sealed].concat();
        if let Some(file) = &mut self.file
            && let Err(cause) = file.write_all_at(&frame, self.length)
        {
            if file.set_len(self.length).is_err() {
                self.file = None;
            }
            return Err(cause);
        }
        self.length += frame.len() as u64;
        self.frames += 1;
        if fresh { self.prune() } else { Ok(()) }
    }

    fn next(&mut self) -> io::Result<()> {
        self.file = None;
        // One that an earlier try left behind is written over.
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(path(&self.folder, self.number + 1))?;
        file.write_all_at(FORMAT, 0)?;
        self.number += 1;
        self.frames = 0;
        self.length = FORMAT.len() as u64;
        self.file = Some(file);
        Ok(())
    }

    /// Deletes the oldest files until the rest, and one more, fit the bound.
    fn prune(&self) -> io::Result<()> {
        let mut files = list(&self.folder)?;
        let mut all: u64 = files.iter().map(|(_, length)| length).sum();
        files.retain(|(number, _)| *number != self.number || self.file.is_none());
        for (number, length) in files {
            if all + self.bytes / SEGMENTS <= self.bytes {
                break;
            }
            fs::remove_file(path(&self.folder, number))?;
            all -= length;
        }
        Ok(())
    }
}

/// What could not be read of the recorded inputs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Unread {
    /// Files whose end is torn: a host writes them, or was killed.
    pub torn: u64,
    /// Files of which a frame was changed, or is of another vault key.
    pub sealed: u64,
}

/// Reads what was recorded, in its order.
///
/// # Errors
/// When there is nothing recorded, a file cannot be read, or `each` fails.
pub fn read_inputs<E: From<io::Error>>(
    folder: &Path,
    key: &VaultKey,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<Unread, E> {
    let sealer = sealer(key);
    let mut unread = Unread::default();
    for (number, _) in list(folder)? {
        let mut file = io::BufReader::new(File::open(path(folder, number))?);
        let mut format = [0; FORMAT.len()];
        if !filled(&mut file, &mut format)? || format != *FORMAT {
            unread.torn += 1;
            continue;
        }
        for frame in 0.. {
            let mut length = [0; 4];
            if !filled(&mut file, &mut length)? {
                break;
            }
            let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
            if length > MOST_FRAME {
                unread.sealed += 1;
                break;
            }
            let mut sealed = vec![0; length];
            if !filled(&mut file, &mut sealed)? {
                unread.torn += 1;
                break;
            }
            let Some(opened): Option<Zeroizing<Vec<u8>>> =
                sealer.open(&sealed, &place(number, frame))
            else {
                unread.sealed += 1;
                break;
            };
            each(&opened)?;
        }
    }
    Ok(unread)
}

/// Whether there was as much to read.
fn filled(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(cause) => Err(cause),
    }
}

/// What a frame is bound to: it opens nowhere else.
fn place(number: u64, frame: u64) -> Vec<u8> {
    [FORMAT, &number.to_be_bytes(), &frame.to_be_bytes()].concat()
}

fn path(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}.sealed"))
}

/// Numbers and lengths, oldest first.
fn list(folder: &Path) -> io::Result<Vec<(u64, u64)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".sealed"));
        if let Some(number) = number.and_then(|digits| digits.parse().ok()) {
            files.push((number, entry.metadata()?.len()));
        }
    }
    files.sort_unstable();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> VaultKey {
        VaultKey::from_bytes([9; 32])
    }

    fn all(folder: &Path) -> (Vec<Vec<u8>>, Unread) {
        let mut all = Vec::new();
        let unread = read_inputs(folder, &key(), |inputs| -> io::Result<()> {
            all.push(inputs.to_vec());
            Ok(())
        });
        (all, unread.unwrap())
    }

    #[test]
    fn what_is_recorded_reads_back_and_stays_under_its_bound() {
        let folder = tempfile::tempdir().unwrap();
        let bound = 80_000;
        let mut inputs = Inputs::open(folder.path(), sealer(&key()), bound).unwrap();
        for number in 0..100_u8 {
            inputs.append(&[number; 3000]).unwrap();
            let held: u64 = list(folder.path())
                .unwrap()
                .iter()
                .map(|(_, length)| length)
                .sum();
            assert!(held <= bound + 3100, "{held}");
        }
        let (read, unread) = all(folder.path());
        assert_eq!(unread, Unread::default());
        assert!((15..100).contains(&read.len()), "{}", read.len());
        assert_eq!(read.last().unwrap(), &[99; 3000]);
        assert!(read.is_sorted());
        // Another start goes on in another file.
        let mut inputs = Inputs::open(folder.path(), sealer(&key()), bound).unwrap();
        inputs.append(b"later").unwrap();
        assert_eq!(all(folder.path()).0.last().unwrap(), b"later");
    }

    #[test]
    fn what_was_torn_or_changed_is_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let mut inputs = Inputs::open(folder.path(), sealer(&key()), 1 << 20).unwrap();
        inputs.append(b"one").unwrap();
        inputs.append(b"two").unwrap();
        let file = path(folder.path(), 1);
        let whole = fs::read(&file).unwrap();
        fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        let torn = Unread { torn: 1, sealed: 0 };
        assert_eq!(all(folder.path()), (vec![b"one".to_vec()], torn));
        let mut changed = whole.clone();
        *changed.last_mut().unwrap() ^= 1;
        fs::write(&file, &changed).unwrap();
        let sealed = Unread { torn: 0, sealed: 1 };
        assert_eq!(all(folder.path()), (vec![b"one".to_vec()], sealed.clone()));
        // A frame is bound to its file.
        fs::write(&file, &whole).unwrap();
        fs::rename(&file, path(folder.path(), 2)).unwrap();
        assert_eq!(all(folder.path()), (vec![], sealed));
    }
}
