//! What must hold for a commit that is made for a user; [`super::guarded`] holds commits against it.

use std::sync::Mutex;

use crate::domain::secret::SecretHash;
use crate::domain::session::SessionId;
use crate::domain::user::Subject;

/// What must hold for a commit.
#[derive(Debug)]
pub(super) enum CommitGuard {
    /// The cookie opens its session, the user of the page is signed in there, and no revocation of theirs is open.
    Page(Mutex<PageSession>),
    /// The user is signed in to the session, whose cookie a client does not have.
    Code { session: SessionId, subject: Subject },
    /// The user's password is the one that was proven. There is no session yet.
    Credentials { subject: Subject, password: Option<SecretHash> },
}

/// The session of a page's request.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageSession {
    /// Of the cookie in force: the request may renew it.
    pub(super) cookie: Option<(SessionId, SecretHash)>,
    /// Whose page it is, once that is known.
    pub(super) subject: Option<Subject>,
}
