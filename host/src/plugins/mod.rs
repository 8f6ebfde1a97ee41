//! Plugins: the engine they run in, how one is loaded, approved and asked.
//!
//! The one folder that names wasmtime. It holds no secret, opens no socket,
//! and acts on nothing that a plugin says: what comes out of here is unchecked
//! text in the types of `rules::plan`.
//!
//! In reading order: [`Plugins`] here; `load` brings a file in, by way of
//! `folder`, `inspect` and `cache`; `approvals` and `table` decide whether it
//! goes live; `live` asks it, by way of `call` and `lane`; `convert` stands
//! between the contract's types and ours. `component` builds one.

mod approvals;
mod bindings;
mod cache;
mod call;
pub mod component;
mod convert;
mod engine;
mod error;
mod folder;
mod hash;
mod inspect;
mod lane;
mod live;
mod load;
mod status;
mod table;
mod wasi;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::plugins::approvals::Approvals;
use crate::plugins::cache::Cache;
use crate::plugins::engine::Machine;
use crate::plugins::load::Loaded;
use crate::rules::names::PluginName;
use crate::rules::permission::{Grants, Permission};
use crate::store::Store;

pub use crate::plugins::engine::{CallLimits, open_page_map};
pub use crate::plugins::error::{CallFault, Fault, LoadError, PluginError};
pub use crate::plugins::hash::ComponentHash;
pub use crate::plugins::live::{Decision, LivePlugin};
pub use crate::plugins::status::{About, LoadReport, Outcome, PluginState, PluginStatus};
pub use crate::plugins::table::Table;

/// What the host decides about its plugins.
#[derive(Debug, Clone, Default)]
pub struct PluginSettings {
    /// Where compiled code is kept.
    pub cache_dir: PathBuf,
    /// The host's own prefixes.
    pub reserved: Vec<String>,
    /// `[plugins.NAME] grant`: what each may do of what it asks for. A plugin
    /// that is not listed may do all that was approved.
    pub grants: BTreeMap<PluginName, BTreeSet<Permission>>,
    /// The caps on a call.
    pub limits: CallLimits,
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

struct Inner {
    settings: PluginSettings,
    machine: Arc<Machine>,
    cache: Arc<Cache>,
    approvals: Approvals,
    live: ArcSwap<Table>,
    found: Mutex<BTreeMap<PathBuf, Found>>,
    /// One load, approval or swap at a time.
    turn: tokio::sync::Mutex<()>,
}

/// What the last load found at a path.
enum Found {
    Live(Loaded),
    Waiting(Loaded),
    Refused(String),
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
        Ok(Self(Arc::new(Inner {
            settings,
            machine: Arc::new(machine),
            cache: Arc::new(cache),
            approvals: Approvals::new(store),
            live: ArcSwap::default(),
            found: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        })))
    }

    /// Loads every component of a folder. One bad plugin never stops the rest;
    /// what is already live under a name is replaced by what is found now.
    pub async fn load_folder(&self, folder: &Path, approve: Approve) -> Vec<LoadReport> {
        let _turn = self.0.turn.lock().await;
        let files = match folder::components(folder) {
            Ok(files) => files,
            Err(error) => return vec![LoadReport::refused(folder, error)],
        };
        self.forget_all_but(&files);
        let mut names = BTreeSet::new();
        let mut reports = Vec::new();
        for file in files {
            let outcome = match self.load(&file, approve, &mut names).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    self.note(&file, Found::Refused(error.to_string()));
                    Outcome::Refused(error)
                }
            };
            reports.push(LoadReport { file, outcome });
        }
        reports
    }

    /// The plugins that are live now.
    #[must_use]
    pub fn live(&self) -> Arc<Table> {
        self.0.live.load_full()
    }

    /// Approves the plugin of this name that waits, and lets it go live.
    ///
    /// # Errors
    /// When none waits under that name, or its prefixes are taken.
    pub async fn approve(&self, name: &str) -> Result<PluginStatus, PluginError> {
        let _turn = self.0.turn.lock().await;
        let unknown = || PluginError::Unknown(name.chars().take(80).collect());
        let (file, loaded) = self.found_as(name).ok_or_else(unknown)?;
        self.0
            .live
            .load()
            .has_room_for(&loaded.manifest, &self.0.settings.reserved)
            .map_err(|reason| PluginError::NotAccepted {
                name: loaded.manifest.name.as_str().to_owned(),
                reason: Box::new(reason),
            })?;
        let at = jiff::Timestamp::now().to_string();
        let approvals = &self.0.approvals;
        approvals
            .approve(&loaded.hash, &loaded.manifest, at)
            .await?;
        self.go_live(&file, &loaded);
        Ok(self.status(&file, &loaded, PluginState::Live))
    }

    /// Every plugin that the last loads found.
    #[must_use]
    pub fn list(&self) -> Vec<PluginStatus> {
        let found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        let status = |(file, found): (&PathBuf, &Found)| match found {
            Found::Live(loaded) => self.status(file, loaded, PluginState::Live),
            Found::Waiting(loaded) => self.status(file, loaded, PluginState::Waiting),
            Found::Refused(reason) => PluginStatus::refused(file, reason.clone()),
        };
        found.iter().map(status).collect()
    }

    async fn load(
        &self,
        file: &Path,
        approve: Approve,
        names: &mut BTreeSet<PluginName>,
    ) -> Result<Outcome, LoadError> {
        let inner = &self.0;
        let loaded = load::load(&inner.machine, &inner.cache, file).await?;
        let manifest = &loaded.manifest;
        if !names.insert(manifest.name.clone()) {
            return Err(LoadError::SameName(manifest.name.clone()));
        }
        inner
            .live
            .load()
            .has_room_for(manifest, &inner.settings.reserved)?;
        match approve {
            Approve::All => {
                let at = jiff::Timestamp::now().to_string();
                inner.approvals.approve(&loaded.hash, manifest, at).await?;
            }
            Approve::OnDisk => {
                if !inner.approvals.covers(&loaded.hash, manifest).await? {
                    let status = self.status(file, &loaded, PluginState::Waiting);
                    self.note(file, Found::Waiting(loaded));
                    return Ok(Outcome::Waiting(status));
                }
            }
        }
        self.go_live(file, &loaded);
        let status = self.status(file, &loaded, PluginState::Live);
        Ok(Outcome::Live(status))
    }

    fn go_live(&self, file: &Path, loaded: &Loaded) {
        let inner = &self.0;
        let plugin = Arc::new(LivePlugin::new(
            Arc::clone(&loaded.manifest),
            loaded.hash,
            self.grants(loaded),
            Arc::clone(&loaded.runner),
        ));
        let table = inner.live.load().with(plugin);
        inner.live.store(Arc::new(table));
        self.note(file, Found::Live(loaded.clone()));
    }

    fn grants(&self, loaded: &Loaded) -> Grants {
        let grant = self.0.settings.grants.get(&loaded.manifest.name);
        Grants::new(Arc::clone(&loaded.manifest), grant.cloned())
    }

    fn status(&self, file: &Path, loaded: &Loaded, state: PluginState) -> PluginStatus {
        PluginStatus::of(file, loaded, &self.grants(loaded), state)
    }

    fn note(&self, file: &Path, what: Found) {
        let mut found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.insert(file.to_owned(), what);
    }

    /// What is live stays so without its file.
    fn forget_all_but(&self, files: &[PathBuf]) {
        let mut found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.retain(|file, found| matches!(found, Found::Live(_)) || files.contains(file));
    }

    fn found_as(&self, name: &str) -> Option<(PathBuf, Loaded)> {
        let found = self.0.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().find_map(|(file, found)| match found {
            Found::Live(loaded) | Found::Waiting(loaded)
                if loaded.manifest.name.as_str() == name =>
            {
                Some((file.clone(), loaded.clone()))
            }
            Found::Live(_) | Found::Waiting(_) | Found::Refused(_) => None,
        })
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
