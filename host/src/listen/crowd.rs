//! Who is connected. There is room for so many; when it is full, those who have
//! lain unused for longest give theirs to whoever comes next, so that
//! connections which ask for nothing keep nobody out.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::listen::traffic::Traffic;

/// How many are asked to leave at a time: looking for them takes a look at
/// everybody.
const LEAVING: usize = 16;

/// How long to wait before somebody else may have come to lie unused.
const AGAIN: Duration = Duration::from_millis(50);

/// How long everybody may lie unused: who has just come will soon ask for
/// something.
const GRACE: Duration = Duration::from_secs(1);

pub(super) struct Crowd {
    room: Arc<Semaphore>,
    present: Mutex<HashMap<u64, Arc<Traffic>>>,
    next: AtomicU64,
    count: Arc<AtomicU64>,
}

/// A connection's place, for as long as it lives.
pub(super) struct Place {
    crowd: Arc<Crowd>,
    number: u64,
    _room: OwnedSemaphorePermit,
}

impl Crowd {
    /// Room for `most`; `count` says how many there are.
    pub(super) fn new(most: usize, count: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            present: Mutex::default(),
            next: AtomicU64::new(0),
            count,
        })
    }

    /// Waits for a place; none once the host takes nobody any more.
    pub(super) async fn place(self: &Arc<Self>, traffic: &Arc<Traffic>) -> Option<Place> {
        let room = loop {
            if let Ok(room) = self.room.clone().try_acquire_owned() {
                break room;
            }
            self.make_room();
            tokio::select! {
                room = self.room.clone().acquire_owned() => break room.ok()?,
                () = tokio::time::sleep(AGAIN) => {}
            }
        };
        // Waiting for a place is not lying unused in it.
        traffic.give_notice();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.present().insert(number, traffic.clone());
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(Place {
            crowd: self.clone(),
            number,
            _room: room,
        })
    }

    /// Asks those to leave who have lain unused for longest.
    fn make_room(&self) {
        let present = self.present();
        let mut unused: Vec<_> = present
            .values()
            .filter_map(|traffic| Some((traffic.unused_since()?, traffic)))
            .filter(|(since, _)| since.elapsed() >= GRACE)
            .collect();
        if unused.len() > LEAVING {
            unused.select_nth_unstable_by_key(LEAVING, |(since, _)| *since);
            unused.truncate(LEAVING);
        }
        for (_, traffic) in unused {
            traffic.ask_to_leave();
        }
    }

    fn present(&self) -> MutexGuard<'_, HashMap<u64, Arc<Traffic>>> {
        // A single insert or remove cannot leave it half done.
        self.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.present().remove(&self.number);
        self.crowd.count.fetch_sub(1, Ordering::Relaxed);
    }
}
