//! Conditions of commits on behalf of a user.
//!
//! A request decides with the session and the user that it has read. Before it commits, the session
//! or all of the user's access may be ended. Records that the request adds afterwards would remain.
//! So Sealgate's own pages get a [`Store`] with a [`CommitGuard`]. Each commit through this store
//! expects the current records of session and user, whatever records the page changes.
//!
//! Ending all access takes several commits. The first opens a [`Revocation`](super::Revocation).
//! The next ones end the sessions. Then the records that the sessions have added are removed. From
//! the first commit on, the guard of a page fails, because it finds the open revocation or a
//! changed record of the user or the session.

use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::{Changes, Expect, Key};
use crate::format::record::Loaded;
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::oauth::next_step::CredentialMark;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::{Session, SessionCookie, SessionId};
use sealgate_domain::user::{Subject, User};

impl Store {
    /// Returns the store for a request to one of Sealgate's own pages with this cookie.
    ///
    /// Commits fail with [`StoreError::SignedOut`] until [`Store::act_for`] was called.
    #[must_use]
    pub fn for_page(&self, cookie: Option<&SessionCookie>) -> Self {
        let cookie = cookie.map(|cookie| (cookie.id, cookie.hash()));
        self.guarded(CommitGuard::Page(Mutex::new(PageSession { cookie, subject: None })))
    }

    /// Sets the user of a page. Returns false if this is not the store of a page.
    pub fn act_for(&self, subject: Subject) -> bool {
        let Some(CommitGuard::Page(page)) = self.guard.as_deref() else { return false };
        page.lock().unwrap_or_else(PoisonError::into_inner).subject = Some(subject);
        true
    }

    /// Returns the store for a client that redeems a code of this session.
    #[must_use]
    pub fn for_code(&self, session: SessionId, subject: Subject) -> Self {
        self.guarded(CommitGuard::Code { session, subject })
    }

    /// Returns the store for a user whose password was verified but who is not signed in yet.
    #[must_use]
    pub fn for_credentials(&self, user: &User) -> Self {
        let password = CredentialMark::for_user(user, 0).password;
        self.guarded(CommitGuard::Credentials { subject: user.sub, password })
    }

    /// Returns the store for the server's own work, such as completing a revocation after the
    /// session has ended.
    #[must_use]
    pub fn for_server(&self) -> Self {
        Self { is_for_server: true, ..self.clone() }
    }

    fn guarded(&self, guard: CommitGuard) -> Self {
        Self { guard: Some(Arc::new(guard)), is_for_server: false, ..self.clone() }
    }

    /// Commits the changes if the guard holds at that moment.
    ///
    /// Retries if only the guard's records have changed. That happens when the use of the session
    /// is recorded or when the user changes their name in another tab.
    pub(super) async fn commit_under(&self, guard: &CommitGuard, changes: Changes) -> Result<Committed, StoreError> {
        let mut held = self.check(guard).await?;
        for _ in 0..MAX_CONFLICTS {
            let mut guarded = changes.clone();
            let known = |key: &Key| changes.expect.iter().any(|expect| key_of(expect) == key);
            guarded.expect.extend(held.iter().filter(|expect| !known(key_of(expect))).cloned());
            if self.commit_unguarded(guarded).await? == Committed::Yes {
                return Ok(Committed::Yes);
            }
            let now = self.check(guard).await?;
            if now == held {
                return Ok(Committed::Conflict);
            }
            held = now;
        }
        Err(StoreError::Contended)
    }

    /// Updates the guard after the request itself has renewed or moved the session.
    pub(super) fn follow_session(&self, before: &Session, next: &Session) {
        if let Some(CommitGuard::Page(page)) = self.guard.as_deref() {
            let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
            if page.cookie == Some((before.id, before.cookie)) {
                page.cookie = Some((next.id, next.cookie));
            }
        }
    }

    async fn has_open_revocation(&self, subject: Subject) -> Result<bool, StoreError> {
        Ok(!self.engine.scan(&table::revocations(subject), None, 1).await?.is_empty())
    }

    /// Returns the expectations that the guard adds to a commit.
    ///
    /// # Errors
    /// [`StoreError::SignedOut`] if the guard does not hold, [`StoreError::Contended`] while a
    /// revocation is open.
    async fn check(&self, guard: &CommitGuard) -> Result<Vec<Expect>, StoreError> {
        let (session, cookie, subject) = match guard {
            CommitGuard::Credentials { subject, password } => {
                let user = self.user_record(*subject).await?.ok_or(StoreError::SignedOut)?;
                let is_same = CredentialMark::for_user(&user.value, 0).password == *password;
                return if is_same && user.value.is_enabled() {
                    Ok(vec![user.unchanged()])
                } else {
                    Err(StoreError::SignedOut)
                };
            }
            CommitGuard::Code { session, subject } => (*session, None, *subject),
            CommitGuard::Page(page) => {
                let PageSession { cookie, subject } = *page.lock().unwrap_or_else(PoisonError::into_inner);
                let ((session, cookie), subject) = cookie.zip(subject).ok_or(StoreError::SignedOut)?;
                (session, Some(cookie), subject)
            }
        };
        let keys = [table::session(session), table::user(subject)];
        let mut found = self.engine.get_many(&keys).await?.into_iter();
        let [session, user] = [found.next().flatten(), found.next().flatten()];
        let (Some(session), Some(user)) = (session, user) else { return Err(StoreError::SignedOut) };
        let session: Loaded<Session> = record::decode(&keys[0], session)?;
        let user: Loaded<User> = record::decode(&keys[1], user)?;
        let accepts = cookie.is_none_or(|cookie| session.value.cookie == cookie);
        if !accepts || session.value.sign_in_of(subject).is_none() || !user.value.is_enabled() {
            return Err(StoreError::SignedOut);
        }
        // Checked after the user record was read. If a revocation opens between the two reads, it
        // has changed the user record, and the commit fails.
        if cookie.is_some() && self.has_open_revocation(subject).await? {
            return Err(StoreError::Contended);
        }
        Ok(vec![session.unchanged(), user.unchanged()])
    }
}

fn key_of(expect: &Expect) -> &Key {
    match expect {
        Expect::Absent(key) | Expect::Value(key, _) => key,
    }
}

/// Condition of every commit through a store.
#[derive(Debug)]
pub(super) enum CommitGuard {
    /// The cookie belongs to the session, the user is signed in to that session, and the user has
    /// no open revocation.
    Page(Mutex<PageSession>),
    /// The user is signed in to the session. There is no cookie, because a client sends the
    /// request.
    Code { session: SessionId, subject: Subject },
    /// The user still has the password that was verified. There is no session yet.
    Credentials { subject: Subject, password: Option<SecretHash> },
}

/// Session and user of a page's request.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageSession {
    /// Current cookie. The request itself may renew it.
    pub(super) cookie: Option<(SessionId, SecretHash)>,
    /// User of the page; `None` until [`Store::act_for`] was called.
    pub(super) subject: Option<Subject>,
}
