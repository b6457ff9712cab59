//! The server that a sign-in may reach, and no other.

use url::Url;

/// Upstream of an application, and the public host in the `Host` header.
///
/// All requests of a sign-in go to the upstream. A redirect or a form action is followed if it
/// names the upstream or the public host; the request then still goes to the upstream.
#[derive(Debug, Clone)]
pub struct LoginTarget {
    upstream: Url,
    host: Option<String>,
}

impl LoginTarget {
    /// Creates a target from the upstream's scheme, host and port, and from the public host with an
    /// optional port. Without `host`, requests name the upstream in the `Host` header.
    ///
    /// # Errors
    /// One line, if one of them has other parts.
    pub fn new(upstream: &str, host: Option<&str>) -> Result<Self, String> {
        let url = Url::parse(upstream).ok().filter(|url| {
            ["http", "https"].contains(&url.scheme())
                && url.path() == "/"
                && url.password().is_none()
                && !upstream.contains(['@', '?', '#', '\\'])
        });
        let url = url.ok_or_else(|| {
            format!("{upstream:?} is not an upstream; write scheme, host and port, such as http://127.0.0.1:8081")
        })?;
        if let Some(host) = host
            && public_origins(host).is_none()
        {
            return Err(format!("{host:?} is not a host; write a name and an optional port, such as wiki.example.com"));
        }
        Ok(Self { upstream: url, host: host.map(str::to_ascii_lowercase) })
    }

    /// Returns the value of the `Host` header.
    pub(crate) fn authority(&self) -> &str {
        self.host.as_deref().unwrap_or_else(|| self.upstream.authority())
    }

    /// Returns the value of the `Origin` header: the application's own origin from its point of view.
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.upstream.scheme(), self.authority())
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
        url.origin() == self.upstream.origin() || self.host.as_deref().and_then(public_origins).is_some_and(own)
    }
}

/// Returns both URLs of a public host. TLS may end in front of the application, which then writes
/// either scheme.
fn public_origins(host: &str) -> Option<[Url; 2]> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:[]".contains(letter);
    if host.is_empty() || !host.chars().all(is_plain) {
        return None;
    }
    let url = |scheme| Url::parse(&format!("{scheme}://{host}/")).ok();
    Some([url("http")?, url("https")?])
}

/// Returns scheme, host and port, without a user name.
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
        let target = LoginTarget::new("http://127.0.0.1:8081", Some("Wiki.example.test")).unwrap();
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
            assert!(LoginTarget::new(text, None).is_err(), "{text}");
        }
        for host in ["", "a/b", "a@b", "a b", "a\r\nx: y", "https://a"] {
            assert!(LoginTarget::new("http://h", Some(host)).is_err(), "{host}");
        }
        let target = LoginTarget::new("https://h:444", None).unwrap();
        assert_eq!((target.authority(), target.origin().as_str()), ("h:444", "https://h:444"));
    }
}
