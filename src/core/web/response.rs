//! The server's own responses, with their header fields.
//!
//! Responses are not cacheable unless stated otherwise.

use bytes::Bytes;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    HeaderName, LOCATION, PRAGMA, REFERRER_POLICY, RETRY_AFTER, SET_COOKIE, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;
use url::Url;

use crate::web::context::RequestContext;
use sealgate_domain::limiter::RateLimitStatus;
use sealgate_domain::oauth::authorize::AuthorizationRedirect;
use sealgate_domain::redirect_uri;
use sealgate_edge::{BodyStream, LoggedReason};
use sealgate_pages as page;
use sealgate_pages::{Asset, LOGO_POLICY, Pages, ReturnFormPage, html};

const CLEAR_SITE_DATA: HeaderName = HeaderName::from_static("clear-site-data");
const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// Header fields that scripts of other origins may send. Model Context Protocol clients send their
/// version in every request, even to the provider.
const ALLOWED_HEADERS: &str = "Authorization, Content-Type, MCP-Protocol-Version";

/// Response under construction. It always has the header fields of its kind.
#[derive(Debug)]
pub struct Response(http::Response<Bytes>);

impl Response {
    /// Creates an empty response that must not be cached.
    pub fn empty(status: StatusCode) -> Self {
        let mut response = http::Response::new(Bytes::new());
        *response.status_mut() = status;
        Self(response)
            .with(CACHE_CONTROL, "no-store")
            .with(PRAGMA, "no-cache")
            .with(X_CONTENT_TYPE_OPTIONS, "nosniff")
            .with(REFERRER_POLICY, "no-referrer")
    }

    /// Creates a JSON response that must not be cached.
    pub fn json(status: StatusCode, document: &impl Serialize) -> Self {
        match serde_json::to_vec(document) {
            Ok(body) => Self::empty(status).body(body).with(CONTENT_TYPE, "application/json"),
            Err(error) => {
                tracing::error!(%error, "cannot encode a response as JSON");
                Self::empty(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// Creates a JSON response that any cache may store for this many seconds.
    pub fn public_json(document: &impl Serialize, seconds: u32) -> Self {
        let mut response = Self::json(StatusCode::OK, document);
        response.0.headers_mut().remove(PRAGMA);
        response.with(CACHE_CONTROL, &format!("public, max-age={seconds}"))
    }

    /// Creates a page of the provider.
    ///
    /// The form of the page can be sent only to this server. The server's answer can redirect only
    /// to the server itself or to the origin `then`. The policy must name the client's origin,
    /// because Chromium applies `form-action` to redirects too. Otherwise the last step of a
    /// sign-in would fail.
    pub fn page(status: StatusCode, html: String, then: Option<&str>) -> Self {
        let then = then.map(|origin| format!(" {origin}")).unwrap_or_default();
        Self::html(status, html, Some(&format!("'self'{then}")))
    }

    /// Creates a page whose forms can be sent only to `form_action`. If `form_action` is `None`,
    /// the forms can be sent to any URL.
    pub fn html(status: StatusCode, html: String, form_action: Option<&str>) -> Self {
        let form_action = form_action.map(|places| format!("; form-action {places}")).unwrap_or_default();
        Self::empty(status)
            .body(html)
            .with(CONTENT_TYPE, "text/html; charset=utf-8")
            .with(CONTENT_SECURITY_POLICY, &format!("{}{form_action}", page::CONTENT_SECURITY_POLICY))
            .with(X_FRAME_OPTIONS, "DENY")
    }

    /// Permits the page to show images of one other origin.
    #[must_use]
    pub fn showing_from(self, origin: &str) -> Self {
        let policy = self.0.headers().get(CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
        let policy =
            policy.unwrap_or_default().replace("img-src 'self' data:", &format!("img-src 'self' data: {origin}"));
        self.with(CONTENT_SECURITY_POLICY, &policy)
    }

    /// Permits pages of the same origin to show this page in a frame.
    #[must_use]
    pub fn framed_by_own_origin(self) -> Self {
        let policy = self.0.headers().get(CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
        let policy = policy.unwrap_or_default().replace("frame-ancestors 'none'", "frame-ancestors 'self'");
        self.with(CONTENT_SECURITY_POLICY, &policy).with(X_FRAME_OPTIONS, "SAMEORIGIN")
    }

    /// Adds the challenges of another response (RFC 9110 §11.6.1).
    #[must_use]
    pub fn with_challenges_of(mut self, other: &Self) -> Self {
        for challenge in other.0.headers().get_all(WWW_AUTHENTICATE) {
            self.0.headers_mut().append(WWW_AUTHENTICATE, challenge.clone());
        }
        self
    }

    /// Creates the response with an asset of pages. Its URL changes with its content, so browsers
    /// can cache it forever.
    pub fn cacheable_asset(asset: &Asset) -> Self {
        let mut response = Self::empty(StatusCode::OK)
            .body(asset.bytes.clone())
            .with(CONTENT_TYPE, asset.media_type)
            .with(CACHE_CONTROL, "public, max-age=31536000, immutable");
        response.0.headers_mut().remove(PRAGMA);
        response
    }

    /// Creates a redirect.
    ///
    /// Use 302 for redirects to a client. Use 303 after a POST and between the server's own pages,
    /// because the browser must continue with GET. The provider never uses 307 or 308, which would
    /// forward a password (RFC 9700 §4.12).
    pub fn redirect(status: StatusCode, location: &str) -> Self {
        // A query may contain non-ASCII bytes, which are sent unchanged.
        if let Ok(location) = HeaderValue::from_bytes(location.as_bytes()) {
            Self::empty(status).with_value(LOCATION, location)
        } else {
            tracing::error!("a redirect target has characters that are not allowed in a header");
            Self::empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }

    /// Creates a 303 redirect to a page of the server.
    pub fn see_other(location: &str) -> Self {
        Self::redirect(StatusCode::SEE_OTHER, location)
    }

    /// Creates the response to a CORS preflight (Fetch §3.2.2).
    pub fn preflight(methods: &[Method]) -> Self {
        let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
        Self::empty(StatusCode::NO_CONTENT)
            .with(ACCESS_CONTROL_ALLOW_METHODS, &names.join(", "))
            .with(ACCESS_CONTROL_ALLOW_HEADERS, ALLOWED_HEADERS)
            .with(ACCESS_CONTROL_MAX_AGE, "600")
    }

    /// Sends the body in parts.
    #[must_use]
    pub fn stream(mut self, body: BodyStream) -> Self {
        self.0.extensions_mut().insert(body);
        self
    }

    /// Replaces the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        *self.0.body_mut() = body.into();
        self
    }

    /// Sets a header field, and replaces all fields of that name. `value` must be generated by the
    /// server.
    #[must_use]
    pub fn with(self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.with_value(name, value)
        } else {
            tracing::error!(header = %name, "a header value has characters that are not allowed in a header");
            self
        }
    }

    /// Sets `Retry-After` in seconds. Required for 429 and 503 (RFC 6585 §4, RFC 9110 §10.2.3).
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        self.with_value(RETRY_AFTER, seconds.into())
    }

    /// Sets a header field, and replaces all fields of that name.
    #[must_use]
    pub fn with_value(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// Adds a header field, and keeps other fields of that name.
    #[must_use]
    pub fn and(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().append(name, value);
        self
    }

    /// Adds a cookie.
    #[must_use]
    pub fn with_cookie(self, cookie: HeaderValue) -> Self {
        self.and(SET_COOKIE, cookie)
    }

    /// Clears the browser's cache for this origin, so that the Back button shows no page after a
    /// sign-out (Clear Site Data §3.1).
    ///
    /// Browsers do this only in secure contexts, which include localhost.
    #[must_use]
    pub fn clearing_cache(self) -> Self {
        self.with(CLEAR_SITE_DATA, r#""cache""#)
    }

    /// Permits scripts of every origin to read the response.
    ///
    /// Browsers send no cookies with such requests, so the response cannot contain private data.
    #[must_use]
    pub fn for_every_origin(self) -> Self {
        self.with(ACCESS_CONTROL_ALLOW_ORIGIN, "*").with(
            ACCESS_CONTROL_EXPOSE_HEADERS,
            "WWW-Authenticate, Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset",
        )
    }

    /// Adds the rate limit headers, unless no limit applies.
    #[must_use]
    pub fn with_reading(mut self, reading: Option<&RateLimitStatus>) -> Self {
        if let Some(reading) = reading {
            let headers = self.0.headers_mut();
            headers.insert(LIMIT, HeaderValue::from(reading.limit));
            headers.insert(REMAINING, HeaderValue::from(reading.remaining));
            headers.insert(RESET, HeaderValue::from(reading.reset.seconds()));
        }
        self
    }

    /// Sets the reason that the access log shows for this response.
    #[must_use]
    pub fn because(mut self, reason: &'static str) -> Self {
        self.0.extensions_mut().insert(LoggedReason(reason));
        self
    }

    /// Returns the HTTP status.
    pub fn status(&self) -> StatusCode {
        self.0.status()
    }

    /// Returns the finished response.
    pub fn finish(self) -> http::Response<Bytes> {
        self.0
    }
}

/// Creates the response that sends the browser to the client: a redirect, or a form that the
/// browser posts (OAuth 2.0 Form Post Response Mode).
pub fn to_client(ctx: &RequestContext<'_>, redirect: &AuthorizationRedirect) -> Response {
    match redirect {
        AuthorizationRedirect::Redirect(location) => Response::redirect(StatusCode::FOUND, location),
        AuthorizationRedirect::Form { action, fields } => {
            // The URI is registered, so it parses.
            let to = Url::parse(action).ok();
            let host = to.as_ref().and_then(Url::host_str).unwrap_or_default();
            let page = ReturnFormPage { frame: ctx.frame(), action, host, fields };
            Response::page(StatusCode::OK, html(&page), redirect_uri::form_action(action).as_deref())
        }
    }
}

/// Creates the response with the stylesheet of pages.
pub fn stylesheet(pages: &Pages) -> Response {
    Response::cacheable_asset(pages.stylesheet())
}

/// Creates the response with the stylesheet of the console.
pub fn console_stylesheet(pages: &Pages) -> Response {
    Response::cacheable_asset(pages.console_stylesheet())
}

/// Creates the response with the script of pages.
pub fn script(pages: &Pages) -> Response {
    Response::cacheable_asset(pages.script())
}

/// Creates the response with the script for security keys and passkeys.
pub fn keys_script(pages: &Pages) -> Response {
    Response::cacheable_asset(pages.keys_script())
}

/// Creates the response with the script that submits the form to a client (`form_post`).
pub fn return_script(pages: &Pages) -> Response {
    Response::cacheable_asset(pages.return_script())
}

/// Returns the operator's logo, if configured.
pub fn logo(pages: &Pages) -> Option<Response> {
    pages.logo().map(picture)
}

/// Creates the response with a picture of the operator.
///
/// Pages show it as an image, where its scripts do not run. The added policy blocks scripts when a
/// user opens the URL of the picture.
pub fn picture(picture: &Asset) -> Response {
    Response::cacheable_asset(picture).with(CONTENT_SECURITY_POLICY, LOGO_POLICY)
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
