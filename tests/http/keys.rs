//! Tests the report on published keys for auditors.

use crate::support::Provider;

#[tokio::test]
async fn each_published_key_is_reported_with_its_times_and_token_attributes() {
    let provider = Provider::new().await;
    let reply = provider.request("GET", "/.well-known/sealgate/keys", &[("origin", "https://auditor.test")], "").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    assert_eq!(reply.header("cache-control"), Some("public, max-age=60"));
    let document = reply.json();
    let published = provider.get("/oauth/jwks").await.json();
    let [key] = &document["keys"].as_array().unwrap()[..] else { panic!("{document}") };
    assert_eq!(key["kid"], published["keys"][0]["kid"]);
    assert_eq!(
        (&key["state"], &key["bits"], &key["attestation"]),
        (&"active".into(), &2048.into(), &"not attested".into())
    );
    assert!(key["published_at"].is_u64() && key["activate_at"].is_u64() && key["retire_at"].is_null());
    let stated = &key["stated_by_token"];
    for (attribute, value) in [
        ("sensitive", true),
        ("always_sensitive", true),
        ("extractable", false),
        ("never_extractable", true),
        ("local", true),
        ("can_decrypt", false),
    ] {
        assert_eq!(stated[attribute], value, "{attribute}");
    }
    assert_eq!(provider.request("POST", "/.well-known/sealgate/keys", &[], "").await.status, 405);
}
