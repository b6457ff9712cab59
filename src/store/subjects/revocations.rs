//! Revocation of all access of a user.
//!
//! A revocation changes many records. The process may crash after the commit that requires the
//! revocation, such as a change of the password. Therefore that commit also stores an open
//! revocation. If the process does not complete the revocation, the next start or garbage
//! collection completes it.

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

/// Time after which garbage collection completes a revocation. In this time, a process can end many
/// thousands of sessions and grants.
const COMPLETION_DELAY: Duration = Duration::from_mins(1);

/// Order to end all sessions, grants, application passwords, tokens and e-mailed links of a user.
///
/// The tokens are those for the admin API and those for registration that the user has created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    pub subject: Subject,
    pub why: EndReason,
    pub at: UnixTime,
    /// Whether other users who are signed in in the same browsers stay signed in. Otherwise these
    /// sessions end for all their users.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) spares_others: bool,
    /// Distinguishes revocations of the same second, because the completion of one revocation must
    /// not close another revocation.
    pub(crate) number: u64,
}

impl Revocation {
    /// Returns the revocation, which lets other users of the same browsers stay signed in.
    #[must_use]
    pub fn sparing_others(self) -> Self {
        Self { spares_others: true, ..self }
    }

    pub(crate) fn key(&self) -> Key {
        table::revocation(self.subject, self.at, self.number)
    }

    pub(crate) fn due_at(&self) -> UnixTime {
        self.at.plus(COMPLETION_DELAY)
    }
}

impl Store {
    /// Creates a revocation. The caller's commit opens it, and [`Store::carry_out`] executes it.
    pub fn new_revocation(&self, subject: Subject, why: EndReason, at: UnixTime) -> Revocation {
        let number = self.revocations.fetch_add(1, Ordering::Relaxed);
        Revocation { subject, why, at, spares_others: false, number }
    }

    /// Ends a user's sessions and grants on all nodes, so that the user must sign in again
    /// everywhere.
    ///
    /// Consents are kept. The caller has already opened the revocation in the commit that requires
    /// it.
    ///
    /// # Errors
    /// Returns the store's error. Some access may have ended, and garbage collection completes the
    /// rest.
    pub async fn carry_out(&self, revocation: &Revocation) -> Result<Ended, StoreError> {
        let (user, at) = (revocation.subject, revocation.at);
        // The revocation may end the session that caused it.
        let store = self.for_server();
        // The order matters: a pending sign-in could become a session, and a session could create a
        // grant.
        store.end_partial_sign_ins(user).await?;
        let sessions = if revocation.spares_others {
            store.forget_browsers(user, None).await?;
            store.end_sign_ins_of_user(user).await?.len()
        } else {
            store.end_sessions_of_user(user).await?
        };
        let grants = store.end_grants_of_user(user, revocation.why, at).await?;
        store.end_app_passwords(user).await?;
        store.end_api_tokens(user).await?;
        store.end_registration_tokens(user).await?;
        // Invalidate the links again, because some may have been e-mailed after the commit.
        store.take_links_back(user).await?;
        if store.user_record(user).await.is_ok_and(|user| user.is_none()) {
            store.remove_remains(user).await?;
        }
        store.close_revocation(revocation).await?;
        Ok(Ended { sessions, grants })
    }

    /// Records that the revocation is complete.
    pub async fn close_revocation(&self, revocation: &Revocation) -> Result<(), StoreError> {
        let key = revocation.key();
        let entry = table::expiry(revocation.due_at(), &key);
        self.for_server().write(Changes { delete: vec![key, entry], ..Changes::default() }).await
    }

    /// Opens and executes a revocation, without any other change.
    ///
    /// # Errors
    /// See [`Store::carry_out`].
    pub async fn revoke_user(&self, user: Subject, why: EndReason, now: UnixTime) -> Result<Ended, StoreError> {
        self.revoke(&self.new_revocation(user, why, now)).await
    }

    /// Opens and executes this revocation, without any other change.
    ///
    /// # Errors
    /// See [`Store::carry_out`].
    pub async fn revoke(&self, revocation: &Revocation) -> Result<Ended, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let changes = self.opened_without_links(Changes::default(), Some(revocation)).await?;
            if self.commit(changes).await? == Committed::Yes {
                return self.carry_out(revocation).await;
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

    /// Executes the revocations that an earlier process has left open. To be called before this
    /// process serves. Returns their number.
    ///
    /// On a shared store, skips revocations that are not due yet: another node may be executing
    /// them. That node or garbage collection completes them. A damaged record does not prevent
    /// startup: it is logged, and garbage collection retries it.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
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
            next.email.clone_from(&loaded.value.email);
            next.username.clone_from(&loaded.value.username);
            let changes = self.opened_without_links(record::replace(&loaded, &next)?, revocation).await?;
            if self.commit(changes).await? == Committed::Yes {
                return Ok(Some(next));
            }
        }
        Err(StoreError::Contended)
    }

    /// Opens the revocation in these changes, and deletes the user's e-mailed links, because an
    /// attacker who can read the mailbox could use them.
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

/// Opens the revocation in these changes.
///
/// The user's e-mailed links remain valid until [`Store::carry_out`], unless these changes delete
/// them.
pub(crate) fn opened(mut changes: Changes, revocation: Option<&Revocation>) -> Result<Changes, StoreError> {
    if let Some(revocation) = revocation {
        let key = revocation.key();
        changes.put.push((table::expiry(revocation.due_at(), &key), Vec::new()));
        changes.put.push((key, record::encode(revocation)?));
    }
    Ok(changes)
}
