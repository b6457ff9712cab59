//! The trip of a browser to the provider and back, and the ID token.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::secret::base64url;
use sealgate_domain::source::SourceId;
use sealgate_upstream::{CallbackAnswer, Trip, TripPrompt, UpstreamRefusal};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use url::Url;

use super::harness::*;

#[tokio::test]
async fn a_user_signs_in() {
    let fake = FakeProvider::start();
    fake.change().claims["sid"] = json!("s-1");
    fake.change().claims["acr"] = json!("phr");
    fake.change().claims["amr"] = json!(["hwk", "unknown"]);
    fake.change().claims["auth_time"] = json!(NOW.seconds() - 5);
    let client = fake.open_with("acr = { phr = \"2\" }");
    let arrived = client.sign_in(&fake).await.unwrap();
    assert_eq!(arrived.entry.id, SourceId::from_bytes(b"u-1").unwrap());
    assert_eq!((arrived.entry.name.as_str(), arrived.entry.email_verified), ("Zeynep Ak", true));
    assert_eq!(arrived.entry.groups, BTreeSet::from(["op:staff".to_owned()]));
    assert_eq!((arrived.level, arrived.amr.as_slice()), (Some(AssuranceLevel::Two), &["hwk".to_owned()][..]));
    assert_eq!((arrived.sid.as_deref(), arrived.auth_time.unwrap().seconds()), (Some("s-1"), NOW.seconds() - 5));
    assert_eq!(arrived.refresh_token.unwrap().expose_secret(), "refresh-1");
    assert!(arrived.id_token.is_some() && fake.received("/userinfo").is_empty());
    assert_eq!(fake.received("/.well-known/openid-configuration").len(), 1);
}

#[tokio::test]
async fn keys_of_each_type_are_supported() {
    for key in [FakeKey::ec(), FakeKey::rsa(), FakeKey::ed()] {
        let fake = FakeProvider::start_with(key);
        fake.open().sign_in(&fake).await.unwrap();
    }
}

#[tokio::test]
async fn the_authorization_url_has_all_parameters() {
    let fake = FakeProvider::start();
    let client = fake.open_with("scopes = [\"openid\", \"email\"]");
    let secrets = Secrets::new("url");
    let trip = Trip {
        prompt: Some(TripPrompt::Login),
        max_age: Some(Duration::from_mins(1)),
        login_hint: Some("ay\u{15f}e@example.com&x=1"),
        acr_values: Some("phr mfa"),
        ..secrets.trip()
    };
    let url = Url::parse(&client.provider.authorization_url(&trip).await.unwrap()).unwrap();
    let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
    let expected = [
        ("tenant", "1"),
        ("response_type", "code"),
        ("client_id", CLIENT_ID),
        ("redirect_uri", REDIRECT_URI),
        ("scope", "openid email"),
        ("state", trip.state.expose()),
        ("nonce", trip.nonce.expose()),
        ("code_challenge_method", "S256"),
        ("prompt", "login"),
        ("max_age", "60"),
        ("login_hint", "ay\u{15f}e@example.com&x=1"),
        ("acr_values", "phr mfa"),
    ];
    for (name, value) in expected {
        assert_eq!(query[name], value, "{name}");
    }
    assert_eq!(query.len(), expected.len() + 1, "{query:?}");
    assert!(!url.as_str().contains(trip.code_verifier.expose()));
}

#[tokio::test]
async fn an_answer_of_another_issuer_is_refused_even_if_it_is_an_error() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let secrets = Secrets::new("mix-up");
    let foreign = Some("https://other.test");
    for (code, error) in [(Some("c"), None), (None, Some("access_denied"))] {
        let answer = CallbackAnswer { code, error, iss: foreign };
        assert_eq!(invalid(client.provider.sign_in(&answer, &secrets.trip()).await), "foreign_iss");
    }
    assert!(fake.received("/token").is_empty());
}

#[tokio::test]
async fn an_answer_must_name_the_issuer_if_the_provider_promises_it() {
    let fake = FakeProvider::start();
    fake.change().metadata["authorization_response_iss_parameter_supported"] = json!(true);
    let client = fake.open();
    assert_eq!(invalid(client.sign_in(&fake).await), "no_iss");
    assert!(fake.received("/token").is_empty());
    let secrets = Secrets::new("iss");
    let code = fake.authorize(&client.provider.authorization_url(&secrets.trip()).await.unwrap());
    let answer = CallbackAnswer { iss: Some(&fake.issuer), ..with_code(&code) };
    client.provider.sign_in(&answer, &secrets.trip()).await.unwrap();
}

#[tokio::test]
async fn errors_of_the_provider_are_told_apart() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let secrets = Secrets::new("errors");
    let sign_in = |error| {
        let answer = CallbackAnswer { code: Some("c"), error: Some(error), iss: None };
        let (client, secrets) = (&client, &secrets);
        async move { client.provider.sign_in(&answer, &secrets.trip()).await.unwrap_err() }
    };
    assert_eq!(sign_in("access_denied").await, UpstreamRefusal::Denied);
    assert_eq!(sign_in("login_required").await, UpstreamRefusal::InteractionRequired);
    // The browser brings the error, so it is no outage.
    for (error, kind) in [("temporarily_unavailable", "answer"), ("invalid_scope", "client"), ("<script>", "answer")] {
        let UpstreamRefusal::Refused(fault) = sign_in(error).await else { panic!("{error}") };
        assert_eq!(fault.kind().as_str(), kind, "{error}");
        assert!(!fault.to_string().contains("script"), "{fault}");
    }
    let nothing = CallbackAnswer { code: None, error: None, iss: None };
    assert_eq!(invalid(client.provider.sign_in(&nothing, &secrets.trip()).await), "no_code");
    let long = "c".repeat(5000);
    assert_eq!(invalid(client.provider.sign_in(&with_code(&long), &secrets.trip()).await), "no_code");
    assert!(fake.received("/token").is_empty());
}

#[tokio::test]
async fn a_code_is_for_one_use_in_its_own_trip() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let (own, other) = (Secrets::new("own"), Secrets::new("other"));
    let code = fake.authorize(&client.provider.authorization_url(&own.trip()).await.unwrap());
    assert_eq!(invalid(client.provider.sign_in(&with_code(&code), &other.trip()).await), "code");
    let code = fake.authorize(&client.provider.authorization_url(&own.trip()).await.unwrap());
    client.provider.sign_in(&with_code(&code), &own.trip()).await.unwrap();
    assert_eq!(invalid(client.provider.sign_in(&with_code(&code), &own.trip()).await), "code");
}

#[tokio::test]
async fn each_wrong_claim_is_refused() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let claims = fake.change().claims.clone();
    let at = |offset: i64| json!(NOW.seconds().saturating_add_signed(offset));
    let other_hash = base64url(&[7; 16]);
    let cases: Vec<(&str, Value, &str)> = vec![
        ("iss", json!("https://other.test"), "issuer"),
        ("iss", json!(format!("{}/", fake.issuer)), "issuer"),
        ("aud", json!("other"), "audience"),
        ("aud", json!([CLIENT_ID, "other"]), "client"),
        ("azp", json!("other"), "client"),
        ("exp", at(-60), "expired"),
        ("iat", at(61), "not_yet"),
        ("iat", at(-601), "old"),
        ("nbf", at(61), "not_yet"),
        ("at_hash", json!(other_hash), "at_hash"),
        ("sub", json!(""), "subject"),
        ("sub", json!("a".repeat(256)), "subject"),
    ];
    for (name, value, word) in cases {
        fake.change().claims[name] = value.clone();
        assert_eq!(invalid(client.sign_in(&fake).await), word, "{name}: {value}");
        fake.change().claims = claims.clone();
    }
    for (name, value) in [("iat", at(60)), ("iat", at(-600)), ("exp", at(-59))] {
        fake.change().claims[name] = value.clone();
        assert!(client.sign_in(&fake).await.is_ok(), "{name}: {value}");
        fake.change().claims = claims.clone();
    }
}

#[tokio::test]
async fn an_id_token_of_another_sign_in_is_refused() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let other = Secrets::new("another sign-in");
    for nonce in [json!(other.trip().nonce.expose()), json!(""), json!(null)] {
        fake.change().nonce = Some(nonce.clone());
        assert_eq!(invalid(client.sign_in(&fake).await), "nonce", "{nonce}");
    }
}

#[tokio::test]
async fn a_requested_age_must_be_proved() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let secrets = Secrets::new("age");
    let trip = Trip { max_age: Some(Duration::from_secs(30)), ..secrets.trip() };
    assert_eq!(invalid(client.sign_in_on(&fake, &trip).await), "auth_time");
    fake.change().claims["auth_time"] = json!(NOW.seconds() - 91);
    assert_eq!(invalid(client.sign_in_on(&fake, &trip).await), "auth_time");
    fake.change().claims["auth_time"] = json!(NOW.seconds() - 90);
    client.sign_in_on(&fake, &trip).await.unwrap();
}

#[tokio::test]
async fn tokens_of_other_types_and_unknown_extensions_are_refused() {
    let fake = FakeProvider::start();
    let client = fake.open();
    for (name, value, word) in [
        ("typ", json!("at+jwt"), "kind"),
        ("typ", json!("logout+jwt"), "kind"),
        ("crit", json!(["b64"]), "critical"),
        ("alg", json!("none"), "algorithm"),
        ("alg", json!("HS256"), "algorithm"),
        ("alg", json!("ES384"), "algorithm"),
        // Supported, but the metadata do not list it.
        ("alg", json!("PS256"), "algorithm"),
        // Of another type than the key.
        ("alg", json!("RS256"), "unknown_key"),
        ("kid", json!("k2"), "unknown_key"),
        ("kid", json!("k".repeat(300)), "unknown_key"),
    ] {
        let header = fake.change().header.clone();
        fake.change().header[name] = value.clone();
        assert_eq!(invalid(client.sign_in(&fake).await), word, "{name}: {value}");
        fake.change().header = header;
    }
    client.sign_in(&fake).await.unwrap();
}

#[tokio::test]
async fn a_token_that_is_signed_with_the_public_key_as_secret_is_refused() {
    let fake = FakeProvider::start_with(FakeKey::rsa());
    let client = fake.open();
    let part = |value: &Value| base64url(value.to_string().as_bytes());
    let claims = fake.change().claims.clone();
    let input = format!("{}.{}", part(&json!({ "alg": "HS256", "kid": "k1" })), part(&claims));
    let public = fake.change().jwks[0]["n"].as_str().unwrap().to_owned();
    let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, public.as_bytes());
    let tag = aws_lc_rs::hmac::sign(&key, input.as_bytes());
    fake.change().token_members = json!({ "id_token": format!("{input}.{}", base64url(tag.as_ref())) });
    assert_eq!(invalid(client.sign_in(&fake).await), "algorithm");
    let unsigned = format!("{}.{}.", part(&json!({ "alg": "none" })), part(&claims));
    fake.change().token_members = json!({ "id_token": unsigned });
    assert_eq!(invalid(client.sign_in(&fake).await), "algorithm");
}

#[tokio::test]
async fn a_token_with_a_repeated_member_is_refused() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let secrets = Secrets::new("one");
    let key = Arc::clone(&fake.change().key);
    let mut claims = fake.change().claims.clone();
    claims["nonce"] = json!(secrets.trip().nonce.expose());
    let twice = claims.to_string().replacen('{', "{\"sub\":\"admin\",", 1);
    fake.change().token_members = json!({ "id_token": key.token_of("{\"alg\":\"ES256\",\"kid\":\"k1\"}", &twice) });
    assert_eq!(invalid(client.sign_in(&fake).await), "malformed");
    let twice = "{\"alg\":\"none\",\"alg\":\"ES256\",\"kid\":\"k1\"}";
    fake.change().token_members = json!({ "id_token": key.token_of(twice, &claims.to_string()) });
    assert_eq!(invalid(client.sign_in(&fake).await), "malformed");
    // The same token is accepted without the repetition.
    fake.change().token_members =
        json!({ "id_token": key.token_of("{\"alg\":\"ES256\",\"kid\":\"k1\"}", &claims.to_string()) });
    client.sign_in(&fake).await.unwrap();
}

#[tokio::test]
async fn a_response_without_an_id_token_signs_nobody_in() {
    let fake = FakeProvider::start();
    let client = fake.open();
    fake.change().token_members = json!({ "id_token": null });
    assert_eq!(invalid(client.sign_in(&fake).await), "no_id_token");
}

#[tokio::test]
async fn unusable_token_responses_say_what_is_wrong() {
    let fake = FakeProvider::start();
    let client = fake.open();
    for (members, text) in [
        (json!({ "token_type": "DPoP" }), "token_type"),
        (json!({ "token_type": null }), "token_type"),
        (json!({ "access_token": null }), "access_token"),
        (json!({ "access_token": "" }), "access_token"),
        (json!({ "access_token": 7 }), "access_token"),
        (json!({ "id_token": 7 }), "id_token is empty, too long"),
    ] {
        fake.change().token_members = members.clone();
        let fault = unavailable(client.sign_in(&fake).await);
        assert!(fault.starts_with("answer: ") && fault.contains(text), "{members}: {fault}");
    }
    fake.change().token_members = json!({});
    for (answer, text) in [
        (Answer::Json(200, "{\"access_token\":\"a\",\"access_token\":\"b\"}".into()), "repeats a member"),
        (Answer::Json(200, "not JSON".into()), "not JSON"),
        (Answer::Json(500, "{}".into()), "status 500"),
        (Answer::Json(401, "{\"error\":\"invalid_client\"}".into()), "check client_id"),
    ] {
        fake.change().answers.insert("/token".into(), answer);
        let fault = unavailable(client.sign_in(&fake).await);
        assert!(fault.contains(text) && !fault.contains(SECRET) && !fault.contains("code+"), "{fault}");
    }
    let described = "{\"error\":\"invalid_request\",\"error_description\":\"AADSTS50011\\u0000\"}";
    fake.change().answers.insert("/token".into(), Answer::Json(400, described.into()));
    let fault = refused(client.sign_in(&fake).await);
    assert!(fault.contains("invalid_request (AADSTS50011)") && !fault.contains(SECRET), "{fault}");
}

#[tokio::test]
async fn users_without_a_required_claim_or_an_id_are_refused() {
    let fake = FakeProvider::start();
    fake.change().claims["tid"] = json!("t-2");
    let client = fake.open_with("required = { tid = \"t-1\" }");
    assert_eq!(client.sign_in(&fake).await.unwrap_err(), UpstreamRefusal::NotAllowed("tid".into()));
    fake.change().claims["tid"] = json!("t-1");
    client.sign_in(&fake).await.unwrap();
    let client = fake.open_with("subject_claim = \"oid\"");
    assert_eq!(client.sign_in(&fake).await.unwrap_err(), UpstreamRefusal::NoSubject);
}
