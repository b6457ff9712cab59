//! Progressive delays for guesses instead of lockouts.
//!
//! The first failures are free. Each further failure doubles the delay before the next attempt, up
//! to a maximum. Failures are forgotten over time. The caller chooses the keys and the parameters.
//! Decisions depend only on the failures and the given time.

use std::time::Duration;

/// Maximum difference between the clocks of two nodes in seconds. Each clock may differ from the
/// database's clock by two seconds, and rounding adds one second.
const MAX_CLOCK_DIFFERENCE: u64 = 5;

/// Parameters of the delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Number of failures before the first delay.
    pub free: u32,
    /// Interval in which `at_a_time` failures are forgotten, in whole seconds, at least one.
    pub forgets: Duration,
    /// Number of failures forgotten per interval, at least one.
    pub at_a_time: u32,
    /// Maximum delay in whole seconds, at least one.
    pub longest: Duration,
    /// Whether the first delay already is the maximum delay.
    pub is_strict: bool,
}

impl Pace {
    /// Creates delays that permit `limit` failures at once, and an average of `limit` failures per
    /// window.
    pub fn even(limit: u32, window: Duration) -> Self {
        let limit = limit.max(1);
        let step = (window / limit).max(Duration::from_secs(1));
        // With a limit above one per second, several failures are forgotten each second.
        let a_second = u64::from(limit).div_ceil(window.as_secs().max(1));
        Self {
            free: limit,
            forgets: step,
            at_a_time: u32::try_from(a_second).unwrap_or(limit),
            longest: step,
            is_strict: false,
        }
    }

    /// Creates delays that permit at most `limit` failures in any window, at least one.
    ///
    /// For accounts that another server locks after some failures. Half of the failures are
    /// permitted at once. The other half may follow when the first interval ends.
    pub fn strict(limit: u32, window: Duration) -> Self {
        let window = window.max(Duration::from_secs(1));
        let free = limit.max(1).div_ceil(2);
        Self { free, forgets: window, at_a_time: free, longest: window, is_strict: true }
    }

    /// Creates delays that permit `limit` failures at once, and then one failure per window.
    pub fn steep(limit: u32, window: Duration) -> Self {
        let window = window.max(Duration::from_secs(1));
        Self { free: limit.max(1), forgets: window, at_a_time: 1, longest: window, is_strict: false }
    }

    /// Returns the delay after this number of failures, in seconds.
    fn wait(self, failures: u32) -> u64 {
        let Some(excess) = failures.checked_sub(self.free) else { return 0 };
        if self.is_strict {
            return self.longest.as_secs().max(1);
        }
        1_u64.checked_shl(excess).unwrap_or(u64::MAX).min(self.longest.as_secs().max(1))
    }

    /// Returns the maximum count. Further failures would not increase the delay and are not
    /// counted, so that the delay decreases soon after the last failure.
    fn max_count(self) -> u32 {
        self.free.saturating_add(u64::BITS - self.longest.as_secs().leading_zeros())
    }
}

/// Stored failures of one key. Times are seconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    /// Start of the current interval. At its end, the next failures are forgotten.
    pub since: u64,
    /// Time of the next allowed attempt.
    pub next: u64,
    /// Number of failures that are not forgotten yet.
    pub count: u32,
    /// Value of [`Pace::free`] at the last attempt.
    pub free: u32,
    /// Value of [`Pace::forgets`] at the last attempt, in seconds.
    pub forgets: u32,
    /// Value of [`Pace::at_a_time`] at the last attempt.
    pub at_a_time: u32,
}

/// Effect of a counted attempt: the time of the next allowed attempt, before and after the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    pub before: u64,
    pub after: u64,
}

impl Failures {
    /// Creates an empty record.
    pub fn none(now: u64) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Removes old failures from the count. If the clock was set back, removes none and does not
    /// prolong a delay.
    ///
    /// `now` may be slightly earlier than in the previous call, if another node with a faster clock
    /// made that call. `since` then stays unchanged. If `since` followed the slower clock, nodes
    /// that alternate would forget the same failures repeatedly.
    pub fn forget(&mut self, now: u64) {
        if self.since > now.saturating_add(MAX_CLOCK_DIFFERENCE) {
            self.since = now;
        }
        let forgets = u64::from(self.forgets.max(1));
        let times = now.saturating_sub(self.since) / forgets;
        let forgotten = times.saturating_mul(u64::from(self.at_a_time.max(1)));
        self.count = self.count.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX));
        self.since += times * forgets;
        if self.count == 0 {
            self.since = now;
        }
    }

    /// Returns the seconds until the next attempt, or 0 if an attempt is allowed now.
    pub fn wait(&mut self, pace: Pace, now: u64) -> u64 {
        self.forget(now);
        self.next = self.next.min(now.saturating_add(pace.longest.as_secs().max(1)));
        if self.count < pace.free { 0 } else { self.next.saturating_sub(now) }
    }

    /// Counts an attempt.
    ///
    /// # Errors
    /// Returns the seconds to wait. In this case, nothing is counted.
    pub fn take(&mut self, pace: Pace, now: u64) -> Result<Moved, u64> {
        let wait = self.wait(pace, now);
        if wait > 0 {
            return Err(wait);
        }
        self.free = pace.free;
        self.forgets = u32::try_from(pace.forgets.as_secs()).unwrap_or(u32::MAX);
        self.at_a_time = pace.at_a_time;
        self.count = self.count.saturating_add(1).min(pace.max_count());
        let before = self.next;
        self.next = now.saturating_add(pace.wait(self.count));
        Ok(Moved { before, after: self.next })
    }

    /// Removes an attempt from the count.
    pub fn give_back(&mut self, moved: Moved, now: u64) {
        self.forget(now);
        self.count = self.count.saturating_sub(1);
        if self.next == moved.after {
            self.next = moved.before;
        }
    }

    /// Returns the time at which the last failure is forgotten. From that time, the record equals
    /// an empty one.
    pub fn over_at(&self) -> u64 {
        let times = u64::from(self.count.div_ceil(self.at_a_time.max(1)));
        self.since.saturating_add(times.saturating_mul(u64::from(self.forgets.max(1))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_mins(15);

    #[test]
    fn a_record_expires_when_its_last_failure_is_forgotten() {
        for pace in [Pace::even(10, WINDOW), Pace::steep(2, WINDOW), Pace::even(100_000, WINDOW)] {
            let (mut failures, mut now) = (Failures::none(1000), 1000);
            for _ in 0..40 {
                while let Err(wait) = failures.take(pace, now) {
                    now += wait;
                }
            }
            let over_at = failures.over_at();
            let left = |at: u64| {
                let mut then = failures;
                then.forget(at);
                then.count
            };
            assert!(left(over_at - 1) > 0 && left(over_at) == 0, "{pace:?}: {failures:?}");
        }
    }

    #[test]
    fn different_clocks_forget_no_more_than_one_of_them() {
        for pace in [Pace::even(4500, WINDOW), Pace::even(100, WINDOW)] {
            let (mut failures, mut allowed) = (Failures::none(1000), 0);
            for attempt in 0..20_000 {
                let mut next = failures;
                // Rejected attempts are not stored.
                if next.take(pace, 1000 + attempt % 2 * 4).is_ok() {
                    failures = next;
                    allowed += 1;
                }
            }
            // The sum includes attempts that were allowed because of the faster clock.
            assert!(allowed <= pace.free + 5 * pace.at_a_time, "{pace:?}: {allowed}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_does_not_extend_a_wait() {
        let pace = Pace::steep(1, WINDOW);
        let mut failures = Failures::none(100_000);
        assert!(failures.take(pace, 100_000).is_ok() && failures.take(pace, 100_000).is_err());
        failures.forget(50_000 + WINDOW.as_secs());
        assert_eq!(failures.count, 1);
        failures.forget(50_000 + 2 * WINDOW.as_secs());
        assert_eq!(failures.count, 0);
    }
}
