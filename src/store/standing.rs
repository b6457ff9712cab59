//! Combined reads for access decisions: one round trip instead of several.

use serde::de::DeserializeOwned;

use crate::engine::{Key, Value};
use crate::record;
use crate::record::Loaded;
use crate::{Store, StoreError, table};
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::grant::{Grant, GrantId};
use sealgate_domain::session::{Session, SessionId};
use sealgate_domain::user::{Subject, User};

/// The current records that an access token depends on.
#[derive(Debug)]
pub struct TokenState {
    pub grant: Option<Grant>,
    /// The registered client with the requested ID.
    pub client: Option<Client>,
    pub user: Option<User>,
    /// Whether the token was revoked individually.
    pub is_revoked: bool,
}

impl Store {
    /// Reads the records that the token with this `jti` depends on.
    ///
    /// `client`: `None` if it cannot be a registered one.
    pub async fn token_standing(
        &self,
        grant: GrantId,
        client: Option<&ClientId>,
        subject: Subject,
        jti: &str,
    ) -> Result<TokenState, StoreError> {
        let mut keys = vec![table::grant(grant), table::user(subject), table::revoked_token(jti)];
        keys.extend(client.map(table::client));
        let mut found = self.engine.get_many(&keys).await?.into_iter();
        let mut next = || found.next().flatten();
        let (grant, user, revoked, client) = (next(), next(), next(), next());
        Ok(TokenState {
            grant: of(&keys, 0, grant)?.map(|loaded| loaded.value),
            client: of(&keys, 3, client)?.map(|loaded| loaded.value),
            user: of(&keys, 1, user)?.map(|loaded| loaded.value),
            is_revoked: revoked.is_some(),
        })
    }

    /// Reads a session, live or not, and a user, enabled or not.
    pub async fn session_and_user(
        &self,
        session: SessionId,
        user: Subject,
    ) -> Result<(Option<Loaded<Session>>, Option<User>), StoreError> {
        let keys = [table::session(session), table::user(user)];
        let mut found = self.engine.get_many(&keys).await?.into_iter();
        let mut next = || found.next().flatten();
        let (session, user) = (next(), next());
        Ok((of(&keys, 0, session)?, of(&keys, 1, user)?.map(|loaded| loaded.value)))
    }

    /// Returns the existing sessions with these IDs, live or not. Unreadable ones are left out.
    pub async fn sessions(&self, ids: &[SessionId]) -> Result<Vec<Loaded<Session>>, StoreError> {
        let keys: Vec<Key> = ids.iter().map(|id| table::session(*id)).collect();
        let found = self.engine.get_many(&keys).await?;
        let found = keys.iter().zip(found).filter_map(|(key, bytes)| record::decode(key, bytes?).ok());
        Ok(found.collect())
    }
}

fn of<T: DeserializeOwned>(keys: &[Key], at: usize, bytes: Option<Value>) -> Result<Option<Loaded<T>>, StoreError> {
    let found = keys.get(at).zip(bytes);
    found.map(|(key, bytes)| record::decode(key, bytes)).transpose()
}
