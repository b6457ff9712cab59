//! Redaction of request paths for logs.
//!
//! Queries, which may contain codes and tokens, are never logged. A path may contain secrets too:
//! as a text that some parsers read as a query (`/a%3Fcode=…`, `/a;token=…`), or as a segment.

use std::borrow::Cow;

/// Replacement of redacted parts.
const REDACTED: &str = "…";
/// Maximum length of a segment in the shown form of a refused path, in bytes. All codes and tokens
/// of the server are longer.
const MAX_SHOWN_SEGMENT_LENGTH: usize = 24;

/// Returns the path without parts that may be secret.
///
/// If the path was `refused`, the meaning of its segments is unknown, so more is redacted.
pub(crate) fn shown_path(path: &str, refused: bool) -> Cow<'_, str> {
    let end = query_start(path.as_bytes(), refused).unwrap_or(path.len());
    // `end` is the position of an ASCII separator, so it is a character boundary.
    let (whole, rest) = path.split_at_checked(end).unwrap_or((path, ""));
    let is_secret = |name: &str| holds_token(name) || (refused && name.len() > MAX_SHOWN_SEGMENT_LENGTH);
    // Common case: no part of the path may be secret, so the path need not be split.
    let may_hold_some = refused || token_start(whole).is_some();
    if rest.is_empty() && !(may_hold_some && whole.split('/').any(is_secret)) {
        return Cow::Borrowed(path);
    }
    let mut shown = String::with_capacity(whole.len());
    for (index, name) in whole.split('/').enumerate() {
        if index > 0 {
            shown.push('/');
        }
        shown.push_str(if is_secret(name) { REDACTED } else { name });
    }
    if !rest.is_empty() {
        shown.push_str(REDACTED);
    }
    Cow::Owned(shown)
}

/// Returns the position of a query, a fragment or parameters, even if their first character is
/// percent-encoded several times.
fn query_start(path: &[u8], refused: bool) -> Option<usize> {
    let begins = |byte: u8| matches!(byte, b'?' | b'#' | b';') || (refused && matches!(byte, b'&' | b'='));
    path.iter().enumerate().position(|(at, byte)| match byte {
        b'%' => escaped(path.get(at..).unwrap_or_default()).is_some_and(begins),
        other => begins(*other),
    })
}

/// Decodes a byte that may be percent-encoded several times.
fn escaped(text: &[u8]) -> Option<u8> {
    let mut digits = text.strip_prefix(b"%")?;
    while let Some(inner) = digits.strip_prefix(b"25") {
        digits = inner;
    }
    let (high, low) = (*digits.first()?, *digits.get(1)?);
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Returns whether the segment contains a JWT: `{"` in base64url, with at least two dots after it.
fn holds_token(name: &str) -> bool {
    token_start(name).and_then(|at| name.get(at..)).is_some_and(|token| token.matches(['.']).count() >= 2)
}

/// Returns the possible start of a JWT (`eyJ`). Searches for `J`, which is rare in paths.
fn token_start(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut starts = memchr::memchr_iter(b'J', bytes).filter_map(|third| third.checked_sub(2));
    starts.find(|start| bytes.get(*start..).is_some_and(|rest| rest.starts_with(b"ey")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_ordinary_path_is_shown_as_it_is() {
        for path in
            ["/", "/a/b.c/", "/wiki/Ay%C5%9Fe", "/a=b/c&d", "/blobs/sha256:0123456789abcdef0123456789abcdef", ""]
        {
            assert_eq!(shown_path(path, false), path);
        }
        assert_eq!(shown_path("/a//b/%2e%2e/c%5Cd", true), "/a//b/%2e%2e/c%5Cd");
    }

    #[test]
    fn possible_queries_and_tokens_are_omitted() {
        for (path, shown) in [
            ("/a%3Fcode=secret", "/a…"),
            ("/a%253fcode=secret", "/a…"),
            ("/a%25253fcode=secret/x", "/a…"),
            ("/a;token=secret/b", "/a…"),
            ("/a%3btoken=secret", "/a…"),
            ("/a/%23access_token=secret", "/a/…"),
            ("/a/eyJhbGci.eyJpc3M.c2ln/b", "/a/…/b"),
            ("/a/x:eyJhbGci.eyJpc3M.c2ln", "/a/…"),
        ] {
            assert_eq!(shown_path(path, false), shown, "{path}");
        }
        for (path, shown) in [
            ("//reset/0123456789abcdefghijklmnopqrstuvwxyzABCDEFG", "//reset/…"),
            ("/%2f/cb&code=secret", "/%2f/cb…"),
            ("/..%5Ccode%3dsecret", "/..%5Ccode…"),
        ] {
            assert_eq!(shown_path(path, true), shown, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_survived(path in ".{0,60}", refused in any::<bool>()) {
            let _ = shown_path(&path, refused);
        }
    }
}
