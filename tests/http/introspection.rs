//! Tests token introspection (RFC 7662).

use std::collections::BTreeSet;

use sealgate_admin::command::{Command, UserCommand};
use sealgate_admin::{CommandContext, UserRef, execute};
use sealgate_domain::assurance::AssuranceLevel as Level;
use sealgate_domain::client::Client as Record;
use sealgate_domain::oauth::introspection::IntrospectionAccess;
use sealgate_domain::username::Username;
use sealgate_store::RenameOutcome;
use sealgate_system::clock::Clock as _;
use serde_json::{Value, json};

use crate::steps::{altered, forged};
use crate::support::{Client, ISSUER, Provider, REDIRECT_URI, Reply, Tokens, jwt_claims};

const WIKI: &str = "https://wiki.test";
const SHOP: &str = "https://shop.test";
const APPS: &str = r#"
    [rate_limits]
    introspect = 30
    [[app]]
    name = "wiki"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8081"]
    scopes = { "wiki:read" = "Read pages" }
    [[app]]
    name = "shop"
    host = "shop.test"
    upstreams = ["http://127.0.0.1:8082"]
    issuer_audience = false
"#;
const ADDRESS: &str = "/.well-known/openid-configuration";

fn access(apps: &[&str]) -> IntrospectionAccess {
    let apps: BTreeSet<String> = apps.iter().map(|app| (*app).to_owned()).collect();
    IntrospectionAccess { apps }
}

/// Returns a provider whose client `c1` may introspect tokens for the wiki, and `c3` its own only.
async fn provider() -> Provider {
    let provider = Provider::with(APPS).await;
    provider.add_client(provider.confidential("c3")).await;
    provider.change_client("c1", |client: &mut Record| client.introspection = Some(access(&["wiki"]))).await;
    provider.change_client("c3", |client: &mut Record| client.introspection = Some(access(&[]))).await;
    provider
}

async fn introspect(client: &Client<'_>, token: &str) -> Reply {
    client.post("/oauth/introspect", &[("token", token)]).await
}

/// Asserts a response about a token that the client may not use or see.
#[track_caller]
fn assert_inactive(reply: &Reply, what: &str) {
    assert_eq!((reply.status, reply.json()), (200, json!({ "active": false })), "{what}");
}

/// Returns tokens of a client for a resource.
async fn tokens_for(client: &Client<'_>, resource: &str, scope: &str) -> Tokens {
    let code = client.code(&[("resource", resource), ("scope", scope)]).await;
    let fields = [("grant_type", "authorization_code"), ("code", code.as_str()), ("redirect_uri", REDIRECT_URI)];
    Tokens::of(&client.token(&[&fields[..], &[("resource", resource)]].concat()).await)
}

#[tokio::test]
async fn a_listed_client_sees_its_own_tokens_and_those_of_its_applications() {
    let provider = provider().await;
    let name = Username::parse("anna").unwrap();
    let set = |user: &mut sealgate_domain::user::User| user.username = Some(name.clone());
    let renamed = provider.sealgate.store.rename_user(provider.anna.sub, set).await;
    assert!(matches!(renamed.unwrap(), RenameOutcome::Renamed(_)));
    let (c1, c2, c3) = (provider.c1(), provider.c2(), Client::confidential(&provider, "c3"));
    let tokens = tokens_for(&c2, WIKI, "openid profile wiki:read").await;
    let reply = introspect(&c1, &tokens.access).await;
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    let claims = jwt_claims(&tokens.access);
    let expected = json!({
        "active": true, "scope": claims["scope"], "client_id": "c2", "username": "anna", "token_type": "Bearer",
        "exp": claims["exp"], "iat": claims["iat"], "sub": provider.anna.sub, "aud": [WIKI, ISSUER], "iss": ISSUER,
        "jti": claims["jti"], "auth_time": claims["auth_time"], "acr": "1",
    });
    assert_eq!(reply.json(), expected);
    // Without the scope `profile`, there is no username.
    let own = c1.tokens("openid offline_access").await;
    let reply = introspect(&c1, &own.access).await.json();
    assert_eq!((&reply["active"], &reply["aud"], reply.get("username")), (&json!(true), &json!(ISSUER), None));
    let reply = introspect(&c1, &own.refresh).await.json();
    let expected = json!({
        "active": true, "scope": "openid offline_access", "client_id": "c1", "sub": provider.anna.sub, "iss": ISSUER,
        "exp": reply["exp"], "auth_time": reply["auth_time"], "acr": "1",
    });
    assert_eq!(reply, expected);
    assert!(reply["exp"].as_u64().unwrap() > provider.clock.now().seconds() + 86_400);
    let third = c3.tokens("openid").await;
    assert_eq!(introspect(&c3, &third.access).await.json()["client_id"], "c3");
}

#[tokio::test]
async fn everything_else_is_inactive() {
    let provider = provider().await;
    let (c1, c2, c3) = (provider.c1(), provider.c2(), Client::confidential(&provider, "c3"));
    let wiki = tokens_for(&c2, WIKI, "openid wiki:read").await;
    let shop = tokens_for(&c2, SHOP, "openid").await;
    let other = c2.tokens("openid offline_access").await;
    let own = c1.tokens("openid offline_access").await;
    assert_inactive(&introspect(&c1, &shop.access).await, "a token for another application");
    assert_inactive(&introspect(&c1, &other.access).await, "another client's token for the issuer");
    assert_inactive(&introspect(&c1, &other.refresh).await, "another client's refresh token");
    assert_inactive(&introspect(&c3, &wiki.access).await, "a token for an application that is not listed");
    assert_inactive(&introspect(&c1, &own.id).await, "an ID token");
    assert_inactive(&introspect(&c1, &forged(&own.access, "RS256", |_| {})).await, "a forged token");
    assert_inactive(&introspect(&c1, &forged(&own.access, "none", |_| {})).await, "an unsigned token");
    let longer = altered(&own.access, |claims| claims["exp"] = json!(9_000_000_000_u64));
    assert_inactive(&introspect(&c1, &longer).await, "an altered token");
    for text in ["x", "..", "RT_x", &"x".repeat(9000)] {
        assert_inactive(&introspect(&c1, text).await, "no token");
    }
}

#[tokio::test]
async fn a_token_that_its_application_refuses_is_inactive() {
    let provider = provider().await;
    let c2 = provider.c2();
    let owner = provider.anna.sub;
    provider.change_client("c2", |client: &mut Record| client.owner = Some(owner)).await;
    let wiki = tokens_for(&c2, WIKI, "openid wiki:read").await;
    assert_inactive(&introspect(&provider.c1(), &wiki.access).await, "a token of a client without approval");
    provider.change_client("c2", |client: &mut Record| client.owner = None).await;
    let wiki = tokens_for(&c2, WIKI, "openid wiki:read").await;
    assert_eq!(introspect(&provider.c1(), &wiki.access).await.json()["active"], json!(true));
    // The application lists other clients now.
    let listing = |clients: &str| APPS.replace("name = \"wiki\"", &format!("name = \"wiki\"\nclients = {clients}"));
    let without = provider.with_settings(&listing("[\"c3\"]")).await;
    assert_inactive(&introspect(&without.c1(), &wiki.access).await, "a token of a removed client");
    let with = provider.with_settings(&listing("[\"c2\"]")).await;
    assert_eq!(introspect(&with.c1(), &wiki.access).await.json()["active"], json!(true));
}

#[tokio::test]
async fn a_revoked_expired_or_disabled_token_is_inactive_at_once() {
    let provider = provider().await;
    let c1 = provider.c1();
    let is_active = async |token: &str| introspect(&c1, token).await.json()["active"] == json!(true);

    let tokens = c1.tokens("openid offline_access").await;
    assert!(is_active(&tokens.access).await && is_active(&tokens.refresh).await);
    c1.revoke(&tokens.access).await;
    assert!(!is_active(&tokens.access).await && is_active(&tokens.refresh).await);
    // Introspection of a used token changes nothing: it is no replay.
    let next = Tokens::of(&c1.refresh(&tokens.refresh).await);
    assert!(!is_active(&tokens.refresh).await && is_active(&next.refresh).await);
    c1.revoke(&next.refresh).await;
    assert!(!is_active(&next.access).await && !is_active(&next.refresh).await);

    let tokens = c1.tokens("openid offline_access").await;
    provider.wait(3600);
    assert!(!is_active(&tokens.access).await && is_active(&tokens.refresh).await);
    provider.wait(31 * 86_400);
    assert!(!is_active(&tokens.refresh).await);

    let tokens = c1.tokens("openid offline_access").await;
    provider.change_client("c1", |client: &mut Record| client.level = Some(Level::Two)).await;
    assert!(!is_active(&tokens.refresh).await, "the client could not use it");
    provider.change_client("c1", |client: &mut Record| client.level = None).await;
    let disable = UserCommand::Disable(UserRef::Sub(provider.anna.sub).into());
    execute(&CommandContext::new(&provider.sealgate), Command::User(disable)).await.unwrap();
    assert!(!is_active(&tokens.access).await && !is_active(&tokens.refresh).await);
}

#[tokio::test]
async fn other_clients_are_refused() {
    let provider = provider().await;
    let tokens = provider.c2().tokens("openid").await;
    let unlisted = introspect(&provider.c2(), &tokens.access).await;
    assert_eq!((unlisted.status, unlisted.json()["error"].clone()), (403, json!("unauthorized_client")));
    // A record of a public client must not open the endpoint to anyone who knows the client's ID.
    provider.change_client("p1", |client: &mut Record| client.introspection = Some(access(&["wiki"]))).await;
    let public = introspect(&provider.p1(), &tokens.access).await;
    assert_eq!((public.status, public.json()["error"].clone()), (403, json!("unauthorized_client")));
    let mut wrong = provider.c1();
    wrong.secret = Some("wrong".into());
    introspect(&wrong, &tokens.access).await.assert_error(401, "invalid_client");
    let bearer = format!("Bearer {}", tokens.access);
    let reply = provider.post("/oauth/introspect", &[("authorization", bearer.as_str())], &[("token", "x")]).await;
    reply.assert_error(401, "invalid_client");
    let missing = provider.c1().post("/oauth/introspect", &[]).await;
    missing.assert_error(400, "invalid_request");
    assert_eq!(provider.get("/oauth/introspect").await.status, 405);
}

#[tokio::test]
async fn the_endpoint_exists_only_while_a_client_may_use_it() {
    let provider = Provider::with(APPS).await;
    let before = provider.get(ADDRESS).await;
    let absent = introspect(&provider.c1(), "x").await;
    assert_eq!((absent.status, absent.json()["error"].clone()), (404, json!("not_found")));
    provider.change_client("c1", |client: &mut Record| client.introspection = Some(access(&[]))).await;
    let mut document = provider.get(ADDRESS).await.json();
    let members = document.as_object_mut().unwrap();
    assert_eq!(members.remove("introspection_endpoint"), Some(json!(format!("{ISSUER}/oauth/introspect"))));
    let methods = members.remove("introspection_endpoint_auth_methods_supported");
    assert_eq!(methods, Some(json!(["client_secret_basic", "client_secret_post"])));
    assert_eq!(document, before.json());
    assert_inactive(&introspect(&provider.c1(), "x").await, "it exists");
    provider.change_client("c1", |client: &mut Record| client.introspection = None).await;
    assert_eq!(provider.get(ADDRESS).await.text(), before.text());
}

#[tokio::test]
async fn requests_are_limited_per_client() {
    let provider = provider().await;
    let c1 = provider.c1();
    for _ in 0..30 {
        assert_eq!(introspect(&c1, "x").await.status, 200);
    }
    let limited = introspect(&c1, "x").await;
    assert!(limited.status == 429 && limited.header("retry-after").is_some(), "{limited:?}");
    assert_eq!(introspect(&Client::confidential(&provider, "c3"), "x").await.status, 200);
    let body: Value = limited.json();
    assert!(body.get("active").is_none(), "{body}");
}
