//! Plugins: the engine they run in, how one is loaded, approved and asked.
//!
//! The one folder that names wasmtime. It holds no secret, opens no socket,
//! and acts on nothing that a plugin says: what comes out of here is unchecked
//! text in the types of `rules::plan`.
//!
//! In reading order: [`Plugins`] here; `load` brings a file in, by way of
//! `folder`, `inspect` and `cache`; `approvals` and `table` decide whether it
//! goes live, on the `stage`; `live` asks it, by way of `call` and `lane`; `convert` stands
//! between the contract's types and ours. `component` builds one; `alone` asks
//! one without a host, for its author.

pub mod alone;
mod approvals;
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
mod inspect;
mod lane;
mod live;
mod load;
mod stage;
mod status;
mod table;
mod wasi;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::lease::Tenure;

use crate::plugins::approvals::Approvals;
use crate::plugins::cache::Cache;
use crate::plugins::engine::Machine;
use crate::plugins::load::Loaded;
use crate::plugins::stage::{Found, Stage};
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
    stage: Arc<Stage>,
    /// One load, approval or swap at a time.
    turn: tokio::sync::Mutex<()>,
}

/// An approval that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoked {
    /// The name that the component was approved under.
    pub name: String,
    /// The component.
    pub hash: ComponentHash,
    /// Other components that are still approved under that name.
    pub others: Vec<ComponentHash>,
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
        // The approvals must not keep alive what they can withdraw.
        let on = Arc::downgrade(&stage);
        let withdraw = Box::new(move |hash: &ComponentHash| {
            if let Some(stage) = on.upgrade() {
                stage.withdraw(hash);
            }
        });
        let approvals = Approvals::open(store, withdraw).await?;
        Ok(Self(Arc::new(Inner {
            settings,
            machine: Arc::new(machine),
            cache: Arc::new(cache),
            approvals,
            stage,
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
        self.0.stage.forget_all_but(&files);
        let mut names = BTreeSet::new();
        let mut reports = Vec::new();
        for file in files {
            let outcome = match self.load(&file, approve, &mut names).await {
                Ok(outcome) => outcome,
                Err(error) => {
                    let refused = Found::Refused(error.to_string());
                    self.0.stage.note(&file, refused);
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
        self.0.stage.live()
    }

    /// Approves the plugin of this name that waits, and lets it go live.
    ///
    /// # Errors
    /// When none waits under that name, or its prefixes are taken.
    pub async fn approve(&self, name: &str) -> Result<PluginStatus, PluginError> {
        let _turn = self.0.turn.lock().await;
        let unknown = || PluginError::Unknown(name.chars().take(80).collect());
        let (file, loaded) = self.0.stage.named(name).ok_or_else(unknown)?;
        self.live()
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
        let lease = approvals.covers(&loaded.hash, &loaded.manifest);
        let taken_back = || PluginError::NotApproved(name.to_owned());
        self.go_live(&file, &loaded, lease.ok_or_else(taken_back)?);
        Ok(self.status(&file, &loaded, PluginState::Live))
    }

    /// Takes an approval back, by the component's hash or the plugin's name.
    /// The component goes out of use at once, what it had relayed is cut, and
    /// it waits until somebody approves it again.
    ///
    /// # Errors
    /// When nothing is approved under that, or several are and none is live.
    pub async fn revoke(&self, which: &str) -> Result<Revoked, PluginError> {
        let _turn = self.0.turn.lock().await;
        let hash = self.approved_as(which)?;
        let approvals = &self.0.approvals;
        let not_approved = || PluginError::NotApproved(which.to_owned());
        let name = approvals.name_of(&hash).ok_or_else(not_approved)?;
        if !approvals.revoke(&hash).await? {
            return Err(not_approved());
        }
        let others = approvals.named(&name);
        Ok(Revoked { name, hash, others })
    }

    /// Every plugin that the last loads found.
    #[must_use]
    pub fn list(&self) -> Vec<PluginStatus> {
        let status = |(file, found): (PathBuf, Found)| match found {
            Found::Live(loaded) => self.status(&file, &loaded, PluginState::Live),
            Found::Waiting(loaded) => self.status(&file, &loaded, PluginState::Waiting),
            Found::Refused(reason) => PluginStatus::refused(&file, reason),
        };
        self.0.stage.found().into_iter().map(status).collect()
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
        self.live()
            .has_room_for(manifest, &inner.settings.reserved)?;
        match approve {
            Approve::All => {
                let at = jiff::Timestamp::now().to_string();
                inner.approvals.approve(&loaded.hash, manifest, at).await?;
            }
            Approve::OnDisk => {}
        }
        let Some(lease) = inner.approvals.covers(&loaded.hash, manifest) else {
            let status = self.status(file, &loaded, PluginState::Waiting);
            inner.stage.note(file, Found::Waiting(loaded));
            return Ok(Outcome::Waiting(status));
        };
        self.go_live(file, &loaded, lease);
        let status = self.status(file, &loaded, PluginState::Live);
        Ok(Outcome::Live(status))
    }

    fn go_live(&self, file: &Path, loaded: &Loaded, lease: Tenure) {
        let plugin = Arc::new(LivePlugin::new(
            Arc::clone(&loaded.manifest),
            loaded.hash,
            self.grants(loaded),
            Arc::clone(&loaded.runner),
            lease,
        ));
        self.0.stage.go_live(file, loaded, plugin);
    }

    /// The component that a hash or a name means: under a name the one that is
    /// live, else the only one that is approved.
    fn approved_as(&self, which: &str) -> Result<ComponentHash, PluginError> {
        if let Some(hash) = ComponentHash::parse(which) {
            return Ok(hash);
        }
        let live = self.live();
        let live = live
            .plugins()
            .iter()
            .find(|plugin| plugin.manifest().name.as_str() == which);
        if let Some(plugin) = live {
            return Ok(*plugin.hash());
        }
        let shown: String = which.chars().take(80).collect();
        match self.0.approvals.named(which).as_slice() {
            [only] => Ok(*only),
            [] if self.0.stage.named(which).is_some() => Err(PluginError::NotApproved(shown)),
            [] => Err(PluginError::Unknown(shown)),
            several => Err(PluginError::Several {
                name: shown,
                hashes: several
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" or "),
            }),
        }
    }

    fn grants(&self, loaded: &Loaded) -> Grants {
        let grant = self.0.settings.grants.get(&loaded.manifest.name);
        Grants::new(Arc::clone(&loaded.manifest), grant.cloned())
    }

    fn status(&self, file: &Path, loaded: &Loaded, state: PluginState) -> PluginStatus {
        PluginStatus::of(file, loaded, &self.grants(loaded), state)
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
