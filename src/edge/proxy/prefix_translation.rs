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
        // Browsers read two slashes as the start of another host.
        let is_path = url.starts_with('/') && !url.starts_with("//");
        is_path.then(|| self.prefix.to_public(url)).flatten()
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
    fn only_the_path_of_a_cookie_is_changed() {
        let prefix = PathPrefix { public: "/wiki/".to_owned(), upstream: "/w/".to_owned() };
        let translation = PrefixTranslation { prefix: &prefix, authorities: &[] };
        let cookie = |line: &'static str| {
            let new = translation.cookie(&HeaderValue::from_static(line));
            new.map(|line| line.to_str().unwrap().to_owned())
        };
        assert_eq!(cookie("a=b; Path=/; HttpOnly").as_deref(), Some("a=b; Path=/wiki/; HttpOnly"));
        assert_eq!(cookie("a=b;path = /w/x").as_deref(), Some("a=b;path =/wiki/x"));
        for line in
            ["a=b", "path=/", "a=b; Path=/wiki/x", "a=b; Path=/x", "__Host-a=b; Path=/", "a=b; Path", "a=b; Path="]
        {
            assert_eq!(cookie(line), None, "{line}");
        }
    }
}
