//! Protected-resource metadata of an application (RFC 9728), and challenges that link to the
//! metadata.

use std::time::Duration;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    ALLOW, CACHE_CONTROL,
};
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;

use crate::path::CanonicalPath;
use crate::request::AppRequest;
use crate::route::Rule;
use sealgate_config::{Access, App, RegistrationMode};
use sealgate_core::web::failure::{Challenge, error};
use sealgate_core::web::response::Response;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::scope::ScopeValue;

/// Path of the metadata document on every application's host (RFC 9728 §3).
const PATH: &str = "/.well-known/oauth-protected-resource";

/// Metadata document (RFC 9728 §2).
#[derive(Serialize)]
struct Metadata<'a> {
    resource: &'a str,
    authorization_servers: Vec<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes_supported: Vec<&'a str>,
    bearer_methods_supported: [&'static str; 1],
    resource_name: &'a str,
}

/// Returns the URL of the metadata document.
pub(super) fn metadata_url(ctx: &AppRequest<'_>) -> String {
    format!("{}{PATH}", ctx.public_origin())
}

/// Returns whether this is the path of the metadata document.
pub(super) fn is_metadata(path: &CanonicalPath<'_>) -> bool {
    path.as_bytes() == PATH.as_bytes()
}

/// Returns the scopes that a client must request, so that these rules accept its token.
///
/// The list has the scopes of the rules, and `openid`: without `openid`, the provider issues only
/// tokens for a resource. The list is empty if every rule is public.
pub(super) fn scopes<'a>(app: &App, rules: &'a [Rule]) -> Vec<&'a str> {
    if rules.iter().all(|rule| rule.access == Access::Public) {
        return Vec::new();
    }
    let openid = ScopeValue::OpenId.as_str();
    let mut scopes: Vec<&str> = rules.iter().flat_map(|rule| &rule.scopes).map(String::as_str).collect();
    scopes.retain(|scope| *scope != openid);
    scopes.sort_unstable();
    scopes.dedup();
    // Clients of an application that accepts only tokens for itself send the parameter `resource`.
    if app.issuer_audience {
        scopes.insert(0, openid);
    }
    scopes
}

/// Returns a 401 with a challenge that describes to a client how to get access. `fault` is the
/// error of the credentials, if the client sent any.
pub(super) fn challenge(ctx: &AppRequest<'_>, rule: Option<&Rule>, fault: Option<&Refusal>) -> Response {
    const MISSING: Refusal =
        Refusal::new(ErrorCode::LoginRequired, "Sign in, or send an access token in the Authorization header.");
    let mut wanted = Vec::new();
    if fault.is_none() {
        // The challenge names scopes only for a client without a token.
        wanted = match rule {
            Some(rule) => scopes(ctx.app, std::slice::from_ref(rule)),
            None => ctx.scopes.iter().map(String::as_str).collect(),
        };
        // Clients that registered themselves may use refresh tokens. They request only the scopes
        // of the challenge, so the challenge must contain `offline_access`.
        if !wanted.is_empty() && ctx.sealgate.config.registration.mode == RegistrationMode::Open {
            wanted.push(ScopeValue::OfflineAccess.as_str());
        }
    }
    respond(ctx, &wanted, fault, &MISSING)
}

/// Returns the refusal of a token that lacks a scope (RFC 6750 §3.1).
///
/// The challenge names all scopes that the next authorization request needs. A client that
/// requested only the missing scope would be refused again. A client that did not request
/// `offline_access` again would lose its refresh token.
pub(super) fn scope_challenge(ctx: &AppRequest<'_>, rule: &Rule, has_offline_access: bool) -> Response {
    const LACKING: Refusal = Refusal::new(ErrorCode::InsufficientScope, "The access token lacks a required scope.");
    let mut wanted = scopes(ctx.app, std::slice::from_ref(rule));
    if has_offline_access {
        wanted.push(ScopeValue::OfflineAccess.as_str());
    }
    respond(ctx, &wanted, Some(&LACKING), &LACKING)
}

fn respond(ctx: &AppRequest<'_>, scopes: &[&str], fault: Option<&Refusal>, missing: &Refusal) -> Response {
    let resource_metadata = metadata_url(ctx);
    let challenge = Challenge {
        realm: &ctx.app.name,
        scopes,
        acr: &[],
        max_age: None,
        resource_metadata: Some(&resource_metadata),
    };
    challenge.respond(fault, missing)
}

/// Returns the refusal of a sign-in that is too weak or too old (RFC 9470 §3). A new sign-in must
/// reach one of the context classes in `acr`.
pub(super) fn step_up_challenge(ctx: &AppRequest<'_>, acr: &[String], max_age: Option<Duration>) -> Response {
    const INSUFFICIENT: Refusal =
        Refusal::new(ErrorCode::InsufficientUserAuthentication, "A stronger or more recent sign-in is required.");
    let metadata = metadata_url(ctx);
    let resource_metadata = Some(metadata.as_str());
    let challenge = Challenge { realm: &ctx.app.name, scopes: &[], acr, max_age, resource_metadata };
    challenge.respond(Some(&INSUFFICIENT), &INSUFFICIENT)
}

/// Returns the metadata document, which is the same for every client.
pub(super) fn metadata(ctx: &AppRequest<'_>) -> Response {
    if ctx.head.method == Method::OPTIONS {
        // Pages of every origin may read the document. Clients of the Model Context Protocol send
        // `MCP-Protocol-Version`.
        return Response::empty(StatusCode::NO_CONTENT)
            .with(ALLOW, "GET, HEAD")
            .with(ACCESS_CONTROL_ALLOW_ORIGIN, "*")
            .with(ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD")
            .with(ACCESS_CONTROL_ALLOW_HEADERS, "MCP-Protocol-Version")
            .with(ACCESS_CONTROL_MAX_AGE, "600");
    }
    if !matches!(ctx.head.method, Method::GET | Method::HEAD) {
        let refusal = Refusal::new(ErrorCode::MethodNotAllowed, "The method is not allowed.");
        return error(StatusCode::METHOD_NOT_ALLOWED, &refusal).with(ALLOW, "GET, HEAD");
    }
    let config = &ctx.sealgate.config;
    let taken = config.trusted_issuers.iter().map(|issuer| &issuer.terms);
    let taken = taken.filter(|terms| ctx.app.trusted_issuers.contains(&terms.name)).map(|terms| terms.issuer.as_str());
    let of_rules = ctx.scopes.iter().map(String::as_str);
    let declared = ctx.app.scopes.iter().map(|scope| scope.name.as_str());
    let declared = declared.filter(|name| !ctx.scopes.iter().any(|of_rules| of_rules == name));
    let metadata = Metadata {
        // RFC 9728 §3.3: the resource is the URL under which the document was found, even if tokens
        // have another audience.
        resource: &ctx.public_origin(),
        authorization_servers: std::iter::once(config.issuer.as_str()).chain(taken).collect(),
        scopes_supported: of_rules.chain(declared).collect(),
        bearer_methods_supported: ["header"],
        resource_name: &ctx.app.name,
    };
    Response::json(StatusCode::OK, &metadata)
        .with(CACHE_CONTROL, "public, max-age=3600")
        .and(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"))
}
