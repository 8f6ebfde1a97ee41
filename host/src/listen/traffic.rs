//! What moves on one connection, and when that has taken too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::listen::ListenSettings;

/// Why a connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overdue {
    /// Nothing is asked for: it may end in peace.
    Unused,
    /// Nothing has been said since it was made.
    Silent,
    /// A head takes too long.
    SlowHead,
    /// An answer waits for a reader that takes nothing.
    Stalled,
}

/// Times are milliseconds since the connection began, and one more: 0 is
/// never.
pub(super) struct Traffic {
    began: Instant,
    in_flight: AtomicUsize,
    served: AtomicBool,
    head_since: AtomicU64,
    unused_since: AtomicU64,
    blocked_since: AtomicU64,
    unread: AtomicBool,
    leave: CancellationToken,
}

impl Traffic {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            in_flight: AtomicUsize::new(0),
            served: AtomicBool::new(false),
            head_since: AtomicU64::new(0),
            unused_since: AtomicU64::new(1),
            blocked_since: AtomicU64::new(0),
            unread: AtomicBool::new(false),
            leave: CancellationToken::new(),
        })
    }

    /// Bytes came in. Where no request is in flight, a head has begun.
    pub(super) fn received(&self) {
        if self.in_flight.load(Ordering::Relaxed) == 0
            && self.head_since.load(Ordering::Relaxed) == 0
        {
            self.head_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// What came in was not a head, such as the greetings of TLS.
    pub(super) fn no_head_yet(&self) {
        self.head_since.store(0, Ordering::Relaxed);
    }

    /// Bytes went out, or could not.
    pub(super) fn sent(&self, blocked: bool) {
        if !blocked {
            self.blocked_since.store(0, Ordering::Relaxed);
        } else if self.blocked_since.load(Ordering::Relaxed) == 0 {
            self.blocked_since.store(self.now(), Ordering::Relaxed);
        }
    }

    /// Gives the peer as long again, to take in that the end is near.
    pub(super) fn give_notice(&self) {
        self.unused_since.store(self.now(), Ordering::Relaxed);
    }

    /// Since when nothing is asked for; none while something is, and for who has
    /// been asked to leave already.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        if self.is_in_use() || self.leave.is_cancelled() {
            return None;
        }
        let since = self.unused_since.load(Ordering::Relaxed).saturating_sub(1);
        self.began.checked_add(Duration::from_millis(since))
    }

    /// Whether a request is in flight.
    pub(super) fn is_in_use(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Somebody else needs the room.
    pub(super) fn ask_to_leave(&self) {
        self.leave.cancel();
    }

    /// Waits until somebody else needs the room.
    pub(super) async fn asked_to_leave(&self) {
        self.leave.cancelled().await;
    }

    /// Whether a request's body was let go before its end.
    pub(super) fn has_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }

    /// Waits until the connection has to end.
    pub(super) async fn overdue(&self, settings: &ListenSettings, http2: bool) -> Overdue {
        loop {
            match self.check(settings, http2) {
                Err(overdue) => return overdue,
                // A head that begins meanwhile is seen then, at the latest.
                Ok(wait) => tokio::time::sleep(wait.min(settings.head)).await,
            }
        }
    }

    /// How long nothing can be overdue, or what is.
    fn check(&self, settings: &ListenSettings, http2: bool) -> Result<Duration, Overdue> {
        let mut wait = settings.head;
        let mut limit = |since: u64, limit: Duration, overdue: Overdue| {
            let age = Duration::from_millis(self.now().saturating_sub(since));
            match limit.checked_sub(age).filter(|left| !left.is_zero()) {
                Some(left) => {
                    wait = wait.min(left);
                    Ok(())
                }
                None => Err(overdue),
            }
        };
        let blocked = self.blocked_since.load(Ordering::Relaxed);
        if blocked != 0 {
            limit(blocked, settings.stall, Overdue::Stalled)?;
        }
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return Ok(wait);
        }
        let head = self.head_since.load(Ordering::Relaxed);
        // HTTP/2 peers say a lot that is no head.
        if head != 0 && !http2 {
            limit(head, settings.head, Overdue::SlowHead)?;
            return Ok(wait);
        }
        let unused = self.unused_since.load(Ordering::Relaxed);
        if self.served.load(Ordering::Relaxed) {
            limit(unused, settings.keep_alive, Overdue::Unused)?;
        } else {
            limit(unused, settings.first_byte, Overdue::Silent)?;
        }
        Ok(wait)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).map_or(u64::MAX, |now| now + 1)
    }
}

/// One request in flight, from its head to the end of both bodies.
pub(super) struct Flight {
    traffic: Arc<Traffic>,
    unread: AtomicBool,
}

impl Flight {
    pub(super) fn begin(traffic: &Arc<Traffic>) -> Arc<Self> {
        traffic.in_flight.fetch_add(1, Ordering::Relaxed);
        traffic.served.store(true, Ordering::Relaxed);
        traffic.no_head_yet();
        Arc::new(Self {
            traffic: traffic.clone(),
            unread: AtomicBool::new(false),
        })
    }

    /// The request's body was let go before its end.
    pub(super) fn left_unread(&self) {
        self.unread.store(true, Ordering::Release);
        self.traffic.unread.store(true, Ordering::Release);
    }

    pub(super) fn is_unread(&self) -> bool {
        self.unread.load(Ordering::Acquire)
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let traffic = &self.traffic;
        traffic.unused_since.store(traffic.now(), Ordering::Relaxed);
        traffic.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
