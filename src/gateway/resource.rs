//! Protected-resource metadata of an application (RFC 9728), and challenges that link to the
//! metadata.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_MAX_AGE,
    ALLOW, CACHE_CONTROL,
};
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;

use crate::path::CanonicalPath;
use crate::policy::Credential;
use crate::request::AppRequest;
use crate::route::Rule;
use sealgate_config::{Access, App, RegistrationMode};
use sealgate_core::web::failure::{Challenge, error};
use sealgate_core::web::response::Response;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::scope::{Scope, ScopeValue};

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

/// Returns the URL of the metadata document of the rule's resource: the path of the rule, or the
/// application.
fn metadata_url(ctx: &AppRequest<'_>, rule: Option<&Rule>) -> String {
    let path = rule.and_then(Rule::resource_path).unwrap_or_default();
    format!("{}{PATH}{path}", ctx.public_origin())
}

/// Returns the path of the resource whose metadata document has this path. The path of the
/// application is empty. `None` if this is no path of metadata.
///
/// At an application for agents, all paths below the document are reserved: clients look there for
/// the metadata of every path (RFC 9728 §3.1).
pub(super) fn metadata_of<'p>(app: &App, path: &'p CanonicalPath<'_>) -> Option<&'p [u8]> {
    match path.as_bytes().strip_prefix(PATH.as_bytes())? {
        rest @ [] => Some(rest),
        rest @ [b'/', ..] if app.agents => Some(rest),
        _ => None,
    }
}

/// Returns whether tokens with this identifier of a resource as audience are for the rule: the path
/// of the rule if it is a resource, otherwise the application. `origin` is the identifier of the
/// application.
pub(super) fn is_resource_of(rule: &Rule, origin: &str, audience: &str) -> bool {
    audience.strip_prefix(origin) == Some(rule.resource_path().unwrap_or_default())
}

/// Returns the scopes that a client must request, so that these rules accept its token.
///
/// The list has the scopes of the rules, and `openid`: without `openid`, the provider issues only
/// tokens for a resource, without the user's data. The list is empty if every rule is public.
pub(super) fn scopes<'a>(app: &App, rules: &'a [Rule]) -> Vec<&'a str> {
    if rules.iter().all(|rule| rule.access == Access::Public) {
        return Vec::new();
    }
    let openid = ScopeValue::OpenId.as_str();
    let mut scopes: Vec<&str> = rules.iter().flat_map(|rule| &rule.scopes).map(String::as_str).collect();
    scopes.retain(|scope| *scope != openid);
    scopes.sort_unstable();
    scopes.dedup();
    let of_user = |scope: &&str| Scope::known_in(scope) != Scope::EMPTY;
    // Clients of an application that accepts only tokens for itself send the parameter `resource`.
    if app.issuer_audience || (app.agents && scopes.iter().any(of_user)) {
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
        let registration = &ctx.sealgate.config.registration;
        let register_themselves =
            registration.mode == RegistrationMode::Open || !registration.document_hosts.is_empty();
        if !wanted.is_empty() && register_themselves {
            wanted.push(ScopeValue::OfflineAccess.as_str());
        }
    }
    respond(ctx, rule, &wanted, fault, &MISSING)
}

/// Returns the refusal of a token that lacks a scope (RFC 6750 §3.1).
///
/// The challenge names all scopes that the next authorization request needs. A client that
/// requested only the missing scope would be refused again. A client that did not request
/// `offline_access` again would lose its refresh token. An agent keeps one token for all paths, so
/// its next request also needs all scopes of its token.
pub(super) fn scope_challenge(ctx: &AppRequest<'_>, rule: &Rule, credential: &Credential) -> Response {
    const LACKING: Refusal = Refusal::new(ErrorCode::InsufficientScope, "The access token lacks a required scope.");
    let mut wanted = scopes(ctx.app, std::slice::from_ref(rule));
    let held = credential.token_scope().filter(|_| ctx.app.agents).unwrap_or_default();
    for scope in held.split(' ').filter(|scope| !scope.is_empty() && *scope != ScopeValue::OfflineAccess.as_str()) {
        if !wanted.contains(&scope) {
            wanted.push(scope);
        }
    }
    if credential.has_offline_access() {
        wanted.push(ScopeValue::OfflineAccess.as_str());
    }
    respond(ctx, Some(rule), &wanted, Some(&LACKING), &LACKING)
}

fn respond(
    ctx: &AppRequest<'_>,
    rule: Option<&Rule>,
    scopes: &[&str],
    fault: Option<&Refusal>,
    missing: &Refusal,
) -> Response {
    let resource_metadata = metadata_url(ctx, rule);
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
pub(super) fn step_up_challenge(ctx: &AppRequest<'_>, rule: &Rule, acr: &[String]) -> Response {
    const INSUFFICIENT: Refusal =
        Refusal::new(ErrorCode::InsufficientUserAuthentication, "A stronger or more recent sign-in is required.");
    let metadata = metadata_url(ctx, Some(rule));
    let resource_metadata = Some(metadata.as_str());
    let challenge = Challenge { realm: &ctx.app.name, scopes: &[], acr, max_age: rule.max_age, resource_metadata };
    challenge.respond(Some(&INSUFFICIENT), &INSUFFICIENT)
}

/// Returns the metadata document of a resource, which is the same for every client. `path` is the
/// path of the resource: see [`metadata_of`].
pub(super) fn metadata(ctx: &AppRequest<'_>, path: &[u8]) -> Response {
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
    let path = std::str::from_utf8(path).unwrap_or_default().trim_end_matches('/');
    let rules: Vec<Rule> = ctx.app.resource_routes(path).cloned().collect();
    let of_path: Vec<String> = scopes(ctx.app, &rules).into_iter().map(str::to_owned).collect();
    let (resource, of_rules) = match path {
        "" => (ctx.public_origin(), ctx.scopes),
        _ if rules.is_empty() => {
            let refusal = Refusal::new(ErrorCode::NotFound, "This path is not a resource of its own.");
            return error(StatusCode::NOT_FOUND, &refusal);
        }
        _ => (format!("{}{path}", ctx.public_origin()), &*of_path),
    };
    let config = &ctx.sealgate.config;
    let taken = config.trusted_issuers.iter().map(|issuer| &issuer.terms);
    let taken = taken.filter(|terms| ctx.app.trusted_issuers.contains(&terms.name)).map(|terms| terms.issuer.as_str());
    let declared = ctx.app.scopes.iter().map(|scope| scope.name.as_str());
    let declared = declared.filter(|name| !of_rules.iter().any(|of_rules| of_rules == name));
    let metadata = Metadata {
        // RFC 9728 §3.3: the resource is the URL under which the document was found, even if tokens
        // have another audience.
        resource: &resource,
        authorization_servers: std::iter::once(config.issuer.as_str()).chain(taken).collect(),
        scopes_supported: of_rules.iter().map(String::as_str).chain(declared).collect(),
        bearer_methods_supported: ["header"],
        resource_name: &ctx.app.name,
    };
    Response::json(StatusCode::OK, &metadata)
        .with(CACHE_CONTROL, "public, max-age=3600")
        .and(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"))
}
