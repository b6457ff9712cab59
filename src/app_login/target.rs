//! The only server that may receive the requests of a sign-in.

use http::header::USER_AGENT;
use http::{HeaderName, HeaderValue};
use url::Url;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Upstream of an application, and the public address of the application.
///
/// All requests of a sign-in go to the upstream. Redirects and form actions may name the upstream
/// or the public host. In both cases, the request goes to the upstream.
#[derive(Debug, Clone)]
pub struct LoginTarget {
    upstream: Url,
    public: Option<PublicAddress>,
    /// Headers that describe the browser of the user who signs in.
    client: Vec<(HeaderName, HeaderValue)>,
}

/// Address at which browsers reach the application.
#[derive(Debug, Clone)]
struct PublicAddress {
    scheme: &'static str,
    /// Host with an optional port, in lower case.
    host: String,
    /// Whether the application receives the public host in `Host`. If not, it receives the
    /// upstream's.
    is_in_host_header: bool,
}

impl LoginTarget {
    /// Creates a target from the upstream's scheme, host and port. Requests name the upstream in the
    /// `Host` header.
    ///
    /// # Errors
    /// One line, if the upstream has other parts.
    pub fn new(upstream: &str) -> Result<Self, String> {
        let url = Url::parse(upstream).ok().filter(|url| {
            ["http", "https"].contains(&url.scheme())
                && url.path() == "/"
                && url.password().is_none()
                && !upstream.contains(['@', '?', '#', '\\'])
        });
        let url = url.ok_or_else(|| {
            format!("{upstream:?} is not an upstream; write scheme, host and port, such as http://127.0.0.1:8081")
        })?;
        Ok(Self { upstream: url, public: None, client: Vec::new() })
    }

    /// Sets the public address: an optional scheme (by default https), a host and an optional port.
    /// As in the requests of browsers, the application receives the address in `X-Forwarded-Host`
    /// and `X-Forwarded-Proto`. If `is_in_host_header` is true, it also receives the host in
    /// `Host`.
    ///
    /// # Errors
    /// One line, if the address has other parts.
    pub fn with_public(self, address: &str, is_in_host_header: bool) -> Result<Self, String> {
        let (scheme, host) = match address.split_once("://") {
            Some(("http", host)) => ("http", host),
            Some(("https", host)) => ("https", host),
            Some(_) => ("https", ""),
            None => ("https", address),
        };
        if public_origins(host).is_none() {
            return Err(format!(
                "{address:?} is not a host; write a name and an optional port, such as wiki.example.com"
            ));
        }
        let public = PublicAddress { scheme, host: host.to_ascii_lowercase(), is_in_host_header };
        Ok(Self { public: Some(public), ..self })
    }

    /// Sets address and `User-Agent` of the user's browser. Some applications bind a session to them.
    #[must_use]
    pub fn for_browser(self, address: &str, user_agent: Option<&HeaderValue>) -> Self {
        let address = HeaderValue::try_from(address).ok().map(|address| (FORWARDED_FOR, address));
        let user_agent = user_agent.cloned().map(|user_agent| (USER_AGENT, user_agent));
        Self { client: address.into_iter().chain(user_agent).collect(), ..self }
    }

    /// Returns the headers that the gateway adds to each request of the browser.
    pub(crate) fn forwarded(&self) -> Vec<(HeaderName, HeaderValue)> {
        let public = self.public.iter().flat_map(|public| {
            let host = HeaderValue::try_from(&public.host).ok();
            let scheme = Some(HeaderValue::from_static(public.scheme));
            [(FORWARDED_HOST, host), (FORWARDED_PROTO, scheme)]
        });
        let public = public.filter_map(|(name, value)| Some((name, value?)));
        public.chain(self.client.iter().cloned()).collect()
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        let public = self.public.as_ref().filter(|public| public.is_in_host_header);
        public.map_or_else(|| self.upstream.authority(), |public| &public.host)
    }

    /// Returns the value of the `Origin` header: the application's own origin from its point of view.
    pub(crate) fn origin(&self) -> String {
        let scheme = self.public.as_ref().map_or_else(|| self.upstream.scheme(), |public| public.scheme);
        format!("{scheme}://{}", self.authority())
    }

    /// Returns the URL of a path of a recipe. The recipe's parser has checked the path.
    pub(crate) fn url(&self, path: &str) -> Result<Url, String> {
        self.resolve(&self.upstream, path)
    }

    /// Resolves a reference in a response to the request for `base`, and returns its URL at the
    /// upstream.
    ///
    /// # Errors
    /// The reference without its query, if it leads to another origin.
    pub(crate) fn resolve(&self, base: &Url, reference: &str) -> Result<Url, String> {
        let url = base.join(reference).map_err(|_| "an invalid URL".to_owned())?;
        if !self.is_own(&url) {
            return Err(format!("{}{}", origin_of(&url), shown_path(&url)));
        }
        let mut own = self.upstream.clone();
        own.set_path(url.path());
        own.set_query(url.query());
        Ok(own)
    }

    fn is_own(&self, url: &Url) -> bool {
        let own = |origins: [Url; 2]| origins.iter().any(|public| public.origin() == url.origin());
        let public = self.public.as_ref().and_then(|public| public_origins(&public.host));
        url.origin() == self.upstream.origin() || public.is_some_and(own)
    }
}

/// Returns both URLs of a public host. If TLS ends in front of the application, the application may
/// write either scheme.
fn public_origins(host: &str) -> Option<[Url; 2]> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter);
    if host.is_empty() || !host.chars().all(is_plain) {
        return None;
    }
    let url = |scheme| Url::parse(&format!("{scheme}://{host}/")).ok();
    Some([url("http")?, url("https")?])
}

/// Returns scheme, host and port, without a username.
fn origin_of(url: &Url) -> String {
    if url.origin().is_tuple() { url.origin().ascii_serialization() } else { format!("{}:", url.scheme()) }
}

/// Returns the path of a URL for messages: without the query and without parameters such as
/// `;jsessionid=`, which may contain secrets.
pub(crate) fn shown_path(url: &Url) -> String {
    if url.cannot_be_a_base() {
        return String::new();
    }
    let segments = url.path().split('/').map(|segment| segment.split(';').next().unwrap_or_default());
    segments.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_stay_at_the_upstream() {
        let target = LoginTarget::new("http://127.0.0.1:8081").unwrap().with_public("Wiki.example.test", true).unwrap();
        let base = target.url("/app/login?next=1").unwrap();
        for (reference, url) in [
            ("x;s=1?a=b#c", "http://127.0.0.1:8081/app/x;s=1?a=b"),
            ("/y", "http://127.0.0.1:8081/y"),
            ("?z", "http://127.0.0.1:8081/app/login?z"),
            ("http://127.0.0.1:8081/a", "http://127.0.0.1:8081/a"),
            ("https://wiki.example.test/a", "http://127.0.0.1:8081/a"),
            ("http://WIKI.example.test:80/a", "http://127.0.0.1:8081/a"),
        ] {
            assert_eq!(target.resolve(&base, reference).unwrap().as_str(), url);
        }
        for (reference, told) in [
            ("//evil.test/p?q=secret", "http://evil.test/p"),
            ("\\\\evil.test/p", "http://evil.test/p"),
            ("http://127.0.0.1:8082/", "http://127.0.0.1:8082/"),
            ("https://127.0.0.1:8081/", "https://127.0.0.1:8081/"),
            ("http://user:secret@evil.test/a;s=secret", "http://evil.test/a"),
            ("https://wiki.example.test:8443/", "https://wiki.example.test:8443/"),
            ("javascript:alert(1)", "javascript:"),
            ("file:///etc/passwd", "file:/etc/passwd"),
        ] {
            assert_eq!(target.resolve(&base, reference).unwrap_err(), told, "{reference}");
        }
    }

    #[test]
    fn an_upstream_is_an_origin() {
        for text in ["127.0.0.1:1", "ftp://h", "http://h/path", "http://u@h", "http://h?q", "http://h#f"] {
            assert!(LoginTarget::new(text).is_err(), "{text}");
        }
        for host in ["", "a/b", "a@b", "a b", "a\r\nx: y", "ftp://a", "https://a/b", "https://"] {
            assert!(LoginTarget::new("http://h").unwrap().with_public(host, true).is_err(), "{host}");
        }
        let target = LoginTarget::new("https://h:444").unwrap();
        assert_eq!((target.authority(), target.origin().as_str()), ("h:444", "https://h:444"));
        assert_eq!(target.forwarded().len(), 0);
    }

    #[test]
    fn the_application_receives_the_public_address_as_with_other_requests() {
        let target = |address, is_in_host_header| {
            let target = LoginTarget::new("http://h:81").unwrap().with_public(address, is_in_host_header).unwrap();
            let line = |(name, value): &(HeaderName, HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
            let forwarded = target.forwarded().iter().map(line).collect::<Vec<_>>();
            (target.authority().to_owned(), target.origin(), forwarded.join(", "))
        };
        let owned =
            |authority: &str, origin: &str, fields: &str| (authority.to_owned(), origin.to_owned(), fields.to_owned());
        let https = "x-forwarded-host: wiki.test, x-forwarded-proto: https";
        assert_eq!(target("wiki.test", true), owned("wiki.test", "https://wiki.test", https));
        assert_eq!(target("wiki.test", false), owned("h:81", "https://h:81", https));
        let http = "x-forwarded-host: wiki.test:82, x-forwarded-proto: http";
        assert_eq!(target("http://Wiki.test:82", true), owned("wiki.test:82", "http://wiki.test:82", http));
    }
}
