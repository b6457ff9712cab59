//! Revocations end all access of an account.
//!
//! That is many records, and a crash may occur after the commit that causes it, such as a password
//! change or the disabling of an account. So that commit also stores an open revocation, which the
//! next start or garbage collection executes.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{Changes, Key};
use crate::format::table::Table;
use crate::format::{record, table};
use crate::subjects::grants::Ended;
use crate::{Committed, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::grant::EndReason;
use sealgate_domain::secret::base64url;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};

/// Delay before garbage collection executes an unfinished revocation: enough for many thousands of
/// records.
const PATIENCE: Duration = Duration::from_mins(1);

/// An order to end all of a user's sessions, grants, application passwords and mailed links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    pub subject: Subject,
    pub why: EndReason,
    pub at: UnixTime,
    /// Distinguishes two of the same second: finishing one must not close the other.
    pub(crate) number: u64,
}

impl Revocation {
    pub(crate) fn key(&self) -> Key {
        table::revocation(self.subject, self.at, self.number)
    }

    pub(crate) fn due_at(&self) -> UnixTime {
        self.at.plus(PATIENCE)
    }
}

impl Store {
    /// Creates a revocation, to be opened by the caller's commit and executed afterwards.
    pub fn new_revocation(&self, subject: Subject, why: EndReason, at: UnixTime) -> Revocation {
        Revocation { subject, why, at, number: self.revocations.fetch_add(1, Ordering::Relaxed) }
    }

    /// Ends a user's sessions and grants on all nodes; every holder has to sign in again.
    ///
    /// Consents remain. The cause was committed with the open revocation.
    ///
    /// # Errors
    /// When the store fails; the ended ones stay ended, and garbage collection continues with the
    /// rest.
    pub async fn carry_out(&self, revocation: &Revocation) -> Result<Ended, StoreError> {
        let (user, at) = (revocation.subject, revocation.at);
        // The session that started the revocation may be one of those that end.
        let store = self.for_server();
        // Pending sign-ins first, then sessions: the former could become sessions, and a live
        // session could create a new grant while the old ones are ended.
        store.end_partial_sign_ins(user).await?;
        let sessions = store.end_sessions_of_user(user).await?;
        let grants = store.end_grants_of_user(user, revocation.why, at).await?;
        store.end_app_passwords(user).await?;
        // Includes links mailed after the commit.
        store.take_links_back(user).await?;
        store.close_revocation(revocation).await?;
        Ok(Ended { sessions, grants })
    }

    /// Records that the revocation is finished.
    pub async fn close_revocation(&self, revocation: &Revocation) -> Result<(), StoreError> {
        let key = revocation.key();
        let entry = table::expiry(revocation.due_at(), &key);
        self.for_server().write(Changes { delete: vec![key, entry], ..Changes::default() }).await
    }

    /// Opens and executes a revocation without another change.
    ///
    /// # Errors
    /// See [`Store::carry_out`].
    pub async fn revoke_person(&self, user: Subject, why: EndReason, now: UnixTime) -> Result<Ended, StoreError> {
        let revocation = self.new_revocation(user, why, now);
        for _ in 0..MAX_CONFLICTS {
            let changes = self.opened_without_links(Changes::default(), Some(&revocation)).await?;
            if self.commit(changes).await? == Committed::Yes {
                return self.carry_out(&revocation).await;
            }
        }
        Err(StoreError::Contended)
    }

    /// Changes a user as [`Store::change_user`] does, and opens the revocation in the same commit.
    pub async fn change_user_with(
        &self,
        revocation: &Revocation,
        change: impl Fn(&mut User) + Send,
    ) -> Result<Option<User>, StoreError> {
        self.change_user_and(revocation.subject, Some(revocation), change).await
    }

    /// Executes the open revocations of a previous process, before this process serves.
    ///
    /// If other nodes share the store, one of them may be executing a revocation. Those that are
    /// not due yet are left to their initiator or to garbage collection. Returns their number. A
    /// damaged record does not prevent the start: it is logged, and garbage collection retries it.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub async fn carry_out_open_revocations(&self, now: UnixTime) -> Result<usize, StoreError> {
        let (mut count, mut after) = (0, None::<Key>);
        loop {
            let rows = self.engine.scan(&table::all(Table::Revocation), after.as_deref(), PAGE).await?;
            let Some((last, _)) = rows.last() else { return Ok(count) };
            after = Some(last.clone());
            for (key, bytes) in rows {
                let carried_out = match record::decode::<Revocation>(&key, bytes) {
                    Ok(open) if self.is_shared() && open.value.due_at() > now => continue,
                    Ok(open) => self.carry_out(&open.value).await.map(drop),
                    Err(error) => Err(error),
                };
                match carried_out {
                    Ok(()) => count += 1,
                    Err(StoreError::Broken(error)) => {
                        tracing::error!(key = base64url(&key), error, "an unfinished revocation cannot be completed");
                    }
                    Err(error) => return Err(error),
                }
            }
        }
    }

    pub(crate) async fn change_user_and(
        &self,
        subject: Subject,
        revocation: Option<&Revocation>,
        change: impl Fn(&mut User) + Send,
    ) -> Result<Option<User>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.load::<User>(table::user(subject)).await? else { return Ok(None) };
            let mut next = loaded.value.clone();
            change(&mut next);
            next.sub = loaded.value.sub;
            next.email = loaded.value.email.clone();
            next.username.clone_from(&loaded.value.username);
            let changes = self.opened_without_links(record::replace(&loaded, &next)?, revocation).await?;
            if self.commit(changes).await? == Committed::Yes {
                return Ok(Some(next));
            }
        }
        Err(StoreError::Contended)
    }

    /// Adds the open revocation to the changes, and removes the user's mailed links: a link mailed
    /// earlier would give access to every reader of the mailbox.
    pub(crate) async fn opened_without_links(
        &self,
        mut changes: Changes,
        revocation: Option<&Revocation>,
    ) -> Result<Changes, StoreError> {
        if let Some(revocation) = revocation {
            changes.merge(self.links_taken_back(revocation.subject).await?);
        }
        opened(changes, revocation)
    }
}

/// Adds the open revocation to the changes.
///
/// The mailed links follow with [`Store::carry_out`], unless the changes have them.
pub(crate) fn opened(mut changes: Changes, revocation: Option<&Revocation>) -> Result<Changes, StoreError> {
    if let Some(revocation) = revocation {
        let key = revocation.key();
        changes.put.push((table::expiry(revocation.due_at(), &key), Vec::new()));
        changes.put.push((key, record::encode(revocation)?));
    }
    Ok(changes)
}
