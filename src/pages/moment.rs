//! Formats times in the date order of the reader's language.
//!
//! The server has no information about the reader's time zone and writes UTC. The script of the
//! pages converts it to the local time.

use std::fmt::Write as _;

use askama::filters::Safe;
use chrono::{DateTime, Utc};

use super::words::{Markup, Words};
use sealgate_domain::time::UnixTime;

impl Words {
    /// Formats a `time` element, to the minute.
    pub(super) fn moment(self, at: &UnixTime) -> Markup {
        element(*at, &self.moment_pattern().0, "")
    }

    /// Formats a `time` element to the second, for comparison with a log.
    pub(super) fn exact_moment(self, at: &UnixTime) -> Markup {
        element(*at, &self.moment_pattern_seconds().0, " data-seconds")
    }
}

fn element(at: UnixTime, pattern: &str, attribute: &str) -> Markup {
    let at = i64::try_from(at.seconds()).ok().and_then(|seconds| DateTime::<Utc>::from_timestamp(seconds, 0));
    let at = at.unwrap_or_default();
    let mut words = String::new();
    // An unknown pattern would omit the time; the test below checks all patterns.
    let _ = write!(words, "{}", at.format(pattern));
    // Trusted text: digits and names of months.
    Safe(format!("<time datetime=\"{}\"{attribute}>{words}</time>", at.format("%Y-%m-%dT%H:%M:%SZ")))
}

/// A wait in a convenient unit, rounded up so that the user does not retry too early.
pub(super) enum Wait {
    Seconds(u64),
    Minutes(u64),
}

impl Wait {
    pub(super) fn from_seconds(seconds: u64) -> Self {
        if seconds <= 90 { Self::Seconds(seconds.max(1)) } else { Self::Minutes(seconds.div_ceil(60)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealgate_config::Language;

    #[test]
    fn a_date_is_written_in_the_order_of_its_language() {
        // 22 November 2026, 14:05:09 UTC.
        let at = UnixTime::from_seconds(1_795_356_309);
        for (language, minutes, seconds) in [
            (Language::English, "22 Nov 2026, 14:05 UTC", "22 Nov 2026, 14:05:09 UTC"),
            (Language::Turkish, "22.11.2026 14:05 UTC", "22.11.2026 14:05:09 UTC"),
        ] {
            let t = Words { language };
            let element =
                |attribute, words| format!("<time datetime=\"2026-11-22T14:05:09Z\"{attribute}>{words}</time>");
            assert_eq!(t.moment(&at).0, element("", minutes));
            assert_eq!(t.exact_moment(&at).0, element(" data-seconds", seconds));
        }
    }
}
