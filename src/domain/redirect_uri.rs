//! Redirect URIs (RFC 6749 §3.1.2, RFC 8252 §7.3, RFC 9700 §4.1; K6 and K16 of
//! docs/explanation/protocol.md).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::{Host, Url};

/// Maximum length of a registered URI in bytes, to prevent abuse of the store.
const MAX_LENGTH: usize = 2000;

/// Suffix of host names that browsers resolve to the local device (RFC 6761 §6.3). URIs with such a
/// host cannot be registered.
const OWN_DEVICE: &str = ".localhost";

/// Registered redirect URI. The scheme is https, or http on the local device. It has no fragment,
/// username or wildcard.
///
/// URIs are compared byte for byte.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RedirectUri(String);

impl RedirectUri {
    /// Parses a URI for registration.
    ///
    /// # Errors
    /// Returns the violated rule.
    pub fn parse(text: &str) -> Result<Self, RedirectUriFault> {
        let uri = Self::parse_stored(text)?;
        match authority(text) {
            Some(("http", host)) if host.ends_with(OWN_DEVICE) => Err(RedirectUriFault::Scheme),
            _ => Ok(uri),
        }
    }

    /// Parses a URI from a record, with weaker rules than [`Self::parse`].
    ///
    /// For an evaluation, the issuer may be on the local device. A record may then contain the console's
    /// own URI, whose host may end in `.localhost`.
    fn parse_stored(text: &str) -> Result<Self, RedirectUriFault> {
        if text.len() > MAX_LENGTH {
            return Err(RedirectUriFault::TooLong);
        }
        // A URL parser removes tabs and newlines, and replaces backslashes. Such characters are
        // rejected, because the raw text is compared.
        if text.bytes().any(|byte| byte <= b' ' || byte >= 0x7f || matches!(byte, b'\\' | b'"' | b'<' | b'>')) {
            return Err(RedirectUriFault::Characters);
        }
        let url = Url::parse(text).map_err(|_| RedirectUriFault::NotAbsolute)?;
        if text.contains('*') {
            return Err(RedirectUriFault::Wildcard);
        }
        if text.contains('#') {
            return Err(RedirectUriFault::Fragment);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(RedirectUriFault::UserName);
        }
        // Check the text too. The parser accepts `http://2130706433`. It also accepts
        // `https:rp.test`, which a browser would interpret as a path of this server.
        match authority(text) {
            Some(("https", host)) if is_host(host) => Ok(Self(text.to_owned())),
            Some(("https", _)) => Err(RedirectUriFault::Host),
            Some(("http", "localhost" | "127.0.0.1" | "[::1]")) => Ok(Self(text.to_owned())),
            Some(("http", host)) if host.ends_with(OWN_DEVICE) && is_host(host) => Ok(Self(text.to_owned())),
            _ => Err(RedirectUriFault::Scheme),
        }
    }

    /// Returns a URI of a protected application: its callback, or the page after a sign-out. The
    /// operator configured the URI, so any host name is permitted, and http too.
    pub fn of_application(uri: &str) -> Self {
        Self(uri.to_owned())
    }

    /// Returns the URI as it was registered or configured.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the host in lower case, without the port. Returns `None` for an http URI.
    pub fn remote_host(&self) -> Option<String> {
        let url = Url::parse(&self.0).ok().filter(|url| url.scheme() == "https")?;
        // A host name with a trailing dot is the same host.
        url.host_str().map(|host| host.trim_end_matches('.').to_owned())
    }

    /// Returns whether a requested URI matches this URI byte for byte.
    ///
    /// As an exception, a URI with a loopback IP address and no port matches every port (RFC 8252
    /// §7.3), because a native application cannot choose its port.
    pub fn matches(&self, requested: &str) -> bool {
        self.0 == requested || self.matches_any_port(&["http://127.0.0.1", "http://[::1]"], requested)
    }

    /// Returns whether this URI has the host `localhost` and no port, and a requested URI differs
    /// from it only by a port.
    ///
    /// RFC 8252 §8.3 recommends addresses, but native applications register this name. It may resolve
    /// to another address than the application's, so only native applications can rely on it.
    pub fn matches_localhost(&self, requested: &str) -> bool {
        self.matches_any_port(&["http://localhost"], requested)
    }

    /// Returns whether the URI is on the user's device.
    pub fn is_on_device(&self) -> bool {
        matches!(authority(&self.0), Some(("http", "localhost" | "127.0.0.1" | "[::1]")))
    }

    /// Returns whether this URI has one of these origins, and a requested URI has a port in addition.
    fn matches_any_port(&self, origins: &[&str], requested: &str) -> bool {
        origins.iter().any(|origin| {
            let (Some(rest), Some(requested)) = (self.0.strip_prefix(origin), requested.strip_prefix(origin)) else {
                return false;
            };
            // The host ends here, and has no port of its own.
            if !(rest.is_empty() || rest.starts_with(['/', '?'])) {
                return false;
            }
            let Some(port_and_path) = requested.strip_prefix(':') else { return false };
            let digits = port_and_path.bytes().take_while(u8::is_ascii_digit).count();
            let (port, path) = port_and_path.split_at(digits);
            path == rest && !port.starts_with('0') && port.parse::<u16>().is_ok()
        })
    }
}

/// Returns the scheme and the host as written, without the port.
fn authority(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    };
    Some((scheme, host))
}

/// Returns whether the text is a host name or an IP address.
///
/// Stricter than a URL parser, which accepts `rp.test;x`. The host becomes part of a
/// Content-Security-Policy. With a semicolon or comma in the host, the client could add a directive
/// or a policy.
fn is_host(host: &str) -> bool {
    let name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    let address = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.bytes().all(address),
        None => !host.is_empty() && host.bytes().all(name),
    }
}

/// Returns the source for `form-action` on a page whose form leads to a matched URI: the origin and
/// the scheme of the URI.
///
/// Chromium checks all redirects after a form against the policy, including redirects by the
/// client. With the origin alone, sign-ins would fail silently for clients whose callback redirects
/// to another host. An IPv6 address is not permitted in a policy (CSP Level 3 §2.3.1).
pub fn form_action(uri: &str) -> Option<String> {
    let url = Url::parse(uri).ok()?;
    let scheme = url.scheme();
    match url.host()? {
        Host::Ipv6(_) => Some(format!("{scheme}:")),
        Host::Domain(_) | Host::Ipv4(_) => Some(format!("{} {scheme}:", url.origin().ascii_serialization())),
    }
}

/// Returns the host and port of a URI, to show them to users.
pub fn host(uri: &str) -> Option<String> {
    let url = Url::parse(uri).ok()?;
    let host = url.host_str()?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// Reason to reject a URI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RedirectUriFault {
    /// The URI is longer than 2000 bytes.
    #[error("a redirect URI can have at most 2000 characters")]
    TooLong,
    #[error("a redirect URI must not have spaces, quotes, backslashes or non-ASCII characters")]
    Characters,
    /// The text is relative or not a URI.
    #[error("a redirect URI must be an absolute URI")]
    NotAbsolute,
    /// The URI contains `*`.
    #[error("a redirect URI must not have a wildcard")]
    Wildcard,
    /// The URI contains `#`.
    #[error("a redirect URI must not have a fragment")]
    Fragment,
    #[error("a redirect URI must not have a username")]
    UserName,
    /// The host contains characters that neither names nor addresses have.
    #[error("the host of a redirect URI can only have letters, digits, hyphens, dots and underscores")]
    Host,
    /// The URI is neither https nor http on the local device.
    #[error("a redirect URI must be https, or http on localhost, 127.0.0.1 or [::1]")]
    Scheme,
    /// The URI is on the host of the issuer or of a protected application.
    #[error("only an administrator can register a redirect URI on this host")]
    OwnHost,
}

impl fmt::Display for RedirectUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for RedirectUri {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RedirectUri {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse_stored(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn https_and_this_device_are_allowed() {
        for uri in [
            "https://rp.test/cb",
            "https://rp.test/cb?a=b",
            "http://localhost:3000/cb",
            "http://127.0.0.1/cb",
            "http://[::1]:9/cb",
        ] {
            assert!(RedirectUri::parse(uri).is_ok(), "{uri}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for uri in [
            "http://rp.test/cb",
            "javascript:alert(1)",
            "data:text/html,x",
            "/relative",
            "https://*.rp.test/cb",
            "com.example.app:/cb",
            "https://rp.test/cb#f",
            "https://rp.test/cb#",
            "https://u:p@rp.test/",
            "https://",
            "http://localhost.evil.test/",
            "http://127.0.0.2/",
            "http://127.0.0.1.evil.test/",
            "https://rp.test/\ncb",
            "https:\\\\rp.test/",
            "https://rp.test;sandbox/cb",
            "https://rp.test,x/cb",
            "https://a=b/cb",
            "https://@rp.test/",
            "https://:@rp.test/",
            "https://[::1;x]/",
            "https:rp.test/cb",
            "https:///rp.test/cb",
            "https://:443/cb",
            "HTTPS://rp.test/cb",
            "https:rp.test/?x=https://rp.test/",
            "http://2130706433/",
            "http://127.1/",
            "http://[0:0:0:0:0:0:0:1]/",
            "https://ğ.test/cb",
        ] {
            assert!(RedirectUri::parse(uri).is_err(), "{uri}");
        }
    }

    /// If the issuer is on the local device, a client has the console's own URI. The record of that
    /// client must be readable.
    #[test]
    fn the_consoles_own_uri_is_readable_but_cannot_be_registered() {
        let read = |text: &str| serde_json::from_value::<RedirectUri>(text.into());
        let own = "http://id.localhost:8080/console/callback";
        assert_eq!(read(own).unwrap(), RedirectUri::of_application(own));
        assert!(RedirectUri::parse(own).is_err());
        for wrong in
            ["http://rp.test/cb", "http://localhost.evil.test/", "http://a;b.localhost/", "http://a@b.localhost/"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn comparison_is_byte_for_byte() {
        let registered = RedirectUri::parse("https://rp.test/cb").unwrap();
        for other in ["https://rp.test/cb/", "HTTPS://rp.test/cb", "https://rp.test:443/cb", "https://rp.test/cb?x=1"] {
            assert!(!registered.matches(other), "{other}");
        }
        assert!(!RedirectUri::parse("http://localhost/cb").unwrap().matches("http://localhost:3001/cb"));
    }

    #[test]
    fn a_loopback_literal_without_a_port_matches_any_port() {
        let registered = RedirectUri::parse("http://127.0.0.1/cb").unwrap();
        assert!(registered.matches("http://127.0.0.1:51004/cb"));
        for other in [
            "http://127.0.0.1:51004/cb2",
            "http://127.0.0.1:/cb",
            "http://127.0.0.1:99999/cb",
            "http://127.0.0.1:080/cb",
            "http://127.0.0.1:80@evil.test/cb",
            "http://127.0.0.1.evil.test/cb",
            "https://127.0.0.1:51004/cb",
        ] {
            assert!(!registered.matches(other), "{other}");
        }
        assert!(!RedirectUri::parse("http://127.0.0.1:80/cb").unwrap().matches("http://127.0.0.1:81/cb"));
    }

    #[test]
    fn localhost_without_a_port_matches_any_port_for_native_clients() {
        let registered = RedirectUri::parse("http://localhost/cb").unwrap();
        assert!(registered.matches_localhost("http://localhost:51004/cb"));
        for other in [
            "http://localhost/cb",
            "http://localhost:51004/cb2",
            "http://localhost:51004",
            "http://localhost:/cb",
            "http://localhost:080/cb",
            "http://localhost:80@evil.test/cb",
            "http://localhost.evil.test:80/cb",
            "http://127.0.0.1:51004/cb",
            "https://localhost:51004/cb",
        ] {
            assert!(!registered.matches_localhost(other), "{other}");
        }
        for uri in ["http://localhost:80/cb", "https://localhost/cb", "http://127.0.0.1/cb"] {
            assert!(!RedirectUri::parse(uri).unwrap().matches_localhost("http://localhost:81/cb"), "{uri}");
        }
    }

    #[test]
    fn uris_on_the_device_are_known() {
        for uri in ["http://localhost/cb", "http://localhost:3000/cb", "http://127.0.0.1:1/", "http://[::1]/cb?a"] {
            assert!(RedirectUri::parse(uri).unwrap().is_on_device(), "{uri}");
        }
        for uri in ["https://localhost/cb", "https://127.0.0.1/", "https://rp.test/http://localhost/"] {
            assert!(!RedirectUri::parse(uri).unwrap().is_on_device(), "{uri}");
        }
    }

    proptest! {
        #[test]
        fn every_match_has_the_registered_host(requested in "http://127\\.0\\.0\\.1[:@./a-z0-9]{0,20}") {
            let registered = RedirectUri::parse("http://127.0.0.1/cb").unwrap();
            if registered.matches(&requested) {
                let url = Url::parse(&requested).unwrap();
                prop_assert_eq!(url.host_str(), Some("127.0.0.1"));
                prop_assert_eq!(url.path(), "/cb");
            }
        }
    }
}
