//! What was found, and what of it is live. Plugins come and go here whoever
//! decides it: a load, the operator, or what a plugin lives under and that no
//! longer stands.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::lease::Tenure;
use crate::plugins::authority::Standing;
use crate::plugins::beside::shadow::Shadow;
use crate::plugins::beside::watched::{Watch, Watched};
use crate::plugins::beside::{Beside, Canary};
use crate::plugins::error::LoadError;
use crate::plugins::hash::ComponentHash;
use crate::plugins::live::LivePlugin;
use crate::plugins::load::{Identity, Loaded};
use crate::plugins::table::Table;
use crate::rules::admission::Admission;
use crate::rules::names::PluginName;
use crate::rules::permission::{Grants, Permission};
use crate::rules::trial::Trial;

/// What was last found at a path.
#[derive(Clone)]
pub(crate) enum Found {
    /// It is live, or has been replaced since by a version from elsewhere.
    Admitted(Loaded),
    /// It waits for the operator.
    Waiting(Loaded),
    /// The operator turned it down.
    Rejected(Loaded),
    /// It is not loaded, for this reason.
    Refused(String),
}

/// Where a plugin stands, for who lists it.
#[derive(Clone)]
pub(crate) enum Place {
    /// It answers requests.
    Live(Loaded),
    /// It is tried beside the one that does.
    Tried(Loaded, Trial),
    /// A version of it that does not.
    Found(Found),
}

/// A version that is tried beside the live one.
#[derive(Clone)]
pub(crate) struct Tried {
    pub(crate) file: PathBuf,
    pub(crate) loaded: Loaded,
    pub(crate) trial: Trial,
    /// The shadow that it is, where it is one.
    pub(crate) shadow: Option<Arc<Shadow>>,
}

/// The plugins that were found and those that are live.
#[derive(Default)]
pub(crate) struct Stage {
    live: ArcSwap<Table>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    found: BTreeMap<PathBuf, Found>,
    live: BTreeMap<PluginName, (PathBuf, Loaded)>,
    /// The versions that are tried, one of a plugin at a time.
    tried: BTreeMap<PluginName, Tried>,
    /// Every component that went live, with the lease on it: what one has
    /// open may outlast its place in the table.
    leases: HashMap<ComponentHash, (Identity, Tenure)>,
}

impl Found {
    /// The component, where one could be loaded.
    pub(crate) fn loaded(&self) -> Option<&Loaded> {
        match self {
            Self::Admitted(loaded) | Self::Waiting(loaded) | Self::Rejected(loaded) => Some(loaded),
            Self::Refused(_) => None,
        }
    }
}

impl Stage {
    /// The plugins that are live now.
    pub(crate) fn live(&self) -> Arc<Table> {
        self.live.load_full()
    }

    /// The live version of a plugin, and where it came from.
    pub(crate) fn live_one(&self, name: &PluginName) -> Option<(PathBuf, Loaded)> {
        self.lock().live.get(name).cloned()
    }

    /// The name of the plugin that was last loaded from a path.
    pub(crate) fn name_at(&self, file: &Path) -> Option<PluginName> {
        let state = self.lock();
        let found = state.found.get(file).and_then(Found::loaded);
        let live = state.live.values().find(|(from, _)| from == file);
        let loaded = found.or(live.map(|(_, loaded)| loaded));
        loaded.map(|loaded| loaded.manifest.name.clone())
    }

    /// What was last found at a path.
    pub(crate) fn at(&self, file: &Path) -> Option<Found> {
        self.lock().found.get(file).cloned()
    }

    /// Everything, by its path; of one path what is live comes first.
    pub(crate) fn places(&self) -> Vec<(PathBuf, Place)> {
        let state = self.lock();
        let is_live = |loaded: &Loaded| {
            let live = state.live.get(&loaded.manifest.name);
            live.is_some_and(|(_, live)| live.hash == loaded.hash)
        };
        let live = state.live.values().cloned();
        let live = live.map(|(file, loaded)| (file, Place::Live(loaded)));
        let tried = state.tried.values().cloned();
        let tried = tried.map(|of| (of.file, Place::Tried(of.loaded, of.trial)));
        let mut places: Vec<_> = live.chain(tried).collect();
        for (file, found) in &state.found {
            if !found.loaded().is_some_and(is_live) {
                places.push((file.clone(), Place::Found(found.clone())));
            }
        }
        places.sort_by(|(one, _), (other, _)| one.cmp(other));
        places
    }

    /// The versions that wait, by their plugin's name or a hash; under a hash
    /// one that was turned down, too.
    pub(crate) fn waiting(&self, which: &str) -> Vec<(PathBuf, Loaded)> {
        let hash = ComponentHash::parse(which);
        let state = self.lock();
        let meant = state.found.iter().filter_map(|(file, found)| {
            let is_meant = |loaded: &Loaded| match &hash {
                Some(hash) => loaded.hash == *hash,
                None => loaded.manifest.name.as_str() == which,
            };
            match found {
                Found::Waiting(loaded) if is_meant(loaded) => Some((file.clone(), loaded.clone())),
                Found::Rejected(loaded) if hash.is_some() && is_meant(loaded) => {
                    Some((file.clone(), loaded.clone()))
                }
                Found::Waiting(_) | Found::Rejected(_) | Found::Admitted(_) | Found::Refused(_) => {
                    None
                }
            }
        });
        meant.collect()
    }

    /// Another path in which a plugin of this name was found.
    pub(crate) fn also_at(&self, name: &PluginName, file: &Path) -> Option<PathBuf> {
        let state = self.lock();
        let mut found = state.found.iter();
        found.find_map(|(other, found)| {
            let is_same = found.loaded().is_some_and(|of| of.manifest.name == *name);
            (is_same && other != file).then(|| other.clone())
        })
    }

    /// Whether this component was found anywhere.
    pub(crate) fn has(&self, hash: &ComponentHash) -> bool {
        let state = self.lock();
        let mut found = state.found.values().filter_map(Found::loaded);
        found.any(|loaded| loaded.hash == *hash)
    }

    /// The files that are not loaded.
    pub(crate) fn refused(&self) -> Vec<PathBuf> {
        let state = self.lock();
        let refused = state.found.iter();
        let refused = refused.filter(|(_, found)| found.loaded().is_none());
        refused.map(|(file, _)| file.clone()).collect()
    }

    /// The name of a component that was found or is live.
    pub(crate) fn name_of(&self, hash: &ComponentHash) -> Option<PluginName> {
        let state = self.lock();
        let found = state.found.values().filter_map(Found::loaded);
        let live = state.live.values().map(|(_, loaded)| loaded);
        let tried = state.tried.values().map(|of| &of.loaded);
        let mut all = found.chain(live).chain(tried);
        all.find(|loaded| loaded.hash == *hash)
            .map(|loaded| loaded.manifest.name.clone())
    }

    /// Whether anything of this name was found.
    pub(crate) fn knows(&self, name: &str) -> bool {
        let state = self.lock();
        let mut found = state.found.values().filter_map(Found::loaded);
        found.any(|loaded| loaded.manifest.name.as_str() == name)
    }

    /// Notes what a path holds.
    pub(crate) fn note(&self, file: &Path, what: Found) {
        self.lock().found.insert(file.to_owned(), what);
    }

    /// A path holds nothing more; what is live stays so without its file.
    pub(crate) fn forget(&self, file: &Path) {
        self.lock().found.remove(file);
    }

    /// Lets a plugin go live, in the place of the one of its name, and ends
    /// what is tried beside that. With `watched` it is watched against the one
    /// that it replaces, where that is another version. Whoever calls this has
    /// what is live held to what stands afterwards: that may have ended
    /// meanwhile.
    pub(crate) fn go_live(
        &self,
        file: &Path,
        loaded: &Loaded,
        grants: Grants,
        watched: bool,
    ) -> Option<Watch> {
        let mut state = self.lock();
        let mut plugin = state.plugin(loaded, grants);
        let name = loaded.manifest.name.clone();
        let place = (file.to_owned(), loaded.clone());
        let before = state.live.insert(name.clone(), place);
        let before = before.filter(|(_, before)| watched && before.hash != loaded.hash);
        let asked = self.live().find(&name).cloned();
        let watch = before.zip(asked).map(|((_, before), asked)| {
            let (watch, failures) = Watched::new();
            plugin = plugin.with(Beside {
                watch: Some(Arc::new(watch)),
                ..Beside::default()
            });
            Watch {
                failures,
                name: name.clone(),
                hash: loaded.hash,
                // Asked again it has nobody beside it.
                before: Arc::new(asked.with(Beside::default())),
                loaded: before,
            }
        });
        state.tried.remove(&name);
        state
            .found
            .insert(file.to_owned(), Found::Admitted(loaded.clone()));
        self.put(plugin);
        watch
    }

    /// Begins to try a version beside the live one, in the place of another
    /// that is tried. As with what goes live, it is to be held to what stands
    /// afterwards.
    pub(crate) fn begin(&self, file: &Path, loaded: &Loaded, grants: Grants, trial: &Trial) {
        let mut state = self.lock();
        let name = loaded.manifest.name.clone();
        let Some(live) = self.live().find(&name).cloned() else {
            return;
        };
        let plugin = Arc::new(match trial {
            Trial::Shadow => loaded.plugin(grants, Tenure::default()),
            Trial::Canary(share) => state.plugin(loaded, grants).with(Beside {
                only: Some(share.clone()),
                ..Beside::default()
            }),
        });
        let mut beside = live.beside().clone();
        (beside.shadow, beside.canary) = match trial {
            Trial::Shadow => (Some(Arc::new(Shadow::begin(plugin))), None),
            Trial::Canary(share) => {
                let share = share.clone();
                (None, Some(Arc::new(Canary { share, plugin })))
            }
        };
        let tried = Tried {
            file: file.to_owned(),
            loaded: loaded.clone(),
            trial: trial.clone(),
            shadow: beside.shadow.clone(),
        };
        state.tried.insert(name, tried);
        // It neither waits nor is it live.
        state.found.remove(file);
        self.put(live.with(beside));
    }

    /// The versions that are tried, by their plugin's name or a hash.
    pub(crate) fn tried_as(&self, which: &str) -> Option<Tried> {
        let hash = ComponentHash::parse(which);
        let state = self.lock();
        let mut tried = state.tried.values();
        let is_meant = |of: &&Tried| match &hash {
            Some(hash) => of.loaded.hash == *hash,
            None => of.loaded.manifest.name.as_str() == which,
        };
        tried.find(is_meant).cloned()
    }

    /// Ends what is tried under a name; what it relays goes on.
    pub(crate) fn end(&self, name: &PluginName) {
        let mut state = self.lock();
        state.tried.remove(name);
        self.alone(name, |beside| {
            beside.shadow = None;
            beside.canary = None;
        });
    }

    /// Ends the watch over a version.
    pub(crate) fn unwatch(&self, name: &PluginName, hash: &ComponentHash) {
        let _state = self.lock();
        let live = self.live();
        if live.find(name).is_some_and(|live| live.hash() == hash) {
            self.alone(name, |beside| beside.watch = None);
        }
    }

    /// Changes what stands beside the live version of a name. Whoever calls
    /// this holds the lock.
    fn alone(&self, name: &PluginName, change: impl FnOnce(&mut Beside)) {
        if let Some(live) = self.live().find(name) {
            let mut beside = live.beside().clone();
            change(&mut beside);
            self.put(live.with(beside));
        }
    }

    fn put(&self, plugin: LivePlugin) {
        let plugin = Arc::new(plugin);
        self.live
            .rcu(|table| Arc::new(table.with(Arc::clone(&plugin))));
    }

    /// Takes out whatever no longer stands, and cuts what it has open.
    pub(crate) fn hold(&self, standing: &Standing) {
        let mut state = self.lock();
        let ended: Vec<(Identity, Tenure)> = {
            let held = state.leases.values();
            held.filter(|(of, _)| !standing.admit(of).is_live())
                .cloned()
                .collect()
        };
        for (of, lease) in ended {
            // The lease first: nobody begins with it what is not cut.
            lease.cancel();
            state.leases.remove(&of.hash);
            state.live.retain(|_, (_, live)| live.hash != of.hash);
            self.live.rcu(|table| Arc::new(table.without(&of.hash)));
        }
        let fallen: Vec<PluginName> = {
            let tried = state.tried.iter();
            let fallen = tried.filter(|(name, of)| match state.live.get(name) {
                Some((_, live)) => !may_be_tried(of, live, standing),
                None => true,
            });
            fallen.map(|(name, _)| name.clone()).collect()
        };
        for name in fallen {
            state.tried.remove(&name);
            self.alone(&name, |beside| {
                beside.shadow = None;
                beside.canary = None;
            });
        }
        for found in state.found.values_mut() {
            if let Some(now) = stands(found, standing) {
                *found = now;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// A version that will relay, under the lease that it has or gets.
    fn plugin(&mut self, loaded: &Loaded, grants: Grants) -> LivePlugin {
        let lease = self.leases.get(&loaded.hash);
        let lease = lease.map(|(_, lease)| lease.clone()).unwrap_or_default();
        // Of those that nothing stands on any more there is nothing to cut.
        self.leases.retain(|_, (_, lease)| !lease.is_alone());
        let held = (loaded.is.clone(), lease.clone());
        self.leases.insert(loaded.hash, held);
        loaded.plugin(grants, lease)
    }
}

/// Whether a version may still be tried. What only computes beside the live one
/// needs nobody's yes for as much as that one asks for.
fn may_be_tried(tried: &Tried, live: &Loaded, standing: &Standing) -> bool {
    match (standing.admit(&tried.loaded), &tried.trial) {
        (Admission::ByHash | Admission::BySigner, _) => true,
        (Admission::Wait, Trial::Shadow) => asks_no_more(&tried.loaded, live),
        (Admission::Wait, Trial::Canary(_)) | (Admission::Reject | Admission::Block, _) => false,
    }
}

/// Whether one version asks for nothing that another does not.
pub(crate) fn asks_no_more(next: &Loaded, live: &Loaded) -> bool {
    Permission::of(&next.manifest).is_subset(&Permission::of(&live.manifest))
}

/// Where a version that was found stands now, where that has changed. What
/// waited does not go live here: that is the operator's word, or a load's.
fn stands(found: &Found, standing: &Standing) -> Option<Found> {
    let loaded = found.loaded()?;
    match standing.admit(loaded) {
        Admission::ByHash | Admission::BySigner => None,
        Admission::Wait => Some(Found::Waiting(loaded.clone())),
        Admission::Reject => Some(Found::Rejected(loaded.clone())),
        Admission::Block => Some(Found::Refused(LoadError::Blocked.to_string())),
    }
}
