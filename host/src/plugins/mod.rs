//! Plugins: the engine they run in, how one is loaded, approved and asked.
//!
//! The one folder that names wasmtime. It holds no secret, opens no socket,
//! and acts on nothing that a plugin says: what comes out of here is unchecked
//! text in the types of `rules::plan`.
//!
//! In reading order: [`Plugins`] here; components come from `sources`, the
//! `folder` that `watch` looks at among them, `intake` takes each all the way,
//! and `load` makes something of it that can be asked, by way of `inspect` and
//! `cache`; `authority` and `table` decide whether it goes live, by a `swap` on
//! the `stage`; `operate` is what the operator says about it, `trials` what is
//! tried `beside` the live version; `versions` keeps what was live, and
//! `history` what happened; `live` asks it, by way of `call` and `lane`; `convert` stands between the
//! contract's types and ours. `component` builds one; `alone` asks
//! one without a host, for its author.

pub mod alone;
pub mod audit;
mod authority;
mod beside;
mod bindings;
mod cache;
mod call;
pub mod component;
mod convert;
mod engine;
mod error;
mod folder;
mod functions;
mod hash;
mod history;
mod inspect;
mod intake;
mod lane;
mod live;
mod load;
mod operate;
mod recorded;
mod sources;
mod stage;
mod status;
mod swap;
mod table;
mod trials;
mod versions;
mod wasi;
mod watch;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::plugins::authority::Authority;
use crate::plugins::cache::Cache;
use crate::plugins::engine::Machine;
use crate::plugins::history::History;
use crate::plugins::load::Loaded;
use crate::plugins::stage::{Found, Place, Stage};
use crate::plugins::versions::Versions;
use crate::plugins::watch::Watch;
use crate::rules::names::PluginName;
use crate::rules::permission::{Grants, Permission};
use crate::rules::signature::SignaturePolicy;
use crate::store::Store;

pub use crate::plugins::beside::record::Witness;
pub use crate::plugins::beside::watched::WatchSettings;
pub use crate::plugins::engine::{CallLimits, open_page_map};
pub use crate::plugins::error::{CallFault, Fault, LoadError, PluginError};
pub use crate::plugins::folder::MOST_BYTES;
pub use crate::plugins::hash::ComponentHash;
pub use crate::plugins::history::PastEvent;
pub use crate::plugins::live::{Decision, LivePlugin};
pub use crate::plugins::operate::{Blocked, Revoked};
pub use crate::plugins::recorded::{Recorded, Recording};
pub use crate::plugins::status::{About, Change, LoadReport, Outcome, PluginState, PluginStatus};
pub use crate::plugins::table::Table;
pub use crate::plugins::trials::Comparison;

/// What the host decides about its plugins.
#[derive(Debug, Clone, Default)]
pub struct PluginSettings {
    /// Where compiled code is kept.
    pub cache_dir: PathBuf,
    /// Where the versions that were live are kept.
    pub versions_dir: PathBuf,
    /// The host's own prefixes.
    pub reserved: Vec<String>,
    /// `[plugins.NAME] grant`: what each may do of what it asks for. A plugin
    /// that is not listed may do all that was approved.
    pub grants: BTreeMap<PluginName, BTreeSet<Permission>>,
    /// `[plugins.NAME] trusted_keys` and `require_signature`.
    pub signatures: BTreeMap<PluginName, SignaturePolicy>,
    /// The caps on a call.
    pub limits: CallLimits,
    /// How what goes live is watched.
    pub watch: WatchSettings,
}

/// Whose yes counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approve {
    /// What has been approved before.
    OnDisk,
    /// Everything that lies in the folder now, and for good.
    All,
}

/// The plugins of a host.
#[derive(Clone)]
pub struct Plugins(Arc<Inner>);

pub(crate) struct Inner {
    settings: PluginSettings,
    machine: Arc<Machine>,
    cache: Arc<Cache>,
    authority: Authority,
    versions: Versions,
    history: History,
    stage: Arc<Stage>,
    watch: Mutex<Watch>,
    /// One approval, swap or withdrawal at a time.
    turn: tokio::sync::Mutex<()>,
}

impl Plugins {
    /// Starts the engine. `cache_key` authenticates compiled code.
    ///
    /// # Errors
    /// When the engine does not start or the cache's folder is not safe.
    pub async fn open(
        settings: PluginSettings,
        store: Arc<dyn Store>,
        cache_key: [u8; 32],
    ) -> Result<Self, PluginError> {
        let cache = Cache::open(settings.cache_dir.clone(), cache_key)?;
        let machine = Machine::new(settings.limits)?;
        let stage = Arc::new(Stage::default());
        // What was said must not keep alive what it can end.
        let on = Arc::downgrade(&stage);
        let hold = Box::new(move |standing: &_| {
            if let Some(stage) = on.upgrade() {
                stage.hold(standing);
            }
        });
        let authority = Authority::open(Arc::clone(&store), hold).await?;
        let versions = Versions::open(settings.versions_dir.clone(), Arc::clone(&store))?;
        versions.sweep().await?;
        Ok(Self(Arc::new(Inner {
            settings,
            machine: Arc::new(machine),
            cache: Arc::new(cache),
            authority,
            versions,
            history: History::new(store),
            stage,
            watch: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        })))
    }

    /// The plugins that are live now.
    #[must_use]
    pub fn live(&self) -> Arc<Table> {
        self.0.stage.live()
    }

    /// Every plugin that was found, and every version of it that is not the
    /// live one.
    #[must_use]
    pub fn list(&self) -> Vec<PluginStatus> {
        let status = |(file, place): (PathBuf, Place)| match place {
            Place::Live(loaded) => Some(self.status(&file, &loaded, PluginState::Live)),
            Place::Tried(loaded, trial) => {
                Some(self.status(&file, &loaded, PluginState::from(&trial)))
            }
            Place::Found(Found::Waiting(loaded)) => {
                Some(self.status(&file, &loaded, PluginState::Waiting))
            }
            Place::Found(Found::Rejected(loaded)) => {
                Some(self.status(&file, &loaded, PluginState::Rejected))
            }
            // Of what is kept, `plugin history` tells.
            Place::Found(Found::Admitted(_)) if file.starts_with(&self.0.settings.versions_dir) => {
                None
            }
            Place::Found(Found::Admitted(loaded)) => {
                Some(self.status(&file, &loaded, PluginState::Replaced))
            }
            Place::Found(Found::Refused(reason)) => Some(PluginStatus::refused(&file, reason)),
        };
        let places = self.0.stage.places();
        places.into_iter().filter_map(status).collect()
    }

    fn grants(&self, loaded: &Loaded) -> Grants {
        let grant = self.0.settings.grants.get(&loaded.manifest.name);
        Grants::new(Arc::clone(&loaded.manifest), grant.cloned())
    }

    fn status(&self, file: &Path, loaded: &Loaded, state: PluginState) -> PluginStatus {
        let live = self.0.stage.live_one(&loaded.manifest.name);
        let live = live.as_ref().map(|(_, live)| live);
        PluginStatus::of(file, loaded, live, &self.grants(loaded), state)
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
