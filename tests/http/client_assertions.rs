//! Tests client authentication with signed assertions (RFC 7523, OpenID Connect Core §9): keys of the
//! client, key sets at a URL, and tokens of trusted issuers for workloads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::hmac;
use sealgate_config::KeySource;
use sealgate_core::tokens::client_key_sets::ClientKeySets;
use sealgate_core::tokens::documents::DocumentFetcher;
use sealgate_domain::assertion_source::{AssertionSource, ClientJwks, Workload};
use sealgate_domain::client::{AuthMethod, Client, ClientState};
use sealgate_domain::secret::base64url;
use sealgate_domain::service::ServiceAccess;
use sealgate_store::{ClientDefinition, DefineOutcome};
use sealgate_system::clock::{Clock as _, SystemClock};
use sealgate_system::fetch::Document;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::foreign::{Key, key_set};
use crate::meddler::At;
use crate::postgres_server::empty_store;
use crate::support::{ISSUER, Provider, Reply, Tokens, basic, jwt_claims};

const TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const WIKI: &str = "https://wiki.test";
const APPS: &str = r#"
    [rate_limits]
    token = 10000
    revoke = 10000
    [[app]]
    name = "wiki"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8081"]
    scopes = { "wiki:read" = "Read pages" }
"#;

/// Table of one-time items.
const ONCE: u8 = b'o';

static NEXT_JTI: AtomicU64 = AtomicU64::new(1);

/// Makes a client authenticate with these keys.
fn use_keys(client: &mut Client, source: AssertionSource) {
    client.set_auth_method(AuthMethod::PrivateKeyJwt);
    client.assertion_source = Some(source);
    let apps = BTreeMap::from([("wiki".to_owned(), ["wiki:read".to_owned()].into())]);
    client.service = Some(ServiceAccess { apps, ..ServiceAccess::default() });
}

fn jwks(keys: &[&Key]) -> AssertionSource {
    AssertionSource::Jwks(ClientJwks::parse(&key_set(keys).to_string()).unwrap())
}

/// Returns a provider whose client `c1` authenticates with this key.
async fn provider(key: &Key) -> Provider {
    let provider = Provider::with(APPS).await;
    provider.change_client("c1", |client| use_keys(client, jwks(&[key]))).await;
    provider
}

/// Returns the claims of a valid assertion of `c1`, with these changes. `null` removes a claim.
fn claims(provider: &Provider, changes: &Value) -> Value {
    let now = provider.clock.now().seconds();
    let jti = NEXT_JTI.fetch_add(1, Ordering::Relaxed).to_string();
    let mut claims = json!({"iss": "c1", "sub": "c1", "aud": ISSUER, "iat": now, "exp": now + 60, "jti": jti});
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => claims.as_object_mut().unwrap().remove(name),
            value => claims.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    claims
}

fn header(alg: &str, key: &Key) -> Value {
    json!({"alg": alg, "typ": "JWT", "kid": key.kid})
}

/// Returns a valid assertion with these changes to the claims.
fn assertion(provider: &Provider, alg: &str, key: &Key, changes: &Value) -> String {
    key.token_with(&header(alg, key), &claims(provider, changes))
}

/// Presents an assertion with these further parameters. A refresh token that does not exist follows
/// the authentication, so `invalid_grant` shows that the client is authenticated.
async fn present(provider: &Provider, assertion: &str, more: &[(&str, &str)]) -> Reply {
    let grant = [("grant_type", "refresh_token"), ("refresh_token", "RT_x")];
    let proof = [("client_assertion_type", TYPE), ("client_assertion", assertion)];
    provider.post("/oauth/token", &[], &[&grant[..], &proof, more].concat()).await
}

async fn ask(provider: &Provider, assertion: &str, more: &[(&str, &str)]) -> Reply {
    let grant = [("grant_type", "client_credentials"), ("resource", WIKI)];
    let proof = [("client_assertion_type", TYPE), ("client_assertion", assertion)];
    provider.post("/oauth/token", &[], &[&grant[..], &proof, more].concat()).await
}

#[track_caller]
fn assert_accepted(reply: &Reply) {
    reply.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn a_client_authenticates_with_each_algorithm() {
    let (rsa, p256, ed25519) = (Key::rsa("r"), Key::p256("e"), Key::ed25519("o"));
    let provider = provider(&rsa).await;
    provider.change_client("c1", |client| client.assertion_source = Some(jwks(&[&rsa, &p256, &ed25519]))).await;
    for (alg, key) in [("RS256", &rsa), ("PS256", &rsa), ("ES256", &p256), ("EdDSA", &ed25519), ("Ed25519", &ed25519)] {
        let tokens = Tokens::of(&ask(&provider, &assertion(&provider, alg, key, &json!({})), &[]).await);
        let claims = jwt_claims(&tokens.access);
        assert_eq!((&claims["sub"], &claims["aud"]), (&json!("c1"), &json!(WIKI)), "{alg}");
    }
    // One key of a type needs no kid.
    let nameless = ed25519.token_with(&json!({"alg": "EdDSA"}), &claims(&provider, &json!({})));
    assert_accepted(&present(&provider, &nameless, &[("client_id", "c1")]).await);
    let typed = json!({"alg": "ES256", "kid": "e", "typ": "client-authentication+jwt"});
    assert_accepted(&present(&provider, &p256.token_with(&typed, &claims(&provider, &json!({}))), &[]).await);
    let metrics = provider.sealgate.metrics.text();
    assert!(metrics.contains("sealgate_client_assertions_total{outcome=\"accepted\"} 7"), "{metrics}");
}

/// The documented script, with a key that openssl has generated.
#[tokio::test]
async fn the_documented_script_makes_an_assertion() {
    const SCRIPT: &str = include_str!("../../examples/client-assertion.sh");
    let page = include_str!("../../docs/how-to/clients-without-a-secret.md").replace("\n   ", "\n");
    assert!(page.contains(&format!("\n{SCRIPT}```\n")), "the page does not contain the script");
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let run = |program: &str, arguments: &[&str]| {
        let output = std::process::Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run("openssl", &["genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", &path("key.pem")]);
    let public = run("openssl", &["pkey", "-in", &path("key.pem"), "-pubout"]);
    let key = Key::p256("e");
    let provider = provider(&key).await;
    let jwks = AssertionSource::Jwks(ClientJwks::parse(&public).unwrap());
    provider.change_client("c1", |client| client.assertion_source = Some(jwks.clone())).await;
    provider.clock.set(SystemClock.now());
    std::fs::write(path("client-assertion"), SCRIPT).unwrap();
    for _ in 0..2 {
        let assertion = run("sh", &[&path("client-assertion"), &path("key.pem"), "c1", ISSUER]);
        assert_accepted(&present(&provider, assertion.trim_end(), &[]).await);
    }
}

#[tokio::test]
async fn an_assertion_is_accepted_once() {
    let key = Key::p256("e");
    let provider = provider(&key).await;
    let first = assertion(&provider, "ES256", &key, &json!({"jti": "same"}));
    assert_accepted(&present(&provider, &first, &[]).await);
    present(&provider, &first, &[]).await.assert_unauthenticated();
    // Another assertion with the same id, and another endpoint.
    let second =
        assertion(&provider, "ES256", &key, &json!({"jti": "same", "exp": provider.clock.now().seconds() + 90}));
    present(&provider, &second, &[]).await.assert_unauthenticated();
    let proof = [("client_assertion_type", TYPE), ("client_assertion", first.as_str()), ("token", "RT_x")];
    provider.post("/oauth/revoke", &[], &proof).await.assert_unauthenticated();
    // Another node, and a restart.
    let other = provider.with_settings(APPS).await;
    present(&other, &first, &[]).await.assert_unauthenticated();
    // The id belongs to the client.
    provider.change_client("c2", |client| use_keys(client, jwks(&[&key]))).await;
    let own = json!({"jti": "same", "iss": "c2", "sub": "c2"});
    assert_accepted(&present(&provider, &assertion(&provider, "ES256", &key, &own), &[]).await);
    // Garbage collection removes the record, but never before the assertion has expired.
    for _ in 0..20 {
        provider.wait(60);
        provider.sealgate.store.sweep(provider.clock.now(), 1000).await.unwrap();
        present(&provider, &first, &[]).await.assert_unauthenticated();
    }
    let reused = assertion(&provider, "ES256", &key, &json!({"jti": "same"}));
    assert_accepted(&present(&provider, &reused, &[]).await);
}

#[tokio::test]
async fn of_concurrent_requests_with_one_assertion_one_succeeds() {
    let key = Key::p256("e");
    let (provider, meddler) = Provider::meddled_with(APPS).await;
    provider.change_client("c1", |client| use_keys(client, jwks(&[&key]))).await;
    let assertion = assertion(&provider, "ES256", &key, &json!({}));
    let stop = meddler.stop(At::BeforeCommit, ONCE);
    let (late, early) =
        tokio::join!(present(&provider, &assertion, &[]), stop.meanwhile(present(&provider, &assertion, &[])));
    assert_accepted(&early);
    late.assert_unauthenticated();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_three_nodes_one_accepts_an_assertion() {
    let key = Key::p256("e");
    let cluster = Provider::cluster(3, APPS, &empty_store().await).await;
    cluster[0].change_client("c1", |client| use_keys(client, jwks(&[&key]))).await;
    for _ in 0..5 {
        let assertion = assertion(&cluster[0], "ES256", &key, &json!({}));
        let mut sent = JoinSet::new();
        for number in 0..12 {
            let (node, assertion) = (Arc::clone(&cluster[number % 3]), assertion.clone());
            sent.spawn(async move { present(&node, &assertion, &[]).await.status });
        }
        let mut statuses = sent.join_all().await;
        statuses.sort_unstable();
        assert_eq!((statuses[0], &statuses[1..]), (400, &[401; 11][..]));
    }
}

#[tokio::test]
async fn a_repeated_assertion_does_not_use_up_the_clients_limit() {
    let key = Key::p256("e");
    let provider = Provider::with(&APPS.replace("token = 10000", "token = 5")).await;
    provider.change_client("c1", |client| use_keys(client, jwks(&[&key]))).await;
    let first = assertion(&provider, "ES256", &key, &json!({}));
    assert_accepted(&present(&provider, &first, &[]).await);
    for _ in 0..10 {
        assert!([401, 429].contains(&present(&provider, &first, &[]).await.status));
    }
    assert_accepted(&present(&provider, &assertion(&provider, "ES256", &key, &json!({})), &[]).await);
}

#[tokio::test]
async fn wrong_claims_are_refused() {
    let key = Key::p256("e");
    let provider = provider(&key).await;
    let now = provider.clock.now().seconds();
    for changes in [
        json!({"iss": "c2"}),
        json!({"iss": null}),
        json!({"sub": "c2"}),
        json!({"sub": null}),
        json!({"iss": "c2", "sub": "c2"}),
        json!({"iss": ISSUER}),
        json!({"aud": null}),
        json!({"aud": [ISSUER]}),
        json!({"aud": [ISSUER, "https://evil.test"]}),
        json!({"aud": format!("{ISSUER}/oauth/token")}),
        json!({"aud": format!("{ISSUER}/")}),
        json!({"aud": "https://evil.test"}),
        json!({"exp": null}),
        json!({"exp": now - 31}),
        json!({"exp": now + 3600}),
        json!({"exp": "never"}),
        json!({"iat": now + 120}),
        json!({"nbf": now + 120}),
        json!({"jti": null}),
        json!({"jti": ""}),
        json!({"jti": 1}),
    ] {
        let wrong = assertion(&provider, "ES256", &key, &changes);
        present(&provider, &wrong, &[("client_id", "c1")]).await.assert_unauthenticated();
    }
    let further = assertion(&provider, "ES256", &key, &json!({"x": {"y": [1]}, "client_id": "c2"}));
    assert_accepted(&present(&provider, &further, &[]).await);
}

#[tokio::test]
async fn forged_signatures_and_headers_are_refused() {
    let (key, rsa, other) = (Key::p256("e"), Key::rsa("r"), Key::p256("other"));
    let provider = provider(&key).await;
    provider.change_client("c1", |client| client.assertion_source = Some(jwks(&[&key, &rsa]))).await;
    provider.change_client("c2", |client| use_keys(client, jwks(&[&other]))).await;
    let claims = claims(&provider, &json!({}));
    let mac = |secret: &[u8], kid: &str| {
        let header = json!({"alg": "HS256", "kid": kid}).to_string();
        let input = format!("{}.{}", base64url(header.as_bytes()), base64url(claims.to_string().as_bytes()));
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), input.as_bytes());
        format!("{input}.{}", base64url(tag.as_ref()))
    };
    let sound = key.token_with(&header("ES256", &key), &claims);
    let (input, signature) = sound.rsplit_once('.').unwrap();
    let none = base64url(br#"{"alg":"none"}"#);
    let repeated = claims.to_string().replacen('{', r#"{"sub":"c1","#, 1);
    for (case, wrong) in [
        ("another key with the client's kid", other.token_with(&header("ES256", &key), &claims)),
        ("the key and kid of another client", other.token_with(&header("ES256", &other), &claims)),
        ("the kid of another client", key.token_with(&json!({"alg": "ES256", "kid": "other"}), &claims)),
        ("the algorithm of another key", key.token_with(&json!({"alg": "RS256", "kid": "e"}), &claims)),
        ("another padding", rsa.token_of(&header("RS256", &rsa).to_string(), &claims.to_string(), true)),
        ("HMAC with the public key", mac(&rsa.public_bytes(), "r")),
        ("HMAC with the public key in PEM", mac(b"-----BEGIN PUBLIC KEY-----", "e")),
        ("HMAC with the client's id", mac(b"c1", "e")),
        ("alg none", format!("{none}.{}.", input.split_once('.').unwrap().1)),
        ("alg none with a signature", format!("{none}.{}.{signature}", input.split_once('.').unwrap().1)),
        ("no signature", format!("{input}.")),
        ("crit", key.token_with(&json!({"alg": "ES256", "kid": "e", "crit": ["b64"], "b64": true}), &claims)),
        ("a key in the header", other.token_with(&json!({"alg": "ES256", "jwk": other.jwk()}), &claims)),
        (
            "a key set in the header",
            other.token_with(&json!({"alg": "ES256", "kid": "e", "jku": "https://evil.test/jwks"}), &claims),
        ),
        (
            "a certificate",
            other.token_with(&json!({"alg": "ES256", "x5u": "https://evil.test/", "x5c": ["x"]}), &claims),
        ),
        ("an access token", key.token_with(&json!({"alg": "ES256", "kid": "e", "typ": "at+jwt"}), &claims)),
        ("duplicate claims", key.token_of(&header("ES256", &key).to_string(), &repeated, false)),
        ("duplicate header", key.token_of(r#"{"alg":"none","alg":"ES256","kid":"e"}"#, &claims.to_string(), false)),
        ("more parts", format!("{sound}.x.y")),
        ("huge", assertion(&provider, "ES256", &key, &json!({"x": "x".repeat(9000)}))),
        ("no JWT", "x".to_owned()),
    ] {
        let reply = present(&provider, &wrong, &[("client_id", "c1")]).await;
        assert_eq!(reply.status, 401, "{case}: {reply:?}");
        reply.assert_unauthenticated();
        assert_eq!(present(&provider, &wrong, &[]).await.status, 401, "{case}");
    }
    // A header that names other keys is harmless if the client's own key has signed.
    let ignored = json!({"alg": "ES256", "kid": "e", "jku": "https://evil.test/jwks", "jwk": other.jwk()});
    assert_accepted(&present(&provider, &key.token_with(&ignored, &self::claims(&provider, &json!({}))), &[]).await);
    assert_accepted(&present(&provider, &sound, &[]).await);
}

#[tokio::test]
async fn an_assertion_excludes_every_other_credential() {
    let key = Key::p256("e");
    let provider = provider(&key).await;
    let next = || assertion(&provider, "ES256", &key, &json!({}));
    present(&provider, &next(), &[("client_secret", "secret of c1")]).await.assert_error(400, "invalid_request");
    let grant = [("grant_type", "refresh_token"), ("refresh_token", "RT_x")];
    let value = next();
    let proof = [("client_assertion_type", TYPE), ("client_assertion", value.as_str())];
    for credentials in [basic("c1", "secret of c1"), basic("c2", "secret of c2"), "Bearer x".to_owned()] {
        let reply =
            provider.post("/oauth/token", &[("authorization", &credentials)], &[&grant[..], &proof].concat()).await;
        reply.assert_error(400, "invalid_request");
    }
    let twice = [("client_assertion", value.as_str())];
    present(&provider, &value, &twice).await.assert_error(400, "invalid_request");
    present(&provider, &value, &[("client_id", "c2")]).await.assert_unauthenticated();
    present(&provider, &value, &[("client_id", "nobody")]).await.assert_unauthenticated();
    let saml = [("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer"), proof[1]];
    for incomplete in [&saml[..], &proof[..1], &proof[1..]] {
        provider.post("/oauth/token", &[], &[&grant[..], incomplete].concat()).await.assert_unauthenticated();
    }
    assert_accepted(&present(&provider, &value, &[("client_id", "c1")]).await);
}

#[tokio::test]
async fn each_client_has_one_method() {
    let key = Key::p256("e");
    let provider = provider(&key).await;
    let as_client = |id: &str| assertion(&provider, "ES256", &key, &json!({"iss": id, "sub": id}));
    // Clients with a secret and public clients, even with keys in their record.
    for id in ["c2", "p1"] {
        present(&provider, &as_client(id), &[]).await.assert_unauthenticated();
        provider.change_client(id, |client| client.assertion_source = Some(jwks(&[&key]))).await;
        present(&provider, &as_client(id), &[("client_id", id)]).await.assert_unauthenticated();
    }
    // A client with keys, even with a secret in its record.
    let secret = provider.confidential("c1").secrets;
    provider.change_client("c1", |client| client.secrets.clone_from(&secret)).await;
    provider.c1().refresh("RT_x").await.assert_unauthenticated();
    let form = [("client_id", "c1"), ("client_secret", "secret of c1"), ("grant_type", "refresh_token")];
    provider.post("/oauth/token", &[], &form).await.assert_unauthenticated();
    provider.post("/oauth/token", &[], &[form[0], form[2]]).await.assert_unauthenticated();
    assert_accepted(&present(&provider, &as_client("c1"), &[]).await);
    // A disabled client.
    provider.change_client("c1", |client| client.state = ClientState::Disabled).await;
    present(&provider, &as_client("c1"), &[]).await.assert_unauthenticated();
    provider.change_client("c1", |client| client.state = ClientState::Enabled).await;
    // Removed keys.
    provider.change_client("c1", |client| client.assertion_source = Some(jwks(&[&Key::p256("new")]))).await;
    present(&provider, &as_client("c1"), &[]).await.assert_unauthenticated();
    provider.change_client("c1", |client| client.assertion_source = None).await;
    present(&provider, &as_client("c1"), &[]).await.assert_unauthenticated();
}

#[tokio::test]
async fn a_client_revokes_its_tokens_with_an_assertion() {
    let key = Key::p256("e");
    let provider = provider(&key).await;
    let tokens = Tokens::of(&ask(&provider, &assertion(&provider, "ES256", &key, &json!({})), &[]).await);
    let value = assertion(&provider, "ES256", &key, &json!({}));
    let form = [("client_assertion_type", TYPE), ("client_assertion", value.as_str()), ("token", &tokens.access)];
    assert_eq!(provider.post("/oauth/revoke", &[], &form).await.status, 200);
    let revoked = provider.sealgate.bearer(&tokens.access, provider.clock.now()).await;
    assert!(revoked.is_err(), "{revoked:?}");
}

/// Key sets by URL, and the number of fetches.
#[derive(Default)]
struct KeySets {
    answer: Mutex<Option<Value>>,
    fetched: Mutex<Vec<String>>,
}

impl DocumentFetcher for KeySets {
    fn fetch(&self, url: &str) -> Result<Document, String> {
        self.fetched.lock().unwrap().push(url.to_owned());
        let answer = self.answer.lock().unwrap().clone().ok_or_else(|| format!("{url}: not found (404)"))?;
        Ok(Document { body: answer.to_string().into_bytes(), max_age: None })
    }
}

impl KeySets {
    fn publish(&self, keys: Option<&[&Key]>) {
        *self.answer.lock().unwrap() = keys.map(key_set);
    }

    fn fetches(&self) -> usize {
        self.fetched.lock().unwrap().len()
    }
}

const URI: &str = "https://job.test/jwks";

async fn with_uri() -> (Provider, Arc<KeySets>) {
    let mut provider = Provider::with(APPS).await;
    let sets = Arc::new(KeySets::default());
    let fetcher = Arc::clone(&sets) as Arc<dyn DocumentFetcher>;
    Arc::get_mut(&mut provider.sealgate).unwrap().client_key_sets = Arc::new(ClientKeySets::with(fetcher));
    provider.change_client("c1", |client| use_keys(client, AssertionSource::JwksUri(URI.to_owned()))).await;
    (provider, sets)
}

#[tokio::test]
async fn a_key_set_is_fetched_cached_and_renewed() {
    let (provider, sets) = with_uri().await;
    let (key, next) = (Key::p256("1"), Key::p256("2"));
    let attempt = async |key: &Key| present(&provider, &assertion(&provider, "ES256", key, &json!({})), &[]).await;
    // Without keys, the assertion may still be valid.
    assert_eq!(attempt(&key).await.status, 503);
    sets.publish(Some(&[&key]));
    // A failure is repeated after a minute at the earliest.
    assert_eq!((attempt(&key).await.status, sets.fetches()), (503, 1));
    provider.wait(60);
    assert_accepted(&attempt(&key).await);
    assert_accepted(&attempt(&key).await);
    assert_eq!(*sets.fetched.lock().unwrap(), [URI, URI]);
    // An unknown key causes one fetch in a minute, whatever its id.
    sets.publish(Some(&[&key, &next]));
    attempt(&next).await.assert_unauthenticated();
    provider.wait(60);
    assert_accepted(&attempt(&next).await);
    for number in 0..20 {
        attempt(&Key::p256(&format!("x{number}"))).await.assert_unauthenticated();
    }
    assert_eq!(sets.fetches(), 3);
    // After five minutes the set is fetched again, so a removed key is refused.
    sets.publish(Some(&[&next]));
    provider.wait(299);
    assert_accepted(&attempt(&key).await);
    provider.wait(1);
    attempt(&key).await.assert_unauthenticated();
    assert_accepted(&attempt(&next).await);
    // While the set cannot be fetched, the last known keys stay in use for a day.
    sets.publish(None);
    provider.wait(86_400 - 1);
    assert_accepted(&attempt(&next).await);
    provider.wait(60);
    assert_eq!(attempt(&next).await.status, 503);
    sets.publish(Some(&[]));
    provider.wait(60);
    assert_eq!(attempt(&next).await.status, 503);
}

#[tokio::test]
async fn only_a_client_of_the_operator_causes_a_fetch() {
    let (provider, sets) = with_uri().await;
    let key = Key::p256("1");
    sets.publish(Some(&[&key]));
    let owner = provider.anna.sub;
    provider.change_client("c1", |client| client.owner = Some(owner)).await;
    present(&provider, &assertion(&provider, "ES256", &key, &json!({})), &[]).await.assert_unauthenticated();
    provider.change_client("c1", |client| client.owner = None).await;
    // An assertion whose claims are wrong does not cause one either.
    let wrong = assertion(&provider, "ES256", &key, &json!({"aud": "https://evil.test"}));
    present(&provider, &wrong, &[]).await.assert_unauthenticated();
    assert_eq!(sets.fetches(), 0);
    // A changed URL has other keys.
    assert_accepted(&present(&provider, &assertion(&provider, "ES256", &key, &json!({})), &[]).await);
    let moved = AssertionSource::JwksUri("https://job.test/other".to_owned());
    provider.change_client("c1", |client| client.assertion_source = Some(moved.clone())).await;
    sets.publish(None);
    assert_eq!(present(&provider, &assertion(&provider, "ES256", &key, &json!({})), &[]).await.status, 503);
}

#[tokio::test]
async fn a_key_set_at_a_private_address_is_not_fetched() {
    let provider = Provider::with(APPS).await;
    let uri = "https://127.0.0.1:9/jwks".to_owned();
    provider.change_client("c1", |client| use_keys(client, AssertionSource::JwksUri(uri.clone()))).await;
    let key = Key::p256("1");
    assert_eq!(present(&provider, &assertion(&provider, "ES256", &key, &json!({})), &[]).await.status, 503);
}

const CLUSTER: &str = "https://kubernetes.test";
const ACCOUNT: &str = "system:serviceaccount:jobs:backup";
const TRUST: &str = r#"
    [[trusted_issuer]]
    name = "k8s"
    issuer = "https://kubernetes.test"
    audiences = ["https://kubernetes.default.svc"]
    jwks = "/etc/sealgate/k8s.json"
"#;

/// Returns a provider that trusts a cluster with this key, and whose client `c1` is a workload of it.
async fn with_cluster(key: &Key) -> (Provider, TempDir) {
    with_cluster_of(key, TRUST).await
}

async fn with_cluster_of(key: &Key, trust: &str) -> (Provider, TempDir) {
    let files = tempfile::tempdir().unwrap();
    let path: PathBuf = files.path().join("k8s.json");
    std::fs::write(&path, key_set(&[key]).to_string()).unwrap();
    let change = |config: &mut sealgate_config::Config| config.trusted_issuers[0].keys = KeySource::File(path);
    let provider = Provider::changed(&format!("{APPS}{trust}"), change).await;
    let workload = Workload::new("k8s", ACCOUNT).unwrap();
    provider.change_client("c1", |client| use_keys(client, AssertionSource::Workload(workload.clone()))).await;
    (provider, files)
}

/// Returns a token as Kubernetes projects it into a pod, with these changes.
fn projected(provider: &Provider, key: &Key, changes: &Value) -> String {
    let now = provider.clock.now().seconds();
    let mut claims = json!({
        "aud": [ISSUER],
        "exp": now + 3607,
        "iat": now,
        "iss": CLUSTER,
        "jti": "0b4d0e8a-3f8c-4f0f-9c2f-3f6f5ad1a0c4",
        "kubernetes.io": {
            "namespace": "jobs",
            "pod": {"name": "backup-28961280-x7x2k", "uid": "5e3b1f0e-73d5-4fd5-8a53-5d4d5f1e0f0a"},
            "serviceaccount": {"name": "backup", "uid": "f3f1b1a0-6c0c-4d3e-8e4e-8a9a4b1d2c3e"},
        },
        "nbf": now,
        "sub": ACCOUNT,
    });
    claims.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
    key.token_with(&json!({"alg": "RS256", "kid": key.kid}), &claims)
}

#[tokio::test]
async fn a_workload_authenticates_with_a_token_of_its_platform() {
    let key = Key::rsa("k");
    let (provider, _files) = with_cluster(&key).await;
    let token = projected(&provider, &key, &json!({}));
    // The pod uses its token until the platform renews it.
    for _ in 0..3 {
        let tokens = Tokens::of(&ask(&provider, &token, &[("client_id", "c1")]).await);
        assert_eq!(jwt_claims(&tokens.access)["sub"], "c1");
        provider.wait(600);
    }
    // The token does not name the client.
    ask(&provider, &token, &[]).await.assert_unauthenticated();
    ask(&provider, &token, &[("client_id", "c2")]).await.assert_unauthenticated();
    provider.wait(3600);
    ask(&provider, &token, &[("client_id", "c1")]).await.assert_unauthenticated();
}

#[tokio::test]
async fn a_workload_must_be_a_listed_client_of_the_issuer() {
    let key = Key::rsa("k");
    let (provider, _files) = with_cluster_of(&key, &format!("{TRUST}clients = [\"backup\"]\n")).await;
    for claims in [json!({}), json!({"azp": "other"}), json!({"client_id": "other", "azp": "backup"})] {
        let token = projected(&provider, &key, &claims);
        ask(&provider, &token, &[("client_id", "c1")]).await.assert_unauthenticated();
    }
    let token = projected(&provider, &key, &json!({"azp": "backup"}));
    Tokens::of(&ask(&provider, &token, &[("client_id", "c1")]).await);
}

#[tokio::test]
async fn other_tokens_of_the_platform_are_refused() {
    let (key, other) = (Key::rsa("k"), Key::rsa("k"));
    let (provider, _files) = with_cluster(&key).await;
    let now = provider.clock.now().seconds();
    for changes in [
        json!({"sub": "system:serviceaccount:jobs:backup2"}),
        json!({"sub": "system:serviceaccount:jobs:backu"}),
        json!({"sub": "system:serviceaccount:other:backup"}),
        json!({"sub": "c1"}),
        json!({"aud": ["https://kubernetes.default.svc"]}),
        json!({"aud": [ISSUER, "https://kubernetes.default.svc"]}),
        json!({"aud": []}),
        json!({"iss": "https://evil.test"}),
        json!({"iss": "c1", "sub": "c1"}),
        json!({"exp": now - 61}),
        json!({"exp": null}),
        json!({"nbf": now + 120}),
        json!({"cnf": {"jkt": "x"}}),
    ] {
        let wrong = projected(&provider, &key, &changes);
        ask(&provider, &wrong, &[("client_id", "c1")]).await.assert_unauthenticated();
    }
    let forged = projected(&provider, &other, &json!({}));
    ask(&provider, &forged, &[("client_id", "c1")]).await.assert_unauthenticated();
    // A token that a program has for another purpose.
    let access = key.token(&json!({"iss": CLUSTER, "sub": ACCOUNT, "aud": ISSUER, "exp": now + 60}));
    ask(&provider, &access, &[("client_id", "c1")]).await.assert_unauthenticated();
    // The client's own assertion, with a key that the platform has published.
    let own = assertion(&provider, "RS256", &key, &json!({}));
    ask(&provider, &own, &[("client_id", "c1")]).await.assert_unauthenticated();
    // The platform is no longer trusted.
    let untrusting = provider.with_settings(APPS).await;
    ask(&untrusting, &projected(&provider, &key, &json!({})), &[("client_id", "c1")]).await.assert_unauthenticated();
    Tokens::of(&ask(&provider, &projected(&provider, &key, &json!({})), &[("client_id", "c1")]).await);
}

#[tokio::test]
async fn the_discovery_document_names_the_method_only_if_the_operator_uses_it() {
    const METHODS: &str = "token_endpoint_auth_methods_supported";
    const ALGORITHMS: &str = "token_endpoint_auth_signing_alg_values_supported";
    let key = Key::p256("e");
    let plain = Provider::with(APPS).await;
    let before = plain.get("/.well-known/openid-configuration").await.text().to_owned();
    assert!(!before.contains("private_key_jwt") && !before.contains("auth_signing_alg"), "{before}");
    // A client of the store counts too.
    plain.change_client("c1", |client| use_keys(client, jwks(&[&key]))).await;
    assert!(plain.get("/.well-known/openid-configuration").await.text().contains("private_key_jwt"));
    let client = r#"
        [[client]]
        id = "job"
        name = "Job"
        type = "confidential"
        jwks_uri = "https://job.test/jwks"
        service = { app = "wiki" }
    "#;
    let provider = Provider::with(&format!("{APPS}{client}")).await;
    let [defined] = provider.sealgate.config.clients.as_slice() else { panic!("one client is defined") };
    let definition = ClientDefinition { client: &defined.client, adopt: false };
    let outcome = provider.sealgate.store.define_clients(&[definition], provider.clock.now(), 1).await.unwrap();
    assert!(matches!(outcome, DefineOutcome::Defined(_)), "{outcome:?}");
    let after = provider.get("/.well-known/oauth-authorization-server").await.json();
    for prefix in ["token", "revocation"] {
        let methods = &after[format!("{prefix}_endpoint_auth_methods_supported")];
        assert_eq!(methods, &json!(["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]));
        let algorithms = &after[format!("{prefix}_endpoint_auth_signing_alg_values_supported")];
        assert_eq!(algorithms, &json!(["RS256", "PS256", "ES256", "EdDSA", "Ed25519"]));
    }
    // Nothing else changes but the grant type, which the service adds.
    let mut rest = after.as_object().unwrap().clone();
    let mut plain: Value = serde_json::from_str(&before).unwrap();
    for member in [METHODS, ALGORITHMS, "revocation_endpoint_auth_methods_supported", "grant_types_supported"] {
        rest.remove(member);
        plain.as_object_mut().unwrap().remove(member);
    }
    rest.remove("revocation_endpoint_auth_signing_alg_values_supported");
    assert_eq!(Value::Object(rest), plain);
}
