//! The threads that serve connections. Each has a runtime of its own, and a
//! connection stays with one of them from its first byte to its last: what it
//! needs lies in that core's cache, and nobody is woken on another core to go
//! on with it. A runtime that shares its tasks out costs each request a tenth
//! more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The threads. Dropped, they end, with whatever still runs on them.
pub struct Workers {
    workers: Vec<Worker>,
    _stop: DropGuard,
}

struct Worker {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// A connection's place on one of them, for as long as it lives.
pub(super) struct Seat {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl Workers {
    /// Starts one for each core that this process may use.
    ///
    /// # Errors
    /// When the system gives no more threads or descriptors.
    pub fn start() -> io::Result<Self> {
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        let count = thread::available_parallelism().map_or(1, usize::from);
        let workers = (0..count).map(|number| Worker::start(number, stop.clone()));
        Ok(Self {
            workers: workers.collect::<io::Result<_>>()?,
            _stop: guard,
        })
    }

    /// A place where the fewest connections are.
    pub(super) fn seat(&self) -> Option<Seat> {
        let fewest = self
            .workers
            .iter()
            .min_by_key(|worker| worker.connections.load(Ordering::Relaxed))?;
        fewest.connections.fetch_add(1, Ordering::Relaxed);
        Some(Seat {
            runtime: fewest.runtime.clone(),
            connections: fewest.connections.clone(),
        })
    }
}

impl Worker {
    fn start(number: usize, stop: CancellationToken) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        thread::Builder::new()
            .name(format!("serve-{number}"))
            .spawn(move || {
                runtime.block_on(stop.cancelled());
                // What still blocks on one of its other threads is given up.
                runtime.shutdown_background();
            })?;
        Ok(Self {
            runtime: handle,
            connections: Arc::default(),
        })
    }
}

impl Seat {
    pub(super) fn runtime(&self) -> Handle {
        self.runtime.clone()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_where_the_fewest_are() {
        let workers = Workers::start().unwrap();
        let count = workers.workers.len();
        let taken = |workers: &Workers| -> Vec<usize> {
            let counts = workers.workers.iter();
            counts
                .map(|worker| worker.connections.load(Ordering::Relaxed))
                .collect()
        };
        let mut seats: Vec<Seat> = (0..2 * count).filter_map(|_| workers.seat()).collect();
        assert_eq!(taken(&workers), vec![2; count]);
        seats.truncate(1);
        assert_eq!(taken(&workers).iter().sum::<usize>(), 1);
        let _more: Vec<Seat> = (1..count).filter_map(|_| workers.seat()).collect();
        assert_eq!(taken(&workers), vec![1; count]);
    }

    #[test]
    fn dropped_they_end_with_what_runs_on_them() {
        let workers = Workers::start().unwrap();
        let (held, gone) = std::sync::mpsc::channel::<()>();
        let seat = workers.seat().unwrap();
        seat.runtime().spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        drop(workers);
        assert!(gone.recv().is_err());
    }
}
