//! So many at a time for each of many: a semaphore a name, for as long as
//! somebody holds or awaits a part of it.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;

/// How many names are kept before those that nobody uses are looked for.
const MANY: usize = 1024;

pub(super) struct Shares<K> {
    most: usize,
    named: Mutex<HashMap<K, Weak<Semaphore>>>,
}

impl<K: Eq + Hash + Clone> Shares<K> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most: most.min(Semaphore::MAX_PERMITS),
            named: Mutex::default(),
        }
    }

    /// How many each may have.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The one of this name.
    pub(super) fn of(&self, name: &K) -> Arc<Semaphore> {
        // A panic in here leaves at worst a name too many.
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(share) = named.get(name).and_then(Weak::upgrade) {
            return share;
        }
        if named.len() >= MANY {
            named.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(self.most));
        named.insert(name.clone(), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_its_own_and_those_unused_are_forgotten() {
        let shares: Shares<u32> = Shares::new(2);
        let first = shares.of(&1).try_acquire_owned().unwrap();
        let second = shares.of(&1).try_acquire_owned().unwrap();
        assert!(shares.of(&1).try_acquire_owned().is_err());
        assert!(shares.of(&2).try_acquire_owned().is_ok());
        drop(second);
        assert!(shares.of(&1).try_acquire_owned().is_ok());
        for name in 10..10_000 {
            let _unused = shares.of(&name);
        }
        assert!(shares.named.lock().unwrap().len() <= MANY);
        let again = shares.of(&1).try_acquire_owned().unwrap();
        assert!(shares.of(&1).try_acquire_owned().is_err());
        drop((first, again));
    }
}
