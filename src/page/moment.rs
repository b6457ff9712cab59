//! When something was, in words. The server knows no reader's time zone, so it writes UTC; the script of the pages turns
//! it into the reader's own.

use askama::filters::Safe;
use chrono::{DateTime, Datelike, Utc};

use super::messages::{Markup, Messages};

/// A `time` element for so many seconds since 1970.
pub(super) fn moment(t: &Messages, seconds: u64) -> Markup {
    let at = i64::try_from(seconds).ok().and_then(|seconds| DateTime::<Utc>::from_timestamp(seconds, 0));
    let at = at.unwrap_or_default();
    let (day, month) = (u64::from(at.day()), u64::from(at.month()));
    let words = t.moment(day, month, at.format("%Y").to_string(), at.format("%H:%M").to_string());
    // The words are our own; what stands in them is digits.
    Safe(format!("<time datetime=\"{}\">{words}</time>", at.format("%Y-%m-%dT%H:%M:%SZ")))
}
