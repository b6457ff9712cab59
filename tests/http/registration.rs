//! Tests the management of a registration by its client (RFC 7592; cases REG-15 to REG-19).

use sealgate_domain::assertion_source::{AssertionSource, ClientJwks};
use sealgate_domain::client::{AuthMethod, Client, ClientId};
use serde_json::json;

use crate::foreign::{Key, key_set};
use crate::register::{JSON, Registered, manage, open};

#[tokio::test]
async fn reg_15_a_client_reads_its_registration() {
    let provider = open().await;
    let own = Registered::new(&provider, &json!({"client_name": "Wiki", "client_uri": "https://rp.test/"})).await;
    let reply = own.manage(&provider, "GET", "").await;
    assert_eq!((reply.status, reply.header("cache-control")), (200, Some("no-store")));
    // RFC 7592 §3 requires the URI and the token. The secret is stored only as a hash and cannot be
    // shown again.
    let mut expected = own.body.clone();
    expected.as_object_mut().unwrap().remove("client_secret");
    expected.as_object_mut().unwrap().remove("client_secret_expires_at");
    assert_eq!(reply.json(), expected);
}

#[tokio::test]
async fn reg_16_only_its_own_token_gives_access_to_a_registration() {
    let provider = open().await;
    let one = Registered::new(&provider, &json!({"client_name": "One"})).await;
    let other = Registered::new(&provider, &json!({"client_name": "Other"})).await;
    let update = one.update(&json!({"client_name": "Taken over"})).to_string();
    let unknown = "/oauth/register/unknown";
    for (method, body) in [("GET", ""), ("PUT", update.as_str()), ("DELETE", "")] {
        let token = other.text("registration_access_token");
        for (path, token) in
            [(one.path(), token), (one.path(), "wrong"), (one.path(), one.text("client_secret")), (unknown, token)]
        {
            manage(&provider, method, path, token, body).await.assert_bearer_error(401, "invalid_token");
        }
        let missing = provider.request(method, one.path(), &[JSON], body).await;
        assert_eq!((missing.status, missing.header("www-authenticate")), (401, Some("Bearer realm=\"sealgate\"")));
    }
    // The token in the query or in two headers is rejected too.
    let query = format!("{}?access_token={}", one.path(), one.text("registration_access_token"));
    assert_eq!(provider.get(&query).await.status, 401);
    assert_eq!(one.manage(&provider, "GET", "").await.json()["client_name"], "One");
}

#[tokio::test]
async fn reg_16_an_operators_client_has_no_registration_to_manage() {
    let provider = open().await;
    manage(&provider, "GET", "/oauth/register/c1", "x", "").await.assert_bearer_error(401, "invalid_token");
    manage(&provider, "GET", "/oauth/register/c1", "secret of c1", "").await.assert_bearer_error(401, "invalid_token");
}

#[tokio::test]
async fn reg_17_an_update_replaces_the_metadata() {
    let provider = open().await;
    let more = json!({"client_name": "Wiki", "client_uri": "https://rp.test/"});
    let own = Registered::new(&provider, &more).await;
    let update = own.update(&json!({"redirect_uris": ["https://rp.test/new"], "scope": "openid email"}));
    let reply = own.manage(&provider, "PUT", &update.to_string()).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = reply.json();
    assert_eq!((&body["redirect_uris"], &body["scope"]), (&json!(["https://rp.test/new"]), &"openid email".into()));
    // Members that the update omits are removed (RFC 7592 §2.2). Members that identify the client
    // stay.
    assert_eq!(body.get("client_uri"), None);
    assert_ne!(body["client_name"], "Wiki");
    for member in ["client_id", "client_id_issued_at", "registration_client_uri", "registration_access_token"] {
        assert_eq!(body[member], own.body[member], "{member}");
    }
    let client = own.client(&provider);
    provider.browser().open(&client.authorize(&[])).await.assert_error_page();
    let reply = provider.browser().open(&client.authorize(&[("redirect_uri", "https://rp.test/new")])).await;
    assert_eq!(reply.status, 200);
    // The secret still works.
    client.redeem("x").await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn reg_17_an_update_must_name_the_client_and_no_server_values() {
    let provider = open().await;
    let own = Registered::new(&provider, &json!({"client_name": "Wiki"})).await;
    for changes in [
        json!({"client_id": "other"}),
        json!({"client_id": null}),
        json!({"client_secret": "wrong"}),
        json!({"client_secret": 7}),
        json!({"registration_access_token": own.text("registration_access_token")}),
        json!({"registration_client_uri": own.text("registration_client_uri")}),
        json!({"client_secret_expires_at": 0}),
        json!({"client_id_issued_at": 1_800_000_000}),
    ] {
        let reply = own.manage(&provider, "PUT", &own.update(&changes).to_string()).await;
        assert_eq!(reply.status, 400, "{changes}: {reply:?}");
        reply.assert_error(400, "invalid_client_metadata");
    }
    let without_uris = json!({"client_id": own.text("client_id")}).to_string();
    own.manage(&provider, "PUT", &without_uris).await.assert_error(400, "invalid_redirect_uri");
    own.manage(&provider, "PUT", "{").await.assert_error(400, "invalid_client_metadata");
    assert_eq!(own.manage(&provider, "GET", "").await.json()["client_name"], "Wiki");
    let secret = own.text("client_secret");
    let reply = own.manage(&provider, "PUT", &own.update(&json!({"client_secret": secret})).to_string()).await;
    // A client that stores the answer keeps its secret.
    assert_eq!((reply.status, &reply.json()["client_secret"]), (200, &secret.into()));
    assert_eq!(reply.json()["client_secret_expires_at"].as_u64(), Some(0));
}

#[tokio::test]
async fn reg_17_a_client_may_become_public_and_confidential_again() {
    let provider = open().await;
    let own = Registered::new(&provider, &json!({})).await;
    let public = own.update(&json!({"token_endpoint_auth_method": "none"})).to_string();
    let reply = own.manage(&provider, "PUT", &public).await.json();
    assert_eq!((&reply["token_endpoint_auth_method"], reply.get("client_secret")), (&"none".into(), None));
    own.client(&provider).redeem("x").await.assert_unauthenticated();
    let again = own.manage(&provider, "PUT", &own.update(&json!({})).to_string()).await.json();
    own.client(&provider).redeem("x").await.assert_unauthenticated();
    assert_ne!(again["client_secret"], own.body["client_secret"]);
    let mut client = own.client(&provider);
    client.secret = again["client_secret"].as_str().map(str::to_owned);
    client.redeem("x").await.assert_error(400, "invalid_grant");
}

#[tokio::test]
async fn reg_17_an_update_does_not_replace_the_keys_that_an_operator_set() {
    let provider = open().await;
    let own = Registered::new(&provider, &json!({})).await;
    let jwks = ClientJwks::parse(&key_set(&[&Key::p256("e")]).to_string()).unwrap();
    let set = |client: &mut Client| {
        client.set_auth_method(AuthMethod::PrivateKeyJwt);
        client.assertion_source = Some(AssertionSource::Jwks(jwks.clone()));
    };
    provider.change_client(own.text("client_id"), set).await;
    let id = ClientId::parse(own.text("client_id")).unwrap();
    let stored = async || {
        let client = provider.sealgate.store.client(&id).await.unwrap().unwrap();
        (client.client_type, client.auth_method, client.assertion_source, client.secrets)
    };
    let before = stored().await;
    for method in ["client_secret_post", "none"] {
        let changes = json!({"token_endpoint_auth_method": method, "client_name": method});
        let reply = own.manage(&provider, "PUT", &own.update(&changes).to_string()).await;
        let body = reply.json();
        assert_eq!((reply.status, &body["client_name"]), (200, &method.into()), "{reply:?}");
        assert_eq!(body["token_endpoint_auth_method"], "private_key_jwt");
        assert_eq!((body.get("client_secret"), stored().await), (None, before.clone()));
    }
    own.client(&provider).redeem("x").await.assert_unauthenticated();
}

#[tokio::test]
async fn reg_19_removing_a_client_ends_all_its_access() {
    let provider = open().await;
    let more = json!({"grant_types": ["authorization_code", "refresh_token"]});
    let own = Registered::new(&provider, &more).await;
    let client = own.client(&provider);
    let code = client.code(&[]).await;
    let tokens = client.tokens("openid offline_access").await;
    assert_eq!(provider.userinfo(&tokens.access).await.status, 200);
    let reply = own.manage(&provider, "DELETE", "").await;
    assert_eq!((reply.status, reply.text(), reply.header("cache-control")), (204, "", Some("no-store")));
    provider.browser().open(&client.authorize(&[])).await.assert_error_page();
    client.redeem(&code).await.assert_unauthenticated();
    client.refresh(&tokens.refresh).await.assert_unauthenticated();
    provider.userinfo(&tokens.access).await.assert_bearer_error(401, "invalid_token");
    for method in ["GET", "DELETE"] {
        own.manage(&provider, method, "").await.assert_bearer_error(401, "invalid_token");
    }
}

#[tokio::test]
async fn reg_15_other_methods_are_405_and_head_is_get() {
    let provider = open().await;
    let own = Registered::new(&provider, &json!({})).await;
    let reply = own.manage(&provider, "POST", "{}").await;
    assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD, PUT, DELETE")));
    assert_eq!(own.manage(&provider, "HEAD", "").await.status, 200);
}

#[tokio::test]
async fn reg_15_a_script_of_another_origin_may_manage_its_client() {
    let provider = open().await;
    let own = Registered::new(&provider, &json!({})).await;
    let preflight = [
        ("origin", "https://spa.test"),
        ("access-control-request-method", "PUT"),
        ("access-control-request-headers", "authorization,content-type"),
    ];
    let reply = provider.request("OPTIONS", own.path(), &preflight, "").await;
    assert_eq!(reply.status, 204);
    assert!(reply.header("access-control-allow-methods").unwrap().contains("PUT"));
    for reply in [reply, own.manage(&provider, "GET", "").await, provider.get(own.path()).await] {
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
    }
}

#[tokio::test]
async fn misc_02_a_failed_update_leaves_the_registration_unchanged() {
    let provider = open().await;
    let own = Registered::new(&provider, &json!({"client_name": "Wiki"})).await;
    provider.engine.refuse_writes(true);
    let update = own.update(&json!({"client_name": "Other"})).to_string();
    for reply in [own.manage(&provider, "PUT", &update).await, own.manage(&provider, "DELETE", "").await] {
        reply.assert_error(503, "temporarily_unavailable");
        assert!(reply.header("retry-after").is_some());
    }
    provider.engine.refuse_writes(false);
    assert_eq!(own.manage(&provider, "GET", "").await.json()["client_name"], "Wiki");
}
