//! Requests of the gateway to an application: sign-in, probe and sign-out.

use std::path::PathBuf;

use http::HeaderValue;
use sealgate_app_login::{AppLogin, CookieJar, LoginFault, LoginOutcome, LoginTarget, probe, sign_in, sign_out};
use sealgate_config::{App, AppLoginConfig, IssuerUrl, LoginAccount, Upstream, UpstreamTls, read_login_password};
use sealgate_domain::secret::{Secret, SecretHash};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_edge::EndSign;
use sealgate_store::{AppSite, Store, StoreError};
use sealgate_system::login_exchange::WebExchange;
use sealgate_system::metrics::Metrics;
use tokio::sync::{OnceCell, Semaphore};

use super::LoginRefusal;
use super::recent_sign_ins::{AccountKey, FailureKind, RecentSignIns};

/// Maximum number of concurrent sign-outs at an application.
const CONCURRENT_SIGN_OUTS: usize = 4;

/// Maximum number of concurrent probes.
const CONCURRENT_PROBES: usize = 16;

/// Returns the maximum number of threads that wait for an application's login form.
pub fn max_login_threads(login: &AppLoginConfig) -> usize {
    login.recipe.recipe.max_concurrent_sign_ins + CONCURRENT_PROBES + CONCURRENT_SIGN_OUTS
}

/// Client for one application under one configuration.
pub(super) struct AppClient {
    pub(super) app: String,
    host: String,
    pub(super) login: AppLoginConfig,
    /// Public origin, and whether its host is sent as `Host`.
    public: (String, bool),
    upstreams: Vec<Upstream>,
    tls: UpstreamTls,
    targets: Vec<LoginTarget>,
    web: OnceCell<WebExchange>,
    sign_ins: Semaphore,
    probes: Semaphore,
    sign_outs: Semaphore,
    recent: RecentSignIns,
}

/// Name and password at the application.
pub(super) struct Account {
    pub(super) username: String,
    password: Secret,
    /// Time at which a user's password was stored.
    pub(super) changed_at: Option<UnixTime>,
}

/// Answer of the application to a probe.
pub(super) enum ProbeResult {
    /// The session is open. Contains its cookies after the probe.
    Open(CookieJar),
    Ended,
    /// The application did not answer, or answered with a server error.
    Unanswered,
    /// No probe was sent, because too many are in progress.
    Busy,
}

/// Address and `User-Agent` of the user's browser.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct BrowserFacts {
    pub(super) address: String,
    pub(super) user_agent: Option<HeaderValue>,
}

impl BrowserFacts {
    fn set_in(&self, target: &LoginTarget) -> LoginTarget {
        target.clone().for_browser(&self.address, self.user_agent.as_ref())
    }
}

impl Account {
    /// Returns a hash of name and password, to recognize a changed account.
    fn fingerprint(&self) -> SecretHash {
        SecretHash::for_secret([self.username.as_bytes(), b"\0", self.password.expose().as_bytes()].concat().as_slice())
    }
}

impl AppClient {
    pub(super) fn new(app: &App, issuer: &IssuerUrl) -> Option<Self> {
        let login = app.login.clone()?;
        // The check of the configuration refuses a wildcard, which has no single origin.
        let public = (app.origin(issuer)?, app.preserve_host);
        let urls = app.upstreams.iter().filter_map(|upstream| match upstream {
            Upstream::Url(url) => Some(url.as_str()),
            Upstream::Socket(_) => None,
        });
        // The check of the configuration has already parsed the URLs and the public origin.
        let targets = urls
            .filter_map(|url| LoginTarget::new(url).and_then(|target| target.with_public(&public.0, public.1)).ok())
            .collect();
        let sign_ins = Semaphore::new(login.recipe.recipe.max_concurrent_sign_ins);
        Some(Self {
            app: app.name.clone(),
            host: app.host.clone(),
            login,
            public,
            upstreams: app.upstreams.clone(),
            tls: app.upstream_tls.clone(),
            targets,
            web: OnceCell::new(),
            sign_ins,
            probes: Semaphore::new(CONCURRENT_PROBES),
            sign_outs: Semaphore::new(CONCURRENT_SIGN_OUTS),
            recent: RecentSignIns::default(),
        })
    }

    pub(super) fn fits(&self, app: &App, issuer: &IssuerUrl) -> bool {
        app.name == self.app
            && app.login.as_ref() == Some(&self.login)
            && app.origin(issuer).as_ref() == Some(&self.public.0)
            && app.preserve_host == self.public.1
            && (&app.upstreams, &app.upstream_tls) == (&self.upstreams, &self.tls)
    }

    fn site(&self) -> AppSite<'_> {
        AppSite { name: &self.app, host: &self.host }
    }

    /// Returns the account of a user at the application.
    pub(super) async fn account(&self, store: &Store, user: Subject) -> Result<Account, LoginRefusal> {
        match self.configured_account(store, user).await.map_err(LoginRefusal::Store)? {
            LoginAccount::OfUser => {
                let stored = match store.app_credential(user, self.site()).await {
                    Err(error @ StoreError::UnreadableAppCredential { .. }) => {
                        // The user can enter the name and password again.
                        tracing::warn!(app = self.app, subject = %user, %error, "cannot sign in to the application");
                        None
                    }
                    stored => stored.map_err(LoginRefusal::Store)?,
                };
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

    async fn configured_account(&self, store: &Store, user: Subject) -> Result<&LoginAccount, StoreError> {
        if self.login.group_accounts.is_empty() {
            return Ok(&self.login.account);
        }
        let user = store.user(user).await?;
        Ok(user.map_or(&self.login.account, |user| self.login.account_of(&user)))
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
        browser: &BrowserFacts,
        now: UnixTime,
    ) -> Result<(CookieJar, usize), LoginRefusal> {
        let (key, wrong_password): (_, fn() -> LoginRefusal) = match account.changed_at {
            Some(_) => (AccountKey::OfUser(user), || LoginRefusal::WrongPassword),
            None => (AccountKey::Service(account.username.clone()), || LoginRefusal::WrongServicePassword),
        };
        let fingerprint = account.fingerprint();
        self.recent.ensure_no_pause(&key, &fingerprint).map_err(|kind| match kind {
            FailureKind::WrongPassword => wrong_password(),
            FailureKind::Unclear | FailureKind::Error => LoginRefusal::Failed,
        })?;
        let (outcome, upstream) = self.try_each_upstream(account, browser, now).await;
        let (kind, outcome) = match outcome {
            LoginOutcome::SignedIn(jar) => {
                metrics.signed_in_to_app(&self.app, "signed_in");
                self.recent.note_success(key, fingerprint);
                tracing::info!(app = self.app, subject = %user, "signed in to the application");
                return Ok((jar, upstream));
            }
            LoginOutcome::WrongPassword => {
                tracing::warn!(app = self.app, subject = %user, "the application refused the username or password");
                (FailureKind::WrongPassword, "wrong_password")
            }
            LoginOutcome::Failed(LoginFault { line, may_retry, .. }) => {
                tracing::warn!(app = self.app, subject = %user, "the sign-in to the application failed: {line}");
                (if may_retry { FailureKind::Error } else { FailureKind::Unclear }, "failed")
            }
        };
        metrics.signed_in_to_app(&self.app, outcome);
        if self.recent.note_failure(key, fingerprint, kind)
            && let Some(changed_at) = account.changed_at
            && let Err(error) = store.refuse_app_credential(user, &self.app, changed_at).await
        {
            tracing::warn!(app = self.app, %error, "cannot store that the application refused a password");
        }
        Err(if kind == FailureKind::WrongPassword { wrong_password() } else { LoginRefusal::Failed })
    }

    /// Returns whether the user's account is still this one: the service account with this name, or
    /// the user's own account with the password that was stored at `changed_at`.
    pub(super) async fn is_account_of(
        &self,
        store: &Store,
        user: Subject,
        name: &str,
        changed_at: Option<UnixTime>,
    ) -> Result<bool, StoreError> {
        match (self.configured_account(store, user).await?, changed_at) {
            (LoginAccount::OfUser, Some(changed_at)) => {
                let stored = store.app_credentials(user).await?;
                Ok(stored.credentials.iter().any(|stored| stored.app == self.app && stored.changed_at == changed_at))
            }
            (LoginAccount::Service { username, .. }, None) => Ok(username == name),
            (LoginAccount::OfUser, None) | (LoginAccount::Service { .. }, Some(_)) => Ok(false),
        }
    }

    /// Sends a probe, which shows whether the session is open. If the session is open, returns its
    /// cookies after the probe.
    ///
    /// A session of another user counts as ended.
    pub(super) async fn probe(
        &self,
        username: &str,
        jar: CookieJar,
        sign: EndSign,
        upstream: usize,
        browser: &BrowserFacts,
        now: UnixTime,
    ) -> ProbeResult {
        let turn = match sign {
            EndSign::Clear => self.probes.acquire().await.ok(),
            // Waiting for other probes would delay each page of the application.
            EndSign::Vague => self.probes.try_acquire().ok(),
        };
        let Some(_turn) = turn else { return ProbeResult::Busy };
        let target = self.targets.get(upstream).map(|target| browser.set_in(target));
        let (Some(target), Ok(web)) = (target, self.web().await) else { return ProbeResult::Unanswered };
        match probe(&self.login.recipe.recipe, &target, username, jar, web, now).await {
            Ok((true, jar)) => ProbeResult::Open(jar),
            Ok((false, _)) => ProbeResult::Ended,
            Err(fault) => {
                tracing::warn!(app = self.app, "cannot check a session at the application: {}", fault.line);
                ProbeResult::Unanswered
            }
        }
    }

    pub(super) async fn sign_out(&self, jar: CookieJar, upstream: usize, browser: &BrowserFacts, now: UnixTime) {
        let Some(target) = self.targets.get(upstream).map(|target| browser.set_in(target)) else { return };
        let Ok(_turn) = self.sign_outs.acquire().await else { return };
        let Ok(web) = self.web().await else { return };
        if let Err(fault) = sign_out(&self.login.recipe.recipe, &target, jar, web, now).await {
            tracing::info!(app = self.app, "cannot sign out of the application: {}", fault.line);
        }
    }

    /// Tries to sign in at each upstream until one answers. Returns the outcome and the index of
    /// the last upstream that was tried.
    async fn try_each_upstream(
        &self,
        account: &Account,
        browser: &BrowserFacts,
        now: UnixTime,
    ) -> (LoginOutcome, usize) {
        let Ok(_turn) = self.sign_ins.acquire().await else { return (failed("the server stops"), 0) };
        let web = match self.web().await {
            Ok(web) => web,
            Err(error) => return (failed(&error), 0),
        };
        let mut last = (failed("the application has no upstream"), 0);
        for (index, target) in self.targets.iter().enumerate() {
            let (recipe, target) = (&self.login.recipe.recipe, &browser.set_in(target));
            let login = AppLogin { recipe, target, user: &account.username, password: &account.password };
            let mut observe = |step| tracing::debug!(app = self.app, ?step, "sign-in to the application");
            last = (sign_in(login, web, now, &mut observe).await, index);
            if !matches!(&last.0, LoginOutcome::Failed(fault) if fault.may_retry && !fault.is_password_sent) {
                break;
            }
        }
        last
    }

    /// Returns the HTTP client. The first call reads the machine's certificate authorities.
    async fn web(&self) -> Result<&WebExchange, String> {
        let ca = self.tls.ca.clone();
        let create = async || {
            let created = tokio::task::spawn_blocking(move || WebExchange::new(ca.as_deref())).await;
            created.unwrap_or_else(|error| Err(error.to_string()))
        };
        self.web.get_or_try_init(create).await
    }
}

fn failed(line: &str) -> LoginOutcome {
    LoginOutcome::Failed(LoginFault { line: line.to_owned(), may_retry: true, is_password_sent: false })
}
