//! Return path of a sign-in, the cookie that stores the path, and the counter that detects redirect
//! loops. Pure.
//!
//! The return path is the page that the user requested before the sign-in. A client can forge the
//! cookie, but a forged cookie only leads to another page of the same application.
//!
//! Some browsers do not keep the session cookie, because of a wrong clock or a cookie policy. Such
//! a browser would be redirected between gateway and provider forever. Callbacks are counted in a
//! second cookie that expires after ten seconds. Redirects to the provider are not counted, because
//! ten restored tabs may redirect at once without a loop. A forged count affects only the client
//! that forged it.

use std::time::Duration;

use http::uri::PathAndQuery;

use crate::characters::Characters;
use crate::path::CanonicalPath;
use sealgate_core::web::cookie;
use sealgate_domain::time::UnixTime;

/// Maximum length of a return path, in bytes. Return paths are stored for clients without
/// credentials.
const MAX_RETURN_PATH_BYTES: usize = 8192;

/// Prefix of Sealgate's own paths on every application's host.
const OWN_PREFIX: &[u8] = b"/.sealgate";

/// Path and query on the host of the request, byte for byte as the client requested it.
///
/// The path begins with exactly one slash, so that no browser reads it as another host. The path is
/// never one of Sealgate's own paths, because a link must not lead a user to such a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReturnPath(String);

impl ReturnPath {
    /// Parses a path and query.
    ///
    /// Returns `None` if the text is too long, or if its path is ambiguous or one of Sealgate's
    /// own.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let target = PathAndQuery::try_from(text).ok()?;
        // `PathAndQuery` drops a fragment.
        let whole = target.as_str() == text && text.len() <= MAX_RETURN_PATH_BYTES;
        // All characters are accepted as data here. The rule of the path is applied when the
        // browser returns.
        let path = CanonicalPath::from_target(&target, Characters::ALL).ok()?;
        (whole && !is_own(&path)).then(|| Self(text.to_owned()))
    }

    /// Returns the application's start page.
    pub(crate) fn home() -> Self {
        Self("/".to_owned())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether a path on an application's host is one of Sealgate's own.
pub(crate) fn is_own(path: &CanonicalPath<'_>) -> bool {
    let rest = path.as_bytes().strip_prefix(OWN_PREFIX);
    rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

/// Returns the value of the cookie with the return path. `None` if the path is too long.
pub(crate) fn cookie_value(state: &str, page: &ReturnPath) -> Option<String> {
    cookie::destination_value(state, page.as_str())
}

/// Returns the return path from the cookie. Returns `None` if the cookie has another state than the
/// response. If the response has no state, the cookie is accepted without this check.
pub(crate) fn read(cookie: Option<&str>, state: Option<&str>) -> Option<ReturnPath> {
    ReturnPath::parse(&cookie::read_destination(cookie, state)?)
}

/// Period in which callbacks are counted.
pub(crate) const COUNT_PERIOD: Duration = Duration::from_secs(10);

/// Number of callbacks within [`COUNT_PERIOD`] at which the browser is no longer redirected.
const MAX_CALLBACKS: u32 = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RedirectLoop {
    since: UnixTime,
    count: u32,
}

impl RedirectLoop {
    /// Reads the count from its cookie. Starts at zero if the cookie is missing, malformed or too
    /// old.
    pub(crate) fn read(cookie: Option<&str>, now: UnixTime) -> Self {
        let parsed = || {
            let (since, count) = cookie?.split_once('-')?;
            let since = UnixTime::from_seconds(since.parse().ok()?);
            (since <= now && now.since(since) < COUNT_PERIOD).then_some(Self { since, count: count.parse().ok()? })
        };
        parsed().unwrap_or(Self { since: now, count: 0 })
    }

    #[must_use]
    pub(crate) fn incremented(self) -> Self {
        Self { count: self.count.saturating_add(1), ..self }
    }

    pub(crate) const fn is_loop(self) -> bool {
        self.count >= MAX_CALLBACKS
    }

    /// Returns the value of the cookie that stores the count.
    pub(crate) fn value(self) -> String {
        format!("{}-{}", self.since.seconds(), self.count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use sealgate_domain::secret::base64url;

    #[test]
    fn return_paths_are_kept_byte_for_byte() {
        for text in [
            "/",
            "/a/b?c=d&e=%2F%2e%2e//x;y",
            "/a?",
            "/a?next=https://evil.test/",
            "/.sealgated",
            "/a?ş=1",
            "/a;b%2Fc%5C",
        ] {
            assert_eq!(ReturnPath::parse(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn other_hosts_and_own_paths_are_no_return_paths() {
        for text in [
            "",
            "//evil.test",
            "/\\evil.test",
            "https://evil.test/",
            "evil",
            "?a",
            "/a#b",
            "/%2f/evil.test",
            "/..//evil",
            "/.sealgate/logout",
            "/.sealgate",
            "/%2esealgate/logout",
            "/a\r\nSet-Cookie: x",
            "/a b",
            "*",
        ] {
            assert_eq!(ReturnPath::parse(text), None, "{text:?}");
        }
        assert_eq!(ReturnPath::parse(&format!("/{}", "a".repeat(8192))), None);
    }

    proptest! {
        #[test]
        fn no_text_leads_to_another_host(text in "[/\\\\?#@:.%a-f0-9 \t]{0,30}") {
            if let Some(wanted) = ReturnPath::parse(&text) {
                let base = url::Url::parse("https://wiki.test/deep/page?q").unwrap();
                let there = base.join(wanted.as_str()).unwrap();
                prop_assert_eq!(there.origin(), base.origin());
            }
        }
    }

    #[test]
    fn the_cookie_keeps_the_page_byte_for_byte() {
        let page = ReturnPath::parse("/a?b=c&d=%2F;e").unwrap();
        let cookie = cookie_value("s", &page).unwrap();
        assert_eq!(read(Some(&cookie), Some("s")), Some(page));
        assert_eq!(read(Some(&cookie), Some("t")), None);
    }

    #[test]
    fn a_forged_cookie_does_not_lead_to_another_host() {
        for page in ["//evil.test", "https://evil.test/", "/.sealgate/logout", "/a#b", ""] {
            let cookie = format!("s.{}", base64url(page.as_bytes()));
            assert_eq!(read(Some(&cookie), None), None, "{page}");
        }
    }

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn after(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(NOW.seconds() + seconds)
    }

    #[test]
    fn three_callbacks_in_ten_seconds_are_a_loop() {
        let mut callbacks = RedirectLoop::read(None, NOW);
        for second in 1..=2 {
            callbacks = RedirectLoop::read(Some(&callbacks.incremented().value()), after(second));
            assert!(!callbacks.is_loop());
        }
        callbacks = RedirectLoop::read(Some(&callbacks.incremented().value()), after(9));
        assert!(callbacks.is_loop());
        assert!(!RedirectLoop::read(Some(&callbacks.value()), after(10)).is_loop());
    }

    #[test]
    fn an_invalid_counter_is_ignored() {
        for cookie in ["", "-", "x-3", "3", "1800000000-", "1800000000--3", "99999999999-3", "1799999990-9", "-1-3"] {
            assert_eq!(RedirectLoop::read(Some(cookie), NOW), RedirectLoop::read(None, NOW), "{cookie}");
        }
        assert!(RedirectLoop::read(Some("1800000000-4294967295"), NOW).incremented().is_loop());
    }
}
