//! Reading a file for an audit. Whose it is does not matter, as nothing of it
//! is trusted; how large it is does.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::plugins::error::LoadError;

/// As much as the host loads.
pub(super) const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The file's bytes, read once: everything later works on these.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    // A pipe would wait for a writer before anything could be said of it.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path)
        .map_err(LoadError::Read)?;
    let metadata = file.metadata().map_err(LoadError::Read)?;
    if !metadata.is_file() {
        let cause = io::Error::other("it is not a regular file");
        return Err(LoadError::Read(cause));
    }
    within(metadata.len())?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(LoadError::Read)?;
    within(bytes.len() as u64)?;
    Ok(bytes)
}

fn within(size: u64) -> Result<(), LoadError> {
    if size <= MOST_BYTES {
        return Ok(());
    }
    Err(LoadError::Large {
        size,
        most: MOST_BYTES,
    })
}
