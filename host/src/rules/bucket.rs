//! So much at once, and as much again each minute. It reads no clock: whoever
//! asks says what time it is.

use std::time::Duration;

/// Milliseconds in a minute, and how finely a bucket is filled.
const MINUTE: u64 = 60_000;

/// What is left of a minute's worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// A minute's worth, in whole units.
    most: u64,
    /// What is left, in units of one 60,000th.
    left: u64,
    /// Until when it has been filled.
    at: Duration,
}

impl Bucket {
    /// A full one, at this time.
    #[must_use]
    pub fn full(most: u64, now: Duration) -> Self {
        Self {
            most,
            left: most.saturating_mul(MINUTE),
            at: now,
        }
    }

    /// How long until this much is there; none when it is. Never longer than a
    /// minute, in which a bucket fills: more than that it never holds.
    pub fn lacks(&mut self, wanted: u64, now: Duration) -> Option<Duration> {
        self.fill(now);
        let missing = wanted.saturating_mul(MINUTE).checked_sub(self.left)?;
        if missing == 0 {
            return None;
        }
        let wait = missing.div_ceil(self.most.max(1)).min(MINUTE);
        Some(Duration::from_millis(wait))
    }

    /// Takes this much out.
    pub fn spend(&mut self, spent: u64) {
        self.left = self.left.saturating_sub(spent.saturating_mul(MINUTE));
    }

    /// Whether nothing is missing.
    pub fn is_full(&mut self, now: Duration) -> bool {
        self.lacks(self.most, now).is_none()
    }

    fn fill(&mut self, now: Duration) {
        // A clock that went back fills nothing.
        let since = now.saturating_sub(self.at);
        let passed = u64::try_from(since.as_millis()).unwrap_or(MINUTE);
        let more = passed.min(MINUTE).saturating_mul(self.most);
        self.left = self
            .left
            .saturating_add(more)
            .min(self.most.saturating_mul(MINUTE));
        // What is no whole millisecond counts the next time.
        self.at += Duration::from_millis(passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn it_gives_a_minutes_worth_and_fills_as_time_goes_by() {
        let mut bucket = Bucket::full(600, at(0));
        let mut check = |now: u64, wanted: u64, wait: Option<u64>| {
            assert_eq!(
                bucket.lacks(wanted, at(now)),
                wait.map(at),
                "{wanted} at {now}"
            );
            if wait.is_none() {
                bucket.spend(wanted);
            }
        };
        check(0, 600, None);
        check(0, 0, None);
        check(0, 1, Some(100));
        check(99, 1, Some(1));
        check(100, 1, None);
        check(100, 600, Some(60_000));
        check(30_100, 301, Some(100));
        check(30_100, 300, None);
        // It holds no more than a minute's worth, however long nobody asks.
        check(1_000_000, 601, Some(100));
        check(1_000_000, 600, None);
        // Nothing comes of a clock that goes back.
        check(900_000, 1, Some(100));
        check(1_000_100, 1, None);
    }

    #[test]
    fn it_is_full_when_nothing_is_missing() {
        let mut bucket = Bucket::full(60, at(0));
        bucket.spend(1);
        assert!(!bucket.is_full(at(999)));
        assert!(bucket.is_full(at(1_000)));
    }

    #[test]
    fn small_steps_lose_nothing() {
        let mut bucket = Bucket::full(1, at(0));
        bucket.spend(1);
        for step in 1..240 {
            assert!(
                bucket
                    .lacks(1, Duration::from_micros(step * 250_333))
                    .is_some(),
                "{step}"
            );
        }
        assert_eq!(bucket.lacks(1, at(60_000)), None);
    }
}
