//! Where a plugin's code runs.
//!
//! A decision takes some 20 µs, and another 30 where both its calls are handed
//! to another thread and waited for. So a call begins on the thread that asks.
//! Where it still computes after its second tick (1 to 2 ms), it is left, and
//! goes on in the blocking pool, a slice at a time: calls that run on take turns
//! at a few threads, and those of one plugin at half of these. So an async
//! thread is held for 3 ms at most, and a call that took longer only because
//! the machine is busy is done at its next turn, however many loops run beside
//! it.
//!
//! A plugin that has just run on begins in the blocking pool as well for a
//! while, so that it cannot take an async thread's time again and again. A call
//! that did not run while others had the core has not run on: on a busy machine
//! that happens to every plugin all the time.
//!
//! A call that nobody waits for any more is dropped, whole and with its store,
//! at the end of its slice.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::sync::Semaphore;

use crate::plugins::engine::{Machine, TICK};
use crate::plugins::error::Fault;

/// How many calls a plugin begins on other threads after one ran on: twice as
/// many each time that one runs on soon after, since a busy machine can make
/// any call run on once, and a loop does so always.
const DISTRUST: [u32; 2] = [4, 256];

/// How many calls that did not run on make it as trusted as ever.
const TRUST: u32 = 1024;

/// For how many ticks a call runs on before the next has its turn.
pub(crate) const SLICE: u64 = 5;

/// A call that is being made: it owns its instance.
pub(crate) type Call<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;

/// One plugin's way through the threads.
pub(crate) struct Lane {
    machine: Arc<Machine>,
    turns: Semaphore,
    /// How many calls more begin on other threads.
    distrust: AtomicU32,
    /// How many did so after one ran on the last time, and how many have not
    /// run on since.
    last: AtomicU32,
    since: AtomicU32,
}

impl Lane {
    pub(crate) fn new(machine: Arc<Machine>) -> Self {
        Self {
            turns: Semaphore::new(machine.turns_of_one),
            machine,
            distrust: AtomicU32::new(0),
            last: AtomicU32::new(0),
            since: AtomicU32::new(0),
        }
    }

    /// Makes a call that ends itself at its second tick. None where it is not
    /// to be made on this thread, or did not come to an end of its own.
    pub(crate) fn here<T, E>(
        &self,
        call: impl FnOnce() -> Result<T, E>,
        ran_on: impl FnOnce(&E) -> bool,
    ) -> Option<Result<T, E>> {
        if !self.is_trusted() {
            return None;
        }
        let _running = self.machine.ticker.run();
        let done = call();
        if done.as_ref().is_err_and(ran_on) {
            self.ran_on();
            return None;
        }
        Some(done)
    }

    /// Makes a call, for at most `time` of computing.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        time: Duration,
        mut call: Call<T>,
    ) -> Result<T, Fault> {
        if !self.is_trusted() {
            return self.run_apart(time, call).await;
        }
        let _running = self.machine.ticker.run();
        if let Poll::Ready(done) = poll_once(&mut call) {
            return done;
        }
        self.ran_on();
        self.run_on(time, call).await
    }

    /// Makes a call off this thread from its beginning.
    pub(crate) async fn run_apart<T: Send + 'static>(
        &self,
        time: Duration,
        call: Call<T>,
    ) -> Result<T, Fault> {
        let _running = self.machine.ticker.run();
        let (call, polled) = self.elsewhere(call).await?;
        match polled {
            Poll::Ready(done) => done,
            Poll::Pending => {
                self.ran_on();
                self.run_on(time, call).await
            }
        }
    }

    async fn run_on<T: Send + 'static>(&self, time: Duration, call: Call<T>) -> Result<T, Fault> {
        let limit = self.machine.limits.wait.saturating_add(time);
        match tokio::time::timeout(limit, self.go_on(time, call)).await {
            Ok(done) => done,
            Err(_) => Err(Fault::Busy),
        }
    }

    async fn go_on<T: Send + 'static>(
        &self,
        time: Duration,
        mut call: Call<T>,
    ) -> Result<T, Fault> {
        // The epoch ends guest code. The count ends a guest that waits in the
        // host: none of our stubs waits, and none is meant to.
        for _ in 0..ticks(time) / SLICE + 2 {
            let _own = self.turns.acquire().await;
            let _all = self.machine.turns.acquire().await;
            let polled;
            (call, polled) = self.elsewhere(call).await?;
            if let Poll::Ready(done) = polled {
                return done;
            }
        }
        Err(Fault::TimedOut(millis(time)))
    }

    /// Runs a slice of a call in the blocking pool.
    async fn elsewhere<T: Send + 'static>(
        &self,
        mut call: Call<T>,
    ) -> Result<(Call<T>, Poll<Result<T, Fault>>), Fault> {
        // The slice goes on when nobody waits for it any more, and ends by the
        // clock: so it keeps the clock alive, and awake.
        let machine = Arc::clone(&self.machine);
        let slice = tokio::task::spawn_blocking(move || {
            let _running = machine.ticker.run();
            let polled = poll_once(&mut call);
            (call, polled)
        });
        // A panic in there is the host's, and has been reported.
        slice.await.map_err(|_| Fault::Host)
    }

    /// A call ran on. Of several at once one may count for all.
    fn ran_on(&self) {
        let [least, most] = DISTRUST;
        let again = self.since.swap(0, Ordering::Relaxed) < TRUST;
        let last = self.last.load(Ordering::Relaxed);
        let next = if again && last > 0 {
            last.saturating_mul(2).min(most)
        } else {
            least
        };
        self.last.store(next, Ordering::Relaxed);
        self.distrust.store(next, Ordering::Relaxed);
    }

    fn is_trusted(&self) -> bool {
        self.since.fetch_add(1, Ordering::Relaxed);
        let left = self
            .distrust
            .try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        left.is_err()
    }
}

/// Whether a call still computes at its second tick, or had to stand still.
#[derive(Debug, Default)]
pub(crate) struct Doubt {
    /// What its thread had computed when it was first looked at.
    since: Option<Duration>,
}

impl Doubt {
    /// Looks at a call whose thread has computed for so long; says whether it
    /// runs on.
    pub(crate) fn look(&mut self, computed: Duration) -> bool {
        let since = *self.since.get_or_insert(computed);
        computed.saturating_sub(since) >= TICK / 2
    }
}

/// For how long this thread has computed since it was made.
pub(crate) fn computed() -> Duration {
    let told = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(told).unwrap_or_default()
}

/// Whole ticks in a stretch of time, at least one.
pub(crate) fn ticks(time: Duration) -> u64 {
    (millis(time) / millis(TICK).max(1)).max(1)
}

pub(crate) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn poll_once<T>(call: &mut Call<T>) -> Poll<Result<T, Fault>> {
    // Whoever polls polls again: nothing waits to be woken.
    call.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ThreadId};

    use super::*;
    use crate::plugins::CallLimits;

    const TIME: Duration = Duration::from_secs(60);

    /// A call that says where it began, after this many slices.
    fn call(mut slices: u32) -> Call<ThreadId> {
        let mut began = None;
        Box::pin(std::future::poll_fn(move |_| {
            let began = *began.get_or_insert_with(|| thread::current().id());
            if slices == 0 {
                return Poll::Ready(Ok(began));
            }
            slices -= 1;
            Poll::Pending
        }))
    }

    #[test]
    fn a_call_that_stood_still_has_not_run_on() {
        let ms = Duration::from_millis;
        // What a thread has computed at each tick from the second one on.
        let check = |ticks: &[Duration], expected: Option<usize>| {
            let mut doubt = Doubt::default();
            let left = ticks.iter().position(|computed| doubt.look(*computed));
            assert_eq!(left, expected, "{ticks:?}");
        };
        check(&[ms(7), ms(8)], Some(1));
        check(&[ms(7), ms(7), ms(7), ms(7)], None);
        check(&[ms(7), ms(7), ms(7), ms(8)], Some(3));
        let little = Duration::from_micros(200);
        check(
            &[
                ms(7),
                ms(7) + little,
                ms(7) + 2 * little,
                ms(7) + 3 * little,
            ],
            Some(3),
        );
    }

    #[tokio::test]
    async fn a_plugin_that_ran_on_begins_elsewhere_for_a_while() {
        let machine = Arc::new(Machine::new(CallLimits::default()).unwrap());
        let lane = Lane::new(machine);
        let here = thread::current().id();
        let begins = async |slices| lane.run(TIME, call(slices)).await.unwrap();
        assert_eq!(begins(0).await, here);
        assert_eq!(begins(3).await, here);
        for _ in 0..DISTRUST[0] {
            assert_ne!(begins(0).await, here);
        }
        assert_eq!(begins(0).await, here);
        // Soon after it runs on again, and again: for twice as long each time.
        let mut last = DISTRUST[0];
        while last < DISTRUST[1] {
            assert_eq!(begins(3).await, here);
            last *= 2;
            for _ in 0..last {
                assert_ne!(begins(0).await, here);
            }
        }
        assert_eq!(begins(3).await, here);
        for _ in 0..DISTRUST[1] {
            assert_ne!(begins(0).await, here);
        }
        // After many that did not, it begins anew.
        for _ in 0..TRUST {
            assert_eq!(begins(0).await, here);
        }
        assert_eq!(begins(3).await, here);
        for _ in 0..DISTRUST[0] {
            assert_ne!(begins(0).await, here);
        }
        assert_eq!(begins(0).await, here);
    }
}
