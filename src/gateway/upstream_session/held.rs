//! Session at an application, opened for one browser session.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use async_trait::async_trait;
use http::header::{CONTENT_TYPE, LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderValue, StatusCode};
use sealgate_app_login::CookieJar;
use sealgate_core::state::Sealgate;
use sealgate_core::web::cookie;
use sealgate_domain::session::SessionId;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_edge::{EndSign, SessionState, UpstreamSession};
use sealgate_store::Store;
use sealgate_system::clock::Clock;
use sealgate_system::metrics::Metrics;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use super::client::{AppClient, BrowserFacts, ProbeResult};
use super::{CHECK_INTERVAL, LoginRefusal, PROBE_INTERVAL, PROBE_WAIT, UNANSWERED_PAUSE, WAIT};

/// Session at an application, opened for one browser session.
pub(crate) struct UserSession {
    client: Arc<AppClient>,
    store: Arc<Store>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    user: Subject,
    /// Whether browsers reach the application over https.
    is_secure: bool,
    /// Lock of the task that signs in or sends a probe.
    turn: AsyncMutex<()>,
    state: Mutex<State>,
    /// Time of the last use, in seconds since 1970.
    last_use: AtomicU64,
}

#[derive(Default)]
struct State {
    /// Browser of the user's last request.
    browser: BrowserFacts,
    /// Sealgate's session on the application's host in the last request. `None` if the application
    /// uses the provider's session.
    app_session: Option<SessionId>,
    /// Index of the upstream at which the user was signed in.
    upstream: usize,
    /// Username of the sign-in at the application.
    username: String,
    /// Number of sign-ins so far.
    sign_in: u64,
    /// `None` before the first sign-in and after a failed one.
    jar: Option<CookieJar>,
    /// Time at which the password of the sign-in was stored; `None` for a service account.
    password_changed_at: Option<UnixTime>,
    /// Value of the user's access counter when the password was last compared with the store.
    access_counter: u64,
    /// The user's access counter and the time when the browser session was last checked.
    checked: Option<(u64, Instant)>,
    /// Time until which a vague indication of an ended session causes no probe.
    no_probe_until: Option<Instant>,
    /// Time until which no probe is sent, because the application did not answer the last one.
    unanswered_until: Option<Instant>,
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

    /// Returns Sealgate's session on the application's host in the last request.
    pub(super) fn app_session(&self) -> Option<SessionId> {
        self.state().app_session
    }

    /// Stores Sealgate's session of a request, and the address and `User-Agent` of the user's
    /// browser. Requests of the gateway to the application repeat the address and `User-Agent`.
    pub(super) fn set_client(&self, app_session: Option<SessionId>, address: &str, user_agent: Option<&HeaderValue>) {
        let mut state = self.state();
        state.app_session = app_session;
        if state.browser.address != address || state.browser.user_agent.as_ref() != user_agent {
            state.browser = BrowserFacts { address: address.to_owned(), user_agent: user_agent.cloned() };
        }
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

    /// Records that the browser session is still live. `counter` is the user's access counter
    /// before the check.
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
        self.in_own_task(sign_in, None).await.map(drop)
    }

    /// Ends the session at the application. Later requests cannot use it.
    pub(super) async fn end(&self) {
        let (jar, upstream, browser) = {
            let mut state = self.state();
            state.is_ended = true;
            (state.jar.take(), state.upstream, state.browser.clone())
        };
        if let Some(jar) = jar {
            self.client.sign_out(jar, upstream, &browser, self.clock.now()).await;
        }
    }

    /// Runs [`Self::refresh`] in a task of its own, and waits for it up to [`WAIT`].
    async fn in_own_task(self: &Arc<Self>, seen: u64, sign: Option<EndSign>) -> Result<SessionState, LoginRefusal> {
        let session = Arc::clone(self);
        let task = tokio::spawn(async move { session.refresh(seen, sign).await });
        match timeout(WAIT, task).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(LoginRefusal::Failed),
            Err(_) => Err(LoginRefusal::Late),
        }
    }

    /// Signs the user in if necessary.
    ///
    /// `seen` is the number of the sign-in that the caller knows. `sign` is the caller's indication
    /// that the session of sign-in `seen` has ended.
    async fn refresh(self: Arc<Self>, seen: u64, sign: Option<EndSign>) -> Result<SessionState, LoginRefusal> {
        let _turn = self.turn.lock().await;
        let counter = self.store.access_counter(self.user);
        let (jar, sign_in, username, changed_at, known, sign) = {
            let state = self.state();
            if state.is_ended {
                return Err(LoginRefusal::Failed);
            }
            let is_over = |until: Option<Instant>| until.is_none_or(|until| Instant::now() >= until);
            let sign = sign.filter(|sign| {
                is_over(state.unanswered_until) && (*sign == EndSign::Clear || is_over(state.no_probe_until))
            });
            let known = state.access_counter == counter;
            (state.jar.clone(), state.sign_in, state.username.clone(), state.password_changed_at, known, sign)
        };
        if let Some(jar) = jar {
            // After a change of the user's access, another account may apply, or the password may have
            // been changed or removed.
            let is_current = known
                || self
                    .client
                    .is_account_of(&self.store, self.user, &username, changed_at)
                    .await
                    .map_err(LoginRefusal::Store)?;
            if is_current {
                self.state().access_counter = counter;
                if sign_in > seen {
                    // Another request has renewed the session meanwhile.
                    return Ok(SessionState::Renewed);
                }
                let Some(sign) = sign else { return Ok(SessionState::Open) };
                if self.is_open(jar, sign).await {
                    return Ok(SessionState::Open);
                }
            } else {
                let upstream = self.state().upstream;
                self.sign_out_later(jar, upstream);
            }
            self.state().jar = None;
        }
        let account = self.client.account(&self.store, self.user).await?;
        let (browser, now) = (self.state().browser.clone(), self.clock.now());
        let signed_in = self.client.sign_in(&self.store, &self.metrics, self.user, &account, &browser, now).await;
        let (jar, upstream) = signed_in?;
        let mut state = self.state();
        if state.is_ended {
            // The browser session ended meanwhile.
            drop(state);
            self.sign_out_later(jar, upstream);
            return Err(LoginRefusal::Failed);
        }
        state.sign_in += 1;
        state.jar = Some(jar);
        state.upstream = upstream;
        state.username = account.username;
        state.password_changed_at = account.changed_at;
        state.access_counter = counter;
        // The sign-in ended with a probe, so another probe is not necessary yet.
        state.no_probe_until = Some(Instant::now() + PROBE_INTERVAL);
        Ok(SessionState::Renewed)
    }

    fn sign_out_later(&self, jar: CookieJar, upstream: usize) {
        let (client, browser, now) = (Arc::clone(&self.client), self.state().browser.clone(), self.clock.now());
        tokio::spawn(async move { client.sign_out(jar, upstream, &browser, now).await });
    }

    /// Sends a probe, and returns whether the session is open. Without an answer in time, the
    /// session counts as open, so that the user sees the application's response.
    async fn is_open(&self, jar: CookieJar, sign: EndSign) -> bool {
        let (before, upstream, browser, username) = {
            let state = self.state();
            (jar.clone(), state.upstream, state.browser.clone(), state.username.clone())
        };
        let probe = self.client.probe(&username, jar, sign, upstream, &browser, self.clock.now());
        let result = timeout(PROBE_WAIT, probe).await.unwrap_or(ProbeResult::Unanswered);
        let mut state = self.state();
        match result {
            ProbeResult::Ended => return false,
            ProbeResult::Busy => {}
            ProbeResult::Open(after) => {
                state.no_probe_until = Some(Instant::now() + PROBE_INTERVAL);
                if let Some(jar) = &mut state.jar {
                    jar.merge(&before, after, self.clock.now());
                }
            }
            ProbeResult::Unanswered => state.unanswered_until = Some(Instant::now() + UNANSWERED_PAUSE),
        }
        true
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the `Set-Cookie` fields for cookies that the browser may receive and does not have.
    fn browser_cookies(&self, jar: &CookieJar, path: &str, request: &HeaderMap) -> Vec<HeaderValue> {
        let (now, secure) = (self.clock.now(), if self.is_secure { "; Secure" } else { "" });
        let names = self.client.login.browser_cookies.iter();
        let cookies = names.flat_map(|name| jar.named(name, path, now).map(move |cookie| (name, cookie)));
        let missing = cookies.filter_map(|(name, (value, path))| {
            let pair = format!("{name}={value}");
            if cookie::has(request, &pair) {
                return None;
            }
            HeaderValue::try_from(format!("{pair}; Path={path}; SameSite=Lax{secure}")).ok()
        });
        missing.collect()
    }
}

/// Omits the cookies, which are secret.
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
        for line in response.get_all(SET_COOKIE) {
            if let Ok(line) = std::str::from_utf8(line.as_bytes()) {
                jar.store(line, path, now);
            }
        }
        self.0.browser_cookies(jar, path, request)
    }

    fn end_sign(&self, status: StatusCode, response: &HeaderMap) -> Option<EndSign> {
        let text = |name| response.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let content_type = text(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let is_page = ["text/html", "application/xhtml", "application/json"]
            .iter()
            .any(|kind| content_type.trim_start().starts_with(kind));
        let recipe = &self.0.client.login.recipe.recipe;
        let is_typical = recipe.may_be_expired(status.as_u16(), text(LOCATION), is_page)?;
        Some(if is_typical { EndSign::Clear } else { EndSign::Vague })
    }

    async fn renew(&self, sign_in: u64, sign: EndSign) -> SessionState {
        {
            let state = self.0.state();
            if state.sign_in > sign_in && state.jar.is_some() {
                return SessionState::Renewed;
            }
        }
        match self.0.in_own_task(sign_in, Some(sign)).await {
            Ok(state) => state,
            // The session may still be open, and the application may have executed the request. So
            // the user gets the application's response.
            Err(LoginRefusal::Late | LoginRefusal::Store(_)) => SessionState::Open,
            Err(
                LoginRefusal::NoCredential
                | LoginRefusal::WrongPassword
                | LoginRefusal::WrongServicePassword
                | LoginRefusal::Failed,
            ) => SessionState::Ended,
        }
    }
}
