//! The host's source files, for the tests that hold the layering.

use std::fs;
use std::path::{Path, PathBuf};

use crate::plugins::root;

/// A source file.
#[derive(Debug)]
pub struct Source {
    /// Its path below `host/src`, such as `relay/seal.rs`.
    pub path: String,
    /// Its text.
    pub text: String,
}

impl Source {
    /// The first part of its path: the layer that it belongs to. `app.rs`
    /// belongs to `app`.
    #[must_use]
    pub fn layer(&self) -> &str {
        let first = self.path.split('/').next().unwrap_or("");
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// Its lines less comments, and less what stands under `#[cfg(test)]` at
    /// the file's end. Files of tests have none.
    #[must_use]
    pub fn code(&self) -> Vec<&str> {
        if self.is_test() {
            return Vec::new();
        }
        self.text
            .lines()
            .take_while(|line| *line != "#[cfg(test)]" || !self.tests_follow(line))
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect()
    }

    /// Whether the whole file is tests.
    #[must_use]
    pub fn is_test(&self) -> bool {
        self.path.ends_with("tests.rs") || self.path.contains("/tests/")
    }

    fn tests_follow(&self, line: &str) -> bool {
        let at = line.as_ptr() as usize - self.text.as_ptr() as usize;
        let after = self.text[at..].lines().nth(1).unwrap_or("");
        after.starts_with("mod tests {")
    }
}

/// Every file below `host/src`.
///
/// # Panics
/// When they cannot be read.
#[must_use]
pub fn host() -> Vec<Source> {
    let base = root().join("host/src");
    let mut sources = Vec::new();
    collect(&base, &base, &mut sources);
    assert!(!sources.is_empty(), "no sources below {}", base.display());
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    sources
}

fn collect(base: &Path, folder: &Path, sources: &mut Vec<Source>) {
    let entries = fs::read_dir(folder).expect("a folder");
    let paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    for path in paths {
        if path.is_dir() {
            collect(base, &path, sources);
            continue;
        }
        let name = path.strip_prefix(base).expect("below the base");
        sources.push(Source {
            path: name.to_string_lossy().into_owned(),
            text: String::from_utf8_lossy(&fs::read(&path).expect("a file")).into_owned(),
        });
    }
}
