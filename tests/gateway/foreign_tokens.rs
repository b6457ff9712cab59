//! Access tokens of another issuer at the gate: who is taken, who is not, and what the application learns.

use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use sealgate::protocol::secret::base64url;
use sealgate::trust;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::foreign::{Answer, Key, Publisher, key_set};
use crate::world::{ANNA, Reply, World};

const ISSUER: &str = "https://login.corp.test/";
const AUDIENCE: &str = "https://api.test";

const APPS: &str = r#"
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

/// A trusted issuer whose keys are at this address, with further keys of its table.
fn settings(url: &str, further: &str) -> String {
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

/// A gate that takes the tokens of an issuer, and that issuer.
struct Corp {
    world: World,
    publisher: Publisher,
    key: Key,
    _stop: watch::Sender<bool>,
}

impl Corp {
    /// With its keys read.
    async fn new(further: &str) -> Self {
        let key = Key::rsa("k1");
        let corp = Self::with(further, key, |key| Answer::keys(&[key])).await;
        corp.has_keys().await;
        corp
    }

    async fn with(further: &str, key: Key, answer: impl FnOnce(&Key) -> Answer) -> Self {
        let publisher = Publisher::start(answer(&key));
        let world = World::with(&settings(&publisher.url("/jwks"), further)).await;
        let (stop, stopping) = watch::channel(false);
        tokio::spawn(trust::keep(world.sealgate.clone(), stopping));
        Self { world, publisher, key, _stop: stop }
    }

    /// Sound claims.
    fn claims(&self) -> Value {
        let now = self.world.sealgate.clock.now().seconds();
        json!({ "iss": ISSUER, "sub": "auth0|17", "aud": AUDIENCE, "iat": now, "exp": now + 600 })
    }

    fn changed(&self, name: &str, value: impl Into<Value>) -> Value {
        let mut claims = self.claims();
        claims[name] = value.into();
        claims
    }

    fn token(&self) -> String {
        self.key.token(&self.claims())
    }

    async fn send(&self, path: &str, token: &str) -> Reply {
        self.send_to("partner.test", path, token).await
    }

    async fn send_to(&self, host: &str, path: &str, token: &str) -> Reply {
        let bearer = format!("Bearer {token}");
        self.world.call("GET", &format!("https://{host}{path}"), &[("authorization", &bearer)]).await
    }

    /// Waits until a fresh sound token is answered so.
    async fn until(&self, is: impl Fn(u16) -> bool) {
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            let reply = self.send("/api/", &self.token()).await;
            if is(reply.status) {
                return;
            }
            assert!(Instant::now() < end, "{reply:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn has_keys(&self) {
        let end = Instant::now() + Duration::from_secs(10);
        while !self.metric(r#"sealgate_foreign_key_reads_total{issuer="corp",outcome="read"}"#) {
            assert!(Instant::now() < end, "the keys do not come");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn reads(&self, times: usize) {
        let end = Instant::now() + Duration::from_secs(10);
        while self.publisher.asked() < times {
            assert!(Instant::now() < end, "{} readings", self.publisher.asked());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn metric(&self, line: &str) -> bool {
        self.world.sealgate.metrics.text().contains(line)
    }
}

#[tokio::test]
async fn a_token_of_a_trusted_issuer_reaches_the_application_under_a_name_of_its_own() {
    let corp = Corp::new("").await;
    for path in ["/", "/api/x?y"] {
        let reply = corp.send(path, &corp.token()).await;
        assert_eq!(reply.arrived(), ("partner", path));
        assert_eq!(reply.header("x-forwarded-user"), Some("corp:auth0|17"));
        for absent in ["x-forwarded-email", "x-forwarded-name", "x-forwarded-groups", "authorization"] {
            assert_eq!(reply.header(absent), None, "{absent}");
        }
    }
    let reply = corp.send("/open/", &corp.token()).await;
    assert_eq!((reply.arrived().1, reply.header("x-forwarded-user")), ("/open/", None));
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="taken"}"#));
    assert!(corp.metric(r#"sealgate_foreign_key_reads_total{issuer="corp",outcome="read"} 1"#));
    assert!(corp.metric(r#"sealgate_foreign_keys{issuer="corp"} 1"#));
    assert!(corp.metric(r#"sealgate_foreign_keys_read_timestamp_seconds{issuer="corp"} 1800000000"#));
}

#[tokio::test]
async fn no_application_takes_it_that_does_not_name_the_issuer() {
    let corp = Corp::new("").await;
    for (host, path) in [("wiki.test", "/"), ("wiki.test", "/api/x"), ("desk.test", "/"), ("id.test", "/dashboard")] {
        corp.send_to(host, path, &corp.token()).await.assert_refused(401, "invalid_token");
    }
    let userinfo = [("authorization", format!("Bearer {}", corp.token()))];
    let fields = [(userinfo[0].0, userinfo[0].1.as_str())];
    let reply = corp.world.call("GET", "https://id.test/oauth/userinfo", &fields).await;
    assert_eq!(reply.answered_with(), 401);
}

#[tokio::test]
async fn our_own_tokens_are_judged_as_ever_beside_those_of_another_issuer() {
    let corp = Corp::new("").await;
    let token = corp.world.access_token("openid profile").await;
    let reply = corp.send("/profiles/", &token).await;
    assert_eq!(reply.header("x-forwarded-email"), Some(ANNA));
    corp.send("/staff/", &token).await.arrived();
    corp.send("/narrow/", &token).await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn each_algorithm_that_was_allowed_verifies_and_no_other() {
    let (rsa, ec, ed) = (Key::rsa("r"), Key::p256("e"), Key::ed25519("o"));
    let all = key_set(&[&rsa, &ec, &ed]).to_string().into_bytes();
    let publish = |_: &Key| Answer::Bytes(String::new(), all.clone());
    let every = r#"algorithms = ["RS256", "PS256", "ES256", "EdDSA"]"#;
    let corp = Corp::with(every, Key::rsa("unused"), publish).await;
    corp.has_keys().await;
    let claims = corp.claims();
    let header = |alg: &str, kid: &str| json!({ "alg": alg, "kid": kid, "typ": "at+jwt" });
    for token in [
        rsa.token(&claims),
        rsa.token_with(&header("PS256", "r"), &claims),
        ec.token(&claims),
        ed.token(&claims),
        ed.token_with(&header("Ed25519", "o"), &claims),
        // Without a kid there must be no choice: one key of each kind.
        ec.token_with(&json!({ "alg": "ES256", "typ": "at+jwt" }), &claims),
    ] {
        corp.send("/api/", &token).await.arrived();
    }
    for token in [
        // Another algorithm's header over a sound signature.
        rsa.token_of(&header("PS256", "r").to_string(), &claims.to_string(), false),
        rsa.token_of(&header("RS256", "r").to_string(), &claims.to_string(), true),
        ed.token_with(&header("ES256", "o"), &claims),
        ec.token_with(&header("EdDSA", "e"), &claims),
        // Another key's name.
        rsa.token_with(&header("RS256", "e"), &claims),
        ec.token_with(&header("ES256", "r"), &claims),
    ] {
        corp.send("/api/", &token).await.assert_refused(401, "invalid_token");
    }
    let narrow = Corp::with(r#"algorithms = ["ES256"]"#, Key::rsa("unused"), publish).await;
    narrow.has_keys().await;
    narrow.send("/api/", &ec.token(&claims)).await.arrived();
    narrow.send("/api/", &rsa.token(&claims)).await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn no_confusion_of_algorithms_and_keys_forges_a_token() {
    let corp = Corp::new(r#"algorithms = ["RS256", "ES256"]"#).await;
    let claims = corp.claims().to_string();
    let input =
        |header: &Value| format!("{}.{}", base64url(header.to_string().as_bytes()), base64url(claims.as_bytes()));
    let hs256 = |secret: &[u8]| {
        let input = input(&json!({ "alg": "HS256", "kid": "k1", "typ": "at+jwt" }));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), input.as_bytes());
        format!("{input}.{}", base64url(tag.as_ref()))
    };
    let stranger = Key::rsa("k1");
    let header = |further: Value| {
        let mut header = json!({ "alg": "RS256", "kid": "k1", "typ": "at+jwt" });
        header.as_object_mut().unwrap().extend(further.as_object().unwrap().clone());
        header
    };
    let stranger_jwk = stranger.jwk();
    let good = corp.token();
    let (signed, signature) = good.rsplit_once('.').unwrap();
    for (what, token) in [
        ("none", format!("{}.", input(&json!({ "alg": "none", "kid": "k1", "typ": "at+jwt" })))),
        ("none, signed", format!("{}.{signature}", input(&json!({ "alg": "none", "kid": "k1", "typ": "at+jwt" })))),
        ("no signature", format!("{signed}.")),
        ("two parts", signed.to_owned()),
        ("HS256 with the public key", hs256(&corp.key.public_bytes())),
        ("HS256 with the published text", hs256(corp.key.jwk().to_string().as_bytes())),
        ("HS256 with nothing", hs256(b"")),
        ("a stranger's key", stranger.token(&corp.claims())),
        ("jwk", stranger.token_with(&header(json!({ "jwk": stranger_jwk })), &corp.claims())),
        ("jku", stranger.token_with(&header(json!({ "jku": corp.publisher.url("/evil") })), &corp.claims())),
        ("x5u", stranger.token_with(&header(json!({ "x5u": corp.publisher.url("/evil") })), &corp.claims())),
        ("crit", corp.key.token_with(&header(json!({ "crit": ["exp"] })), &corp.claims())),
        ("unknown kid", corp.key.token_with(&header(json!({ "kid": "k2" })), &corp.claims())),
        ("kid as a path", corp.key.token_with(&header(json!({ "kid": "../../k1" })), &corp.claims())),
        ("another kind", corp.key.token_with(&header(json!({ "typ": "logout+jwt" })), &corp.claims())),
        ("an ID token", corp.key.token_with(&header(json!({ "typ": "JWT" })), &corp.claims())),
        ("two algs", corp.key.token_of(r#"{"alg":"none","alg":"RS256","kid":"k1","typ":"at+jwt"}"#, &claims, false)),
        (
            "two subs",
            corp.key.token_of(&header(json!({})).to_string(), &claims.replacen('{', r#"{"sub":"x","#, 1), false),
        ),
    ] {
        for path in ["/", "/api/"] {
            let reply = corp.send(path, &token).await;
            assert_eq!(reply.status, 401, "{what}: {reply:?}");
            reply.assert_refused(401, "invalid_token");
        }
    }
    assert_eq!(corp.publisher.asked(), 1, "nothing in a header makes the gate ask anywhere");
    corp.send("/api/", &good).await.arrived();
}

#[tokio::test]
async fn what_a_token_says_must_hold() {
    let corp = Corp::new(r#"clients = ["cron"]"#).await;
    let now = corp.world.sealgate.clock.now().seconds();
    let of_cron = |mut claims: Value| {
        claims["client_id"] = json!("cron");
        claims
    };
    let sent = async |claims: &Value| corp.send("/api/", &corp.key.token(claims)).await.status;
    assert_eq!(sent(&of_cron(corp.claims())).await, 200);
    assert_eq!(sent(&of_cron(corp.changed("aud", json!(["https://x.test", AUDIENCE])))).await, 200);
    let without = |name: &str| {
        let mut claims = of_cron(corp.claims());
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    for claims in [
        without("aud"),
        without("exp"),
        without("sub"),
        without("client_id"),
        of_cron(corp.changed("aud", "https://other.test")),
        of_cron(corp.changed("aud", json!([]))),
        of_cron(corp.changed("exp", now - 60)),
        of_cron(corp.changed("exp", "9999999999")),
        of_cron(corp.changed("nbf", now + 61)),
        of_cron(corp.changed("iat", now + 61)),
        of_cron(corp.changed("cnf", json!({ "jkt": "x" }))),
        of_cron(corp.changed("iss", "https://login.corp.test")),
        of_cron(corp.changed("iss", "https://id.test")),
        of_cron(corp.changed("sub", "a b")),
        of_cron(corp.changed("padding", "x".repeat(8192))),
        corp.changed("client_id", "other"),
    ] {
        corp.send("/api/", &corp.key.token(&claims)).await.assert_refused(401, "invalid_token");
    }
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="audience"} 3"#));
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="expired"} 2"#));
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="too_long"} 1"#));
}

#[tokio::test]
async fn a_foreign_name_opens_nothing_of_ours_unless_it_was_mapped() {
    let corp = Corp::new("").await;
    let mut claims = corp.claims();
    let ours = json!({
        "sub": corp.world.anna.sub.to_string(), "email": ANNA, "email_verified": true, "groups": ["staff", "corp:staff"],
        "scope": "openid profile", "acr": "1", "name": "Anna",
    });
    claims.as_object_mut().unwrap().extend(ours.as_object().unwrap().clone());
    let token = corp.key.token(&claims);
    for path in ["/staff/", "/corp-staff/", "/annas/", "/seventeens/"] {
        corp.send(path, &token).await.assert_refused(403, "access_denied");
    }
    corp.send("/profiles/", &token).await.assert_refused(403, "insufficient_scope");
    corp.send("/strong/", &token).await.assert_refused(401, "insufficient_user_authentication");
    corp.send("/fresh/", &token).await.assert_refused(401, "insufficient_user_authentication");
    let reply = corp.send("/", &token).await;
    assert_eq!(reply.header("x-forwarded-user"), Some(format!("corp:{}", corp.world.anna.sub).as_str()));
    assert_eq!((reply.header("x-forwarded-email"), reply.header("x-forwarded-groups")), (None, None));
    corp.send("/seventeens/", &corp.token()).await.arrived();
}

#[tokio::test]
async fn what_the_operator_mapped_counts() {
    let corp = Corp::new(
        r#"
        groups_claim = "groups"
        scope_claim = "scope"
        email_claim = "email"
        acr_claim = "acr"
        "#,
    )
    .await;
    let mut claims = corp.claims();
    let said = json!({
        "email": "ANNA@example.test", "email_verified": true, "groups": ["staff"], "scope": "openid profile", "acr": "1",
        "auth_time": claims["iat"],
    });
    claims.as_object_mut().unwrap().extend(said.as_object().unwrap().clone());
    let token = corp.key.token(&claims);
    for path in ["/corp-staff/", "/annas/", "/profiles/", "/strong/", "/fresh/"] {
        let reply = corp.send(path, &token).await;
        assert_eq!(reply.arrived().1, path);
        assert_eq!(reply.header("x-forwarded-groups"), Some("corp:staff"));
        assert_eq!(reply.header("x-forwarded-email"), Some("ANNA@example.test"));
    }
    corp.send("/staff/", &token).await.assert_refused(403, "access_denied");
    corp.world.wait(301);
    corp.send("/fresh/", &token).await.assert_refused(401, "insufficient_user_authentication");
    claims["email_verified"] = json!(false);
    corp.send("/annas/", &corp.key.token(&claims)).await.assert_refused(403, "access_denied");

    let merged = Corp::new("groups_claim = \"groups\"\ngroup_prefix = \"\"").await;
    let token = merged.key.token(&merged.changed("groups", json!(["staff"])));
    merged.send("/staff/", &token).await.arrived();
    merged.send("/corp-staff/", &token).await.assert_refused(403, "access_denied");
}

#[tokio::test]
async fn a_rules_own_audience_narrows_the_issuers() {
    let corp = Corp::new("").await;
    corp.send("/narrow/", &corp.token()).await.assert_refused(401, "invalid_token");
    corp.send("/narrow/", &corp.key.token(&corp.changed("aud", "https://narrow.test"))).await.arrived();
}

#[tokio::test]
async fn the_assertion_and_the_metadata_know_the_other_issuer() {
    let corp = Corp::new("").await;
    let reply = corp.send("/", &corp.token()).await;
    let assertion = reply.header("x-sealgate-assertion").unwrap().split('.').nth(1).unwrap();
    let said: Value = serde_json::from_slice(&sealgate::protocol::secret::from_base64url(assertion).unwrap()).unwrap();
    assert_eq!((&said["sub"], &said["iss"]), (&json!("corp:auth0|17"), &json!("https://id.test")));
    assert!(said.get("email").is_none() && said.get("sid").is_none(), "{said}");
    let path = "/.well-known/oauth-protected-resource";
    let metadata = corp.world.call("GET", &format!("https://partner.test{path}"), &[]).await.json();
    assert_eq!(metadata["authorization_servers"], json!(["https://id.test", ISSUER]));
    let other = corp.world.call("GET", &format!("https://wiki.test{path}"), &[]).await.json();
    assert_eq!(other["authorization_servers"], json!(["https://id.test"]));
}

#[tokio::test]
async fn a_remembered_token_ends_with_its_time_and_with_its_key() {
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
async fn a_new_key_is_good_with_its_first_token_and_invented_ones_cost_one_reading() {
    let corp = Corp::new("throttle_seconds = 2").await;
    let next = Key::rsa("k2");
    corp.publisher.answers(Answer::keys(&[&corp.key, &next]));
    let invented = async |kid: &str| {
        let header = json!({ "alg": "RS256", "typ": "at+jwt", "kid": kid });
        corp.send("/api/", &corp.key.token_with(&header, &corp.claims())).await.status
    };
    // Too soon after the first reading.
    assert_eq!(invented("x").await, 401);
    assert_eq!(corp.publisher.asked(), 1);
    tokio::time::sleep(Duration::from_millis(2100)).await;
    corp.send("/api/", &next.token(&corp.claims())).await.arrived();
    assert_eq!(corp.publisher.asked(), 2);
    for number in 0..50 {
        assert_eq!(invented(&format!("x{number}")).await, 401);
    }
    assert_eq!(corp.publisher.asked(), 2);
    corp.send("/api/", &corp.token()).await.arrived();
}

#[tokio::test]
async fn keys_that_never_came_are_nobodys_fault() {
    let nothing = |_: &Key| Answer::Status("500 Internal Server Error", String::new());
    let corp = Corp::with("throttle_seconds = 7", Key::rsa("k1"), nothing).await;
    corp.reads(1).await;
    let reply = corp.send("/api/", &corp.token()).await;
    reply.assert_refused(503, "temporarily_unavailable");
    assert_eq!(reply.header("retry-after"), Some("7"));
    assert!(corp.metric(r#"sealgate_foreign_tokens_total{issuer="corp",outcome="no_keys"} 1"#));
    // What is wrong in any case is said.
    let expired = corp.key.token(&corp.changed("exp", 1));
    corp.send("/api/", &expired).await.assert_refused(401, "invalid_token");
    assert_eq!(corp.world.sealgate.trust.warnings().len(), 1);
    corp.publisher.answers(Answer::keys(&[&corp.key]));
    corp.until(|status| status == 200).await;
    assert_eq!(corp.world.sealgate.trust.warnings(), [""; 0]);
}

#[tokio::test]
async fn old_keys_go_on_through_an_outage_and_not_for_ever() {
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

#[tokio::test]
async fn a_bad_answer_changes_nothing() {
    let corp = Corp::new("throttle_seconds = 1\nrefresh_seconds = 1").await;
    let elsewhere = Publisher::start(Answer::keys(&[]));
    let bytes = |text: &str| Answer::Bytes(String::new(), text.as_bytes().to_vec());
    let twice = r#"{"keys":[],"keys":[]}"#;
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
        corp.publisher.answers(bad.clone());
        let asked = corp.publisher.asked();
        corp.reads(asked + 2).await;
        corp.send("/api/", &corp.token()).await.arrived();
        assert_eq!(corp.world.sealgate.trust.warnings().len(), 1, "{bad:?}");
    }
    assert_eq!(elsewhere.asked(), 0, "a redirect was followed");
}

#[tokio::test]
async fn keys_in_a_file_are_read_at_the_start_and_when_it_changes() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("keys.json");
    let (first, second) = (Key::rsa("k1"), Key::ed25519("k2"));
    std::fs::write(&file, key_set(&[&first]).to_string()).unwrap();
    let settings = settings("", r#"algorithms = ["RS256", "EdDSA"]"#);
    let settings = settings.replace("jwks = \"\"", &format!("jwks = \"{}\"", file.display()));
    let world = World::with(&settings).await;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(trust::keep(world.sealgate.clone(), stopping));
    let corp = Corp { world, publisher: Publisher::start(Answer::keys(&[])), key: first, _stop: stop };
    // No waiting: they were there before the first request.
    corp.send("/api/", &corp.token()).await.arrived();
    corp.world.wait(30 * 86_400);
    corp.send("/api/", &corp.token()).await.arrived();
    std::fs::write(&file, "{").unwrap();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    corp.send("/api/", &corp.token()).await.arrived();
    std::fs::write(&file, key_set(&[&second]).to_string()).unwrap();
    corp.until(|status| status == 401).await;
    corp.send("/api/", &second.token(&corp.claims())).await.arrived();
}

#[tokio::test]
async fn the_metadata_of_an_issuer_is_believed_about_itself_only() {
    let key = Key::rsa("k1");
    let publisher = Publisher::start(Answer::Huge(0));
    let issuer = publisher.url("/realm");
    let table = |issuer: &str| settings("", "throttle_seconds = 1").replace("jwks = \"\"", "").replace(ISSUER, issuer);
    let world = World::with(&table(&issuer)).await;
    let (stop, stopping) = watch::channel(false);
    tokio::spawn(trust::keep(world.sealgate.clone(), stopping));
    let corp = Corp { world, publisher, key, _stop: stop };
    let mut claims = corp.claims();
    claims["iss"] = json!(issuer);
    let token = corp.key.token(&claims);
    let metadata = |issuer: &str, jwks_uri: &str| json!({ "issuer": issuer, "jwks_uri": jwks_uri });
    let set = ("/keys".to_owned(), key_set(&[&corp.key]));
    let own = corp.publisher.url("/keys");
    let openid = "/realm/.well-known/openid-configuration".to_owned();
    for bad in [
        vec![(openid.clone(), metadata("https://other.test", &own)), set.clone()],
        vec![(openid.clone(), metadata(&issuer, "http://192.0.2.1/keys")), set.clone()],
        vec![(openid.clone(), metadata(&issuer, "file:///etc/passwd")), set.clone()],
        vec![(openid.clone(), json!({ "issuer": issuer })), set.clone()],
        vec![(openid.clone(), json!([])), set.clone()],
        vec![set.clone()],
    ] {
        corp.publisher.answers(Answer::ByPath(bad));
        let asked = corp.publisher.asked();
        corp.reads(asked + 3).await;
        corp.send("/api/", &token).await.assert_refused(503, "temporarily_unavailable");
    }
    // The second place, before the path.
    let oauth = "/.well-known/oauth-authorization-server/realm".to_owned();
    corp.publisher.answers(Answer::ByPath(vec![(oauth, metadata(&issuer, &own)), set]));
    let end = Instant::now() + Duration::from_secs(10);
    while corp.send("/api/", &token).await.status != 200 {
        assert!(Instant::now() < end);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
