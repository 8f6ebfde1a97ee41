//! What became of a plugin's versions, event by event: where each came from,
//! who signed it, what it asks for, who said yes, and how it went. Kept in the
//! store under the plugin's name, the newest of them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::plugins::hash::ComponentHash;
use crate::store::{Change, Record, Store, StoreError, record};

const PREFIX: &str = "plugin/history/";
const VERSION: u32 = 1;
/// How many events are kept of one plugin.
pub(crate) const MOST_EVENTS: usize = 256;
/// How long the text of one may be, in characters.
const MOST_TEXT: usize = 1000;
/// How many permissions one lists on either side.
const MOST_PERMISSIONS: usize = 64;

/// What sort of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Happening {
    /// A component came.
    Found,
    /// A key that is trusted signed it, or none did.
    Signature,
    /// What it asks for, against the version that is live.
    Asks,
    /// Somebody said yes to it.
    Approved,
    /// It waits for somebody to say yes.
    Waits,
    /// It answers requests from here on.
    Live,
    /// It is not loaded.
    Refused,
    /// The operator turned it down.
    Rejected,
    /// A version that was live before took its place again.
    RolledBack,
    /// Its approval was taken back.
    Revoked,
    /// It is asked what the live one is asked, and nothing it says is done.
    Shadow,
    /// It serves some of the boxes.
    Canary,
    /// It is no longer tried beside the live one.
    Dropped,
    /// Its hash was blocked.
    Blocked,
    /// Its hash may run again.
    Unblocked,
}

impl Happening {
    /// The word for it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Signature => "signature",
            Self::Asks => "asks",
            Self::Approved => "approved",
            Self::Waits => "waits",
            Self::Live => "live",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::RolledBack => "rolled-back",
            Self::Revoked => "revoked",
            Self::Shadow => "shadow",
            Self::Canary => "canary",
            Self::Dropped => "dropped",
            Self::Blocked => "blocked",
            Self::Unblocked => "unblocked",
        }
    }
}

/// One event of a plugin's history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastEvent {
    /// When it happened.
    pub at: String,
    /// What happened, in a word.
    pub happened: String,
    /// To which component.
    pub hash: Option<String>,
    /// Which version it says it is.
    pub version: Option<String>,
    /// The rest, in words.
    pub text: String,
    /// What it asks for that the live version was not approved for.
    pub more: Vec<String>,
    /// What the live version was approved for that it does not ask for.
    pub less: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredEvent {
    at: String,
    happened: String,
    hash: Option<String>,
    version: Option<String>,
    text: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    more: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    less: Vec<String>,
}

/// What happens to one component, gathered until it is committed together with
/// what it did.
#[derive(Debug, Default)]
pub(crate) struct Account {
    hash: Option<ComponentHash>,
    version: Option<String>,
    events: Vec<StoredEvent>,
}

impl Account {
    /// Of this component.
    pub(crate) fn of(hash: ComponentHash) -> Self {
        Self {
            hash: Some(hash),
            ..Self::default()
        }
    }

    /// It has said which version it is.
    pub(crate) fn is_version(&mut self, version: &str) {
        self.version = Some(version.to_owned());
    }

    /// Notes what happened.
    pub(crate) fn note(&mut self, happened: Happening, text: impl Into<String>) {
        self.note_change(happened, text, Vec::new(), Vec::new());
    }

    /// Notes what happened, with what it asks for more and less.
    pub(crate) fn note_change(
        &mut self,
        happened: Happening,
        text: impl Into<String>,
        mut more: Vec<String>,
        mut less: Vec<String>,
    ) {
        more.truncate(MOST_PERMISSIONS);
        less.truncate(MOST_PERMISSIONS);
        self.events.push(StoredEvent {
            at: jiff::Timestamp::now().to_string(),
            happened: happened.word().to_owned(),
            hash: self.hash.as_ref().map(ToString::to_string),
            version: self.version.clone(),
            text: text.into().chars().take(MOST_TEXT).collect(),
            more,
            less,
        });
    }
}

/// The histories in the store.
pub(crate) struct History {
    store: Arc<dyn Store>,
}

impl History {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The changes that append an account to a plugin's history and let its
    /// oldest events go.
    pub(crate) async fn append(
        &self,
        plugin: &str,
        account: Account,
    ) -> Result<Vec<Change>, StoreError> {
        let (kept, _) = self.store.scan(prefix(plugin).as_bytes()).await?;
        // Two hosts may append at once, so the time is what orders; within one
        // it never goes back behind what is there.
        let now = jiff::Timestamp::now().as_nanosecond().max(0);
        let last = kept.last().and_then(|record| time_of(plugin, &record.key));
        let first = last.map_or(now, |last| now.max(last + 1));
        let mut changes = Vec::new();
        for (at, event) in (first..).zip(&account.events) {
            let key = format!("{}{at:020}", prefix(plugin)).into_bytes();
            let value = record::encode(&key, VERSION, event)?;
            changes.push(Change::Put(key, value));
        }
        let too_many = (kept.len() + changes.len()).saturating_sub(MOST_EVENTS);
        let oldest = kept.into_iter().take(too_many);
        changes.extend(oldest.map(|record| Change::Delete(record.key)));
        Ok(changes)
    }

    /// A plugin's history, oldest first.
    pub(crate) async fn read(&self, plugin: &str) -> Result<Vec<PastEvent>, StoreError> {
        let (kept, _) = self.store.scan(prefix(plugin).as_bytes()).await?;
        Ok(kept.iter().filter_map(parse).collect())
    }
}

fn parse(found: &Record) -> Option<PastEvent> {
    let stored = record::decode::<StoredEvent>(found, VERSION);
    let told = |error: &StoreError| tracing::error!(%error, "an event of a history cannot be read");
    let stored = stored.inspect_err(told).ok()?;
    Some(PastEvent {
        at: stored.at,
        happened: stored.happened,
        hash: stored.hash,
        version: stored.version,
        text: stored.text,
        more: stored.more,
        less: stored.less,
    })
}

fn prefix(plugin: &str) -> String {
    format!("{PREFIX}{plugin}/")
}

fn time_of(plugin: &str, key: &[u8]) -> Option<i128> {
    let key = std::str::from_utf8(key).ok()?;
    key.strip_prefix(&prefix(plugin))?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Batch;
    use crate::store::memory::{Awkward, open_memory};

    #[tokio::test]
    async fn the_newest_events_of_each_plugin_are_kept_in_order() {
        let store = open_memory(Awkward::default());
        let history = History::new(Arc::clone(&store));
        let append = async |plugin: &str, texts: &[String]| {
            let mut account = Account::of(ComponentHash([7; 32]));
            account.is_version("1.0.0");
            for text in texts {
                account.note(Happening::Live, text.clone());
            }
            let changes = history.append(plugin, account).await.unwrap();
            let conditions = Vec::new();
            let batch = Batch {
                conditions,
                changes,
            };
            store.commit(batch).await.unwrap();
        };
        let texts: Vec<String> = (0..MOST_EVENTS + 10).map(|at| format!("e{at}")).collect();
        for texts in texts.chunks(20) {
            append("a", texts).await;
        }
        append("b", &["other".to_owned()]).await;
        append("a-longer", &["x".repeat(5000)]).await;
        let read = history.read("a").await.unwrap();
        let shown: Vec<&str> = read.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(shown, texts[10..]);
        assert_eq!(read[0].happened, "live");
        assert_eq!(read[0].version.as_deref(), Some("1.0.0"));
        let read = history.read("a-longer").await.unwrap();
        assert_eq!(read[0].text.len(), MOST_TEXT);
        assert_eq!(history.read("b").await.unwrap().len(), 1);
        assert_eq!(history.read("c").await.unwrap(), []);
    }
}
