//! Gateway that accepts tokens of another issuer, and that issuer.

use std::time::{Duration, Instant};

use sealgate_core::tokens::trusted;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::foreign::{Answer, Key, Publisher};
use crate::world::{Reply, World};

pub(crate) const ISSUER: &str = "https://login.corp.test/";
pub(crate) const AUDIENCE: &str = "https://api.test";

pub(crate) const APPS: &str = r#"
    [[app]]
    name = "partner"
    host = "partner.test"
    upstreams = ["http://127.0.0.1:8086"]
    trusted_issuers = ["corp"]
    assertion = true
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/api/"
    access = "bearer"
    [[app.route]]
    path = "/open/"
    access = "public"
    [[app.route]]
    path = "/staff/"
    access = "signed_in"
    groups = ["staff"]
    [[app.route]]
    path = "/corp-staff/"
    access = "signed_in"
    groups = ["corp:staff"]
    [[app.route]]
    path = "/annas/"
    access = "signed_in"
    users = ["anna@example.test"]
    [[app.route]]
    path = "/seventeens/"
    access = "signed_in"
    users = ["corp:auth0|17"]
    [[app.route]]
    path = "/profiles/"
    access = "bearer"
    scopes = ["profile"]
    [[app.route]]
    path = "/strong/"
    access = "signed_in"
    acr = ["1"]
    [[app.route]]
    path = "/fresh/"
    access = "signed_in"
    max_age_seconds = 300
    [[app.route]]
    path = "/narrow/"
    access = "bearer"
    audience = "https://narrow.test"
"#;

/// Returns the configuration of a trusted issuer with keys at this URL and further settings.
pub(crate) fn settings(url: &str, further: &str) -> String {
    format!(
        r#"{APPS}
        [[trusted_issuer]]
        name = "corp"
        issuer = "{ISSUER}"
        jwks = "{url}"
        audiences = ["{AUDIENCE}", "https://narrow.test"]
        {further}
        "#
    )
}

/// Gateway that accepts tokens of another issuer, and that issuer.
pub(crate) struct Corp {
    pub(crate) world: World,
    pub(crate) publisher: Publisher,
    pub(crate) key: Key,
    _stop: watch::Sender<bool>,
}

impl Corp {
    /// Starts both, and waits until the keys were loaded.
    pub(crate) async fn new(further: &str) -> Self {
        let key = Key::rsa("k1");
        let corp = Self::with(further, key, |key| Answer::keys(&[key])).await;
        corp.has_keys().await;
        corp
    }

    pub(crate) async fn with(further: &str, key: Key, answer: impl FnOnce(&Key) -> Answer) -> Self {
        let publisher = Publisher::start(answer(&key));
        let settings = settings(&publisher.url("/jwks"), further);
        Self::configured(&settings, publisher, key).await
    }

    pub(crate) async fn configured(settings: &str, publisher: Publisher, key: Key) -> Self {
        let world = World::with(settings).await;
        let (stop, stopping) = watch::channel(false);
        let sealgate = &world.sealgate;
        let (clock, metrics) = (sealgate.clock.clone(), sealgate.metrics.clone());
        tokio::spawn(trusted::run(sealgate.trust.clone(), clock, metrics, stopping));
        Self { world, publisher, key, _stop: stop }
    }

    /// Returns valid claims.
    pub(crate) fn claims(&self) -> Value {
        let now = self.world.sealgate.clock.now().seconds();
        json!({ "iss": ISSUER, "sub": "auth0|17", "aud": AUDIENCE, "iat": now, "exp": now + 600 })
    }

    pub(crate) fn changed(&self, name: &str, value: impl Into<Value>) -> Value {
        let mut claims = self.claims();
        claims[name] = value.into();
        claims
    }

    pub(crate) fn token(&self) -> String {
        self.key.token(&self.claims())
    }

    pub(crate) async fn send(&self, path: &str, token: &str) -> Reply {
        self.send_to("partner.test", path, token).await
    }

    pub(crate) async fn send_to(&self, host: &str, path: &str, token: &str) -> Reply {
        let bearer = format!("Bearer {token}");
        self.world.call("GET", &format!("https://{host}{path}"), &[("authorization", &bearer)]).await
    }

    /// Waits until a new valid token gets such a status.
    pub(crate) async fn until(&self, is: impl Fn(u16) -> bool) {
        wait_until("the answer changes", async || is(self.send("/api/", &self.token()).await.status)).await;
    }

    pub(crate) async fn has_keys(&self) {
        let read = r#"sealgate_foreign_key_reads_total{issuer="corp",outcome="read"}"#;
        wait_until("the keys come", async || self.metric(read)).await;
    }

    /// Waits until this number of warnings is active. A warning changes shortly after the publisher
    /// has answered.
    pub(crate) async fn warns(&self, times: usize) {
        wait_until("the warnings change", async || self.world.sealgate.trust.warnings().len() == times).await;
    }

    pub(crate) async fn reads(&self, times: usize) {
        wait_until("the keys are read again", async || self.publisher.asked() >= times).await;
    }

    pub(crate) fn metric(&self, line: &str) -> bool {
        self.world.sealgate.metrics.text().contains(line)
    }
}

async fn wait_until(what: &str, is: impl AsyncFn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !is().await {
        assert!(Instant::now() < end, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
