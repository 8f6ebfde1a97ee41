//! What the last loads found, and what of it is live. Plugins come and go here
//! whoever decides it: a load, the operator, or an approval that is gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::plugins::hash::ComponentHash;
use crate::plugins::live::LivePlugin;
use crate::plugins::load::Loaded;
use crate::plugins::table::Table;

/// What the last load found at a path.
#[derive(Clone)]
pub(crate) enum Found {
    Live(Loaded),
    Waiting(Loaded),
    Refused(String),
}

/// The plugins that were found and those that are live.
#[derive(Default)]
pub(crate) struct Stage {
    live: ArcSwap<Table>,
    found: Mutex<BTreeMap<PathBuf, Found>>,
}

impl Stage {
    /// The plugins that are live now.
    pub(crate) fn live(&self) -> Arc<Table> {
        self.live.load_full()
    }

    /// Everything that was found, by its path.
    pub(crate) fn found(&self) -> Vec<(PathBuf, Found)> {
        let found = self.lock();
        found
            .iter()
            .map(|(file, found)| (file.clone(), found.clone()))
            .collect()
    }

    /// The component of this name that is live or waits.
    pub(crate) fn named(&self, name: &str) -> Option<(PathBuf, Loaded)> {
        let found = self.lock();
        found.iter().find_map(|(file, found)| match found {
            Found::Live(loaded) | Found::Waiting(loaded)
                if loaded.manifest.name.as_str() == name =>
            {
                Some((file.clone(), loaded.clone()))
            }
            Found::Live(_) | Found::Waiting(_) | Found::Refused(_) => None,
        })
    }

    /// Notes what a path holds.
    pub(crate) fn note(&self, file: &Path, what: Found) {
        self.lock().insert(file.to_owned(), what);
    }

    /// Forgets the paths that are gone; what is live stays so without its file.
    pub(crate) fn forget_all_but(&self, files: &[PathBuf]) {
        self.lock()
            .retain(|file, found| matches!(found, Found::Live(_)) || files.contains(file));
    }

    /// Lets a plugin go live, in the place of the one of its name. Should what
    /// it lives under have ended meanwhile, it is out again when this returns.
    pub(crate) fn go_live(&self, file: &Path, loaded: &Loaded, plugin: Arc<LivePlugin>) {
        self.live
            .rcu(|table| Arc::new(table.with(Arc::clone(&plugin))));
        self.note(file, Found::Live(loaded.clone()));
        if plugin.lease().is_cancelled() {
            self.withdraw(plugin.hash());
        }
    }

    /// Takes a component out: it waits for the operator from here on.
    pub(crate) fn withdraw(&self, hash: &ComponentHash) {
        self.live.rcu(|table| Arc::new(table.without(hash)));
        for found in self.lock().values_mut() {
            if let Found::Live(loaded) = found
                && loaded.hash == *hash
            {
                *found = Found::Waiting(loaded.clone());
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<PathBuf, Found>> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
