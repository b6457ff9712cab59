//! Browser sessions, and the application sessions that depend on them.
//!
//! This module also contains:
//!
//! - Combined reads for access decisions. They take one round trip instead of several.
//! - The browsers in which a user has signed in before: one small record per user.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::engine::{Changes, Key, Value};
use crate::format::record::Loaded;
use crate::format::table::Indexed;
use crate::format::{record, table};
use crate::subjects::revocations::{Revocation, opened};
use crate::{Committed, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::grant::{Grant, GrantId};
use sealgate_domain::known_browser::KnownBrowsers;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::{AppSession, Session, SessionId};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};

/// Minimum interval between two recorded uses of a session.
const MIN_TOUCH_INTERVAL: Duration = Duration::from_mins(1);

/// Page of a user's sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPage {
    /// Sessions, including expired ones.
    pub sessions: Vec<Session>,
    /// Session after which the next page starts. `None` on the last page.
    pub next: Option<SessionId>,
}

/// Page of the application sessions that depend on a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppSessionPage {
    /// Sessions, including expired ones.
    pub sessions: Vec<AppSession>,
    /// Session after which the next page starts. `None` on the last page.
    pub next: Option<SessionId>,
}

impl Store {
    /// Returns the session with this id, even if it has expired.
    pub async fn session(&self, id: SessionId) -> Result<Option<Loaded<Session>>, StoreError> {
        self.load(table::session(id)).await
    }

    /// Stores a new session, with an index entry for its user.
    pub async fn begin_session(&self, session: &Session) -> Result<(), StoreError> {
        let key = table::session(session.id);
        let mut changes = record::create(key.clone(), session)?;
        changes.put.push((table::expiry(session.ends_at_latest(), &key), Vec::new()));
        changes.put.extend(entries(session).map(|entry| (entry, Vec::new())));
        self.write(changes).await
    }

    /// Replaces a loaded session. Users who are no longer signed in are signed out at their clients.
    pub async fn update_session(&self, loaded: &Loaded<Session>, next: &Session) -> Result<Committed, StoreError> {
        let logouts = loaded.value.logouts(Some(next));
        let mut next = next.clone();
        next.forget_clients_of_others();
        let mut changes = record::replace(loaded, &next)?;
        let kept: Vec<Key> = entries(&next).collect();
        changes.delete.extend(entries(&loaded.value).filter(|entry| !kept.contains(entry)));
        changes.put.extend(kept.into_iter().map(|entry| (entry, Vec::new())));
        let committed = self.commit_with_logouts(changes, &logouts).await?;
        if committed == Committed::Yes {
            self.follow_session(&loaded.value, &next);
        }
        Ok(committed)
    }

    /// Moves a session to another id and cookie. Codes and application sessions of the old id end.
    ///
    /// `next` returns the new session, or `None` if the session is no longer the caller's. If there
    /// is a revocation, the same commit opens it. Returns whether the session was moved.
    pub async fn move_session(
        &self,
        id: SessionId,
        revocation: Option<&Revocation>,
        next: impl Fn(&Session) -> Option<Session> + Send,
    ) -> Result<bool, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.session(id).await? else { return Ok(false) };
            let Some(session) = next(&loaded.value) else { return Ok(false) };
            // The grants of the old id end too, so its clients cannot continue.
            let session = Session { clients: Vec::new(), ..session };
            let key = table::session(session.id);
            let mut changes = record::create(key.clone(), &session)?;
            changes.expect.push(loaded.unchanged());
            changes.put.push((table::expiry(session.ends_at_latest(), &key), Vec::new()));
            changes.put.extend(entries(&session).map(|entry| (entry, Vec::new())));
            changes.delete.push(loaded.key().clone());
            changes.delete.extend(entries(&loaded.value));
            let logouts = loaded.value.logouts(Some(&session));
            if self.commit_with_logouts(opened(changes, revocation)?, &logouts).await? == Committed::Yes {
                self.follow_session(&loaded.value, &session);
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }

    /// Records that a session is in use, at most once a minute.
    ///
    /// Errors are only logged, because read-only requests must work even if the store refuses
    /// writes. On a conflict, another request has changed the session and thereby recorded its use.
    pub async fn touch_session(&self, loaded: &Loaded<Session>, now: UnixTime) {
        if now.since(loaded.value.last_seen_at) < MIN_TOUCH_INTERVAL {
            return;
        }
        let next = Session { last_seen_at: now, ..loaded.value.clone() };
        let touched = match record::replace(loaded, &next) {
            Ok(changes) => self.commit(changes).await,
            Err(error) => Err(error),
        };
        if let Err(error) = touched {
            tracing::debug!(%error, session = %loaded.value.id, "the last use of a session was not saved");
        }
    }

    /// Ends a session, and with it the application sessions that depend on it. The same commit queues
    /// logout tokens for its clients.
    pub async fn end_session(&self, id: SessionId) -> Result<bool, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.session(id).await? else { return Ok(false) };
            if self.end_loaded_session(&loaded).await? == Committed::Yes {
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }

    /// Ends a session as [`Store::end_session`] does, if it has not changed.
    pub(crate) async fn end_loaded_session(&self, loaded: &Loaded<Session>) -> Result<Committed, StoreError> {
        let mut delete = vec![loaded.key().clone()];
        delete.extend(entries(&loaded.value));
        let changes = Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() };
        self.commit_with_logouts(changes, &loaded.value.logouts(None)).await
    }

    /// Returns up to `limit` sessions in which this user is signed in, with ids greater than
    /// `after`, in order.
    pub async fn sessions_of_user(
        &self,
        user: Subject,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<SessionPage, StoreError> {
        let prefix = table::of_user(user, Indexed::Session);
        let after = after.map(|id| table::entry(prefix.clone(), id.as_bytes()));
        let rows = self.engine.scan(&prefix, after.as_deref(), limit).await?;
        let ids: Vec<_> =
            rows.iter().filter_map(|(entry, _)| table::entry_id(entry)).map(SessionId::from_bytes).collect();
        let mut sessions = Vec::with_capacity(ids.len());
        for id in &ids {
            sessions.extend(self.session(*id).await?.map(|loaded| loaded.value));
        }
        Ok(SessionPage { sessions, next: ids.last().copied().filter(|_| rows.len() == limit) })
    }

    /// Ends all sessions in which this user is signed in, and deletes the user's known browsers.
    ///
    /// Returns the number of sessions.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn end_sessions_of_user(&self, user: Subject) -> Result<usize, StoreError> {
        self.forget_browsers(user, None).await?;
        self.end_sessions_but(user, None).await
    }

    /// Ends all sessions in which this user is signed in, except `excluded_session`. Returns the
    /// number of ended sessions.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn end_other_sessions_of_user(
        &self,
        user: Subject,
        excluded_session: SessionId,
    ) -> Result<usize, StoreError> {
        self.end_sessions_but(user, Some(excluded_session)).await
    }

    /// Ends the user's sessions, except `excluded_session`. Searches again until no session is
    /// found, because a search can miss a session that moves to another id at the same time.
    async fn end_sessions_but(&self, user: Subject, excluded_session: Option<SessionId>) -> Result<usize, StoreError> {
        let mut ended = 0;
        for _ in 0..MAX_CONFLICTS {
            let (mut session_count, mut after) = (0, None);
            loop {
                let page = self.sessions_of_user(user, after, PAGE).await?;
                for session in page.sessions.iter().filter(|session| Some(session.id) != excluded_session) {
                    session_count += 1;
                    ended += usize::from(self.end_session(session.id).await?);
                }
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            if session_count == 0 {
                return Ok(ended);
            }
        }
        Err(StoreError::Contended)
    }

    /// Returns the application session with this id, even if it has expired. The caller must also
    /// check the session at the provider on which the application session depends.
    pub async fn app_session(&self, id: SessionId) -> Result<Option<Loaded<AppSession>>, StoreError> {
        self.load(table::app_session(id)).await
    }

    /// Stores a new application session, with an index entry for the session that it depends on.
    pub async fn begin_app_session(&self, session: &AppSession) -> Result<(), StoreError> {
        let key = table::app_session(session.id);
        let mut changes = record::create(key.clone(), session)?;
        changes.put.push((table::expiry(session.expires_at, &key), Vec::new()));
        changes.put.push((app_session_entry(session), Vec::new()));
        self.write(changes).await
    }

    /// Returns up to `limit` application sessions that depend on this session, with ids greater than
    /// `after`, in order.
    pub async fn app_sessions_of(
        &self,
        parent: SessionId,
        after: Option<SessionId>,
        limit: usize,
    ) -> Result<AppSessionPage, StoreError> {
        let prefix = table::app_sessions_of(parent);
        let after = after.map(|id| table::entry(prefix.clone(), id.as_bytes()));
        let rows = self.engine.scan(&prefix, after.as_deref(), limit).await?;
        let ids: Vec<_> =
            rows.iter().filter_map(|(entry, _)| table::entry_id(entry)).map(SessionId::from_bytes).collect();
        let keys: Vec<Key> = ids.iter().copied().map(table::app_session).collect();
        let values = self.engine.get_many(&keys).await?;
        let records = keys.iter().zip(values).filter_map(|(key, bytes)| record::decode(key, bytes?).ok());
        let sessions = records.map(|loaded: Loaded<AppSession>| loaded.value).collect();
        Ok(AppSessionPage { sessions, next: ids.last().copied().filter(|_| rows.len() == limit) })
    }

    /// Ends an application session. The session at the provider continues.
    pub async fn end_app_session(&self, id: SessionId) -> Result<(), StoreError> {
        let Some(loaded) = self.app_session(id).await? else { return Ok(()) };
        let delete = vec![loaded.key().clone(), app_session_entry(&loaded.value)];
        // Application sessions do not change, so a conflict means that the session was deleted.
        let _ = self.commit(Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() }).await?;
        Ok(())
    }
}

/// Returns the index entries of a session: one for each signed-in user, and one for each session at
/// an OpenID provider.
pub(crate) fn entries(session: &Session) -> impl Iterator<Item = Key> {
    let id = session.id.as_bytes();
    let mut entries = BTreeSet::new();
    for sign_in in &session.sign_ins {
        entries.insert(table::entry(table::of_user(sign_in.subject, Indexed::Session), id));
        if let Some(own) = &sign_in.upstream {
            let of_sid = own.sid.as_ref().map(|sid| table::of_upstream_session(&own.source, sid));
            let of_sub = own.sub.as_ref().map(|sub| table::of_upstream_subject(&own.source, sub));
            entries.extend(of_sid.into_iter().chain(of_sub).map(|prefix| table::entry(prefix, id)));
        }
    }
    entries.into_iter()
}

/// Returns the index entry of an application session.
pub(crate) fn app_session_entry(session: &AppSession) -> Key {
    table::entry(table::app_sessions_of(session.parent), session.id.as_bytes())
}

/// Current state of the records that an access token depends on.
#[derive(Debug)]
pub struct TokenState {
    pub grant: Option<Grant>,
    /// Client of the token, if it is registered.
    pub client: Option<Client>,
    pub user: Option<User>,
    /// Whether the token was revoked individually.
    pub is_revoked: bool,
}

impl Store {
    /// Reads the records that the access token with this `jti` depends on.
    ///
    /// `client` is `None` if the token's client is not registered.
    pub async fn token_standing(
        &self,
        grant: GrantId,
        client: Option<&ClientId>,
        subject: Subject,
        jti: &str,
    ) -> Result<TokenState, StoreError> {
        let mut keys = vec![table::grant(grant), table::user(subject), table::revoked_token(jti)];
        keys.extend(client.map(table::client));
        let mut values = self.engine.get_many(&keys).await?.into_iter();
        let mut next = || values.next().flatten();
        let (grant, user, revoked, client) = (next(), next(), next(), next());
        Ok(TokenState {
            grant: of(&keys, 0, grant)?.map(|loaded| loaded.value),
            client: of(&keys, 3, client)?.map(|loaded| loaded.value),
            user: of(&keys, 1, user)?.map(|loaded| loaded.value),
            is_revoked: revoked.is_some(),
        })
    }

    /// Reads a session and a user, even if the session has expired or the user is disabled.
    pub async fn session_and_user(
        &self,
        session: SessionId,
        user: Subject,
    ) -> Result<(Option<Loaded<Session>>, Option<User>), StoreError> {
        let keys = [table::session(session), table::user(user)];
        let mut values = self.engine.get_many(&keys).await?.into_iter();
        let mut next = || values.next().flatten();
        let (session, user) = (next(), next());
        Ok((of(&keys, 0, session)?, of(&keys, 1, user)?.map(|loaded| loaded.value)))
    }

    /// Returns the sessions with these ids, even if they have expired. Omits missing and unreadable
    /// sessions.
    pub async fn sessions(&self, ids: &[SessionId]) -> Result<Vec<Loaded<Session>>, StoreError> {
        let keys: Vec<Key> = ids.iter().map(|id| table::session(*id)).collect();
        let values = self.engine.get_many(&keys).await?;
        let records = keys.iter().zip(values).filter_map(|(key, bytes)| record::decode(key, bytes?).ok());
        Ok(records.collect())
    }
}

fn of<T: DeserializeOwned>(keys: &[Key], at: usize, bytes: Option<Value>) -> Result<Option<Loaded<T>>, StoreError> {
    let row = keys.get(at).zip(bytes);
    row.map(|(key, bytes)| record::decode(key, bytes)).transpose()
}

impl Store {
    /// Returns the browsers in which this user has signed in. The set is empty if there is no such
    /// user.
    pub async fn known_browsers(&self, subject: Subject) -> Result<KnownBrowsers, StoreError> {
        let loaded = self.load(table::known_browsers(subject)).await?;
        Ok(loaded.map_or_else(|| KnownBrowsers::none(subject), |loaded| loaded.value))
    }

    /// Records a sign-in in the browser with this mark. `replaced` is the browser's previous mark.
    pub async fn learn_browser(
        &self,
        subject: Subject,
        mark: SecretHash,
        replaced: Option<SecretHash>,
        now: UnixTime,
    ) -> Result<(), StoreError> {
        let key = table::known_browsers(subject);
        for _ in 0..MAX_CONFLICTS {
            let changes = if let Some(loaded) = self.load::<KnownBrowsers>(key.clone()).await? {
                let mut next = loaded.value.clone();
                next.learn(mark, replaced, now);
                record::replace(&loaded, &next)?
            } else {
                let mut first = KnownBrowsers::none(subject);
                first.learn(mark, None, now);
                let mut changes = record::create(key.clone(), &first)?;
                changes.put.push((table::expiry(first.expires_at, &key), Vec::new()));
                changes
            };
            if self.commit(changes).await? == Committed::Yes {
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }

    /// Deletes the known browsers of this user, except the one with this mark.
    pub async fn forget_browsers(&self, subject: Subject, excluded_mark: Option<SecretHash>) -> Result<(), StoreError> {
        let Some(excluded_mark) = excluded_mark else {
            // The expiry entry is left to garbage collection.
            let delete = vec![table::known_browsers(subject)];
            return self.write(Changes { delete, ..Changes::default() }).await;
        };
        self.change_browsers(subject, |known| known.keep(excluded_mark)).await
    }

    /// Deletes a known browser of this user.
    pub async fn forget_browser(&self, subject: Subject, mark: SecretHash) -> Result<(), StoreError> {
        self.change_browsers(subject, |known| known.forget(mark)).await
    }

    async fn change_browsers(
        &self,
        subject: Subject,
        change: impl Fn(&mut KnownBrowsers) + Send,
    ) -> Result<(), StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.load::<KnownBrowsers>(table::known_browsers(subject)).await? else { return Ok(()) };
            let mut next = loaded.value.clone();
            change(&mut next);
            if next == loaded.value || self.commit(record::replace(&loaded, &next)?).await? == Committed::Yes {
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }
}
