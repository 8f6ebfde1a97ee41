//! Compiled code on disk, so that a start compiles nothing twice.
//!
//! Compiled code is native code: whoever can choose it runs as the host. So
//! the folder is the host's alone (0700), a file is found by component hash and
//! engine, and carries a MAC under a key of the host's that covers both that
//! and its bytes. A file that is foreign, damaged or of another engine is
//! ignored, and written anew.

use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;
use zeroize::Zeroizing;

use crate::plugins::error::PluginError;
use crate::plugins::hash::ComponentHash;

const MAC_LENGTH: usize = 32;
const MOST_BYTES: u64 = 512 * 1024 * 1024;

/// The folder, and the key that tells our own files from others.
pub(crate) struct Cache {
    folder: PathBuf,
    key: Zeroizing<[u8; 32]>,
}

impl Cache {
    /// Takes the folder, which is made where it is missing.
    ///
    /// # Errors
    /// When the folder is not the host's alone.
    pub(crate) fn open(folder: PathBuf, key: [u8; 32]) -> Result<Self, PluginError> {
        let refuse = |reason: String| PluginError::Cache {
            path: folder.clone(),
            reason,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|cause| refuse(cause.to_string()))?;
        let metadata = fs::symlink_metadata(&folder).map_err(|cause| refuse(cause.to_string()))?;
        if !metadata.is_dir() {
            return Err(refuse("it is not a folder; remove it".to_owned()));
        }
        if metadata.uid() != rustix::process::geteuid().as_raw() {
            return Err(refuse("it belongs to another user; remove it".to_owned()));
        }
        if metadata.mode() & 0o077 != 0 {
            let path = folder.display();
            return Err(refuse(format!("others can read it; run: chmod 700 {path}")));
        }
        Ok(Self {
            key: Zeroizing::new(key),
            folder,
        })
    }

    /// The compiled component, when this host has stored it.
    pub(crate) fn load(&self, engine: &Engine, hash: &ComponentHash) -> Option<Component> {
        let name = name(engine, hash);
        let stored = read(&self.path(&name)).ok()?;
        let (mac, code) = stored.split_at_checked(MAC_LENGTH)?;
        self.mac(&name, code).verify_slice(mac).ok()?;
        deserialize(engine, code)
    }

    /// Stores a compiled component.
    pub(crate) fn store(
        &self,
        engine: &Engine,
        hash: &ComponentHash,
        component: &Component,
    ) -> io::Result<()> {
        let name = name(engine, hash);
        let code = component.serialize().map_err(io::Error::other)?;
        let mac = self.mac(&name, &code).finalize().into_bytes();
        let path = self.path(&name);
        let half = path.with_extension(format!("{}.half", std::process::id()));
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&half)?;
        file.write_all(&mac)?;
        file.write_all(&code)?;
        drop(file);
        fs::rename(half, path)
    }

    /// Lets go of a component's compiled code.
    pub(crate) fn forget(&self, engine: &Engine, hash: &ComponentHash) {
        // What stays behind costs room on the disk, and nothing else.
        let _gone = fs::remove_file(self.path(&name(engine, hash)));
    }

    fn path(&self, name: &ComponentHash) -> PathBuf {
        self.folder.join(format!("{name}.compiled"))
    }

    fn mac(&self, name: &ComponentHash, code: &[u8]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.key.as_slice())
            .expect("HMAC takes a key of any length");
        mac.update(&name.0);
        mac.update(code);
        mac
    }
}

/// Loads code that this host has compiled.
fn deserialize(engine: &Engine, code: &[u8]) -> Option<Component> {
    // SAFETY: `deserialize` asks that the bytes are what `Component::serialize`
    // made, unchanged. The one caller has just verified a MAC over exactly
    // these bytes, in memory that nobody else can write to, under a key that
    // only this host holds; and the one place that makes such a MAC takes it
    // over what `serialize` returned. The MAC covers the hash of component and
    // engine settings as well, so code of another component or engine is not
    // taken for this one; of another build of the engine, `deserialize` itself
    // refuses it.
    #[expect(unsafe_code, reason = "see the proof above")]
    let loaded = unsafe { Component::deserialize(engine, code) };
    loaded.ok()
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?
        .take(MOST_BYTES)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a component's code is stored under: its hash, and everything of the
/// engine that shapes code.
fn name(engine: &Engine, hash: &ComponentHash) -> ComponentHash {
    let mut digest = Digesting(Sha256::new());
    digest.write(&hash.0);
    engine.precompile_compatibility_hash().hash(&mut digest);
    ComponentHash(digest.0.finalize().into())
}

/// Feeds what is hashed to a digest that is the same in every process.
struct Digesting(Sha256);

impl Hasher for Digesting {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        let digest: [u8; 32] = self.0.clone().finalize().into();
        digest
            .iter()
            .take(8)
            .fold(0, |value, byte| (value << 8) | u64::from(*byte))
    }
}

#[cfg(test)]
mod tests;
