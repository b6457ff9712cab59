//! What goes wrong at an endpoint, and the only place where that becomes HTTP.
//!
//! A failure knows whether it may travel to a client's redirect URI: only [`Failure::Return`] does, and it cannot be
//! made without a [`ReturnTo`]. Causes that concern the operator go to the log with the request's id; the answer names
//! none of them.

use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use serde::Serialize;

use crate::domain::error::{ErrorCode, Refusal};
use crate::oauth::authorize::ReturnTo;
use crate::page::{ErrorPage, Problem, Way, WayTo};
use crate::password::PasswordError;
use crate::provider::Style;
use crate::provider::context::{RequestContext, status_of};
use crate::provider::response::Response;
use crate::provider::visitor;
use crate::provider::way_back;
use crate::signer::SignError;
use crate::store::StoreError;

/// Why an endpoint does not do what was asked.
#[derive(Debug)]
pub enum Failure {
    /// A refusal, to a program as JSON and to a person as a page.
    Refused(StatusCode, Refusal),
    /// A client that has not proven who it is.
    Client(Refusal),
    /// An access token that is missing, does not stand or does not suffice (RFC 6750 §3).
    Bearer(Option<Refusal>),
    /// A page that says what went wrong.
    Page(StatusCode, Problem),
    /// The browser has to go to another of our pages first.
    Elsewhere(String),
    /// A refusal that travels back to the client.
    Return(Box<ReturnTo>, Refusal),
    /// The path exists, the method does not; these do.
    Method(&'static [Method]),
    /// The allowance is used up for this many seconds.
    RateLimited(u64),
    /// A part is overloaded or away; nothing was used up.
    Unavailable,
    /// A fault of the program.
    Internal,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: &'a str,
    error_description: &'a str,
}

impl Failure {
    /// A refusal with a status of its own.
    pub fn json(status: StatusCode, refusal: Refusal) -> Self {
        Self::Refused(status, refusal)
    }

    /// A page with status 400.
    pub fn page(problem: Problem) -> Self {
        Self::Page(StatusCode::BAD_REQUEST, problem)
    }

    /// The same failure, but one of ours (not the client's) travels back as the code that RFC 6749 §4.1.2.1 has for it.
    #[must_use]
    pub fn returning_to(self, return_to: &ReturnTo) -> Self {
        let refusal = match self {
            Self::Refused(_, refusal) => refusal,
            Self::Unavailable => {
                Refusal::new(ErrorCode::TemporarilyUnavailable, "The service is overloaded. Try again later.")
            }
            Self::Internal => Refusal::new(ErrorCode::ServerError, "The service failed."),
            other => return other,
        };
        Self::Return(Box::new(return_to.clone()), refusal)
    }

    /// The failure on the wire.
    pub fn into_response(self, ctx: &RequestContext<'_>) -> Response {
        match self {
            Self::Refused(status, refusal) => match ctx.style {
                Style::Json => error(status, &refusal),
                Style::Page => page(ctx, status, Problem::InvalidRequest),
            },
            Self::Client(refusal) => {
                let response = error(status_of(&refusal), &refusal);
                // However the client tried: no 401 goes without a challenge (RFC 9110 §15.5.2; RFC 6749 §5.2).
                if refusal.code == ErrorCode::InvalidClient {
                    response.with(WWW_AUTHENTICATE, r#"Basic realm="sealgate", charset="UTF-8""#)
                } else {
                    response
                }
            }
            Self::Bearer(refusal) => bearer(refusal),
            Self::Page(status, problem) => page(ctx, status, problem),
            Self::Elsewhere(address) => Response::see_other(&address),
            Self::Return(return_to, refusal) => {
                way_back::respond(ctx, &return_to.with_refusal(&refusal, ctx.sealgate.config.issuer.as_str()))
            }
            Self::Method(methods) => {
                let names: Vec<&str> = methods.iter().map(Method::as_str).collect();
                let response = if ctx.is_opened_by_person() {
                    page(ctx, StatusCode::METHOD_NOT_ALLOWED, Problem::ForPrograms)
                } else {
                    let refusal = Refusal::new(ErrorCode::MethodNotAllowed, "The method is not allowed here.");
                    error(StatusCode::METHOD_NOT_ALLOWED, &refusal)
                };
                response.with(ALLOW, &names.join(", "))
            }
            Self::RateLimited(seconds) if ctx.is_opened_by_person() => {
                page(ctx, StatusCode::TOO_MANY_REQUESTS, Problem::TooManyRequests { seconds })
                    .with(RETRY_AFTER, &seconds.to_string())
            }
            Self::RateLimited(seconds) => rate_limited(seconds),
            Self::Unavailable => {
                let refusal =
                    Refusal::new(ErrorCode::TemporarilyUnavailable, "The service is overloaded. Try again later.");
                let response = match ctx.style {
                    Style::Json => error(StatusCode::SERVICE_UNAVAILABLE, &refusal),
                    Style::Page => page(ctx, StatusCode::SERVICE_UNAVAILABLE, Problem::Unavailable),
                };
                response.with(RETRY_AFTER, "1")
            }
            Self::Internal => match ctx.style {
                Style::Json => {
                    let refusal = Refusal::new(ErrorCode::ServerError, "The service failed.");
                    error(StatusCode::INTERNAL_SERVER_ERROR, &refusal)
                }
                Style::Page => page(ctx, StatusCode::INTERNAL_SERVER_ERROR, Problem::Internal),
            },
        }
    }
}

fn error(status: StatusCode, refusal: &Refusal) -> Response {
    Response::json(status, &ErrorBody { error: refusal.code.as_str(), error_description: &refusal.description })
}

/// The specification's 429: JSON to every program wherever it happens, with the seconds in words too.
fn rate_limited(seconds: u64) -> Response {
    let description = format!("Too many requests. Try again in {seconds} seconds.");
    let body = ErrorBody { error: ErrorCode::RateLimitExceeded.as_str(), error_description: &description };
    Response::json(StatusCode::TOO_MANY_REQUESTS, &body).with(RETRY_AFTER, &seconds.to_string())
}

/// RFC 6750 §3: without any token there is nothing to explain, so no error code stands in the challenge.
fn bearer(refusal: Option<Refusal>) -> Response {
    let Some(refusal) = refusal else {
        let refusal = Refusal::new(ErrorCode::InvalidToken, "An access token is required in the Authorization header.");
        return error(StatusCode::UNAUTHORIZED, &refusal).with(WWW_AUTHENTICATE, r#"Bearer realm="sealgate""#);
    };
    let scope = if refusal.code == ErrorCode::InsufficientScope { r#", scope="openid""# } else { "" };
    let challenge = format!(
        r#"Bearer realm="sealgate", error="{}", error_description="{}"{scope}"#,
        refusal.code.as_str(),
        refusal.description,
    );
    error(status_of(&refusal), &refusal).with(WWW_AUTHENTICATE, &challenge)
}

fn page(ctx: &RequestContext<'_>, status: StatusCode, problem: Problem) -> Response {
    let account = match problem {
        Problem::Console => visitor::sign_in(ctx, "/console", &[("prompt", "select_account")]),
        // There the path would be nobody's too.
        Problem::UnknownHost => format!("{}/account", ctx.sealgate.config.issuer.as_str()),
        _ => ctx.path("/account"),
    };
    let waiting_helps = matches!(problem, Problem::TooManyRequests { .. } | Problem::Unavailable | Problem::Internal);
    let way = match (problem, ctx.party()) {
        (Problem::Console, _) => Way { address: &account, to: WayTo::AnotherAccount },
        // The page's own address: what was sent with a POST cannot be asked for again.
        _ if waiting_helps && ctx.request.method() != Method::POST => Way { address: "", to: WayTo::Again },
        (_, Some(party)) => Way { address: &party.address, to: WayTo::Application(&party.name) },
        (_, None) => Way { address: &account, to: WayTo::Account },
    };
    let content = ErrorPage { problem, request_id: &ctx.origin.request_id, way };
    let html = ctx.with_chrome(|chrome| ctx.sealgate.pages.error(chrome, &content));
    Response::page(status, html, None)
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(status_of(&refusal), refusal)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        tracing::error!(%error, "the store failed");
        match error {
            StoreError::Broken(_) => Self::Internal,
            _ => Self::Unavailable,
        }
    }
}

impl From<SignError> for Failure {
    fn from(error: SignError) -> Self {
        tracing::error!(%error, "the token device did not sign");
        match error {
            SignError::Bug(_) => Self::Internal,
            _ => Self::Unavailable,
        }
    }
}

impl From<PasswordError> for Failure {
    fn from(error: PasswordError) -> Self {
        tracing::error!(%error, "a password could not be checked");
        Self::Unavailable
    }
}
