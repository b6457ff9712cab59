//! Verification of tokens of other issuers, and their refusal.

use http::header::RETRY_AFTER;

use crate::outcome::GateReply;
use crate::policy::Credential;
use crate::refusal::refuse_token;
use crate::request::AppRequest;
use sealgate_core::tokens::trusted::Source;
use sealgate_core::web::failure::Failure;
use sealgate_domain::oauth::trusted_token::ForeignFault;

/// Verifies a token of an issuer that the application trusts. Refusals are logged with their
/// reason.
pub(super) async fn credential(ctx: &AppRequest<'_>, source: &Source, token: &str) -> Result<Credential, GateReply> {
    let sealgate = ctx.sealgate;
    let fault = match sealgate.trust.verify(source, token, ctx.now, &sealgate.metrics).await {
        Ok(foreign) => return Ok(Credential::Foreign(foreign)),
        Err(fault) => fault,
    };
    let settings = source.settings();
    tracing::info!(
        request_id = ctx.origin.request_id,
        app = ctx.app.name,
        issuer = settings.terms.name,
        reason = fault.as_str(),
        claim = fault.claim(),
        "rejected a token of another issuer"
    );
    match fault {
        // A 401 would make a client discard a token that may be valid.
        ForeignFault::NoKeys => {
            let wait = settings.throttle.as_secs().to_string();
            Err(GateReply::new("no_keys", Failure::Unavailable.into_response(ctx).with(RETRY_AFTER, &wait)))
        }
        _ => Err(refuse_token(ctx)),
    }
}
