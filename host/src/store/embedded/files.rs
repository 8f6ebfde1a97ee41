//! The files under the engine: the folder, who holds it, and what is really on
//! disk.
//!
//! sled's own `flush` ends in `sync_file_range`, which neither writes the
//! file's size nor empties the disk's cache. What is promised as kept is
//! therefore followed by an `fdatasync` through a descriptor of our own.

use std::fmt::Display;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::store::StoreError;

/// How the data file is put on disk.
pub(super) type Sync = fn(&File) -> io::Result<()>;

/// `fdatasync`.
pub(super) fn sync_data(file: &File) -> io::Result<()> {
    file.sync_data()
}

/// The folder, held by this process until dropped.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    _lock: File,
}

impl Folder {
    /// Makes the folder where there is none, and takes hold of it. The lock is
    /// our own, beside sled's: it ends exactly when this is dropped.
    pub(super) fn hold(path: &Path) -> Result<Self, StoreError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| failed("making the folder", path, &error))?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(path.join("lock"))
            .map_err(|error| failed("opening the lock file", path, &error))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self {
                path: path.to_owned(),
                _lock: lock,
            }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(StoreError::Locked {
                path: path.to_owned(),
            }),
            Err(error) => Err(failed("locking the folder", path, &error)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts on disk what opening has made: the files sled never syncs, and the
    /// names of all of them.
    pub(super) fn settle(&self, sync: Sync) -> Result<DataFile, StoreError> {
        let open = |path: &Path| {
            File::open(path).map_err(|error| failed("opening the data file", &self.path, &error))
        };
        for path in [
            self.path.join("conf"),
            self.path.join("blobs"),
            self.path.clone(),
        ] {
            open(&path)?
                .sync_all()
                .map_err(|error| failed("writing the folder to disk", &self.path, &error))?;
        }
        if let Some(parent) = self
            .path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            open(parent)?
                .sync_all()
                .map_err(|error| failed("writing the folder to disk", parent, &error))?;
        }
        Ok(DataFile {
            file: open(&self.path.join("db"))?,
            sync,
        })
    }
}

/// sled's data file, through a descriptor of our own.
#[derive(Debug)]
pub(super) struct DataFile {
    file: File,
    sync: Sync,
}

impl DataFile {
    /// Returns once everything written to the file is on disk.
    pub(super) fn put_on_disk(&self) -> io::Result<()> {
        (self.sync)(&self.file)
    }
}

/// An error with what was tried, where, and what the system said.
pub(super) fn failed(action: &'static str, path: &Path, cause: &dyn Display) -> StoreError {
    StoreError::Io {
        action,
        path: path.to_owned(),
        cause: cause.to_string(),
    }
}
