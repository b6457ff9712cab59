//! Authentication of this server at the token endpoint.

use std::time::Duration;

use sealgate_domain::oauth::jwk_set::{self, Algorithm};
use sealgate_domain::oauth::jws::Jws;
use sealgate_domain::oauth::verifying_keys::VerifyingKeys;
use serde_json::{Value, json};

use super::harness::*;

/// `client_id` and `client_secret` of the harness, form-encoded (RFC 6749 §2.3.1) and in base64.
const BASIC: &str = "Basic c2VhbGdhdGUrYXQrb3A6cyUyNWNyZXQlMkIlMkYlM0ElQzUlOUY=";

#[tokio::test]
async fn a_secret_is_sent_in_the_header() {
    let fake = FakeProvider::start();
    fake.open().sign_in(&fake).await.unwrap();
    let [request] = &fake.received("/token")[..] else { panic!() };
    assert_eq!((request.method.as_str(), request.headers["authorization"].as_str()), ("POST", BASIC));
    assert_eq!(request.headers["content-type"], "application/x-www-form-urlencoded");
    let names: Vec<_> = request.form().into_keys().collect();
    assert_eq!(names, ["code", "code_verifier", "grant_type", "redirect_uri"]);
}

#[tokio::test]
async fn a_secret_is_sent_in_the_form_only_if_the_provider_supports_nothing_else() {
    let fake = FakeProvider::start();
    let methods = |fake: &FakeProvider, methods: &[&str]| {
        fake.change().metadata["token_endpoint_auth_methods_supported"] = json!(methods);
    };
    methods(&fake, &["client_secret_post", "client_secret_basic"]);
    fake.open().sign_in(&fake).await.unwrap();
    methods(&fake, &["client_secret_post", "private_key_jwt"]);
    fake.open().sign_in(&fake).await.unwrap();
    let [basic, post] = &fake.received("/token")[..] else { panic!() };
    assert_eq!((basic.headers["authorization"].as_str(), basic.form().get("client_secret")), (BASIC, None));
    assert!(!post.headers.contains_key("authorization"));
    assert_eq!((post.form()["client_id"].as_str(), post.form()["client_secret"].as_str()), (CLIENT_ID, SECRET));
}

#[tokio::test]
async fn a_changed_secret_is_used_without_a_restart() {
    let fake = FakeProvider::start();
    let client = fake.open();
    client.sign_in(&fake).await.unwrap();
    fake.replace_secret("new\n");
    client.sign_in(&fake).await.unwrap();
    let [first, second] = &fake.received("/token")[..] else { panic!() };
    assert_ne!(first.headers["authorization"], second.headers["authorization"]);
    fake.replace_secret("");
    assert!(unavailable(client.sign_in(&fake).await).starts_with("settings: "));
}

#[tokio::test]
async fn a_client_key_signs_an_assertion_that_the_published_key_verifies() {
    let fake = FakeProvider::start();
    let client = fake.open_with("client_key = \"op-client\"");
    client.sign_in(&fake).await.unwrap();
    client.clock.advance(Duration::from_secs(10));
    client.sign_in(&fake).await.unwrap();
    let jwks = client.provider.jwks().await.unwrap().unwrap();
    let public: Value = serde_json::from_str(&jwks).unwrap();
    let key = &public["keys"][0];
    assert_eq!((key["use"].as_str(), key["alg"].as_str(), key.get("d")), (Some("sig"), Some("ES256"), None));
    let keys = VerifyingKeys::from_jwks(&jwk_set::read(jwks.as_bytes()).unwrap(), &[Algorithm::Es256]);
    let mut ids = Vec::new();
    for (request, now) in fake.received("/token").iter().zip([NOW.seconds(), NOW.seconds() + 10]) {
        let form = request.form();
        assert!(!request.headers.contains_key("authorization") && !form.contains_key("client_secret"));
        assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
        let assertion = Jws::parse(&form["client_assertion"], 4096, &[Algorithm::Es256]).unwrap();
        assert!(keys.find(&assertion).unwrap().verifies(&assertion));
        assert_eq!(assertion.kid(), key["kid"].as_str());
        let claims = assertion.claims();
        assert_eq!(claims["aud"], json!(fake.issuer), "one text");
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!(CLIENT_ID), &json!(CLIENT_ID)));
        assert_eq!((&claims["iat"], &claims["exp"]), (&json!(now), &json!(now + 60)));
        ids.push(claims["jti"].as_str().unwrap().to_owned());
    }
    assert!(ids.len() == 2 && ids[0] != ids[1] && ids[0].len() == 22, "{ids:?}");
    assert_eq!(fake.open().provider.jwks().await, Ok(None));
}

#[tokio::test]
async fn a_missing_secret_file_is_reported_when_the_provider_is_opened() {
    let fake = FakeProvider::start();
    let settings = fake.settings("");
    fake.replace_secret("");
    let clock = std::sync::Arc::new(sealgate_system::clock::SystemClock);
    let opened = sealgate_upstream::OpenIdProvider::open(&settings, FakeKey::ec(), clock);
    assert!(opened.err().unwrap().to_string().contains("is empty; write the client secret"));
}
