//! `POST /oauth/revoke` (RFC 7009).
//!
//! The response is 200 whether or not there was a token to revoke. `token_type_hint` is ignored,
//! because the token itself shows its type. Tokens of another client are not revoked.

use std::time::Duration;

use http::StatusCode;

use crate::protocol::client_auth;
use crate::protocol::client_auth::Caller;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Bucket;
use sealgate_core::web::response::Response;
use sealgate_domain::audit::{Actor, AuditEvent, AuditKind};
use sealgate_domain::error::Refusal;
use sealgate_domain::grant::{EndReason, GrantId, PresentedToken, RefreshToken};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::user::Subject;

pub(crate) async fn revocation_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let form = match ctx.form() {
        Ok(form) => form,
        Err(refusal) => {
            ctx.charge_address(Bucket::Revoke).await?;
            return Err(refusal.into());
        }
    };
    let caller = client_auth::authenticate(ctx, &form, Bucket::Revoke).await?;
    let outcome = revoke(ctx, &caller, &form).await;
    caller.charge(ctx, outcome).await
}

async fn revoke(ctx: &RequestContext<'_>, caller: &Caller, form: &Params) -> Result<Response, Failure> {
    let token = form.required("token", Refusal::invalid_request("The parameter token is missing."))?;
    form.one("token_type_hint")?;
    match RefreshToken::parse(token) {
        Some(token) => refresh_token(ctx, caller, &token).await?,
        None => access_token(ctx, caller, token).await?,
    }
    // RFC 7009 §2.2 does not define the body; many clients read it and accept only JSON.
    Ok(Response::json(StatusCode::OK, &serde_json::Map::new()))
}

/// Ends the grant of the refresh token, and so invalidates the grant's access tokens (RFC 7009
/// §2.1).
async fn refresh_token(ctx: &RequestContext<'_>, caller: &Caller, token: &RefreshToken) -> Result<(), Failure> {
    let client = &caller.client;
    let Some(grant) = ctx.sealgate.store.grant(token.grant()).await? else { return Ok(()) };
    match grant.value.judge(token, &client.id, Duration::ZERO, ctx.now) {
        // An older token of the family also revokes the newer tokens.
        PresentedToken::Current
        | PresentedToken::Again(_)
        | PresentedToken::Parent(..)
        | PresentedToken::Expired
        | PresentedToken::Replayed => {
            caller.prove(ctx).await?;
            if ctx.sealgate.store.end_grant(grant.value.id, EndReason::Revoked, ctx.now).await? {
                let event = ctx.event(AuditKind::TokenRevoked, Actor::Client).for_subject(grant.value.subject);
                let event = event.with_client(&client.id).with_grant(grant.value.id);
                ctx.sealgate.audit.note(event.with_detail("refresh token"));
            }
        }
        PresentedToken::Ended | PresentedToken::Unknown => {}
    }
    Ok(())
}

/// Revokes one access token. The refresh token of its grant remains valid.
async fn access_token(ctx: &RequestContext<'_>, caller: &Caller, token: &str) -> Result<(), Failure> {
    let client = &caller.client;
    let Some(claims) = ctx.sealgate.issuer.access_token(token, ctx.now) else {
        // While this node lacks an active signing key, it cannot tell whether the token is invalid:
        // answer 503.
        ctx.sealgate.store.basis()?;
        return Ok(());
    };
    if claims.client_id == client.id.as_str() {
        caller.prove(ctx).await?;
        ctx.sealgate.store.revoke_token(&claims.jti, claims.exp).await?;
        let event = ctx.event(AuditKind::TokenRevoked, Actor::Client).with_client(&client.id);
        let event = Subject::parse(&claims.sub).into_iter().fold(event, AuditEvent::for_subject);
        let event = GrantId::parse(&claims.grant_id).into_iter().fold(event, AuditEvent::with_grant);
        ctx.sealgate.audit.note(event.with_detail("access token"));
    }
    Ok(())
}
