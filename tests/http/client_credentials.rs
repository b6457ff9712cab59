//! Tests the client credentials grant (RFC 6749 §4.4): tokens of a client in its own name.

use std::collections::{BTreeMap, BTreeSet};

use sealgate_domain::audit::{AuditFilter, AuditKind};
use sealgate_domain::client::{ClientId, ClientType};
use sealgate_domain::grant::{EndReason, GrantId};
use sealgate_domain::service::ServiceAccess;
use sealgate_store::GrantFilter;
use sealgate_system::clock::Clock as _;
use serde_json::json;

use crate::support::{Provider, Reply, Tokens, jwt_claims, jwt_header};

const WIKI: &str = "https://wiki.test";
const APPS: &str = r#"
    [[app]]
    name = "wiki"
    host = "wiki.test"
    upstreams = ["http://127.0.0.1:8081"]
    scopes = { "wiki:read" = "Read pages", "wiki:write" = "Change pages" }
    [[app]]
    name = "shop"
    host = "shop.test"
    upstreams = ["http://127.0.0.1:8082"]
    issuer_audience = false
    [[app]]
    name = "desk"
    host = "desk.test"
    upstreams = ["http://127.0.0.1:8083"]
    [[app]]
    name = "previews"
    host = "*.previews.test"
    upstreams = ["http://127.0.0.1:8084"]
    issuer_audience = false
"#;

fn access(apps: &[(&str, &[&str])]) -> ServiceAccess {
    let scopes = |scopes: &[&str]| scopes.iter().map(|scope| (*scope).to_owned()).collect::<BTreeSet<_>>();
    let apps = apps.iter().map(|(app, list)| ((*app).to_owned(), scopes(list))).collect::<BTreeMap<_, _>>();
    ServiceAccess { apps, groups: BTreeSet::new() }
}

/// Returns a provider whose client `c1` may read the wiki in its own name.
async fn provider() -> Provider {
    let provider = Provider::with(APPS).await;
    provider.change_client("c1", |client| client.service = Some(access(&[("wiki", &["wiki:read"])]))).await;
    provider
}

async fn ask(provider: &Provider, more: &[(&str, &str)]) -> Reply {
    provider.c1().token(&[&[("grant_type", "client_credentials")], more].concat()).await
}

async fn grants(provider: &Provider) -> Vec<GrantId> {
    let filter = GrantFilter { client: ClientId::parse("c1"), ..GrantFilter::default() };
    let page = provider.sealgate.store.grants(&filter, None, 100).await.unwrap();
    page.grants.into_iter().map(|grant| grant.id).collect()
}

#[tokio::test]
async fn a_client_gets_a_token_in_its_own_name() {
    let provider = provider().await;
    let reply = ask(&provider, &[("resource", WIKI)]).await;
    let tokens = Tokens::of(&reply);
    let members: BTreeSet<&str> = tokens.body.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(members, ["access_token", "expires_in", "scope", "token_type"].into());
    assert_eq!((&tokens.body["scope"], reply.header("cache-control")), (&json!("wiki:read"), Some("no-store")));
    let claims = jwt_claims(&tokens.access);
    assert_eq!(jwt_header(&tokens.access)["typ"], "at+jwt");
    for (claim, value) in [("iss", json!("https://id.test")), ("sub", json!("c1")), ("client_id", json!("c1"))] {
        assert_eq!(claims[claim], value);
    }
    assert_eq!((&claims["aud"], &claims["scope"]), (&json!(WIKI), &json!("wiki:read")));
    for absent in ["auth_time", "acr", "amr", "groups", "nonce"] {
        assert_eq!(claims.get(absent), None, "{absent}");
    }
    assert_eq!(provider.userinfo(&tokens.access).await.status, 401);
}

#[tokio::test]
async fn a_client_gets_only_what_the_operator_allows() {
    let provider = provider().await;
    for (more, error) in [
        (&[][..], "invalid_target"),
        (&[("resource", "https://desk.test")], "invalid_target"),
        (&[("resource", "https://shop.test")], "invalid_target"),
        (&[("resource", "https://x.test")], "invalid_target"),
        (&[("resource", WIKI), ("resource", WIKI)], "invalid_target"),
        (&[("resource", WIKI), ("scope", "wiki:write")], "invalid_scope"),
        (&[("resource", WIKI), ("scope", "wiki:delete")], "invalid_scope"),
        (&[("resource", WIKI), ("scope", "openid wiki:read")], "invalid_scope"),
        (&[("resource", WIKI), ("scope", "offline_access")], "invalid_scope"),
        (&[("resource", WIKI), ("scope", " ")], "invalid_scope"),
    ] {
        ask(&provider, more).await.assert_error(400, error);
    }
    let fields = [("grant_type", "client_credentials"), ("resource", WIKI)];
    provider.c2().token(&fields).await.assert_error(400, "unauthorized_client");
    provider.p1().token(&fields).await.assert_error(400, "unauthorized_client");
    // A public client has no secret, so anyone could use its id.
    provider.change_client("p1", |client| client.service = Some(access(&[("wiki", &[])]))).await;
    provider.p1().token(&fields).await.assert_error(400, "unauthorized_client");
    let wrong = [("authorization", crate::support::basic("c1", "wrong"))];
    let wrong: Vec<_> = wrong.iter().map(|(name, value)| (*name, value.as_str())).collect();
    provider.post("/oauth/token", &wrong, &fields).await.assert_error(401, "invalid_client");
}

#[tokio::test]
async fn without_resources_the_grant_type_is_unknown() {
    let provider = Provider::new().await;
    provider.change_client("c1", |client| client.service = Some(access(&[("wiki", &[])]))).await;
    ask(&provider, &[("resource", WIKI)]).await.assert_error(400, "unsupported_grant_type");
}

#[tokio::test]
async fn all_tokens_of_a_client_and_application_have_one_grant() {
    let provider = provider().await;
    provider
        .change_client("c1", |client| {
            client.service = Some(access(&[("wiki", &["wiki:read", "wiki:write"]), ("shop", &[]), ("previews", &[])]));
        })
        .await;
    let mut ids = BTreeSet::new();
    for more in [&[("resource", WIKI)][..], &[("resource", WIKI), ("scope", "wiki:write")], &[("resource", WIKI)]] {
        let tokens = Tokens::of(&ask(&provider, more).await);
        ids.insert(jwt_claims(&tokens.access)["grant_id"].as_str().unwrap().to_owned());
    }
    assert_eq!((ids.len(), grants(&provider).await.len()), (1, 1));
    Tokens::of(&ask(&provider, &[("resource", "https://shop.test")]).await);
    assert_eq!(grants(&provider).await.len(), 2);
    // Hosts of a wildcard have tokens of their own, but share a grant.
    for host in ["https://a.previews.test", "https://b.previews.test"] {
        let tokens = Tokens::of(&ask(&provider, &[("resource", host)]).await);
        assert_eq!(jwt_claims(&tokens.access)["aud"], host);
    }
    assert_eq!(grants(&provider).await.len(), 3);
    // The grant is renewed while the client uses it, and each renewal is audited once.
    for _ in 0..10 {
        provider.clock.advance(std::time::Duration::from_mins(14));
        let tokens = Tokens::of(&ask(&provider, &[("resource", WIKI)]).await);
        ids.insert(jwt_claims(&tokens.access)["grant_id"].as_str().unwrap().to_owned());
        while provider.sealgate.store.sweep(provider.clock.now(), 100).await.unwrap().more {}
    }
    assert_eq!(ids.len(), 1);
    provider.sealgate.audit.write(&provider.sealgate.store).await.unwrap();
    let events = provider.sealgate.store.audit_page(&AuditFilter::default(), None, 1000).await.unwrap().records;
    let of_wiki = |kind| {
        let is_it = |event: &&sealgate_domain::audit::AuditEvent| {
            event.kind == kind && event.detail.as_deref() == Some("client_credentials for https://wiki.test")
        };
        events.iter().map(|record| &record.event).filter(is_it).count()
    };
    assert_eq!((of_wiki(AuditKind::TokensIssued), of_wiki(AuditKind::TokensRefreshed)), (1, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn simultaneous_requests_create_one_grant() {
    let provider = std::sync::Arc::new(Provider::with(&format!("{APPS}\n[rate_limits]\ntoken = 1000")).await);
    provider.change_client("c1", |client| client.service = Some(access(&[("wiki", &[])]))).await;
    let mut requests = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let provider = std::sync::Arc::clone(&provider);
        requests.spawn(async move { ask(&provider, &[("resource", WIKI)]).await.status });
    }
    let statuses = requests.join_all().await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!(grants(&provider).await.len(), 1);
}

#[tokio::test]
async fn a_revoked_grant_is_replaced_and_its_tokens_stay_revoked() {
    let provider = provider().await;
    let issued = async || {
        let tokens = Tokens::of(&ask(&provider, &[("resource", WIKI)]).await);
        GrantId::parse(jwt_claims(&tokens.access)["grant_id"].as_str().unwrap()).unwrap()
    };
    let (store, now) = (&provider.sealgate.store, provider.clock.now());
    let first = issued().await;
    assert!(store.end_grant(first, EndReason::Administrator, now).await.unwrap());
    let second = issued().await;
    assert_ne!(first, second);
    assert!(!store.grant(first).await.unwrap().unwrap().value.is_active());
    // Endless revocations do not fill the store.
    let mut last = second;
    for _ in 2..sealgate_domain::service::MAX_GRANTS {
        store.end_grant(last, EndReason::Administrator, now).await.unwrap();
        last = issued().await;
    }
    store.end_grant(last, EndReason::Administrator, now).await.unwrap();
    ask(&provider, &[("resource", WIKI)]).await.assert_error(400, "invalid_grant");
    provider.clock.advance(std::time::Duration::from_hours(2));
    while store.sweep(provider.clock.now(), 100).await.unwrap().more {}
    issued().await;
}

#[tokio::test]
async fn a_client_that_is_not_active_gets_no_token() {
    let provider = provider().await;
    provider.change_client("c1", |client| client.state = sealgate_domain::client::ClientState::Disabled).await;
    ask(&provider, &[("resource", WIKI)]).await.assert_error(401, "invalid_client");
    provider
        .change_client("c1", |client| {
            client.state = sealgate_domain::client::ClientState::Enabled;
            client.client_type = ClientType::Confidential;
            client.service = None;
        })
        .await;
    ask(&provider, &[("resource", WIKI)]).await.assert_error(400, "unauthorized_client");
}

#[tokio::test]
async fn a_clients_own_limit_applies() {
    let provider = provider().await;
    let limit = sealgate_domain::rate_limit::RateLimit::PerMinute(3);
    provider.change_client("c1", |client| client.token_limit = Some(limit)).await;
    for _ in 0..3 {
        assert_eq!(ask(&provider, &[("resource", WIKI)]).await.status, 200);
    }
    ask(&provider, &[("resource", WIKI)]).await.assert_error(429, "rate_limit_exceeded");
}

#[tokio::test]
async fn a_client_revokes_its_own_token() {
    let provider = provider().await;
    let tokens = Tokens::of(&ask(&provider, &[("resource", WIKI)]).await);
    assert_eq!(provider.c1().revoke(&tokens.access).await.status, 200);
    let jti = jwt_claims(&tokens.access)["jti"].as_str().unwrap().to_owned();
    assert!(provider.sealgate.store.is_token_revoked(&jti).await.unwrap());
}

#[tokio::test]
async fn the_discovery_document_names_the_grant_type_if_the_file_defines_such_a_client() {
    let document = async |more: &str| {
        let provider = Provider::with(more).await;
        provider.get("/.well-known/openid-configuration").await.json()["grant_types_supported"].clone()
    };
    let client = r#"
        [[client]]
        id = "backup"
        name = "Backup"
        type = "confidential"
        secret_hash = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
        service = { app = "wiki", scopes = ["wiki:read"] }
    "#;
    assert_eq!(document(APPS).await, json!(["authorization_code", "refresh_token"]));
    let all = json!(["authorization_code", "refresh_token", "client_credentials"]);
    assert_eq!(document(&format!("{APPS}{client}")).await, all);
}

#[tokio::test]
async fn registration_gives_no_access_without_a_user() {
    let open = format!("{APPS}\n[registration]\nmode = \"open\"");
    let provider = Provider::with(&open).await;
    let json_type = [("content-type", "application/json")];
    let body = json!({
        "redirect_uris": ["https://rp.test/cb"], "grant_types": ["authorization_code", "client_credentials"],
        "service": { "apps": { "wiki": [] } },
    });
    let reply = provider.request("POST", "/oauth/register", &json_type, &body.to_string()).await;
    let client = reply.json();
    assert_eq!((reply.status, &client["grant_types"]), (201, &json!(["authorization_code"])));
    let (id, secret) = (client["client_id"].as_str().unwrap(), client["client_secret"].as_str().unwrap());
    let credentials = [("authorization", crate::support::basic(id, secret))];
    let credentials: Vec<_> = credentials.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let fields = [("grant_type", "client_credentials"), ("resource", WIKI)];
    provider.post("/oauth/token", &credentials, &fields).await.assert_error(400, "unauthorized_client");
}
