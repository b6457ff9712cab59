//! Access tokens that come back to us: at UserInfo and at the gate. What the signature says is checked once a token;
//! whether the token still stands is known at every use.
//!
//! The cache is keyed by the token's SHA-256, so it holds no credentials. An entry carries two numbers from before its
//! checks: the person's standing in the store, and the generation of the published keys. Once anything of the person, a
//! client or the keys was taken away, the first has moved and what the token rests on is looked up again (a few reads, no
//! signature); once other keys are published, the second has, and the token's key must be among them. So a cached token
//! outlives neither a revocation nor its key.

use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::config::Config;
use crate::domain::client::{Client, ClientId};
use crate::domain::grant::GrantId;
use crate::domain::scope::Scope;
use crate::domain::secret::SecretHash;
use crate::domain::time::UnixTime;
use crate::domain::user::{Subject, User};
use crate::oauth::claims::AccessTokenClaims;
use crate::store::{Store, StoreError};
use crate::tokens::clients;
use crate::tokens::issuer::Issuer;

const REMEMBERED: usize = 16_384;

/// An access token that stands.
#[derive(Debug)]
pub struct Bearer {
    pub claims: AccessTokenClaims,
    pub scope: Scope,
    pub user: Arc<User>,
    pub client: ClientId,
    /// Whether somebody vouches for that client who may: see [`Client::is_vouched_for`].
    pub vouched_for: bool,
}

/// Why a token is not taken.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BearerFault {
    /// Forged, expired, revoked, of another issuer, or no token at all.
    #[error("the access token does not stand")]
    Invalid,
    /// Nobody knows: the store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Tokens that were found to stand.
pub struct Bearers(Cache<[u8; 32], Entry>);

#[derive(Clone)]
struct Entry {
    bearer: Arc<Bearer>,
    access_counter: u64,
    keys: u64,
}

impl Default for Bearers {
    fn default() -> Self {
        Self(Cache::new(REMEMBERED))
    }
}

impl Bearers {
    /// Judges a presented access token.
    ///
    /// # Errors
    /// [`BearerFault::Invalid`] for every token that does not stand; [`BearerFault::Store`] when that cannot be known.
    pub async fn verify(
        &self,
        issuer: &Issuer,
        store: &Store,
        config: &Config,
        token: &str,
        now: UnixTime,
    ) -> Result<Arc<Bearer>, BearerFault> {
        if token.len() > crate::oauth::jwt::LONGEST {
            return Err(BearerFault::Invalid);
        }
        let key = *SecretHash::of(token.as_bytes()).as_bytes();
        // Before the token is verified: a key that is removed after this line leaves the entry with a number of the past.
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
        // Before any look-up: a revocation that comes after this line moves the number past what the entry will carry.
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

/// Whether everything that the token rests on still stands: its grant, its client, its person, itself.
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
