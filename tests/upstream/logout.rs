//! Logout in both directions.

use std::collections::BTreeMap;
use std::sync::Arc;

use sealgate_domain::secret::Secret;
use sealgate_domain::source::SourceId;
use sealgate_upstream::UpstreamRefusal;
use secrecy::SecretString;
use serde_json::{Value, json};
use url::Url;

use super::harness::*;

const EVENT: &str = "http://schemas.openid.net/event/backchannel-logout";

fn logout_token(fake: &FakeProvider, change: impl FnOnce(&mut Value, &mut Value)) -> String {
    let mut header = json!({ "alg": "ES256", "kid": "k1", "typ": "logout+jwt" });
    let mut claims = json!({
        "iss": fake.issuer, "aud": CLIENT_ID, "iat": NOW.seconds(), "exp": NOW.seconds() + 120, "jti": "j-1",
        "sub": "u-1", "sid": "s-1", "events": { EVENT: {} },
    });
    change(&mut header, &mut claims);
    let key = Arc::clone(&fake.change().key);
    key.token(&header, &claims)
}

#[tokio::test]
async fn a_logout_token_names_a_session_of_a_user() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let token = client.provider.verify_logout_token(&logout_token(&fake, |_, _| {})).await.unwrap();
    assert_eq!((token.sub, token.sid.as_deref()), (SourceId::from_bytes(b"u-1"), Some("s-1")));
    assert_eq!((token.jti.as_str(), token.ends_at.seconds()), ("j-1", NOW.seconds() + 180));
}

#[tokio::test]
async fn each_changed_member_of_a_logout_token_is_refused() {
    type Change = (&'static str, fn(&mut Value, &mut Value));
    let changes: &[Change] = &[
        ("issuer", |_, claims| claims["iss"] = json!("https://other.test")),
        ("audience", |_, claims| claims["aud"] = json!("other")),
        ("old", |_, claims| claims["iat"] = json!(NOW.seconds() - 601)),
        ("expired", |_, claims| claims["exp"] = json!(NOW.seconds() - 60)),
        ("events", |_, claims| claims["events"] = json!({})),
        ("nonce", |_, claims| claims["nonce"] = json!("n")),
        ("jti", |_, claims| claims["jti"] = Value::Null),
        ("kind", |header, _| header["typ"] = json!("at+jwt")),
        ("algorithm", |header, _| header["alg"] = json!("HS256")),
        ("unknown_key", |header, _| header["kid"] = json!("k9")),
    ];
    let fake = FakeProvider::start();
    let client = fake.open();
    for (word, change) in changes {
        let refusal = client.provider.verify_logout_token(&logout_token(&fake, change)).await.unwrap_err();
        assert!(matches!(refusal, UpstreamRefusal::Invalid(_)) && refusal.as_str() == *word, "{word}: {refusal:?}");
    }
    fake.change().key = FakeKey::ec();
    let forged = client.provider.verify_logout_token(&logout_token(&fake, |_, _| {})).await.unwrap_err();
    assert_eq!(forged.as_str(), "signature");
    assert_eq!(fake.received("/jwks").len(), 1, "forged tokens cause no reads of the keys");
}

#[tokio::test]
async fn an_id_token_is_no_logout_token_and_the_reverse() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let arrived = client.sign_in(&fake).await.unwrap();
    let id_token = secrecy::ExposeSecret::expose_secret(&arrived.id_token.unwrap()).to_owned();
    assert_eq!(client.provider.verify_logout_token(&id_token).await.unwrap_err().as_str(), "events");
    let typed = logout_token(&fake, |_, _| {});
    fake.change().token_members = json!({ "id_token": typed });
    assert_eq!(invalid(client.sign_in(&fake).await), "kind");
    let untyped = logout_token(&fake, |header, _| header["typ"] = json!("JWT"));
    fake.change().token_members = json!({ "id_token": untyped });
    assert_eq!(invalid(client.sign_in(&fake).await), "nonce");
}

#[tokio::test]
async fn the_session_at_the_provider_is_ended_with_the_id_token() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let (token, state) = (SecretString::from("e30.e30.x"), Secret::new("st"));
    let url =
        client.provider.end_session_url(Some(&token), "https://id.test/oauth/logged-out", Some(&state)).await.unwrap();
    let url = Url::parse(&url).unwrap();
    assert!(url.as_str().starts_with(&format!("{}/logout?", fake.issuer)));
    let query: BTreeMap<_, _> = url.query_pairs().into_owned().collect();
    assert_eq!(query["client_id"], CLIENT_ID);
    assert_eq!(query["post_logout_redirect_uri"], "https://id.test/oauth/logged-out");
    assert_eq!((query["id_token_hint"].as_str(), query["state"].as_str()), ("e30.e30.x", "st"));
    let local = fake.open_with("logout = \"local\"");
    assert_eq!(local.provider.end_session_url(None, "https://id.test/", None).await, None);
    let long = SecretString::from("e".repeat(7000));
    let url = client.provider.end_session_url(Some(&long), "https://id.test/", None).await.unwrap();
    assert!(!url.contains("id_token_hint"));
    let away = "/.well-known/openid-configuration".to_owned();
    fake.change().answers.insert(away, Answer::Json(503, "{}".into()));
    assert_eq!(fake.open().provider.end_session_url(None, "https://id.test/", None).await, None);
}
