//! Guesses at a second factor. Whoever has the password has endless tries otherwise: three codes of a million are good at any
//! time, so ten tries in a quarter of an hour find one within 240 days as likely as not. The count is kept with the factor: it
//! outlives a restart, and the right password gives nothing of it back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::time::UnixTime;

/// Failures in a row after which the factor opens nothing, until another one of its owner's or an administrator frees it. NIST
/// SP 800-63B allows a hundred.
pub const MOST_FACTOR_FAILURES: u32 = 50;

/// Failures in a row that cost no wait. At the last of them its owner is told: somebody knows the password.
const FREE: u32 = 5;

/// The wait after the first failure that costs one. It doubles with each that follows.
const FIRST_WAIT: Duration = Duration::from_secs(30);

/// The longest wait. Its owner has to wait as well.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// The failures of one factor since its last success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FactorFailures {
    count: u32,
    /// When the last one was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<UnixTime>,
}

/// Whether the factor may be tried. It is asked before the answer is looked at: one that comes too early is neither judged nor
/// counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryVerdict {
    Free,
    /// Not before this instant.
    Wait(UnixTime),
    /// Not until it is freed.
    Blocked,
}

/// What a failure leads to besides its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureNotice {
    None,
    /// The owner is told that somebody tries.
    TellOwner,
    /// The factor is blocked from now on; the owner is told.
    Blocked,
}

impl FactorFailures {
    /// Whether the factor may be tried now.
    pub fn verdict(&self, now: UnixTime) -> TryVerdict {
        if self.count >= MOST_FACTOR_FAILURES {
            return TryVerdict::Blocked;
        }
        let Some(last) = self.last else { return TryVerdict::Free };
        let until = last.plus(self.wait());
        // A clock that was moved back before the failure would hold its owner off for as long as it was moved.
        if (last..until).contains(&now) { TryVerdict::Wait(until) } else { TryVerdict::Free }
    }

    /// The count with one failure more.
    #[must_use]
    pub fn failed(&self, now: UnixTime) -> (Self, FailureNotice) {
        let count = self.count.saturating_add(1);
        let notice = match count {
            FREE => FailureNotice::TellOwner,
            MOST_FACTOR_FAILURES => FailureNotice::Blocked,
            _ => FailureNotice::None,
        };
        (Self { count, last: Some(now) }, notice)
    }

    /// The count after a success with this factor, which only a factor that is free can have. A factor that is blocked is freed
    /// by replacing its count with [`FactorFailures::default`].
    #[must_use]
    pub fn succeeded(&self) -> Self {
        if self.is_blocked() { *self } else { Self::default() }
    }

    /// How many, in a row.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether it opens nothing until it is freed.
    pub const fn is_blocked(&self) -> bool {
        self.count >= MOST_FACTOR_FAILURES
    }

    fn wait(&self) -> Duration {
        match self.count.checked_sub(FREE + 1) {
            None => Duration::ZERO,
            Some(doublings) => {
                FIRST_WAIT.saturating_mul(2_u32.checked_pow(doublings).unwrap_or(u32::MAX)).min(LONGEST_WAIT)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    fn after(failures: u32, now: UnixTime) -> FactorFailures {
        (0..failures).fold(FactorFailures::default(), |count, _| count.failed(now).0)
    }

    #[test]
    fn the_first_five_cost_nothing_and_each_more_doubles_the_wait() {
        let now = at(1_000_000);
        for failures in 0..=5 {
            assert_eq!(after(failures, now).verdict(now), TryVerdict::Free);
        }
        for (failures, wait) in [(6, 30), (7, 60), (8, 120), (12, 1920), (13, 3600), (49, 3600)] {
            let until = at(1_000_000 + wait);
            let count = after(failures, now);
            assert_eq!(count.verdict(now), TryVerdict::Wait(until), "{failures}");
            assert_eq!(count.verdict(at(until.seconds() - 1)), TryVerdict::Wait(until));
            assert_eq!(count.verdict(until), TryVerdict::Free);
        }
    }

    #[test]
    fn at_fifty_nothing_but_another_factor_helps() {
        let mut count = FactorFailures::default();
        for failure in 1..=60 {
            let (next, notice) = count.failed(at(failure * 10_000));
            count = next;
            let expected = match failure {
                5 => FailureNotice::TellOwner,
                50 => FailureNotice::Blocked,
                _ => FailureNotice::None,
            };
            assert_eq!(notice, expected, "{failure}");
            assert_eq!(count.is_blocked(), failure >= 50);
        }
        assert_eq!(count.verdict(at(u64::MAX)), TryVerdict::Blocked);
        assert_eq!(count.succeeded(), count);
        assert_eq!(FactorFailures { count: u32::MAX, last: None }.failed(at(1)).0.count(), u32::MAX);
    }

    #[test]
    fn a_success_ends_the_row() {
        let count = after(9, at(100)).succeeded();
        assert_eq!(count.count(), 0);
        assert_eq!(count.verdict(at(100)), TryVerdict::Free);
    }

    #[test]
    fn a_clock_that_was_moved_back_holds_nobody_off() {
        assert_eq!(after(9, at(1_000_000)).verdict(at(10)), TryVerdict::Free);
    }

    #[test]
    fn the_count_survives_its_stored_form() {
        for count in [FactorFailures::default(), after(9, at(100))] {
            let stored = serde_json::to_string(&count).unwrap();
            assert_eq!(serde_json::from_str::<FactorFailures>(&stored).unwrap(), count);
        }
    }
}
