//! Verification of access tokens presented to this server, at UserInfo and the gateway.
//!
//! The signature is verified once per token, revocation is checked at every use. The cache key is
//! the token's SHA-256, so the cache holds no credentials. An entry has two numbers that were read
//! before its checks:
//!
//! - The user's access counter in the store. It changes when access of the user, of the client or
//!   by a key is revoked. The token's records are then read again, without verifying the signature.
//! - The generation of the published keys. If it has changed, the token's key must still be
//!   published.
//!
//! A cached token therefore outlives neither a revocation nor its key.

use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::tokens::clients;
use crate::tokens::issuer::Issuer;
use sealgate_config::Config;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::grant::GrantId;
use sealgate_domain::oauth::claims::AccessTokenClaims;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};
use sealgate_store::{Store, StoreError};

const MAX_CACHED: usize = 16_384;

/// A valid access token.
#[derive(Debug)]
pub struct Bearer {
    pub claims: AccessTokenClaims,
    pub scope: Scope,
    pub user: Arc<User>,
    pub client: ClientId,
    /// Whether an authorized party vouches for that client: see [`Client::is_vouched_for`].
    pub vouched_for: bool,
}

/// Reason why a token is rejected.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BearerFault {
    /// Forged, expired, revoked, of another issuer, or no token at all.
    #[error("the access token is not valid")]
    Invalid,
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Cache of valid tokens.
pub struct Bearers(Cache<[u8; 32], Entry>);

#[derive(Clone)]
struct Entry {
    bearer: Arc<Bearer>,
    access_counter: u64,
    keys: u64,
}

impl Default for Bearers {
    fn default() -> Self {
        Self(Cache::new(MAX_CACHED))
    }
}

impl Bearers {
    /// Verifies a presented access token.
    ///
    /// # Errors
    /// [`BearerFault::Invalid`] for every invalid token; [`BearerFault::Store`] if the store cannot
    /// be read.
    pub async fn verify(
        &self,
        issuer: &Issuer,
        store: &Store,
        config: &Config,
        token: &str,
        now: UnixTime,
    ) -> Result<Arc<Bearer>, BearerFault> {
        if token.len() > sealgate_domain::oauth::jwt::LONGEST {
            return Err(BearerFault::Invalid);
        }
        let key = *SecretHash::for_secret(token.as_bytes()).as_bytes();
        // Read the generation before the token is verified, so that a later removal of a key makes
        // the entry stale.
        let keys = issuer.signer().key_set().generation();
        let claims = match self.0.get(&key) {
            Some(entry) if now >= entry.bearer.claims.exp => {
                self.0.remove(&key);
                return Err(BearerFault::Invalid);
            }
            Some(entry)
                if entry.keys == keys && entry.access_counter == store.access_counter(entry.bearer.user.sub) =>
            {
                return Ok(entry.bearer);
            }
            Some(entry) if entry.keys != keys && !issuer.names_a_published_key(token) => {
                self.0.remove(&key);
                return Err(BearerFault::Invalid);
            }
            Some(entry) => entry.bearer.claims.clone(),
            None => issuer.access_token(token, now).ok_or(BearerFault::Invalid)?,
        };
        let subject = Subject::parse(&claims.sub).ok_or(BearerFault::Invalid)?;
        // Read the counter before any query, so that a later revocation makes the entry stale.
        let access_counter = store.access_counter(subject);
        let Some(bearer) = Box::pin(look_up(store, config, subject, claims)).await? else {
            self.0.remove(&key);
            return Err(BearerFault::Invalid);
        };
        let bearer = Arc::new(bearer);
        self.0.insert(key, Entry { bearer: Arc::clone(&bearer), access_counter, keys });
        Ok(bearer)
    }
}

/// Returns the token's data if its grant, client and user, and the token itself, are all still
/// valid.
async fn look_up(
    store: &Store,
    config: &Config,
    subject: Subject,
    claims: AccessTokenClaims,
) -> Result<Option<Bearer>, StoreError> {
    let (Some(grant), Some(client), Ok(scope)) =
        (GrantId::parse(&claims.grant_id), ClientId::parse(&claims.client_id), Scope::parse(&claims.scope))
    else {
        return Ok(None);
    };
    let registered = clients::may_be_registered(&client).then_some(&client);
    let found = store.token_standing(grant, registered, subject, &claims.jti).await?;
    let grant_stands = found.grant.is_some_and(|grant| grant.is_active());
    let registered = match registered {
        Some(_) => found.client.map(|client| clients::as_configured(config, client)),
        None => clients::configured(config, &client),
    };
    let registered = registered.filter(Client::is_enabled);
    let user = found.user.filter(User::is_enabled);
    let (Some(user), Some(registered), true) = (user, registered, grant_stands) else { return Ok(None) };
    if found.is_revoked {
        return Ok(None);
    }
    let vouched_for = registered.is_vouched_for();
    Ok(Some(Bearer { claims, scope, user: Arc::new(user), client, vouched_for }))
}
