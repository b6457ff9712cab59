//! Tests the keys of another issuer at the gateway: new, old and missing keys, and their sources.

use std::pin::Pin;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::{JoinSet, LocalSet};

use crate::corp::{Corp, ISSUER, settings};
use crate::foreign::{Answer, Key, Publisher, key_set};

#[tokio::test]
async fn a_cached_foreign_token_ends_with_its_expiry_and_its_key() {
    let corp = Corp::new("throttle_seconds = 1\nrefresh_seconds = 1\nstale_seconds = 7200").await;
    let token = corp.token();
    corp.send("/api/", &token).await.arrived();
    corp.world.wait(659);
    corp.send("/api/", &token).await.arrived();
    corp.world.wait(1);
    corp.send("/api/", &token).await.assert_refused(401, "invalid_token");

    let token = corp.token();
    corp.send("/api/", &token).await.arrived();
    let next = Key::rsa("k2");
    corp.publisher.answers(Answer::keys(&[&next]));
    let asked = corp.publisher.asked();
    corp.reads(asked + 2).await;
    corp.send("/api/", &token).await.assert_refused(401, "invalid_token");
    corp.send("/api/", &next.token(&corp.claims())).await.arrived();
}

#[tokio::test]
async fn a_new_key_is_fetched_at_once_and_invented_keys_cause_one_fetch() {
    let begun = Instant::now();
    let corp = Corp::new("throttle_seconds = 2").await;
    // One read at startup, and one for each elapsed throttle interval, even on a slow machine.
    let most_readings = || 1 + usize::try_from(begun.elapsed().as_secs() / 2).unwrap();
    let next = Key::rsa("k2");
    corp.publisher.answers(Answer::keys(&[&corp.key, &next]));
    let invented = async |kid: &str| {
        let header = json!({ "alg": "RS256", "typ": "at+jwt", "kid": kid });
        corp.send("/api/", &corp.key.token_with(&header, &corp.claims())).await.status
    };
    // Too soon after the first read.
    assert_eq!(invented("x").await, 401);
    assert!(corp.publisher.asked() <= most_readings());
    // The throttle uses the machine's clock, which the test cannot change.
    tokio::time::sleep(Duration::from_millis(2100)).await;
    corp.send("/api/", &next.token(&corp.claims())).await.arrived();
    for number in 0..50 {
        assert_eq!(invented(&format!("x{number}")).await, 401);
    }
    assert!((2..=most_readings()).contains(&corp.publisher.asked()));
    corp.send("/api/", &corp.token()).await.arrived();
}

#[tokio::test]
async fn missing_keys_of_an_issuer_are_answered_with_503() {
    let nothing = |_: &Key| Answer::Status("500 Internal Server Error", String::new());
    let corp = Corp::with("throttle_seconds = 7", Key::rsa("k1"), nothing).await;
    corp.reads(1).await;
    let reply = corp.send("/api/", &corp.token()).await;
    reply.assert_refused(503, "temporarily_unavailable");
    assert_eq!(reply.header("retry-after"), Some("7"));
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="no_keys"} 1"#));
    // Tokens that are invalid in any case are reported as such.
    let expired = corp.key.token(&corp.changed("exp", 1));
    corp.send("/api/", &expired).await.assert_refused(401, "invalid_token");
    corp.warns(1).await;
    corp.publisher.answers(Answer::keys(&[&corp.key]));
    corp.until(|status| status == 200).await;
    corp.warns(0).await;
}

#[tokio::test]
async fn old_keys_are_used_during_an_outage_for_a_limited_time() {
    let corp = Corp::new("throttle_seconds = 1\nrefresh_seconds = 1\nstale_seconds = 7200").await;
    corp.publisher.answers(Answer::Status("503 Service Unavailable", String::new()));
    let asked = corp.publisher.asked();
    corp.reads(asked + 2).await;
    let before = corp.token();
    corp.send("/api/", &before).await.arrived();
    corp.world.wait(7100);
    corp.send("/api/", &corp.token()).await.arrived();
    let last = corp.token();
    corp.send("/api/", &last).await.arrived();
    corp.world.wait(100);
    for token in [corp.token(), last] {
        corp.send("/api/", &token).await.assert_refused(503, "temporarily_unavailable");
    }
    corp.publisher.answers(Answer::keys(&[&corp.key]));
    corp.until(|status| status == 200).await;
}

/// Part of a test that waits for reads of its own, which are a second apart.
type Case = Pin<Box<dyn Future<Output = ()>>>;

async fn side_by_side(cases: Vec<Case>) {
    let set = LocalSet::new();
    let mut running = JoinSet::new();
    for case in cases {
        running.spawn_local_on(case, &set);
    }
    set.run_until(running.join_all()).await;
}

#[tokio::test]
async fn an_invalid_key_set_changes_nothing() {
    let elsewhere = Publisher::start(Answer::keys(&[]));
    let bytes = |text: &str| Answer::Bytes(String::new(), text.as_bytes().to_vec());
    let twice = r#"{"keys":[],"keys":[]}"#;
    let mut cases: Vec<Case> = Vec::new();
    for bad in [
        bytes(""),
        bytes("<html>"),
        bytes("{\"keys\":[]}"),
        bytes(twice),
        Answer::Huge(10 << 20),
        Answer::Status("302 Found", elsewhere.url("/jwks")),
        Answer::Status("404 Not Found", String::new()),
        Answer::keys(&[&Key::p256("k1")]),
    ] {
        cases.push(Box::pin(async move {
            let corp = Corp::new("throttle_seconds = 1\nrefresh_seconds = 1").await;
            corp.publisher.answers(bad.clone());
            let asked = corp.publisher.asked();
            corp.reads(asked + 2).await;
            corp.send("/api/", &corp.token()).await.arrived();
            assert_eq!(corp.world.sealgate.trust.warnings().len(), 1, "{bad:?}");
        }));
    }
    side_by_side(cases).await;
    assert_eq!(elsewhere.asked(), 0, "a redirect was followed");
}

#[tokio::test]
async fn a_key_file_is_read_at_the_start_and_when_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    let (first, second) = (Key::rsa("k1"), Key::ed25519("k2"));
    std::fs::write(&file, key_set(&[&first]).to_string()).unwrap();
    let settings = settings("", r#"algorithms = ["RS256", "EdDSA"]"#);
    let settings = settings.replace("jwks = \"\"", &format!("jwks = \"{}\"", file.display()));
    let corp = Corp::configured(&settings, Publisher::start(Answer::keys(&[])), first).await;
    // No wait is necessary: the keys were loaded before the first request.
    corp.send("/api/", &corp.token()).await.arrived();
    corp.world.wait(30 * 86_400);
    corp.send("/api/", &corp.token()).await.arrived();
    std::fs::write(&file, "{").unwrap();
    corp.warns(1).await;
    corp.send("/api/", &corp.token()).await.arrived();
    std::fs::write(&file, key_set(&[&second]).to_string()).unwrap();
    corp.until(|status| status == 401).await;
    corp.send("/api/", &second.token(&corp.claims())).await.arrived();
}

/// Issuer with a path, whose keys are found by its metadata.
struct Realm {
    corp: Corp,
    issuer: String,
    token: String,
}

impl Realm {
    async fn new() -> Self {
        let publisher = Publisher::start(Answer::Huge(0));
        let issuer = publisher.url("/realm");
        let table = settings("", "throttle_seconds = 1").replace("jwks = \"\"", "").replace(ISSUER, &issuer);
        let corp = Corp::configured(&table, publisher, Key::rsa("k1")).await;
        let mut claims = corp.claims();
        claims["iss"] = json!(issuer);
        let token = corp.key.token(&claims);
        Self { corp, issuer, token }
    }

    /// Publishes the issuer's keys, and this document at a path.
    fn answers(&self, path: &str, document: Value) {
        let set = ("/keys".to_owned(), key_set(&[&self.corp.key]));
        self.corp.publisher.answers(Answer::ByPath(vec![(path.to_owned(), document), set]));
    }

    fn metadata(&self) -> Value {
        json!({ "issuer": self.issuer, "jwks_uri": self.corp.publisher.url("/keys") })
    }
}

#[tokio::test]
async fn metadata_of_an_issuer_must_name_that_issuer() {
    const OPENID: &str = "/realm/.well-known/openid-configuration";
    let spoilt = |name: &'static str, value: Option<&'static str>| {
        move |mut metadata: Value| {
            match value {
                Some(value) => metadata[name] = json!(value),
                None => drop(metadata.as_object_mut().unwrap().remove(name)),
            }
            metadata
        }
    };
    let mut cases: Vec<Case> = Vec::new();
    for (path, bad) in [
        (OPENID, spoilt("issuer", Some("https://other.test"))),
        (OPENID, spoilt("jwks_uri", Some("http://192.0.2.1/keys"))),
        (OPENID, spoilt("jwks_uri", Some("file:///etc/passwd"))),
        (OPENID, spoilt("jwks_uri", None)),
        (OPENID, spoilt("issuer", None)),
        ("/elsewhere", spoilt("nothing", None)),
    ] {
        cases.push(Box::pin(async move {
            let realm = Realm::new().await;
            realm.answers(path, bad(realm.metadata()));
            let asked = realm.corp.publisher.asked();
            realm.corp.reads(asked + 3).await;
            realm.corp.send("/api/", &realm.token).await.assert_refused(503, "temporarily_unavailable");
        }));
    }
    cases.push(Box::pin(async {
        let realm = Realm::new().await;
        realm.answers(OPENID, json!([]));
        let asked = realm.corp.publisher.asked();
        realm.corp.reads(asked + 3).await;
        realm.corp.send("/api/", &realm.token).await.assert_refused(503, "temporarily_unavailable");
    }));
    // The first location, and the second, which precedes the path.
    for path in [OPENID, "/.well-known/oauth-authorization-server/realm"] {
        cases.push(Box::pin(async move {
            let realm = Realm::new().await;
            realm.answers(path, realm.metadata());
            let end = Instant::now() + Duration::from_secs(10);
            while realm.corp.send("/api/", &realm.token).await.status != 200 {
                assert!(Instant::now() < end, "{path}");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }));
    }
    side_by_side(cases).await;
}
