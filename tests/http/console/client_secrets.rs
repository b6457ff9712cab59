//! Tests the secrets and public keys of a client on its page: a second secret with an expiry, removal, and
//! the change between a secret and keys.

use super::confirmation::PUBLIC_KEY;
use super::*;

#[tokio::test]
async fn a_developer_adds_a_second_secret_with_an_expiry_and_removes_the_first() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = register(&ben, &[]).await;
    let (id, first) = (element(&page, "client-id").unwrap(), element(&page, "new-secret").unwrap());
    let path = format!("/console/clients/{id}");
    let works = async |secret: &str| {
        let header = support::basic(&id, secret);
        let reply = provider.post("/oauth/token", &[("authorization", &header)], &[("grant_type", "x")]).await;
        reply.json()["error"] == "unsupported_grant_type"
    };
    // The only secret cannot be removed.
    let only = stored(&provider, &id).await.unwrap().secrets[0].id();
    let page = ben.get(&format!("{path}/secrets")).await;
    assert!(page.text().contains(&only) && !page.text().contains("value=\"remove-secret\""), "{page:?}");
    press(&ben, &path, &[("action", "remove-secret"), ("secret", &only)]).await.assert_error_page();
    for odd in ["-1", "1", "366", "99999999999999999999", "x", ""] {
        press(&ben, &path, &[("action", "add-secret"), ("lifetime_days", odd)]).await.assert_error_page();
    }
    let page = press(&ben, &path, &[("action", "add-secret"), ("lifetime_days", "90")]).await;
    let second = element(&page, "new-secret").unwrap();
    let secrets = stored(&provider, &id).await.unwrap().secrets;
    let end = provider.clock.now().plus(Duration::from_hours(24 * 90));
    assert_eq!((secrets.len(), secrets[0].expires_at, secrets[1].expires_at), (2, None, Some(end)));
    assert!(works(&first).await && works(&second).await);
    // The secret is shown once, and there is no third one.
    assert_eq!(element(&ben.get(&format!("{path}/secrets")).await, "new-secret"), None);
    let page = press(&ben, &path, &[("action", "add-secret"), ("lifetime_days", "0")]).await;
    assert!(page.text().contains("secrets-full"), "{page:?}");
    for unknown in ["", "0123456789ab"] {
        let reply = press(&ben, &path, &[("action", "remove-secret"), ("secret", unknown)]).await;
        assert!([400, 404].contains(&reply.status), "{reply:?}");
    }
    press(&ben, &path, &[("action", "remove-secret"), ("secret", &only)]).await;
    assert!(!works(&first).await && works(&second).await);
}

#[tokio::test]
async fn public_keys_replace_the_secrets_and_a_secret_replaces_the_keys() {
    let provider = provider().await;
    let ben = signed_in(&provider, BEN).await;
    let page = register(&ben, &[]).await;
    let id = element(&page, "client-id").unwrap();
    let path = format!("/console/clients/{id}");
    let before = stored(&provider, &id).await.unwrap();
    // Unusable keys are shown again, and change nothing.
    for typed in ["", "{}", "-----BEGIN PRIVATE KEY-----", r#"{"kty":"oct","k":"c2VjcmV0"}"#] {
        let page = press(&ben, &path, &[("action", "set-keys"), ("jwks", typed)]).await;
        assert!(page.status == 200 && page.text().contains("id=\"keys-unusable\""), "{typed}: {page:?}");
    }
    assert_eq!(stored(&provider, &id).await.unwrap(), before);
    let page = press(&ben, &path, &[("action", "set-keys"), ("jwks", PUBLIC_KEY)]).await;
    assert!(page.text().contains("Ed25519") && !page.text().contains("client-rotate"), "{page:?}");
    let client = stored(&provider, &id).await.unwrap();
    assert_eq!((client.auth_method, client.secrets.len()), (AuthMethod::PrivateKeyJwt, 0));
    assert!(client.assertion_source.is_some());
    // Other settings keep the keys, and a secret cannot be added beside them.
    press(&ben, &path, &[&form(&[("name", "Renamed")])[..], &[("action", "save")]].concat()).await;
    let client = stored(&provider, &id).await.unwrap();
    assert_eq!((client.name.as_str(), client.auth_method), ("Renamed", AuthMethod::PrivateKeyJwt));
    press(&ben, &path, &[("action", "add-secret"), ("lifetime_days", "90")]).await.assert_error_page();
    press(&ben, &path, &[("action", "rotate"), ("overlap_seconds", "0")]).await.assert_error_page();
    let page = press(&ben, &path, &[("action", "use-secret")]).await;
    let secret = element(&page, "new-secret").unwrap();
    let client = stored(&provider, &id).await.unwrap();
    assert_eq!((client.auth_method, client.assertion_source), (AuthMethod::ClientSecretBasic, None));
    let header = support::basic(&id, &secret);
    let reply = provider.post("/oauth/token", &[("authorization", &header)], &[("grant_type", "x")]).await;
    reply.assert_error(400, "unsupported_grant_type");
    press(&ben, &path, &[("action", "use-secret")]).await.assert_error_page();
}
