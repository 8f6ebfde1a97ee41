//! What is worth keeping only while it is used: made for the first request that
//! needs it, shared by those that come soon after, and let go of a few seconds
//! after the last of them. So a value that is open in memory is so because
//! requests use it now.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// How often it is looked at whether anybody has used it since: after the last
/// use it stays for twice as long at most.
const LOOK: Duration = Duration::from_secs(2);

/// A place for such a value. It belongs to whatever the value is made of, and
/// goes with it.
pub struct Fleeting<T>(Arc<Slot<T>>);

struct Slot<T> {
    kept: Mutex<Option<Arc<T>>>,
    is_used: AtomicBool,
}

impl<T: Send + Sync + 'static> Fleeting<T> {
    /// The value, made now unless it is kept. Outside a runtime nothing is kept.
    ///
    /// # Errors
    /// What making it fails with; nothing is kept then.
    pub fn get_or_try<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<Arc<T>, E> {
        if let Some(kept) = &*self.0.kept() {
            self.0.is_used.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(kept));
        }
        let made = Arc::new(make()?);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return Ok(made);
        };
        let mut kept = self.0.kept();
        // Of two that made it at once, one has it let go of.
        if kept.is_none() {
            *kept = Some(Arc::clone(&made));
            runtime.spawn(let_go(Arc::downgrade(&self.0)));
        }
        Ok(made)
    }
}

impl<T> Default for Fleeting<T> {
    fn default() -> Self {
        Self(Arc::new(Slot {
            kept: Mutex::new(None),
            is_used: AtomicBool::new(false),
        }))
    }
}

impl<T> std::fmt::Debug for Fleeting<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Fleeting")
    }
}

impl<T> Slot<T> {
    fn kept(&self) -> MutexGuard<'_, Option<Arc<T>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets go of it unless it was used since the last look; says whether it is
    /// still there.
    fn look(&self) -> bool {
        let mut kept = self.kept();
        if !self.is_used.swap(false, Ordering::Relaxed) {
            *kept = None;
        }
        kept.is_some()
    }
}

/// Lets go of it once nobody has used it for a while.
async fn let_go<T>(slot: Weak<Slot<T>>) {
    loop {
        tokio::time::sleep(LOOK).await;
        if !slot.upgrade().is_some_and(|slot| slot.look()) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn get(place: &Fleeting<u32>, value: u32) -> u32 {
        let got = place.get_or_try(|| Ok::<_, Infallible>(value));
        got.map(|got| *got).unwrap()
    }

    #[tokio::test]
    async fn it_stays_while_it_is_used_and_goes_after() {
        let place = Fleeting::default();
        let held = Arc::downgrade(&place.get_or_try(|| Ok::<_, Infallible>(1)).unwrap());
        for _ in 0..3 {
            assert_eq!(get(&place, 2), 1);
            assert!(place.0.look());
        }
        assert!(!place.0.look());
        assert!(held.upgrade().is_none());
        assert_eq!(get(&place, 3), 3);
    }

    #[tokio::test]
    async fn it_goes_with_what_it_is_made_of() {
        let place = Fleeting::default();
        let held = Arc::downgrade(&place.get_or_try(|| Ok::<_, Infallible>(1)).unwrap());
        assert!(held.upgrade().is_some());
        drop(place);
        assert!(held.upgrade().is_none());
    }

    #[test]
    fn what_could_not_be_let_go_of_is_not_kept() {
        let place = Fleeting::default();
        assert_eq!(get(&place, 1), 1);
        assert_eq!(get(&place, 2), 2);
    }

    #[tokio::test]
    async fn what_failed_is_tried_again() {
        let place = Fleeting::<u32>::default();
        assert_eq!(
            place.get_or_try(|| Err::<u32, _>("not now")),
            Err("not now")
        );
        assert_eq!(get(&place, 1), 1);
    }
}
