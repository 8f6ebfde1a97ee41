//! What depends on the note that is there: it is read first, and the change is
//! made only if it is still the same then.

use jackfield_sdk::contract::Expected;
use jackfield_sdk::prelude::*;

use crate::key::tag;

/// What is to be done once the note has been read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// Show it.
    Read,
    /// Replace it, or make it.
    Put,
    /// Make it, if there is none.
    Create,
    /// Replace it, if this is its tag.
    Replace(String),
    /// Delete it.
    Delete,
}

/// What a `PUT` asks for.
///
/// # Errors
/// When it is no note, or its conditions are none that a note can meet.
pub(crate) fn put(request: &Request) -> Result<Change, Refusal> {
    if std::str::from_utf8(request.body.as_deref().unwrap_or_default()).is_err() {
        return Err(refuse::invalid("A note is text, in UTF-8."));
    }
    let condition = |name: &str| {
        let mut lines = request.headers.iter().filter(|line| line.name == name);
        let first = lines.next().map(|line| line.value.as_slice());
        (first, lines.next().is_some())
    };
    match (condition("if-match"), condition("if-none-match")) {
        ((None, _), (None, _)) => Ok(Change::Put),
        ((None, _), (Some(b"*"), false)) => Ok(Change::Create),
        ((Some(tag), false), (None, _)) if is_tag(tag) => {
            Ok(Change::Replace(String::from_utf8_lossy(tag).into_owned()))
        }
        _ => Err(refuse::invalid(
            "A note takes If-None-Match: * or If-Match with one ETag of its own, not both.",
        )),
    }
}

fn is_tag(text: &[u8]) -> bool {
    let inner = text
        .strip_prefix(b"\"")
        .and_then(|rest| rest.strip_suffix(b"\""));
    inner.is_some_and(|inner| inner.len() == 16 && inner.iter().all(u8::is_ascii_hexdigit))
}

impl Change {
    /// Reads the note first. What is to be done with it goes along: `resume`
    /// remembers nothing else.
    pub(crate) fn of(&self, key: &str, note: &[u8]) -> Step {
        let word = match self {
            Self::Read => "read",
            Self::Put => "put",
            Self::Create => "create",
            Self::Replace(tag) => tag,
            Self::Delete => "delete",
        };
        let state = [word.as_bytes(), b" ", key.as_bytes(), b"\n", note].concat();
        Need::with_state(state).read(key).into()
    }

    fn from_word(word: &str) -> Self {
        match word {
            "read" => Self::Read,
            "put" => Self::Put,
            "create" => Self::Create,
            "delete" => Self::Delete,
            tag => Self::Replace(tag.to_owned()),
        }
    }
}

/// Does it, now that the note is known.
pub(crate) fn made(state: &[u8], held: Option<Vec<u8>>) -> Step {
    let Some((change, key, note)) = recall(state) else {
        return refuse::internal("notes could not read its own state.").into();
    };
    match (change, held) {
        (Change::Read, Some(held)) => Answer::status(200)
            .header("content-type", "text/plain; charset=utf-8")
            .header("etag", tag(&held))
            .body(held)
            .into(),
        (Change::Read | Change::Delete, None) => {
            refuse::not_found(format!("There is no note {key}.")).into()
        }
        (Change::Delete, Some(held)) => Plan::from(Answer::status(204))
            .delete_if(key, Expected::Value(held))
            .into(),
        (Change::Create, Some(_)) => changed(key, "is there already").into(),
        (Change::Replace(_), None) => changed(key, "is not there").into(),
        (Change::Replace(wanted), Some(held)) if wanted != tag(&held) => {
            changed(key, "is not the one of that ETag").into()
        }
        (Change::Put | Change::Replace(_), Some(held)) => {
            written(204, key, note, Expected::Value(held))
        }
        (Change::Put | Change::Create, None) => written(201, key, note, Expected::Nothing),
    }
}

fn recall(state: &[u8]) -> Option<(Change, &str, &[u8])> {
    let end = state.iter().position(|byte| *byte == b'\n')?;
    let (line, note) = state.split_at_checked(end)?;
    let (word, key) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    Some((Change::from_word(word), key, note.get(1..)?))
}

fn written(status: u16, key: &str, note: &[u8], expected: Expected) -> Step {
    Plan::from(Answer::status(status).header("etag", tag(note)))
        .write_if(key, expected, note)
        .into()
}

fn changed(key: &str, why: &str) -> Refusal {
    refuse::with(
        412,
        "precondition_failed",
        format!("The note {key} {why}: nothing was changed. Read it again."),
    )
}
