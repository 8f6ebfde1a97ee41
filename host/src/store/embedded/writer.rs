//! The one thread that writes: it takes every batch that waits, puts them on
//! disk together, and only then answers any of them.

use std::sync::{PoisonError, RwLock};

use tokio::sync::{mpsc, oneshot};

use crate::store::embedded::database::Database;
use crate::store::notify::Notifier;
use crate::store::{Batch, Change, Revision, StoreError};

/// How much goes to disk together, about. sled moves what still counts out of an
/// old segment (512 KiB) and writes over it a segment or more later: with groups
/// this small, a sync lies in between, and the disk has the copy by then.
const GROUP_BYTES: usize = 128 * 1024;
const GROUP_BATCHES: usize = 256;

/// A batch and who waits for it.
pub(super) struct Request {
    pub(super) batch: Batch,
    pub(super) answer: oneshot::Sender<Result<Revision, StoreError>>,
}

/// What readers and the writer share.
pub(super) struct Shared {
    /// The writer holds this from its first change until the disk has the
    /// last: whoever reads under it sees only what is kept.
    pub(super) settled: RwLock<State>,
    pub(super) notifier: Notifier,
}

/// Whether the store still serves.
pub(super) enum State {
    /// It does.
    Open(Box<Database>),
    /// A write failed. What the disk holds is unknown, and a later sync that
    /// succeeds would prove nothing: the kernel reports a failed page once.
    Broken(StoreError),
    /// It was closed.
    Closed,
}

/// Serves until every sender is gone, then lets go of the database.
pub(super) fn run(mut queue: mpsc::Receiver<Request>, shared: &Shared) {
    while let Some(first) = queue.blocking_recv() {
        settle(gather(first, &mut queue), shared);
    }
    // A reader can hold the lock only for as long as its read takes.
    let mut state = shared
        .settled
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    *state = State::Closed;
    shared.notifier.end(&StoreError::Closed, || true);
}

/// Everything that waits already, up to the size of a group.
fn gather(first: Request, queue: &mut mpsc::Receiver<Request>) -> Vec<Request> {
    let mut bytes = size(&first.batch);
    let mut requests = vec![first];
    while bytes < GROUP_BYTES && requests.len() < GROUP_BATCHES {
        let Ok(next) = queue.try_recv() else {
            break;
        };
        bytes += size(&next.batch);
        requests.push(next);
    }
    requests
}

fn settle(requests: Vec<Request>, shared: &Shared) {
    let mut state = shared
        .settled
        .write()
        .unwrap_or_else(PoisonError::into_inner);
    let database = match &mut *state {
        State::Open(database) => database,
        State::Broken(error) => return refuse(requests, &error.clone()),
        State::Closed => return refuse(requests, &StoreError::Closed),
    };
    let mut group = database.group();
    let mut answers = Vec::new();
    for Request { batch, answer } in requests {
        answers.push((answer, database.admit(batch, &mut group)));
    }
    if !group.is_empty() {
        match database.put_on_disk(group) {
            Ok(commits) => commits
                .iter()
                .for_each(|commit| shared.notifier.publish(commit)),
            Err(error) => {
                tracing::error!(%error, "the store takes nothing more");
                let broken = StoreError::Broken {
                    path: database.path().to_owned(),
                    cause: error.to_string(),
                };
                shared.notifier.end(&broken, || true);
                *state = State::Broken(broken.clone());
                for (_, result) in &mut answers {
                    *result = Err(broken.clone());
                }
            }
        }
    }
    drop(state);
    for (answer, result) in answers {
        // Whoever stopped waiting does not hear it.
        answer.send(result).ok();
    }
}

fn refuse(requests: Vec<Request>, error: &StoreError) {
    for request in requests {
        request.answer.send(Err(error.clone())).ok();
    }
}

fn size(batch: &Batch) -> usize {
    let changes = batch.changes.iter();
    changes
        .map(|change| match change {
            Change::Put(key, value) => key.len() + value.len(),
            Change::Delete(key) => key.len(),
        })
        .sum()
}
