//! Sign-ins of browsers at OpenID providers: the provider's logout tokens end them, and the background
//! reads replace their refresh tokens.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::engine::{Changes, Key};
use crate::format::table::{Indexed, Table};
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::grant::EndReason;
use sealgate_domain::secret::Sealed;
use sealgate_domain::session::{OpenIdSession, Session, SessionId, SignIn};
use sealgate_domain::source::{SourceName, UserSource};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Maximum number of sign-ins of one user that are confirmed with a refresh token. The confirmation
/// counts for all sign-ins of the user.
const MAX_REFRESHABLE: usize = 20;

/// Maximum time between the answer of a provider and the end of the sign-in with it, which may need a
/// second factor.
const MAX_SIGN_IN: Duration = Duration::from_hours(1);

/// Sign-in of one user in one session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SignInPlace {
    pub session: SessionId,
    pub subject: Subject,
}

impl Store {
    /// Ends the sign-ins that have this `sid` at a provider, and everything that depends on them. Other
    /// users of the same browsers stay signed in. `subject` is the user, if the caller knows it.
    ///
    /// # Errors
    /// Returns the store's error. Some sign-ins may have ended. The call can be repeated.
    pub async fn end_sign_ins_with_sid(
        &self,
        source: &SourceName,
        sid: &str,
        subject: Option<Subject>,
    ) -> Result<Vec<SignInPlace>, StoreError> {
        let is_meant = |sign_in: &SignIn| {
            let has_sid = |own: &OpenIdSession| own.source == *source && own.sid.as_deref() == Some(sid);
            sign_in.upstream.as_deref().is_some_and(has_sid) && subject.is_none_or(|user| user == sign_in.subject)
        };
        self.end_indexed_sign_ins(&table::of_upstream_session(source, sid), is_meant).await
    }

    /// Ends all sign-ins of a user, and everything that depends on them. Other users of the same
    /// browsers stay signed in. The user's grants continue.
    ///
    /// # Errors
    /// Returns the store's error. Some sign-ins may have ended. The call can be repeated.
    pub async fn end_sign_ins_of_user(&self, user: Subject) -> Result<Vec<SignInPlace>, StoreError> {
        let prefix = table::of_user(user, Indexed::Session);
        self.end_indexed_sign_ins(&prefix, |sign_in: &SignIn| sign_in.subject == user).await
    }

    /// Ends all sign-ins and grants of a user of an OpenID provider, and everything that depends on
    /// them. The user has no access, also with other credentials, before the next sign-in at the
    /// provider.
    ///
    /// # Errors
    /// Returns the store's error. Some access may have ended. The call can be repeated.
    pub async fn withdraw_confirmation(
        &self,
        source: &SourceName,
        user: Subject,
        now: UnixTime,
    ) -> Result<Vec<SignInPlace>, StoreError> {
        self.set_unconfirmed(source, user).await?;
        // The order matters: a pending sign-in could become a session, and a session could create a grant.
        self.end_partial_sign_ins(user).await?;
        let ended = self.end_sign_ins_of_user(user).await?;
        self.end_grants_of_user(user, EndReason::Source, now).await?;
        Ok(ended)
    }

    /// Returns the users of the sign-ins with this `sub` at a provider, where their id is another claim.
    pub async fn users_with_upstream_sub(
        &self,
        source: &SourceName,
        sub: &str,
    ) -> Result<BTreeSet<Subject>, StoreError> {
        let (prefix, mut after, mut found) = (table::of_upstream_subject(source, sub), None::<Key>, BTreeSet::new());
        loop {
            let rows = self.engine.scan(&prefix, after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(found) };
            after = Some(last.clone());
            for id in rows.iter().filter_map(|(entry, _)| table::entry_id(entry)).map(SessionId::from_bytes) {
                let Some(session) = self.session(id).await? else { continue };
                let has_sub = |own: &OpenIdSession| own.source == *source && own.sub.as_deref() == Some(sub);
                let sign_ins = session.value.sign_ins.iter();
                let of_sub = sign_ins.filter(|known| known.upstream.as_deref().is_some_and(has_sub));
                found.extend(of_sub.map(|known| known.subject));
            }
        }
    }

    async fn set_unconfirmed(&self, source: &SourceName, user: Subject) -> Result<(), StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.user_record(user).await? else { return Ok(()) };
            let mut next = loaded.value.clone();
            let own = next.source.as_mut().filter(|own| own.link.source == *source);
            if !own.is_some_and(UserSource::withdraw_confirmation)
                || self.commit(record::replace(&loaded, &next)?).await? == Committed::Yes
            {
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }

    /// Ends the matching sign-ins of the sessions under this index prefix. Searches again until none is
    /// found, because a search can miss a session that moves to another id at the same time.
    async fn end_indexed_sign_ins(
        &self,
        prefix: &Key,
        is_meant: impl Fn(&SignIn) -> bool + Send + Sync,
    ) -> Result<Vec<SignInPlace>, StoreError> {
        let mut ended = Vec::new();
        for _ in 0..MAX_CONFLICTS {
            let (before, mut after) = (ended.len(), None::<Key>);
            loop {
                let rows = self.engine.scan(prefix, after.as_deref(), PAGE).await?;
                let Some((last, _)) = rows.last() else { break };
                after = Some(last.clone());
                for id in rows.iter().filter_map(|(entry, _)| table::entry_id(entry)) {
                    ended.extend(self.end_sign_ins_in(SessionId::from_bytes(id), &is_meant).await?);
                }
            }
            if ended.len() == before {
                return Ok(ended);
            }
        }
        Err(StoreError::Contended)
    }

    /// Ends the matching sign-ins of one session, and their application sessions. The session ends if
    /// no other user is signed in.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn end_sign_ins_in(
        &self,
        id: SessionId,
        is_meant: impl Fn(&SignIn) -> bool + Send + Sync,
    ) -> Result<Vec<SignInPlace>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.session(id).await? else { return Ok(Vec::new()) };
            let (ended, kept): (Vec<_>, Vec<_>) = loaded.value.sign_ins.iter().cloned().partition(&is_meant);
            let ended: Vec<_> =
                ended.iter().map(|sign_in| SignInPlace { session: id, subject: sign_in.subject }).collect();
            if ended.is_empty() {
                return Ok(ended);
            }
            if kept.is_empty() {
                if self.end_loaded_session(&loaded).await? == Committed::Yes {
                    return Ok(ended);
                }
                // Another user may have signed in meanwhile.
                continue;
            }
            let next = Session { sign_ins: kept, ..loaded.value.clone() };
            if self.update_session(&loaded, &next).await? == Committed::Yes {
                self.end_app_sessions(id, &ended).await?;
                return Ok(ended);
            }
        }
        Err(StoreError::Contended)
    }

    /// Deletes the application sessions of these users. They give no access without the sign-in, but
    /// would again after the next one.
    async fn end_app_sessions(&self, parent: SessionId, of: &[SignInPlace]) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = self.app_sessions_of(parent, after, PAGE).await?;
            for session in &page.sessions {
                if of.iter().any(|ended| ended.subject == session.subject) {
                    self.end_app_session(session.id).await?;
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Returns whether a logout token of a provider was accepted before.
    pub async fn is_logout_token_used(&self, source: &SourceName, jti: &str) -> Result<bool, StoreError> {
        Ok(self.engine.get(&table::logout_token(source, jti)).await?.is_some())
    }

    /// Records that a logout token of a provider was accepted. `until` is the time from which the token
    /// is no longer valid.
    pub async fn use_logout_token(&self, source: &SourceName, jti: &str, until: UnixTime) -> Result<(), StoreError> {
        let key = table::logout_token(source, jti);
        let mut changes = record::create(key.clone(), &until)?;
        changes.put.push((table::expiry(until, &key), Vec::new()));
        // On a conflict, another request has recorded the same token.
        let _ = self.commit(changes).await?;
        Ok(())
    }

    /// Records that a provider has ended a session, for sign-ins that are not stored yet.
    pub async fn note_ended_sid(&self, source: &SourceName, sid: &str, now: UnixTime) -> Result<(), StoreError> {
        let key = table::ended_upstream_session(source, sid);
        let expiry = table::expiry(now.plus(MAX_SIGN_IN), &key);
        let put = vec![(key, record::encode(&now)?), (expiry, Vec::new())];
        self.write(Changes { put, ..Changes::default() }).await
    }

    /// Returns whether the provider has ended the session of a sign-in since its answer was requested.
    pub async fn has_ended(&self, own: &OpenIdSession) -> Result<bool, StoreError> {
        let Some(sid) = &own.sid else { return Ok(false) };
        let ended = self.load::<UnixTime>(table::ended_upstream_session(&own.source, sid)).await?;
        Ok(ended.is_some_and(|ended| ended.value >= own.at))
    }

    /// Returns the sign-ins at a provider that have a refresh token, at most 20 of a user: the newest.
    /// `is_live` selects the sessions.
    ///
    /// Reads all sessions, because their number is limited by use.
    pub async fn refreshable_sign_ins(
        &self,
        source: &SourceName,
        is_live: impl Fn(&Session) -> bool + Send + Sync,
    ) -> Result<Vec<SignInPlace>, StoreError> {
        let mut found = BTreeMap::<Subject, Vec<(Reverse<UnixTime>, SignInPlace)>>::new();
        self.read_all(Table::Session, |session: Session| {
            if !is_live(&session) {
                return;
            }
            for known in &session.sign_ins {
                let own = known.upstream.as_deref().filter(|own| own.source == *source && own.refresh_token.is_some());
                if let Some(own) = own {
                    let place = SignInPlace { session: session.id, subject: known.subject };
                    found.entry(known.subject).or_default().push((Reverse(own.at), place));
                }
            }
        })
        .await?;
        let newest = found.into_values().flat_map(|mut places| {
            places.sort();
            places.into_iter().take(MAX_REFRESHABLE).map(|(_, place)| place)
        });
        Ok(newest.collect())
    }

    /// Records that a provider has answered the background reads.
    pub async fn note_upstream_answer(&self, source: &SourceName, at: UnixTime) -> Result<(), StoreError> {
        let put = vec![(table::upstream_answer(source), record::encode(&at)?)];
        self.write(Changes { put, ..Changes::default() }).await
    }

    /// Returns the time at which a provider last answered the background reads of any node.
    pub async fn upstream_answer(&self, source: &SourceName) -> Result<Option<UnixTime>, StoreError> {
        Ok(self.load::<UnixTime>(table::upstream_answer(source)).await?.map(|at| at.value))
    }

    /// Changes a sign-in's session at its provider, if it still has this refresh token. Follows a session
    /// that has moved to another id. Retries on conflicts. Returns whether a sign-in has the token.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn change_upstream_session(
        &self,
        place: SignInPlace,
        refresh_token: &Sealed,
        change: impl Fn(&mut OpenIdSession) + Send + Sync,
    ) -> Result<bool, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(place) = self.place_of_token(place, refresh_token).await? else { return Ok(false) };
            let Some(loaded) = self.session(place.session).await? else { continue };
            let mut next = loaded.value.clone();
            let sign_in = next.sign_ins.iter_mut().find(|known| known.subject == place.subject);
            let own = sign_in.and_then(|sign_in| sign_in.upstream.as_deref_mut());
            let Some(own) = own.filter(|own| own.refresh_token.as_ref() == Some(refresh_token)) else { continue };
            change(own);
            if self.commit(record::replace(&loaded, &next)?).await? == Committed::Yes {
                return Ok(true);
            }
        }
        Err(StoreError::Contended)
    }

    /// Returns the sign-in that has a refresh token now. Its session may have moved to another id.
    async fn place_of_token(
        &self,
        place: SignInPlace,
        refresh_token: &Sealed,
    ) -> Result<Option<SignInPlace>, StoreError> {
        let has_token = |session: &Session| {
            let own = session.sign_in_of(place.subject).and_then(|sign_in| sign_in.upstream.as_deref());
            own.is_some_and(|own| own.refresh_token.as_ref() == Some(refresh_token))
        };
        if self.session(place.session).await?.is_some_and(|loaded| has_token(&loaded.value)) {
            return Ok(Some(place));
        }
        let (prefix, mut after) = (table::of_user(place.subject, Indexed::Session), None::<Key>);
        loop {
            let rows = self.engine.scan(&prefix, after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(None) };
            after = Some(last.clone());
            for id in rows.iter().filter_map(|(entry, _)| table::entry_id(entry)).map(SessionId::from_bytes) {
                if self.session(id).await?.is_some_and(|loaded| has_token(&loaded.value)) {
                    return Ok(Some(SignInPlace { session: id, ..place }));
                }
            }
        }
    }

    /// Returns whether a sign-in still has this refresh token.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn has_refresh_token(&self, place: SignInPlace, refresh_token: &Sealed) -> Result<bool, StoreError> {
        Ok(self.place_of_token(place, refresh_token).await?.is_some())
    }
}
