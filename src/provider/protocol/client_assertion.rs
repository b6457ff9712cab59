//! Verification of client assertions (RFC 7523 §3): signed by the client, or by a trusted issuer for a
//! workload.

use std::sync::Arc;

use crate::protocol::client_auth::ProofFault;
use sealgate_core::web::context::RequestContext;
use sealgate_domain::assertion_source::{AssertionSource, algorithms};
use sealgate_domain::client::Client;
use sealgate_domain::oauth::client_assertion::{AssertionFault, AssertionId, ClientAssertion, MAX_ASSERTION_LENGTH};

/// Verifies an assertion of a client.
///
/// Returns the id of an assertion that may be used once. Tokens of workloads may be used several times.
///
/// # Errors
/// [`AssertionFault`], or the store's error.
pub(super) async fn verify(
    ctx: &RequestContext<'_>,
    client: &Client,
    assertion: &str,
) -> Result<Option<AssertionId>, ProofFault> {
    let source = client.assertion_source.as_ref().filter(|_| client.uses_assertions());
    let source = source.ok_or(AssertionFault::Method)?;
    let own = ctx.sealgate.config.issuer.as_str();
    if let AssertionSource::Workload(workload) = source {
        ctx.sealgate.trust.verify_workload(workload, assertion, own, ctx.now).await?;
        return Ok(None);
    }
    let parsed = ClientAssertion::parse(assertion, MAX_ASSERTION_LENGTH, &algorithms())?;
    let id = parsed.judge(&client.id, own, ctx.now)?;
    let keys = match source {
        AssertionSource::Jwks(jwks) => Arc::new(jwks.verifying_keys(parsed.jws().kid())),
        AssertionSource::JwksUri(uri) if client.is_operators_own() => {
            let keys = ctx.sealgate.client_key_sets.keys(&client.id, uri, parsed.jws(), ctx.now).await;
            keys.ok_or(AssertionFault::NoKeys)?
        }
        AssertionSource::JwksUri(_) | AssertionSource::Workload(_) => return Err(AssertionFault::Method.into()),
    };
    let key = keys.find(parsed.jws()).ok_or(AssertionFault::UnknownKey)?;
    if !key.verifies(parsed.jws()) {
        return Err(AssertionFault::Signature.into());
    }
    // Later, the id is stored. This check keeps a repeated assertion out of the client's rate limit.
    if ctx.sealgate.store.is_assertion_used(&client.id, &id).await? {
        return Err(AssertionFault::Replayed.into());
    }
    Ok(Some(id))
}
