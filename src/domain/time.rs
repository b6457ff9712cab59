//! Times of the protocol: whole seconds since 1970 (`NumericDate`, RFC 7519 §2).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Time in whole seconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixTime(u64);

impl UnixTime {
    /// Creates the time `seconds` after 1970.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Returns the seconds since 1970.
    pub const fn seconds(self) -> u64 {
        self.0
    }

    /// Returns the time `length` later, in whole seconds. Saturates.
    #[must_use]
    pub const fn plus(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length.as_secs()))
    }

    /// Returns the time `length` earlier, in whole seconds. Saturates.
    #[must_use]
    pub const fn minus(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(length.as_secs()))
    }

    /// Returns the time since `earlier`, or zero if `earlier` is in the future.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }
}

/// Formats as RFC 3339 in UTC.
impl fmt::Display for UnixTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, second) = (self.0 / 86_400, self.0 % 86_400);
        // Count days from 1 March of the year 0, so that a leap day is the last day of its year. An
        // era has 400 years.
        let days = days + 719_468;
        let (era, day) = (days / 146_097, days % 146_097);
        let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
        let year = era * 400 + year + next;
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_formatted_as_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_795_305_600, "2026-11-22T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(UnixTime::from_seconds(seconds).to_string(), text);
        }
        assert!(!UnixTime::from_seconds(u64::MAX).to_string().is_empty());
    }
}
