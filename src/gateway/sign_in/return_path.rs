//! Page that a user requested before the sign-in. Pure.

use http::uri::PathAndQuery;

use crate::characters::Characters;
use crate::path::CanonicalPath;

/// Maximum length of a return path in bytes. Unauthenticated clients create them.
const LONGEST: usize = 8192;

/// Prefix of Sealgate's own paths on every application's host.
const OWN: &[u8] = b"/.sealgate";

/// Path and query on the host of the request, byte for byte as the client requested it.
///
/// It begins with exactly one slash, so that no browser reads it as another host. It is none of
/// Sealgate's own paths, so that a link cannot redirect a user to one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReturnPath(String);

impl ReturnPath {
    /// Parses a path and query.
    ///
    /// `None` if it is too long, or if its path is ambiguous or one of Sealgate's own.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let target = PathAndQuery::try_from(text).ok()?;
        // The parser drops a fragment.
        let whole = target.as_str() == text && text.len() <= LONGEST;
        // The rule of the path is checked for these characters when the browser returns.
        let path = CanonicalPath::of(&target, Characters::ALL).ok()?;
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
