//! Functions shared by the WebAuthn ceremonies.

use sealgate_core::web::context::RequestContext;
use sealgate_domain::webauthn::{CeremonyChallenge, RelyingParty};

/// Returns the relying party, or `None` if browsers allow no WebAuthn at the issuer's URL.
pub(super) fn relying_party(ctx: &RequestContext<'_>) -> Option<RelyingParty> {
    RelyingParty::of_issuer(ctx.sealgate.config.issuer.url())
}

/// Returns a new random challenge.
pub(super) fn fresh(ctx: &RequestContext<'_>) -> CeremonyChallenge {
    CeremonyChallenge::from_random(ctx.random())
}
