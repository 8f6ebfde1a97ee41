//! The embedded engine, on sled: the only place that names it.
//!
//! One thread writes. Everybody else reads under a lock that the writer holds
//! from the first byte it changes until the disk has the last, so nobody sees
//! what could still be lost. Every call into sled runs off the async threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot};

use crate::store::notify::Notifier;
use crate::store::{Batch, Page, Record, Revision, Store, StoreError, Watch};

mod database;
mod files;
mod layout;
mod writer;

use database::Database;
use writer::{Request, Shared, State};

/// How many commits may wait for the writer before a caller waits to be one.
const QUEUE: usize = 1024;

/// How the embedded engine is tuned. The default is right but for tests.
#[derive(Debug, Clone, Copy)]
pub struct SledSettings {
    /// Bytes of sled's page cache; its own default is a gigabyte.
    pub cache_bytes: u64,
    /// How many commits a watch can begin in the past.
    pub history_commits: usize,
    /// How many bytes those commits may hold together.
    pub history_bytes: usize,
}

impl Default for SledSettings {
    fn default() -> Self {
        Self {
            cache_bytes: 64 * 1024 * 1024,
            history_commits: 1024,
            history_bytes: 4 * 1024 * 1024,
        }
    }
}

/// Opens the store in a folder, which is made with mode 0700 where there is
/// none. Blocks: it belongs to the start of a process.
///
/// # Errors
/// [`StoreError::Locked`] when another process has the folder; otherwise when
/// it cannot be made, read or recovered.
pub fn open_sled(path: &Path, settings: SledSettings) -> Result<Arc<dyn Store>, StoreError> {
    Ok(Arc::new(Embedded::open(path, settings, files::sync_data)?))
}

struct Embedded {
    path: PathBuf,
    shared: Arc<Shared>,
    /// None once closing has begun: the writer ends when the last is dropped.
    requests: Mutex<Option<mpsc::Sender<Request>>>,
    writer: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl Embedded {
    /// `sync` puts the data file's bytes on disk; tests hand in one that fails.
    fn open(path: &Path, settings: SledSettings, sync: files::Sync) -> Result<Self, StoreError> {
        let database = Database::open(path, settings, sync)?;
        let shared = Arc::new(Shared {
            settled: RwLock::new(State::Open(Box::new(database))),
            notifier: Notifier::default(),
        });
        let (requests, queue) = mpsc::channel(QUEUE);
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn({
                let shared = Arc::clone(&shared);
                let path = path.to_owned();
                move || {
                    // sled panics where it cannot go on; nobody may wait for a
                    // writer that is gone. What the panic left half done lies
                    // behind the poisoned lock.
                    let running = AssertUnwindSafe(|| writer::run(queue, &shared));
                    if catch_unwind(running).is_err() {
                        tracing::error!(path = %path.display(), "the store's writer has panicked");
                        shared.notifier.end(&dead_writer(&path), || true);
                    }
                }
            })
            .map_err(|error| files::failed("starting the writer", path, &error))?;
        Ok(Self {
            path: path.to_owned(),
            shared,
            requests: Mutex::new(Some(requests)),
            writer: tokio::sync::Mutex::new(Some(writer)),
        })
    }

    /// Runs `read` on what is settled, off the async threads.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Database, &Notifier) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = Arc::clone(&self.shared);
        let path = self.path.clone();
        let reading = tokio::task::spawn_blocking(move || {
            // A writer that died within its lock has left who knows what.
            let state = shared.settled.read().map_err(|_| dead_writer(&path))?;
            match &*state {
                State::Open(database) => read(database, &shared.notifier),
                State::Broken(error) => Err(error.clone()),
                State::Closed => Err(StoreError::Closed),
            }
        });
        let failed = |error| files::failed("reading", &self.path, &error);
        reading.await.map_err(failed)?
    }
}

#[async_trait]
impl Store for Embedded {
    async fn get(&self, key: &[u8]) -> Result<Option<Record>, StoreError> {
        let key = key.to_vec();
        self.read(move |database, _| database.get(&key)).await
    }

    async fn scan(&self, prefix: &[u8]) -> Result<(Vec<Record>, Revision), StoreError> {
        let prefix = prefix.to_vec();
        self.read(move |database, _| Ok((database.scan(&prefix)?, database.revision())))
            .await
    }

    async fn page(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        page: Page,
    ) -> Result<Vec<Record>, StoreError> {
        let prefix = prefix.to_vec();
        let after = after.map(<[u8]>::to_vec);
        self.read(move |database, _| database.page(&prefix, after.as_deref(), page))
            .await
    }

    async fn commit(&self, batch: Batch) -> Result<Revision, StoreError> {
        batch.check()?;
        let requests = {
            let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.clone().ok_or(StoreError::Closed)?
        };
        let (answer, answered) = oneshot::channel();
        let request = Request { batch, answer };
        let gone = |_| dead_writer(&self.path);
        requests.send(request).await.map_err(gone)?;
        drop(requests);
        answered.await.map_err(|_| dead_writer(&self.path))?
    }

    async fn watch(&self, prefix: &[u8], after: Revision) -> Result<Watch, StoreError> {
        let prefix = prefix.to_vec();
        // Under the lock no commit is published, so none falls between the
        // past and the live part of the watch.
        self.read(move |database, notifier| {
            let past = database.since(&prefix, after)?;
            Ok(notifier.watch(&prefix, past, None))
        })
        .await
    }

    async fn close(&self) {
        let requests = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.take()
        };
        drop(requests);
        let mut writer = self.writer.lock().await;
        let Some(thread) = writer.take() else {
            return;
        };
        // Its end is all that counts: a panic has been told where it happened.
        tokio::task::spawn_blocking(move || thread.join())
            .await
            .ok();
    }
}

fn dead_writer(path: &Path) -> StoreError {
    StoreError::Broken {
        path: path.to_owned(),
        cause: "its writer has ended".to_owned(),
    }
}

#[cfg(test)]
mod tests;
