//! What lives in memory, driven by the watch and by nothing else: whoever
//! commits waits here until memory shows it, so no line outside this folder
//! assumes that it is alone.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::store::{Revision, Store, StoreError};

/// How long a scan that failed for no known reason is left before the next.
const RETRY: Duration = Duration::from_secs(1);

/// A state in memory that follows the store. It is called by one task, in the
/// order of revisions.
pub trait Mirrored: Send + Sync + 'static {
    /// Forgets everything and takes these records.
    fn reset(&self, records: &[crate::store::Record]);

    /// Takes one change.
    fn apply(&self, event: &crate::store::Event);
}

/// The task that keeps a [`Mirrored`] in step. Dropping it ends the task.
#[derive(Debug)]
pub struct Mirror {
    applied: watch::Receiver<Revision>,
    task: JoinHandle<()>,
}

impl Mirror {
    /// Fills `into` with what the store holds below `prefix`, and follows it
    /// from there.
    ///
    /// # Errors
    /// When the first scan fails.
    pub async fn start(
        store: Arc<dyn Store>,
        prefix: &'static str,
        into: Arc<dyn Mirrored>,
    ) -> Result<Self, StoreError> {
        let (records, at) = store.scan(prefix.as_bytes()).await?;
        into.reset(&records);
        let (sender, applied) = watch::channel(at);
        let task = tokio::spawn(follow(store, prefix, into, sender));
        Ok(Self { applied, task })
    }

    /// Waits until every change up to `revision` has been applied: true. When
    /// the store is closed or broken before that, the change stays on disk and
    /// memory no longer follows: false.
    pub async fn reached(&self, revision: Revision) -> bool {
        let mut applied = self.applied.clone();
        applied.wait_for(|at| *at >= revision).await.is_ok()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(
    store: Arc<dyn Store>,
    prefix: &'static str,
    into: Arc<dyn Mirrored>,
    applied: watch::Sender<Revision>,
) {
    loop {
        let end = follow_watch(store.as_ref(), prefix, into.as_ref(), &applied).await;
        if is_final(&end) {
            tracing::debug!(prefix, reason = %end, "the mirror has ended");
            return;
        }
        // What was missed is not known, so everything is read again.
        while let Err(error) = rescan(store.as_ref(), prefix, into.as_ref(), &applied).await {
            if is_final(&error) {
                tracing::debug!(prefix, reason = %error, "the mirror has ended");
                return;
            }
            tracing::error!(prefix, %error, "the store cannot be scanned, trying again");
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Applies what comes until the watch ends, and returns why it did.
async fn follow_watch(
    store: &dyn Store,
    prefix: &str,
    into: &dyn Mirrored,
    applied: &watch::Sender<Revision>,
) -> StoreError {
    let from = *applied.borrow();
    let mut watch = match store.watch(prefix.as_bytes(), from).await {
        Ok(watch) => watch,
        Err(error) => return error,
    };
    loop {
        match watch.next().await {
            Ok(changes) => {
                changes.events.iter().for_each(|event| into.apply(event));
                applied.send_replace(changes.revision);
            }
            Err(error) => return error,
        }
    }
}

async fn rescan(
    store: &dyn Store,
    prefix: &str,
    into: &dyn Mirrored,
    applied: &watch::Sender<Revision>,
) -> Result<(), StoreError> {
    let (records, at) = store.scan(prefix.as_bytes()).await?;
    into.reset(&records);
    applied.send_replace(at);
    Ok(())
}

fn is_final(error: &StoreError) -> bool {
    match error {
        StoreError::Closed | StoreError::Broken { .. } => true,
        StoreError::Conflict
        | StoreError::TooLarge { .. }
        | StoreError::Malformed(_)
        | StoreError::Locked { .. }
        | StoreError::Compacted
        | StoreError::Lost
        | StoreError::Io { .. }
        | StoreError::Corrupt { .. } => false,
    }
}
