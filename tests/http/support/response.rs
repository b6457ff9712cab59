//! Responses of the provider.

use bytes::Bytes;
use http::{HeaderName, Response};
use serde_json::Value;

/// Response with checks for tests.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    response: Response<Bytes>,
}

impl Reply {
    /// Panics if the server refuses to answer now, and does not say when to try again.
    pub(crate) fn new(response: Response<Bytes>) -> Self {
        let is_late = [429, 503].contains(&response.status().as_u16());
        assert!(!is_late || response.headers().contains_key("retry-after"), "no Retry-After: {response:?}");
        Self { status: response.status().as_u16(), response }
    }

    /// Returns the value of a header. Panics if it is repeated.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers(name);
        let first = values.next();
        assert!(values.next().is_none(), "{name} stands more than once: {self:?}");
        first
    }

    /// Returns all values of a header.
    pub(crate) fn headers<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        let name: HeaderName = name.parse().unwrap();
        self.response.headers().get_all(name).into_iter().map(|value| value.to_str().unwrap())
    }

    /// Returns all headers, sorted by name.
    pub(crate) fn all_headers(&self) -> Vec<(String, String)> {
        let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
        let mut all: Vec<_> =
            self.response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        all.sort();
        all
    }

    /// Returns the body as text.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.response.body()).unwrap()
    }

    /// Returns the body as JSON. Panics if the content type is another.
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.header("content-type"), Some("application/json"), "{self:?}");
        serde_json::from_slice(self.response.body()).unwrap()
    }

    /// Returns the `Location`.
    pub(crate) fn location(&self) -> &str {
        self.header("location").unwrap_or_else(|| panic!("no Location: {self:?}"))
    }

    /// Returns a parameter in the query of the `Location`. Panics if it is repeated.
    pub(crate) fn returned(&self, name: &str) -> Option<String> {
        let url = url::Url::parse(self.location()).unwrap();
        let mut values = url.query_pairs().filter(|(known, _)| known == name).map(|(_, value)| value.into_owned());
        let first = values.next();
        assert!(values.next().is_none(), "{name} stands more than once in {url}");
        first
    }

    /// Asserts `ERR-REDIR`: a redirect to the client with this error, the issuer, the client's
    /// state, and no code.
    #[track_caller]
    pub(crate) fn assert_error_redirect(&self, error: &str) {
        assert_eq!(self.status, 302, "{self:?}");
        assert!(self.location().starts_with(super::REDIRECT_URI), "{}", self.location());
        assert_eq!(self.returned("error").as_deref(), Some(error), "{}", self.location());
        assert!(self.returned("error_description").is_some());
        assert_eq!(self.returned("iss").as_deref(), Some(super::ISSUER));
        assert_eq!(self.returned("code"), None);
        assert_eq!(self.returned("state").as_deref(), Some("s1"));
        assert!(self.header("cache-control").unwrap().contains("no-store"));
    }

    /// Asserts `ERR-PAGE`: a page with status 400 and no redirect.
    #[track_caller]
    pub(crate) fn assert_error_page(&self) {
        assert_eq!(self.status, 400, "{self:?}");
        assert_eq!(self.header("content-type"), Some("text/html; charset=utf-8"));
        assert_eq!(self.header("location"), None);
    }

    /// Asserts `ERR`: JSON with this error and a description, which no cache may store.
    #[track_caller]
    pub(crate) fn assert_error(&self, status: u16, error: &str) {
        assert_eq!(self.status, status, "{self:?}");
        let body = self.json();
        assert_eq!(body["error"], error, "{body}");
        let description = body["error_description"].as_str().unwrap();
        assert!(
            description.bytes().all(|byte| matches!(byte, 0x20..=0x21 | 0x23..=0x5b | 0x5d..=0x7e)),
            "{description}"
        );
        assert!(
            body.as_object()
                .unwrap()
                .keys()
                .all(|key| ["error", "error_description", "error_uri"].contains(&key.as_str()))
        );
        assert!(self.header("cache-control").unwrap().contains("no-store"));
    }
}
