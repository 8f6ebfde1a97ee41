//! The boxes' last reports: on disk before they are answered, in memory where
//! every request is held to them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::chant::boxes::Known;
use crate::rules::declaration::{Declaration, Entry};
use crate::rules::names::{BoxName, CapabilityName, ScopeWord};
use crate::store::mirror::{Mirror, Mirrored};
use crate::store::{Batch, Change, Event, Record, Store, StoreError, record};

const PREFIX: &str = "declaration/";
const VERSION: u32 = 1;

/// A report and when it was taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Reported {
    /// What the box declared.
    pub declaration: Declaration,
    /// When the report was taken: ISO 8601, UTC.
    pub at: String,
}

/// The last report of every box.
pub struct Declarations {
    store: Arc<dyn Store>,
    table: Arc<Table>,
    mirror: Mirror,
}

#[derive(Default)]
struct Table(RwLock<HashMap<BoxName, Arc<Reported>>>);

#[derive(Serialize, Deserialize)]
struct StoredReport {
    entries: Vec<StoredEntry>,
    listing: Option<Box<RawValue>>,
    spend: Option<Box<RawValue>>,
    at: String,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    name: String,
    scope: Vec<String>,
}

impl Declarations {
    /// Reads the reports and follows their changes.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn open(store: Arc<dyn Store>) -> Result<Self, StoreError> {
        let table = Arc::new(Table::default());
        let mirror = Mirror::start(store.clone(), PREFIX, table.clone()).await?;
        Ok(Self {
            store,
            table,
            mirror,
        })
    }

    /// The last report of a box.
    #[must_use]
    pub fn of(&self, name: &BoxName) -> Option<Arc<Reported>> {
        self.table
            .0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(name)
            .cloned()
    }

    /// Replaces a box's report. It is on disk when this returns.
    ///
    /// # Errors
    /// [`StoreError::Conflict`] when the box is no longer what it was when it
    /// was identified; any other when the store fails, and then the report
    /// before this one still holds.
    pub async fn keep(&self, known: &Known, reported: &Reported) -> Result<(), StoreError> {
        let key = key(&known.name);
        let value = record::encode(&key, VERSION, &StoredReport::from(reported))?;
        let batch = Batch {
            conditions: vec![known.unchanged()],
            changes: vec![Change::Put(key, value)],
        };
        let revision = self.store.commit(batch).await?;
        if self.mirror.reached(revision).await {
            Ok(())
        } else {
            Err(StoreError::Closed)
        }
    }
}

/// The key that a box's report stands under.
pub(super) fn key(name: &BoxName) -> Vec<u8> {
    format!("{PREFIX}{name}").into_bytes()
}

impl Mirrored for Table {
    fn reset(&self, records: &[Record]) {
        let read = records
            .iter()
            .filter_map(|found| parse(&found.key, &found.value))
            .collect();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = read;
    }

    fn apply(&self, event: &Event) {
        let mut table = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match event
            .value
            .as_ref()
            .and_then(|value| parse(&event.key, value))
        {
            Some((name, reported)) => {
                table.insert(name, reported);
            }
            None => {
                if let Some(name) = name_of(&event.key) {
                    table.remove(&name);
                }
            }
        }
    }
}

fn name_of(key: &[u8]) -> Option<BoxName> {
    BoxName::parse(std::str::from_utf8(key).ok()?.strip_prefix(PREFIX)?).ok()
}

fn parse(key: &[u8], value: &[u8]) -> Option<(BoxName, Arc<Reported>)> {
    let name = name_of(key)?;
    let reported = record::decode_value::<StoredReport>(key, value, VERSION)
        .ok()
        .and_then(StoredReport::into_reported);
    if reported.is_none() {
        tracing::error!(record = %name, "a declaration cannot be read; the box counts as one that never reported");
    }
    Some((name, Arc::new(reported?)))
}

impl From<&Reported> for StoredReport {
    fn from(reported: &Reported) -> Self {
        // Both texts were read as JSON when the report was.
        let raw = |text: &Option<String>| {
            text.clone()
                .and_then(|text| RawValue::from_string(text).ok())
        };
        let words = |entry: &Entry| {
            entry
                .words
                .iter()
                .map(|word| word.as_str().to_owned())
                .collect()
        };
        let entries = reported.declaration.entries.iter();
        Self {
            entries: entries
                .map(|entry| StoredEntry {
                    name: entry.name.as_str().to_owned(),
                    scope: words(entry),
                })
                .collect(),
            listing: raw(&reported.declaration.listing),
            spend: raw(&reported.declaration.spend),
            at: reported.at.clone(),
        }
    }
}

impl StoredReport {
    fn into_reported(self) -> Option<Reported> {
        let words = |scope: Vec<String>| {
            scope
                .iter()
                .map(|word| ScopeWord::parse(word).ok())
                .collect::<Option<_>>()
        };
        let entry = |entry: StoredEntry| {
            Some(Entry {
                name: CapabilityName::parse(&entry.name).ok()?,
                words: words(entry.scope)?,
            })
        };
        let entries = self.entries.into_iter().map(entry).collect::<Option<_>>()?;
        let text = |raw: Box<RawValue>| raw.get().to_owned();
        let declaration = Declaration {
            entries,
            listing: self.listing.map(text),
            spend: self.spend.map(text),
        };
        Some(Reported {
            declaration,
            at: self.at,
        })
    }
}
