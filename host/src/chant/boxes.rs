//! The boxes: their tokens by hash, whether they are paused, and the lease
//! that their open streams live under. What is read on every request lives in
//! memory, driven by the store's watch.

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::sync::{Arc, PoisonError, RwLock};

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::chant::effects;
use crate::fleeting::Fleeting;
use crate::lease::Tenure;
use crate::rules::names::BoxName;
use crate::rules::scrub::Matcher;
use crate::rules::token::{BoxToken, TokenHash};
use crate::store::mirror::{Mirror, Mirrored};
use crate::store::{Batch, Change, Condition, Event, Record, Revision, Store, StoreError, record};

const PREFIX: &str = "box/";
const VERSION: u32 = 1;

/// Why a box could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum BoxError {
    /// The name is taken.
    #[error("the box {0} exists already; `jackfield box rotate {0}` gives it a new token")]
    Exists(BoxName),
    /// There is no such box.
    #[error("there is no box {0}; `jackfield box list` names those there are")]
    Unknown(BoxName),
    /// The system gave no randomness.
    #[error("the system gave no random bytes for a token")]
    Random,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A box as it stands in memory.
#[derive(Debug)]
pub struct Known {
    /// Its name.
    pub name: BoxName,
    /// Whether the operator paused it.
    pub paused: bool,
    /// When it was added (ISO 8601).
    pub added: String,
    /// Cancelled when its token is rotated or the box is removed: what lives
    /// under it is cut.
    pub lease: Tenure,
    /// How many requests it may have under way.
    pub slots: Arc<Semaphore>,
    token: TokenHash,
    /// What finds its token in any form, while it sends requests.
    finder: Fleeting<Matcher>,
    /// When its record last changed.
    revision: Revision,
}

impl Known {
    /// What finds this box's token: the one that it was known by.
    pub(super) fn finder(&self, token: &BoxToken) -> Arc<Matcher> {
        let compile = || Ok::<_, Infallible>(Matcher::of_token(token));
        match self.finder.get_or_try(compile) {
            Ok(finder) => finder,
            Err(never) => match never {},
        }
    }

    /// Holds as long as there is a box of this name.
    pub(super) fn there(&self) -> Condition {
        Condition::Present(key(&self.name))
    }

    /// Holds as long as the box is the one that was identified, unchanged.
    pub(super) fn unchanged(&self) -> Condition {
        Condition::AtRevision(key(&self.name), self.revision)
    }
}

/// The boxes of this host.
pub struct Boxes {
    store: Arc<dyn Store>,
    table: Arc<BoxTable>,
    mirror: Mirror,
}

#[derive(Serialize, Deserialize)]
struct StoredBox {
    token_sha256: String,
    paused: bool,
    added: String,
}

struct BoxTable {
    slots: usize,
    entries: RwLock<Entries>,
}

#[derive(Default)]
struct Entries {
    by_name: BTreeMap<BoxName, Arc<Known>>,
    by_token: HashMap<TokenHash, Arc<Known>>,
}

impl Boxes {
    /// Reads the boxes and follows their changes. `slots` is how many requests
    /// one box may have under way.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn open(store: Arc<dyn Store>, slots: usize) -> Result<Self, StoreError> {
        let table = Arc::new(BoxTable {
            slots,
            entries: RwLock::default(),
        });
        let mirror = Mirror::start(store.clone(), PREFIX, table.clone()).await?;
        Ok(Self {
            store,
            table,
            mirror,
        })
    }

    /// Adds a box and returns its token, which is stored nowhere.
    ///
    /// # Errors
    /// When the name is taken or the store fails.
    pub async fn add(&self, name: &BoxName, now: &str) -> Result<BoxToken, BoxError> {
        let token = draw()?;
        if self.store.get(&key(name)).await?.is_none() {
            // What a removal left behind that was cut off.
            effects::purge(&self.store, name).await?;
        }
        let stored = StoredBox {
            token_sha256: token.hash().to_hex(),
            paused: false,
            added: now.to_owned(),
        };
        match self.put(name, &stored, Condition::Absent(key(name))).await {
            Err(StoreError::Conflict) => Err(BoxError::Exists(name.clone())),
            other => other.map(|()| token).map_err(BoxError::Store),
        }
    }

    /// Gives a box a new token. The old one is unknown from here on, and what
    /// was opened with it is cut.
    ///
    /// # Errors
    /// When there is no such box or the store fails.
    pub async fn rotate(&self, name: &BoxName) -> Result<BoxToken, BoxError> {
        let token = draw()?;
        let hash = token.hash().to_hex();
        self.change(name, |stored| stored.token_sha256.clone_from(&hash))
            .await?;
        Ok(token)
    }

    /// Pauses or resumes a box.
    ///
    /// # Errors
    /// When there is no such box or the store fails.
    pub async fn pause(&self, name: &BoxName, paused: bool) -> Result<(), BoxError> {
        self.change(name, |stored| stored.paused = paused).await
    }

    /// Removes a box with its declaration, and then its grants, what plugins
    /// keep for it and what it owned.
    ///
    /// # Errors
    /// When there is no such box or the store fails.
    pub async fn remove(&self, name: &BoxName) -> Result<(), BoxError> {
        let batch = Batch {
            conditions: vec![Condition::Present(key(name))],
            changes: vec![
                Change::Delete(key(name)),
                Change::Delete(super::declarations::key(name)),
            ],
        };
        match self.store.commit(batch).await {
            Err(StoreError::Conflict) => return Err(BoxError::Unknown(name.clone())),
            Err(error) => return Err(BoxError::Store(error)),
            Ok(revision) => self.reached(revision).await?,
        }
        Ok(effects::purge(&self.store, name).await?)
    }

    /// The box whose token this is, once memory has everything that the store
    /// held of that box when this was asked.
    pub(super) async fn refreshed(
        &self,
        name: &BoxName,
        token: &BoxToken,
    ) -> Result<Option<Arc<Known>>, StoreError> {
        match self.store.get(&key(name)).await? {
            Some(found) => self.reached(found.revision).await?,
            None => return Ok(None),
        }
        Ok(self.by_token(token).filter(|known| known.name == *name))
    }

    /// All boxes, by name.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Known>> {
        self.table
            .read(|entries| entries.by_name.values().cloned().collect())
    }

    /// The box of this name.
    #[must_use]
    pub fn named(&self, name: &BoxName) -> Option<Arc<Known>> {
        self.table
            .read(|entries| entries.by_name.get(name).cloned())
    }

    /// The box whose token this is.
    #[must_use]
    pub fn by_token(&self, token: &BoxToken) -> Option<Arc<Known>> {
        let hash = token.hash();
        // The map's own comparison, the one that decides, takes the same time
        // wherever two hashes differ.
        self.table
            .read(|entries| entries.by_token.get(&hash).cloned())
    }

    async fn change(&self, name: &BoxName, edit: impl Fn(&mut StoredBox)) -> Result<(), BoxError> {
        loop {
            let Some(found) = self.store.get(&key(name)).await? else {
                return Err(BoxError::Unknown(name.clone()));
            };
            let mut stored: StoredBox = record::decode(&found, VERSION)?;
            edit(&mut stored);
            match self
                .put(
                    name,
                    &stored,
                    Condition::AtRevision(key(name), found.revision),
                )
                .await
            {
                Err(StoreError::Conflict) => {}
                other => return other.map_err(BoxError::Store),
            }
        }
    }

    async fn put(
        &self,
        name: &BoxName,
        stored: &StoredBox,
        condition: Condition,
    ) -> Result<(), StoreError> {
        let key = key(name);
        let value = record::encode(&key, VERSION, stored)?;
        let change = Change::Put(key, value);
        let revision = self
            .store
            .commit(Batch {
                conditions: vec![condition],
                changes: vec![change],
            })
            .await?;
        self.reached(revision).await
    }

    /// Waits for memory; a store that closes first leaves it behind.
    async fn reached(&self, revision: Revision) -> Result<(), StoreError> {
        if self.mirror.reached(revision).await {
            Ok(())
        } else {
            Err(StoreError::Closed)
        }
    }
}

/// The key that a box's record stands under.
pub(super) fn key(name: &BoxName) -> Vec<u8> {
    format!("{PREFIX}{name}").into_bytes()
}

fn draw() -> Result<BoxToken, BoxError> {
    let mut bytes = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut()).map_err(|_| BoxError::Random)?;
    Ok(BoxToken::from_random(&bytes))
}

impl BoxTable {
    // A panic while the lock is held cannot leave a half-made entry: every
    // change below is a single insert or remove on each map.
    fn read<T>(&self, look: impl FnOnce(&Entries) -> T) -> T {
        look(&self.entries.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn parse(
        &self,
        key: &[u8],
        value: &[u8],
        revision: Revision,
        before: Option<&Arc<Known>>,
    ) -> Option<Arc<Known>> {
        let name = name_of(key)?;
        let stored: StoredBox = match record::decode_value(key, value, VERSION) {
            Ok(stored) => stored,
            Err(error) => {
                tracing::error!(record = %name, %error, "a box's record cannot be read; the box is closed");
                return None;
            }
        };
        let Some(token) = TokenHash::from_hex(&stored.token_sha256) else {
            tracing::error!(record = %name, "a box's record holds no token hash; the box is closed");
            return None;
        };
        let kept = before.filter(|known| known.token == token);
        Some(Arc::new(Known {
            name,
            paused: stored.paused,
            added: stored.added,
            lease: kept.map(|known| known.lease.clone()).unwrap_or_default(),
            slots: before.map_or_else(
                || Arc::new(Semaphore::new(self.slots)),
                |known| known.slots.clone(),
            ),
            token,
            finder: Fleeting::default(),
            revision,
        }))
    }
}

impl Mirrored for BoxTable {
    fn reset(&self, records: &[Record]) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *entries);
        for found in records {
            let known = name_of(&found.key).and_then(|name| before.by_name.get(&name));
            if let Some(known) = self.parse(&found.key, &found.value, found.revision, known) {
                entries.insert(known);
            }
        }
        for gone in before
            .by_name
            .values()
            .filter(|known| !entries.by_token.contains_key(&known.token))
        {
            gone.lease.cancel();
        }
    }

    fn apply(&self, event: &Event) {
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let Some(name) = name_of(&event.key) else {
            return;
        };
        let before = entries.by_name.get(&name).cloned();
        if before
            .as_ref()
            .is_some_and(|known| known.revision >= event.revision)
        {
            return;
        }
        let now = event
            .value
            .as_ref()
            .and_then(|value| self.parse(&event.key, value, event.revision, before.as_ref()));
        if let Some(before) = before {
            entries.by_token.remove(&before.token);
            entries.by_name.remove(&name);
            if now.as_ref().is_none_or(|now| now.token != before.token) {
                before.lease.cancel();
            }
        }
        if let Some(now) = now {
            entries.insert(now);
        }
    }
}

impl Entries {
    fn insert(&mut self, known: Arc<Known>) {
        self.by_token.insert(known.token, known.clone());
        self.by_name.insert(known.name.clone(), known);
    }
}

fn name_of(key: &[u8]) -> Option<BoxName> {
    BoxName::parse(std::str::from_utf8(key).ok()?.strip_prefix(PREFIX)?).ok()
}

#[cfg(test)]
mod tests;
