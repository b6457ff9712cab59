//! Protection of personal responses from shared caches: nginx's `proxy_cache`, a content delivery
//! network, a company's proxy. Does no I/O.
//!
//! Shared caches do not distinguish users. They would return the page of one user to the next user
//! who requests the same URL.

use chrono::DateTime;
use http::header::{CACHE_CONTROL, DATE, EXPIRES, VARY};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Fields that control only shared caches.
///
/// There are more: all fields whose name ends in [`TARGETED_SUFFIX`], such as `CDN-Cache-Control`
/// (RFC 9213 §2.2).
const SHARED_CACHE_FIELDS: [&str; 3] = ["surrogate-control", "x-accel-expires", "edge-control"];
const TARGETED_SUFFIX: &str = "-cache-control";

/// Directives of `Cache-Control` to drop. Only shared caches use them (RFC 9111 §5.2.2), or
/// `private` replaces them.
const DROPPED_DIRECTIVES: [&str; 4] = ["public", "private", "s-maxage", "proxy-revalidate"];

/// Request fields that personal responses depend on.
const VARY_FIELDS: [&str; 2] = ["Cookie", "Authorization"];
/// [`VARY_FIELDS`] as the value of a `Vary` field.
const VARY_VALUE: HeaderValue = HeaderValue::from_static("Cookie, Authorization");

/// Restricts the caching of a response to browsers. The application still sets the duration.
///
/// A 304 is changed in the same way, because its fields replace the fields of the stored response
/// (RFC 9111 §3.2).
pub(crate) fn keep_private(fields: &mut HeaderMap) {
    // Most responses have none of these fields.
    let going: Vec<HeaderName> = fields.keys().filter(|name| is_for_shared_caches(name)).cloned().collect();
    for name in &going {
        fields.remove(name);
    }
    // Common case: the application sets no caching fields.
    if ![CACHE_CONTROL, EXPIRES, VARY].iter().any(|name| fields.contains_key(name)) {
        fields.insert(CACHE_CONTROL, HeaderValue::from_static("private"));
        fields.insert(VARY, VARY_VALUE);
        return;
    }
    let expires = expires(fields);
    fields.remove(EXPIRES);
    let mut kept = b"private".to_vec();
    let mut has_age = false;
    for line in fields.get_all(CACHE_CONTROL) {
        for directive in directives(line.as_bytes()) {
            let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
            has_age |= [&b"max-age"[..], b"no-store"].iter().any(|known| name.eq_ignore_ascii_case(known));
            if !name.is_empty() && !DROPPED_DIRECTIVES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes())) {
                kept.extend_from_slice(b", ");
                kept.extend_from_slice(directive);
            }
        }
    }
    if let Some(seconds) = expires.filter(|_| !has_age) {
        kept.extend_from_slice(format!(", max-age={seconds}").as_bytes());
    }
    // Cannot fail: the parts of a valid field value are valid.
    fields.insert(CACHE_CONTROL, HeaderValue::from_bytes(&kept).unwrap_or(HeaderValue::from_static("private")));
    let vary = vary(fields);
    fields.insert(VARY, HeaderValue::from_bytes(&vary).unwrap_or(HeaderValue::from_static("*")));
}

/// Returns whether a field controls only shared caches.
pub(crate) fn is_for_shared_caches(name: &HeaderName) -> bool {
    SHARED_CACHE_FIELDS.contains(&name.as_str()) || name.as_str().ends_with(TARGETED_SUFFIX)
}

/// Returns how long `Expires` allows a response to be cached, in seconds.
///
/// The response gets this time as `max-age` and loses `Expires`. Otherwise an old cache that does
/// not support `private` would store the response because of `Expires`. An invalid date means that
/// the response is already stale (RFC 9111 §5.3).
fn expires(fields: &HeaderMap) -> Option<i64> {
    let date = |value: Option<&HeaderValue>| {
        DateTime::parse_from_rfc2822(str::from_utf8(value?.as_bytes()).ok()?).ok().map(|date| date.timestamp())
    };
    let expires = fields.get(EXPIRES)?;
    // Without a `Date`, the response counts as stale.
    let seconds =
        date(Some(expires)).zip(date(fields.get(DATE))).map_or(0, |(expires, now)| expires.saturating_sub(now));
    Some(seconds.max(0))
}

/// Returns all members of `Vary` and [`VARY_FIELDS`] as one line, because nginx reads only one
/// line.
fn vary(fields: &HeaderMap) -> Vec<u8> {
    let mut known: Vec<&[u8]> = Vec::new();
    for line in fields.get_all(VARY) {
        known.extend(line.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|one| !one.is_empty()));
    }
    for name in VARY_FIELDS {
        if !known.iter().any(|one| *one == b"*" || one.eq_ignore_ascii_case(name.as_bytes())) {
            known.push(name.as_bytes());
        }
    }
    known.join(&b", "[..])
}

/// Splits a line of `Cache-Control` into directives. A comma within quotes does not separate.
fn directives(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    let divides = move |byte: &u8| {
        let plain = !std::mem::take(&mut escaped);
        match byte {
            b'"' if plain => quoted = !quoted,
            b'\\' if plain && quoted => escaped = true,
            b',' => return !quoted,
            _ => {}
        }
        false
    };
    line.split(divides).map(<[u8]>::trim_ascii)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(given: &[(&'static str, &str)]) -> HeaderMap {
        let mut fields = HeaderMap::new();
        for (name, value) in given {
            fields.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        keep_private(&mut fields);
        fields
    }

    #[test]
    fn cache_control_becomes_private_for_browsers() {
        for (given, left) in [
            (&[][..], "private"),
            (&["public, max-age=600"], "private, max-age=600"),
            (&["PUBLIC", "s-maxage=9, Max-Age=3"], "private, Max-Age=3"),
            (&["no-store"], "private, no-store"),
            (&["private=\"set-cookie, public\", immutable"], "private, immutable"),
            (&["no-cache=\"a, public\", public"], "private, no-cache=\"a, public\""),
            (&["s-maxage = 5", "proxy-revalidate, must-revalidate,,"], "private, must-revalidate"),
            (&["public\u{15f}, max-age=1"], "private, public\u{15f}, max-age=1"),
            (&["\"public"], "private, \"public"),
        ] {
            let lines: Vec<_> = given.iter().map(|line| ("cache-control", *line)).collect();
            let fields = kept(&lines);
            let all: Vec<_> = fields.get_all(CACHE_CONTROL).iter().map(HeaderValue::as_bytes).collect();
            assert_eq!(all, [left.as_bytes()], "{given:?}");
        }
    }

    #[test]
    fn vary_is_merged_into_one_line() {
        for (given, left) in [
            (&[][..], "Cookie, Authorization"),
            (&["Accept-Encoding"], "Accept-Encoding, Cookie, Authorization"),
            (&["Origin, cookie", "Accept"], "Origin, cookie, Accept, Authorization"),
            (&["*"], "*"),
        ] {
            // `keep_private` has a shortcut for responses without caching fields. The second list
            // avoids it.
            for further in [&[][..], &[("cache-control", "no-store")]] {
                let lines: Vec<_> = given.iter().map(|line| ("vary", *line)).chain(further.iter().copied()).collect();
                let fields = kept(&lines);
                let all: Vec<_> = fields.get_all(VARY).iter().collect();
                assert_eq!(all, [left], "{lines:?}");
            }
        }
    }

    #[test]
    fn headers_for_shared_caches_are_removed() {
        let fields = kept(&[
            ("surrogate-control", "max-age=1"),
            ("cdn-cache-control", "max-age=1"),
            ("cloudflare-cdn-cache-control", "max-age=1"),
            ("x-accel-expires", "60"),
            ("edge-control", "!no-store"),
            ("x-accel-redirect", "/kept"),
        ]);
        let mut names: Vec<_> = fields.keys().map(HeaderName::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["cache-control", "vary", "x-accel-redirect"]);
    }

    #[test]
    fn expires_becomes_max_age_unless_one_is_set() {
        let (date, later) = ("Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:59:37 GMT");
        for (given, left) in [
            (&[("date", date), ("expires", later)][..], "private, max-age=600"),
            (&[("date", later), ("expires", date)], "private, max-age=0"),
            (&[("date", date), ("expires", "0")], "private, max-age=0"),
            (&[("expires", later)], "private, max-age=0"),
            (&[("date", date), ("expires", later), ("cache-control", "public, max-age=5")], "private, max-age=5"),
            (&[("date", date), ("expires", later), ("cache-control", "no-store")], "private, no-store"),
        ] {
            let fields = kept(given);
            assert_eq!(fields[CACHE_CONTROL], left, "{given:?}");
            assert!(!fields.contains_key(EXPIRES));
        }
    }
}
