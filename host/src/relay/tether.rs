//! What ties an exchange with an upstream to the lease that it stands on. When
//! the lease ends, the exchange is let go of there and then, whether somebody
//! reads it or not.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use crate::lease::{Cut, Hold, Lease};

/// An exchange's tie to its lease, and whatever of it is open: `T` is dropped
/// when the lease ends.
pub(super) struct Tether<T: Send + 'static> {
    line: Arc<Line<T>>,
    hold: Hold,
}

/// The exchange's end of it, without the tie.
pub(super) struct Line<T> {
    open: Mutex<Option<T>>,
    is_cut: AtomicBool,
    waiting: AtomicWaker,
}

impl<T: Send + 'static> Tether<T> {
    /// Ties an exchange of which nothing is open yet.
    pub(super) fn to(lease: Lease) -> Self {
        let line = Arc::new(Line {
            open: Mutex::new(None),
            is_cut: AtomicBool::new(false),
            waiting: AtomicWaker::new(),
        });
        Self {
            hold: lease.hold(line.clone()),
            line,
        }
    }

    /// What it is tied to.
    pub(super) fn lease(&self) -> Lease {
        self.hold.lease()
    }

    /// The exchange's end of it, for who waits for the cut.
    pub(super) fn line(&self) -> Arc<Line<T>> {
        self.line.clone()
    }

    /// Has this be dropped at the cut: at once where that has been.
    pub(super) fn open(&self, open: T) {
        let mut slot = self.slot();
        // Under the lock: a cut that is not seen here finds what is put now.
        if !self.is_cut() {
            *slot = Some(open);
        }
    }

    /// What is open, to be looked at.
    pub(super) fn slot(&self) -> MutexGuard<'_, Option<T>> {
        self.line.slot()
    }

    /// Whether the lease has ended.
    pub(super) fn is_cut(&self) -> bool {
        self.line.is_cut.load(Ordering::Acquire)
    }

    /// Whether the lease has ended; if not, its end wakes this task.
    pub(super) fn poll_cut(&self, context: &Context<'_>) -> Poll<()> {
        self.line.poll_cut(context)
    }
}

impl<T> Line<T> {
    /// Waits for the lease's end. One task waits at a time.
    pub(super) async fn until_cut(&self) {
        poll_fn(|context| self.poll_cut(context)).await;
    }

    fn poll_cut(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_cut.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.waiting.register(context.waker());
        // It may have come between the look and the registration.
        if self.is_cut.load(Ordering::Acquire) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    fn slot(&self) -> MutexGuard<'_, Option<T>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send> Cut for Line<T> {
    fn cut(&self) {
        self.is_cut.store(true, Ordering::Release);
        let open = self.slot().take();
        drop(open);
        self.waiting.wake();
    }
}
