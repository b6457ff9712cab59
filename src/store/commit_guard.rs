//! Conditions of commits on behalf of a user; [`super::guarded`] enforces them.

use std::sync::Mutex;

use sealgate_domain::secret::SecretHash;
use sealgate_domain::session::SessionId;
use sealgate_domain::user::Subject;

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
