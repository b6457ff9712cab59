//! Redaction of request paths for logs.
//!
//! Codes and tokens are in queries, which are never logged. But a path may contain text that some
//! parsers treat as a query (`/a%3Fcode=…`, `/a;token=…`), or a token as a segment.

use std::borrow::Cow;

/// Placeholder for redacted parts.
const LEFT_OUT: &str = "…";
/// Maximum length of a segment that is shown in a refused path, in bytes. Every code and token of
/// the server is longer.
const MAX_NAME_LENGTH: usize = 24;

/// Returns the path without parts that may be secret. In a refused path, the meaning of each part
/// is unknown.
pub(crate) fn shown_path(path: &str, refused: bool) -> Cow<'_, str> {
    let end = query_start(path.as_bytes(), refused).unwrap_or(path.len());
    // `end` is at an ASCII separator, so it is a character boundary.
    let (whole, rest) = path.split_at_checked(end).unwrap_or((path, ""));
    let is_secret = |name: &str| holds_token(name) || (refused && name.len() > MAX_NAME_LENGTH);
    // Few paths contain a secret. The others are returned without splitting them.
    let may_hold_some = refused || token_start(whole).is_some();
    if rest.is_empty() && !(may_hold_some && whole.split('/').any(is_secret)) {
        return Cow::Borrowed(path);
    }
    let mut shown = String::with_capacity(whole.len());
    for (index, name) in whole.split('/').enumerate() {
        if index > 0 {
            shown.push('/');
        }
        shown.push_str(if is_secret(name) { LEFT_OUT } else { name });
    }
    if !rest.is_empty() {
        shown.push_str(LEFT_OUT);
    }
    Cow::Owned(shown)
}

/// Returns the start of a query, fragment or parameters, percent-encoded any number of times.
fn query_start(path: &[u8], refused: bool) -> Option<usize> {
    let begins = |byte: u8| matches!(byte, b'?' | b'#' | b';') || (refused && matches!(byte, b'&' | b'='));
    path.iter().enumerate().position(|(at, byte)| match byte {
        b'%' => escaped(path.get(at..).unwrap_or_default()).is_some_and(begins),
        other => begins(*other),
    })
}

/// Returns the byte of a percent-encoded sequence that may have been encoded several times.
fn escaped(text: &[u8]) -> Option<u8> {
    let mut digits = text.strip_prefix(b"%")?;
    while let Some(inner) = digits.strip_prefix(b"25") {
        digits = inner;
    }
    let (high, low) = (*digits.first()?, *digits.get(1)?);
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}

/// Returns whether the segment contains a signed token: `{"` in base64url, followed by two dots.
fn holds_token(name: &str) -> bool {
    token_start(name).and_then(|at| name.get(at..)).is_some_and(|token| token.matches(['.']).count() >= 2)
}

/// Returns the possible start of a signed token. The search uses its third letter, which is rare in
/// paths.
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
