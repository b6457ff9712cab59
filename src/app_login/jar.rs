//! Cookies of one application for one session.

use std::fmt;
use std::time::Duration;

use cookie::Cookie;
use sealgate_domain::time::UnixTime;
use zeroize::Zeroizing;

/// Maximum number of cookies. The oldest are evicted first, as in RFC 6265 §6.1.
const MAX_COOKIES: usize = 50;

/// Maximum length of name and value of a cookie, in bytes. Longer cookies are ignored.
const MAX_COOKIE_BYTES: usize = 4096;

/// Maximum length of all names, values and paths, in bytes.
const MAX_JAR_BYTES: usize = 16 * 1024;

/// Cookies that one application set in one session of one user (RFC 6265).
///
/// The jar serves one origin, so it ignores `Domain`. It sends cookies with `Secure` even if the
/// connection to the upstream has no TLS.
#[derive(Clone, Default)]
pub struct CookieJar {
    /// Oldest first.
    cookies: Vec<StoredCookie>,
}

#[derive(Clone, PartialEq, Eq)]
struct StoredCookie {
    name: String,
    value: Zeroizing<String>,
    path: String,
    expires: Option<UnixTime>,
}

impl StoredCookie {
    fn len(&self) -> usize {
        self.name.len() + self.value.len() + self.path.len()
    }
}

impl CookieJar {
    /// Stores the cookie of a `Set-Cookie` field in the response to a request for `request_path`.
    ///
    /// A cookie replaces the cookie with the same name and path. Invalid cookies and too long
    /// cookies are ignored. Returns the name of a stored or removed cookie.
    pub fn store(&mut self, set_cookie: &str, request_path: &str, now: UnixTime) -> Option<String> {
        let cookie = Cookie::parse(set_cookie).ok()?;
        let (name, value) = (cookie.name(), cookie.value());
        let is_valid = |text: &str| !text.bytes().any(|byte| byte.is_ascii_control() || byte == b';');
        if name.len() + value.len() > MAX_COOKIE_BYTES || !is_valid(name) || !is_valid(value) {
            return None;
        }
        let path = match cookie.path() {
            Some(path) if path.starts_with('/') => path,
            _ => default_path(request_path),
        };
        // Max-Age has precedence over Expires (RFC 6265 §5.3).
        let expires = match (cookie.max_age(), cookie.expires_datetime()) {
            (Some(age), _) => Some(now.plus(Duration::from_secs(age.whole_seconds().max(0).unsigned_abs()))),
            (None, Some(at)) => Some(UnixTime::from_seconds(at.unix_timestamp().max(0).unsigned_abs())),
            (None, None) => None,
        };
        let stored = StoredCookie {
            name: name.to_owned(),
            value: Zeroizing::new(value.to_owned()),
            path: path.to_owned(),
            expires,
        };
        self.cookies.retain(|other| (other.name.as_str(), other.path.as_str()) != (name, path));
        if stored.len() <= MAX_JAR_BYTES && is_current(&stored, now) {
            self.cookies.push(stored);
            self.evict(now);
        }
        Some(name.to_owned())
    }

    /// Returns the `Cookie` header for a request. `path` is the path of the request without the
    /// query.
    ///
    /// Cookies with longer paths come first (RFC 6265 §5.4).
    pub fn header(&self, path: &str, now: UnixTime) -> Option<Zeroizing<String>> {
        let mut cookies: Vec<&StoredCookie> = self.cookies_for(path, now).collect();
        cookies.sort_by_key(|cookie| std::cmp::Reverse(cookie.path.len()));
        let mut header = Zeroizing::new(String::with_capacity(cookies.iter().map(|cookie| cookie.len() + 3).sum()));
        for cookie in cookies {
            if !header.is_empty() {
                header.push_str("; ");
            }
            header.push_str(&cookie.name);
            header.push('=');
            header.push_str(&cookie.value);
        }
        (!header.is_empty()).then_some(header)
    }

    /// Returns the values and paths of the cookies with this name that a request of this path sends.
    pub fn named(&self, name: &str, path: &str, now: UnixTime) -> impl Iterator<Item = (&str, &str)> {
        let cookies = self.cookies_for(path, now).filter(move |cookie| cookie.name == name);
        cookies.map(|cookie| (cookie.value.as_str(), cookie.path.as_str()))
    }

    /// Stores the cookies of `after` that differ from those of `before`. `after` is a changed copy
    /// of `before`.
    pub fn merge(&mut self, before: &Self, after: Self, now: UnixTime) {
        for cookie in after.cookies.into_iter().filter(|cookie| !before.cookies.contains(cookie)) {
            self.cookies.retain(|other| (&other.name, &other.path) != (&cookie.name, &cookie.path));
            self.cookies.push(cookie);
        }
        self.evict(now);
    }

    /// Returns the names of the cookies, oldest first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.cookies.iter().map(|cookie| cookie.name.as_str())
    }

    /// Returns the cookies that a request of this path sends.
    fn cookies_for(&self, path: &str, now: UnixTime) -> impl Iterator<Item = &StoredCookie> {
        self.cookies.iter().filter(move |cookie| is_current(cookie, now) && path_matches(path, &cookie.path))
    }

    fn evict(&mut self, now: UnixTime) {
        self.cookies.retain(|cookie| is_current(cookie, now));
        let mut bytes: usize = self.cookies.iter().map(StoredCookie::len).sum();
        let mut surplus = self.cookies.len().saturating_sub(MAX_COOKIES);
        for cookie in self.cookies.iter().skip(surplus) {
            if bytes <= MAX_JAR_BYTES {
                break;
            }
            bytes -= cookie.len();
            surplus += 1;
        }
        self.cookies.drain(..surplus);
    }
}

/// Shows names and paths only.
impl fmt::Debug for CookieJar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.cookies.iter().map(|cookie| (&cookie.name, &cookie.path))).finish()
    }
}

fn is_current(cookie: &StoredCookie, now: UnixTime) -> bool {
    cookie.expires.is_none_or(|at| at > now)
}

/// Returns the default path of a cookie (RFC 6265 §5.1.4).
fn default_path(request_path: &str) -> &str {
    match request_path.rfind('/') {
        Some(end) if end > 0 && request_path.starts_with('/') => request_path.get(..end).unwrap_or("/"),
        _ => "/",
    }
}

/// Returns whether a request for `path` sends a cookie with `cookie_path` (RFC 6265 §5.1.4).
fn path_matches(path: &str, cookie_path: &str) -> bool {
    path.strip_prefix(cookie_path)
        .is_some_and(|rest| rest.is_empty() || cookie_path.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_seconds(1_700_000_000);

    fn jar(cookies: &[(&str, &str)]) -> CookieJar {
        let mut jar = CookieJar::default();
        for (cookie, path) in cookies {
            jar.store(cookie, path, NOW);
        }
        jar
    }

    fn sent(jar: &CookieJar, path: &str) -> String {
        jar.header(path, NOW).map(|header| header.to_string()).unwrap_or_default()
    }

    #[test]
    fn cookies_are_sent_to_their_paths() {
        let jar = jar(&[
            ("a=1; Path=/", "/x"),
            ("b=2", "/app/login"),
            ("b=3; path=/app/admin/; HttpOnly; Secure", "/"),
            ("c=4; Path=relative", "/app/x/y"),
            ("d=5; Domain=other.test", "/login"),
        ]);
        assert_eq!(sent(&jar, "/"), "a=1; d=5");
        assert_eq!(sent(&jar, "/app"), "b=2; a=1; d=5");
        assert_eq!(sent(&jar, "/application"), "a=1; d=5");
        assert_eq!(sent(&jar, "/app/admin"), "b=2; a=1; d=5");
        assert_eq!(sent(&jar, "/app/admin/x"), "b=3; b=2; a=1; d=5");
        assert_eq!(sent(&jar, "/app/x"), "c=4; b=2; a=1; d=5");
    }

    #[test]
    fn the_last_value_of_a_name_and_path_counts() {
        let jar = jar(&[("s=old", "/"), ("t=\"q w\"", "/"), ("s=new=x; Path=/", "/other/page")]);
        assert_eq!(sent(&jar, "/"), "t=\"q w\"; s=new=x");
    }

    #[test]
    fn expired_cookies_are_removed() {
        let mut jar = jar(&[("a=1", "/"), ("b=2", "/"), ("c=3; Max-Age=60", "/"), ("d=4", "/"), ("e=5", "/")]);
        jar.store("a=; Max-Age=0", "/", NOW);
        jar.store("b=deleted; expires=Thu, 01-Jan-1970 00:00:01 GMT; Max-Age=0; path=/", "/", NOW);
        jar.store("d=; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "/", NOW);
        jar.store("e=6; Max-Age=5; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "/", NOW);
        assert_eq!(sent(&jar, "/"), "c=3; e=6");
        assert_eq!(jar.header("/", NOW.plus(Duration::from_secs(5))).unwrap().as_str(), "c=3");
        assert!(jar.header("/", NOW.plus(Duration::from_mins(1))).is_none());
    }

    #[test]
    fn a_flood_of_cookies_is_bounded() {
        let mut jar = CookieJar::default();
        for number in 0..500 {
            jar.store(&format!("n{number}=v"), "/", NOW);
        }
        assert_eq!(jar.names().count(), MAX_COOKIES);
        assert_eq!(jar.names().last(), Some("n499"));
        for number in 0..500 {
            jar.store(&format!("l{number}={}", "x".repeat(4000)), "/", NOW);
        }
        assert_eq!(jar.names().collect::<Vec<_>>(), ["l496", "l497", "l498", "l499"]);
        assert_eq!(jar.store(&format!("big={}", "x".repeat(4096)), "/", NOW), None);
        jar.store(&format!("p=1; Path=/{}", "x".repeat(20_000)), "/", NOW);
        assert_eq!(jar.names().count(), 4);
    }

    #[test]
    fn invalid_cookies_are_ignored() {
        let jar = jar(&[("", "/"), ("novalue", "/"), ("=x", "/"), ("a=b\r\nX: y", "/"), ("a=\0", "/")]);
        assert_eq!(jar.names().count(), 0);
    }

    #[test]
    fn debug_output_has_no_values() {
        let text = format!("{:?}", jar(&[("session=secret", "/")]));
        assert!(text.contains("session") && !text.contains("secret"), "{text}");
    }
}
