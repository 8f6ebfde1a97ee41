//! What can go wrong with the store, told apart by what the caller does next.

use std::path::PathBuf;

/// Why the store did not do what it was asked. Never holds a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// A condition does not hold; nothing was changed.
    #[error("the record was changed by somebody else meanwhile: read it again and retry")]
    Conflict,
    /// Over a limit of the store.
    #[error("a {what} of {size} bytes is over the store's limit of {limit} bytes")]
    TooLarge {
        /// A key, a value or a batch.
        what: &'static str,
        /// How long it is.
        size: usize,
        /// How long it may be.
        limit: usize,
    },
    /// A batch that no engine takes.
    #[error("the batch is malformed: {0}")]
    Malformed(&'static str),
    /// The store was closed.
    #[error("the store is closed: the host is going down")]
    Closed,
    /// Another process holds the folder.
    #[error(
        "the store in {} is in use by another process: stop that host first, or give this one another state_dir",
        path.display()
    )]
    Locked {
        /// The store's folder.
        path: PathBuf,
    },
    /// The history does not reach back that far; scan again.
    #[error("the changes asked for are no longer in the store's history: scan again")]
    Compacted,
    /// The watch has missed changes; scan again.
    #[error("the watch fell behind and has missed changes: scan again")]
    Lost,
    /// The file system or the engine failed.
    #[error("{action} failed in the store at {}: {cause}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The store's folder.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// A write failed earlier, so nothing that comes after it can be promised.
    #[error(
        "the store at {} takes nothing more, because a write to its disk failed ({cause}): check the disk, then restart the host",
        path.display()
    )]
    Broken {
        /// The store's folder.
        path: PathBuf,
        /// What the system said.
        cause: String,
    },
    /// A record that cannot be read.
    #[error("the record {key:?} cannot be read: {reason}")]
    Corrupt {
        /// Its key.
        key: String,
        /// Why not.
        reason: String,
    },
}
