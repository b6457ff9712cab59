//! Replacement of the upstream's own name in responses.
//!
//! With `preserve_host = false`, an application receives its own name as `Host` and uses it in
//! redirects and cookies. Clients cannot reach it under that name. nginx has `proxy_redirect` and
//! `proxy_cookie_domain` for the same purpose.

use http::header::{CONTENT_LOCATION, LOCATION, REFRESH, SET_COOKIE};
use http::{HeaderMap, HeaderName, HeaderValue};

/// Name of an upstream, and the public origin that replaces it.
pub(crate) struct NameTranslation<'a> {
    /// `Host` of the upstream, possibly with a port.
    pub(crate) upstream: &'a str,
    /// Public origin of the application: scheme, host and port.
    pub(crate) public_origin: &'a str,
}

impl NameTranslation<'_> {
    /// Replaces the upstream's name in all fields that may contain it.
    pub(crate) fn apply(&self, fields: &mut HeaderMap) {
        replace_urls(fields, |url| self.url(url));
        replace_cookies(fields, |line| self.cookie(line));
    }

    /// Returns the public URL for a URL of the upstream, or `None` for other URLs.
    ///
    /// The scheme does not matter: an application behind a TLS proxy may use http or https.
    fn url(&self, url: &str) -> Option<String> {
        let url = HttpUrl::parse(url).filter(|url| url.is_at(self.upstream))?;
        let slash = if url.tail.starts_with('/') { "" } else { "/" };
        Some(format!("{}{slash}{}", self.public_origin, url.tail))
    }

    /// Removes a `Domain` of the upstream from a cookie. `None` if the cookie has no such
    /// attribute.
    ///
    /// Browsers refuse a cookie for the upstream's domain. Without `Domain`, they keep it for the
    /// host of the request.
    fn cookie(&self, line: &HeaderValue) -> Option<HeaderValue> {
        let is_upstreams = |attribute: &&[u8]| {
            let Some((name, value)) = str::from_utf8(attribute).ok().and_then(|text| text.split_once('=')) else {
                return false;
            };
            name.trim().eq_ignore_ascii_case("domain") && self.is_domain_of_upstream(value.trim())
        };
        let mut parts = line.as_bytes().split(|byte| *byte == b';');
        let pair = parts.next()?;
        let attributes: Vec<_> = parts.collect();
        if !attributes.iter().any(&is_upstreams) {
            return None;
        }
        let kept = attributes.into_iter().filter(|attribute| !is_upstreams(attribute));
        let kept = std::iter::once(pair).chain(kept).collect::<Vec<_>>().join(&b';');
        HeaderValue::from_bytes(&kept).ok()
    }

    /// Returns whether this domain includes the upstream's host but not the public host.
    fn is_domain_of_upstream(&self, domain: &str) -> bool {
        let domain = domain.strip_prefix('.').unwrap_or(domain).to_ascii_lowercase();
        let covers = |host: &str| {
            let host = host.to_ascii_lowercase();
            host == domain || host.strip_suffix(&domain).is_some_and(|rest| rest.ends_with('.'))
        };
        let public = self.public_origin.split_once("://").map_or(self.public_origin, |(_, authority)| authority);
        !domain.is_empty() && covers(without_port(self.upstream)) && !covers(without_port(public))
    }
}

/// Absolute URL, or one without a scheme (`//host/path`), in a response.
pub(super) struct HttpUrl<'a> {
    /// Scheme and slashes.
    pub(super) start: &'a str,
    pub(super) authority: &'a str,
    /// Path, query and fragment.
    pub(super) tail: &'a str,
    default_port: &'static str,
}

impl<'a> HttpUrl<'a> {
    pub(super) fn parse(url: &'a str) -> Option<Self> {
        let (default_port, start, rest) =
            [(":80", "http://"), (":443", "https://"), ("", "//")].into_iter().find_map(|(port, scheme)| {
                let (start, rest) = url.split_at_checked(scheme.len())?;
                start.eq_ignore_ascii_case(scheme).then_some((port, start, rest))
            })?;
        let (authority, tail) = rest.split_at(rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len()));
        (!authority.is_empty()).then_some(Self { start, authority, tail, default_port })
    }

    /// Returns whether the URL is of this host and port.
    pub(super) fn is_at(&self, authority: &str) -> bool {
        let bare = |name: &str| name.strip_suffix(self.default_port).unwrap_or(name).to_ascii_lowercase();
        bare(self.authority) == bare(authority)
    }
}

/// Replaces the URLs for which `new` returns another one, in all fields with a URL that browsers
/// follow.
pub(super) fn replace_urls(fields: &mut HeaderMap, new: impl Fn(&str) -> Option<String>) {
    let replace = |fields: &mut HeaderMap, name: &HeaderName, new: &dyn Fn(&str) -> Option<String>| {
        let value = fields.get(name).and_then(|value| new(str::from_utf8(value.as_bytes()).ok()?));
        if let Some(value) = value.and_then(|value| HeaderValue::try_from(value).ok()) {
            fields.insert(name, value);
        }
    };
    for name in [LOCATION, CONTENT_LOCATION] {
        replace(fields, &name, &new);
    }
    replace(fields, &REFRESH, &|value| refresh(value, &new));
}

/// Replaces the URL in a value like `Refresh: 5; url=…`.
fn refresh(value: &str, new: impl Fn(&str) -> Option<String>) -> Option<String> {
    let start = value.to_ascii_lowercase().find("url=")? + "url=".len();
    let (before, url) = value.split_at_checked(start)?;
    let quote = url.chars().next().filter(|first| matches!(first, '"' | '\'')).map_or(0, char::len_utf8);
    let (quote, url) = url.split_at_checked(quote)?;
    Some(format!("{before}{quote}{}", new(url)?))
}

/// Replaces the cookies for which `new` returns another one.
pub(super) fn replace_cookies(fields: &mut HeaderMap, new: impl Fn(&HeaderValue) -> Option<HeaderValue>) {
    if fields.get_all(SET_COOKIE).iter().any(|line| new(line).is_some()) {
        let lines: Vec<_> = fields.get_all(SET_COOKIE).iter().map(|line| new(line).unwrap_or(line.clone())).collect();
        fields.remove(SET_COOKIE);
        fields.extend(lines.into_iter().map(|line| (SET_COOKIE, line)));
    }
}

/// Returns a host without its port. An IPv6 address keeps its brackets.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: NameTranslation<'_> =
        NameTranslation { upstream: "wiki.internal:8080", public_origin: "https://wiki.example" };
    const PLAIN: NameTranslation<'_> =
        NameTranslation { upstream: "wiki.internal", public_origin: "https://wiki.example:8443" };

    #[test]
    fn urls_of_the_upstream_become_public() {
        for (url, expected) in [
            (
                "http://wiki.internal:8080/a?b=http://wiki.internal:8080/",
                "https://wiki.example/a?b=http://wiki.internal:8080/",
            ),
            ("HTTPS://Wiki.Internal:8080/a#c", "https://wiki.example/a#c"),
            ("//wiki.internal:8080/a", "https://wiki.example/a"),
            ("http://wiki.internal:8080", "https://wiki.example/"),
            ("http://wiki.internal:8080?a", "https://wiki.example/?a"),
        ] {
            assert_eq!(OWN.url(url).as_deref(), Some(expected), "{url}");
        }
        for (url, expected) in [
            ("http://wiki.internal/a", "https://wiki.example:8443/a"),
            ("http://wiki.internal:80/a", "https://wiki.example:8443/a"),
            ("https://wiki.internal:443/a", "https://wiki.example:8443/a"),
        ] {
            assert_eq!(PLAIN.url(url).as_deref(), Some(expected), "{url}");
        }
    }

    #[test]
    fn urls_of_other_hosts_are_unchanged() {
        for url in [
            "/a",
            "a",
            "",
            "http://wiki.internal/a",
            "http://wiki.internal:8081/a",
            "http://user@wiki.internal:8080/a",
            "http://wiki.internal:8080.evil.test/a",
            "http://evil.test/?http://wiki.internal:8080/",
            "ftp://wiki.internal:8080/a",
            "///wiki.internal:8080",
        ] {
            assert_eq!(OWN.url(url), None, "{url}");
        }
        assert_eq!(PLAIN.url("http://wiki.internal:443/a"), None);
    }

    #[test]
    fn the_url_of_a_refresh_becomes_public() {
        for (value, expected) in [
            ("5; url=http://wiki.internal:8080/a", Some("5; url=https://wiki.example/a")),
            ("0;URL='http://wiki.internal:8080/a'", Some("0;URL='https://wiki.example/a'")),
            ("5", None),
            ("5; url=/a", None),
        ] {
            assert_eq!(refresh(value, |url| OWN.url(url)).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_cookie_domain_of_the_upstream_is_removed() {
        let cookie = |line: &'static str| {
            let new = OWN.cookie(&HeaderValue::from_static(line));
            new.map(|line| line.to_str().unwrap().to_owned())
        };
        assert_eq!(cookie("a=b; Domain=wiki.internal; Path=/").as_deref(), Some("a=b; Path=/"));
        assert_eq!(cookie("a=b;domain=.INTERNAL").as_deref(), Some("a=b"));
        for line in
            ["a=b", "a=b; Domain=wiki.example", "a=b; Domain=example", "domain=wiki.internal", "a=b; Domain=ternal"]
        {
            assert_eq!(cookie(line), None, "{line}");
        }
    }

    #[test]
    fn other_fields_and_cookies_are_unchanged() {
        let mut fields = HeaderMap::new();
        fields.append(SET_COOKIE, HeaderValue::from_static("a=1"));
        fields.append(SET_COOKIE, HeaderValue::from_static("b=2; Domain=wiki.internal"));
        fields.insert(LOCATION, HeaderValue::from_static("http://wiki.internal:8080/a"));
        fields.insert(CONTENT_LOCATION, HeaderValue::from_static("http://wiki.internal:8080/b"));
        OWN.apply(&mut fields);
        assert_eq!(fields.get_all(SET_COOKIE).iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert_eq!(
            (&fields[LOCATION], &fields[CONTENT_LOCATION]),
            (&HeaderValue::from_static("https://wiki.example/a"), &HeaderValue::from_static("https://wiki.example/b"),)
        );
    }
}
