//! Responses of the provider, and the headers that each kind always carries.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderName, LOCATION, PRAGMA, REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;

use crate::limiter::Reading;
use crate::page;

const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// What scripts of other origins may send. Clients of the Model Context Protocol name its version in every request, those to
/// the provider too.
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, MCP-Protocol-Version";

/// A response that is being put together.
pub struct Response(http::Response<Bytes>);

impl Response {
    /// An empty response that nobody may keep.
    pub fn empty(status: StatusCode) -> Self {
        let mut response = http::Response::new(Bytes::new());
        *response.status_mut() = status;
        Self(response).with(CACHE_CONTROL, "no-store").with(PRAGMA, "no-cache")
    }

    /// A JSON document that nobody may keep.
    pub fn json(status: StatusCode, document: &impl Serialize) -> Self {
        match serde_json::to_vec(document) {
            Ok(body) => Self::empty(status).body(body).with(CONTENT_TYPE, "application/json"),
            Err(error) => {
                tracing::error!(%error, "a response cannot be written as JSON");
                Self::empty(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// A public JSON document that may be kept for this long.
    pub fn public_json(document: &impl Serialize, seconds: u32) -> Self {
        let mut response = Self::json(StatusCode::OK, document);
        response.0.headers_mut().remove(PRAGMA);
        response.with(CACHE_CONTROL, &format!("public, max-age={seconds}"))
    }

    /// A page. Its form may only be sent to us and on, by redirects, to `then`: Chromium applies `form-action` to the
    /// redirects that answer a form, so a policy without the client would stop the sign-in at its last step.
    pub fn page(status: StatusCode, html: String, then: Option<&str>) -> Self {
        let then = then.map(|origin| format!(" {origin}")).unwrap_or_default();
        let policy = format!("{}; form-action 'self'{then}", page::CONTENT_SECURITY_POLICY);
        Self::empty(status)
            .body(html.into_bytes())
            .with(CONTENT_TYPE, "text/html; charset=utf-8")
            .with(CONTENT_SECURITY_POLICY, &policy)
            .with(X_FRAME_OPTIONS, "DENY")
    }

    /// The same page, which may show pictures from one other origin too.
    #[must_use]
    pub fn showing_from(self, origin: &str) -> Self {
        let policy = self.0.headers().get(CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
        let policy =
            policy.unwrap_or_default().replace("img-src 'self' data:", &format!("img-src 'self' data: {origin}"));
        self.with(CONTENT_SECURITY_POLICY, &policy)
    }

    /// A file that may be kept for ever: its address changes with it.
    pub fn kept(bytes: Bytes) -> Self {
        let mut response = Self::empty(StatusCode::OK).body(bytes);
        response.0.headers_mut().remove(PRAGMA);
        response
    }

    /// A redirect: 302 to a client, 303 between our own pages (after a POST the browser must come with a GET). Never
    /// 307 or 308, which would send a password on (RFC 9700 §4.12).
    pub fn redirect(status: StatusCode, location: &str) -> Self {
        Self::empty(status).with(LOCATION, location)
    }

    /// 303 to one of our own pages.
    pub fn see_other(location: &str) -> Self {
        Self::redirect(StatusCode::SEE_OTHER, location)
    }

    /// The answer to a preflight (Fetch §3.2.2).
    pub fn preflight(methods: &[Method]) -> Self {
        let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
        Self::empty(StatusCode::NO_CONTENT)
            .with(ACCESS_CONTROL_ALLOW_METHODS, &names.join(", "))
            .with(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS)
            .with(ACCESS_CONTROL_MAX_AGE, "600")
    }

    /// The same response with another body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        *self.0.body_mut() = body.into();
        self
    }

    /// The same response with a header. `value` is of our own making.
    #[must_use]
    pub fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.0.headers_mut().insert(name, value);
        } else {
            tracing::error!(header = %name, "a header's value has characters that no header can have");
        }
        self
    }

    /// The same response with a cookie.
    #[must_use]
    pub fn with_cookie(mut self, cookie: HeaderValue) -> Self {
        self.0.headers_mut().append(SET_COOKIE, cookie);
        self
    }

    /// Lets scripts of every origin read the response. They get no cookies along, so the response shows them only what
    /// anybody could have asked for.
    pub fn allow_every_origin(&mut self) {
        let headers = self.0.headers_mut();
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            HeaderValue::from_static(
                "WWW-Authenticate, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
            ),
        );
    }

    /// Shows where the sender stands with its allowance (specification, "Rate limit headers"); nothing where it has no limit.
    pub fn rate_limit(&mut self, reading: Option<&Reading>) {
        let Some(reading) = reading else { return };
        let headers = self.0.headers_mut();
        headers.insert(LIMIT, HeaderValue::from(reading.limit));
        headers.insert(REMAINING, HeaderValue::from(reading.remaining));
        headers.insert(RESET, HeaderValue::from(reading.reset.seconds()));
    }

    /// The response with what every one of them carries.
    pub fn finish(self) -> http::Response<Bytes> {
        self.with(X_CONTENT_TYPE_OPTIONS, "nosniff").with(REFERRER_POLICY, "no-referrer").0
    }
}
