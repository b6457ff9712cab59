//! Client authentication at the token and revocation endpoints (RFC 6749 §2.3), and its rate
//! limits.
//!
//! A request counts towards a client's limit only after it is authenticated. Otherwise an attacker
//! who knows a client id could use up the limit. Failed attempts have a separate count for each
//! client id and sender address, and delay only further failed attempts. An attacker behind the
//! client's own address therefore cannot lock the client out. An attacker still cannot guess a
//! secret, because a secret has 256 random bits.
//!
//! A public client has no secret. A request counts as the client's own only after it has presented
//! the client's token, or the client's code with the PKCE verifier ([`Caller::prove`]). Any other
//! request that names the client is counted like a failed attempt ([`Caller::charge`]). Unknown
//! client ids are counted under the address alone, because an attacker can invent any number of
//! them.

use crate::protocol::client_assertion;
use crate::request::ProviderRequest as _;
use sealgate_core::web::context::RequestContext;
use sealgate_core::web::failure::Failure;
use sealgate_core::web::limits::{Bucket, Exceeded};
use sealgate_core::web::response::Response;
use sealgate_domain::client::Client;
use sealgate_domain::limiter::LimitKey;
use sealgate_domain::oauth::client_assertion::{AssertionFault, AssertionId};
use sealgate_domain::oauth::credentials::{ClientCredentials, ClientProof, FAILED};
use sealgate_domain::oauth::params::Params;
use sealgate_domain::rate_limit::RateLimit;
use sealgate_store::StoreError;

/// Client that sent a request.
pub(crate) struct Caller {
    /// A confidential client is authenticated. A public client is only named by the sender.
    pub(crate) client: Client,
    bucket: Bucket,
}

impl Caller {
    /// Charges the request to the client's limit. Call this method after the request has presented
    /// a code or token of a public client.
    ///
    /// # Errors
    /// 429 when the client's limit is exceeded.
    pub(crate) async fn prove(&self, ctx: &RequestContext<'_>) -> Result<(), Exceeded> {
        if ctx.is_charged() {
            return Ok(());
        }
        let own = LimitKey::text(self.bucket.name(), self.client.id.as_str().as_bytes());
        ctx.charge_within(limit_of(&self.client, self.bucket, ctx), self.bucket, &own).await
    }

    /// Completes a request. If the request was not charged to a limit yet, charges it to the limit
    /// of unproven requests, which has a count for each client and address.
    ///
    /// # Errors
    /// The error in `outcome`, or 429 when the limit of unproven requests is exceeded.
    pub(crate) async fn charge(
        &self,
        ctx: &RequestContext<'_>,
        outcome: Result<Response, Failure>,
    ) -> Result<Response, Failure> {
        if !ctx.is_charged() {
            let id = self.client.id.as_str().as_bytes();
            let failures = LimitKey::text_and_address(failures_of(self.bucket), id, ctx.origin.address);
            ctx.charge(self.bucket, &failures).await?;
        }
        outcome
    }
}

/// Authenticates the client of a request.
///
/// # Errors
/// `invalid_client`, `invalid_request`, 429, 503.
pub(crate) async fn authenticate(ctx: &RequestContext<'_>, form: &Params, bucket: Bucket) -> Result<Caller, Failure> {
    let credentials = match ClientCredentials::parse(&ctx.authorization(), form) {
        Ok(credentials) => credentials,
        Err(refusal) => {
            ctx.charge_address(bucket).await?;
            return Err(Failure::Client(refusal));
        }
    };
    let id = credentials.id.as_ref().map(|id| id.as_str().as_bytes()).unwrap_or_default();
    let client = match &credentials.id {
        Some(id) => ctx.sealgate.registered_client(id).await?,
        None => None,
    };
    // Check the proof even if the client does not exist, so that the response time for a secret does
    // not reveal which clients exist.
    let proof = check(client.as_ref(), &credentials.proof, ctx).await;
    let Some(client) = client else {
        ctx.charge_address(bucket).await?;
        ctx.charge_site(bucket).await?;
        return Err(Failure::Client(FAILED));
    };
    let proven = match proof {
        Ok(proven) => proven,
        Err(fault) => {
            ctx.charge(bucket, &LimitKey::text_and_address(failures_of(bucket), id, ctx.origin.address)).await?;
            return Err(report(ctx, &client, fault));
        }
    };
    let own = LimitKey::text(bucket.name(), id);
    if client.is_public() {
        // Refuse now if the client's limit is exceeded; the request is charged later.
        ctx.require_within(limit_of(&client, bucket, ctx), bucket, &own)?;
    } else {
        ctx.charge_within(limit_of(&client, bucket, ctx), bucket, &own).await?;
    }
    if let Proven::Assertion(once) = proven {
        if let Some(assertion) = once
            && !ctx.sealgate.store.use_assertion(&client.id, &assertion).await?
        {
            return Err(report(ctx, &client, ProofFault::Assertion(AssertionFault::Replayed)));
        }
        ctx.sealgate.metrics.client_assertion("accepted");
    }
    Ok(Caller { client, bucket })
}

/// Valid proof of a client's identity.
enum Proven {
    /// The client has a valid secret, or is public and has none.
    Secret,
    /// The assertion is valid. An assertion with an id may be used once.
    Assertion(Option<AssertionId>),
}

/// Reason why a client is not authenticated.
pub(super) enum ProofFault {
    /// The secret is wrong or missing, the client is disabled, or there is no such client.
    Wrong,
    /// The secret with this id has expired.
    Expired(String),
    Assertion(AssertionFault),
    Store(StoreError),
}

impl From<AssertionFault> for ProofFault {
    fn from(fault: AssertionFault) -> Self {
        Self::Assertion(fault)
    }
}

impl From<StoreError> for ProofFault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

async fn check(client: Option<&Client>, proof: &ClientProof, ctx: &RequestContext<'_>) -> Result<Proven, ProofFault> {
    let presented = match proof {
        ClientProof::Secret(secret) => Some((secret, secret.hash())),
        ClientProof::None | ClientProof::Assertion(_) => None,
    };
    let client = client.filter(|client| client.is_enabled()).ok_or(ProofFault::Wrong)?;
    if let ClientProof::Assertion(assertion) = proof {
        return client_assertion::verify(ctx, client, assertion.expose()).await.map(Proven::Assertion);
    }
    if client.is_public() {
        // A public client has no secret, so a sender that presents one is not this client.
        return if presented.is_none() { Ok(Proven::Secret) } else { Err(ProofFault::Wrong) };
    }
    let (secret, _) = presented.ok_or(ProofFault::Wrong)?;
    if client.has_secret(secret, ctx.now) {
        return Ok(Proven::Secret);
    }
    Err(client.expired_secret(secret, ctx.now).map_or(ProofFault::Wrong, |expired| ProofFault::Expired(expired.id())))
}

/// Reports a failed authentication in the log. Only the holder of a secret that has expired can cause a
/// warning.
///
/// Returns the response, which never contains the reason.
fn report(ctx: &RequestContext<'_>, client: &Client, fault: ProofFault) -> Failure {
    let (client, request_id) = (client.id.as_str(), &*ctx.origin.request_id);
    match fault {
        ProofFault::Wrong => {}
        ProofFault::Expired(secret) => {
            tracing::warn!(request_id, client, secret, "refused an expired client secret; the client needs a new one");
        }
        ProofFault::Assertion(fault) => {
            let reason = fault.as_str();
            ctx.sealgate.metrics.client_assertion(reason);
            tracing::info!(request_id, client, reason, "rejected a client assertion");
            if fault == AssertionFault::NoKeys {
                return Failure::Unavailable;
            }
        }
        ProofFault::Store(error) => return error.into(),
    }
    Failure::Client(FAILED)
}

/// Returns the rate limit of a client's own requests.
///
/// At the token endpoint, a client may have a limit of its own. Unproven requests use the general
/// limit.
fn limit_of(client: &Client, bucket: Bucket, ctx: &RequestContext<'_>) -> RateLimit {
    let own = client.token_limit.filter(|_| bucket == Bucket::Token);
    own.unwrap_or_else(|| ctx.limit(bucket))
}

fn failures_of(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Revoke => "revoke_failures",
        Bucket::Introspect => "introspect_failures",
        _ => "token_failures",
    }
}
