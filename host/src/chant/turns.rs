//! Whose turn it is to renew a count. It only saves tries: conditions guard
//! what is counted.

use std::hash::{DefaultHasher, Hash, Hasher};

use tokio::sync::{Mutex, MutexGuard};

use crate::chant::effects::Effects;
use crate::rules::names::{BoxName, PluginName};

const LANES: usize = 64;

/// Two rows of lanes: many counts share one, and nobody waits for long.
pub(super) struct Turns {
    journals: Vec<Mutex<()>>,
    keeps: Vec<Mutex<()>>,
}

/// A turn, for as long as this lives.
pub(super) struct Turn<'a> {
    _journal: Option<MutexGuard<'a, ()>>,
    _keep: Option<MutexGuard<'a, ()>>,
}

impl Default for Turns {
    fn default() -> Self {
        let row = || (0..LANES).map(|_| Mutex::default()).collect();
        Self {
            journals: row(),
            keeps: row(),
        }
    }
}

impl Turns {
    /// Waits for a turn at every count that effects change. Always the
    /// journal's first, so that no two wait for each other.
    pub(super) async fn of(
        &self,
        effects: &Effects,
        plugin: &PluginName,
        box_name: &BoxName,
    ) -> Turn<'_> {
        let journal = lane(&self.journals, !effects.journal.is_empty(), &plugin).await;
        let keep = lane(&self.keeps, !effects.writes.is_empty(), &(plugin, box_name)).await;
        Turn {
            _journal: journal,
            _keep: keep,
        }
    }
}

async fn lane<'a>(
    row: &'a [Mutex<()>],
    needed: bool,
    count: &impl Hash,
) -> Option<MutexGuard<'a, ()>> {
    if !needed {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    count.hash(&mut hasher);
    let index = usize::try_from(hasher.finish() % LANES as u64).unwrap_or_default();
    Some(row.get(index)?.lock().await)
}
