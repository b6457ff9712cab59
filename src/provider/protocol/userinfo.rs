//! `GET` and `POST /oauth/userinfo` (OpenID Connect Core §5.3; RFC 6750).
//!
//! The token is accepted only in the `Authorization` header.

use http::StatusCode;

use crate::request::ProviderRequest as _;
use sealgate_core::tokens::bearer::{Bearer, BearerFault};
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::Bucket;
use sealgate_core::web::response::Response;
use sealgate_domain::error::{ErrorCode, Refusal};
use sealgate_domain::limiter::LimitKey;
use sealgate_domain::oauth::claims::{UserClaims, UserInfo};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::scope::ScopeValue;
use sealgate_domain::secret::SecretHash;
use sealgate_system::read_mostly::LocalRef;

const INVALID: Refusal = Refusal::new(ErrorCode::InvalidToken, "The access token is invalid, expired or revoked.");
const TWICE: Refusal = Refusal::invalid_request("The access token must be sent in the Authorization header only.");

pub(crate) async fn userinfo_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let store = &ctx.sealgate.store;
    let basis = store.basis()?;
    // Invalid tokens are counted by address and only delay other invalid tokens. A valid token from
    // the same address may belong to another user.
    let (token, bearer) = match presented(ctx).await {
        Ok(verified) => verified,
        Err(failure @ Failure::Bearer(_)) => {
            ctx.charge_address(Bucket::UserInfo).await?;
            return Err(failure);
        }
        Err(failure) => return Err(failure),
    };
    let hash = SecretHash::for_secret(token.as_bytes());
    ctx.charge(Bucket::UserInfo, &LimitKey::text(Bucket::UserInfo.name(), hash.as_bytes())).await?;
    let user = bearer.user().ok_or(Failure::Bearer(Some(INVALID)))?;
    let unmet = ctx.level_above(&bearer.claims.acr, user).await?;
    // Counting the request may have waited for the cluster's database, so the verified data may be
    // outdated.
    store.ensure_current(&basis)?;
    if !bearer.scope.contains(ScopeValue::OpenId) {
        let refusal = Refusal::new(ErrorCode::InsufficientScope, "The access token lacks the scope openid.");
        return Err(Failure::Bearer(Some(refusal)));
    }
    if let Some(level) = unmet {
        return Err(Failure::WeakBearer(level));
    }
    let claims = UserClaims::for_user(user, bearer.scope, &bearer.visible_groups);
    Ok(Response::json(StatusCode::OK, &UserInfo { sub: user.sub.to_string(), claims }))
}

/// Returns the presented token and its verified content.
async fn presented<'c>(ctx: &'c RequestContext<'_>) -> Result<(&'c str, LocalRef<Bearer>), Failure> {
    let token = ctx.bearer()?;
    // RFC 6750 §2: a request must send the token in one place only. A token in the query would also
    // appear in logs and histories.
    let elsewhere = |params: Result<Params, Refusal>| params.is_ok_and(|params| params.has("access_token"));
    if elsewhere(ctx.query()) || elsewhere(ctx.form()) {
        return Err(Failure::Bearer(Some(TWICE)));
    }
    match ctx.sealgate.bearer(token, ctx.now).await {
        Ok(bearer) if bearer.claims.aud.contains(ctx.sealgate.config.issuer.as_str()) => {
            // It is unknown whether the user still has access.
            if bearer.user().is_some_and(|user| ctx.sealgate.sources.is_stale(user, ctx.now)) {
                return Err(Failure::Unavailable);
            }
            if bearer.user().is_some_and(|user| ctx.sealgate.sources.needs_sign_in(user, ctx.now)) {
                return Err(Failure::Bearer(Some(INVALID)));
            }
            Ok((token, bearer))
        }
        Ok(_) | Err(BearerFault::Invalid) => Err(Failure::Bearer(Some(INVALID))),
        Err(BearerFault::Store(error)) => Err(error.into()),
    }
}
