//! Sealgate's cookies: their names, and reading, setting and removing them (RFC 6265).
//!
//! The names have the prefix `__Host-`. Browsers bind such cookies to one host, send them only over
//! TLS, and do not let another subdomain set them. On a loopback issuer with http, for development,
//! the names have no prefix, because browsers would refuse it.
//!
//! The cookie [`CookieNames::last`] contains the destination of the browser's last sign-in. A user
//! may submit a form again after its sign-in is complete, with the Back button, a second click or a
//! reload. The browser then continues to the same destination. The cookie lasts one minute, and the
//! server stores nothing. The value may be forged, so the caller must validate the destination.

use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};

use super::server_cookie;
use sealgate_config::IssuerUrl;
use sealgate_domain::secret::{base64url, from_base64url};
use sealgate_domain::user::Subject;

/// Names of Sealgate's cookies for one issuer, and whether they are `Secure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CookieNames {
    /// Identifies the session: the provider's on the issuer's host, an application's on other
    /// hosts.
    pub session: &'static str,
    /// Id of the browser during sign-ins, shared by all tabs. No other browser can continue the
    /// sign-in.
    pub browser: &'static str,
    pub language: &'static str,
    /// Tokens of the users who have signed in from this browser before.
    pub known: &'static str,
    /// User who signed out on this host: see [`CookieNames::signed_out_marker`].
    pub left: &'static str,
    /// Token of an e-mailed link that the browser has opened.
    pub link: &'static str,
    /// Sign-in during which the user requested a link by e-mail.
    pub back: &'static str,
    /// Registration of an account that the user has begun in this browser.
    pub registration: &'static str,
    /// Destination of the last sign-in.
    pub last: &'static str,
    /// Where a sign-out continues after the user's OpenID provider.
    pub departure: &'static str,
    /// Whether cookies have the attribute `Secure`.
    pub secure: bool,
}

impl CookieNames {
    /// Returns the names for this issuer.
    pub fn for_issuer(issuer: &IssuerUrl) -> Self {
        if issuer.is_https() {
            Self {
                session: "__Host-sealgate",
                browser: "__Host-sealgate-browser",
                language: "__Host-sealgate-language",
                known: "__Host-sealgate-known",
                left: "__Host-sealgate-left",
                link: "__Host-sealgate-link",
                back: "__Host-sealgate-back",
                registration: "__Host-sealgate-registration",
                last: "__Host-sealgate-last",
                departure: "__Host-sealgate-departure",
                secure: true,
            }
        } else {
            Self {
                session: "sealgate",
                browser: "sealgate-browser",
                language: "sealgate-language",
                known: "sealgate-known",
                left: "sealgate-left",
                link: "sealgate-link",
                back: "sealgate-back",
                registration: "sealgate-registration",
                last: "sealgate-last",
                departure: "sealgate-departure",
                secure: false,
            }
        }
    }
}

impl CookieNames {
    /// Returns the browser's id. If the request has no id, returns `fresh` and a cookie that sets
    /// it.
    pub fn browser(&self, headers: &HeaderMap, fresh: [u8; 32]) -> (String, Option<HeaderValue>) {
        match find(headers, self.browser) {
            Some(known) if known.len() == 43 => (known.to_owned(), None),
            _ => {
                let name = base64url(&fresh);
                let set = set(self.browser, &name, self.secure);
                (name, Some(set))
            }
        }
    }
}

/// Lifetime of the cookie with the chosen language, in seconds. This is one year.
pub const LANGUAGE_SECONDS: u64 = 365 * 24 * 3600;

/// Users who have signed out in this browser on this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SignedOutMarker {
    NoUser,
    /// Only this user.
    User(Subject),
    /// Several users, or an unknown user.
    Unknown,
}

impl CookieNames {
    /// Returns a cookie that records the sign-out of this user, or of an unknown user.
    ///
    /// Pages that the user left open can still send requests. Because of the cookie, such a request
    /// is not attributed to the next user who signs in. The cookie grants no access.
    pub fn mark_signed_out(&self, headers: &HeaderMap, user: Option<Subject>) -> HeaderValue {
        let only = match (self.signed_out_marker(headers), user) {
            (SignedOutMarker::NoUser, user) => user,
            (SignedOutMarker::User(before), Some(user)) => Some(user).filter(|user| *user == before),
            (SignedOutMarker::User(_), None) | (SignedOutMarker::Unknown, _) => None,
        };
        let value = only.map_or_else(|| "somebody".to_owned(), |user| user.to_string());
        set(self.left, &value, self.secure)
    }

    /// Returns which users have signed out in this browser on this host.
    pub fn signed_out_marker(&self, headers: &HeaderMap) -> SignedOutMarker {
        match find(headers, self.left) {
            None => SignedOutMarker::NoUser,
            Some(value) => Subject::parse(value).map_or(SignedOutMarker::Unknown, SignedOutMarker::User),
        }
    }
}

/// Returns each name-value pair of all `Cookie` headers. HTTP/2 clients may send several headers
/// (RFC 9113 §8.2.3).
///
/// A pair is bytes, because old applications set cookies in the encoding of their pages
/// (`ad=Ayşe`). A cookie that is not UTF-8 must not hide the other cookies.
fn pairs(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    headers
        .get_all(COOKIE)
        .iter()
        .flat_map(|header| header.as_bytes().split(|byte| *byte == b';'))
        .map(trimmed)
        .filter(|pair| !pair.is_empty())
}

/// Trims spaces and tabs (RFC 6265 §5.2). Other whitespace bytes may be letters in another
/// encoding.
pub fn trimmed(bytes: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = bytes.iter().position(is_text).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(is_text).map_or(start, |last| last + 1);
    bytes.get(start..end).unwrap_or_default()
}

/// Returns the value of the first cookie with this name and a UTF-8 value. The values of Sealgate's
/// cookies are always UTF-8.
pub fn find<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let value = |pair: &'a [u8]| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=");
    pairs(headers).filter_map(value).find_map(|value| str::from_utf8(value).ok())
}

/// Returns whether the request has a cookie with this name and value. `pair` is `NAME=VALUE`.
pub fn has(headers: &HeaderMap, pair: &str) -> bool {
    pairs(headers).any(|own| own == pair.as_bytes())
}

/// Returns the `Cookie` header without Sealgate's cookies, with or without the `__Host-` prefix.
/// Returns `None` if no cookie remains.
pub fn without_ours(headers: &HeaderMap) -> Option<HeaderValue> {
    let theirs: Vec<&[u8]> = pairs(headers).filter(|pair| !is_ours(pair)).collect();
    (!theirs.is_empty()).then(|| HeaderValue::from_bytes(&theirs.join(b"; ".as_slice())).ok()).flatten()
}

fn is_ours(pair: &[u8]) -> bool {
    let name = trimmed(pair.split(|byte| *byte == b'=').next().unwrap_or_default());
    let bare = name.strip_prefix(b"__Host-").unwrap_or(name);
    OURS.contains(&bare) || server_cookie::is_name(bare)
}

/// Names of Sealgate's cookies, without the `__Host-` prefix. Cookies of servers have numbers: see
/// [`server_cookie`].
const OURS: [&[u8]; 10] = [
    b"sealgate",
    b"sealgate-browser",
    b"sealgate-language",
    b"sealgate-known",
    b"sealgate-left",
    b"sealgate-link",
    b"sealgate-back",
    b"sealgate-registration",
    b"sealgate-rounds",
    b"sealgate-last",
];

/// Returns whether an application's Set-Cookie would set one of Sealgate's cookies.
///
/// A cookie without a name is checked by its value, because browsers send `=sealgate=x` as
/// `sealgate=x`.
pub fn sets_ours(line: &[u8]) -> bool {
    let pair = trimmed(line.split(|byte| *byte == b';').next().unwrap_or_default());
    is_ours(pair) || pair.strip_prefix(b"=").is_some_and(|value| is_ours(trimmed(value)))
}

/// Returns a Set-Cookie header for a session cookie. `value` is generated by the server, as
/// base64url or a plain word.
pub fn set(name: &str, value: &str, secure: bool) -> HeaderValue {
    attributes(name, value, secure, "")
}

/// Returns a Set-Cookie header with a lifetime in seconds.
pub fn set_for(name: &str, value: &str, secure: bool, seconds: u64) -> HeaderValue {
    attributes(name, value, secure, &format!("; Max-Age={seconds}"))
}

/// Returns a Set-Cookie header that removes the cookie.
pub fn expire(name: &str, secure: bool) -> HeaderValue {
    attributes(name, "", secure, "; Max-Age=0")
}

fn attributes(name: &str, value: &str, secure: bool, life: &str) -> HeaderValue {
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{secure}{life}");
    // Cannot fail: names and values contain only letters, digits, '-', '_' and '.'.
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static(""))
}

/// Lifetime of the cookie with the destination of the last sign-in, in seconds.
pub const DESTINATION_SECONDS: u64 = 60;

/// Maximum length of a destination in bytes. Browsers refuse cookies of more than 4096 bytes, and
/// the encoding adds a third.
pub const MAX_DESTINATION_BYTES: usize = 2048;

/// Returns the cookie's value for the sign-in `of`. Returns `None` if the destination is too long.
pub fn destination_value(of: &str, destination: &str) -> Option<String> {
    (destination.len() <= MAX_DESTINATION_BYTES).then(|| format!("{of}.{}", base64url(destination.as_bytes())))
}

/// Returns the destination in the cookie's value. Returns `None` if the cookie belongs to another
/// sign-in than `of`.
pub fn read_destination(cookie: Option<&str>, of: Option<&str>) -> Option<String> {
    let (known, destination) = cookie?.split_once('.')?;
    if of.is_some_and(|of| of != known) {
        return None;
    }
    String::from_utf8(from_base64url(destination)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[&str]) -> HeaderMap {
        lines.iter().map(|line| (COOKIE, HeaderValue::from_str(line).unwrap())).collect()
    }

    #[test]
    fn a_cookie_is_found_in_any_header_by_its_whole_name() {
        let headers = headers(&["a=1; xsealgate=2", "sealgate-browser=3; sealgate=4"]);
        assert_eq!(find(&headers, "sealgate"), Some("4"));
        assert_eq!(find(&headers, "b"), None);
    }

    #[test]
    fn a_non_ascii_byte_hides_no_cookie() {
        for strange in [&b"ad=Ay\xc5\x9fe"[..], b"ad=Ay\xfee", b"\xff", b"ad=\xa0", b"sealgate=\xff"] {
            let line = [strange, b"; sealgate=4; ad2=\xfe"].concat();
            let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_bytes(&line).unwrap())]);
            assert_eq!(find(&headers, "sealgate"), Some("4"), "{strange:?}");
            let left = without_ours(&headers).unwrap();
            let kept = if strange.starts_with(b"sealgate=") { b"".to_vec() } else { [strange, b"; "].concat() };
            assert_eq!(left.as_bytes(), [&kept, &b"ad2=\xfe"[..]].concat(), "{strange:?}");
        }
    }

    #[test]
    fn only_space_and_tab_are_blanks() {
        for (raw, text) in
            [(&b" \ta b\t "[..], &b"a b"[..]), (b"\xa0a\xa0", b"\xa0a\xa0"), (b"\x0ca", b"\x0ca"), (b" ", b"")]
        {
            assert_eq!(trimmed(raw), text);
        }
    }

    #[test]
    fn the_cookie_of_a_signed_out_user_lasts_until_the_next_sign_out() {
        let names = CookieNames {
            session: "s",
            browser: "b",
            language: "l",
            known: "k",
            left: "left",
            link: "link",
            back: "back",
            departure: "departure",
            registration: "registration",
            last: "last",
            secure: false,
        };
        let (anna, ben) = (Subject::from_random([1; 16]), Subject::from_random([2; 16]));
        let after = |before: &str, user| {
            let set = names.mark_signed_out(&headers(&[before]), user);
            names.signed_out_marker(&headers(&[set.to_str().unwrap().split(';').next().unwrap()]))
        };
        let of = |user: Subject| format!("left={user}");
        assert_eq!(names.signed_out_marker(&headers(&["a=b"])), SignedOutMarker::NoUser);
        assert_eq!(after("a=b", Some(anna)), SignedOutMarker::User(anna));
        assert_eq!(after(&of(anna), Some(anna)), SignedOutMarker::User(anna));
        for (before, user) in
            [("a=b", None), (&*of(anna), None), (&*of(anna), Some(ben)), ("left=somebody", Some(anna))]
        {
            assert_eq!(after(before, user), SignedOutMarker::Unknown, "{before}");
        }
    }

    #[test]
    fn an_application_cannot_set_sealgates_cookies() {
        for line in
            ["sealgate=x", " __Host-sealgate = x; Path=/", "sealgate-browser=", "=sealgate=x", "= __Host-sealgate=x"]
        {
            assert!(sets_ours(line.as_bytes()), "{line}");
        }
        for line in ["a=sealgate", "sealgate2=x", "a=b; sealgate=x", "", "=", "=a"] {
            assert!(!sets_ours(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn sealgates_cookies_are_removed_and_others_kept_unchanged() {
        let headers = headers(&["a=\"x y\"; __Host-sealgate=s", "sealgate-browser=b; c=d=e"]);
        assert_eq!(without_ours(&headers).unwrap(), "a=\"x y\"; c=d=e");
        assert_eq!(without_ours(&self::headers(&["sealgate=1"])), None);
    }

    #[test]
    fn a_destination_is_read_for_its_own_sign_in_or_for_any() {
        let cookie = destination_value("s", "/a?b=c").unwrap();
        for of in [None, Some("s")] {
            assert_eq!(read_destination(Some(&cookie), of).as_deref(), Some("/a?b=c"));
        }
        assert_eq!(read_destination(Some(&cookie), Some("t")), None);
        for cookie in ["", ".", "s", "s.*", "s._w"] {
            assert_eq!(read_destination(Some(cookie), None).filter(|text| !text.is_empty()), None, "{cookie}");
        }
        assert_eq!(read_destination(None, None), None);
    }

    #[test]
    fn the_longest_destination_fits_into_a_cookie() {
        let name = "__Host-sealgate-last=; Path=/; HttpOnly; SameSite=Lax; Secure; Max-Age=60";
        let value = destination_value(&"s".repeat(43), &"a".repeat(MAX_DESTINATION_BYTES)).unwrap();
        assert!(value.len() + name.len() <= 4096, "{}", value.len());
        assert_eq!(destination_value("s", &"a".repeat(MAX_DESTINATION_BYTES + 1)), None);
    }
}
