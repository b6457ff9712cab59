//! Guesses that slow down instead of being shut out: so many failures are free, each further one doubles the wait until the
//! next attempt, up to a longest wait, and failures are forgotten one by one. Whoever may wait, and for how long a failure
//! counts, is the caller's business; a decision is pure arithmetic on the given time.

use std::time::Duration;

/// Seconds that the clocks of two nodes may differ by: two each from the database's, and parts of a second.
const CLOCKS_APART: u64 = 5;

/// How a key is slowed down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Failures before the first wait.
    pub free: u32,
    /// After how long failures are forgotten, in whole seconds, at least one.
    pub forgets: Duration,
    /// How many then, at least one.
    pub at_a_time: u32,
    /// The longest wait, in whole seconds, at least one.
    pub longest: Duration,
}

impl Pace {
    /// `limit` failures at once, and no more than `limit` a window for as long as somebody goes on.
    pub fn even(limit: u32, window: Duration) -> Self {
        let limit = limit.max(1);
        let step = (window / limit).max(Duration::from_secs(1));
        // Of a limit above one a second, several are forgotten each second.
        let a_second = u64::from(limit).div_ceil(window.as_secs().max(1));
        Self { free: limit, forgets: step, at_a_time: u32::try_from(a_second).unwrap_or(limit), longest: step }
    }

    /// `limit` failures at once, and one a window for as long as somebody goes on.
    pub fn steep(limit: u32, window: Duration) -> Self {
        let window = window.max(Duration::from_secs(1));
        Self { free: limit.max(1), forgets: window, at_a_time: 1, longest: window }
    }

    /// The wait after so many failures, seconds.
    fn wait(self, failures: u32) -> u64 {
        let Some(excess) = failures.checked_sub(self.free) else { return 0 };
        1_u64.checked_shl(excess).unwrap_or(u64::MAX).min(self.longest.as_secs().max(1))
    }

    /// More failures than this change no wait: they are not counted, so that the wait falls soon after the last one.
    fn most(self) -> u32 {
        self.free.saturating_add(u64::BITS - self.longest.as_secs().leading_zeros())
    }
}

/// What is kept of one key's failures. Times are seconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    /// When the next failure begins to be forgotten.
    pub since: u64,
    /// From when on the next attempt is allowed.
    pub next: u64,
    pub count: u32,
    /// The pace of the last attempt.
    pub free: u32,
    pub forgets: u32,
    pub at_a_time: u32,
}

/// From when on the next attempt was allowed, before one that was counted and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    pub before: u64,
    pub after: u64,
}

impl Failures {
    /// None yet.
    pub fn none(now: u64) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Forgets what is old enough. A clock that went back forgets nothing, and does not make anything wait for it. One that is
    /// a little behind the one before is another node's: were the failures dated back for it, the next look by the clock that is
    /// ahead would forget some of them again, and so each time that the two take turns.
    pub fn forget(&mut self, now: u64) {
        if self.since > now.saturating_add(CLOCKS_APART) {
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

    /// Seconds until the next attempt; 0 when it is allowed.
    pub fn wait(&mut self, pace: Pace, now: u64) -> u64 {
        self.forget(now);
        self.next = self.next.min(now.saturating_add(pace.longest.as_secs().max(1)));
        if self.count < pace.free { 0 } else { self.next.saturating_sub(now) }
    }

    /// Counts an attempt.
    ///
    /// # Errors
    /// Seconds to wait before the next one; nothing is counted then.
    pub fn take(&mut self, pace: Pace, now: u64) -> Result<Moved, u64> {
        let wait = self.wait(pace, now);
        if wait > 0 {
            return Err(wait);
        }
        self.free = pace.free;
        self.forgets = u32::try_from(pace.forgets.as_secs()).unwrap_or(u32::MAX);
        self.at_a_time = pace.at_a_time;
        self.count = self.count.saturating_add(1).min(pace.most());
        let before = self.next;
        self.next = now.saturating_add(pace.wait(self.count));
        Ok(Moved { before, after: self.next })
    }

    /// Takes the count of an attempt back.
    pub fn give_back(&mut self, moved: Moved, now: u64) {
        self.forget(now);
        self.count = self.count.saturating_sub(1);
        if self.next == moved.after {
            self.next = moved.before;
        }
    }

    /// When the last of them is forgotten: from then on they are as good as none.
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
    fn they_are_over_when_the_last_is_forgotten_and_not_before() {
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
    fn clocks_that_are_apart_forget_no_more_than_one_of_them() {
        for pace in [Pace::even(4500, WINDOW), Pace::even(100, WINDOW)] {
            let (mut failures, mut allowed) = (Failures::none(1000), 0);
            for attempt in 0..20_000 {
                let mut next = failures;
                // What is refused is not kept.
                if next.take(pace, 1000 + attempt % 2 * 4).is_ok() {
                    failures = next;
                    allowed += 1;
                }
            }
            // And what the clock that is ahead has seen pass.
            assert!(allowed <= pace.free + 5 * pace.at_a_time, "{pace:?}: {allowed}");
        }
    }

    #[test]
    fn a_clock_that_is_set_back_makes_nobody_wait_for_it() {
        let pace = Pace::steep(1, WINDOW);
        let mut failures = Failures::none(100_000);
        assert!(failures.take(pace, 100_000).is_ok() && failures.take(pace, 100_000).is_err());
        failures.forget(50_000 + WINDOW.as_secs());
        assert_eq!(failures.count, 1);
        failures.forget(50_000 + 2 * WINDOW.as_secs());
        assert_eq!(failures.count, 0);
    }
}
