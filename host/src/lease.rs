//! What can be taken back, and what stands on it.
//!
//! A box's token, a plugin's approval, a credential, a grant: each has a
//! [`Tenure`], which its owner ends when it is taken back. A request stands on
//! several of them, which are its [`Lease`]. Whoever holds something open for
//! a request has it cut ([`Cut`]) at the moment that one of them ends, also
//! while nobody looks at it: no task waits for that.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;
use slab::Slab;

/// Something that holds until it is taken back, once and for good.
#[derive(Clone, Default)]
pub struct Tenure(Arc<State>);

#[derive(Default)]
struct State {
    has_ended: AtomicBool,
    /// What stands on it. Emptied when it ends, and empty from then on.
    standing: Mutex<Slab<Arc<dyn Cut>>>,
}

/// What is open for as long as a lease holds.
pub trait Cut: Send + Sync {
    /// Lets go of it. Called by whoever ends a tenure, perhaps once for each:
    /// it must not wait.
    fn cut(&self);
}

impl Tenure {
    /// Something that holds.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes it back: everything that stands on it is cut before this returns.
    pub fn cancel(&self) {
        let standing = {
            let mut standing = self.standing();
            self.0.has_ended.store(true, Ordering::Release);
            std::mem::take(&mut *standing)
        };
        for (_, open) in standing {
            open.cut();
        }
    }

    /// Whether nobody else holds it: nothing stands on it, and nothing will.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Whether it was taken back.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.has_ended.load(Ordering::Acquire)
    }

    /// Ends when it is taken back.
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        Lease::from(self.clone()).cancelled()
    }

    /// Adds what is to be cut; none when it has ended.
    fn add(&self, open: Arc<dyn Cut>) -> Option<usize> {
        let mut standing = self.standing();
        // Under the lock: what is added now is seen by whoever ends it.
        (!self.is_cancelled()).then(|| standing.insert(open))
    }

    fn remove(&self, place: usize) {
        let removed = self.standing().try_remove(place);
        // What it holds may be dropped now, and needs no lock for that.
        drop(removed);
    }

    fn standing(&self) -> MutexGuard<'_, Slab<Arc<dyn Cut>>> {
        self.0
            .standing
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tenure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_tuple("Tenure")
            .field(&self.is_cancelled())
            .finish()
    }
}

/// What one request is allowed by: its box, its plugin, what it spends.
#[derive(Debug, Clone, Default)]
pub struct Lease(Vec<Tenure>);

impl Lease {
    /// This lease, which from here on also ends with that tenure.
    #[must_use]
    pub fn and(mut self, tenure: &Tenure) -> Self {
        self.0.push(tenure.clone());
        self
    }

    /// This lease, which from here on also ends with that one.
    #[must_use]
    pub fn with(mut self, other: &Self) -> Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    /// Whether anything that it stands on was taken back.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.iter().any(Tenure::is_cancelled)
    }

    /// Has something cut when anything that this stands on is taken back, and
    /// at once where that has happened already; until the hold is dropped.
    #[must_use]
    pub fn hold(self, open: Arc<dyn Cut>) -> Hold {
        let mut hold = Hold {
            places: Vec::with_capacity(self.0.len()),
        };
        let mut is_over = false;
        for tenure in self.0 {
            let place = tenure.add(Arc::clone(&open));
            is_over |= place.is_none();
            hold.places.push((tenure, place));
        }
        if is_over {
            open.cut();
        }
        hold
    }

    /// Ends when anything that it stands on is taken back; a lease that stands
    /// on nothing never ends.
    #[must_use]
    pub fn cancelled(&self) -> Cancelled {
        let end = Arc::new(End::default());
        Cancelled {
            _hold: self.clone().hold(end.clone()),
            end,
        }
    }
}

impl From<Tenure> for Lease {
    fn from(tenure: Tenure) -> Self {
        Self(vec![tenure])
    }
}

/// Something open that stands on a lease. Dropping it ends that.
pub struct Hold {
    /// Where it stands in each; nowhere in those that had ended before.
    places: Vec<(Tenure, Option<usize>)>,
}

impl Hold {
    /// What it stands on.
    #[must_use]
    pub fn lease(&self) -> Lease {
        Lease(
            self.places
                .iter()
                .map(|(tenure, _)| tenure.clone())
                .collect(),
        )
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for (tenure, place) in &self.places {
            if let Some(place) = place {
                tenure.remove(*place);
            }
        }
    }
}

/// The end of a [`Lease`].
pub struct Cancelled {
    _hold: Hold,
    end: Arc<End>,
}

#[derive(Default)]
struct End {
    has_come: AtomicBool,
    waiting: AtomicWaker,
}

impl Cut for End {
    fn cut(&self) {
        self.has_come.store(true, Ordering::Release);
        self.waiting.wake();
    }
}

impl Future for Cancelled {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let has_come = || self.end.has_come.load(Ordering::Acquire);
        if has_come() {
            return Poll::Ready(());
        }
        self.end.waiting.register(context.waker());
        // It may have come between the look and the registration.
        if has_come() {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Cut for Counted {
        fn cut(&self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn tenures() -> [Tenure; 3] {
        Default::default()
    }

    #[tokio::test]
    async fn a_lease_ends_with_the_first_of_what_it_stands_on() {
        for ends in 0..3 {
            let tenures = tenures();
            let lease = tenures.iter().fold(Lease::default(), Lease::and);
            let mut end = lease.cancelled();
            assert!((&mut end).now_or_never().is_none());
            assert!(!lease.is_cancelled());
            tenures[ends].cancel();
            end.await;
            assert!(lease.is_cancelled());
            assert!(lease.cancelled().now_or_never().is_some());
        }
        assert!(Lease::default().cancelled().now_or_never().is_none());
    }

    #[tokio::test]
    async fn whoever_waits_is_woken() {
        let tenure = Tenure::new();
        let end = tokio::spawn(tenure.cancelled());
        tokio::task::yield_now().await;
        tenure.cancel();
        end.await.unwrap();
    }

    #[test]
    fn what_stands_on_it_is_cut_once_and_before_it_is_over() {
        let tenures = tenures();
        let lease = tenures.iter().fold(Lease::default(), Lease::and);
        let (open, gone) = (Arc::new(Counted::default()), Arc::new(Counted::default()));
        let hold = lease.clone().hold(open.clone());
        drop(lease.clone().hold(gone.clone()));
        assert!(!hold.lease().is_cancelled());
        tenures[1].cancel();
        assert!(hold.lease().is_cancelled());
        tenures[1].cancel();
        let cuts = |counted: &Counted| counted.0.load(Ordering::SeqCst);
        assert_eq!((cuts(&open), cuts(&gone)), (1, 0));
        let late = Arc::new(Counted::default());
        let _hold = lease.hold(late.clone());
        assert_eq!(cuts(&late), 1);
    }

    #[test]
    fn what_is_over_leaves_nothing_behind() {
        let tenure = Tenure::new();
        for _ in 0..3 {
            let held = [0; 4].map(|_| Lease::from(tenure.clone()).hold(Arc::<Counted>::default()));
            assert_eq!(tenure.standing().len(), 4);
            drop(held);
        }
        assert_eq!(tenure.standing().len(), 0);
        let hold = Lease::from(tenure.clone()).hold(Arc::<Counted>::default());
        tenure.cancel();
        assert_eq!(tenure.standing().len(), 0);
        assert!(!tenure.is_alone());
        drop(hold);
        assert!(tenure.is_alone());
        // Its owner, and nobody else.
        assert_eq!(Arc::strong_count(&tenure.0), 1);
    }
}
