//! Sessions at applications that have their own login form.
//!
//! The gateway signs the user in when a browser session first opens the application. It keeps the
//! application's cookies in memory, and adds them only to requests of this browser session. The
//! sign-in number of a session grows with each sign-in, so that a late response of an earlier
//! sign-in changes nothing.
//!
//! - Each session has at most one sign-in in progress. Requests wait for it, up to [`WAIT`].
//! - A sign-in runs in a task of its own, because the client that caused it may disconnect.
//! - After an error, no sign-in of the account starts for a while: see `recent_sign_ins`.

mod client;
mod held;
mod recent_sign_ins;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{HeaderValue, Method};
use sealgate_config::{App, IssuerUrl};
use sealgate_core::state::Sealgate;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Subject, User};
use sealgate_store::StoreError;
use tokio::task::JoinSet;

use crate::policy::SignedIn;
use client::AppClient;
pub use client::max_login_threads;
pub(crate) use held::{SharedSession, UserSession};

/// Maximum time that a request waits for a sign-in.
const WAIT: Duration = Duration::from_secs(10);

/// Maximum time that a request waits for a probe.
const PROBE_WAIT: Duration = Duration::from_secs(3);

/// Pause after a probe that the application did not answer.
const UNANSWERED_PAUSE: Duration = Duration::from_secs(30);

/// Minimum interval between probes of one session that are caused by vague indications.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

/// Maximum number of sessions of one application. If there are more, the least recently used
/// session is ended.
const MAX_SESSIONS: usize = 10_000;

/// Interval at which each session is compared with the browser session that it belongs to.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum number of sessions that are checked or ended concurrently.
const CONCURRENT: usize = 16;

/// Reason why a user has no session at the application.
#[derive(Debug)]
pub(crate) enum LoginRefusal {
    /// The user has not stored a name and password for the application.
    NoCredential,
    /// The application refused the user's stored name or password.
    WrongPassword,
    /// The application refused the name or password of a service account.
    WrongServicePassword,
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
            Self::WrongPassword | Self::WrongServicePassword => "app_password_refused",
            Self::Failed | Self::Store(_) => "app_sign_in_failed",
            Self::Late => "app_sign_in_late",
        }
    }
}

/// Sessions by browser session and user. In one browser session, several users can sign in one
/// after another. Each of them has a separate session at the application.
type SessionMap = HashMap<(SessionId, Subject), Arc<UserSession>>;

/// All sessions at one application.
pub(crate) struct UpstreamSessions {
    client: Arc<AppClient>,
    /// `None` after [`Self::end_all`].
    sessions: Mutex<Option<SessionMap>>,
}

impl UpstreamSessions {
    /// Creates the sessions of an application. Returns `None` if the application needs no sessions.
    pub(crate) fn of_app(app: &App, issuer: &IssuerUrl) -> Option<Arc<Self>> {
        let client = AppClient::new(app, issuer)?;
        Some(Arc::new(Self { client: Arc::new(client), sessions: Mutex::new(Some(HashMap::new())) }))
    }

    /// Returns whether the sessions remain usable with this configuration of the application.
    pub(crate) fn fits(&self, app: &App, issuer: &IssuerUrl) -> bool {
        self.client.fits(app, issuer)
    }

    /// Returns whether a request with this method for this target signs out of the application.
    pub(crate) fn is_sign_out(&self, method: &Method, target: &PathAndQuery) -> bool {
        self.client.login.recipe.recipe.is_sign_out(method, target.path(), target.query())
    }

    /// Returns the session at the application for this browser session. Signs the user in to the
    /// application first if necessary. `address` and `user_agent` are those of the user's browser.
    pub(crate) async fn open(
        &self,
        sealgate: &Sealgate,
        signed_in: &SignedIn,
        address: &str,
        user_agent: Option<&HeaderValue>,
        now: UnixTime,
    ) -> Result<Arc<UserSession>, LoginRefusal> {
        let (held, evicted) = self.find_or_insert(sealgate, signed_in, now).ok_or(LoginRefusal::Failed)?;
        held.set_client(signed_in.app_session, address, user_agent);
        if let Some(evicted) = evicted {
            tokio::spawn(async move { evicted.end().await });
        }
        held.ensure_signed_in().await?;
        Ok(held)
    }

    /// Ends a session if its browser session has ended, if Sealgate's session on the application's
    /// host has ended, or if its user may no longer sign in.
    ///
    /// The server calls this function every few seconds. It reads the store only for users whose
    /// access has changed, and for sessions that were not checked for [`CHECK_INTERVAL`].
    pub(crate) async fn end_orphans(&self, sealgate: &Sealgate) {
        let due: Vec<_> = {
            let sessions = self.sessions();
            let all = sessions.iter().flatten();
            all.filter(|(_, held)| held.is_check_due()).map(|(key, held)| (*key, Arc::clone(held))).collect()
        };
        let keep = sealgate.config.sessions.keep_signed_in;
        for batch in due.chunks(CONCURRENT) {
            let mut checks = JoinSet::new();
            for (key, held) in batch {
                let (key, held, store, now) =
                    (*key, Arc::clone(held), Arc::clone(&sealgate.store), sealgate.clock.now());
                checks.spawn(async move {
                    let counter = store.access_counter(held.user());
                    let (session, user) = store.session_and_user(key.0, held.user()).await.ok()?;
                    let is_live = session.is_some_and(|session| {
                        session.value.is_live(now, keep) && session.value.sign_in_of(held.user()).is_some()
                    });
                    let is_open = match held.app_session() {
                        Some(own) => store.app_session(own).await.ok()?.is_some(),
                        None => true,
                    };
                    if is_live && is_open && user.as_ref().is_some_and(User::is_enabled) {
                        held.set_checked(counter);
                        return None;
                    }
                    Some(key)
                });
            }
            for key in checks.join_all().await.into_iter().flatten() {
                let ended = self.sessions().as_mut().and_then(|sessions| sessions.remove(&key));
                if let Some(held) = ended {
                    tokio::spawn(async move { held.end().await });
                }
            }
        }
    }

    /// Ends all sessions, because the application's configuration has changed. Requests under the
    /// earlier configuration cannot start new sessions.
    pub(crate) fn end_all(&self) {
        let all = self.sessions().take();
        tokio::spawn(async move {
            for held in all.into_iter().flat_map(HashMap::into_values) {
                held.end().await;
            }
        });
    }

    /// Returns the session for this browser session. If there are now too many sessions, also
    /// returns the session that the caller must end. Returns `None` after [`Self::end_all`].
    fn find_or_insert(
        &self,
        sealgate: &Sealgate,
        signed_in: &SignedIn,
        now: UnixTime,
    ) -> Option<(Arc<UserSession>, Option<Arc<UserSession>>)> {
        let mut sessions = self.sessions();
        let sessions = sessions.as_mut()?;
        let key = (signed_in.session, signed_in.user.sub);
        if let Some(known) = sessions.get(&key) {
            known.note_use(now);
            return Some((Arc::clone(known), None));
        }
        let held = Arc::new(UserSession::new(Arc::clone(&self.client), sealgate, signed_in.user.sub, now));
        sessions.insert(key, Arc::clone(&held));
        if sessions.len() <= MAX_SESSIONS {
            return Some((held, None));
        }
        let oldest = sessions.iter().min_by_key(|(_, held)| held.last_use()).map(|(key, _)| *key);
        Some((held, oldest.and_then(|key| sessions.remove(&key))))
    }

    fn sessions(&self) -> MutexGuard<'_, Option<SessionMap>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sessions at all applications of the current configuration, for the task that ends them.
#[derive(Debug, Default)]
pub(crate) struct CurrentSessions(Mutex<Vec<Arc<UpstreamSessions>>>);

impl CurrentSessions {
    /// Sets the sessions of a new configuration. Ends the sessions of applications whose settings
    /// have changed.
    pub(crate) fn replace<'a>(&self, new: impl Iterator<Item = &'a Arc<UpstreamSessions>>) {
        let new: Vec<_> = new.map(Arc::clone).collect();
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for old in current.iter().filter(|old| !new.iter().any(|new| Arc::ptr_eq(new, old))) {
            old.end_all();
        }
        *current = new;
    }

    pub(crate) fn all(&self) -> Vec<Arc<UpstreamSessions>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Shows only the number of sessions.
impl fmt::Debug for UpstreamSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpstreamSessions({})", self.sessions().as_ref().map_or(0, HashMap::len))
    }
}
