//! Who sent a token of another issuer, and how such a token is refused.

use http::header::RETRY_AFTER;

use crate::gateway::context::RequestContext;
use crate::gateway::policy::Credential;
use crate::gateway::{Halt, refuse_token};
use crate::oauth::trusted_token::ForeignFault;
use crate::tokens::trusted::Source;

/// Who sent a token of an issuer that the application takes; or the refusal, which the log explains.
pub(super) async fn credential(ctx: &RequestContext<'_>, source: &Source, token: &str) -> Result<Credential, Halt> {
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
        "refused a token of another issuer"
    );
    match fault {
        // A 401 would make a client throw away a token that may be good.
        ForeignFault::NoKeys => {
            let wait = settings.throttle.as_secs().to_string();
            Err(("no_keys", ctx.overloaded().with(RETRY_AFTER, &wait)))
        }
        _ => Err(refuse_token(ctx)),
    }
}
