//! The gate's own answers, and the headers that each kind always carries. Nobody may keep any of them but stylesheet and logo.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, PRAGMA, REFERRER_POLICY, SET_COOKIE,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Response, StatusCode};
use serde::Serialize;

use crate::domain::error::{ErrorCode, Refusal};
use crate::page::{self, Asset};

/// An answer that is being put together.
pub(super) struct Answer(Response<Bytes>);

/// What a token must be like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Challenge<'a> {
    /// The application.
    pub realm: &'a str,
    /// Where the application says whose tokens it takes (RFC 9728 §5.1).
    pub resource_metadata: &'a str,
    /// Scopes that would do.
    pub scopes: &'a [&'a str],
    /// Context classes that would do.
    pub acr: &'a [String],
    /// The longest ago that the person may have signed in.
    pub max_age: Option<Duration>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    error_description: &'a str,
}

impl Answer {
    /// An empty answer.
    pub(super) fn empty(status: StatusCode) -> Self {
        let mut response = Response::new(Bytes::new());
        *response.status_mut() = status;
        Self(response)
            .with(CACHE_CONTROL, "no-store")
            .with(PRAGMA, "no-cache")
            .with(X_CONTENT_TYPE_OPTIONS, "nosniff")
            .with(REFERRER_POLICY, "no-referrer")
    }

    /// A refusal, to a program.
    pub(super) fn error(status: StatusCode, refusal: &Refusal) -> Self {
        let body = ErrorBody { error: refusal.code.as_str(), error_description: &refusal.description };
        match serde_json::to_vec(&body) {
            Ok(body) => Self::empty(status).body(body).with(CONTENT_TYPE, "application/json"),
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written as JSON");
                Self::empty(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// A refusal that tells how to be let in (RFC 6750 §3, RFC 9470 §3). Without any credentials there is nothing to explain, so
    /// that `fault` is none and no error stands in the challenge.
    pub(super) fn challenge(challenge: &Challenge<'_>, fault: Option<&Refusal>) -> Self {
        let missing =
            Refusal::new(ErrorCode::LoginRequired, "Sign in, or send an access token in the Authorization header.");
        let refusal = fault.unwrap_or(&missing);
        let status = match refusal.code {
            ErrorCode::InsufficientScope => StatusCode::FORBIDDEN,
            _ => StatusCode::UNAUTHORIZED,
        };
        let mut parts = vec![format!("Bearer realm=\"{}\"", challenge.realm)];
        if let Some(fault) = fault {
            parts.push(format!("error=\"{}\"", fault.code.as_str()));
            parts.push(format!("error_description=\"{}\"", fault.description));
        }
        if !challenge.scopes.is_empty() {
            parts.push(format!("scope=\"{}\"", challenge.scopes.join(" ")));
        }
        if !challenge.acr.is_empty() {
            parts.push(format!("acr_values=\"{}\"", challenge.acr.join(" ")));
        }
        if let Some(most) = challenge.max_age {
            parts.push(format!("max_age=\"{}\"", most.as_secs()));
        }
        parts.push(format!("resource_metadata=\"{}\"", challenge.resource_metadata));
        Self::error(status, refusal).with(WWW_AUTHENTICATE, &parts.join(", "))
    }

    /// A public document in JSON.
    pub(super) fn document(value: &impl Serialize) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => Self::empty(StatusCode::OK).body(body).with(CONTENT_TYPE, "application/json"),
            Err(error) => {
                tracing::error!(%error, "an answer cannot be written as JSON");
                Self::empty(StatusCode::INTERNAL_SERVER_ERROR)
            }
        }
    }

    /// A page.
    pub(super) fn page(status: StatusCode, html: String) -> Self {
        let policy = format!("{}; form-action 'none'", page::CONTENT_SECURITY_POLICY);
        Self::empty(status)
            .body(html)
            .with(CONTENT_TYPE, "text/html; charset=utf-8")
            .with(CONTENT_SECURITY_POLICY, &policy)
            .with(X_FRAME_OPTIONS, "DENY")
    }

    /// A page with a form for the application on this host. No `form-action`: browsers hold that also against the redirect
    /// with which the application may answer. Nor may the page hide where it stands, or the form would come without the
    /// `Origin` by which many applications know their own.
    pub(super) fn page_with_form(html: String) -> Self {
        Self::page(StatusCode::OK, html)
            .with(CONTENT_SECURITY_POLICY, page::CONTENT_SECURITY_POLICY)
            .with(REFERRER_POLICY, "same-origin")
    }

    /// A file that the pages load. Its address changes with its bytes, so it may be kept for ever.
    pub(super) fn kept(asset: &Asset) -> Self {
        let mut answer = Self::empty(StatusCode::OK)
            .body(asset.bytes.clone())
            .with(CONTENT_TYPE, asset.media_type)
            .with(CACHE_CONTROL, "public, max-age=31536000, immutable");
        answer.0.headers_mut().remove(PRAGMA);
        answer
    }

    /// Sends the browser elsewhere with a GET: 302 after a GET, 303 after a POST.
    pub(super) fn redirect(status: StatusCode, location: &str) -> Self {
        let answer = Self::empty(status);
        // A query may have bytes beyond ASCII, and comes back as it was.
        if let Ok(location) = HeaderValue::from_bytes(location.as_bytes()) {
            answer.with_value(LOCATION, location)
        } else {
            tracing::error!("a redirect's target has characters that no header can have");
            Self::empty(StatusCode::INTERNAL_SERVER_ERROR)
        }
    }

    /// The same answer with a header. `value` is of our own making.
    #[must_use]
    pub(super) fn with(self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.with_value(name, value)
        } else {
            tracing::error!(header = %name, "a header's value has characters that no header can have");
            self
        }
    }

    fn with_value(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().insert(name, value);
        self
    }

    /// The same answer with a cookie.
    #[must_use]
    pub(super) fn with_cookie(mut self, cookie: HeaderValue) -> Self {
        self.0.headers_mut().append(SET_COOKIE, cookie);
        self
    }

    /// The same answer with a header beside others of its name.
    #[must_use]
    pub(super) fn and(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers_mut().append(name, value);
        self
    }

    fn body(mut self, body: impl Into<Bytes>) -> Self {
        *self.0.body_mut() = body.into();
        self
    }

    /// The answer on its way.
    pub(super) fn into_response(self) -> Response<Bytes> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking<'a>(scopes: &'a [&'a str], acr: &'a [String], max_age: Option<Duration>) -> Challenge<'a> {
        Challenge { realm: "wiki", resource_metadata: "https://wiki.test/r", scopes, acr, max_age }
    }

    fn challenge(fault: Option<&Refusal>, scopes: &[&str]) -> (u16, String) {
        let response = Answer::challenge(&asking(scopes, &[], None), fault).into_response();
        assert_eq!(response.headers()[CACHE_CONTROL], "no-store");
        (response.status().as_u16(), response.headers()[WWW_AUTHENTICATE].to_str().unwrap().to_owned())
    }

    #[test]
    fn a_challenge_without_credentials_names_no_error() {
        assert_eq!(
            challenge(None, &[]),
            (401, "Bearer realm=\"wiki\", resource_metadata=\"https://wiki.test/r\"".into())
        );
    }

    #[test]
    fn a_challenge_names_what_was_wrong() {
        let fault = Refusal::new(ErrorCode::InvalidToken, "No.");
        let expected = "Bearer realm=\"wiki\", error=\"invalid_token\", error_description=\"No.\", ";
        let (status, text) = challenge(Some(&fault), &[]);
        assert!(status == 401 && text.starts_with(expected), "{text}");
        let fault = Refusal::new(ErrorCode::InsufficientScope, "No.");
        let (status, text) = challenge(Some(&fault), &["profile", "email"]);
        assert_eq!(status, 403);
        assert!(text.contains(", scope=\"profile email\", "), "{text}");
    }

    #[test]
    fn a_challenge_names_the_sign_in_that_would_do() {
        let fault = Refusal::new(ErrorCode::InsufficientUserAuthentication, "No.");
        let acr = ["2".to_owned(), "3".to_owned()];
        let answer = Answer::challenge(&asking(&[], &acr, Some(Duration::from_mins(5))), Some(&fault)).into_response();
        assert_eq!(answer.status(), 401);
        let text = answer.headers()[WWW_AUTHENTICATE].to_str().unwrap().to_owned();
        assert!(text.contains("error=\"insufficient_user_authentication\""), "{text}");
        assert!(text.contains("acr_values=\"2 3\", max_age=\"300\""), "{text}");
    }

    #[test]
    fn a_redirect_keeps_every_byte() {
        let response = Answer::redirect(StatusCode::FOUND, "/a?b=ş&c=%2F").into_response();
        assert_eq!(response.headers()[LOCATION].as_bytes(), "/a?b=ş&c=%2F".as_bytes());
    }
}
