//! Reading records back, for people. What a verifier would find is not looked
//! for here.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::decision_log::segments::{list, path};

/// A record as it is shown.
#[derive(Debug)]
pub struct Shown {
    /// The line, as it stands in the file.
    pub line: Box<RawValue>,
    /// Its number.
    pub record: u64,
    /// When it was made.
    pub time: Timestamp,
    /// The box, where it is of one.
    pub box_name: Option<String>,
    /// The members of a decision, or what else it is about.
    pub about: serde_json::Value,
}

#[derive(Deserialize)]
struct Line {
    record: u64,
    time: Timestamp,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

/// Reads the records of a folder in their order, until `each` has had enough.
///
/// # Errors
/// When a file cannot be read, or `each` fails.
pub fn read<E: From<io::Error>>(
    folder: &Path,
    mut each: impl FnMut(Shown) -> Result<(), E>,
) -> Result<(), E> {
    for number in list(folder)? {
        let file = match File::open(path(folder, number)) {
            Ok(file) => file,
            // It is no longer kept since the folder was listed.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
            Err(cause) => return Err(cause.into()),
        };
        let mut from = BufReader::new(file);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line)? > 0 {
            if let Some(shown) = shown(&line) {
                each(shown)?;
            }
            line.clear();
        }
    }
    Ok(())
}

fn shown(line: &[u8]) -> Option<Shown> {
    // A line that is still being written is none yet.
    let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
    if !text.starts_with("{\"record\":") {
        return None;
    }
    let read: Line = serde_json::from_str(text).ok()?;
    let decision = read.rest.get("decision");
    let box_name = decision.and_then(|decision| decision["box"].as_str());
    Some(Shown {
        line: RawValue::from_string(text.to_owned()).ok()?,
        record: read.record,
        time: read.time,
        box_name: box_name.map(str::to_owned),
        about: decision
            .cloned()
            .unwrap_or(serde_json::Value::Object(read.rest)),
    })
}
