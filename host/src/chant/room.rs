//! Room in memory: what is held for a plugin to read, or comes back from a
//! call, is asked for here before it is held, and given back when it is let go.
//!
//! It is shared out so that nobody takes it from the others: no box holds more
//! of what is shared than it leaves free. So the more boxes hold much, the less
//! each of them gets, and one that holds little finds some left.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::rules::names::{BoxName, PluginName};

/// How much may be held at a time, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoomLimits {
    /// For one box.
    pub per_box: usize,
    /// For the requests of one plugin.
    pub per_plugin: usize,
    /// For all.
    pub all: usize,
}

/// Whose room is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Full {
    /// The box's own.
    Box,
    /// The plugin's, or the box has its part of it.
    Plugin,
    /// The host's, or the box has its part of it.
    Host,
}

/// All the room there is.
pub(super) struct Rooms {
    limits: RoomLimits,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: usize,
    /// Strangers count as one box.
    boxes: HashMap<Option<BoxName>, usize>,
    plugins: HashMap<PluginName, usize>,
}

/// What one request holds of it. Dropped, it is given back.
pub(super) struct Room {
    rooms: Arc<Rooms>,
    box_name: Option<BoxName>,
    plugin: Option<PluginName>,
    bytes: usize,
}

impl Rooms {
    pub(super) fn new(limits: RoomLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            held: Mutex::default(),
        })
    }

    /// Nothing yet, for a request of this box at this plugin.
    pub(super) fn room(
        self: &Arc<Self>,
        box_name: Option<&BoxName>,
        plugin: Option<&PluginName>,
    ) -> Room {
        Room {
            rooms: self.clone(),
            box_name: box_name.cloned(),
            plugin: plugin.cloned(),
            bytes: 0,
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // No count below is left half changed by a panic.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Room {
    /// Takes this much more.
    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Full> {
        if bytes == 0 {
            return Ok(());
        }
        let RoomLimits {
            per_box,
            per_plugin,
            all,
        } = self.rooms.limits;
        let mut held = self.rooms.held();
        let after = |before: Option<&usize>| before.copied().unwrap_or(0).saturating_add(bytes);
        let of_box = after(held.boxes.get(&self.box_name));
        if of_box > per_box {
            return Err(Full::Box);
        }
        let fits = |shared: usize, most: usize| {
            most.checked_sub(shared).is_some_and(|free| of_box <= free)
        };
        if let Some(plugin) = &self.plugin
            && !fits(after(held.plugins.get(plugin)), per_plugin)
        {
            return Err(Full::Plugin);
        }
        if !fits(after(Some(&held.all)), all) {
            return Err(Full::Host);
        }
        held.all = held.all.saturating_add(bytes);
        *held.boxes.entry(self.box_name.clone()).or_default() += bytes;
        if let Some(plugin) = &self.plugin {
            *held.plugins.entry(plugin.clone()).or_default() += bytes;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// Holds this much and no more.
    pub(super) fn resize(&mut self, bytes: usize) -> Result<(), Full> {
        match bytes.checked_sub(self.bytes) {
            Some(more) => self.take(more),
            None => {
                self.give_back(self.bytes - bytes);
                Ok(())
            }
        }
    }

    /// Takes over what another part of the same request holds.
    pub(super) fn absorb(&mut self, mut other: Self) {
        self.bytes = self.bytes.saturating_add(std::mem::take(&mut other.bytes));
    }

    /// The bytes that it was taken for: it is given back with the last of them.
    pub(super) fn hold(self, bytes: Bytes) -> Bytes {
        if self.bytes == 0 {
            return bytes;
        }
        Bytes::from_owner(Holding { bytes, _room: self })
    }

    fn give_back(&mut self, bytes: usize) {
        let mut held = self.rooms.held();
        held.all = held.all.saturating_sub(bytes);
        less(&mut held.boxes, self.box_name.clone(), bytes);
        if let Some(plugin) = &self.plugin {
            less(&mut held.plugins, plugin.clone(), bytes);
        }
        self.bytes -= bytes;
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.give_back(self.bytes);
        }
    }
}

/// Whoever holds nothing is forgotten.
fn less<K: Eq + Hash>(counts: &mut HashMap<K, usize>, key: K, bytes: usize) {
    if let Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() = count.get().saturating_sub(bytes);
        if *count.get() == 0 {
            count.remove();
        }
    }
}

struct Holding {
    bytes: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for Holding {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests;
