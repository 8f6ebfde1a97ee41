//! What may be kept, journaled, read and owned: only what the manifest asks for
//! and the operator granted, under names that the store can hold.

use std::collections::BTreeSet;

use crate::rules::names::{ThingId, ThingKind};
use crate::rules::owned::Thing;
use crate::rules::plan::{Listing, SaidThing, Write};
use crate::rules::plan_check::{Bounds, PlanFault, beyond, check_text, fault, quote};

pub(super) fn check_writes(writes: &[Write], bounds: &Bounds<'_>) -> Result<(), PlanFault> {
    if !writes.is_empty() && !bounds.uses.keep {
        return Err(beyond("it writes to a keep that it was not granted"));
    }
    let mut keys = BTreeSet::new();
    for write in writes {
        check_key(&write.key)?;
        if !keys.insert(write.key.as_str()) {
            return Err(fault("it writes one key of its keep twice"));
        }
    }
    Ok(())
}

pub(super) fn check_journal(records: &[Vec<u8>], bounds: &Bounds<'_>) -> Result<(), PlanFault> {
    if !records.is_empty() && !bounds.uses.journal {
        return Err(beyond("it writes to the journal, which it was not granted"));
    }
    Ok(())
}

pub(super) fn check_reads(
    reads: &[String],
    lists: &[Listing],
    bounds: &Bounds<'_>,
) -> Result<(), PlanFault> {
    let nothing = reads.is_empty() && lists.is_empty();
    if !nothing && !bounds.uses.keep {
        return Err(beyond("it reads a keep that it was not granted"));
    }
    for key in reads {
        check_key(key)?;
    }
    for listing in lists {
        check_text("the prefix of a listing", &listing.prefix)?;
        listing.after.as_deref().map_or(Ok(()), check_key)?;
    }
    Ok(())
}

/// Reads things; each of a kind that was granted.
pub(super) fn check_things(
    things: &[SaidThing],
    bounds: &Bounds<'_>,
) -> Result<Vec<Thing>, PlanFault> {
    let check = |said: &SaidThing| {
        let granted = ThingKind::parse(&said.kind).ok();
        let kind = granted.filter(|kind| bounds.uses.owned_kinds.contains(kind));
        let kind = kind.ok_or_else(|| {
            let kind = quote(&said.kind);
            beyond(format!(
                "it was not granted to know which {kind} a box owns"
            ))
        })?;
        let id = ThingId::parse(&said.id).map_err(|_| {
            let id = quote(&said.id);
            fault(format!(
                "{id} is no thing's id: one has 1 to 256 bytes and no control character"
            ))
        })?;
        Ok(Thing { kind, id })
    };
    things.iter().map(check).collect()
}

fn check_key(key: &str) -> Result<(), PlanFault> {
    check_text("a key of its keep", key)?;
    if key.is_empty() {
        return Err(fault("a key of its keep is empty"));
    }
    Ok(())
}
