//! Refusals of the gateway, with their log messages.
//!
//! The log has the exact reason. Metrics have a coarser label: ambiguous paths, respelled methods
//! and repeated fields all count as `ambiguous`.

use http::StatusCode;
use http::header::{ALLOW, HeaderName};
use http::uri::PathAndQuery;

use crate::app_password;
use crate::decide::GateReply;
use crate::headers::UnwritableGroups;
use crate::policy::{AccessRequest, Credential, Refused};
use crate::reading::Ambiguous;
use crate::request::AppRequest;
use crate::resource::{challenge, scope_challenge, step_up_challenge};
use crate::route::{RoutePlace, Rule};
use crate::sign_in::login;
use crate::sign_in::login::{First, SignInRequest};
use crate::sign_in::return_path::ReturnPath;
use sealgate_config::Access;
use sealgate_core::refusals::RecentRefusal;
use sealgate_core::web::failure::error;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_edge::navigation;
use sealgate_pages::Problem;

/// Remembers a refusal for the console. Redirects to a sign-in are no refusals.
fn remember(ctx: &AppRequest<'_>, reason: &'static str, subject: Option<String>) {
    let (method, path) = (ctx.head.method.as_str(), ctx.head.uri.path());
    ctx.sealgate.refusals.add(&ctx.app.name, RecentRefusal::new(ctx.now, method, path, reason, subject));
}

/// Refuses a path that servers may read in different ways.
pub(super) fn refuse_path(ctx: &AppRequest<'_>, ambiguous: Ambiguous) -> GateReply {
    let (request_id, app) = (&ctx.origin.request_id, &ctx.app.name);
    tracing::info!(request_id, app, reason = ambiguous.as_str(), "refused an ambiguous path");
    remember(ctx, ambiguous.as_str(), None);
    let refusal = Refusal::invalid_request(ambiguous.description());
    GateReply::new("ambiguous", ctx.refuse(StatusCode::BAD_REQUEST, &refusal, Problem::InvalidRequest))
}

/// Refuses a path for which the application has no rule.
pub(super) fn refuse_without_rule(ctx: &AppRequest<'_>) -> GateReply {
    tracing::info!(request_id = ctx.origin.request_id, app = ctx.app.name, reason = "unopened", "refused");
    remember(ctx, "unopened", None);
    let refusal = Refusal::new(ErrorCode::AccessDenied, "No rule of the application has this path.");
    GateReply::new("unopened", ctx.refuse(StatusCode::FORBIDDEN, &refusal, Problem::NotFound))
}

/// Refuses a method that differs only in letter case from a registered method or from a method in a
/// rule.
///
/// Methods are case-sensitive (RFC 9110 §9.1), but many frameworks ignore the case.
pub(super) fn refuse_spelled_method(ctx: &AppRequest<'_>) -> GateReply {
    let (request_id, app) = (&ctx.origin.request_id, &ctx.app.name);
    tracing::info!(request_id, app, reason = "method_case", "refused");
    remember(ctx, "method_case", None);
    let refusal = Refusal::invalid_request("The method must be in upper case.");
    GateReply::new("ambiguous", ctx.refuse(StatusCode::BAD_REQUEST, &refusal, Problem::InvalidRequest))
}

/// Refuses a request with a repeated header field. The gateway may read one occurrence and the
/// application another.
pub(super) fn refuse_repeated(ctx: &AppRequest<'_>, field: &HeaderName) -> GateReply {
    let (request_id, app) = (&ctx.origin.request_id, &ctx.app.name);
    tracing::info!(request_id, app, field = field.as_str(), reason = "repeated_field", "refused");
    remember(ctx, "repeated_field", None);
    let refusal = Refusal::invalid_request("A header field is repeated that may occur only once.");
    GateReply::new("ambiguous", ctx.refuse(StatusCode::BAD_REQUEST, &refusal, Problem::InvalidRequest))
}

/// Refuses a method to which no rule of the path applies (RFC 9110 §15.5.6).
pub(super) fn refuse_method(ctx: &AppRequest<'_>, place: &RoutePlace) -> GateReply {
    tracing::info!(
        request_id = ctx.origin.request_id,
        app = ctx.app.name,
        rule = place.path,
        reason = "method",
        "refused"
    );
    remember(ctx, "method", None);
    let refusal = Refusal::new(ErrorCode::MethodNotAllowed, "No rule of this path allows the method.");
    let answer = ctx.refuse(StatusCode::METHOD_NOT_ALLOWED, &refusal, Problem::InvalidRequest);
    GateReply::new("method", answer.with(ALLOW, &place.methods(ctx.origin.known_address()).join(", ")))
}

/// Refuses a client from whose network no rule of the path and method applies.
///
/// The response does not reveal the networks.
pub(super) fn refuse_network(ctx: &AppRequest<'_>, place: &RoutePlace) -> GateReply {
    tracing::info!(
        request_id = ctx.origin.request_id,
        app = ctx.app.name,
        rule = place.path,
        address = ctx.origin.address_text(),
        reason = "network",
        "refused"
    );
    remember(ctx, "network", None);
    let refusal = Refusal::new(ErrorCode::AccessDenied, "This resource is not available from this network.");
    GateReply::new("network", ctx.refuse(StatusCode::FORBIDDEN, &refusal, Problem::Network))
}

/// Refuses a bearer token.
///
/// The response does not reveal whether the token is forged, expired or revoked. The response is
/// never a redirect, because clients that send tokens are programs.
pub(super) fn refuse_token(ctx: &AppRequest<'_>, rule: &Rule) -> GateReply {
    const INVALID: Refusal = Refusal::new(ErrorCode::InvalidToken, "The access token is invalid or has expired.");
    tracing::info!(request_id = ctx.origin.request_id, app = ctx.app.name, reason = "invalid_token", "refused");
    remember(ctx, "invalid_token", None);
    GateReply::new("invalid_token", challenge(ctx, Some(rule), Some(&INVALID)))
}

/// Refuses a request for the reason that the policy returned.
pub(super) async fn refuse(
    ctx: &AppRequest<'_>,
    asked: &AccessRequest<'_>,
    credential: &Credential,
    refused: Refused<'_>,
) -> GateReply {
    let (who, rule) = (credential.who(), asked.rule);
    if let Some(who) = who {
        tracing::info!(
            request_id = ctx.origin.request_id,
            app = ctx.app.name,
            rule = rule.path,
            reason = refused.as_str(),
            claim = refused.claim(),
            subject = who.name(),
            "refused"
        );
    }
    let by_browser = !credential.is_by_token() && navigation::is_navigation(ctx.head);
    if let Some(who) = who.filter(|_| !(by_browser && matches!(refused, Refused::Acr(_) | Refused::TooOld(_)))) {
        remember(ctx, refused.as_str(), Some(who.name()));
    }
    let answer = match (refused, who) {
        // Microsoft Office follows redirects itself and passes the last URL to the browser. Without
        // a redirect, the browser opens the requested page.
        (Refused::Unknown, _)
            if rule.access == Access::SignedIn && !ctx.takes_basic(rule) && navigation::is_office(ctx.head) =>
        {
            ctx.problem(StatusCode::OK, Problem::SignInNeeded)
        }
        (Refused::Unknown, _) if rule.access == Access::SignedIn && by_browser => {
            return sign_in("signing_in", ctx, asked.path_and_query, rule, refused).await;
        }
        (Refused::Acr(_) | Refused::TooOld(_), _) if by_browser => {
            return sign_in("stepping_up", ctx, asked.path_and_query, rule, refused).await;
        }
        (Refused::Acr(_) | Refused::TooOld(_), _) => {
            let refused = step_up_challenge(ctx, rule, &refused.demanded(rule));
            if credential.is_by_token() { refused } else { ctx.as_page(refused, Problem::SignInNeeded) }
        }
        (Refused::Audience, _) => {
            let refusal = Refusal::new(ErrorCode::InvalidToken, "The access token is for another audience.");
            return GateReply::new("invalid_token", challenge(ctx, Some(rule), Some(&refusal)));
        }
        // The client itself is refused, so another token or sign-in would not help. The response
        // has no challenge.
        (Refused::Client, _) => {
            let refusal =
                Refusal::new(ErrorCode::AccessDenied, "The application does not accept this client's tokens.");
            error(StatusCode::FORBIDDEN, &refusal)
        }
        (Refused::UnapprovedClient, _) => {
            let why = "An administrator must approve this client before its tokens give access to the application.";
            error(StatusCode::FORBIDDEN, &Refusal::new(ErrorCode::AccessDenied, why))
        }
        (Refused::Scope(_), _) => scope_challenge(ctx, rule, credential),
        (Refused::ReadOnly, _) => {
            let why = "Tokens may only read here, unless a rule of the application lists the method.";
            error(StatusCode::FORBIDDEN, &Refusal::new(ErrorCode::AccessDenied, why))
        }
        (Refused::Group | Refused::User, Some(who)) => ctx.forbidden(who),
        (Refused::Maintenance, _) => ctx.in_maintenance(),
        // Another sign-in would not help here.
        (Refused::Destination, _) => {
            let refusal =
                Refusal::new(ErrorCode::AccessDenied, "The rule of the destination does not allow this request.");
            error(StatusCode::FORBIDDEN, &refusal)
        }
        (Refused::Below, _) => {
            let refusal = Refusal::new(
                ErrorCode::AccessDenied,
                "The request acts on all paths below its own path, and the rule of one of them does not allow the request.",
            );
            error(StatusCode::FORBIDDEN, &refusal)
        }
        (Refused::Groups(unwritable), Some(who)) => {
            let what = match unwritable {
                UnwritableGroups::TooLong => {
                    "the user's groups do not fit into a header; remove the user from some groups"
                }
                UnwritableGroups::Letters => {
                    "a group of the user cannot be written in the application's encoding; rename the group"
                }
            };
            tracing::error!(app = ctx.app.name, subject = who.name(), "{what}");
            let refusal =
                Refusal::new(ErrorCode::ServerError, "The groups of this account cannot be sent to the application.");
            ctx.refuse(StatusCode::INTERNAL_SERVER_ERROR, &refusal, Problem::Internal)
        }
        (Refused::Unknown, _) if ctx.takes_basic(rule) => {
            let refused = app_password::with_basic_challenge(ctx, challenge(ctx, Some(rule), None));
            ctx.as_page(refused, Problem::SignInNeeded)
        }
        (Refused::Unknown, _) if rule.access == Access::SignedIn => {
            ctx.as_page(challenge(ctx, Some(rule), None), Problem::SignInNeeded)
        }
        (Refused::Unknown | Refused::Group | Refused::User | Refused::Groups(_), _) => challenge(ctx, Some(rule), None),
    };
    GateReply::new(refused.as_str(), answer)
}

/// Redirects a user to sign in and then back to this page.
async fn sign_in(
    label: &'static str,
    ctx: &AppRequest<'_>,
    target: &PathAndQuery,
    rule: &Rule,
    refused: Refused<'_>,
) -> GateReply {
    let demand = SignInRequest { first: First::Needed, acr: &refused.demanded(rule), max_age: rule.max_age };
    let answer = match ReturnPath::parse(target.as_str()) {
        Some(wanted) => login::begin(ctx, &wanted, demand).await,
        // The target is too long to be stored. The user can sign in at the start page and return
        // with the browser's Back button.
        None => Ok(ctx.as_page(challenge(ctx, Some(rule), None), Problem::SignInNeeded)),
    };
    answer.map_or_else(|error| ctx.failed(&error), |response| GateReply::new(label, response))
}
