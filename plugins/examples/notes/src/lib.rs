//! An example: a capability that nobody had heard of, with a prefix, two words
//! and a keep of its own.
//!
//! | request | word |
//! |---|---|
//! | `GET /notes`, `GET /notes?after=KEY` | `read` |
//! | `GET /notes/KEY` | `read` |
//! | `PUT /notes/KEY` | `write` |
//! | `DELETE /notes/KEY` | `write` |
//!
//! A key is 1 to 100 letters, digits, `.`, `_` and `-`; a note is up to 32 KiB
//! of text. Each box has its own notes: a keep belongs to one plugin and one
//! box. `If-Match` and `If-None-Match: *` on a `PUT` change a note only as its
//! writer last saw it.

mod change;
mod key;

use jackfield_sdk::prelude::*;

use change::Change;
use key::is_key;

/// The largest note.
const MAX_NOTE: u32 = 32 * 1024;

/// As many keys as one answer names; where there are so many there may be more.
const PAGE: usize = 1_000;

/// The plugin.
pub struct Notes;

impl Capability for Notes {
    fn describe() -> Manifest {
        Manifest::new("notes", env!("CARGO_PKG_VERSION"), "notes")
            .summary("Keeps small notes for a box")
            .route(
                RouteEntry::under("/notes")
                    .methods(["GET", "PUT", "DELETE"])
                    .sees_query()
                    .sees_headers(["if-match", "if-none-match"])
                    .sees_body(MAX_NOTE),
            )
            .word(Word::new("read", "Read and list its notes"))
            .word(Word::new("write", "Write and delete its notes"))
            .keep()
    }

    fn scopes(request: &Request) -> Option<Vec<String>> {
        match Act::of(request)? {
            Act::List | Act::Read(_) => needs(["read"]),
            Act::Put(_) | Act::Delete(_) => needs(["write"]),
        }
    }

    fn route(request: Request, _caller: Caller) -> Step {
        match Act::of(&request) {
            Some(Act::List) => list(request.query.as_deref()),
            Some(Act::Read(key)) => Change::Read.of(key, &[]),
            Some(Act::Put(key)) => match change::put(&request) {
                Ok(change) => change.of(key, request.body.as_deref().unwrap_or_default()),
                Err(refusal) => refusal.into(),
            },
            Some(Act::Delete(key)) => Change::Delete.of(key, &[]),
            None => refuse::not_found("notes serves /notes and /notes/KEY.").into(),
        }
    }

    fn resume(state: Vec<u8>, answers: Answers) -> Step {
        if let Some(names) = answers.lists.into_iter().next() {
            return listed(&names).into();
        }
        let held = answers.reads.into_iter().next().flatten();
        change::made(&state, held)
    }
}

jackfield_sdk::plugin!(Notes);

/// What a request asks for.
enum Act<'a> {
    List,
    Read(&'a str),
    Put(&'a str),
    Delete(&'a str),
}

impl<'a> Act<'a> {
    fn of(request: &'a Request) -> Option<Self> {
        match (request.method.as_str(), request.segments().as_slice()) {
            ("GET", []) => Some(Self::List),
            ("GET", [key]) if is_key(key) => Some(Self::Read(key)),
            ("PUT", [key]) if is_key(key) => Some(Self::Put(key)),
            ("DELETE", [key]) if is_key(key) => Some(Self::Delete(key)),
            _ => None,
        }
    }
}

fn list(query: Option<&str>) -> Step {
    let need = Need::with_state([]);
    match query.map(|query| query.strip_prefix("after=")) {
        None => need.list("").into(),
        Some(Some(after)) if is_key(after) => need.list_after("", after).into(),
        Some(_) => refuse::invalid("The query of a listing is after=KEY, or none.").into(),
    }
}

/// Keys hold nothing that JSON would have to escape.
fn listed(names: &[String]) -> Answer {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let more = names.len() >= PAGE;
    Answer::status(200)
        .header("content-type", "application/json")
        .body(format!(
            "{{\"notes\":[{}],\"more\":{more}}}",
            quoted.join(",")
        ))
}

#[cfg(test)]
mod tests;
