//! `GET /oauth/jwks`: the public signing keys, as read from the PKCS #11 token (RFC 7517 §5).

use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::response::Response;

pub(super) async fn jwks_endpoint(ctx: &RequestContext<'_>) -> Result<Response, Failure> {
    let sealgate = ctx.sealgate;
    if !sealgate.can_show_keys().await {
        return Err(Failure::Unavailable);
    }
    // A new key is published for longer than this before it signs.
    let seconds = u32::try_from(sealgate.config.keys.cache.as_secs()).unwrap_or(u32::MAX);
    Ok(Response::public_json(&sealgate.issuer.signer().key_set().jwk_set(), seconds))
}
