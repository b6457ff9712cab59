//! Metadata of the provider.

use serde_json::{Value, json};

use super::harness::*;

async fn fault(fake: &FakeProvider) -> String {
    let client = fake.open();
    let fault = client.provider.authorization_url(&Secrets::new("x").trip()).await.unwrap_err();
    format!("{}: {fault}", fault.kind().as_str())
}

#[tokio::test]
async fn unusable_metadata_are_refused_with_a_remedy() {
    let fake = FakeProvider::start();
    let metadata = fake.change().metadata.clone();
    let cases: Vec<(&str, Value, &str)> = vec![
        ("issuer", json!("https://other.test"), "names another issuer"),
        ("issuer", Value::Null, "no usable issuer"),
        ("token_endpoint", Value::Null, "no usable token_endpoint"),
        ("jwks_uri", json!("http://169.254.169.254/latest/meta-data"), "not https"),
        ("jwks_uri", json!("https://169.254.169.254/latest/meta-data"), "link-local"),
        ("userinfo_endpoint", json!("https://[fe80::1]/"), "link-local"),
        ("token_endpoint", json!("http://op.test/token"), "not https"),
        ("token_endpoint", json!("https://user@op.test/token"), "username"),
        ("authorization_endpoint", json!("javascript:alert(1)"), "not https"),
        ("end_session_endpoint", json!("javascript:alert(1)"), "not https"),
        ("id_token_signing_alg_values_supported", json!(["none", "HS256"]), "not signed with"),
        ("response_types_supported", json!(["id_token"]), "response type code"),
    ];
    for (name, value, text) in cases {
        fake.change().metadata[name] = value.clone();
        let fault = fault(&fake).await;
        assert!(fault.starts_with("metadata: ") && fault.contains(text), "{name}: {value}: {fault}");
        fake.change().metadata = metadata.clone();
    }
    assert!(fake.received("/jwks").is_empty());
}

#[tokio::test]
async fn unusable_documents_are_refused() {
    let fake = FakeProvider::start();
    let metadata = fake.change().metadata.to_string();
    let twice = metadata.replacen('{', &format!("{{\"issuer\":\"{}\",", fake.issuer), 1);
    let long = format!("{metadata}{}", " ".repeat(300_000));
    for (path, answer, text) in [
        ("/.well-known/openid-configuration", Answer::Json(404, String::new()), "write the issuer exactly"),
        ("/.well-known/openid-configuration", Answer::Json(500, String::new()), "500"),
        ("/.well-known/openid-configuration", Answer::Json(200, "[]".into()), "not a JSON object"),
        ("/.well-known/openid-configuration", Answer::Json(200, twice), "repeats a member"),
        ("/.well-known/openid-configuration", Answer::Json(200, long), "openid-configuration"),
        ("/jwks", Answer::Json(200, "{}".into()), "key set"),
        ("/jwks", Answer::Json(200, "{\"keys\":[]}".into()), "no key for the provider's algorithms"),
        ("/jwks", Answer::Json(500, String::new()), "500"),
    ] {
        fake.change().answers.insert(path.into(), answer);
        let fault = fault(&fake).await;
        assert!(fault.contains(text), "{path}: {fault}");
        fake.change().answers.clear();
    }
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let fake = FakeProvider::start();
    for (path, from) in [("/.well-known/openid-configuration", "metadata"), ("/jwks", "keys")] {
        let place = format!("Location: {}/elsewhere\r\n", fake.issuer);
        fake.change().answers.insert(path.into(), Answer::Raw(302, place, String::new()));
        assert!(fault(&fake).await.contains("302"), "{from}");
        fake.change().answers.clear();
    }
    let client = fake.open();
    for path in ["/token", "/userinfo"] {
        fake.change().claims.as_object_mut().unwrap().remove("name");
        let place = format!("Location: {}/elsewhere\r\n", fake.issuer);
        fake.change().answers.insert(path.into(), Answer::Raw(307, place, String::new()));
        assert!(unavailable(client.sign_in(&fake).await).contains("307"), "{path}");
        fake.change().answers.clear();
    }
    assert!(fake.received("/elsewhere").is_empty());
}

#[tokio::test]
async fn metadata_are_read_once_and_again_after_a_failure() {
    let fake = FakeProvider::start();
    let client = fake.open();
    let (one, other) = (Secrets::new("one"), Secrets::new("other"));
    fake.change().answers.insert("/jwks".into(), Answer::Json(503, String::new()));
    let (first_trip, second_trip) = (one.trip(), other.trip());
    let (first, second) =
        tokio::join!(client.provider.authorization_url(&first_trip), client.provider.authorization_url(&second_trip));
    assert!(first.is_err() && second.is_err());
    assert_eq!(fake.received("/jwks").len(), 1, "the second request uses the failure of the first");
    fake.change().answers.clear();
    // A failure is remembered for a second.
    let waited = tokio::time::timeout(std::time::Duration::from_secs(30), async {
        while client.provider.authorization_url(&one.trip()).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap();
    let read = fake.received("/.well-known/openid-configuration").len();
    for _ in 0..5 {
        client.sign_in(&fake).await.unwrap();
    }
    assert_eq!((read, fake.received("/.well-known/openid-configuration").len()), (2, 2));
}
