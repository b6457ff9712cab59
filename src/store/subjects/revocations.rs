//! Revocation of all access of a user.
//!
//! A revocation changes many records, and the process may crash after the commit that requires it,
//! such as a password change. So that commit also stores an open revocation. If it is not
//! completed, the next start or garbage collection completes it.

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

/// Delay before garbage collection completes a revocation. It is sufficient for many thousands of
/// records.
const PATIENCE: Duration = Duration::from_mins(1);

/// Order to end all sessions, grants, application passwords and e-mailed links of a user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    pub subject: Subject,
    pub why: EndReason,
    pub at: UnixTime,
    /// Distinguishes revocations of the same second: completing one must not close another.
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
    /// Creates a revocation. The caller's commit opens it, and [`Store::carry_out`] executes it.
    pub fn new_revocation(&self, subject: Subject, why: EndReason, at: UnixTime) -> Revocation {
        Revocation { subject, why, at, number: self.revocations.fetch_add(1, Ordering::Relaxed) }
    }

    /// Ends a user's sessions and grants on all nodes, so that the user must sign in again
    /// everywhere.
    ///
    /// Consents remain. The caller has already committed the open revocation with the change that
    /// requires it.
    ///
    /// # Errors
    /// If the store fails. What was ended remains so, and garbage collection completes the rest.
    pub async fn carry_out(&self, revocation: &Revocation) -> Result<Ended, StoreError> {
        let (user, at) = (revocation.subject, revocation.at);
        // The revocation may end the session that has caused it.
        let store = self.for_server();
        // In this order: a pending sign-in could become a session, and a session could create a
        // grant.
        store.end_partial_sign_ins(user).await?;
        let sessions = store.end_sessions_of_user(user).await?;
        let grants = store.end_grants_of_user(user, revocation.why, at).await?;
        store.end_app_passwords(user).await?;
        // Includes links that were e-mailed after that commit.
        store.take_links_back(user).await?;
        store.close_revocation(revocation).await?;
        Ok(Ended { sessions, grants })
    }

    /// Records that the revocation is completed.
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

    /// Changes a user like [`Store::change_user`], and opens the revocation in the same commit.
    pub async fn change_user_with(
        &self,
        revocation: &Revocation,
        change: impl Fn(&mut User) + Send,
    ) -> Result<Option<User>, StoreError> {
        self.change_user_and(revocation.subject, Some(revocation), change).await
    }

    /// Executes the revocations that an earlier process has left open. Must run before this process
    /// serves. Returns their number.
    ///
    /// If nodes share the store, another one may be executing a revocation. Revocations that are
    /// not due yet are left to that node or to garbage collection. A damaged record does not
    /// prevent the start: it is logged, and garbage collection retries it.
    ///
    /// # Errors
    /// If the store fails. The call can be repeated.
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

    /// Adds the open revocation to the changes, and removes the user's e-mailed links. Everyone who
    /// can read the mailbox could use such a link.
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
/// [`Store::carry_out`] later removes the user's e-mailed links, unless these changes do.
pub(crate) fn opened(mut changes: Changes, revocation: Option<&Revocation>) -> Result<Changes, StoreError> {
    if let Some(revocation) = revocation {
        let key = revocation.key();
        changes.put.push((table::expiry(revocation.due_at(), &key), Vec::new()));
        changes.put.push((key, record::encode(revocation)?));
    }
    Ok(changes)
}
