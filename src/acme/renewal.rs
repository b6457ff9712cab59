//! Times at which certificates are renewed and failed orders are retried.

use std::time::Duration;

use crate::fault::AcmeFaultKind;

const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;

/// Longest lifetime, in seconds, of a certificate that is renewed after half of its lifetime. A
/// certificate with a longer lifetime is renewed after two thirds of it.
const SHORT_LIFETIME: i64 = 10 * DAY;

/// Minimum time in seconds between the start of a certificate and its renewal, even if the
/// authority suggests an earlier time.
const MIN_USE: i64 = HOUR;

/// Validity period of a certificate, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CertificateValidity {
    pub starts: i64,
    pub ends: i64,
}

impl CertificateValidity {
    fn lifetime(self) -> i64 {
        self.ends.saturating_sub(self.starts).max(0)
    }
}

/// Returns when to renew a certificate, in seconds since 1970.
///
/// Without a suggestion, the time is after two thirds of the lifetime, or after half of a lifetime
/// of at most ten days. A certificate of 90 days is renewed 30 days before its end, and a
/// certificate of 160 hours is renewed 80 hours before its end.
///
/// The authority may suggest a `window` (RFC 9773); `permille` selects a time within the window.
/// The suggestion never delays the renewal into the last sixth of the lifetime.
pub fn renew_at(validity: CertificateValidity, window: Option<(i64, i64)>, permille: u16) -> i64 {
    let lifetime = validity.lifetime();
    let left = if lifetime <= SHORT_LIFETIME { lifetime / 2 } else { lifetime / 3 };
    let Some((start, end)) = window.filter(|(start, end)| start < end) else { return validity.ends - left };
    let (length, permille) = (end.saturating_sub(start), i64::from(permille.min(1000)));
    let suggested = start.saturating_add(length / 1000 * permille + length % 1000 * permille / 1000);
    let earliest = validity.starts.saturating_add(MIN_USE.min(lifetime / 8));
    suggested.max(earliest).min(validity.ends - lifetime / 6)
}

/// Returns how long to wait after this number of consecutive failures.
///
/// `requested` is the pause that the authority requested with its answer (`Retry-After`). After a
/// rate limit was exceeded, it replaces the pause of one hour. It never shortens other pauses.
///
/// Let's Encrypt allows five failed validations of a host per hour. With these pauses there are
/// four attempts in the first hour. An unreachable authority counts no attempts, so the pauses
/// after that error are shorter.
pub fn pause_after(kind: AcmeFaultKind, failures: u32, requested: Option<Duration>) -> Duration {
    const REJECTED: [u64; 6] = [60, 5 * 60, 15 * 60, 3600, 3 * 3600, 6 * 3600];
    let step = failures.saturating_sub(1);
    let pause = match kind {
        AcmeFaultKind::Rejected => {
            let last = REJECTED.len() - 1;
            let step = usize::try_from(step).map_or(last, |step| step.min(last));
            Duration::from_secs(REJECTED.get(step).copied().unwrap_or(3600))
        }
        AcmeFaultKind::Limited if requested.is_none() => Duration::from_hours(1),
        _ => Duration::from_secs((5_u64 << step.min(10)).min(30 * 60)),
    };
    pause.max(requested.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_renewed_at_a_fraction_of_its_lifetime() {
        for (lifetime, left) in [
            (90 * DAY, 30 * DAY),
            (47 * DAY, 47 * DAY / 3),
            (160 * HOUR, 80 * HOUR),
            (6 * HOUR, 3 * HOUR),
            (0, 0),
            (-DAY, 0),
        ] {
            let validity = CertificateValidity { starts: 1000, ends: 1000 + lifetime };
            assert_eq!(renew_at(validity, None, 500), validity.ends - left, "{lifetime}");
        }
    }

    #[test]
    fn the_authority_may_suggest_a_time_within_limits() {
        let validity = CertificateValidity { starts: 0, ends: 90 * DAY };
        assert_eq!(renew_at(validity, Some((50 * DAY, 52 * DAY)), 500), 51 * DAY);
        // The window is in the past: renew as soon as possible.
        assert_eq!(renew_at(validity, Some((-2, -1)), 500), HOUR);
        assert_eq!(renew_at(validity, Some((i64::MIN, i64::MAX)), 1000), HOUR);
        // The window ends after the last sixth of the lifetime has begun.
        assert_eq!(renew_at(validity, Some((89 * DAY, 200 * DAY)), 500), 75 * DAY);
        // The window ends before it starts.
        assert_eq!(renew_at(validity, Some((52 * DAY, 50 * DAY)), 500), 60 * DAY);
    }

    #[test]
    fn rejected_orders_stay_within_five_an_hour() {
        let mut at = Duration::ZERO;
        let mut within_an_hour = 1;
        for failures in 1.. {
            at += pause_after(AcmeFaultKind::Rejected, failures, None);
            if at >= Duration::from_hours(1) {
                break;
            }
            within_an_hour += 1;
        }
        assert_eq!(within_an_hour, 4);
        assert_eq!(pause_after(AcmeFaultKind::Rejected, u32::MAX, None), Duration::from_hours(6));
        assert_eq!(pause_after(AcmeFaultKind::Unreachable, u32::MAX, None), Duration::from_mins(30));
    }

    #[test]
    fn a_requested_pause_is_kept_and_shortens_only_that_of_a_rate_limit() {
        let minutes = |count| Duration::from_mins(count);
        assert_eq!(pause_after(AcmeFaultKind::Limited, 1, None), minutes(60));
        assert_eq!(pause_after(AcmeFaultKind::Limited, 1, Some(minutes(2))), minutes(2));
        assert_eq!(pause_after(AcmeFaultKind::Limited, 20, Some(minutes(2))), minutes(30));
        assert_eq!(pause_after(AcmeFaultKind::Rejected, 3, Some(minutes(2))), minutes(15));
        assert_eq!(pause_after(AcmeFaultKind::Unreachable, 1, Some(minutes(2))), minutes(2));
    }
}
