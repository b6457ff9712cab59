//! Counter of wrong guesses at a second factor.
//!
//! Without a limit, an attacker who has the password could guess codes. Three of a million codes
//! are valid at any time. At ten attempts per quarter of an hour, the attacker would succeed within
//! 240 days with a probability of one half.
//!
//! The count is stored with the factor. Neither a restart nor the correct password resets it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::time::UnixTime;

/// Number of consecutive failures after which the factor is blocked, until another factor of the
/// user or an administrator unblocks it. NIST SP 800-63B permits a hundred failures.
pub(crate) const MAX_FACTOR_FAILURES: u32 = 50;

/// Number of consecutive failures without a wait. After the last of them, the user is notified that
/// an attacker may know the password.
const FREE_FAILURES: u32 = 5;

/// Wait after the first failure beyond [`FREE_FAILURES`]. It doubles with each further failure.
const FIRST_WAIT: Duration = Duration::from_secs(30);

/// Maximum wait. It limits how long an attacker's failures can lock out the user.
const MAX_WAIT: Duration = Duration::from_hours(1);

/// Failures of a factor since its last success.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct FactorFailures {
    count: u32,
    /// Time of the last failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<UnixTime>,
}

/// Whether the factor may be tried. Decided before the attempt: an early attempt is neither
/// verified nor counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TryVerdict {
    Free,
    /// The factor may be tried from this time.
    Wait(UnixTime),
    /// The factor may not be tried until it is unblocked.
    Blocked,
}

/// Notification that a failure causes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureNotice {
    None,
    /// Notify the user of the failed attempts.
    TellOwner,
    /// Notify the user that the factor is now blocked.
    Blocked,
}

impl FactorFailures {
    /// Returns whether the factor may be tried now.
    pub fn verdict(&self, now: UnixTime) -> TryVerdict {
        if self.count >= MAX_FACTOR_FAILURES {
            return TryVerdict::Blocked;
        }
        let Some(last) = self.last else { return TryVerdict::Free };
        let until = last.plus(self.wait());
        // If the clock is set back to a time before the failure, the user does not have to wait for
        // the difference.
        if (last..until).contains(&now) { TryVerdict::Wait(until) } else { TryVerdict::Free }
    }

    /// Returns the count after one more failure.
    #[must_use]
    pub fn failed(&self, now: UnixTime) -> (Self, FailureNotice) {
        let count = self.count.saturating_add(1);
        let notice = match count {
            FREE_FAILURES => FailureNotice::TellOwner,
            MAX_FACTOR_FAILURES => FailureNotice::Blocked,
            _ => FailureNotice::None,
        };
        (Self { count, last: Some(now) }, notice)
    }

    /// Returns the count after a success. A blocked factor stays blocked; to unblock it, replace
    /// its count with [`FactorFailures::default`].
    #[must_use]
    pub fn succeeded(&self) -> Self {
        if self.is_blocked() { *self } else { Self::default() }
    }

    /// Returns the number of consecutive failures.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Returns whether the factor is blocked.
    pub const fn is_blocked(&self) -> bool {
        self.count >= MAX_FACTOR_FAILURES
    }

    fn wait(&self) -> Duration {
        match self.count.checked_sub(FREE_FAILURES + 1) {
            None => Duration::ZERO,
            Some(doublings) => {
                FIRST_WAIT.saturating_mul(2_u32.checked_pow(doublings).unwrap_or(u32::MAX)).min(MAX_WAIT)
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
    fn five_failures_are_free_and_each_further_one_doubles_the_wait() {
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
    fn fifty_failures_block_the_factor() {
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
    fn a_success_resets_the_count() {
        let count = after(9, at(100)).succeeded();
        assert_eq!(count.count(), 0);
        assert_eq!(count.verdict(at(100)), TryVerdict::Free);
    }

    #[test]
    fn a_clock_that_was_set_back_blocks_no_attempt() {
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
