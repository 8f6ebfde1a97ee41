//! Which files of the plugins folder are to be taken up. The folder is looked
//! at again and again rather than listened to: that is as true of a file
//! system of another machine, and it tells a file that is still being written
//! from one that lies still.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::plugins::error::LoadError;
use crate::plugins::folder;

/// What tells a file from what it was before, without reading it: of itself
/// and of the signature beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Print([Option<Stat>; 2]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What the folder held when it was looked at.
pub(crate) type Look = BTreeMap<PathBuf, Print>;

/// What was seen of the folder so far.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The files as they were taken up.
    taken: Look,
    /// The files as they were at the last look.
    last: Look,
}

impl Watch {
    /// The files that have changed since they were taken up, and that lay
    /// still since the last look; and those that are gone.
    pub(crate) fn due(&mut self, now: Look) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let gone: Vec<PathBuf> = self
            .taken
            .keys()
            .filter(|file| !now.contains_key(*file))
            .cloned()
            .collect();
        self.taken.retain(|file, _| now.contains_key(file));
        let still = now.iter().filter(|(file, print)| {
            self.taken.get(*file) != Some(*print) && self.last.get(*file) == Some(*print)
        });
        let due: Vec<(PathBuf, Print)> =
            still.map(|(file, print)| (file.clone(), *print)).collect();
        self.last = now;
        self.taken.extend(due.iter().cloned());
        (due.into_iter().map(|(file, _)| file).collect(), gone)
    }

    /// Everything that lies there is taken up.
    pub(crate) fn take_all(&mut self, now: Look) {
        self.taken.clone_from(&now);
        self.last = now;
    }

    /// A file was not taken up after all, and is due again.
    pub(crate) fn give_back(&mut self, file: &Path) {
        self.taken.remove(file);
    }
}

/// Looks at the folder.
pub(crate) fn look(folder: &Path) -> Result<Look, LoadError> {
    let files = folder::components(folder)?;
    let print = |file: &PathBuf| Print([stat(file), stat(&folder::signature_of(file))]);
    Ok(files
        .iter()
        .map(|file| (file.clone(), print(file)))
        .collect())
}

fn stat(path: &Path) -> Option<Stat> {
    let metadata = fs::metadata(path).ok()?;
    Some(Stat {
        inode: metadata.ino(),
        size: metadata.size(),
        modified: (metadata.mtime(), metadata.mtime_nsec()),
        changed: (metadata.ctime(), metadata.ctime_nsec()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(size: u64) -> Print {
        let time = (0, 0);
        let stat = Stat {
            inode: 1,
            size,
            modified: time,
            changed: time,
        };
        Print([Some(stat), None])
    }

    #[test]
    fn what_lies_still_is_taken_up_once() {
        let mut watch = Watch::default();
        let mut check = |files: &[(&str, u64)], due: &[&str], gone: &[&str]| {
            let now = files.iter().map(|(name, size)| (name.into(), print(*size)));
            let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
            assert_eq!(watch.due(now.collect()), (paths(due), paths(gone)));
        };
        check(&[("a", 1)], &[], &[]);
        check(&[("a", 2)], &[], &[]);
        check(&[("a", 3), ("b", 1)], &[], &[]);
        check(&[("a", 3), ("b", 2)], &["a"], &[]);
        check(&[("a", 3), ("b", 2)], &["b"], &[]);
        check(&[("a", 3), ("b", 2)], &[], &[]);
        check(&[("a", 4)], &[], &["b"]);
        check(&[("a", 4)], &["a"], &[]);
        check(&[], &[], &["a"]);
        check(&[("a", 4)], &[], &[]);
        check(&[("a", 4)], &["a"], &[]);
        let a = Path::new("a");
        watch.give_back(a);
        let now: Look = [(a.to_owned(), print(4))].into();
        assert_eq!(watch.due(now.clone()).0, [a.to_owned()]);
        watch.give_back(a);
        watch.take_all(now.clone());
        assert_eq!(watch.due(now), (vec![], vec![]));
    }

    #[test]
    fn a_look_sees_what_changed_and_the_signature_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.wasm");
        let seen = || look(folder.path()).unwrap().get(&file).copied();
        assert_eq!(seen(), None);
        let mut before = None;
        let mut changes = |change: &dyn Fn()| {
            change();
            let now = seen();
            assert_ne!(now, before);
            assert_eq!(now, seen());
            before = now;
        };
        changes(&|| fs::write(&file, "1").unwrap());
        changes(&|| fs::write(&file, "12").unwrap());
        changes(&|| fs::write(folder::signature_of(&file), "signed").unwrap());
        changes(&|| {
            let other = folder.path().join("other");
            fs::write(&other, "12").unwrap();
            fs::rename(other, &file).unwrap();
        });
    }
}
