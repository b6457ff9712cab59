//! Session of one browser session at one application.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use sealgate_app_login::CookieJar;
use sealgate_core::state::Sealgate;
use sealgate_core::web::cookie;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_edge::{SessionState, UpstreamSession};
use sealgate_store::Store;
use sealgate_system::clock::Clock;
use sealgate_system::metrics::Metrics;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use super::client::AppClient;
use super::{CHECK_INTERVAL, LoginRefusal, PROBE_INTERVAL, WAIT};

/// Session of one browser session at one application.
pub(crate) struct UserSession {
    client: Arc<AppClient>,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    user: Subject,
    /// Whether browsers reach the application over https.
    is_secure: bool,
    /// Held by the task that signs in or probes.
    turn: AsyncMutex<()>,
    state: Mutex<State>,
    /// Time of the last use, in seconds since 1970.
    last_use: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Number of sign-ins so far.
    sign_in: u64,
    /// `None` before the first sign-in and after a failed one.
    jar: Option<CookieJar>,
    /// Time at which the password of the sign-in was stored; `None` for a service account.
    password_changed_at: Option<UnixTime>,
    /// The user's access counter when the password was last compared with the store.
    access_counter: u64,
    /// The user's access counter and the time when the browser session was last checked.
    checked: Option<(u64, Instant)>,
    /// Time of the last probe that found the session open.
    probed_at: Option<Instant>,
    is_ended: bool,
}

impl UserSession {
    pub(super) fn new(client: Arc<AppClient>, sealgate: &Sealgate, user: Subject, now: UnixTime) -> Self {
        Self {
            client,
            store: Arc::clone(&sealgate.store),
            clock: Arc::clone(&sealgate.clock),
            metrics: Arc::clone(&sealgate.metrics),
            user,
            is_secure: sealgate.config.issuer.is_https(),
            turn: AsyncMutex::default(),
            state: Mutex::default(),
            last_use: AtomicU64::new(now.seconds()),
        }
    }

    pub(super) fn user(&self) -> Subject {
        self.user
    }

    pub(super) fn note_use(&self, now: UnixTime) {
        self.last_use.store(now.seconds(), Ordering::Relaxed);
    }

    pub(super) fn last_use(&self) -> u64 {
        self.last_use.load(Ordering::Relaxed)
    }

    /// Returns whether the browser session must be checked: the user's access may have changed, or
    /// the last check was long ago.
    pub(super) fn is_check_due(&self) -> bool {
        let counter = self.store.access_counter(self.user);
        self.state().checked.is_none_or(|(checked, at)| checked != counter || at.elapsed() >= CHECK_INTERVAL)
    }

    /// Notes that the browser session was found alive. `counter` is the user's access counter before
    /// the check.
    pub(super) fn set_checked(&self, counter: u64) {
        self.state().checked = Some((counter, Instant::now()));
    }

    /// Signs the user in, unless the user is signed in with the current password.
    pub(super) async fn ensure_signed_in(self: &Arc<Self>) -> Result<(), LoginRefusal> {
        let counter = self.store.access_counter(self.user);
        {
            let state = self.state();
            if state.jar.is_some() && state.access_counter == counter {
                return Ok(());
            }
        }
        let sign_in = self.state().sign_in;
        self.in_own_task(sign_in, false).await.map(drop)
    }

    /// Ends the session at the application. Later requests cannot use it.
    pub(super) async fn end(&self) {
        let jar = {
            let mut state = self.state();
            state.is_ended = true;
            state.jar.take()
        };
        if let Some(jar) = jar {
            self.client.sign_out(jar, self.clock.now()).await;
        }
    }

    /// Runs [`Self::refresh`] in a task of its own, and waits for it up to [`WAIT`].
    async fn in_own_task(self: &Arc<Self>, seen: u64, may_have_ended: bool) -> Result<SessionState, LoginRefusal> {
        let session = Arc::clone(self);
        let task = tokio::spawn(async move { session.refresh(seen, may_have_ended).await });
        match timeout(WAIT, task).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(LoginRefusal::Failed),
            Err(_) => Err(LoginRefusal::Late),
        }
    }

    /// Signs the user in if necessary. `seen` is the number of the sign-in that the caller knows,
    /// and `may_have_ended` is true if a response suggests that the session of this sign-in has
    /// ended.
    async fn refresh(self: Arc<Self>, seen: u64, may_have_ended: bool) -> Result<SessionState, LoginRefusal> {
        let _turn = self.turn.lock().await;
        let counter = self.store.access_counter(self.user);
        let (jar, sign_in, probed_at, known) = {
            let state = self.state();
            if state.is_ended {
                return Err(LoginRefusal::Failed);
            }
            (state.jar.clone(), state.sign_in, state.probed_at, state.access_counter == counter)
        };
        // Another request has renewed the session meanwhile.
        if sign_in > seen && jar.is_some() && known {
            return Ok(SessionState::Renewed);
        }
        let account = self.client.account(&self.store, self.user).await;
        let is_same =
            |state: &State| account.as_ref().is_ok_and(|account| account.changed_at == state.password_changed_at);
        if let Some(jar) = jar {
            let mut old = None;
            if !is_same(&self.state()) {
                // The password was changed or removed.
                old = self.state().jar.take();
            } else if !may_have_ended || probed_at.is_some_and(|at| at.elapsed() < PROBE_INTERVAL) {
                self.state().access_counter = counter;
                return Ok(SessionState::Open);
            } else if self.is_open(jar).await {
                return Ok(SessionState::Open);
            }
            if let Some(old) = old {
                let (client, now) = (Arc::clone(&self.client), self.clock.now());
                tokio::spawn(async move { client.sign_out(old, now).await });
            }
        }
        self.state().jar = None;
        let account = account?;
        let jar = self.client.sign_in(&self.store, &self.metrics, self.user, &account, self.clock.now()).await?;
        let mut state = self.state();
        if state.is_ended {
            // The browser session ended meanwhile.
            let (client, now) = (Arc::clone(&self.client), self.clock.now());
            tokio::spawn(async move { client.sign_out(jar, now).await });
            return Err(LoginRefusal::Failed);
        }
        state.sign_in += 1;
        state.jar = Some(jar);
        state.password_changed_at = account.changed_at;
        state.access_counter = counter;
        // The sign-in ended with a probe.
        state.probed_at = Some(Instant::now());
        Ok(SessionState::Renewed)
    }

    /// Asks the application whether the session is open. If it does not tell, the session counts as
    /// open, so that its user sees the application's response.
    async fn is_open(&self, jar: CookieJar) -> bool {
        let before = jar.clone();
        let Some((is_open, after)) = self.client.probe(jar, self.clock.now()).await else { return true };
        if is_open {
            let mut state = self.state();
            state.probed_at = Some(Instant::now());
            if let Some(jar) = &mut state.jar {
                jar.merge(&before, after, self.clock.now());
            }
        }
        is_open
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the `Set-Cookie` fields for cookies that the browser may receive and does not have.
    fn browser_cookies(&self, jar: &CookieJar, path: &str, request: &HeaderMap) -> Vec<HeaderValue> {
        let now = self.clock.now();
        let names = self.client.login.browser_cookies.iter();
        let missing = names.filter_map(|name| {
            let value = jar.value(name, path, now)?;
            if cookie::find(request, name) == Some(value) {
                return None;
            }
            let secure = if self.is_secure { "; Secure" } else { "" };
            HeaderValue::try_from(format!("{name}={value}; Path=/; SameSite=Lax{secure}")).ok()
        });
        missing.collect()
    }
}

/// Shows no cookies.
impl fmt::Debug for UserSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UserSession({}, {})", self.client.app, self.user)
    }
}

/// A session, for the edge.
#[derive(Debug, Clone)]
pub(crate) struct SharedSession(pub(crate) Arc<UserSession>);

#[async_trait]
impl UpstreamSession for SharedSession {
    fn cookies(&self, path: &str) -> (u64, Option<HeaderValue>) {
        let state = self.0.state();
        let header = state.jar.as_ref().and_then(|jar| jar.header(path, self.0.clock.now()));
        let value = header.and_then(|header| HeaderValue::from_bytes(header.as_bytes()).ok()).map(|mut value| {
            value.set_sensitive(true);
            value
        });
        (state.sign_in, value)
    }

    fn store_cookies(&self, sign_in: u64, path: &str, request: &HeaderMap, response: &HeaderMap) -> Vec<HeaderValue> {
        let mut state = self.0.state();
        if state.sign_in != sign_in {
            return Vec::new();
        }
        let Some(jar) = &mut state.jar else { return Vec::new() };
        let now = self.0.clock.now();
        for line in response.get_all(http::header::SET_COOKIE) {
            if let Ok(line) = std::str::from_utf8(line.as_bytes()) {
                jar.store(line, path, now);
            }
        }
        self.0.browser_cookies(jar, path, request)
    }

    fn may_have_ended(&self, status: StatusCode, response: &HeaderMap) -> bool {
        let text = |name| response.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let content_type = text(http::header::CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let is_page = ["text/html", "application/xhtml", "application/json"]
            .iter()
            .any(|kind| content_type.trim_start().starts_with(kind));
        self.0.client.login.recipe.recipe.may_be_expired(status.as_u16(), text(LOCATION), is_page)
    }

    async fn renew(&self, sign_in: u64) -> SessionState {
        {
            let state = self.0.state();
            if state.sign_in > sign_in && state.jar.is_some() {
                return SessionState::Renewed;
            }
        }
        match self.0.in_own_task(sign_in, true).await {
            Ok(state) => state,
            Err(_) => SessionState::Ended,
        }
    }
}
