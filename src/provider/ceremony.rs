//! What the ceremonies of keys have in common.

use crate::web::context::RequestContext;
use crate::webauthn::{CeremonyChallenge, RelyingParty};

/// Whose keys they are here; `None` where browsers have none.
pub(super) fn relying_party(ctx: &RequestContext<'_>) -> Option<RelyingParty> {
    RelyingParty::of_issuer(ctx.sealgate.config.issuer.url())
}

/// A challenge that nobody has seen.
pub(super) fn fresh(ctx: &RequestContext<'_>) -> CeremonyChallenge {
    CeremonyChallenge::from_random(ctx.random())
}
