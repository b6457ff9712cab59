//! `GET` and `POST /oauth/userinfo` (specification §4; OpenID Connect Core §5.3; RFC 6750). The token comes in the
//! Authorization header only: a form or a query is not looked at.

use http::StatusCode;

use crate::bearer::{self, BearerFault};
use crate::endpoint::call::{Bucket, Call};
use crate::endpoint::failure::Failure;
use crate::endpoint::response::Response;
use crate::limiter::Key;
use crate::protocol::claims::{UserClaims, UserInfo};
use crate::protocol::credentials;
use crate::protocol::error::{ErrorCode, Refusal};
use crate::protocol::scope::ScopeValue;
use crate::protocol::secret::SecretHash;

const INVALID: Refusal = Refusal::new(ErrorCode::InvalidToken, "The access token is invalid, expired or revoked.");

pub(super) async fn answer(call: &Call<'_>) -> Result<Response, Failure> {
    // Tokens that do not stand are counted by address, and stand in the way of such tokens only: a good one behind the
    // same address is somebody else's.
    let headers = call.authorization();
    let token = match headers.as_slice() {
        [] => {
            call.charge_address(Bucket::UserInfo)?;
            return Err(Failure::Bearer(None));
        }
        [only] => credentials::bearer(only),
        _ => None,
    };
    let found = match token {
        Some(token) => bearer::verify(call.sealgate, token, call.now).await,
        None => Err(BearerFault::Invalid),
    };
    let bearer = match found {
        Ok(bearer) if bearer.claims.aud.contains(call.sealgate.config.issuer.as_str()) => bearer,
        Ok(_) | Err(BearerFault::Invalid) => {
            call.charge_address(Bucket::UserInfo)?;
            return Err(Failure::Bearer(Some(INVALID)));
        }
        Err(BearerFault::Store(error)) => return Err(error.into()),
    };
    let hash = SecretHash::of(token.unwrap_or_default().as_bytes());
    call.charge(Bucket::UserInfo, &Key::text(Bucket::UserInfo.name(), hash.as_bytes()))?;
    if !bearer.scope.contains(ScopeValue::OpenId) {
        let refusal = Refusal::new(ErrorCode::InsufficientScope, "The access token lacks the scope openid.");
        return Err(Failure::Bearer(Some(refusal)));
    }
    let claims = UserClaims::of(&bearer.user, bearer.scope);
    Ok(Response::json(StatusCode::OK, &UserInfo { sub: bearer.user.sub.to_string(), claims }))
}
