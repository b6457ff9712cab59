//! Keys of the provider, and their rotation.

use std::sync::Arc;
use std::time::Duration;

use sealgate_system::clock::Clock as _;
use serde_json::json;

use super::harness::*;

#[tokio::test]
async fn a_token_of_a_new_key_causes_one_read_of_the_keys() {
    let fake = FakeProvider::start();
    let client = fake.open();
    client.sign_in(&fake).await.unwrap();
    assert_eq!(fake.received("/jwks").len(), 1);
    rotate(&fake, "k2");
    // The keys were read within the last 30 seconds.
    client.clock.advance(Duration::from_secs(29));
    assert_eq!(invalid(client.sign_in(&fake).await), "unknown_key");
    assert_eq!(fake.received("/jwks").len(), 1);
    client.clock.advance(Duration::from_secs(1));
    client.sign_in(&fake).await.unwrap();
    client.sign_in(&fake).await.unwrap();
    assert_eq!(fake.received("/jwks").len(), 2);
}

#[tokio::test]
async fn a_key_that_is_replaced_under_its_id_is_read_again() {
    let fake = FakeProvider::start();
    let client = fake.open();
    client.sign_in(&fake).await.unwrap();
    let key = FakeKey::ec();
    fake.change().jwks = vec![key.jwk("k1")];
    fake.change().key = key;
    client.clock.advance(Duration::from_secs(30));
    client.sign_in(&fake).await.unwrap();
}

/// Moves the clocks of both sides forward.
fn advance(fake: &FakeProvider, client: &Client, seconds: u64) {
    client.clock.advance(Duration::from_secs(seconds));
    let now = client.clock.now().seconds();
    let mut fake = fake.change();
    fake.claims["iat"] = json!(now);
    fake.claims["exp"] = json!(now + 300);
}

#[tokio::test]
async fn a_withdrawn_key_is_refused_after_an_hour() {
    let fake = FakeProvider::start();
    let client = fake.open();
    client.sign_in(&fake).await.unwrap();
    let other = FakeKey::ec().jwk("k2");
    fake.change().jwks = vec![other];
    advance(&fake, &client, 3599);
    client.sign_in(&fake).await.unwrap();
    advance(&fake, &client, 1);
    assert_eq!(invalid(client.sign_in(&fake).await), "unknown_key");
}

#[tokio::test]
async fn known_keys_remain_for_a_day_during_an_outage() {
    let fake = FakeProvider::start();
    let client = fake.open();
    client.sign_in(&fake).await.unwrap();
    fake.change().answers.insert("/.well-known/openid-configuration".into(), Answer::Json(503, String::new()));
    advance(&fake, &client, 3600);
    client.sign_in(&fake).await.unwrap();
    assert_eq!(fake.received("/.well-known/openid-configuration").len(), 2, "the metadata were requested again");
    advance(&fake, &client, 23 * 3600);
    assert!(unavailable(client.sign_in(&fake).await).contains("503"));
}

#[tokio::test]
async fn a_new_key_is_used_by_a_client_that_reads_it_first() {
    let fake = FakeProvider::start();
    rotate(&fake, "k2");
    fake.open().sign_in(&fake).await.unwrap();
}

fn rotate(fake: &FakeProvider, kid: &str) {
    let key = FakeKey::ec();
    let mut fake = fake.change();
    fake.jwks.push(key.jwk(kid));
    fake.header["kid"] = json!(kid);
    fake.key = key;
}

#[tokio::test]
async fn a_signature_of_another_key_is_refused() {
    let fake = FakeProvider::start();
    let client = fake.open();
    client.sign_in(&fake).await.unwrap();
    let published = std::mem::replace(&mut fake.change().key, FakeKey::ec());
    assert_eq!(invalid(client.sign_in(&fake).await), "signature");
    fake.change().key = published;
    client.sign_in(&fake).await.unwrap();
}

#[tokio::test]
async fn a_key_in_the_header_of_a_token_is_ignored() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let attacker = FakeKey::ec();
    for header in [
        json!({ "alg": "ES256", "kid": "k1", "jwk": attacker.jwk("k1") }),
        json!({ "alg": "ES256", "kid": "k1", "jku": format!("{}/attacker", fake.issuer) }),
        json!({ "alg": "ES256", "jwk": attacker.jwk("k1") }),
    ] {
        fake.change().header = header;
        fake.change().key = Arc::clone(&attacker);
        assert_eq!(invalid(client.sign_in(&fake).await), "signature");
    }
    assert!(fake.received("/attacker").is_empty());
}

#[tokio::test]
async fn a_token_without_a_key_id_needs_a_single_key() {
    let fake = FakeProvider::start();
    fake.change().header = json!({ "alg": "ES256" });
    fake.open().sign_in(&fake).await.unwrap();
    let other = FakeKey::ec().jwk("k2");
    fake.change().jwks.push(other);
    assert_eq!(invalid(fake.open().sign_in(&fake).await), "unknown_key");
}

#[tokio::test]
async fn keys_for_encryption_are_ignored() {
    let fake = FakeProvider::start();
    fake.change().jwks[0]["use"] = json!("enc");
    assert!(unavailable(fake.open().sign_in(&fake).await).starts_with("keys: "));
}
