//! Conditions of commits that are made on behalf of a user.
//!
//! A request reads the session and the user before it decides. Before it commits, the session may
//! end, or all access of the user may be revoked. Without a condition, the request would still add
//! its records, and they would remain. Therefore Sealgate's own pages get a [`Store`] with a
//! [`CommitGuard`]. Each commit through this store expects the session and the user to be
//! unchanged, whichever records the page changes.
//!
//! Revoking all access takes several commits. The first commit opens a
//! [`Revocation`](super::Revocation). The next commits end the sessions, and the last commits
//! delete the records that the sessions have added. After the first commit, the guard of every page
//! fails, because the revocation is open, or because the user or the session has changed.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::engine::{Changes, Expect, Key, Value};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError, access};
use sealgate_domain::api_token::ApiToken;
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::oauth::next_step::CredentialMark;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::{Session, SessionCookie, SessionId};
use sealgate_domain::user::{Subject, User};

impl Store {
    /// Returns the store for a request with this cookie to one of Sealgate's own pages.
    ///
    /// Commits fail with [`StoreError::SignedOut`] until [`Store::act_for`] is called.
    #[must_use]
    pub fn for_page(&self, cookie: Option<&SessionCookie>) -> Self {
        let cookie = cookie.map(|cookie| (cookie.id, cookie.hash()));
        self.guarded(CommitGuard::Page(Mutex::new(PageSession { cookie, ..PageSession::default() })))
    }

    /// Sets the user of the page. Returns false if this is not the store of a page.
    pub fn act_for(&self, subject: Subject) -> bool {
        let Some(CommitGuard::Page(page)) = self.guard.as_deref() else { return false };
        page.lock().unwrap_or_else(PoisonError::into_inner).subject = Some(subject);
        true
    }

    /// Requires that the user of the page satisfies the rule, before and after each commit.
    ///
    /// Otherwise two administrators could remove each other at the same time, or an administrator who
    /// has just lost the role could still change an account. Commits then fail with
    /// [`StoreError::NotPermitted`].
    pub fn require(&self, rule: UserRule) {
        if let Some(CommitGuard::Page(page)) = self.guard.as_deref() {
            page.lock().unwrap_or_else(PoisonError::into_inner).rule = Some(rule);
        }
    }

    /// Requires that each user record that a commit writes satisfies the rule, except for the record of
    /// the page's user. With [`Store::act_on`], the rule applies to one user before each commit too.
    ///
    /// So a user manager changes nobody else, and gives no role or group that the rule excludes,
    /// whatever the form sends and whatever changes meanwhile. Commits then fail with
    /// [`StoreError::NotPermitted`].
    pub fn limit_users(&self, rule: UserRule) {
        if let Some(CommitGuard::Page(page)) = self.guard.as_deref() {
            page.lock().unwrap_or_else(PoisonError::into_inner).limit = Some(rule);
        }
    }

    /// Sets the user on whom the user of the page acts, for [`Store::limit_users`]. Most changes about a
    /// user do not write the user's record.
    pub fn act_on(&self, target: Subject) {
        if let Some(CommitGuard::Page(page)) = self.guard.as_deref() {
            page.lock().unwrap_or_else(PoisonError::into_inner).target = Some(target);
        }
    }

    /// Checks the condition of this store's commits, for a change outside the store, such as of a file.
    ///
    /// # Errors
    /// As for a commit: [`StoreError::SignedOut`] or [`StoreError::NotPermitted`] if it does not hold.
    pub async fn require_permission(&self) -> Result<(), StoreError> {
        match self.guard.as_deref() {
            Some(guard) if !self.is_for_server => self.check(guard, &Changes::default()).await.map(drop),
            _ => Ok(()),
        }
    }

    /// Returns the store for a client that redeems a code of this session.
    #[must_use]
    pub fn for_code(&self, session: SessionId, subject: Subject) -> Self {
        self.guarded(CommitGuard::Code { session, subject })
    }

    /// Returns the store for a user whose password was verified, but who is not signed in yet.
    #[must_use]
    pub fn for_credentials(&self, user: &User) -> Self {
        let password = CredentialMark::for_user(user, 0).password;
        self.guarded(CommitGuard::Credentials { subject: user.sub, password })
    }

    /// Returns the store for a request with this token for the admin API.
    ///
    /// Commits require that the token is stored, that its creator is enabled and satisfies `creator`,
    /// and that they change no protected user.
    #[must_use]
    pub fn for_api_token(&self, token: &ApiToken, creator: UserRule, protected: Option<ProtectedUsers>) -> Self {
        let (hash, subject) = (token.hash, token.creator);
        let rule = creator;
        self.guarded(CommitGuard::Token(TokenGuard {
            hash,
            creator: subject,
            rule,
            protected,
            pinned: Mutex::default(),
        }))
    }

    /// Returns the user with this `sub`. The next commit of this handle that changes the user then fails
    /// with [`StoreError::PreconditionFailed`] unless the user is still the same.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn pin_user(&self, subject: Subject) -> Result<Option<User>, StoreError> {
        Ok(self.user_record(subject).await?.map(|loaded| self.pin(loaded)))
    }

    /// Like [`Store::pin_user`], for a client.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn pin_client(&self, id: &ClientId) -> Result<Option<Client>, StoreError> {
        Ok(self.load(table::client(id)).await?.map(|loaded| self.pin(loaded)))
    }

    fn pin<T>(&self, loaded: Loaded<T>) -> T {
        if let Some(CommitGuard::Token(guard)) = self.guard.as_deref()
            && let Expect::Value(key, bytes) = loaded.unchanged()
        {
            *guard.pinned.lock().unwrap_or_else(PoisonError::into_inner) = Some((key, bytes));
        }
        loaded.value
    }

    /// Returns the store for the server's own work, for instance to complete a revocation after the
    /// session ended.
    #[must_use]
    pub fn for_server(&self) -> Self {
        Self { is_for_server: true, ..self.clone() }
    }

    fn guarded(&self, guard: CommitGuard) -> Self {
        Self { guard: Some(Arc::new(guard)), is_for_server: false, ..self.clone() }
    }

    /// Commits the changes if the guard holds at that time.
    ///
    /// Retries if only the guard's records have changed, for instance because the use of the
    /// session was recorded, or because the user changed the name in another tab.
    pub(super) async fn commit_under(&self, guard: &CommitGuard, changes: Changes) -> Result<Committed, StoreError> {
        let mut guards = self.check(guard, &changes).await?;
        guard.check_changes(&changes)?;
        for _ in 0..MAX_CONFLICTS {
            let mut guarded = changes.clone();
            let known = |key: &Key| changes.expect.iter().any(|expect| key_of(expect) == key);
            guarded.expect.extend(guards.iter().filter(|expect| !known(key_of(expect))).cloned());
            if self.commit_unguarded(guarded).await? == Committed::Yes {
                guard.unpin(&changes);
                return Ok(Committed::Yes);
            }
            let now = self.check(guard, &changes).await?;
            if now == guards {
                return Ok(Committed::Conflict);
            }
            guards = now;
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

    /// Returns whether all access of a user is being revoked. The records of the access may remain until
    /// the revocation is complete, but lists must not show them.
    pub async fn has_open_revocation(&self, subject: Subject) -> Result<bool, StoreError> {
        Ok(!self.engine.scan(&table::revocations(subject), None, 1).await?.is_empty())
    }

    /// Returns the expectations that the guard adds to a commit of these changes.
    ///
    /// # Errors
    /// [`StoreError::SignedOut`] if the guard does not hold, [`StoreError::NotPermitted`] if the user
    /// does not satisfy the rule of the page, [`StoreError::Contended`] while a revocation is open.
    async fn check(&self, guard: &CommitGuard, changes: &Changes) -> Result<Vec<Expect>, StoreError> {
        let (session, cookie, subject, rule, limit) = match guard {
            CommitGuard::Credentials { subject, password } => {
                let user = self.user_record(*subject).await?.ok_or(StoreError::SignedOut)?;
                let is_same = CredentialMark::for_user(&user.value, 0).password == *password;
                return if is_same && user.value.is_enabled() {
                    Ok(vec![user.unchanged()])
                } else {
                    Err(StoreError::SignedOut)
                };
            }
            CommitGuard::Token(token) => return self.check_token(token, changes).await,
            CommitGuard::Code { session, subject } => (*session, None, *subject, None, None),
            CommitGuard::Page(page) => {
                let PageSession { cookie, subject, rule, limit, target } =
                    page.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let ((session, cookie), subject) = cookie.zip(subject).ok_or(StoreError::SignedOut)?;
                (session, Some(cookie), subject, rule, limit.zip(target))
            }
        };
        let keys = [table::session(session), table::user(subject)];
        let mut records = self.engine.get_many(&keys).await?.into_iter();
        let [session, user] = [records.next().flatten(), records.next().flatten()];
        let (Some(session), Some(user)) = (session, user) else { return Err(StoreError::SignedOut) };
        let session: Loaded<Session> = record::decode(&keys[0], session)?;
        let user: Loaded<User> = record::decode(&keys[1], user)?;
        let accepts = cookie.is_none_or(|cookie| session.value.cookie == cookie);
        if !accepts || session.value.sign_in_of(subject).is_none() || !user.value.is_enabled() {
            return Err(StoreError::SignedOut);
        }
        if rule.is_some_and(|rule| !rule.holds(&user.value)) {
            return Err(StoreError::NotPermitted);
        }
        // Check this after the user record was read. A revocation that opens between the two reads
        // changes the user record, so the commit fails.
        if cookie.is_some() && self.has_open_revocation(subject).await? {
            return Err(StoreError::Contended);
        }
        let mut expect = vec![session.unchanged(), user.unchanged()];
        if let Some((limit, target)) = limit.filter(|(_, target)| *target != subject) {
            let target = self.user_record(target).await?.filter(|target| limit.holds(&target.value));
            expect.push(target.ok_or(StoreError::NotPermitted)?.unchanged());
        }
        Ok(expect)
    }
}

impl Store {
    /// Returns the expectations that the guard of an API token adds to a commit of these changes.
    ///
    /// # Errors
    /// [`StoreError::SignedOut`] if the token was deleted, or its creator no longer satisfies the rule.
    /// [`StoreError::NotPermitted`] if the changes are about the access of a protected user.
    async fn check_token(&self, guard: &TokenGuard, changes: &Changes) -> Result<Vec<Expect>, StoreError> {
        let token = self.load::<ApiToken>(table::api_token(&guard.hash)).await?.ok_or(StoreError::SignedOut)?;
        let mut expect = vec![token.unchanged()];
        if let Some(creator) = guard.creator {
            let user = self.user_record(creator).await?.ok_or(StoreError::SignedOut)?;
            // A revocation that opens after this read changes the user, or deletes the token.
            if !user.value.is_enabled() || !guard.rule.holds(&user.value) || self.has_open_revocation(creator).await? {
                return Err(StoreError::SignedOut);
            }
            expect.push(user.unchanged());
        }
        let Some(protected) = guard.protected.as_ref().filter(|protected| protected.access) else { return Ok(expect) };
        for subject in access::owners(changes) {
            // A user who gets a role after this read has another record, so the commit fails.
            let Some(user) = self.user_record(subject).await? else { continue };
            if protected.rule.holds(&user.value) {
                return Err(StoreError::NotPermitted);
            }
            if Some(subject) != guard.creator {
                expect.push(user.unchanged());
            }
        }
        Ok(expect)
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
    /// The cookie belongs to the session, the session has a sign-in of the user, and the user has
    /// no open revocation.
    Page(Mutex<PageSession>),
    /// The session has a sign-in of the user. There is no cookie, because a client sends the
    /// request.
    Code { session: SessionId, subject: Subject },
    /// The token for the admin API is stored, and its creator may use it.
    Token(TokenGuard),
    /// The user still has the password that was verified. There is no session yet.
    Credentials { subject: Subject, password: Option<SecretHash> },
}

impl CommitGuard {
    /// Checks that the user of the page still satisfies the rule after these changes, and that the
    /// records of other users satisfy the limit.
    ///
    /// # Errors
    /// [`StoreError::NotPermitted`] if not.
    fn check_changes(&self, changes: &Changes) -> Result<(), StoreError> {
        let page = match self {
            Self::Page(page) => page,
            Self::Token(token) => return token.check_changes(changes),
            Self::Code { .. } | Self::Credentials { .. } => return Ok(()),
        };
        let PageSession { subject, rule, limit, .. } = page.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(subject) = subject else { return Ok(()) };
        let key = table::user(subject);
        if let Some(limit) = limit {
            let is_other = |changed: &&Key| table::is_user(changed) && **changed != key;
            if changes.delete.iter().any(|deleted| is_other(&deleted)) {
                return Err(StoreError::NotPermitted);
            }
            for (other, value) in changes.put.iter().filter(|(put, _)| is_other(&put)) {
                let next: Loaded<User> = record::decode(other, value.clone())?;
                if !limit.holds(&next.value) {
                    return Err(StoreError::NotPermitted);
                }
            }
        }
        let Some(rule) = rule else { return Ok(()) };
        if changes.delete.contains(&key) {
            return Err(StoreError::NotPermitted);
        }
        for (_, value) in changes.put.iter().filter(|(put, _)| *put == key) {
            let next: Loaded<User> = record::decode(&key, value.clone())?;
            if !next.value.is_enabled() || !rule.holds(&next.value) {
                return Err(StoreError::NotPermitted);
            }
        }
        Ok(())
    }
}

impl CommitGuard {
    /// Releases the pinned record after these changes have replaced it.
    fn unpin(&self, changes: &Changes) {
        if let Self::Token(token) = self {
            let mut pinned = token.pinned.lock().unwrap_or_else(PoisonError::into_inner);
            if pinned.as_ref().is_some_and(|(key, _)| is_changed(changes, key)) {
                *pinned = None;
            }
        }
    }
}

/// Token of a request to the admin API, and what its commits require.
#[derive(Debug)]
pub(super) struct TokenGuard {
    hash: SecretHash,
    /// Administrator who created the token. `None` for an operator.
    creator: Option<Subject>,
    /// Rule about the creator.
    rule: UserRule,
    /// Users whom the token may not change.
    protected: Option<ProtectedUsers>,
    /// Record that may be replaced only if it has these bytes: see [`Store::pin_user`].
    pinned: Mutex<Option<(Key, Value)>>,
}

impl TokenGuard {
    /// Checks the pinned record and the changed users.
    ///
    /// # Errors
    /// [`StoreError::PreconditionFailed`] if the pinned record has changed, [`StoreError::NotPermitted`]
    /// if the token may not change one of the users.
    fn check_changes(&self, changes: &Changes) -> Result<(), StoreError> {
        if let Some((key, bytes)) = &*self.pinned.lock().unwrap_or_else(PoisonError::into_inner)
            && is_changed(changes, key)
            && expected(changes, key) != Some(bytes)
        {
            return Err(StoreError::PreconditionFailed);
        }
        let puts = changes.put.iter().map(|(key, value)| (key, Some(value)));
        let all = puts.chain(changes.delete.iter().map(|key| (key, None)));
        for (key, after) in all.filter(|(key, _)| key.first() == Some(&(Table::User as u8))) {
            let read = |value: &Value| -> Result<User, StoreError> { Ok(record::decode(key, value.clone())?.value) };
            let before = expected(changes, key).map(read).transpose()?;
            let after = after.map(read).transpose()?;
            if let Some(protected) = &self.protected
                && before.iter().chain(&after).any(|user| protected.rule.holds(user))
            {
                return Err(StoreError::NotPermitted);
            }
            // The token would remain without a creator who may use it.
            if self.creator.is_some_and(|creator| *key == table::user(creator))
                && !after.is_some_and(|user| user.is_enabled() && self.rule.holds(&user))
            {
                return Err(StoreError::NotPermitted);
            }
        }
        Ok(())
    }
}

fn is_changed(changes: &Changes, key: &Key) -> bool {
    changes.delete.contains(key) || changes.put.iter().any(|(put, _)| put == key)
}

/// Returns the bytes that the changes expect of a record.
fn expected<'c>(changes: &'c Changes, key: &Key) -> Option<&'c Value> {
    changes.expect.iter().find_map(|expect| match expect {
        Expect::Value(known, bytes) if known == key => Some(bytes),
        _ => None,
    })
}

/// Users whom a token for the admin API may not change. See [`Store::for_api_token`].
#[derive(Debug, Clone)]
pub struct ProtectedUsers {
    /// Rule that the protected users satisfy. The record of a user must not satisfy it before or after
    /// a change.
    pub rule: UserRule,
    /// Whether their access is protected too: sessions, grants, consents, application passwords,
    /// two-factor methods, links and revocations.
    pub access: bool,
}

/// Rule about the user of a page, such as a role that the page requires.
#[derive(Clone)]
pub struct UserRule(Arc<dyn Fn(&User) -> bool + Send + Sync>);

impl UserRule {
    /// Creates a rule from a function that returns whether a user satisfies it.
    pub fn new(holds: impl Fn(&User) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(holds))
    }

    pub(crate) fn holds(&self, user: &User) -> bool {
        (self.0)(user)
    }
}

impl fmt::Debug for UserRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UserRule(…)")
    }
}

/// Session and user of a request to a page.
#[derive(Debug, Clone, Default)]
pub(super) struct PageSession {
    /// Current cookie. The request itself may renew it.
    pub(super) cookie: Option<(SessionId, SecretHash)>,
    /// User of the page. `None` until [`Store::act_for`] is called.
    pub(super) subject: Option<Subject>,
    /// Rule about the user. `None` if the page only requires that the user is signed in.
    pub(super) rule: Option<UserRule>,
    /// Rule about other users. `None` if the user of the page may change all of them.
    pub(super) limit: Option<UserRule>,
    /// User on whom the user of the page acts.
    pub(super) target: Option<Subject>,
}
