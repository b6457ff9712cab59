//! Client authentication at the token and revocation endpoints (RFC 6749 §2.3), and the allowance that goes with it.
//!
//! A client's allowance is counted under its id, but only once it has proven to be that client: otherwise anybody who
//! knows an id could use the allowance up. Attempts that fail are counted under the id and the sender's address, and
//! stand in the way of further failures only: a stranger behind the client's own address cannot lock it out. Guessing
//! gains nothing by that, since a secret has 256 random bits.
//!
//! A public client has no secret. It has proven what it can once it shows a code with its verifier, or a token, that is
//! its own ([`Caller::prove`]); a request in its name that shows neither is anybody's, and counted like an attempt that
//! fails ([`Caller::settle`]). An id that no client has is counted under the address alone: ids can be made up without end.

use crate::domain::client::Client;
use crate::domain::rate_limit::RateLimit;
use crate::domain::secret::Secret;
use crate::limiter::LimitKey;
use crate::oauth::credentials::{ClientCredentials, FAILED};
use crate::oauth::params::Params;
use crate::web::context::RequestContext;
use crate::web::failure::Failure;
use crate::web::limits::{Bucket, Exceeded};
use crate::web::response::Response;

/// Who sent a request, as far as it is known.
pub(super) struct Caller {
    /// The client: itself if it is confidential, else whoever names it.
    pub(super) client: Client,
    bucket: Bucket,
}

impl Caller {
    /// What was sent shows that the request is a public client's own: it is charged to the client.
    ///
    /// # Errors
    /// 429 when the client's allowance is used up.
    pub(super) async fn prove(&self, ctx: &RequestContext<'_>) -> Result<(), Exceeded> {
        if ctx.is_charged() {
            return Ok(());
        }
        let own = LimitKey::text(self.bucket.name(), self.client.id.as_str().as_bytes());
        ctx.charge_within(limit_of(&self.client, self.bucket, ctx), self.bucket, &own).await
    }

    /// The outcome of a request; one that has proven nothing is charged to the client and the address together.
    ///
    /// # Errors
    /// Those of the outcome, and 429 when the allowance of such requests is used up.
    pub(super) async fn settle(
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

/// The client that a request comes from.
///
/// # Errors
/// `invalid_client`, `invalid_request`, 429, 503.
pub(super) async fn authenticate(ctx: &RequestContext<'_>, form: &Params, bucket: Bucket) -> Result<Caller, Failure> {
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
    // The secret is hashed and compared whether or not there is a client, so that the time tells nothing.
    let accepted = accepts(client.as_ref(), credentials.secret.as_ref(), ctx);
    let Some(client) = client else {
        ctx.charge_address(bucket).await?;
        ctx.charge_site(bucket).await?;
        return Err(Failure::Client(FAILED));
    };
    if !accepted {
        ctx.charge(bucket, &LimitKey::text_and_address(failures_of(bucket), id, ctx.origin.address)).await?;
        return Err(Failure::Client(FAILED));
    }
    let own = LimitKey::text(bucket.name(), id);
    if client.is_public() {
        // Whatever it shows, there is nothing left of its allowance.
        ctx.require_within(limit_of(&client, bucket, ctx), bucket, &own)?;
    } else {
        ctx.charge_within(limit_of(&client, bucket, ctx), bucket, &own).await?;
    }
    Ok(Caller { client, bucket })
}

fn accepts(client: Option<&Client>, secret: Option<&Secret>, ctx: &RequestContext<'_>) -> bool {
    let presented = secret.map(Secret::hash);
    let Some(client) = client.filter(|client| client.is_enabled()) else { return false };
    if client.is_public() {
        // A public client has no secret; one that sends some is not the client that was registered.
        return presented.is_none();
    }
    secret.is_some_and(|secret| client.knows(secret, ctx.now))
}

/// How often this client may come: at the token endpoint it may have a limit of its own. Requests that prove nothing are
/// counted by everybody's.
fn limit_of(client: &Client, bucket: Bucket, ctx: &RequestContext<'_>) -> RateLimit {
    let own = client.token_limit.filter(|_| bucket == Bucket::Token);
    own.unwrap_or_else(|| ctx.limit(bucket))
}

fn failures_of(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Revoke => "revoke_failures",
        _ => "token_failures",
    }
}
