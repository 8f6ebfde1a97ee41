//! Waiting until a project's sources change.
//!
//! They are looked at and not listened for: a project has some dozens of
//! files, and a folder that another machine or a container writes tells
//! nobody.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How often sources are looked at.
const LOOK: Duration = Duration::from_millis(300);

/// What is no source: what builds write. Names that begin with a dot are none
/// either.
const WRITTEN: [&str; 5] = [
    "target",
    "built",
    "node_modules",
    "Cargo.lock",
    "jackfield-state",
];

/// A project's sources, as they were when they were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    folder: PathBuf,
    files: BTreeMap<PathBuf, (Option<SystemTime>, u64)>,
}

impl Sources {
    /// Looks at a project.
    ///
    /// # Errors
    /// When its folder cannot be read.
    pub fn look(folder: &Path) -> io::Result<Self> {
        let mut files = BTreeMap::new();
        collect(folder, &mut files)?;
        Ok(Self {
            folder: folder.to_owned(),
            files,
        })
    }

    /// Returns once they are others, and have stayed so for one look: an
    /// editor or a checkout writes more than one file.
    ///
    /// # Errors
    /// When the folder cannot be read any more.
    pub async fn changed(&self) -> io::Result<Self> {
        let mut before = self.clone();
        loop {
            tokio::time::sleep(LOOK).await;
            let now = Self::look(&self.folder)?;
            if now != *self && now == before {
                return Ok(now);
            }
            before = now;
        }
    }
}

fn collect(
    folder: &Path,
    files: &mut BTreeMap<PathBuf, (Option<SystemTime>, u64)>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with('.') || WRITTEN.contains(&&*name) {
            continue;
        }
        let path = entry.path();
        // What went between the listing and here is gone at the next look.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        if metadata.is_dir() {
            collect(&path, files)?;
        } else {
            files.insert(path, (metadata.modified().ok(), metadata.len()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_changes_and_what_a_build_writes_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        for name in ["src", "target/debug", ".git", "built"] {
            fs::create_dir_all(root.join(name)).unwrap();
        }
        fs::write(root.join("src/lib.rs"), "a").unwrap();
        let before = Sources::look(root).unwrap();
        for name in ["target/debug/x", ".git/x", "built/x.wasm", "Cargo.lock"] {
            fs::write(root.join(name), "x").unwrap();
        }
        assert_eq!(Sources::look(root).unwrap(), before);
        fs::write(root.join("src/lib.rs"), "ab").unwrap();
        let after = Sources::look(root).unwrap();
        assert_ne!(after, before);
        fs::remove_file(root.join("src/lib.rs")).unwrap();
        assert_ne!(Sources::look(root).unwrap(), after);
    }

    #[tokio::test]
    async fn a_change_is_waited_for_until_it_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let before = Sources::look(folder.path()).unwrap();
        fs::write(folder.path().join("a.rs"), "a").unwrap();
        let after = before.changed().await.unwrap();
        assert_ne!(after, before);
        assert_eq!(after, Sources::look(folder.path()).unwrap());
    }
}
