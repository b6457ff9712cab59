//! How people, clients and sessions are shown. Names are those of the wire; no hash of a password, secret or cookie is
//! ever among them.

use serde_json::{Map, Value, json};

use super::answer::Answer;
use crate::domain::app_password::AppPassword;
use crate::domain::client::Client;
use crate::domain::consent::Consent;
use crate::domain::grant::Grant;
use crate::domain::session::Session;
use crate::domain::user::User;
use crate::store::AuditRecord;

pub(super) fn status(open_interactions: usize) -> Answer {
    object(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "store": "ok",
        "open_interactions": open_interactions,
    }))
}

pub(super) fn user(user: &User) -> Answer {
    let mut shown = object(json!({
        "sub": user.sub,
        "email": user.email,
        "email_verified": user.email_verified,
        "name": user.name,
        "roles": user.roles,
        "groups": user.groups,
        "state": user.state,
        "created_at": user.created_at,
        "updated_at": user.updated_at,
    }));
    if let Some(username) = &user.username {
        shown = shown.with("username", username.as_str());
    }
    for (name, value) in [("phone_number", &user.phone_number), ("picture", &user.picture)] {
        if let Some(value) = value {
            shown = shown.with(name, value.as_str());
        }
    }
    shown
}

pub(super) fn client(client: &Client) -> Answer {
    let secrets: Vec<Value> = client
        .secrets
        .iter()
        .map(|secret| json!({ "created_at": secret.created_at, "expires_at": secret.expires_at }))
        .collect();
    let mut shown = object(json!({
        "client_id": client.id,
        "client_name": client.name,
        "client_type": client.client_type,
        "token_endpoint_auth_method": client.auth_method,
        "redirect_uris": client.redirect_uris,
        "post_logout_redirect_uris": client.post_logout_redirect_uris,
        "scope": client.scope,
        "grant_types": client.grant_types,
        "consent": client.consent,
        "state": client.state,
        "created_at": client.created_at,
        "refresh_retry_seconds": client.refresh_retry_seconds,
        "token_limit": client.token_limit,
        "self_registered": client.registration.is_some(),
        "vouched_for": client.is_vouched_for(),
        "client_secrets": secrets,
    }));
    let decisions = [("approval", client.approval), ("disabled", client.disabled)];
    for (name, decision) in decisions {
        if let Some(decision) = decision {
            shown = shown.with(name, json!(decision));
        }
    }
    if let Some(owner) = client.owner {
        shown = shown.with("owner", owner.to_string());
    }
    let details = &client.details;
    let texts = [
        ("description", &details.description),
        ("client_uri", &details.client_uri),
        ("initiate_login_uri", &details.initiate_login_uri),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            shown = shown.with(name, value.as_str());
        }
    }
    match details.default_max_age {
        Some(seconds) => shown.with("default_max_age", seconds),
        None => shown,
    }
}

pub(super) fn session(session: &Session) -> Answer {
    let sign_ins: Vec<Value> = session
        .sign_ins
        .iter()
        .map(|sign_in| json!({ "sub": sign_in.subject, "auth_time": sign_in.at, "amr": sign_in.amr() }))
        .collect();
    object(json!({
        "sid": session.id,
        "sign_ins": sign_ins,
        "address": session.address,
        "user_agent": session.user_agent,
        "created_at": session.created_at,
        "last_seen_at": session.last_seen_at,
        "expires_at": session.expires_at,
    }))
}

pub(super) fn grant(grant: &Grant) -> Answer {
    object(json!({
        "grant": grant.id,
        "sub": grant.subject,
        "client_id": grant.client,
        "sid": grant.session,
        "scope": grant.scope,
        "auth_time": grant.auth_time,
        "created_at": grant.created_at,
        "expires_at": grant.expires_at,
        "refreshed": grant.refresh.as_ref().map(|refresh| refresh.generation),
    }))
}

pub(super) fn consent(consent: &Consent) -> Answer {
    object(json!({
        "sub": consent.subject,
        "client_id": consent.client,
        "scope": consent.scope,
        "given_at": consent.at,
    }))
}

pub(super) fn app_password(password: &AppPassword) -> Answer {
    object(json!({
        "id": password.id(),
        "app": password.app,
        "name": password.name,
        "created_at": password.created_at,
        "last_used_at": password.last_used_at,
    }))
}

pub(super) fn audit(record: &AuditRecord) -> Answer {
    let event = &record.event;
    object(json!({
        "id": record.id,
        "happened_at": event.at,
        "kind": event.kind,
        "actor": event.actor.to_string(),
        "sub": event.subject,
        "client_id": event.client,
        "app": event.app,
        "sid": event.session,
        "grant": event.grant,
        "address": event.address,
        "request_id": event.request_id,
        "detail": event.detail,
        "count": event.count,
    }))
}

/// A page of a list; `next` is there when more may follow.
pub(super) fn list(name: &str, rows: Vec<Answer>, next: Option<String>) -> Answer {
    let rows = rows.into_iter().map(|row| Value::Object(row.members().clone())).collect::<Vec<_>>();
    let list = Answer::new(Map::new()).with(name, rows);
    match next {
        Some(next) => list.with("next", next),
        None => list,
    }
}

/// The answer made of this object. Everything above is one; anything else would show as an empty answer.
pub(super) fn object(value: Value) -> Answer {
    match value {
        Value::Object(members) => Answer::new(members),
        _ => Answer::new(Map::new()),
    }
}
