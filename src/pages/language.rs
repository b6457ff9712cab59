//! Language of a page, and times in the date order of that language.
//!
//! The language is selected from BCP 47 tags. Only the primary subtag counts, so `tr`, `tr-TR` and
//! `tr-CY` are all Turkish.
//!
//! Times are written in UTC, because the server does not know the reader's time zone. The script of
//! the pages converts them to the local time.

use std::fmt::Write as _;

use askama::filters::Safe;
use chrono::{DateTime, Utc};

use crate::words::{Markup, Words};
use sealgate_config::Language;
use sealgate_domain::quality::quality_value;
use sealgate_domain::time::UnixTime;

/// Returns the language's tag (BCP 47), as in `<html lang>`, links and the saved choice.
pub fn language_tag(language: Language) -> &'static str {
    match language {
        Language::Turkish => "tr",
        Language::English => "en",
    }
}

/// Returns the supported language that a tag such as `tr-TR` names.
///
/// Case is ignored for ASCII only: `İ` does not match `i`.
pub fn language_from_tag(tag: &str) -> Option<Language> {
    let primary = tag.trim().split(['-', '_']).next().unwrap_or_default();
    [Language::Turkish, Language::English]
        .into_iter()
        .find(|&language| primary.eq_ignore_ascii_case(language_tag(language)))
}

/// Returns the first supported language of `ui_locales` (OpenID Connect Core §3.1.2.1: tags in
/// order of preference, separated by spaces).
pub(super) fn from_ui_locales(ui_locales: &str) -> Option<Language> {
    ui_locales.split_ascii_whitespace().find_map(language_from_tag)
}

/// Returns the language that `Accept-Language` prefers (RFC 9110 §12.5.4). `*` selects `default`.
pub(super) fn from_accept_language(header: &str, default: Language) -> Option<Language> {
    let other = match default {
        Language::Turkish => Language::English,
        Language::English => Language::Turkish,
    };
    let mut best: Option<(Language, u16, usize)> = None;
    for language in [default, other] {
        let Some((weight, position)) = weight_of(language, header).filter(|&(weight, _)| weight > 0) else { continue };
        // If the weights are equal, the earlier range wins. If both languages match the same `*`,
        // the default wins.
        if best.is_none_or(|(_, high, first)| weight > high || (weight == high && position < first)) {
            best = Some((language, weight, position));
        }
    }
    best.map(|(language, ..)| language)
}

/// Maximum number of ranges that are read. Browsers send about ten.
const MAX_RANGES: usize = 64;

/// Returns the weight of the language in thousandths, and the position of its range. The range
/// names the language; if there is no such range, the range is `*`.
fn weight_of(language: Language, header: &str) -> Option<(u16, usize)> {
    let mut specific: Option<(u16, usize)> = None;
    let mut any: Option<(u16, usize)> = None;
    for (position, range) in header.split(',').enumerate().take(MAX_RANGES) {
        let (tag, parameters) = range.split_once(';').unwrap_or((range, ""));
        let Some(weight) = quality_value(parameters) else { continue };
        let slot = if language_from_tag(tag) == Some(language) {
            &mut specific
        } else if tag.trim() == "*" {
            &mut any
        } else {
            continue;
        };
        if slot.is_none_or(|(known, _)| weight > known) {
            *slot = Some((weight, position));
        }
    }
    specific.or(any)
}

impl Words {
    /// Formats a time as a `time` element, to the minute.
    pub(super) fn moment(self, at: &UnixTime) -> Markup {
        element(*at, &self.moment_pattern().0, "")
    }

    /// Formats a time as a `time` element, to the second, for comparison with a log.
    pub(super) fn exact_moment(self, at: &UnixTime) -> Markup {
        element(*at, &self.moment_pattern_seconds().0, " data-seconds")
    }
}

fn element(at: UnixTime, pattern: &str, attribute: &str) -> Markup {
    let at = i64::try_from(at.seconds()).ok().and_then(|seconds| DateTime::<Utc>::from_timestamp(seconds, 0));
    let at = at.unwrap_or_default();
    let mut words = String::new();
    // An unknown pattern would omit the time. The test below checks all patterns.
    let _ = write!(words, "{}", at.format(pattern));
    // The markup is trusted, because it contains only digits and names of months.
    Safe(format!("<time datetime=\"{}\"{attribute}>{words}</time>", at.format("%Y-%m-%dT%H:%M:%SZ")))
}

/// Time to wait, in a convenient unit. The time is rounded up, so that the user does not retry too
/// early.
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

    const LANGUAGES: [Language; 2] = [Language::Turkish, Language::English];

    #[test]
    fn every_regional_turkish_tag_selects_turkish() {
        for tag in ["tr", "tr-TR", "tr-CY", "TR", "tr-Latn-TR", "tr_TR", " tr "] {
            assert_eq!(language_from_tag(tag), Some(Language::Turkish), "{tag}");
            assert_eq!(from_ui_locales(tag), Some(Language::Turkish), "{tag}");
            assert_eq!(from_accept_language(tag, Language::English), Some(Language::Turkish), "{tag}");
        }
        for tag in ["tru", "t", "", "-tr", "ţr", "trk-TR"] {
            assert_eq!(language_from_tag(tag), None, "{tag}");
        }
        for language in LANGUAGES {
            assert_eq!(language_from_tag(language_tag(language)), Some(language));
        }
    }

    #[test]
    fn accept_language_weights_are_applied() {
        for (header, language) in [
            ("en;q=0.5, tr;q=0.8", Language::Turkish),
            ("tr;q=0.5, en;q=0.8", Language::English),
            ("de, fr;q=0.9, tr;q=0.1", Language::Turkish),
            ("tr, en", Language::Turkish),
            ("en, tr", Language::English),
            ("en-GB;q=0.8,en;q=0.7,tr-TR;q=0.75", Language::English),
            ("tr ; q=1.000 , en ; q=0.999", Language::Turkish),
            ("*, tr;q=0", Language::English),
            ("en;q=0, *;q=0.1", Language::Turkish),
            ("tr;Q=0.2, en;q=0.1", Language::Turkish),
        ] {
            for default in LANGUAGES {
                assert_eq!(from_accept_language(header, default), Some(language), "{header}");
            }
        }
    }

    #[test]
    fn the_first_ranges_are_read() {
        for (others, read) in [(63, Some(Language::Turkish)), (64, None), (27_000, None)] {
            let header = format!("{}tr", ",".repeat(others));
            assert_eq!(from_accept_language(&header, Language::English), read, "{others}");
        }
    }

    #[test]
    fn a_malformed_weight_drops_its_range_only() {
        for header in ["tr;q=2, en;q=0.1", "tr;q=nonsense, en;q=0.1", "tr;q=0.1234, en;q=0.1", "tr;x=1, en;q=0.1"] {
            assert_eq!(from_accept_language(header, Language::Turkish), Some(Language::English), "{header}");
        }
    }

    #[test]
    fn a_header_without_supported_languages_selects_the_default() {
        for default in LANGUAGES {
            assert_eq!(from_accept_language("*", default), Some(default));
            for header in ["de", "", ",,;q=", "tr;q=0, en;q=0", "\u{0}ı;İ"] {
                assert_eq!(from_accept_language(header, default), None, "{header}");
            }
        }
    }

    #[test]
    fn a_date_is_written_in_the_order_of_its_language() {
        // The time is 22 November 2026, 14:05:09 UTC.
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
