//! Client authentication at the token and revocation endpoints (RFC 6749 §2.3), and the allowance that goes with it.
//!
//! A client's allowance is counted under its id, but only once it has proven to be that client: otherwise anybody who
//! knows an id could use the allowance up. Attempts that fail are counted under the id and the sender's address, and
//! stand in the way of further failures only: a stranger behind the client's own address cannot lock it out. Guessing
//! gains nothing by that, since a secret has 256 random bits.

use crate::endpoint::call::{Bucket, Call};
use crate::endpoint::failure::Failure;
use crate::limiter::Key;
use crate::protocol::client::Client;
use crate::protocol::credentials::{ClientCredentials, FAILED};
use crate::protocol::params::Params;
use crate::protocol::secret::Secret;

/// The client that a request comes from.
///
/// # Errors
/// `invalid_client`, `invalid_request`, 429, 503.
pub(super) async fn authenticate(call: &Call<'_>, form: &Params, bucket: Bucket) -> Result<Client, Failure> {
    let credentials = match ClientCredentials::parse(&call.authorization(), form) {
        Ok(credentials) => credentials,
        Err(refusal) => {
            call.charge_address(bucket)?;
            return Err(Failure::Client(refusal));
        }
    };
    let id = credentials.id.as_ref().map(|id| id.as_str().as_bytes()).unwrap_or_default();
    let client = match &credentials.id {
        Some(id) => call.sealgate.store.client(id).await?,
        None => None,
    };
    // The secret is hashed and compared whether or not there is a client, so that the time tells nothing.
    let accepted = accepts(client.as_ref(), credentials.secret.as_ref(), call);
    let Some(client) = client.filter(|_| accepted) else {
        call.charge(bucket, &Key::text_and_address(failures_of(bucket), id, call.origin.address))?;
        return Err(Failure::Client(FAILED));
    };
    call.charge(bucket, &Key::text(bucket.name(), id))?;
    Ok(client)
}

fn accepts(client: Option<&Client>, secret: Option<&Secret>, call: &Call<'_>) -> bool {
    let presented = secret.map(Secret::hash);
    let Some(client) = client.filter(|client| client.is_enabled()) else { return false };
    if client.is_public() {
        // A public client has no secret; one that sends some is not the client that was registered.
        return presented.is_none();
    }
    secret.is_some_and(|secret| client.knows(secret, call.now))
}

fn failures_of(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Revoke => "revoke_failures",
        _ => "token_failures",
    }
}
