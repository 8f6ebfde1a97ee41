//! The key that everything at rest is sealed under, and where it comes from.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::store::Store;
use crate::vault::{PREFIX, VaultError};

/// A key file longer than this is none.
const MAX_FILE: usize = 1024;

/// 32 bytes. Redacted in `Debug`, wiped when dropped.
pub struct VaultKey(Zeroizing<[u8; 32]>);

/// Why there is no key. Never holds one.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The text is not 32 bytes.
    #[error("the vault key in {source_name} is not 32 bytes in base64 or hex")]
    Malformed {
        /// Where it was read.
        source_name: String,
    },
    /// Others can read the file.
    #[error(
        "the vault key {} can be read by others (mode {mode:o}): run chmod 600 {}",
        path.display(),
        path.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file cannot be read or made.
    #[error("{action} the vault key {} failed: {cause}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

impl VaultKey {
    /// A key that the caller has.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Reads a key written in base64 (either alphabet, padded or not) or hex;
    /// `source_name` says where it stood, for the error.
    ///
    /// # Errors
    /// When it is neither, or not 32 bytes.
    pub fn parse(text: &str, source_name: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let bytes = Zeroizing::new(
            from_hex(text)
                .or_else(|| from_base64(text))
                .unwrap_or_default(),
        );
        let bytes = <[u8; 32]>::try_from(bytes.as_slice()).map_err(|_| KeyError::Malformed {
            source_name: source_name.to_owned(),
        })?;
        Ok(Self::from_bytes(bytes))
    }

    /// A key of its own for one use, so that no two uses share one.
    #[must_use]
    pub fn derive(&self, label: &str) -> [u8; 32] {
        let mut derived = [0; 32];
        Hkdf::<Sha256>::new(Some(b"jackfield vault key"), self.0.as_slice())
            .expand(label.as_bytes(), &mut derived)
            .expect("32 bytes are well under HKDF's limit");
        derived
    }
}

impl fmt::Debug for VaultKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("VaultKey(redacted)")
    }
}

/// Reads the key file, or makes it with mode 0600 where there is none and the
/// store holds nothing that was sealed under another.
///
/// # Errors
/// [`VaultError::MissingKey`] when the file is gone and the store is not empty;
/// otherwise when the file cannot be read, is not a key, or others can read it.
pub async fn load_key(path: &Path, store: &dyn Store) -> Result<VaultKey, VaultError> {
    if let Some(key) = read_key(path)? {
        return Ok(key);
    }
    let (sealed, _) = store.scan(PREFIX.as_bytes()).await?;
    if !sealed.is_empty() {
        return Err(VaultError::MissingKey {
            path: path.to_owned(),
        });
    }
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut_slice())
        .map_err(|error| VaultError::NoRandomness(error.to_string()))?;
    let key = VaultKey::from_bytes(*bytes);
    write(path, &key)?;
    Ok(key)
}

/// Reads the key file; none where there is no file.
///
/// # Errors
/// When it cannot be read, is not a key, or others can read it.
pub fn read_key(path: &Path) -> Result<Option<VaultKey>, KeyError> {
    let failed = |cause| KeyError::Io {
        action: "reading",
        path: path.to_owned(),
        cause,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    // Of the open file, so that nobody swaps it between the look and the read.
    let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed {
            path: path.to_owned(),
            mode,
        });
    }
    let mut text = Zeroizing::new(String::with_capacity(MAX_FILE));
    file.take(MAX_FILE as u64)
        .read_to_string(&mut text)
        .map_err(failed)?;
    VaultKey::parse(&text, &path.display().to_string()).map(Some)
}

/// Writes the key under another name first and links it into place, so that
/// the file is whole or not there, and one that is there is never overwritten.
fn write(path: &Path, key: &VaultKey) -> Result<(), KeyError> {
    let failed = |cause| KeyError::Io {
        action: "making",
        path: path.to_owned(),
        cause,
    };
    let draft = path.with_extension("key.new");
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        Ok(()) | Err(_) => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .map_err(failed)?;
    let text = Zeroizing::new(STANDARD.encode(key.0.as_slice()) + "\n");
    file.write_all(text.as_bytes()).map_err(failed)?;
    file.sync_all().map_err(failed)?;
    std::fs::hard_link(&draft, path).map_err(failed)?;
    std::fs::remove_file(&draft).map_err(failed)?;
    let folder = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    // A value must not be on disk before the key it was sealed under is.
    File::open(folder.unwrap_or(Path::new(".")))
        .and_then(|folder| folder.sync_all())
        .map_err(failed)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 {
        return None;
    }
    let digits = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.bytes()
        .all(|byte| byte.is_ascii_hexdigit())
        .then(|| digits.map(byte).collect())?
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let text = Zeroizing::new(
        text.trim_end_matches('=')
            .replace('-', "+")
            .replace('_', "/"),
    );
    base64::engine::general_purpose::STANDARD_NO_PAD
        .decode(text.as_bytes())
        .ok()
}
