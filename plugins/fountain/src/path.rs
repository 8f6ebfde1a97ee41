//! Where a request goes: which family of paths, which things the path names,
//! and whether it stands at a collection of them.

use jackfield_sdk::prelude::*;

use crate::ids::{Ids, decoded};
use crate::kinds::{self, CONVERSATIONS, SANDBOXES, VAULTS};

/// A path under one of the families.
#[derive(Debug)]
pub(crate) struct Place {
    /// The family's kind.
    pub(crate) family: &'static str,
    /// The kind that the last thing of the path is of, or the collection.
    pub(crate) kind: &'static str,
    /// Whether it is a collection, and not a thing in one or something of its.
    pub(crate) is_collection: bool,
    /// Whether it ends at the collection or thing, and not at something of it.
    ends_there: bool,
    /// How many segments follow the family's.
    below: usize,
    /// The ids that the path names.
    pub(crate) ids: Ids,
}

impl Place {
    /// Reads a path; none where this plugin does not serve it: another family,
    /// an empty segment, or one that a server may read as two.
    pub(crate) fn of(request: &Request) -> Option<Self> {
        let segments = request.segments();
        let [api, family, below @ ..] = segments.as_slice() else {
            return None;
        };
        if *api != "api" {
            return None;
        }
        let family = [CONVERSATIONS, SANDBOXES, VAULTS]
            .into_iter()
            .find(|known| known == family)?;
        let mut place = Self {
            family,
            kind: family,
            is_collection: true,
            ends_there: true,
            below: below.len(),
            ids: Ids::default(),
        };
        // Whether the last collection is called by more than its kind, such as
        // `linked-sandboxes`: what is made there may be a link, whose id is none
        // of the kind.
        let mut is_linked = false;
        for segment in below {
            let segment = decoded(segment, false)?;
            if segment.is_empty() || segment.contains('/') {
                return None;
            }
            if place.is_collection {
                place.ids.add(place.kind, &segment);
                place.is_collection = false;
                place.ends_there = true;
            } else if let Some(kind) = kinds::named(&segment) {
                place.kind = kind;
                place.is_collection = true;
                is_linked = !kinds::is_segment(&segment, kind);
                place.ends_there = true;
            } else {
                place.ends_there = false;
            }
        }
        // Its listing is filtered as any other; what else is asked of it
        // concerns the thing that it belongs to.
        if is_linked && request.method != "GET" {
            place.is_collection = false;
        }
        Some(place)
    }

    /// The scope word that a request here needs.
    pub(crate) fn word(&self, method: &str) -> &'static str {
        match self.family {
            CONVERSATIONS if method == "POST" && self.below == 0 => "agent",
            CONVERSATIONS => "conversations",
            SANDBOXES => "sandboxes",
            _ => "vault",
        }
    }

    /// The kind that an `id` of a request's body itself would be of.
    pub(crate) fn own(&self) -> Option<&'static str> {
        self.ends_there.then_some(self.kind)
    }

    /// Whether a request here starts a conversation.
    pub(crate) fn starts_conversation(&self, method: &str) -> bool {
        self.is_collection && self.kind == CONVERSATIONS && method == "POST"
    }
}
