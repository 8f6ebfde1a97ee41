//! What each box owns: on disk before it is answered, in memory where requests
//! are held to it. A thing has one record that names who holds it, so that two
//! boxes cannot both be the first.
//!
//! It judges nothing: `rules/owned` does.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};

use crate::chant::boxes::Known;
use crate::rules::names::{BoxName, ThingId, ThingKind};
use crate::rules::owned::{Claim, Thing, judge};
use crate::store::mirror::{Mirror, Mirrored};
use crate::store::{
    Batch, Change, Condition, Event, Page, Record, Revision, Store, StoreError, record,
};

/// Whose things: what memory follows, and what a box's end deletes.
const OWNED: &str = "owned/";
/// Who holds a thing: what a claim is held against.
const HOLDERS: &str = "holders/";
const VERSION: u32 = 1;

/// How many things are let go of together.
const PAGE: Page = Page {
    records: 64,
    bytes: 64 * 1024,
};

/// What every box of this host owns.
pub struct Owned {
    store: Arc<dyn Store>,
    table: Arc<Table>,
    mirror: Mirror,
}

#[derive(Default)]
struct Table(RwLock<HashMap<BoxName, BTreeSet<Thing>>>);

#[derive(Serialize, Deserialize, Default)]
struct Holders {
    boxes: Vec<String>,
}

/// Why a thing is not a box's own.
#[derive(Debug, thiserror::Error)]
pub(super) enum ClaimError {
    /// Another box holds it.
    #[error("another box holds it")]
    Taken,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Owned {
    /// Reads what boxes own and follows its changes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn open(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let table = Arc::new(Table::default());
        let mirror = Mirror::start(store.clone(), OWNED, table.clone()).await?;
        Ok(Self {
            store,
            table,
            mirror,
        })
    }

    /// Whether a box owns a thing.
    #[must_use]
    pub fn has(&self, box_name: &BoxName, thing: &Thing) -> bool {
        self.table
            .read(|boxes| boxes.get(box_name).is_some_and(|own| own.contains(thing)))
    }

    /// What a box owns, by kind and id.
    #[must_use]
    pub fn of(&self, box_name: &BoxName) -> Vec<Thing> {
        self.table.read(|boxes| {
            let own = boxes.get(box_name);
            own.map_or_else(Vec::new, |own| own.iter().cloned().collect())
        })
    }

    /// Says, on the operator's word, that a thing is a box's own; also where
    /// another box owns it: the two then share it.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the box is gone; any other when the store
    /// fails.
    pub async fn give(&self, known: &Known, thing: &Thing) -> Result<(), StoreError> {
        loop {
            let (held, condition) = self.holders(thing).await?;
            let mut boxes = held;
            if !boxes.contains(&known.name) {
                boxes.push(known.name.clone());
            }
            let batch = Batch {
                conditions: vec![condition, known.there()],
                changes: vec![
                    holders_change(thing, &boxes)?,
                    Change::Put(owned_key(&known.name, thing), Vec::new()),
                ],
            };
            match self.store.commit(batch).await {
                Ok(revision) => return self.reached(revision).await,
                Err(StoreError::Conflict)
                    if self
                        .store
                        .get(super::boxes::key(&known.name).as_slice())
                        .await?
                        .is_none() =>
                {
                    return Err(StoreError::Conflict);
                }
                Err(StoreError::Conflict) => {}
                Err(failed) => return Err(failed),
            }
        }
    }

    /// Takes a thing from a box. False where it was not its own.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn take(&self, box_name: &BoxName, thing: &Thing) -> Result<bool, StoreError> {
        if !self.has(box_name, thing) {
            return Ok(false);
        }
        let released = release(&self.store, box_name, std::slice::from_ref(thing)).await?;
        self.reached(released).await?;
        Ok(true)
    }

    /// What makes a plugin's claims last: conditions and changes for the commit
    /// that it is part of.
    pub(super) async fn claims(
        &self,
        box_name: &BoxName,
        things: &[Thing],
    ) -> Result<(Vec<Condition>, Vec<Change>), ClaimError> {
        let (mut conditions, mut changes) = (Vec::new(), Vec::new());
        for thing in things.iter().collect::<BTreeSet<_>>() {
            let (holders, condition) = self.holders(thing).await?;
            match judge(&holders, box_name) {
                Claim::Take => {
                    changes.push(holders_change(thing, std::slice::from_ref(box_name))?);
                    changes.push(Change::Put(owned_key(box_name, thing), Vec::new()));
                }
                Claim::Hold => {}
                Claim::Refuse => return Err(ClaimError::Taken),
            }
            conditions.push(condition);
        }
        Ok((conditions, changes))
    }

    /// Waits for memory; a store that closes first leaves it behind.
    pub(super) async fn reached(&self, revision: Revision) -> Result<(), StoreError> {
        if self.mirror.reached(revision).await {
            Ok(())
        } else {
            Err(StoreError::Closed)
        }
    }

    async fn holders(&self, thing: &Thing) -> Result<(Vec<BoxName>, Condition), StoreError> {
        read_holders(&self.store, thing).await
    }
}

/// Takes from a box that is no more what it owned.
pub(super) async fn purge(store: &Arc<dyn Store>, box_name: &BoxName) -> Result<(), StoreError> {
    let prefix = format!("{OWNED}{box_name}/").into_bytes();
    loop {
        let found = store.page(&prefix, None, PAGE).await?;
        if found.is_empty() {
            return Ok(());
        }
        let things: Vec<Thing> = found
            .iter()
            .filter_map(|record| Some(parse(&record.key)?.1))
            .collect();
        if things.is_empty() {
            return Err(StoreError::Malformed("a box's thing cannot be read"));
        }
        release(store, box_name, &things).await?;
    }
}

async fn release(
    store: &Arc<dyn Store>,
    box_name: &BoxName,
    things: &[Thing],
) -> Result<Revision, StoreError> {
    loop {
        let (mut conditions, mut changes) = (Vec::new(), Vec::new());
        for thing in things {
            let (mut holders, condition) = read_holders(store, thing).await?;
            holders.retain(|holder| holder != box_name);
            conditions.push(condition);
            changes.push(holders_change(thing, &holders)?);
            changes.push(Change::Delete(owned_key(box_name, thing)));
        }
        let batch = Batch {
            conditions,
            changes,
        };
        match store.commit(batch).await {
            Err(StoreError::Conflict) => {}
            committed => return committed,
        }
    }
}

/// Who holds a thing, and what holds as long as that does.
async fn read_holders(
    store: &Arc<dyn Store>,
    thing: &Thing,
) -> Result<(Vec<BoxName>, Condition), StoreError> {
    let key = holders_key(thing);
    let Some(found) = store.get(&key).await? else {
        return Ok((Vec::new(), Condition::Absent(key)));
    };
    let stored: Holders = record::decode(&found, VERSION)?;
    let boxes = stored.boxes.iter().map(|name| BoxName::parse(name));
    let boxes = boxes.collect::<Result<_, _>>().map_err(|error| {
        let (key, reason) = (
            String::from_utf8_lossy(&key).into_owned(),
            error.to_string(),
        );
        StoreError::Corrupt { key, reason }
    })?;
    Ok((boxes, Condition::AtRevision(key, found.revision)))
}

fn holders_change(thing: &Thing, boxes: &[BoxName]) -> Result<Change, StoreError> {
    let key = holders_key(thing);
    if boxes.is_empty() {
        return Ok(Change::Delete(key));
    }
    let stored = Holders {
        boxes: boxes.iter().map(ToString::to_string).collect(),
    };
    let value = record::encode(&key, VERSION, &stored)?;
    Ok(Change::Put(key, value))
}

fn holders_key(thing: &Thing) -> Vec<u8> {
    format!("{HOLDERS}{}/{}", thing.kind, thing.id).into_bytes()
}

fn owned_key(box_name: &BoxName, thing: &Thing) -> Vec<u8> {
    format!("{OWNED}{box_name}/{}/{}", thing.kind, thing.id).into_bytes()
}

fn parse(key: &[u8]) -> Option<(BoxName, Thing)> {
    let (box_name, rest) = record::key_parts(key, OWNED)?;
    let (kind, id) = rest.split_once('/')?;
    let thing = Thing {
        kind: ThingKind::parse(kind).ok()?,
        id: ThingId::parse(id).ok()?,
    };
    Some((BoxName::parse(box_name).ok()?, thing))
}

impl Table {
    // A panic while the lock is held cannot leave a half-made entry: every
    // change is a single insert or remove.
    fn read<T>(&self, look: impl FnOnce(&HashMap<BoxName, BTreeSet<Thing>>) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Mirrored for Table {
    fn reset(&self, records: &[Record]) {
        let mut boxes: HashMap<BoxName, BTreeSet<Thing>> = HashMap::new();
        for (box_name, thing) in records.iter().filter_map(|found| parse(&found.key)) {
            boxes.entry(box_name).or_default().insert(thing);
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = boxes;
    }

    fn apply(&self, event: &Event) {
        let Some((box_name, thing)) = parse(&event.key) else {
            return;
        };
        let mut boxes = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let own = boxes.entry(box_name.clone()).or_default();
        if event.value.is_some() {
            own.insert(thing);
        } else {
            own.remove(&thing);
            if own.is_empty() {
                boxes.remove(&box_name);
            }
        }
    }
}

#[cfg(test)]
mod tests;
