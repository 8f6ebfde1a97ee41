//! What a collection answers, less everything that is not the box's own: the
//! things themselves, and numbers that count the others. What is kept is kept
//! as it was written. A listing that this file does not understand is passed to
//! nobody.

use std::collections::BTreeSet;

use jackfield_sdk::json;
use jackfield_sdk::members::Members;
use serde_json::value::RawValue;

use crate::ids::{Named, is_id};
use crate::kinds::{self, folded};

/// Objects that may hold the listing itself.
const WRAPPERS: [&str; 4] = ["data", "result", "results", "response"];

/// Objects that say where one page stands among others.
const PAGING: [&str; 8] = [
    "meta",
    "metadata",
    "page",
    "pagination",
    "paging",
    "pageinfo",
    "links",
    "cursors",
];

/// Numbers that say what was asked for, and not how much there is.
const ASKED: [&str; 7] = [
    "page",
    "perpage",
    "pagesize",
    "pagenumber",
    "currentpage",
    "limit",
    "offset",
];

/// Why a listing is passed to nobody.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unclear;

/// The things that a listing names.
pub(crate) fn things(text: &[u8], kind: &'static str) -> Result<BTreeSet<Named>, Unclear> {
    let mut found = BTreeSet::new();
    read(text, kind, &mut |thing| {
        found.insert(thing);
        true
    })?;
    Ok(found)
}

/// A listing with the box's own things alone.
pub(crate) fn filtered(
    text: &[u8],
    kind: &'static str,
    own: &BTreeSet<Named>,
) -> Result<String, Unclear> {
    read(text, kind, &mut |thing| own.contains(&thing))
}

fn read(
    text: &[u8],
    kind: &'static str,
    keep: &mut dyn FnMut(Named) -> bool,
) -> Result<String, Unclear> {
    json::check(text).map_err(|_| Unclear)?;
    let text = std::str::from_utf8(text).map_err(|_| Unclear)?.trim_start();
    let mut listing = Listing {
        kind,
        keep,
        lists: 0,
    };
    let read = match text.as_bytes().first() {
        Some(b'[') => listing.list(text, kind)?,
        Some(b'{') => listing.object(text, true)?,
        Some(_) | None => return Err(Unclear),
    };
    if listing.lists == 0 {
        return Err(Unclear);
    }
    Ok(read)
}

struct Listing<'a> {
    kind: &'static str,
    keep: &'a mut dyn FnMut(Named) -> bool,
    lists: usize,
}

impl Listing<'_> {
    /// The listing's own object, or the one that it is wrapped in.
    fn object(&mut self, text: &str, is_outermost: bool) -> Result<String, Unclear> {
        let mut kept = Vec::new();
        for (name, value) in Members::of(text).ok_or(Unclear)?.0 {
            let folded = folded(&name);
            let value = value.get();
            let read = match value.as_bytes().first() {
                Some(b'[') => self.list(value, kinds::named(&name).unwrap_or(self.kind))?,
                Some(b'{') if is_outermost && WRAPPERS.contains(&folded.as_str()) => {
                    self.object(value, false)?
                }
                Some(b'{') if PAGING.contains(&folded.as_str()) => self.paging(value, 2)?,
                Some(b'{') => return Err(Unclear),
                Some(_) if self.may_be_told(&name, value) => value.to_owned(),
                Some(_) | None => continue,
            };
            kept.push(member(&name, &read)?);
        }
        Ok(format!("{{{}}}", kept.join(",")))
    }

    /// Where a page stands: texts and truths, and no list.
    fn paging(&mut self, text: &str, deeper: usize) -> Result<String, Unclear> {
        let mut kept = Vec::new();
        for (name, value) in Members::of(text).ok_or(Unclear)?.0 {
            let value = value.get();
            let read = match value.as_bytes().first() {
                Some(b'{') if deeper > 0 => self.paging(value, deeper - 1)?,
                Some(b'{' | b'[') => return Err(Unclear),
                Some(_) if self.may_be_told(&name, value) => value.to_owned(),
                Some(_) | None => continue,
            };
            kept.push(member(&name, &read)?);
        }
        Ok(format!("{{{}}}", kept.join(",")))
    }

    /// Whether a plain value beside the things tells of no others.
    fn may_be_told(&mut self, name: &str, value: &str) -> bool {
        let folded = folded(name);
        match value.as_bytes().first() {
            Some(b't' | b'f' | b'n') => true,
            Some(b'"') => {
                let text: String = serde_json::from_str(value).unwrap_or_default();
                let names_one = ["id", "ids"].iter().any(|word| folded.ends_with(word));
                if names_one || kinds::named(name).is_some() {
                    let kind = kinds::named(name).unwrap_or(self.kind);
                    return is_id(&text) && (self.keep)((kind, text));
                }
                let counts = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                !counts || ASKED.contains(&folded.as_str())
            }
            Some(_) | None => ASKED.contains(&folded.as_str()),
        }
    }

    /// A list of things: objects with an `id`, or ids.
    fn list(&mut self, text: &str, kind: &'static str) -> Result<String, Unclear> {
        self.lists += 1;
        let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| Unclear)?;
        let mut kept = Vec::new();
        for item in items {
            let item = item.get();
            let id = match item.as_bytes().first() {
                Some(b'{') => {
                    let members = Members::of(item).ok_or(Unclear)?;
                    id_of(members.get("id").ok_or(Unclear)?)?
                }
                Some(_) | None => id_of(item)?,
            };
            if is_id(&id) && (self.keep)((kind, id)) {
                kept.push(item);
            }
        }
        Ok(format!("[{}]", kept.join(",")))
    }
}

/// The id that something new was given: its `id`, or `data.id`.
pub(crate) fn new_id(text: &[u8]) -> Option<String> {
    json::check(text).ok()?;
    let members = Members::of(std::str::from_utf8(text).ok()?)?;
    let id = match members.get("id") {
        Some(id) => id,
        None => Members::of(members.get("data")?)?.get("id")?,
    };
    id_of(id).ok().filter(|id| is_id(id))
}

/// An id as it stands in JSON: a text, or a plain number.
fn id_of(text: &str) -> Result<String, Unclear> {
    if let Ok(id) = serde_json::from_str::<String>(text) {
        return Ok(id);
    }
    match text.parse::<u64>() {
        Ok(number) if number.to_string() == text => Ok(number.to_string()),
        Ok(_) | Err(_) => Err(Unclear),
    }
}

fn member(name: &str, value: &str) -> Result<String, Unclear> {
    let name = serde_json::to_string(name).map_err(|_| Unclear)?;
    Ok(format!("{name}:{value}"))
}
