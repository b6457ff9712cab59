//! When something was, in words, in the order in which the reader's language writes a date. The server knows no reader's
//! time zone, so it writes UTC; the script of the pages turns it into the reader's own.

use std::fmt::Write as _;

use askama::filters::Safe;
use chrono::{DateTime, Utc};

use super::words::{Markup, Words};

/// A `time` element for so many seconds since 1970, to the minute.
pub(super) fn moment(t: Words, seconds: u64) -> Markup {
    element(seconds, &t.moment_pattern().0, "")
}

/// The same to the second, for what is compared with a log.
pub(super) fn moment_with_seconds(t: Words, seconds: u64) -> Markup {
    element(seconds, &t.moment_pattern_seconds().0, " data-seconds")
}

fn element(seconds: u64, pattern: &str, attribute: &str) -> Markup {
    let at = i64::try_from(seconds).ok().and_then(|seconds| DateTime::<Utc>::from_timestamp(seconds, 0));
    let at = at.unwrap_or_default();
    let mut words = String::new();
    // A pattern of ours that chrono does not know leaves the time out; the test below sees that none does.
    let _ = write!(words, "{}", at.format(pattern));
    // The words are our own; what stands in them is digits and the names of months.
    Safe(format!("<time datetime=\"{}\"{attribute}>{words}</time>", at.format("%Y-%m-%dT%H:%M:%SZ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Language;

    #[test]
    fn a_date_is_written_in_the_order_of_its_language() {
        // 22 November 2026, 14:05:09 UTC.
        let at = 1_795_356_309;
        for (language, minutes, seconds) in [
            (Language::English, "22 Nov 2026, 14:05 UTC", "22 Nov 2026, 14:05:09 UTC"),
            (Language::Turkish, "22.11.2026 14:05 UTC", "22.11.2026 14:05:09 UTC"),
        ] {
            let t = Words { language };
            let element =
                |attribute, words| format!("<time datetime=\"2026-11-22T14:05:09Z\"{attribute}>{words}</time>");
            assert_eq!(moment(t, at).0, element("", minutes));
            assert_eq!(moment_with_seconds(t, at).0, element(" data-seconds", seconds));
        }
    }
}
