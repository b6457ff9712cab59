//! Tests the life cycle of signing keys on a running server: rotation under load, emergency
//! rotation, unannounced keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_lc_rs::signature::{RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tokio::task::{JoinSet, block_in_place};

use crate::support::{Browser, Instance, REDIRECT_URI, Settings, wait_until};

/// Number of refresh token families that are rotated concurrently, and the pause between two
/// rotations of one.
const FAMILIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(100);
/// Lifetime of an access token, the age until which it is certainly valid (times are whole
/// seconds), and the age at which it is presented.
const LIFE: Duration = Duration::from_secs(4);
const IN_TIME: Duration = Duration::from_secs(3);
const LATE: Duration = Duration::from_millis(2800);

fn settings() -> Settings {
    Settings {
        sections: "[tokens]\naccess_token_seconds = 4\n[keys]\npublish_seconds = 5\nkeep_seconds = 6\n\
                   [rate_limits]\ntoken = 4000\njwks = 4000\nauthorize = 4000\npages = 4000"
            .into(),
        ..Settings::default()
    }
}

struct Client {
    http: reqwest::Client,
    issuer: String,
    secret: String,
}

impl Client {
    fn new(instance: &Instance, secret: &str) -> Self {
        let http = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(20)).build().unwrap();
        Self { http, issuer: instance.url(""), secret: secret.to_owned() }
    }

    async fn token(&self, fields: &[(&str, &str)]) -> Value {
        let url = format!("{}/oauth/token", self.issuer);
        let response = self.http.post(url).basic_auth("web", Some(&self.secret)).form(fields).send().await.unwrap();
        let status = response.status();
        let body: Value = response.json().await.unwrap();
        assert_eq!(status, 200, "{body}");
        body
    }

    async fn sign_in(&self, browser: &Browser) -> Value {
        let mut url = url::Url::parse(&format!("{}/oauth/authorize", self.issuer)).unwrap();
        url.query_pairs_mut().extend_pairs([
            ("client_id", "web"),
            ("response_type", "code"),
            ("redirect_uri", REDIRECT_URI),
            ("scope", "openid offline_access"),
            ("state", "s"),
        ]);
        let code = browser.go(url.as_str()).await.returned("code").unwrap();
        self.token(&[("grant_type", "authorization_code"), ("code", &code), ("redirect_uri", REDIRECT_URI)]).await
    }

    async fn refresh(&self, token: &str) -> Value {
        self.token(&[("grant_type", "refresh_token"), ("refresh_token", token)]).await
    }

    async fn userinfo(&self, access_token: &str) -> u16 {
        let url = format!("{}/oauth/userinfo", self.issuer);
        self.http.get(url).bearer_auth(access_token).send().await.unwrap().status().as_u16()
    }

    /// Returns the published keys by kid, and how long they may be cached.
    async fn jwks(&self) -> (BTreeMap<String, Value>, Duration) {
        let response = self.http.get(format!("{}/oauth/jwks", self.issuer)).send().await.unwrap();
        let kept = response.headers()["cache-control"].to_str().unwrap();
        let kept = Duration::from_secs(kept.strip_prefix("public, max-age=").unwrap().parse().unwrap());
        let body: Value = response.json().await.unwrap();
        let keys = body["keys"].as_array().unwrap().iter();
        (keys.map(|key| (key["kid"].as_str().unwrap().to_owned(), key.clone())).collect(), kept)
    }
}

fn decode(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}

fn kid(token: &str) -> String {
    let header: Value = serde_json::from_slice(&decode(token.split('.').next().unwrap())).unwrap();
    header["kid"].as_str().unwrap().to_owned()
}

fn verify(token: &str, key: &Value) {
    let (input, signature) = token.rsplit_once('.').unwrap();
    let component = |name: &str| decode(key[name].as_str().unwrap());
    let key = RsaPublicKeyComponents { n: component("n"), e: component("e") };
    key.verify(&RSA_PKCS1_2048_8192_SHA256, input.as_bytes(), &decode(signature)).unwrap();
}

fn text(body: &Value, name: &str) -> String {
    body[name].as_str().unwrap_or_else(|| panic!("no {name} in {body}")).to_owned()
}

/// Observed state of the published keys.
struct Seen {
    /// Times of the request and of the answer.
    asked: Instant,
    at: Instant,
    keys: BTreeMap<String, Value>,
    kept: Duration,
}

async fn watch_jwks(client: Arc<Client>, stop: Arc<AtomicBool>) -> Vec<Seen> {
    let mut seen = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let (keys, kept) = client.jwks().await;
        seen.push(Seen { asked, at: Instant::now(), keys, kept });
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    seen
}

/// Token with the times of its request and its answer.
struct Issued {
    asked: Instant,
    at: Instant,
    token: String,
}

/// Refreshes tokens until stopped, and presents each access token late in its lifetime.
async fn renew(client: Arc<Client>, mut refresh_token: String, stop: Arc<AtomicBool>) -> Vec<Issued> {
    let mut issued = Vec::new();
    let mut presented = JoinSet::new();
    while !stop.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let body = client.refresh(&refresh_token).await;
        refresh_token = text(&body, "refresh_token");
        let access = text(&body, "access_token");
        issued.push(Issued { asked, at: Instant::now(), token: access.clone() });
        let client = Arc::clone(&client);
        presented.spawn(async move {
            tokio::time::sleep_until((asked + LATE).into()).await;
            // On a machine that is too busy to send in time, the answer proves nothing.
            let in_time = asked.elapsed() < IN_TIME;
            let status = client.userinfo(&access).await;
            assert!(status == 200 || !in_time || asked.elapsed() >= IN_TIME, "{status}");
            u32::from(status == 200)
        });
        tokio::time::sleep(PAUSE).await;
    }
    let accepted: u32 = presented.join_all().await.into_iter().sum();
    assert!(accepted > 0, "no token was presented in time");
    issued
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_under_load_is_invisible_to_clients_that_cache_keys() {
    let mut instance = Instance::prepare(&settings());
    let secret = instance.add_confidential_client("web");
    instance.start();
    let client = Arc::new(Client::new(&instance, &secret));
    let browser = Browser::new(&instance);
    let stop = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(watch_jwks(Arc::clone(&client), Arc::clone(&stop)));
    let mut renewing = JoinSet::new();
    for _ in 0..FAMILIES {
        let first = client.sign_in(&browser).await;
        renewing.spawn(renew(Arc::clone(&client), text(&first, "refresh_token"), Arc::clone(&stop)));
    }
    // Waits for answers under the old key alone.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let plan = block_in_place(|| instance.json(&["key", "rotate"]));
    let [old, new] = [0, 1].map(|at| plan["keys"][at].clone());
    assert_eq!((&old["state"], &new["state"]), (&"active".into(), &"pre_published".into()));
    assert_eq!(new["activate_at"].as_u64(), new["published_at"].as_u64().map(|at| at + 5));
    assert_eq!(
        (&old["retire_at"], old["remove_at"].as_u64()),
        (&new["activate_at"], new["activate_at"].as_u64().map(|at| at + 6))
    );
    let again = block_in_place(|| instance.try_run(&["key", "rotate"], ""));
    assert!(String::from_utf8(again.stderr).unwrap().contains("a rotation is in progress"));
    let (old, new) = (text(&old, "kid"), text(&new, "kid"));
    block_in_place(|| {
        wait_until("the old key is removed", || {
            let keys = instance.json(&["key", "list"])["keys"].clone();
            let is = |kid: &str, state: &str| {
                keys.as_array().unwrap().iter().any(|key| key["kid"] == kid && key["state"] == state)
            };
            is(&old, "removed") && is(&new, "active")
        });
    });
    // Waits for answers under the new key alone.
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Ordering::Relaxed);
    let issued: Vec<Issued> = renewing.join_all().await.into_iter().flatten().collect();
    let seen = watching.await.unwrap();

    let mut kids = BTreeSet::new();
    for Issued { asked, at, token } in &issued {
        let kid = kid(token);
        let first = seen.iter().find(|seen| seen.keys.contains_key(&kid)).unwrap();
        verify(token, &first.keys[&kid]);
        if kid != old {
            // A client that read the keys just before the new one was added may still use its
            // cached keys. The time runs from the client's request to the arrival of the token,
            // because both answers may be delayed.
            let before = seen.iter().take_while(|seen| !seen.keys.contains_key(&kid)).last().unwrap();
            assert!(before.asked + before.kept <= *at, "signed {:?} after it was not published", *at - before.asked);
        }
        let live = seen.iter().filter(|seen| (*asked..*asked + LIFE).contains(&seen.at));
        for seen in live.filter(|seen| seen.at > first.at) {
            assert!(seen.keys.contains_key(&kid), "a key went {:?} after it had signed", seen.at - *asked);
        }
        kids.insert(kid);
    }
    assert_eq!(kids, BTreeSet::from([old.clone(), new.clone()]), "both keys signed");
    let last: Vec<_> = seen.last().unwrap().keys.keys().collect();
    assert_eq!(last, [&new], "the old key is gone");

    assert_eq!(instance.stop(), Some(0));
    instance.start();
    assert_eq!(client.jwks().await.0.into_keys().collect::<Vec<_>>(), [new], "the same after a restart");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_removed_at_once_is_refused_at_once() {
    let mut instance = Instance::prepare(&Settings::default());
    let secret = instance.add_confidential_client("web");
    instance.start();
    let client = Client::new(&instance, &secret);
    let tokens = client.sign_in(&Browser::new(&instance)).await;
    let access = text(&tokens, "access_token");
    assert_eq!(client.userinfo(&access).await, 200);
    let bad = kid(&access);
    block_in_place(|| {
        let refused = instance.try_run(&["key", "remove", "--now", &bad], "");
        assert!(String::from_utf8(refused.stderr).unwrap().contains("key generate --next"));
        let next = instance.json(&["key", "generate", "--next"])["kid"].as_str().unwrap().to_owned();
        assert_ne!(next.trim_end(), bad);
        let removed = instance.try_run(&["key", "remove", "--now", &bad], "");
        assert!(removed.status.success());
        assert!(String::from_utf8(removed.stderr).unwrap().contains("warning: "));
    });
    assert_eq!(client.userinfo(&access).await, 401, "known to the cache of tokens, and refused");
    assert!(!client.jwks().await.0.contains_key(&bad));
    let renewed = text(&client.refresh(&text(&tokens, "refresh_token")).await, "access_token");
    assert_ne!(kid(&renewed), bad);
    assert_eq!(client.userinfo(&renewed).await, 200);
}

#[test]
fn an_unannounced_key_prevents_the_start() {
    let mut instance = Instance::prepare(&Settings::default());
    instance.start();
    assert_eq!(instance.stop(), Some(0));
    // An attacker who can write to the token, but not to the store.
    let own = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), own.replace("/store\"", "/another\"")).unwrap();
    let stranger = instance.json(&["key", "generate", "--next"])["kid"].as_str().unwrap().to_owned();
    fs::write(instance.config(), own).unwrap();
    let refused = instance.try_run(&["serve"], "");
    assert!(!refused.status.success());
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(error.contains(stranger.trim_end()) && error.contains("key announce"), "{error}");
    instance.run(&["key", "announce", stranger.trim_end()]);
    instance.start();
    let keys = instance.json(&["key", "list"])["keys"].clone();
    let states: BTreeSet<_> = keys.as_array().unwrap().iter().map(|key| text(key, "state")).collect();
    assert_eq!(states, BTreeSet::from(["active".to_owned(), "pre_published".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attestation_that_the_operator_installed_is_published() {
    let mut instance = Instance::prepare(&Settings::default());
    let directory = instance.directory.path().join("attestation");
    fs::create_dir(&directory).unwrap();
    let own = fs::read_to_string(instance.config()).unwrap();
    fs::write(instance.config(), own.replace("[hsm]", "[hsm]\nattestation = \"attestation\"")).unwrap();
    let kid = text(&instance.json(&["key", "list"])["keys"][0], "kid");
    instance.start();
    let url = instance.url("/.well-known/sealgate/keys");
    let attestation = async || {
        let body: Value = reqwest::get(&url).await.unwrap().json().await.unwrap();
        assert_eq!(body["keys"][0]["kid"], kid);
        body["keys"][0]["attestation"].clone()
    };
    assert_eq!(attestation().await, "not attested");
    let chain = include_str!("../config/wiki.certificate.pem");
    fs::write(directory.join(format!("{kid}.pem")), chain).unwrap();
    let body: String = chain.lines().filter(|line| !line.starts_with('-')).collect();
    // Files are read in the background every two seconds, not during requests.
    let becomes = async |wanted: Value| {
        let end = Instant::now() + Duration::from_secs(20);
        while attestation().await != wanted {
            assert!(Instant::now() < end, "not within 20 seconds: {wanted}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    becomes(serde_json::json!({ "x5c": [body] })).await;
    fs::write(directory.join(format!("{kid}.pem")), "no certificate").unwrap();
    becomes("not attested".into()).await;
    fs::write(directory.join(format!("{kid}.pem")), chain).unwrap();
    assert_eq!(instance.stop(), Some(0));
    instance.start();
    assert_eq!(attestation().await["x5c"], serde_json::json!([body]), "from the first request on");
}
