//! Connections kept for the next request, apart for each origin, credential
//! and set of trusted roots: what was opened for one is never used for another.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Context;
use std::time::Duration;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::runtime::{self, Handle};
use tokio::sync::OwnedMutexGuard;
use tokio::time::Instant;

use crate::relay::connect::Dialed;
use crate::relay::drive::Drive;
use crate::relay::failure::RelayFailure;
use crate::relay::upload::Upload;
use crate::rules::origin::{Origin, Scheme};
use crate::rules::plan::CredentialKey;

/// What two requests must have in common to use one connection.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PoolKey {
    pub(super) origin: Origin,
    pub(super) credential: Option<CredentialKey>,
    pub(super) roots: Option<[u8; 32]>,
    pub(super) allow_private: bool,
}

/// How many connections are kept, and how they share.
#[derive(Debug, Clone)]
pub struct PoolLimits {
    /// How long an unused connection is kept.
    pub idle: Duration,
    /// How many unused HTTP/1.1 connections are kept for one key.
    pub idle_per_key: usize,
    /// How many streams one HTTP/2 connection carries.
    pub streams: u16,
    /// How much of one HTTP/2 stream is buffered for a reader that does not
    /// read.
    pub stream_window: u32,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(60),
            // As many as a burst had in use at once: one that is closed here is
            // dialed again in a moment.
            idle_per_key: 1024,
            streams: 64,
            stream_window: 512 * 1024,
        }
    }
}

#[derive(Clone)]
pub(super) struct Pool(Arc<Inner>);

struct Inner {
    limits: PoolLimits,
    kept: Mutex<HashMap<PoolKey, Kept>>,
    sweeping: AtomicBool,
}

#[derive(Default)]
struct Kept {
    /// Those that lie unused, apart for each thread that is told their events.
    idle: Vec<Shelf>,
    shared: Vec<Shared>,
    /// Whether the last connection was of the sort that is not shared.
    unshared: bool,
    /// Whoever dials what may turn out to be shared holds this.
    turn: Option<Arc<tokio::sync::Mutex<()>>>,
}

struct Shelf {
    runtime: Option<runtime::Id>,
    idle: Vec<Idle>,
}

struct Idle {
    sender: http1::SendRequest<Upload>,
    drive: Drive,
    since: Instant,
}

struct Shared {
    sender: http2::SendRequest<Upload>,
    load: Arc<Load>,
}

/// How busy an HTTP/2 connection is.
struct Load {
    streams: AtomicUsize,
    allowed: AtomicUsize,
    last_used: Mutex<Instant>,
}

/// A connection that carries one request. Dropping it closes the connection
/// (HTTP/1.1) or gives its stream back (HTTP/2).
pub(super) enum Checkout {
    Http1(Http1),
    Http2(Http2),
}

pub(super) struct Http1 {
    pub(super) sender: http1::SendRequest<Upload>,
    pub(super) reused: bool,
    pub(super) drive: Drive,
    /// Where its events are told.
    runtime: Option<runtime::Id>,
    home: Weak<Inner>,
    key: PoolKey,
}

pub(super) struct Http2 {
    pub(super) sender: http2::SendRequest<Upload>,
    pub(super) reused: bool,
    _slot: Slot,
}

struct Slot(Arc<Load>);

impl Drop for Slot {
    fn drop(&mut self) {
        *lock(&self.0.last_used) = Instant::now();
        self.0.streams.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Load {
    /// Takes a stream, if one is left.
    fn take(self: &Arc<Self>, limit: usize) -> Option<Slot> {
        // Until the upstream has said how many, requests wait for it to say.
        let limit = match self.allowed.load(Ordering::Relaxed) {
            0 => limit,
            allowed => limit.min(allowed),
        };
        self.streams
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |streams| {
                (streams < limit).then_some(streams + 1)
            })
            .ok()
            .map(|_| Slot(self.clone()))
    }
}

impl Pool {
    pub(super) fn new(limits: PoolLimits) -> Self {
        Self(Arc::new(Inner {
            limits,
            kept: Mutex::default(),
            sweeping: AtomicBool::new(false),
        }))
    }

    /// A connection that is open already, the one used last first.
    pub(super) fn checkout(&self, key: &PoolKey) -> Option<Checkout> {
        let mut all = lock(&self.0.kept);
        let kept = all.get_mut(key)?;
        kept.shared.retain(|shared| !shared.sender.is_closed());
        let limit = usize::from(self.0.limits.streams);
        for shared in &kept.shared {
            if let Some(slot) = shared.load.take(limit) {
                return Some(Checkout::Http2(Http2 {
                    sender: shared.sender.clone(),
                    reused: true,
                    _slot: slot,
                }));
            }
        }
        let here = here();
        while let Some((runtime, mut idle)) = kept.take(here, key.origin.scheme) {
            // One that the upstream has closed meanwhile would take the request
            // and break off.
            idle.drive.look();
            if idle.sender.is_ready() && idle.since.elapsed() < self.0.limits.idle {
                return Some(Checkout::Http1(Http1 {
                    sender: idle.sender,
                    reused: true,
                    drive: idle.drive,
                    runtime,
                    home: Arc::downgrade(&self.0),
                    key: key.clone(),
                }));
            }
        }
        None
    }

    /// Waits for one's turn to dial where a connection may be shared: the one
    /// who comes next may find it made. Never longer than a dial may take.
    pub(super) async fn turn(
        &self,
        key: &PoolKey,
        longest: Duration,
    ) -> Option<OwnedMutexGuard<()>> {
        let turn = {
            let mut all = lock(&self.0.kept);
            let kept = all.entry(key.clone()).or_default();
            if kept.unshared {
                return None;
            }
            kept.turn.get_or_insert_default().clone()
        };
        self.0.sweep();
        tokio::time::timeout(longest, turn.lock_owned()).await.ok()
    }

    /// Starts HTTP on a new connection.
    pub(super) async fn adopt(
        &self,
        key: &PoolKey,
        dialed: Dialed,
    ) -> Result<Checkout, RelayFailure> {
        if dialed.http2 {
            return self.adopt_http2(key, dialed).await;
        }
        let look = dialed.io.look();
        let (sender, connection) = http1::Builder::new()
            .max_buf_size(128 * 1024)
            .handshake(TokioIo::new(dialed.io))
            .await
            .map_err(|_| RelayFailure::Broken)?;
        if let Some(kept) = lock(&self.0.kept).get_mut(key) {
            kept.unshared = true;
        }
        Ok(Checkout::Http1(Http1 {
            sender,
            reused: false,
            drive: Drive::Here {
                connection: Box::new(connection),
                look,
            },
            runtime: here(),
            home: Arc::downgrade(&self.0),
            key: key.clone(),
        }))
    }

    async fn adopt_http2(&self, key: &PoolKey, dialed: Dialed) -> Result<Checkout, RelayFailure> {
        let limits = &self.0.limits;
        let (sender, mut connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(limits.stream_window)
            // As large as all its streams together: one that is not read
            // leaves the others their share.
            .initial_connection_window_size(
                limits
                    .stream_window
                    .saturating_mul(u32::from(limits.streams))
                    .min(i32::MAX as u32),
            )
            // The first stream waits until the upstream has said how many it
            // takes, so none is ever refused.
            .initial_max_send_streams(0)
            .max_header_list_size(64 * 1024)
            .keep_alive_interval(Duration::from_secs(60))
            .keep_alive_timeout(Duration::from_secs(20))
            .handshake(TokioIo::new(dialed.io))
            .await
            .map_err(|_| RelayFailure::Broken)?;
        let load = Arc::new(Load {
            streams: AtomicUsize::new(0),
            allowed: AtomicUsize::new(0),
            last_used: Mutex::new(Instant::now()),
        });
        let slot = load
            .take(usize::from(limits.streams).max(1))
            .ok_or(RelayFailure::Unreachable)?;
        let told = load.clone();
        tokio::spawn(async move {
            drop(
                poll_fn(|context| {
                    let outcome = Pin::new(&mut connection).poll(context);
                    told.allowed
                        .store(connection.current_max_send_streams(), Ordering::Relaxed);
                    outcome
                })
                .await,
            );
        });
        let checkout = Http2 {
            sender: sender.clone(),
            reused: false,
            _slot: slot,
        };
        lock(&self.0.kept)
            .entry(key.clone())
            .or_default()
            .shared
            .push(Shared { sender, load });
        self.0.sweep();
        Ok(Checkout::Http2(checkout))
    }
}

impl Checkout {
    /// Whether the connection has carried a request before.
    pub(super) fn reused(&self) -> bool {
        match self {
            Self::Http1(one) => one.reused,
            Self::Http2(two) => two.reused,
        }
    }

    /// Lets it move on as far as it can, where it has no task of its own.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) {
        match self {
            Self::Http1(one) => one.drive.poll(context),
            Self::Http2(_) => {}
        }
    }

    /// Has it move on also while nobody waits for it.
    pub(super) fn leave(&mut self) {
        match self {
            Self::Http1(one) => one.drive.leave(),
            Self::Http2(_) => {}
        }
    }

    /// Keeps the connection for the next request: only after an answer that
    /// was read to its end.
    pub(super) fn give_back(self) {
        match self {
            Self::Http1(mut one) => {
                one.drive.catch_up();
                if one.sender.is_ready() {
                    one.keep();
                } else if !one.sender.is_closed() {
                    // hyper says so once it has taken the message's end in.
                    one.drive.leave();
                    tokio::spawn(async move {
                        if one.sender.ready().await.is_ok() {
                            one.keep();
                        }
                    });
                }
            }
            Self::Http2(two) => drop(two),
        }
    }
}

impl Http1 {
    fn keep(self) {
        let Some(home) = self.home.upgrade() else {
            return;
        };
        let mut all = lock(&home.kept);
        let kept = all.entry(self.key).or_default();
        let idle = Idle {
            sender: self.sender,
            drive: self.drive,
            since: Instant::now(),
        };
        kept.keep(self.runtime, idle, home.limits.idle_per_key);
        drop(all);
        home.sweep();
    }
}

impl Inner {
    /// Sees to it that unused connections are closed in time.
    fn sweep(self: &Arc<Self>) {
        if self.sweeping.swap(true, Ordering::AcqRel) {
            return;
        }
        let home = Arc::downgrade(self);
        let pause = self.limits.idle / 2;
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(pause).await;
                let Some(home) = home.upgrade() else {
                    return;
                };
                let mut all = lock(&home.kept);
                all.retain(|_, kept| kept.prune(home.limits.idle));
                if all.is_empty() {
                    // Under the lock: whoever keeps the next one sees it.
                    home.sweeping.store(false, Ordering::Release);
                    return;
                }
            }
        });
    }
}

impl Kept {
    /// The connection used last of those whose events this thread is told.
    /// Another thread's wakes this one from there for each step, which is still
    /// less than the greetings of TLS take, and more than a plain dial does.
    fn take(
        &mut self,
        here: Option<runtime::Id>,
        scheme: Scheme,
    ) -> Option<(Option<runtime::Id>, Idle)> {
        let mut shelves = self.idle.iter_mut();
        let own = shelves.find(|shelf| shelf.runtime == here);
        if let Some(idle) = own.and_then(|shelf| shelf.idle.pop()) {
            return Some((here, idle));
        }
        if scheme == Scheme::Http {
            return None;
        }
        let mut others = self.idle.iter_mut();
        others.find_map(|shelf| Some((shelf.runtime, shelf.idle.pop()?)))
    }

    fn keep(&mut self, runtime: Option<runtime::Id>, idle: Idle, most: usize) {
        if self
            .idle
            .iter()
            .map(|shelf| shelf.idle.len())
            .sum::<usize>()
            >= most
        {
            return;
        }
        match self.idle.iter_mut().find(|shelf| shelf.runtime == runtime) {
            Some(shelf) => shelf.idle.push(idle),
            None => self.idle.push(Shelf {
                runtime,
                idle: vec![idle],
            }),
        }
    }

    /// Closes what is unused for too long; false when nothing is left.
    fn prune(&mut self, limit: Duration) -> bool {
        self.idle.retain_mut(|shelf| {
            shelf.idle.retain_mut(|idle| {
                idle.drive.look();
                !idle.sender.is_closed() && idle.since.elapsed() < limit
            });
            !shelf.idle.is_empty()
        });
        self.shared.retain(|shared| {
            let unused = shared.load.streams.load(Ordering::Relaxed) == 0
                && lock(&shared.load.last_used).elapsed() >= limit;
            !shared.sender.is_closed() && !unused
        });
        if self
            .turn
            .as_ref()
            .is_some_and(|turn| Arc::strong_count(turn) == 1)
        {
            self.turn = None;
        }
        !(self.idle.is_empty() && self.shared.is_empty() && self.turn.is_none())
    }
}

/// The runtime of this thread.
fn here() -> Option<runtime::Id> {
    Handle::try_current().ok().map(|handle| handle.id())
}

/// A poisoned lock still guards whole values: nothing is half done under it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
