//! The versions of each plugin that are kept: which is live, which was before,
//! and the bytes of each with its signature, so that one command takes a
//! plugin back and a start needs no file that is gone.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plugins::error::PluginError;
use crate::plugins::folder;
use crate::plugins::hash::ComponentHash;
use crate::rules::trial::{Share, Trial};
use crate::store::{Change, Store, StoreError, record};

const PREFIX: &str = "plugin/versions/";
const VERSION: u32 = 1;
/// How many versions of a plugin are kept, the live one among them.
pub(crate) const MOST_VERSIONS: usize = 5;

/// The folder of their bytes, and the records of what they are.
pub(crate) struct Versions {
    folder: PathBuf,
    store: Arc<dyn Store>,
}

/// What is kept of one plugin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Line {
    /// The version that is live, or was when the host ended.
    pub(crate) live: Option<ComponentHash>,
    /// The versions that were live, the last one first.
    pub(crate) kept: Vec<Kept>,
    /// The version that came last and waits.
    pub(crate) waits: Option<Kept>,
    /// The version that is tried beside the live one.
    pub(crate) tried: Option<Kept>,
}

/// A version that was live, waits, or is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) hash: ComponentHash,
    pub(crate) version: String,
    /// The file it came from; none when it was handed over.
    pub(crate) file: Option<PathBuf>,
    /// How it is to be tried, where it is.
    pub(crate) trial: Option<Trial>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredLine {
    live: Option<String>,
    kept: Vec<StoredKept>,
    waits: Option<StoredKept>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tried: Option<StoredKept>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredKept {
    hash: String,
    version: String,
    file: Option<PathBuf>,
    /// `shadow`, or a canary's share as it is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trial: Option<String>,
}

/// The word for a version that is asked and not heeded; no share is written so.
const SHADOW: &str = "<shadow>";

impl Line {
    /// Whether this version was live before another took its place.
    pub(crate) fn was_live(&self, hash: &ComponentHash) -> bool {
        self.live.as_ref() != Some(hash) && self.kept.iter().any(|kept| kept.hash == *hash)
    }

    /// The version that was live before the one that is.
    pub(crate) fn before(&self) -> Option<&Kept> {
        self.kept
            .iter()
            .find(|kept| self.live.as_ref() != Some(&kept.hash))
    }

    /// A version goes live: it is the first, and the last go.
    pub(crate) fn goes_live(&mut self, version: Kept) {
        self.kept.retain(|kept| kept.hash != version.hash);
        // The live one again, at the host's start, ends no trial.
        if self.live != Some(version.hash) {
            self.tried = None;
        }
        self.live = Some(version.hash);
        self.waits.take_if(|waits| {
            let is_its_file = waits.file.is_some() && waits.file == version.file;
            waits.hash == version.hash || is_its_file
        });
        let version = Kept {
            trial: None,
            ..version
        };
        self.kept.insert(0, version);
        self.kept.truncate(MOST_VERSIONS);
    }

    /// A version is tried beside the live one, in the place of another.
    pub(crate) fn begins(&mut self, version: Kept) {
        self.waits.take_if(|waits| waits.hash == version.hash);
        self.tried = Some(version);
    }

    fn hashes(&self) -> BTreeSet<ComponentHash> {
        let kept = self.kept.iter().map(|kept| kept.hash);
        let beside = self.waits.iter().chain(&self.tried);
        kept.chain(beside.map(|version| version.hash)).collect()
    }
}

impl Versions {
    /// Takes the folder, which is made where it is missing.
    ///
    /// # Errors
    /// When it cannot be made, or is not the host's alone.
    pub(crate) fn open(folder: PathBuf, store: Arc<dyn Store>) -> Result<Self, PluginError> {
        let refuse = |reason: String| PluginError::Versions {
            path: folder.clone(),
            reason,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|cause| refuse(cause.to_string()))?;
        let metadata = fs::symlink_metadata(&folder).map_err(|cause| refuse(cause.to_string()))?;
        let is_ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
        if !is_ours || metadata.mode() & 0o077 != 0 {
            let path = folder.display();
            return Err(refuse(format!(
                "it must be a folder of the host's own; run: chmod 700 {path}"
            )));
        }
        Ok(Self { folder, store })
    }

    /// What is kept of a plugin.
    pub(crate) async fn line(&self, plugin: &str) -> Result<Line, StoreError> {
        match self.store.get(&key(plugin)).await? {
            Some(found) => Ok(record::decode::<StoredLine>(&found, VERSION)?.into()),
            None => Ok(Line::default()),
        }
    }

    /// What is kept of every plugin, by its name.
    pub(crate) async fn lines(&self) -> Result<Vec<(String, Line)>, StoreError> {
        let (records, _) = self.store.scan(PREFIX.as_bytes()).await?;
        let mut lines = Vec::new();
        for found in records {
            let name = String::from_utf8_lossy(&found.key);
            let name = name.strip_prefix(PREFIX).unwrap_or_default().to_owned();
            match record::decode::<StoredLine>(&found, VERSION) {
                Ok(stored) => lines.push((name, stored.into())),
                Err(error) => {
                    tracing::error!(plugin = %name, %error, "the record of its versions cannot be read");
                }
            }
        }
        Ok(lines)
    }

    /// The change that keeps a line.
    pub(crate) fn keep(plugin: &str, line: &Line) -> Result<Change, StoreError> {
        let key = key(plugin);
        let value = record::encode(&key, VERSION, &StoredLine::from(line))?;
        Ok(Change::Put(key, value))
    }

    /// Where a version's bytes are.
    pub(crate) fn path(&self, hash: &ComponentHash) -> PathBuf {
        self.folder.join(format!("{hash}.wasm"))
    }

    /// Puts a version's bytes and signature down; on disk when this returns.
    pub(crate) async fn put(
        &self,
        hash: ComponentHash,
        bytes: Arc<Vec<u8>>,
        signature: Option<String>,
    ) -> io::Result<()> {
        let path = self.path(&hash);
        let written = tokio::task::spawn_blocking(move || {
            if let Some(signature) = signature {
                write(&folder::signature_of(&path), signature.as_bytes())?;
            }
            if !path.exists() {
                write(&path, &bytes)?;
            }
            Ok(())
        });
        written.await.map_err(io::Error::other)?
    }

    /// Lets go of the bytes that `now` no longer holds and `before` did.
    pub(crate) fn let_go(&self, before: &Line, now: &Line) -> Vec<ComponentHash> {
        let gone: Vec<_> = before.hashes().difference(&now.hashes()).copied().collect();
        for hash in &gone {
            remove(&self.path(hash));
        }
        gone
    }

    /// Lets go of what no line holds, as a crash may leave it.
    pub(crate) async fn sweep(&self) -> Result<(), StoreError> {
        let lines = self.lines().await?;
        let (records, _) = self.store.scan(PREFIX.as_bytes()).await?;
        // A line that cannot be read may hold anything.
        if records.len() != lines.len() {
            return Ok(());
        }
        let held: BTreeSet<_> = lines.iter().flat_map(|(_, line)| line.hashes()).collect();
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let hash = name.split('.').next().and_then(ComponentHash::parse);
            if hash.is_none_or(|hash| !held.contains(&hash)) {
                let _gone = fs::remove_file(&path);
            }
        }
        Ok(())
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let half = path.with_extension("half");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&half)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&half, path)?;
    match path.parent() {
        Some(folder) => File::open(folder)?.sync_all(),
        None => Ok(()),
    }
}

fn remove(path: &Path) {
    // What stays behind is swept at the next start.
    let _gone = fs::remove_file(folder::signature_of(path));
    let _gone = fs::remove_file(path);
}

fn key(plugin: &str) -> Vec<u8> {
    format!("{PREFIX}{plugin}").into_bytes()
}

impl From<StoredLine> for Line {
    fn from(stored: StoredLine) -> Self {
        Self {
            live: stored.live.as_deref().and_then(ComponentHash::parse),
            kept: stored.kept.into_iter().filter_map(kept).collect(),
            waits: stored.waits.and_then(kept),
            tried: stored.tried.and_then(kept),
        }
    }
}

fn kept(stored: StoredKept) -> Option<Kept> {
    Some(Kept {
        hash: ComponentHash::parse(&stored.hash)?,
        version: stored.version,
        file: stored.file,
        trial: match stored.trial.as_deref() {
            None => None,
            Some(SHADOW) => Some(Trial::Shadow),
            // What cannot be read is not tried on boxes that nobody named.
            Some(share) => Some(Trial::Canary(Share::parse(share).ok()?)),
        },
    })
}

impl From<&Line> for StoredLine {
    fn from(line: &Line) -> Self {
        Self {
            live: line.live.as_ref().map(ToString::to_string),
            kept: line.kept.iter().map(StoredKept::from).collect(),
            waits: line.waits.as_ref().map(StoredKept::from),
            tried: line.tried.as_ref().map(StoredKept::from),
        }
    }
}

impl From<&Kept> for StoredKept {
    fn from(kept: &Kept) -> Self {
        Self {
            hash: kept.hash.to_string(),
            version: kept.version.clone(),
            file: kept.file.clone(),
            trial: kept.trial.as_ref().map(|trial| match trial {
                Trial::Shadow => SHADOW.to_owned(),
                Trial::Canary(share) => share.to_string(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Batch;
    use crate::store::memory::{Awkward, open_memory};

    fn kept(number: u8) -> Kept {
        Kept {
            hash: ComponentHash([number; 32]),
            version: number.to_string(),
            file: None,
            trial: None,
        }
    }

    #[test]
    fn what_is_tried_is_kept_until_another_goes_live() {
        let mut line = Line::default();
        line.goes_live(kept(1));
        line.waits = Some(kept(2));
        for trial in [
            Trial::Shadow,
            Trial::Canary(Share::parse("0.5%").unwrap()),
            Trial::Canary(Share::parse("box-a,box-b").unwrap()),
        ] {
            let tried = Kept {
                trial: Some(trial),
                ..kept(2)
            };
            line.begins(tried.clone());
            assert_eq!((&line.tried, &line.waits), (&Some(tried), &None));
            assert!(line.hashes().contains(&kept(2).hash));
            assert_eq!(Line::from(StoredLine::from(&line)), line);
        }
        line.goes_live(kept(1));
        assert!(line.tried.is_some());
        line.goes_live(kept(2));
        assert_eq!(line.tried, None);
        assert_eq!(line.kept, [kept(2), kept(1)]);
    }

    #[test]
    fn the_last_that_were_live_are_kept() {
        let mut line = Line::default();
        assert_eq!(line.before(), None);
        for number in 0..8 {
            line.goes_live(kept(number));
        }
        assert_eq!(line.live, Some(kept(7).hash));
        assert_eq!(line.before(), Some(&kept(6)));
        assert!(line.was_live(&kept(3).hash) && !line.was_live(&kept(2).hash));
        line.goes_live(kept(6));
        assert_eq!(line.before(), Some(&kept(7)));
        assert!(line.was_live(&kept(7).hash) && !line.was_live(&kept(6).hash));
        let numbers: Vec<_> = line.kept.iter().map(|kept| kept.version.as_str()).collect();
        assert_eq!(numbers, ["6", "7", "5", "4", "3"]);
    }

    #[tokio::test]
    async fn bytes_are_there_for_as_long_as_a_line_holds_them() {
        let outer = tempfile::tempdir().unwrap();
        let store = open_memory(Awkward::default());
        let open = || Versions::open(outer.path().join("kept"), Arc::clone(&store)).unwrap();
        let versions = open();
        let mut line = Line::default();
        line.goes_live(kept(1));
        line.waits = Some(kept(2));
        for number in 1..=3 {
            let signature = Some(format!("signed {number}"));
            let bytes = Arc::new(vec![number; 100]);
            let put = versions.put(kept(number).hash, bytes, signature);
            put.await.unwrap();
        }
        let changes = vec![Versions::keep("p", &line).unwrap()];
        let conditions = Vec::new();
        store
            .commit(Batch {
                conditions,
                changes,
            })
            .await
            .unwrap();
        let versions = open();
        assert_eq!(versions.line("p").await.unwrap(), line);
        versions.sweep().await.unwrap();
        let path = |number| versions.path(&kept(number).hash);
        assert_eq!(fs::read(path(1)).unwrap(), vec![1; 100]);
        assert!(folder::signature_of(&path(2)).exists());
        assert!(!path(3).exists() && !folder::signature_of(&path(3)).exists());
        let before = line.clone();
        line.waits = None;
        assert_eq!(versions.let_go(&before, &line), [kept(2).hash]);
        assert!(path(1).exists() && !path(2).exists());
    }
}
