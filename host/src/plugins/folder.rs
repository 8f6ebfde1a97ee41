//! Reading the plugins folder: only what nobody else can have put there.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::plugins::error::LoadError;

const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// The components in a folder, by name. A folder that nobody has made yet is
/// an empty one.
pub(crate) fn components(folder: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let metadata = match fs::metadata(folder) {
        Ok(metadata) => metadata,
        Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(cause) => return Err(LoadError::Read(cause)),
    };
    is_ours(folder, &metadata)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(LoadError::Read)? {
        let path = entry.map_err(LoadError::Read)?.path();
        if path.extension().is_some_and(|end| end == "wasm") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// A component's bytes, read once: everything later works on these.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    // A pipe would wait for a writer before anything could be said of it.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path);
    let file = opened.map_err(LoadError::Read)?;
    let metadata = file.metadata().map_err(LoadError::Read)?;
    if !metadata.is_file() {
        return Err(LoadError::Read(io::Error::other(
            "it is not a regular file",
        )));
    }
    is_ours(path, &metadata)?;
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(LoadError::Read)?;
    let size = bytes.len() as u64;
    if size > MOST_BYTES {
        return Err(LoadError::Large {
            size,
            most: MOST_BYTES,
        });
    }
    Ok(bytes)
}

fn is_ours(path: &Path, metadata: &Metadata) -> Result<(), LoadError> {
    let path = path.display().to_string();
    let wanted = rustix::process::geteuid().as_raw();
    if metadata.uid() != wanted && metadata.uid() != 0 {
        return Err(LoadError::Owned {
            path,
            owner: metadata.uid(),
            wanted,
        });
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(LoadError::Writable { path });
    }
    Ok(())
}
