//! Applications, and the explanation of an access decision.

use std::net::IpAddr;

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::body::{Field, Kind, field};
use super::problem::ApiProblem;
use super::{Call, Reply};
use sealgate_admin::UserRef;
use sealgate_config::App;
use sealgate_domain::api_token::ApiScope;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::user::User;
use sealgate_gateway::{Asker, explain, explained};

/// Request whose decision is explained, as for `sealgate explain`.
pub(super) const REQUEST: &[Field] = &[
    field("url", Kind::Text(2000), "Full URL of the request; the path is used unchanged"),
    field("method", Kind::Text(20), "HTTP method; GET if absent"),
    field("user", Kind::Text(300), "User who has just signed in with the browser; no user if absent"),
    field("level", Kind::Choice(&["1", "2", "3"]), "Authentication level of the user; the required level if absent"),
    field("from", Kind::Text(50), "Address of the client, for paths whose rules have networks"),
];

/// Lists the applications of the configuration, with the state of their servers.
#[expect(clippy::unused_async, reason = "the table of routes has asynchronous functions")]
pub(super) async fn apps(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let config = &call.sealgate.config;
    let apps: Vec<Value> = config.apps.iter().map(|app| shown(call, app)).collect();
    Ok(Reply::json(StatusCode::OK, &json!({ "apps": apps, "next": null })))
}

fn shown(call: &Call<'_>, app: &App) -> Value {
    let state = call.sealgate.upstreams.for_app(&app.name);
    let servers: Vec<Value> = if state.is_empty() {
        app.all_upstreams().iter().map(|one| json!({ "address": one.to_string(), "accepts": null })).collect()
    } else {
        state.iter().map(|(address, accepts)| json!({ "address": address, "accepts": accepts })).collect()
    };
    json!({
        "name": app.name,
        "title": app.called(),
        "url": app.origin_pattern(&call.sealgate.config.issuer),
        "servers": servers,
        "maintenance": app.maintenance.is_some(),
    })
}

/// Explains which rule decides on a request.
pub(super) async fn check(call: &Call<'_>) -> Result<Reply, ApiProblem> {
    let body = &call.body;
    let invalid = |reason: String| ApiProblem::invalid(vec![reason]);
    let method = body.some_text("method").unwrap_or("GET");
    if Method::from_bytes(method.as_bytes()).is_err() {
        return Err(invalid("\"method\" is not an HTTP method".to_owned()));
    }
    let address: Option<IpAddr> = match body.some_text("from") {
        Some(text) => Some(text.parse().map_err(|_| invalid("\"from\" is not an IP address".to_owned()))?),
        None => None,
    };
    let user = match body.some_text("user") {
        // The answer has the user's groups, name and address.
        Some(_) if !call.token.has(ApiScope::UsersRead) => {
            return Err(ApiProblem::insufficient_scope(ApiScope::UsersRead));
        }
        Some(text) => Some(find(call, text).await?.ok_or_else(|| invalid(format!("no user is named {text:?}")))?),
        None => None,
    };
    let level = body.some_text("level").and_then(AssuranceLevel::parse);
    let asker = match &user {
        // A disabled user has no session.
        Some(user) if user.is_enabled() => Asker::User(Box::new(user.clone()), level),
        _ => Asker::Anonymous,
    };
    let url = body.some_text("url").unwrap_or_default();
    let explanation = explain(&call.sealgate.config, method, url, &asker, address, call.ctx.now);
    let explanation = explanation.map_err(|fault| invalid(fault.to_owned()))?;
    let advice = match (explanation.reason, &user) {
        ("unauthenticated", Some(user)) if !user.is_enabled() => Some("enable the user"),
        (reason, _) => explained::advice(reason),
    };
    Ok(Reply::json(StatusCode::OK, &explained::members(&explanation, user.as_ref(), advice)))
}

async fn find(call: &Call<'_>, text: &str) -> Result<Option<User>, ApiProblem> {
    let store = &call.sealgate.store;
    Ok(match UserRef::parse(text) {
        Some(UserRef::Sub(sub)) => store.user(sub).await?,
        Some(UserRef::Email(email)) => store.user_by_email(&email).await?,
        Some(UserRef::Username(username)) => store.user_by_username(&username).await?,
        None => None,
    })
}
