//! Reading the plugins folder: only what nobody else can have put there.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::plugins::error::LoadError;
use crate::rules::signature::{MOST_SIGNATURE, SignatureRefusal};

/// The largest component, in bytes.
pub const MOST_BYTES: u64 = 64 * 1024 * 1024;

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

/// Where the signature of a file is: beside it, as minisign puts it.
pub(crate) fn signature_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".minisig");
    name.into()
}

/// The signature beside a file, where there is one.
pub(crate) fn read_signature(path: &Path) -> Result<Option<String>, LoadError> {
    let signature = signature_of(path);
    if !signature.exists() {
        return Ok(None);
    }
    let bytes = match read_up_to(&signature, MOST_SIGNATURE as u64, &|| ()) {
        Err(LoadError::Large { .. }) => return Err(SignatureRefusal::Malformed.into()),
        read => read?,
    };
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// A component's bytes, read once: everything later works on these.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    read_up_to(path, MOST_BYTES, &|| ())
}

/// Reads a file that nobody changes `meanwhile`.
fn read_up_to(path: &Path, most: u64, meanwhile: &dyn Fn()) -> Result<Vec<u8>, LoadError> {
    // A pipe would wait for a writer before anything could be said of it.
    let nonblocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(nonblocking)
        .open(path);
    let mut file = opened.map_err(LoadError::Read)?;
    let metadata = file.metadata().map_err(LoadError::Read)?;
    if !metadata.is_file() {
        return Err(LoadError::Read(io::Error::other(
            "it is not a regular file",
        )));
    }
    is_ours(path, &metadata)?;
    let size = metadata.len();
    if size > most {
        return Err(LoadError::Large { size, most });
    }
    let mut bytes = Vec::new();
    let read = Read::by_ref(&mut file)
        .take(most + 1)
        .read_to_end(&mut bytes);
    read.map_err(LoadError::Read)?;
    meanwhile();
    let after = file.metadata().map_err(LoadError::Read)?;
    // Under its name, too: it may have been replaced whole.
    let named = fs::metadata(path).map_err(|_| LoadError::Changed)?;
    if [after, named]
        .iter()
        .any(|now| print(now) != print(&metadata))
    {
        return Err(LoadError::Changed);
    }
    Ok(bytes)
}

fn print(metadata: &Metadata) -> [i128; 6] {
    [
        metadata.dev().into(),
        metadata.ino().into(),
        metadata.size().into(),
        metadata.mtime().into(),
        metadata.mtime_nsec().into(),
        metadata.ctime_nsec().into(),
    ]
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

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_changes_while_it_is_read_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wasm");
        let put = |path: &Path, bytes: &[u8]| {
            fs::write(path, bytes).unwrap();
            fs::set_permissions(path, Permissions::from_mode(0o600)).unwrap();
        };
        let read = |meanwhile: &dyn Fn()| {
            put(&path, b"12345");
            read_up_to(&path, 10, meanwhile)
        };
        assert_eq!(read(&|| ()).unwrap(), b"12345");
        let other = folder.path().join("other");
        for change in [
            &(|| put(&path, b"123456")) as &dyn Fn(),
            &|| put(&path, b"1234"),
            &|| {
                put(&other, b"12345");
                fs::rename(&other, &path).unwrap();
            },
            &|| fs::remove_file(&path).unwrap(),
        ] {
            assert!(matches!(read(change), Err(LoadError::Changed)));
        }
        put(&path, b"12345678901");
        let large = read_up_to(&path, 10, &|| ()).unwrap_err().to_string();
        assert!(large.contains("it has 11 bytes"), "{large}");
    }

    #[test]
    fn a_signature_stands_beside_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.wasm");
        assert_eq!(read_signature(&path).unwrap(), None);
        let beside = folder.path().join("a.wasm.minisig");
        fs::write(&beside, "signed").unwrap();
        fs::set_permissions(&beside, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read_signature(&path).unwrap().as_deref(), Some("signed"));
        fs::write(&beside, "x".repeat(5000)).unwrap();
        assert!(read_signature(&path).is_err());
    }
}
