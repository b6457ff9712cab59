//! What the ceremonies of keys have in common.

use url::Url;

use crate::web::context::RequestContext;
use crate::webauthn::{CeremonyChallenge, RelyingParty};

/// Whose keys they are here; `None` where browsers have none.
pub(super) fn relying_party(ctx: &RequestContext<'_>) -> Option<RelyingParty> {
    RelyingParty::of_issuer(&Url::parse(ctx.sealgate.config.issuer.as_str()).ok()?)
}

/// A challenge that nobody has seen.
pub(super) fn fresh(ctx: &RequestContext<'_>) -> CeremonyChallenge {
    CeremonyChallenge::from_random(ctx.random())
}
