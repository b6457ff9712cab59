//! `POST /oauth/revoke` (specification §6; RFC 7009). The answer is 200 whether or not there was anything to revoke, and
//! the hint is ignored: the token itself shows what it is. Another client's token is left alone.

use std::time::Duration;

use http::StatusCode;

use crate::domain::audit::{Actor, AuditEvent, AuditKind};
use crate::domain::error::Refusal;
use crate::domain::grant::{EndReason, GrantId, PresentedToken, RefreshToken};
use crate::domain::user::Subject;
use crate::oauth::params::Params;
use crate::provider::call::{Bucket, Call};
use crate::provider::client_auth::{self, Caller};
use crate::provider::failure::Failure;
use crate::provider::response::Response;

pub(super) async fn answer(call: &Call<'_>) -> Result<Response, Failure> {
    let form = match call.form() {
        Ok(form) => form,
        Err(failure) => {
            call.charge_address(Bucket::Revoke)?;
            return Err(failure);
        }
    };
    let caller = client_auth::authenticate(call, &form, Bucket::Revoke).await?;
    let outcome = revoke(call, &caller, &form).await;
    caller.settle(call, outcome)
}

async fn revoke(call: &Call<'_>, caller: &Caller, form: &Params) -> Result<Response, Failure> {
    let token = form.required("token", Refusal::invalid_request("The parameter token is missing."))?;
    form.one("token_type_hint")?;
    match RefreshToken::parse(token) {
        Some(token) => refresh_token(call, caller, &token).await?,
        None => access_token(call, caller, token).await?,
    }
    // RFC 7009 §2.2 leaves the body open; many clients read one, and take nothing but JSON.
    Ok(Response::json(StatusCode::OK, &serde_json::Map::new()))
}

/// Ends the grant: the access tokens of it go too (RFC 7009 §2.1).
async fn refresh_token(call: &Call<'_>, caller: &Caller, token: &RefreshToken) -> Result<(), Failure> {
    let client = &caller.client;
    let Some(grant) = call.sealgate.store.grant(token.grant()).await? else { return Ok(()) };
    match grant.value.judge(token, &client.id, Duration::ZERO, call.now) {
        // A rotated token of its own family: the client wants to be rid of it, and so it is of all that came of it.
        PresentedToken::Current | PresentedToken::Again(_) | PresentedToken::Expired | PresentedToken::Replayed => {
            caller.prove(call)?;
            if call.sealgate.store.end_grant(grant.value.id, EndReason::Revoked, call.now).await? {
                let event = call.event(AuditKind::TokenRevoked, Actor::Client).of(grant.value.subject);
                let event = event.with_client(&client.id).with_grant(grant.value.id);
                call.sealgate.audit.note(event.with_detail("refresh token"));
            }
        }
        PresentedToken::Ended | PresentedToken::Unknown => {}
    }
    Ok(())
}

/// Revokes one access token; the refresh token of its grant goes on working.
async fn access_token(call: &Call<'_>, caller: &Caller, token: &str) -> Result<(), Failure> {
    let client = &caller.client;
    let Some(claims) = call.sealgate.issuer.access_token(token, call.now) else { return Ok(()) };
    if claims.client_id == client.id.as_str() {
        caller.prove(call)?;
        call.sealgate.store.revoke_token(&claims.jti, claims.exp).await?;
        let event = call.event(AuditKind::TokenRevoked, Actor::Client).with_client(&client.id);
        let event = Subject::parse(&claims.sub).into_iter().fold(event, AuditEvent::of);
        let event = GrantId::parse(&claims.grant_id).into_iter().fold(event, AuditEvent::with_grant);
        call.sealgate.audit.note(event.with_detail("access token"));
    }
    Ok(())
}
