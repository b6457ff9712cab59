//! Conditions of a signed-in user's commits.
//!
//! A request decides with the session and the user that it has read. Before it commits, the session
//! may be ended, and with it all of the user's access. Records that the request adds afterwards
//! would outlive "end everything". So Sealgate's own pages get a [`Store`] with a [`CommitGuard`].
//! Each of its commits expects the current records of session and user, whatever the page changes.
//!
//! Ending everything is not one commit. It opens a [`Revocation`](super::Revocation) first, ends
//! the sessions next, and then removes the records made in them. From the first step on, the guard
//! of a page fails: it finds the open revocation, or the user record or the changed record has
//! changed, or the session is gone.
//!
//! Conditions of commits on behalf of a user; [`crate::guarded`] enforces them.

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
    /// Commits fail with [`StoreError::SignedOut`] until [`Store::act_for`] has named the user.
    #[must_use]
    pub fn for_page(&self, cookie: Option<&SessionCookie>) -> Self {
        let cookie = cookie.map(|cookie| (cookie.id, cookie.hash()));
        self.guarded(CommitGuard::Page(Mutex::new(PageSession { cookie, subject: None })))
    }

    /// Names the user of a page. Returns whether this is the store of a page.
    pub fn act_for(&self, subject: Subject) -> bool {
        let Some(CommitGuard::Page(page)) = self.guard.as_deref() else { return false };
        page.lock().unwrap_or_else(PoisonError::into_inner).subject = Some(subject);
        true
    }

    /// Returns the store for a client's operations with a code of this session.
    #[must_use]
    pub fn for_code(&self, session: SessionId, subject: Subject) -> Self {
        self.guarded(CommitGuard::Code { session, subject })
    }

    /// Returns the store for a user whose password is verified and who is not signed in yet.
    #[must_use]
    pub fn for_credentials(&self, user: &User) -> Self {
        let password = CredentialMark::for_user(user, 0).password;
        self.guarded(CommitGuard::Credentials { subject: user.sub, password })
    }

    /// Returns the store for the server's own work: revocations continue after the session has
    /// ended.
    #[must_use]
    pub fn for_server(&self) -> Self {
        Self { is_for_server: true, ..self.clone() }
    }

    fn guarded(&self, guard: CommitGuard) -> Self {
        Self { guard: Some(Arc::new(guard)), is_for_server: false, ..self.clone() }
    }

    /// Commits the changes if the guard holds at that moment.
    ///
    /// Retries conflicts over the guard's own records (the session's use is recorded, the user
    /// changes their name in another tab).
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

    /// Updates the guard after this request has renewed or moved its session.
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

    /// Returns the expectations of a commit.
    ///
    /// # Errors
    /// [`StoreError::SignedOut`] when the guard does not hold; [`StoreError::Contended`] while a
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
        // After the user record: a revocation that opens between the two and changes the user fails the commit.
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

/// Condition of a commit.
#[derive(Debug)]
pub(super) enum CommitGuard {
    /// The cookie matches its session, the page's user is signed in to it, and has no pending
    /// revocation.
    Page(Mutex<PageSession>),
    /// The user is signed in to the session. A client does not have its cookie.
    Code { session: SessionId, subject: Subject },
    /// The user's password is the verified one. There is no session yet.
    Credentials { subject: Subject, password: Option<SecretHash> },
}

/// The session of a page's request.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageSession {
    /// Current cookie, which the request may renew.
    pub(super) cookie: Option<(SessionId, SecretHash)>,
    /// The page's user, once known.
    pub(super) subject: Option<Subject>,
}
