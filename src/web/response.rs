//! Our own responses, and the headers that each kind always carries. Nobody may keep any of them, unless it says so.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderName, LOCATION, PRAGMA, REFERRER_POLICY, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;

use crate::limiter::Reading;
use crate::page::{self, Asset};

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What scripts of other origins may send. Clients of the Model Context Protocol name its version in every request, those to
/// the provider too.
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, MCP-Protocol-Version";

/// A response that is being put together.
#[derive(Debug)]
pub(crate) struct Response(http::Response<Bytes>);

impl Response {
    /// An empty response that nobody may keep.
    pub(crate) fn empty(status: StatusCode) -> Self {
        let mut response = http::Response::new(Bytes::new());
        *response.status_mut() = status;
        Self(response)
            .with(CACHE_CONTROL, "no-store")
            .with(PRAGMA, "no-cache")
            .with(X_CONTENT_TYPE_OPTIONS, "nosniff")
            .with(REFERRER_POLICY, "no-referrer")
    }

    /// A JSON document that nobody may keep.
    pub(crate) fn json(status: StatusCode, document: &impl Serialize) -> Self {
        match serde_json::to_vec(document) {
            Ok(body) => Self::empty(status).body(body).with(CONTENT_TYPE, "application/json"),
            Err(error) => {
                tracing::error!(%error, "a response cannot be written as JSON");
                Self::empty(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// A public JSON document that may be kept for this long.
    pub(crate) fn public_json(document: &impl Serialize, seconds: u32) -> Self {
        let mut response = Self::json(StatusCode::OK, document);
        response.0.headers_mut().remove(PRAGMA);
        response.with(CACHE_CONTROL, &format!("public, max-age={seconds}"))
    }

    /// A page of the provider. Its form may only be sent to us and on, by redirects, to `then`: Chromium applies
    /// `form-action` to the redirects that answer a form, so a policy without the client would stop the sign-in at its last
    /// step.
    pub(crate) fn page(status: StatusCode, html: String, then: Option<&str>) -> Self {
        let then = then.map(|origin| format!(" {origin}")).unwrap_or_default();
        Self::html(status, html, Some(&format!("'self'{then}")))
    }

    /// A page whose forms may be sent to these places only; anywhere when none are named.
    pub(crate) fn html(status: StatusCode, html: String, form_action: Option<&str>) -> Self {
        let form_action = form_action.map(|places| format!("; form-action {places}")).unwrap_or_default();
        Self::empty(status)
            .body(html)
            .with(CONTENT_TYPE, "text/html; charset=utf-8")
            .with(CONTENT_SECURITY_POLICY, &format!("{}{form_action}", page::CONTENT_SECURITY_POLICY))
            .with(X_FRAME_OPTIONS, "DENY")
    }

    /// The same page, which may show pictures from one other origin too.
    #[must_use]
    pub(crate) fn showing_from(self, origin: &str) -> Self {
        let policy = self.0.headers().get(CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
        let policy =
            policy.unwrap_or_default().replace("img-src 'self' data:", &format!("img-src 'self' data: {origin}"));
        self.with(CONTENT_SECURITY_POLICY, &policy)
    }

    /// The same page, which pages of its own origin may show in a frame.
    #[must_use]
    pub(crate) fn framed_by_own_origin(self) -> Self {
        let policy = self.0.headers().get(CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
        let policy = policy.unwrap_or_default().replace("frame-ancestors 'none'", "frame-ancestors 'self'");
        self.with(CONTENT_SECURITY_POLICY, &policy).with(X_FRAME_OPTIONS, "SAMEORIGIN")
    }

    /// The same response with the challenges of another one (RFC 9110 §11.6.1).
    #[must_use]
    pub(crate) fn with_challenges_of(mut self, other: &Self) -> Self {
        for challenge in other.0.headers().get_all(WWW_AUTHENTICATE) {
            self.0.headers_mut().append(WWW_AUTHENTICATE, challenge.clone());
        }
        self
    }

    /// A file that pages load. Its address changes with its bytes, so it may be kept for ever.
    pub(crate) fn kept(asset: &Asset) -> Self {
        let mut response = Self::empty(StatusCode::OK)
            .body(asset.bytes.clone())
            .with(CONTENT_TYPE, asset.media_type)
            .with(CACHE_CONTROL, "public, max-age=31536000, immutable");
        response.0.headers_mut().remove(PRAGMA);
        response
    }

    /// A redirect: 302 to a client, 303 after a POST and between our own pages (the browser must come with a GET). Never
    /// 307 or 308, which would send a password on (RFC 9700 §4.12).
    pub(crate) fn redirect(status: StatusCode, location: &str) -> Self {
        // A query may have bytes beyond ASCII, and comes back as it was.
        if let Ok(location) = HeaderValue::from_bytes(location.as_bytes()) {
            Self::empty(status).with_value(LOCATION, location)
        } else {
            tracing::error!("a redirect's target has characters that no header can have");
            Self::empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }

    /// 303 to one of our own pages.
    pub(crate) fn see_other(location: &str) -> Self {
        Self::redirect(StatusCode::SEE_OTHER, location)
    }

    /// The answer to a preflight (Fetch §3.2.2).
    pub(crate) fn preflight(methods: &[Method]) -> Self {
        let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
        Self::empty(StatusCode::NO_CONTENT)
            .with(ACCESS_CONTROL_ALLOW_METHODS, &names.join(", "))
            .with(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS)
            .with(ACCESS_CONTROL_MAX_AGE, "600")
    }

    /// The same response with another body.
    #[must_use]
    pub(crate) fn body(mut self, body: impl Into<Bytes>) -> Self {
        *self.0.body_mut() = body.into();
        self
    }

    /// The same response with a header in place of all of its name. `value` is of our own making.
    #[must_use]
    pub(crate) fn with(self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.with_value(name, value)
        } else {
            tracing::error!(header = %name, "a header's value has characters that no header can have");
            self
        }
    }

    /// The same response with this header, in place of those of the same name.
    #[must_use]
    pub(crate) fn with_value(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// The same response with a header beside others of its name.
    #[must_use]
    pub(crate) fn and(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().append(name, value);
        self
    }

    /// The same response with a cookie.
    #[must_use]
    pub(crate) fn with_cookie(self, cookie: HeaderValue) -> Self {
        self.and(SET_COOKIE, cookie)
    }

    /// Has the browser forget the pages of this origin that it keeps, so that Back after a sign-out shows none of them
    /// (Clear Site Data §3.1). Browsers heed it in secure contexts only, of which localhost is one.
    #[must_use]
    pub(crate) fn clearing_cache(self) -> Self {
        self.with(CLEAR_SITE_DATA, r#""cache""#)
    }

    /// Lets scripts of every origin read the response. They get no cookies along, so the response shows them only what
    /// anybody could have asked for.
    #[must_use]
    pub(crate) fn for_every_origin(self) -> Self {
        self.with(ACCESS_CONTROL_ALLOW_ORIGIN, "*").with(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            "WWW-Authenticate, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
        )
    }

    /// Shows where the sender stands with its allowance (specification, "Rate limit headers"); nothing where it has no limit.
    #[must_use]
    pub(crate) fn with_reading(mut self, reading: Option<&Reading>) -> Self {
        if let Some(reading) = reading {
            let headers = self.0.headers_mut();
            headers.insert(LIMIT, HeaderValue::from(reading.limit));
            headers.insert(REMAINING, HeaderValue::from(reading.remaining));
            headers.insert(RESET, HeaderValue::from(reading.reset.seconds()));
        }
        self
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// The response on its way.
    pub(crate) fn finish(self) -> http::Response<Bytes> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redirect_keeps_every_byte() {
        let response = Response::redirect(StatusCode::FOUND, "/a?b=ş&c=%2F").finish();
        assert_eq!(response.headers()[LOCATION].as_bytes(), "/a?b=ş&c=%2F".as_bytes());
    }
}
