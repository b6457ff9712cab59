//! A running server on a token with injected faults, and a client that checks each response.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::shim::Shim;
use crate::support::{Browser, Instance, REDIRECT_URI, Settings};

/// Value of `hsm.sign_timeout_seconds`.
pub(crate) const SIGN_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum time for a response. It allows for a machine that is busy with other tests.
pub(crate) const ANSWERED: Duration = Duration::from_secs(4);
/// Pause of a load client after a refusal, to stay below the limit of requests per minute.
const AGAIN: Duration = Duration::from_millis(60);
/// Maximum time from the return of the device to the first response with tokens.
pub(crate) const BACK: Duration = Duration::from_secs(2);

/// Returns settings with the highest rate limits; the load must stay below them.
pub(crate) fn settings() -> Settings {
    Settings {
        sections: "[rate_limits]\nauthorize = 4095\npages = 4095\ntoken = 4095\njwks = 4095".into(),
        ..Settings::default()
    }
}

/// Replaces the module in the `[hsm]` section and adds lines to it.
pub(crate) fn configure_hsm(instance: &Instance, module: &Path, lines: &str) {
    let text = fs::read_to_string(instance.config()).unwrap();
    let (before, after) = text.split_once("module = ").unwrap();
    let (_, after) = after.split_once('\n').unwrap();
    let timeout = SIGN_TIMEOUT.as_secs();
    let hsm = format!("module = \"{}\"\nsign_timeout_seconds = {timeout}\n{lines}\n", module.display());
    fs::write(instance.config(), format!("{before}{hsm}{after}")).unwrap();
}

/// A running server with the shim as its token, and a client.
pub(crate) struct World {
    pub(crate) instance: Instance,
    pub(crate) shim: Shim,
    pub(crate) client: Arc<Client>,
}

impl World {
    pub(crate) async fn start(hsm: &str) -> Self {
        let mut instance = Instance::prepare(&settings());
        let shim = Shim::build(instance.directory.path());
        configure_hsm(&instance, shim.module(), hsm);
        let secret = instance.add_confidential_client("web");
        instance.start();
        let client = Arc::new(Client::new(&instance, &secret).await);
        Self { instance, shim, client }
    }
}

/// A confidential client and a signed-in browser.
pub(crate) struct Client {
    http: reqwest::Client,
    base: String,
    admin: String,
    secret: String,
    browser: Browser,
    keys: BTreeMap<String, Value>,
}

/// Response of the token endpoint.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) retry_after: Option<String>,
    pub(crate) took: Duration,
}

impl Reply {
    /// Returns whether the response contains tokens. Their signatures were verified.
    pub(crate) fn is_tokens(&self) -> bool {
        self.status == 200
    }

    /// Returns whether the response is a refusal with a time to retry.
    pub(crate) fn is_later(&self) -> bool {
        self.status == 503
            && self.retry_after.as_deref() == Some("1")
            && self.body["error"] == "temporarily_unavailable"
    }

    pub(crate) fn refresh_token(&self) -> String {
        self.body["refresh_token"].as_str().unwrap_or_else(|| panic!("{self:?}")).to_owned()
    }
}

impl Client {
    pub(crate) async fn new(instance: &Instance, secret: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(30)).build().unwrap();
        let (base, admin) = (instance.url(""), instance.admin_url(""));
        let jwks: Value = http.get(format!("{base}/oauth/jwks")).send().await.unwrap().json().await.unwrap();
        let keys = jwks["keys"].as_array().unwrap().iter();
        let keys = keys.map(|key| (key["kid"].as_str().unwrap().to_owned(), key.clone())).collect();
        let browser = Browser::new(instance);
        let client = Self { http, base, admin, secret: secret.to_owned(), browser, keys };
        let first = client.browser.go(&client.authorize()).await;
        assert!(first.returned("code").is_some(), "{first:?}");
        client
    }

    fn authorize(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("client_id", "web")
            .append_pair("response_type", "code")
            .append_pair("redirect_uri", REDIRECT_URI)
            .append_pair("scope", "openid offline_access");
        format!("{}/oauth/authorize?{}", self.base, query.finish())
    }

    /// Requests a code for the signed-in user. This needs no signature.
    pub(crate) async fn code(&self) -> String {
        let page = self.browser.open(&self.authorize()).await;
        page.returned("code").unwrap_or_else(|| panic!("no code: {page:?}"))
    }

    pub(crate) async fn redeem(&self, code: &str) -> Reply {
        self.token(&[("grant_type", "authorization_code"), ("code", code), ("redirect_uri", REDIRECT_URI)]).await
    }

    pub(crate) async fn refresh(&self, token: &str) -> Reply {
        self.token(&[("grant_type", "refresh_token"), ("refresh_token", token)]).await
    }

    /// Creates a family of refresh tokens. Retries if the token already fails, because a temporary
    /// refusal does not consume the code.
    pub(crate) async fn family(&self) -> String {
        let (code, begun) = (self.code().await, Instant::now());
        loop {
            let reply = self.redeem(&code).await;
            if reply.is_tokens() {
                return reply.refresh_token();
            }
            assert!(reply.is_later() && begun.elapsed() < Duration::from_secs(30), "{reply:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Requests tokens and verifies them with the published keys.
    async fn token(&self, fields: &[(&str, &str)]) -> Reply {
        let started = Instant::now();
        let request = self.http.post(format!("{}/oauth/token", self.base)).basic_auth("web", Some(&self.secret));
        let response = request.form(fields).send().await.expect("an answer");
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").map(|value| value.to_str().unwrap().to_owned());
        let body: Value = response.json().await.expect("an answer in JSON");
        let reply = Reply { status, body, retry_after, took: started.elapsed() };
        if status == 200 {
            for name in ["access_token", "id_token"] {
                if let Some(token) = reply.body[name].as_str() {
                    assert!(self.verifies(token), "a wrong signature came through: {name}");
                }
            }
            assert!(reply.body["access_token"].is_string(), "{reply:?}");
        }
        reply
    }

    fn verifies(&self, token: &str) -> bool {
        let decode = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap();
        let (input, signature) = token.rsplit_once('.').unwrap();
        let header: Value = serde_json::from_slice(&decode(input.split('.').next().unwrap())).unwrap();
        let key = &self.keys[header["kid"].as_str().unwrap()];
        let component = |name: &str| decode(key[name].as_str().unwrap());
        let key = RsaPublicKeyComponents { n: component("n"), e: component("e") };
        key.verify(&RSA_PKCS1_2048_8192_SHA256, input.as_bytes(), &decode(signature)).is_ok()
    }

    /// Returns whether the admin listener reports that the server is ready.
    pub(crate) async fn ready(&self) -> bool {
        self.http.get(format!("{}/readyz", self.admin)).send().await.unwrap().status() == 200
    }

    /// Returns the value of a metric.
    pub(crate) async fn metric(&self, series: &str) -> u64 {
        let text = self.http.get(format!("{}/metrics", self.admin)).send().await.unwrap().text().await.unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }

    /// Returns the number of failed signatures of a class.
    pub(crate) async fn errors(&self, class: &str) -> u64 {
        self.metric(&format!("sealgate_sign_errors_total{{class=\"{class}\"}}")).await
    }

    /// Refreshes a family until it gets tokens; panics if that takes longer than `limit`. If a
    /// failed signature had consumed the refresh token, the server would refuse it permanently.
    pub(crate) async fn back_within(&self, limit: Duration, family: &mut String, after: &str) -> Duration {
        let from = Instant::now();
        loop {
            let reply = self.refresh(family).await;
            if reply.is_tokens() {
                *family = reply.refresh_token();
                return from.elapsed();
            }
            assert!(reply.is_later(), "after {after}: {reply:?}");
            assert!(from.elapsed() < limit, "after {after}: not back within {limit:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Results of one load task.
#[derive(Debug, Default)]
pub(crate) struct Met {
    pub(crate) tokens: usize,
    pub(crate) later: usize,
    pub(crate) slowest: Duration,
    /// Code that could not be redeemed yet.
    pub(crate) code: Option<String>,
    pub(crate) family: Option<String>,
}

impl Met {
    /// Records a response, which must be in time and contain tokens or a temporary refusal. Returns
    /// whether it contains tokens.
    fn note(&mut self, reply: &Reply) -> bool {
        assert!(reply.is_tokens() || reply.is_later(), "{reply:?}");
        assert!(reply.took < ANSWERED, "{reply:?}");
        self.slowest = self.slowest.max(reply.took);
        if reply.is_tokens() {
            self.tokens += 1;
        } else {
            self.later += 1;
        }
        reply.is_tokens()
    }
}

/// Refreshes one family until stopped. Retries a refused rotation with the same token.
pub(crate) async fn renew(client: Arc<Client>, stop: Arc<AtomicBool>) -> Met {
    let mut met = Met::default();
    let mut family = client.family().await;
    while !stop.load(Ordering::SeqCst) {
        let reply = client.refresh(&family).await;
        if met.note(&reply) {
            family = reply.refresh_token();
        } else {
            tokio::time::sleep(AGAIN).await;
        }
    }
    met.family = Some(family);
    met
}

/// Redeems codes until stopped. Retries each code until it gives tokens.
pub(crate) async fn redeem(client: Arc<Client>, stop: Arc<AtomicBool>) -> Met {
    let mut met = Met::default();
    while !stop.load(Ordering::SeqCst) {
        let code = client.code().await;
        loop {
            let reply = client.redeem(&code).await;
            if met.note(&reply) {
                break;
            }
            if stop.load(Ordering::SeqCst) {
                met.code = Some(code);
                return met;
            }
            tokio::time::sleep(AGAIN).await;
        }
    }
    met
}
