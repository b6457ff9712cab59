//! Failures of endpoints and of the gateway, their conversion to HTTP responses, and the error
//! page.
//!
//! Only [`Failure::Return`] is sent to a client's redirect URI, and it requires a [`ReturnTo`].
//! Causes that only the operator may read are logged with the request's id; responses do not
//! contain them.

use std::time::Duration;

use http::header::{ALLOW, WWW_AUTHENTICATE};
use http::uri::PathAndQuery;
use http::{Method, StatusCode};
use serde::Serialize;

use crate::password::PasswordError;
use crate::web::context::RequestContext;
use crate::web::limits::Exceeded;
use crate::web::response;
use crate::web::response::Response;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::oauth::authorize::ReturnTo;
use sealgate_pages::{Addresses, ErrorPage, Frame, LinkTarget, PageLink, Problem, html};
use sealgate_signer::SignError;
use sealgate_store::StoreError;

/// Reason why a request failed.
#[derive(Debug)]
pub enum Failure {
    /// The request is refused, with JSON for programs and a page for users.
    Refused(StatusCode, Refusal),
    /// The client authentication failed.
    Client(Refusal),
    /// The access token is missing, invalid or insufficient (RFC 6750 §3).
    Bearer(Option<Refusal>),
    /// The sign-in of the access token does not reach this level.
    WeakBearer(AssuranceLevel),
    /// The user sees an error page.
    Page(StatusCode, Problem),
    /// The browser must visit this URL of the server first.
    Redirect(String),
    /// The refusal is returned to the client by redirect.
    Return(Box<ReturnTo>, Refusal),
    /// The path does not support the method. The slice has the supported methods.
    Method(&'static [Method]),
    /// A rate limit is reached. The value is the number of seconds to wait.
    RateLimited(u64),
    /// A component is overloaded or unavailable. Nothing was consumed, so the client may retry.
    Unavailable,
    /// The session ended while the request to a page of the server was handled.
    SignedOut,
    Internal,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    error_description: &'a str,
}

impl Failure {
    /// Creates a refusal with this status.
    pub fn json(status: StatusCode, refusal: Refusal) -> Self {
        Self::Refused(status, refusal)
    }

    /// Creates an error page with status 400.
    pub fn page(problem: Problem) -> Self {
        Self::Page(StatusCode::BAD_REQUEST, problem)
    }

    /// Converts a refusal or an error of the server into a redirect to the client. Returns other
    /// failures unchanged.
    ///
    /// Errors of the server get the codes of RFC 6749 §4.1.2.1.
    #[must_use]
    pub fn returning_to(self, return_to: &ReturnTo) -> Self {
        let refusal = match self {
            Self::Refused(_, refusal) => refusal,
            Self::Unavailable => OVERLOADED,
            Self::Internal => FAILED,
            other => return other,
        };
        Self::Return(Box::new(return_to.clone()), refusal)
    }

    /// Converts a store error without logging it.
    pub fn of_store(error: &StoreError) -> Self {
        match error {
            StoreError::Broken(_) => Self::Internal,
            StoreError::SignedOut => Self::SignedOut,
            StoreError::NotPermitted => Self::Page(StatusCode::FORBIDDEN, Problem::Console),
            StoreError::DefinedClient(_) => {
                const DEFINED: Refusal =
                    Refusal::new(ErrorCode::AccessDenied, "The configuration file of the server defines the client.");
                Self::Refused(StatusCode::FORBIDDEN, DEFINED)
            }
            _ => Self::Unavailable,
        }
    }

    /// Converts the failure to a response.
    pub fn into_response(self, ctx: &RequestContext<'_>) -> Response {
        match self {
            Self::Refused(status, refusal) => ctx.refuse(status, &refusal, Problem::InvalidRequest),
            Self::Client(refusal) => {
                let response = error(status_of(&refusal), &refusal);
                // Every 401 needs a challenge (RFC 9110 §15.5.2), whichever authentication method
                // the client used (RFC 6749 §5.2).
                if refusal.code == ErrorCode::InvalidClient {
                    response.with(WWW_AUTHENTICATE, r#"Basic realm="sealgate", charset="UTF-8""#)
                } else {
                    response
                }
            }
            Self::Bearer(refusal) => {
                const MISSING: Refusal =
                    Refusal::new(ErrorCode::InvalidToken, "An access token is required in the Authorization header.");
                let lacks = refusal.as_ref().is_some_and(|refusal| refusal.code == ErrorCode::InsufficientScope);
                let scopes = if lacks { &["openid"][..] } else { &[] };
                Challenge { realm: "sealgate", scopes, ..Challenge::default() }.respond(refusal.as_ref(), &MISSING)
            }
            Self::WeakBearer(level) => {
                const WEAK: Refusal = Refusal::new(
                    ErrorCode::InsufficientUserAuthentication,
                    "The account requires a stronger sign-in. Sign in again.",
                );
                let acr = &[level.as_str().to_owned()];
                Challenge { realm: "sealgate", acr, ..Challenge::default() }.respond(Some(&WEAK), &WEAK)
            }
            Self::Page(status, problem) => ctx.problem(status, problem),
            Self::Redirect(address) => Response::see_other(&address),
            Self::Return(return_to, refusal) => {
                response::to_client(ctx, &return_to.with_refusal(&refusal, ctx.sealgate.config.issuer.as_str()))
            }
            Self::Method(methods) => {
                let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
                let response = if ctx.reads_pages() {
                    ctx.problem(StatusCode::METHOD_NOT_ALLOWED, Problem::ForPrograms)
                } else {
                    let refusal = Refusal::new(ErrorCode::MethodNotAllowed, "The method is not allowed.");
                    error(StatusCode::METHOD_NOT_ALLOWED, &refusal)
                };
                response.with(ALLOW, &names.join(", "))
            }
            Self::RateLimited(seconds) => {
                let response = if ctx.reads_pages() {
                    ctx.problem(StatusCode::TOO_MANY_REQUESTS, Problem::TooManyRequests { seconds })
                } else {
                    // Programs get JSON on every path, with the seconds in the description too
                    // (docs/explanation/protocol-tokens.md).
                    let description = format!("Too many requests. Try again in {seconds} seconds.");
                    json(StatusCode::TOO_MANY_REQUESTS, ErrorCode::RateLimitExceeded, &description)
                };
                response.retry_after(seconds)
            }
            Self::Unavailable => {
                ctx.refuse(StatusCode::SERVICE_UNAVAILABLE, &OVERLOADED, Problem::Unavailable).retry_after(1)
            }
            // The page detects the sign-out and starts a sign-in.
            Self::SignedOut => Response::see_other(ctx.head.uri.path_and_query().map_or("/", PathAndQuery::as_str)),
            Self::Internal => ctx.refuse(StatusCode::INTERNAL_SERVER_ERROR, &FAILED, Problem::Internal),
        }
    }
}

const OVERLOADED: Refusal =
    Refusal::new(ErrorCode::TemporarilyUnavailable, "The service is overloaded. Try again later.");
const FAILED: Refusal = Refusal::new(ErrorCode::ServerError, "The service failed. Try again later.");

impl RequestContext<'_> {
    /// Returns a refusal: a page for users, JSON for programs.
    pub fn refuse(&self, status: StatusCode, refusal: &Refusal, problem: Problem) -> Response {
        if self.answers_with_pages() { self.problem(status, problem) } else { error(status, refusal) }
    }
}

/// Creates a JSON response with the refusal.
pub fn error(status: StatusCode, refusal: &Refusal) -> Response {
    json(status, refusal.code, &refusal.description)
}

fn json(status: StatusCode, code: ErrorCode, description: &str) -> Response {
    Response::json(status, &ErrorBody { error: code.as_str(), error_description: description })
}

/// Contents of a `WWW-Authenticate` challenge: what a token must satisfy (RFC 6750 §3, RFC 9470 §3,
/// RFC 9728 §5.1).
#[derive(Debug, Clone, Copy, Default)]
pub struct Challenge<'a> {
    pub realm: &'a str,
    pub scopes: &'a [&'a str],
    pub acr: &'a [String],
    /// Maximum age of the user's sign-in.
    pub max_age: Option<Duration>,
    /// URL of the resource metadata, which lists the accepted issuers.
    pub resource_metadata: Option<&'a str>,
}

impl Challenge<'_> {
    /// Creates a refusal with this challenge.
    ///
    /// `fault` is `None` for a request without credentials. The challenge then contains no error,
    /// and the body contains `missing`.
    pub fn respond(&self, fault: Option<&Refusal>, missing: &Refusal) -> Response {
        let mut parts = vec![format!("Bearer realm=\"{}\"", self.realm)];
        if let Some(fault) = fault {
            parts.push(format!("error=\"{}\"", fault.code.as_str()));
            parts.push(format!("error_description=\"{}\"", fault.description));
        }
        if !self.scopes.is_empty() {
            parts.push(format!("scope=\"{}\"", self.scopes.join(" ")));
        }
        if !self.acr.is_empty() {
            parts.push(format!("acr_values=\"{}\"", self.acr.join(" ")));
        }
        if let Some(most) = self.max_age {
            parts.push(format!("max_age=\"{}\"", most.as_secs()));
        }
        if let Some(address) = self.resource_metadata {
            parts.push(format!("resource_metadata=\"{address}\""));
        }
        let status = fault.map_or(StatusCode::UNAUTHORIZED, status_of);
        error(status, fault.unwrap_or(missing)).with(WWW_AUTHENTICATE, &parts.join(", "))
    }
}

/// Returns the status of a refusal at the JSON endpoints (RFC 6749 §5.2; RFC 6750 §3.1; RFC 9470
/// §3).
fn status_of(refusal: &Refusal) -> StatusCode {
    match refusal.code {
        ErrorCode::InvalidClient | ErrorCode::InvalidToken | ErrorCode::InsufficientUserAuthentication => {
            StatusCode::UNAUTHORIZED
        }
        ErrorCode::InsufficientScope => StatusCode::FORBIDDEN,
        ErrorCode::ServerError => StatusCode::INTERNAL_SERVER_ERROR,
        ErrorCode::TemporarilyUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::RateLimitExceeded => StatusCode::TOO_MANY_REQUESTS,
        ErrorCode::NotFound => StatusCode::NOT_FOUND,
        ErrorCode::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        _ => StatusCode::BAD_REQUEST,
    }
}

impl From<Exceeded> for Failure {
    fn from(Exceeded(seconds): Exceeded) -> Self {
        Self::RateLimited(seconds)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(status_of(&refusal), refusal)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        if matches!(error, StoreError::SignedOut) {
            tracing::info!("the session ended during the request; nothing was changed");
        } else if matches!(error, StoreError::NotPermitted) {
            tracing::info!("the user lost the console role during the request; nothing was changed");
        } else if let StoreError::DefinedClient(client) = &error {
            tracing::info!(client = client.as_str(), "the configuration file defines the client; nothing was changed");
        } else if error.is_overload() {
            tracing::debug!(%error, "the store rejected a request");
        } else {
            tracing::error!(%error, "the store failed");
        }
        Self::of_store(&error)
    }
}

impl From<SignError> for Failure {
    fn from(error: SignError) -> Self {
        tracing::error!(%error, "the PKCS#11 token did not sign");
        match error {
            SignError::Bug(_) => Self::Internal,
            _ => Self::Unavailable,
        }
    }
}

impl From<PasswordError> for Failure {
    fn from(error: PasswordError) -> Self {
        error.log("cannot check a password");
        Self::Unavailable
    }
}

impl RequestContext<'_> {
    /// Returns the frame of a page: language, URLs of assets, and links to the page in each
    /// language.
    pub fn frame(&self) -> Frame<'_> {
        let (pages, host) = (&self.sealgate.pages, self.host);
        let folder = (host.assets)(&self.sealgate.config);
        let address = |name: &str, version: &str| format!("{folder}{name}?v={version}");
        let script = |name, version| if host.has_script { address(name, version) } else { String::new() };
        let addresses = Addresses {
            stylesheet: address("style.css", &pages.stylesheet().version),
            console_stylesheet: address("console.css", &pages.console_stylesheet().version),
            script: script("script.js", &pages.script().version),
            keys_script: script("keys.js", &pages.keys_script().version),
            return_script: script("return.js", &pages.return_script().version),
            logo: pages.logo().map(|logo| address("logo", &logo.version)),
            turkish: (host.in_language)(self, "tr"),
            english: (host.in_language)(self, "en"),
        };
        pages.frame(self.language(), addresses)
    }

    /// Creates an error page.
    pub fn problem(&self, status: StatusCode, problem: Problem) -> Response {
        let (address, to) = (self.host.error_link)(self, problem);
        self.problem_with_link(status, problem, &address, to)
    }

    /// Creates an error page with this link.
    pub fn problem_with_link(
        &self,
        status: StatusCode,
        problem: Problem,
        address: &str,
        to: LinkTarget<'_>,
    ) -> Response {
        let link = PageLink { address, to };
        let page = ErrorPage { frame: self.frame(), problem, request_id: &self.origin.request_id, link };
        Response::html(status, html(&page), Some(self.host.form_action))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MISSING: Refusal = Refusal::new(ErrorCode::LoginRequired, "Sign in.");

    fn challenge(challenge: Challenge<'_>, fault: Option<&Refusal>) -> (u16, String) {
        let challenge = Challenge { realm: "wiki", resource_metadata: Some("https://wiki.test/r"), ..challenge };
        let response = challenge.respond(fault, &MISSING).finish();
        (response.status().as_u16(), response.headers()[WWW_AUTHENTICATE].to_str().unwrap().to_owned())
    }

    #[test]
    fn a_challenge_without_credentials_names_no_error() {
        assert_eq!(
            challenge(Challenge::default(), None),
            (401, "Bearer realm=\"wiki\", resource_metadata=\"https://wiki.test/r\"".into())
        );
    }

    #[test]
    fn a_challenge_names_the_error() {
        let fault = Refusal::new(ErrorCode::InvalidToken, "No.");
        let expected = "Bearer realm=\"wiki\", error=\"invalid_token\", error_description=\"No.\", ";
        let (status, text) = challenge(Challenge::default(), Some(&fault));
        assert!(status == 401 && text.starts_with(expected), "{text}");
        let fault = Refusal::new(ErrorCode::InsufficientScope, "No.");
        let (status, text) =
            challenge(Challenge { scopes: &["profile", "email"], ..Challenge::default() }, Some(&fault));
        assert_eq!(status, 403);
        assert!(text.contains(", scope=\"profile email\", "), "{text}");
    }

    #[test]
    fn a_challenge_names_the_required_sign_in() {
        let fault = Refusal::new(ErrorCode::InsufficientUserAuthentication, "No.");
        let acr = ["2".to_owned(), "3".to_owned()];
        let wanted = Challenge { acr: &acr, max_age: Some(Duration::from_mins(5)), ..Challenge::default() };
        let (status, text) = challenge(wanted, Some(&fault));
        assert_eq!(status, 401);
        assert!(text.contains("error=\"insufficient_user_authentication\""), "{text}");
        assert!(text.contains("acr_values=\"2 3\", max_age=\"300\""), "{text}");
    }
}
