//! Requests of the gateway to an application: sign-in, probe and sign-out.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use sealgate_app_login::{AppLogin, CookieJar, LoginFault, LoginOutcome, LoginTarget, probe, sign_in, sign_out};
use sealgate_config::{App, AppLoginConfig, LoginAccount, Upstream, UpstreamTls, read_login_password};
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_store::Store;
use sealgate_system::login_exchange::WebExchange;
use sealgate_system::metrics::Metrics;
use tokio::sync::Semaphore;

use super::{LONG_PAUSE, LoginRefusal, PAUSE, RecentFailure};

/// Maximum number of concurrent sign-ins, probes and sign-outs at an application.
const CONCURRENT: usize = 4;

/// Maximum number of accounts with a recent failure.
const MAX_FAILURES: usize = 10_000;

/// Client for one application under one configuration.
pub(super) struct AppClient {
    pub(super) app: String,
    pub(super) login: AppLoginConfig,
    /// Value of `Host`, if it is the public host.
    host: Option<String>,
    upstreams: Vec<Upstream>,
    tls: UpstreamTls,
    targets: Vec<LoginTarget>,
    web: OnceLock<Result<WebExchange, String>>,
    turns: Semaphore,
    /// Recent failures by account: by user, or under `None` for the service account.
    failures: Mutex<HashMap<Option<Subject>, (SecretHash, RecentFailure)>>,
}

/// Name and password with which to sign in.
pub(super) struct Account {
    username: String,
    password: Secret,
    /// Time at which a user's password was stored.
    pub(super) changed_at: Option<UnixTime>,
}

impl Account {
    /// Returns a hash of name and password, to recognize a changed account.
    fn fingerprint(&self) -> SecretHash {
        SecretHash::for_secret([self.username.as_bytes(), b"\0", self.password.expose().as_bytes()].concat().as_slice())
    }
}

impl AppClient {
    pub(super) fn new(app: &App) -> Option<Self> {
        let login = app.login.clone()?;
        let host = app.preserve_host.then(|| app.host.clone());
        let urls = app.upstreams.iter().filter_map(|upstream| match upstream {
            Upstream::Url(url) => Some(url.as_str()),
            Upstream::Socket(_) => None,
        });
        // The configuration has checked both.
        let targets = urls.filter_map(|url| LoginTarget::new(url, host.as_deref()).ok()).collect();
        Some(Self {
            app: app.name.clone(),
            login,
            host,
            upstreams: app.upstreams.clone(),
            tls: app.upstream_tls.clone(),
            targets,
            web: OnceLock::new(),
            turns: Semaphore::new(CONCURRENT),
            failures: Mutex::default(),
        })
    }

    pub(super) fn fits(&self, app: &App) -> bool {
        let host = app.preserve_host.then_some(&app.host);
        app.name == self.app
            && app.login.as_ref() == Some(&self.login)
            && (host, &app.upstreams, &app.upstream_tls) == (self.host.as_ref(), &self.upstreams, &self.tls)
    }

    /// Returns the account of a user at the application.
    pub(super) async fn account(&self, store: &Store, user: Subject) -> Result<Account, LoginRefusal> {
        match &self.login.account {
            LoginAccount::OfUser => {
                let stored = store.app_credential(user, &self.app).await.map_err(LoginRefusal::Store)?;
                let stored = stored.ok_or(LoginRefusal::NoCredential)?;
                if stored.is_refused {
                    return Err(LoginRefusal::WrongPassword);
                }
                let (username, password) = (stored.username, stored.password);
                Ok(Account { username, password, changed_at: Some(stored.changed_at) })
            }
            LoginAccount::Service { username, password_file } => {
                let password = self.service_password(password_file.clone()).await?;
                Ok(Account { username: username.clone(), password, changed_at: None })
            }
        }
    }

    async fn service_password(&self, file: PathBuf) -> Result<Secret, LoginRefusal> {
        let read = tokio::task::spawn_blocking(move || read_login_password(&file)).await;
        read.unwrap_or_else(|error| Err(error.to_string())).map_err(|error| {
            tracing::error!(app = self.app, error, "cannot read the password of the service account");
            LoginRefusal::Failed
        })
    }

    /// Signs in. `user` is the user of Sealgate.
    pub(super) async fn sign_in(
        &self,
        store: &Store,
        metrics: &Metrics,
        user: Subject,
        account: &Account,
        now: UnixTime,
    ) -> Result<CookieJar, LoginRefusal> {
        let key = account.changed_at.map(|_| user);
        let fingerprint = account.fingerprint();
        self.ensure_no_recent_failure(key, &fingerprint)?;
        let outcome = self.try_each_upstream(account, now).await;
        let failure = match outcome {
            LoginOutcome::SignedIn(jar) => {
                metrics.signed_in_to_app(&self.app, "signed_in");
                self.failures.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
                tracing::info!(app = self.app, subject = %user, "signed in to the application");
                return Ok(jar);
            }
            LoginOutcome::WrongPassword => {
                metrics.signed_in_to_app(&self.app, "wrong_password");
                tracing::warn!(
                    app = self.app,
                    subject = %user,
                    "the application refused the stored user name or password; it is not used again until it is changed"
                );
                if let Some(changed_at) = account.changed_at
                    && let Err(error) = store.refuse_app_credential(user, &self.app, changed_at).await
                {
                    tracing::warn!(app = self.app, %error, "cannot store that the application refused a password");
                }
                RecentFailure { until: None, is_wrong_password: true }
            }
            LoginOutcome::Failed(LoginFault { line, may_retry }) => {
                metrics.signed_in_to_app(&self.app, "failed");
                tracing::warn!(app = self.app, subject = %user, "the sign-in to the application failed: {line}");
                let pause = if may_retry { PAUSE } else { LONG_PAUSE };
                RecentFailure { until: Some(Instant::now() + pause), is_wrong_password: false }
            }
        };
        self.note_failure(key, fingerprint, failure);
        Err(if failure.is_wrong_password { LoginRefusal::WrongPassword } else { LoginRefusal::Failed })
    }

    /// Returns whether the session is open at the application, and its cookies afterwards. Returns
    /// `None` if the application does not tell.
    pub(super) async fn probe(&self, jar: CookieJar, now: UnixTime) -> Option<(bool, CookieJar)> {
        let target = self.targets.first()?;
        let _turn = self.turns.acquire().await.ok()?;
        let web = self.web().ok()?;
        match probe(&self.login.recipe.recipe, target, jar, web, now).await {
            Ok(state) => Some(state),
            Err(fault) => {
                tracing::warn!(app = self.app, "cannot check a session at the application: {}", fault.line);
                None
            }
        }
    }

    pub(super) async fn sign_out(&self, jar: CookieJar, now: UnixTime) {
        let Some(target) = self.targets.first() else { return };
        let Ok(_turn) = self.turns.acquire().await else { return };
        let Ok(web) = self.web() else { return };
        if let Err(fault) = sign_out(&self.login.recipe.recipe, target, jar, web, now).await {
            tracing::info!(app = self.app, "cannot sign out of the application: {}", fault.line);
        }
    }

    async fn try_each_upstream(&self, account: &Account, now: UnixTime) -> LoginOutcome {
        let Ok(_turn) = self.turns.acquire().await else { return failed("the server stops") };
        let web = match self.web() {
            Ok(web) => web,
            Err(error) => return failed(error),
        };
        let mut last = failed("the application has no upstream");
        for target in &self.targets {
            let recipe = &self.login.recipe.recipe;
            let login = AppLogin { recipe, target, user: &account.username, password: &account.password };
            let mut observe = |step| tracing::debug!(app = self.app, ?step, "sign-in to the application");
            last = sign_in(login, web, now, &mut observe).await;
            if !matches!(&last, LoginOutcome::Failed(fault) if fault.may_retry) {
                break;
            }
        }
        last
    }

    fn web(&self) -> Result<&WebExchange, &str> {
        self.web.get_or_init(|| WebExchange::new(self.tls.ca.as_deref())).as_ref().map_err(String::as_str)
    }

    fn ensure_no_recent_failure(&self, key: Option<Subject>, fingerprint: &SecretHash) -> Result<(), LoginRefusal> {
        let failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = failures.get(&key).filter(|(of, _)| of == fingerprint).map(|(_, failure)| failure);
        let Some(failure) = failure else { return Ok(()) };
        match failure {
            RecentFailure { is_wrong_password: true, .. } => Err(LoginRefusal::WrongPassword),
            RecentFailure { until, .. } if until.is_none_or(|until| Instant::now() < until) => {
                Err(LoginRefusal::Failed)
            }
            RecentFailure { .. } => Ok(()),
        }
    }

    fn note_failure(&self, key: Option<Subject>, fingerprint: SecretHash, failure: RecentFailure) {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        if failures.len() >= MAX_FAILURES {
            let now = Instant::now();
            failures.retain(|_, (_, failure)| failure.until.is_none_or(|until| now < until));
        }
        // If there are still too many, the application is down, and all other limits apply.
        if failures.len() < MAX_FAILURES {
            failures.insert(key, (fingerprint, failure));
        }
    }
}

fn failed(line: &str) -> LoginOutcome {
    LoginOutcome::Failed(LoginFault { line: line.to_owned(), may_retry: true })
}
