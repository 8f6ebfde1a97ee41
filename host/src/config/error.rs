//! What is wrong with a configuration, with the line it is on.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Why a configuration is refused.
#[derive(Debug)]
pub struct ConfigError {
    file: PathBuf,
    line: Option<usize>,
    message: String,
    source: Option<std::io::Error>,
}

/// A fault in the text, by its place in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) span: Option<Range<usize>>,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self {
            span: Some(span),
            message: message.into(),
        }
    }
}

impl ConfigError {
    pub(super) fn read(file: &Path, cause: std::io::Error) -> Self {
        let message = if cause.kind() == std::io::ErrorKind::NotFound {
            "no such file; `jackfield config example > FILE` makes one"
        } else {
            "cannot be read"
        };
        Self {
            file: file.to_path_buf(),
            line: None,
            message: message.to_owned(),
            source: Some(cause),
        }
    }

    pub(super) fn fault(file: &Path, text: &str, fault: Fault) -> Self {
        Self {
            file: file.to_path_buf(),
            line: fault.span.map(|span| line_of(text, span.start)),
            message: fault.message,
            source: None,
        }
    }

    /// The line, counted from 1, where the fault has one.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(formatter, ", line {line}")?;
        }
        write!(formatter, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|cause| cause as _)
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}
