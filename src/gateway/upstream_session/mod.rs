//! Sessions at applications that have their own login form.
//!
//! The gateway signs the user in when a browser session first opens the application, keeps the
//! application's cookies in memory, and adds them to the requests of this session only. The sign-in
//! number of a session grows with each sign-in, so that a late response of an earlier sign-in
//! changes nothing.
//!
//! - One sign-in at a time for each session. Requests wait for it, up to [`WAIT`].
//! - A sign-in runs in a task of its own, because the client that caused it may disconnect.
//! - A password that the application refused is not sent again until it is changed. After other
//!   errors, no sign-in of the account starts for [`PAUSE`] or [`LONG_PAUSE`].

mod client;
mod held;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use sealgate_config::App;
use sealgate_core::state::Sealgate;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::User;
use sealgate_store::StoreError;
use tokio::task::JoinSet;

use crate::policy::SignedIn;
use client::AppClient;
pub(crate) use held::{SharedSession, UserSession};

/// Maximum time that a request waits for a sign-in.
const WAIT: Duration = Duration::from_secs(10);

/// Pause after a sign-in that failed before the password was sent.
const PAUSE: Duration = Duration::from_secs(5);

/// Pause after a sign-in that failed after the password was sent. The application may have counted
/// it as a wrong password.
const LONG_PAUSE: Duration = Duration::from_mins(5);

/// Minimum interval between probes of one session.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of sessions of one application. If there are more, the one that was unused for
/// the longest time is ended.
const MAX_SESSIONS: usize = 10_000;

/// Interval in which each session is compared with the browser session that it belongs to.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum number of sessions that are checked or ended concurrently.
const CONCURRENT: usize = 16;

/// Reason why a user has no session at the application.
#[derive(Debug)]
pub(crate) enum LoginRefusal {
    /// The user has not stored a name and password for the application.
    NoCredential,
    /// The application refused the stored name or password.
    WrongPassword,
    /// The sign-in failed for another reason, which was logged.
    Failed,
    /// The sign-in takes longer than [`WAIT`].
    Late,
    Store(StoreError),
}

impl LoginRefusal {
    /// Returns the label in metrics and logs.
    pub(crate) const fn as_str(&self) -> &'static str {
        match self {
            Self::NoCredential => "no_app_credential",
            Self::WrongPassword => "app_password_refused",
            Self::Failed | Self::Store(_) => "app_sign_in_failed",
            Self::Late => "app_sign_in_late",
        }
    }
}

/// All sessions at one application.
pub(crate) struct UpstreamSessions {
    client: Arc<AppClient>,
    sessions: Mutex<HashMap<SessionId, Arc<UserSession>>>,
}

impl UpstreamSessions {
    /// Creates the sessions of an application. Returns `None` if it needs none.
    pub(crate) fn of_app(app: &App) -> Option<Arc<Self>> {
        let client = AppClient::new(app)?;
        Some(Arc::new(Self { client: Arc::new(client), sessions: Mutex::default() }))
    }

    /// Returns whether the sessions remain usable with this configuration of the application.
    pub(crate) fn fits(&self, app: &App) -> bool {
        self.client.fits(app)
    }

    /// Returns whether a request for this target signs out of the application.
    pub(crate) fn is_sign_out(&self, target: &PathAndQuery) -> bool {
        self.client.login.recipe.recipe.is_sign_out(target.path(), target.query())
    }

    /// Returns the session of this browser session, after the user was signed in to the
    /// application.
    pub(crate) async fn open(
        &self,
        sealgate: &Sealgate,
        signed_in: &SignedIn,
        now: UnixTime,
    ) -> Result<Arc<UserSession>, LoginRefusal> {
        let (held, evicted) = self.find_or_insert(sealgate, signed_in, now);
        if let Some(evicted) = evicted {
            tokio::spawn(async move { evicted.end().await });
        }
        held.ensure_signed_in().await?;
        Ok(held)
    }

    /// Ends the sessions whose browser session has ended, or whose user may not sign in any more.
    ///
    /// Called every few seconds. It reads the store only for users whose access has changed, and for
    /// sessions that were not checked for [`CHECK_INTERVAL`].
    pub(crate) async fn end_orphans(&self, sealgate: &Sealgate) {
        let due: Vec<_> = {
            let sessions = self.sessions();
            sessions.iter().filter(|(_, held)| held.is_check_due()).map(|(id, held)| (*id, Arc::clone(held))).collect()
        };
        for batch in due.chunks(CONCURRENT) {
            let mut checks = JoinSet::new();
            for (id, held) in batch {
                let (id, held, store, now) = (*id, Arc::clone(held), Arc::clone(&sealgate.store), sealgate.clock.now());
                checks.spawn(async move {
                    let counter = store.access_counter(held.user());
                    let (session, user) = store.session_and_user(id, held.user()).await.ok()?;
                    let is_live = session.is_some_and(|session| {
                        session.value.is_live(now) && session.value.sign_in_of(held.user()).is_some()
                    });
                    if is_live && user.as_ref().is_some_and(User::is_enabled) {
                        held.set_checked(counter);
                        return None;
                    }
                    Some(id)
                });
            }
            for id in checks.join_all().await.into_iter().flatten() {
                let ended = self.sessions().remove(&id);
                if let Some(held) = ended {
                    tokio::spawn(async move { held.end().await });
                }
            }
        }
    }

    /// Ends all sessions, because the application's configuration has changed.
    pub(crate) fn end_all(&self) {
        let all = std::mem::take(&mut *self.sessions());
        tokio::spawn(async move {
            for held in all.into_values() {
                held.end().await;
            }
        });
    }

    /// Returns the session, and the one that it replaces if there are too many.
    fn find_or_insert(
        &self,
        sealgate: &Sealgate,
        signed_in: &SignedIn,
        now: UnixTime,
    ) -> (Arc<UserSession>, Option<Arc<UserSession>>) {
        let mut sessions = self.sessions();
        // A browser session can belong to several users in turn. The session at the application
        // belongs to one.
        let known = sessions.get(&signed_in.session).filter(|held| held.user() == signed_in.user.sub);
        if let Some(known) = known {
            known.note_use(now);
            return (Arc::clone(known), None);
        }
        let held = Arc::new(UserSession::new(Arc::clone(&self.client), sealgate, signed_in.user.sub, now));
        let mut evicted = sessions.insert(signed_in.session, Arc::clone(&held));
        if sessions.len() > MAX_SESSIONS {
            let oldest = sessions.iter().min_by_key(|(_, held)| held.last_use()).map(|(id, _)| *id);
            evicted = oldest.and_then(|id| sessions.remove(&id));
        }
        (held, evicted)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Arc<UserSession>>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Shows the number of sessions only.
impl fmt::Debug for UpstreamSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamSessions({})", self.sessions().len())
    }
}

/// A failed sign-in of an account.
#[derive(Debug, Clone, Copy)]
struct RecentFailure {
    until: Option<Instant>,
    is_wrong_password: bool,
}
