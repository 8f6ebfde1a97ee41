//! Holding a log to its chain and its signatures, offline. Whatever does not
//! hold is said with its place; the rest of the log is looked at all the same.

mod walk;

use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::decision_log::chain::SignedHead;
use crate::decision_log::segments::{HEAD, list, path};
use crate::decision_log::sign::PublicKey;
use walk::Walk;

/// How often a folder is read again whose segments go while it is read.
const TRIES: u32 = 4;

/// What a log is held to, beside itself.
#[derive(Debug, Clone, Default)]
pub struct Expected {
    /// The key that must have signed; without one, the log's own is believed.
    pub key: Option<PublicKey>,
    /// A head that was signed before and kept elsewhere.
    pub anchor: Option<SignedHead>,
}

/// What does not hold, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file, and lines of it.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

/// What was found.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Whether nothing was found that does not hold.
    pub holds: bool,
    /// Segments.
    pub segments: u64,
    /// Links.
    pub links: u64,
    /// Records, of all sorts.
    pub records: u64,
    /// Records of requests.
    pub decisions: u64,
    /// Decisions that the log says it has lost.
    pub lost: u64,
    /// Signed heads that hold.
    pub signed_heads: u64,
    /// Records behind the last signed head: nothing but the chain holds these.
    pub unsigned_records: u64,
    /// What does not hold.
    pub findings: Vec<Finding>,
    /// What to know beside.
    pub notes: Vec<String>,
}

/// Verifies the log of a folder, also while a host writes it.
///
/// # Errors
/// When there is no log, or it cannot be read.
pub fn verify(folder: &Path, expected: &Expected) -> io::Result<Report> {
    let mut tries = 0;
    loop {
        tries += 1;
        match once(folder, expected) {
            // A host has deleted what it keeps no longer, meanwhile.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && tries < TRIES => {}
            done => return done,
        }
    }
}

fn once(folder: &Path, expected: &Expected) -> io::Result<Report> {
    // First, so that the segments are at least as new.
    let head = head_text(folder)?;
    let numbers = list(folder)?;
    if numbers.is_empty() && head.is_none() {
        return Err(io::Error::other("there is no decision log"));
    }
    let mut walk = Walk::new(expected);
    let last = numbers.last().copied();
    for number in &numbers {
        let bytes = fs::read(path(folder, *number))?;
        walk.segment(*number, &bytes, Some(*number) == last);
    }
    Ok(walk.end(head.as_deref()))
}

fn head_text(folder: &Path) -> io::Result<Option<String>> {
    match fs::read(folder.join(HEAD)) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

/// The head that was signed last.
///
/// # Errors
/// When there is none, or it cannot be read.
pub fn head(folder: &Path) -> io::Result<SignedHead> {
    let text = head_text(folder)?
        .ok_or_else(|| io::Error::other("there is no decision log, or nothing of it is signed"))?;
    serde_json::from_str(&text).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
