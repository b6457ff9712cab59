//! The page that a person wanted before they were sent to sign in. Pure.

use http::uri::PathAndQuery;

use crate::gateway::characters::Characters;
use crate::gateway::path::CanonicalPath;

/// The longest that is remembered, bytes; strangers make these.
const LONGEST: usize = 8192;

/// Paths below this one are ours on every application's host.
const OWN: &[u8] = b"/.sealgate";

/// A path and query on the very host of the request, byte for byte as it was asked for. It begins with exactly one slash,
/// so that no browser can take it for another host, and it is none of our own paths, so that nobody can be sent through
/// them by a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::gateway) struct ReturnPath(String);

impl ReturnPath {
    /// Reads a path and query; none when it is too long, or no path that the gate would let through.
    pub(in crate::gateway) fn parse(text: &str) -> Option<Self> {
        let target = PathAndQuery::try_from(text).ok()?;
        // The parser cuts a fragment off.
        let whole = target.as_str() == text && text.len() <= LONGEST;
        // Whether its rule has these characters is looked at when the browser comes back.
        let path = CanonicalPath::of(&target, Characters::ALL).ok()?;
        (whole && !is_own(&path)).then(|| Self(text.to_owned()))
    }

    /// The application's first page.
    pub(in crate::gateway) fn home() -> Self {
        Self("/".to_owned())
    }

    pub(in crate::gateway) fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a path on an application's host is ours.
pub(in crate::gateway) fn is_own(path: &CanonicalPath<'_>) -> bool {
    let rest = path.as_bytes().strip_prefix(OWN);
    rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_page_of_the_application_is_remembered_byte_for_byte() {
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
    fn another_host_or_our_own_paths_are_not() {
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
}
