//! `POST /oauth/introspect` (RFC 7662), for confidential clients to which an operator gave access.
//!
//! The endpoint exists only while there is such a client. A token that is not valid, or that the
//! client may not see, is answered with `{"active": false}`, so the response does not reveal which
//! of the two it is. `token_type_hint` is ignored, because the token itself shows its type.

use http::StatusCode;

use crate::protocol::client_auth;
use sealgate_core::tokens::bearer::BearerFault;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Bucket;
use sealgate_core::web::response::Response;
use sealgate_domain::client::{Client, ClientFeature};
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::grant::{PresentedToken, RefreshToken};
use sealgate_domain::oauth::introspection::{IntrospectionResponse, may_see};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::scope::ScopeValue;
use sealgate_domain::user::User;

const BUCKET: Bucket = Bucket::Introspect;

pub(crate) async fn introspection_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    if !ctx.sealgate.has_client_with(ClientFeature::Introspection).await {
        ctx.charge_address(Bucket::Pages).await?;
        let refusal = Refusal::new(ErrorCode::NotFound, "There is no such endpoint.");
        return Err(Failure::json(StatusCode::NOT_FOUND, refusal));
    }
    let form = match ctx.form() {
        Ok(form) => form,
        Err(refusal) => {
            ctx.charge_address(BUCKET).await?;
            return Err(refusal.into());
        }
    };
    let basis = ctx.sealgate.store.basis()?;
    let caller = client_auth::authenticate(ctx, &form, BUCKET).await?;
    let outcome = introspect(ctx, &caller.client, &form).await;
    let response = caller.charge(ctx, outcome).await?;
    // Counting the request may have waited for the cluster's database, so the verified data may be
    // outdated.
    ctx.sealgate.store.ensure_current(&basis)?;
    Ok(response)
}

async fn introspect(ctx: &RequestContext<'_>, client: &Client, form: &Params) -> Result<Response, Failure> {
    if client.is_public() || client.introspection.is_none() {
        let refusal = Refusal::new(ErrorCode::UnauthorizedClient, "The client may not introspect tokens.");
        return Err(Failure::json(StatusCode::FORBIDDEN, refusal));
    }
    let token = form.required("token", Refusal::invalid_request("The parameter token is missing."))?;
    form.one("token_type_hint")?;
    let response = match RefreshToken::parse(token) {
        Some(token) => refresh_token(ctx, client, &token).await?,
        None => access_token(ctx, client, token).await?,
    };
    Ok(Response::json(StatusCode::OK, &response.unwrap_or_else(IntrospectionResponse::inactive)))
}

/// Returns the response about a refresh token of the client that it could use now. Changes nothing,
/// even if the token was used before.
async fn refresh_token(
    ctx: &RequestContext<'_>,
    client: &Client,
    token: &RefreshToken,
) -> Result<Option<IntrospectionResponse>, Failure> {
    let Some(grant) = ctx.sealgate.store.grant(token.grant()).await? else { return Ok(None) };
    let grant = grant.value;
    let window = client.refresh_retry(ctx.sealgate.config.tokens.refresh_retry);
    let is_usable =
        matches!(grant.judge(token, &client.id, window, ctx.now), PresentedToken::Current | PresentedToken::Again(_));
    let Some(exp) = grant.refresh.as_ref().map(|refresh| refresh.expires_at).filter(|_| is_usable) else {
        return Ok(None);
    };
    let Some(user) = ctx.sealgate.active_user(grant.subject).await? else { return Ok(None) };
    if !client.accepts_acr(&grant.acr) || !meets_level(ctx, &user, &grant.acr).await? {
        return Ok(None);
    }
    let issuer = ctx.sealgate.config.issuer.as_str();
    Ok(Some(IntrospectionResponse::of_refresh_token(&grant, issuer, exp)))
}

/// Returns the response about a valid access token that the client may see.
async fn access_token(
    ctx: &RequestContext<'_>,
    client: &Client,
    token: &str,
) -> Result<Option<IntrospectionResponse>, Failure> {
    let sealgate = ctx.sealgate;
    let bearer = match sealgate.bearer(token, ctx.now).await {
        Ok(bearer) => bearer,
        Err(BearerFault::Invalid) => return Ok(None),
        Err(BearerFault::Store(error)) => return Err(error.into()),
    };
    if !may_see(client, &bearer.claims, &bearer.client, bearer.vouched_for, &*sealgate.config) {
        return Ok(None);
    }
    let mut username = None;
    if let Some(user) = bearer.user() {
        // It is unknown whether the user still has access.
        if sealgate.sources.is_stale(user, ctx.now) {
            return Err(Failure::Unavailable);
        }
        if sealgate.sources.needs_sign_in(user, ctx.now) || !meets_level(ctx, user, &bearer.claims.acr).await? {
            return Ok(None);
        }
        let is_granted = bearer.scope.contains(ScopeValue::Profile);
        username = user.username.as_ref().map(ToString::to_string).filter(|_| is_granted);
    }
    Ok(Some(IntrospectionResponse::of_access_token(&bearer.claims, username)))
}

/// Returns whether a sign-in reaches the level that `[factors]` requires of the user.
async fn meets_level(ctx: &RequestContext<'_>, user: &User, acr: &str) -> Result<bool, Failure> {
    Ok(ctx.level_above(acr, user).await?.is_none())
}
