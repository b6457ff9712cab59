//! `GET /oauth/jwks`: the public keys, as the token states them (RFC 7517 §5).

use crate::endpoint::call::Call;
use crate::endpoint::failure::Failure;
use crate::endpoint::response::Response;

/// How long clients may keep the keys. A new key is published at least this long before it signs.
const SECONDS: u32 = 86_400;

#[expect(clippy::unnecessary_wraps, reason = "every endpoint has this shape")]
pub(super) fn answer(call: &Call<'_>) -> Result<Response, Failure> {
    Ok(Response::public_json(&call.sealgate.issuer.signer().key_set().jwk_set(), SECONDS))
}
