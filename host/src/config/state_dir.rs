//! The state folder: the host's own, mode 0700. Made at start, looked at by
//! `config check`.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Why a folder cannot hold the host's state.
#[derive(Debug, thiserror::Error)]
pub enum StateDirError {
    /// Something else has that name.
    #[error("state_dir {} is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// Another user could read or replace what lies in it.
    #[error("state_dir {} belongs to another user; give the host a folder of its own", .0.display())]
    NotOurs(PathBuf),
    /// The system says no.
    #[error("state_dir {} cannot be used", .0.display())]
    Io(PathBuf, #[source] std::io::Error),
}

/// Makes the folder where there is none, and closes it to everybody else.
///
/// # Errors
/// When it is not a folder, belongs to another user, or cannot be made.
pub fn prepare(path: &Path) -> Result<(), StateDirError> {
    let failed = |cause| StateDirError::Io(path.to_path_buf(), cause);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(cause) if cause.kind() != ErrorKind::AlreadyExists => return Err(failed(cause)),
        Ok(()) | Err(_) => {}
    }
    let metadata = std::fs::metadata(path).map_err(failed)?;
    check_owner(path, &metadata)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed)
}

/// What [`prepare`] would find, without touching anything: true when the
/// folder exists, false when it can be made.
///
/// # Errors
/// As [`prepare`], as far as it can be seen from outside.
pub fn inspect(path: &Path) -> Result<bool, StateDirError> {
    let failed = |cause| StateDirError::Io(path.to_path_buf(), cause);
    let writable = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    match std::fs::metadata(path) {
        Ok(metadata) => {
            check_owner(path, &metadata)?;
            rustix::fs::access(path, writable).map_err(|errno| failed(errno.into()))?;
            Ok(true)
        }
        Err(cause) if cause.kind() == ErrorKind::NotFound => {
            let ancestor = path
                .ancestors()
                .find(|ancestor| ancestor.exists())
                .unwrap_or(Path::new("/"));
            rustix::fs::access(ancestor, writable).map_err(|errno| failed(errno.into()))?;
            Ok(false)
        }
        Err(cause) => Err(failed(cause)),
    }
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), StateDirError> {
    if !metadata.is_dir() {
        return Err(StateDirError::NotAFolder(path.to_path_buf()));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(StateDirError::NotOurs(path.to_path_buf()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_made_and_closed_to_others() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("a/state");
        assert!(!inspect(&path).unwrap());
        prepare(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
        prepare(&path).unwrap();
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o700);
        assert!(inspect(&path).unwrap());
    }

    #[test]
    fn a_file_in_its_place_is_refused() {
        let outer = tempfile::tempdir().unwrap();
        let path = outer.path().join("state");
        std::fs::write(&path, "").unwrap();
        assert!(matches!(prepare(&path), Err(StateDirError::NotAFolder(_))));
        assert!(matches!(inspect(&path), Err(StateDirError::NotAFolder(_))));
    }
}
