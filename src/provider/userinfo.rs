//! `GET` and `POST /oauth/userinfo` (specification §4; OpenID Connect Core §5.3; RFC 6750). The token comes in the
//! Authorization header only.

use std::sync::Arc;

use http::StatusCode;

use crate::domain::error::{ErrorCode, Refusal};
use crate::domain::scope::ScopeValue;
use crate::domain::secret::SecretHash;
use crate::limiter::LimitKey;
use crate::oauth::claims::{UserClaims, UserInfo};
use crate::oauth::params::Params;
use crate::tokens::bearer::{Bearer, BearerFault};
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::limits::Bucket;
use crate::web::response::Response;

const INVALID: Refusal = Refusal::new(ErrorCode::InvalidToken, "The access token is invalid, expired or revoked.");
const TWICE: Refusal =
    Refusal::invalid_request("The access token is sent in the Authorization header and nowhere else.");

pub(super) async fn answer(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let store = &ctx.sealgate.store;
    let basis = store.basis()?;
    // Tokens that do not stand are counted by address, and stand in the way of such tokens only: a good one behind the
    // same address is somebody else's.
    let (token, bearer) = match presented(ctx).await {
        Ok(found) => found,
        Err(failure @ Failure::Bearer(_)) => {
            ctx.charge_address(Bucket::UserInfo).await?;
            return Err(failure);
        }
        Err(failure) => return Err(failure),
    };
    let hash = SecretHash::of(token.as_bytes());
    ctx.charge(Bucket::UserInfo, &LimitKey::text(Bucket::UserInfo.name(), hash.as_bytes())).await?;
    // Where nodes count together, that has waited for the database.
    store.acts_on(&basis)?;
    if !bearer.scope.contains(ScopeValue::OpenId) {
        let refusal = Refusal::new(ErrorCode::InsufficientScope, "The access token lacks the scope openid.");
        return Err(Failure::Bearer(Some(refusal)));
    }
    let claims = UserClaims::of(&bearer.user, bearer.scope);
    Ok(Response::json(StatusCode::OK, &UserInfo { sub: bearer.user.sub.to_string(), claims }))
}

/// The token that was sent, and what it stands for.
async fn presented<'c>(ctx: &'c RequestContext<'_>) -> Result<(&'c str, Arc<Bearer>), Failure> {
    let token = ctx.bearer()?;
    // RFC 6750 §2: one method, one token. Who sends it in the query as well has it in logs and histories already.
    let elsewhere = |params: Result<Params, Refusal>| params.is_ok_and(|params| params.has("access_token"));
    if elsewhere(ctx.query()) || elsewhere(ctx.form()) {
        return Err(Failure::Bearer(Some(TWICE)));
    }
    match ctx.sealgate.bearer(token, ctx.now).await {
        Ok(bearer) if bearer.claims.aud.contains(ctx.sealgate.config.issuer.as_str()) => Ok((token, bearer)),
        Ok(_) | Err(BearerFault::Invalid) => Err(Failure::Bearer(Some(INVALID))),
        Err(BearerFault::Store(error)) => Err(error.into()),
    }
}
