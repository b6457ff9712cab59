//! Paths of an upstream in responses, if the upstream receives other paths than clients see.
//!
//! The upstream's redirects and cookies name its own paths. nginx has `proxy_redirect` and
//! `proxy_cookie_path` for the same purpose. Links in pages and in `Link` fields are not changed.

use http::{HeaderMap, HeaderValue};

use super::upstream_name::{HttpUrl, replace_cookies, replace_urls};
use sealgate_config::PathPrefix;

/// Prefix of a cookie's name with which browsers accept the path `/` only (RFC 6265bis §4.1.3.2).
const HOST_COOKIE: &[u8] = b"__host-";

/// Replaced prefix of the request's path, and the names under which clients know the host.
pub(crate) struct PrefixTranslation<'a> {
    pub(crate) prefix: &'a PathPrefix,
    pub(crate) authorities: &'a [String],
}

impl PrefixTranslation<'_> {
    /// Replaces the upstream's paths in all fields that may contain one.
    pub(crate) fn apply(&self, fields: &mut HeaderMap) {
        replace_urls(fields, |url| self.url(url));
        replace_cookies(fields, |line| self.cookie(line));
    }

    fn url(&self, url: &str) -> Option<String> {
        if let Some(HttpUrl { start, authority, tail, .. }) =
            HttpUrl::parse(url).filter(|url| self.authorities.iter().any(|own| url.is_at(own)))
        {
            let path = if tail.starts_with('/') { tail.to_owned() } else { format!("/{tail}") };
            return Some(format!("{start}{authority}{}", self.prefix.to_public(&path)?));
        }
        Some(url).filter(|url| is_path(url)).and_then(|url| self.prefix.to_public(url)).filter(|url| is_path(url))
    }

    fn cookie(&self, line: &HeaderValue) -> Option<HeaderValue> {
        let mut parts: Vec<Vec<u8>> = line.as_bytes().split(|byte| *byte == b';').map(<[u8]>::to_vec).collect();
        let (pair, attributes) = parts.split_first_mut()?;
        let name = pair.trim_ascii_start();
        if name.get(..HOST_COOKIE.len()).is_some_and(|start| start.eq_ignore_ascii_case(HOST_COOKIE)) {
            return None;
        }
        let mut has_changed = false;
        for attribute in attributes {
            let Some((name, value)) = str::from_utf8(attribute).ok().and_then(|text| text.split_once('=')) else {
                continue;
            };
            if !name.trim().eq_ignore_ascii_case("path") {
                continue;
            }
            if let Some(path) = self.prefix.to_public_cookie_path(value.trim()) {
                *attribute = format!("{name}={path}").into_bytes();
                has_changed = true;
            }
        }
        has_changed.then(|| HeaderValue::from_bytes(&parts.join(&b';')).ok()).flatten()
    }
}

/// Returns whether browsers read the URL as a path of the same host. They read two slashes as the
/// start of another host, treat a backslash as a slash, and ignore tabs.
fn is_path(url: &str) -> bool {
    url.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '\\', '\t']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_urls_of_the_host_are_changed() {
        let prefix = PathPrefix { public: "/wiki/".to_owned(), upstream: "/".to_owned() };
        let authorities = ["apps.example:8443".to_owned()];
        let translation = PrefixTranslation { prefix: &prefix, authorities: &authorities };
        for (url, expected) in [
            ("/a?b", Some("/wiki/a?b")),
            ("https://apps.example:8443/a", Some("https://apps.example:8443/wiki/a")),
            ("http://APPS.example:8443/a", Some("http://APPS.example:8443/wiki/a")),
            ("//apps.example:8443/a", Some("//apps.example:8443/wiki/a")),
            ("https://apps.example:8443", Some("https://apps.example:8443/wiki/")),
            ("https://apps.example:8443?a", Some("https://apps.example:8443/wiki/?a")),
            ("https://apps.example:8443/wiki/a", None),
            ("https://apps.example/a", None),
            ("https://other.example/a", None),
            ("//other.example/a", None),
            ("///a", None),
            ("a/b", None),
            ("?a", None),
            ("", None),
        ] {
            assert_eq!(translation.url(url).as_deref(), expected, "{url}");
        }
    }

    #[test]
    fn a_path_does_not_become_another_host() {
        let prefix = PathPrefix { public: "/".to_owned(), upstream: "/w/".to_owned() };
        let translation = PrefixTranslation { prefix: &prefix, authorities: &[] };
        assert_eq!(translation.url("/w/a").as_deref(), Some("/a"));
        for url in ["/w//other.example", "/w/\\other.example", "/w/\t/other.example", "/\\other.example"] {
            assert_eq!(translation.url(url), None, "{url}");
        }
    }

    #[test]
    fn only_the_path_of_a_cookie_is_changed() {
        let prefix = PathPrefix { public: "/wiki/".to_owned(), upstream: "/w/".to_owned() };
        let translation = PrefixTranslation { prefix: &prefix, authorities: &[] };
        let cookie = |line: &'static str| {
            let new = translation.cookie(&HeaderValue::from_static(line));
            new.map(|line| line.to_str().unwrap().to_owned())
        };
        assert_eq!(cookie("a=b; Path=/; HttpOnly").as_deref(), Some("a=b; Path=/wiki/; HttpOnly"));
        assert_eq!(cookie("a=b; Path=/x").as_deref(), Some("a=b; Path=/wiki/"));
        assert_eq!(cookie("a=b;path = /w/x").as_deref(), Some("a=b;path =/wiki/x"));
        for line in ["a=b", "path=/", "a=b; Path=/wiki/x", "__Host-a=b; Path=/", "a=b; Path", "a=b; Path="] {
            assert_eq!(cookie(line), None, "{line}");
        }
    }
}
