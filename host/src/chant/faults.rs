//! How often requests of one box may make one plugin fail. A box that does so
//! again and again is told to wait, at that plugin alone; nobody else notices.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::chant::limits::Over;
use crate::rules::bucket::Bucket;
use crate::rules::names::{BoxName, PluginName};
use crate::telemetry::Limit;

/// How many buckets are kept before the full ones are let go.
const MANY: usize = 1024;

type Key = (PluginName, Option<BoxName>);

/// Whose requests have failed how often.
pub(super) struct FaultRoom {
    /// In a minute.
    most: u64,
    began: Instant,
    /// Whether any has lately: mostly there is nothing to look up.
    any: AtomicBool,
    boxes: Mutex<HashMap<Key, Bucket>>,
}

impl FaultRoom {
    pub(super) fn new(most: u64) -> Self {
        Self {
            most,
            began: Instant::now(),
            any: AtomicBool::new(false),
            boxes: Mutex::default(),
        }
    }

    /// Whether a plugin is asked for a box once more.
    pub(super) fn may_ask(
        &self,
        plugin: &PluginName,
        box_name: Option<&BoxName>,
    ) -> Result<(), Over> {
        if !self.any.load(Ordering::Relaxed) {
            return Ok(());
        }
        let most = self.most;
        match self.lacks(plugin, box_name, self.began.elapsed()) {
            None => Ok(()),
            Some(wait) => {
                let message = format!(
                    "Requests of this box have made the plugin {plugin} fail as often as they may in a minute \
                     ({most}, failures_per_box), so it is not asked. Send what it can decide, later; other boxes are \
                     served."
                );
                Err(Over::new(Limit::FailuresPerBox, message, Some(wait)))
            }
        }
    }

    /// A plugin failed on a request of a box.
    pub(super) fn failed(&self, plugin: &PluginName, box_name: Option<&BoxName>) {
        self.spend(plugin, box_name, self.began.elapsed());
    }

    fn lacks(
        &self,
        plugin: &PluginName,
        box_name: Option<&BoxName>,
        now: Duration,
    ) -> Option<Duration> {
        let mut boxes = self.boxes();
        let key = (plugin.clone(), box_name.cloned());
        let bucket = boxes.get_mut(&key)?;
        if bucket.is_full(now) {
            boxes.remove(&key);
            self.any.store(!boxes.is_empty(), Ordering::Relaxed);
            return None;
        }
        bucket.lacks(1, now)
    }

    fn spend(&self, plugin: &PluginName, box_name: Option<&BoxName>, now: Duration) {
        let mut boxes = self.boxes();
        if boxes.len() >= MANY {
            boxes.retain(|_, bucket| !bucket.is_full(now));
        }
        let key = (plugin.clone(), box_name.cloned());
        let bucket = boxes.entry(key);
        let bucket = bucket.or_insert_with(|| Bucket::full(self.most, now));
        // It is filled up to now before it is taken from.
        let _wait = bucket.lacks(1, now);
        bucket.spend(1);
        self.any.store(true, Ordering::Relaxed);
    }

    fn boxes(&self) -> MutexGuard<'_, HashMap<Key, Bucket>> {
        // A panic in here leaves at worst a bucket too full.
        self.boxes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_waits_at_the_plugin_that_it_makes_fail_and_nowhere_else() {
        let room = FaultRoom::new(2);
        let name = |text: &str| PluginName::parse(text).unwrap();
        let of = |text: &str| BoxName::parse(text).unwrap();
        let at = Duration::from_secs;
        let (one, other) = (name("one"), name("other"));
        let (a, b) = (of("a"), of("b"));
        assert!(room.may_ask(&one, Some(&a)).is_ok());
        room.spend(&one, Some(&a), at(0));
        assert_eq!(room.lacks(&one, Some(&a), at(0)), None);
        room.spend(&one, Some(&a), at(0));
        assert_eq!(room.lacks(&one, Some(&a), at(0)), Some(at(30)));
        for (plugin, box_name) in [(&one, Some(&b)), (&other, Some(&a)), (&one, None)] {
            assert_eq!(room.lacks(plugin, box_name, at(0)), None);
        }
        // What fails meanwhile costs no more than there is.
        room.spend(&one, Some(&a), at(10));
        assert_eq!(room.lacks(&one, Some(&a), at(10)), Some(at(30)));
        assert_eq!(room.lacks(&one, Some(&a), at(40)), None);
        // Nothing is looked up once all is full again.
        assert!(room.any.load(Ordering::Relaxed));
        assert_eq!(room.lacks(&one, Some(&a), at(100)), None);
        assert!(!room.any.load(Ordering::Relaxed));
    }
}
