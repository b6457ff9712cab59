//! What a decision about access rests on, looked up together: over a network one round trip instead of several.

use serde::de::DeserializeOwned;

use crate::domain::client::{Client, ClientId};
use crate::domain::grant::{Grant, GrantId};
use crate::domain::session::{Session, SessionId};
use crate::domain::user::{Subject, User};
use crate::store::engine::{Key, Value};
use crate::store::record::{self, Loaded};
use crate::store::{Store, StoreError, table};

/// What an access token rests on, as it stands.
#[derive(Debug)]
pub struct TokenStanding {
    pub grant: Option<Grant>,
    /// The client that is registered under the id that was asked for.
    pub client: Option<Client>,
    pub user: Option<User>,
    /// Whether the token was revoked by itself.
    pub is_revoked: bool,
}

impl Store {
    /// What the token with this `jti` rests on. `client`: none where it cannot be a registered one.
    pub async fn token_standing(
        &self,
        grant: GrantId,
        client: Option<&ClientId>,
        subject: Subject,
        jti: &str,
    ) -> Result<TokenStanding, StoreError> {
        let mut keys = vec![table::grant(grant), table::user(subject), table::revoked_token(jti)];
        keys.extend(client.map(table::client));
        let mut found = self.engine.get_many(&keys).await?.into_iter();
        let mut next = || found.next().flatten();
        let (grant, user, revoked, client) = (next(), next(), next(), next());
        Ok(TokenStanding {
            grant: of(&keys, 0, grant)?.map(|loaded| loaded.value),
            client: of(&keys, 3, client)?.map(|loaded| loaded.value),
            user: of(&keys, 1, user)?.map(|loaded| loaded.value),
            is_revoked: revoked.is_some(),
        })
    }

    /// A session, live or not, and a person, enabled or not.
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

    /// The sessions with these ids that are there, live or not. One that cannot be read is left out.
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
