//! Verification of access tokens of this issuer, for UserInfo and the gateway.
//!
//! The signature is verified once per token. Revocation is checked at every use, with the help of a
//! cache. The key of a cache entry is the token's SHA-256, so the cache holds no credentials. Each
//! entry has two numbers, which were read before the token was checked:
//!
//! - The user's access counter in the store. Every revocation that may affect the user's tokens
//!   changes the counter. If the counter has changed, the grant, client and user are read again,
//!   but the signature is not verified again.
//! - The generation of the published keys. If the generation has changed, the entry is valid only
//!   while the token's key is still published.
//!
//! A cached token is therefore rejected once it is revoked or its key is removed.
//!
//! Each thread has copies of entries, which it checks in the same way.

use std::sync::Arc;

use quick_cache::sync::Cache;

use crate::local_cache::LocalCache;
use crate::tokens::clients;
use crate::tokens::issuer::Issuer;
use sealgate_config::Config;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::grant::GrantId;
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::oauth::claims::AccessTokenClaims;
use sealgate_domain::scope::Scope;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::service;
use sealgate_domain::service::ServiceClient;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};
use sealgate_store::{Store, StoreError};
use sealgate_system::read_mostly::LocalRef;

const MAX_CACHED: usize = 16_384;

/// A valid access token.
#[derive(Debug)]
pub struct Bearer {
    pub claims: AccessTokenClaims,
    /// Scope of this server. [`AccessTokenClaims::scope`] also has the scopes of the resource.
    pub scope: Scope,
    pub holder: BearerHolder,
    pub client: ClientId,
    /// Whether an authorized party vouches for the client: see [`Client::is_vouched_for`].
    pub vouched_for: bool,
    /// Groups of the user that the client sees.
    pub visible_groups: GroupFilter,
}

/// User or client whom a token identifies.
#[derive(Debug, Clone)]
pub enum BearerHolder {
    User(Arc<User>),
    /// Client that got the token in its own name.
    Client(Arc<ServiceClient>),
}

impl Bearer {
    /// Returns the user. `None` if the client got the token in its own name.
    pub fn user(&self) -> Option<&User> {
        match &self.holder {
            BearerHolder::User(user) => Some(user),
            BearerHolder::Client(_) => None,
        }
    }
}

/// Reason why a token is rejected.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BearerFault {
    /// The token is malformed, forged, expired, revoked or of another issuer.
    #[error("the access token is not valid")]
    Invalid,
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Cache of valid access tokens.
pub struct Bearers {
    shared: Cache<[u8; 32], Entry<Arc<Bearer>>>,
    local: LocalCache<[u8; 32], Entry<LocalRef<Bearer>>>,
}

#[derive(Clone)]
struct Entry<B> {
    bearer: B,
    /// Subject of the grant, which selects the counter.
    subject: Subject,
    access_counter: u64,
    keys: u64,
}

impl<B> Entry<B> {
    /// Returns whether nothing was revoked since the entry was created. `keys` is the current
    /// generation of the published keys.
    fn is_current(&self, keys: u64, store: &Store) -> bool {
        self.keys == keys && self.access_counter == store.access_counter(self.subject)
    }
}

impl Bearers {
    /// Creates the cache. `threads` is the number of threads that serve requests.
    pub fn new(threads: usize) -> Self {
        Self { shared: Cache::new(MAX_CACHED), local: LocalCache::new(MAX_CACHED, threads) }
    }

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
    ) -> Result<LocalRef<Bearer>, BearerFault> {
        if token.len() > sealgate_domain::oauth::jwt::MAX_TOKEN_LENGTH {
            return Err(BearerFault::Invalid);
        }
        let key = *SecretHash::for_secret(token.as_bytes()).as_bytes();
        // Read the generation before verifying the token, so that a later removal of a key
        // invalidates the entry.
        let keys = issuer.signer().generation();
        if let Some(entry) = self.local.get(&key)
            && now < entry.bearer.claims.exp
            && entry.is_current(keys, store)
        {
            return Ok(entry.bearer);
        }
        let claims = match self.shared.get(&key) {
            Some(entry) if now >= entry.bearer.claims.exp => {
                self.shared.remove(&key);
                return Err(BearerFault::Invalid);
            }
            Some(entry) if entry.is_current(keys, store) => return Ok(self.copy(key, entry)),
            Some(entry) if entry.keys != keys && !issuer.names_a_published_key(token) => {
                self.shared.remove(&key);
                return Err(BearerFault::Invalid);
            }
            Some(entry) => entry.bearer.claims.clone(),
            None => issuer.access_token(token, now).ok_or(BearerFault::Invalid)?,
        };
        let subject = subject_of(&claims).ok_or(BearerFault::Invalid)?;
        // Read the counter before the queries, so that a later revocation invalidates the entry.
        let access_counter = store.access_counter(subject);
        let Some(bearer) = Box::pin(look_up(store, config, subject, claims)).await? else {
            self.shared.remove(&key);
            return Err(BearerFault::Invalid);
        };
        let entry = Entry { bearer: Arc::new(bearer), subject, access_counter, keys };
        self.shared.insert(key, entry.clone());
        Ok(self.copy(key, entry))
    }

    /// Copies an entry to this thread's cache.
    fn copy(&self, key: [u8; 32], entry: Entry<Arc<Bearer>>) -> LocalRef<Bearer> {
        let Entry { bearer, subject, access_counter, keys } = entry;
        let bearer = LocalRef::new(bearer);
        self.local.insert(key, Entry { bearer: bearer.clone(), subject, access_counter, keys });
        bearer
    }
}

/// Returns the subject of the token's grant.
fn subject_of(claims: &AccessTokenClaims) -> Option<Subject> {
    if claims.is_of_service() {
        return ClientId::parse(&claims.client_id).map(|client| service::subject_of(&client));
    }
    Subject::parse(&claims.sub)
}

/// Returns the token's data if the token is not revoked and its grant, client and user are active.
async fn look_up(
    store: &Store,
    config: &Config,
    subject: Subject,
    claims: AccessTokenClaims,
) -> Result<Option<Bearer>, StoreError> {
    let (Some(grant), Some(client)) = (GrantId::parse(&claims.grant_id), ClientId::parse(&claims.client_id)) else {
        return Ok(None);
    };
    // The other values are scopes of the token's resource.
    let scope = Scope::known_in(&claims.scope);
    let registered = clients::may_be_registered(&client).then_some(&client);
    let standing = store.token_standing(grant, registered, subject, &claims.jti).await?;
    let is_service = claims.is_of_service();
    let grant_is_active = standing.grant.is_some_and(|grant| grant.is_active() && grant.is_service == is_service);
    let registered = match registered {
        Some(_) => standing.client.and_then(|client| clients::as_configured(config, client)),
        None => clients::configured(config, &client),
    };
    let registered = registered.filter(Client::is_enabled);
    let (Some(registered), true, false) = (registered, grant_is_active, standing.is_revoked) else { return Ok(None) };
    let holder = if is_service {
        // The operator may have removed the permission since the token was issued.
        let is_allowed = service::still_allows(&registered, &claims, config);
        let client = ServiceClient::from_client(&registered).filter(|_| is_allowed);
        client.map(|client| BearerHolder::Client(Arc::new(client)))
    } else {
        standing.user.filter(User::is_enabled).map(|user| BearerHolder::User(Arc::new(user)))
    };
    let Some(holder) = holder else { return Ok(None) };
    let vouched_for = registered.is_vouched_for();
    let visible_groups = registered.visible_groups;
    Ok(Some(Bearer { claims, scope, holder, client, vouched_for, visible_groups }))
}
