//! Tests the scope `groups`: for clients to which an operator granted it, where it is enabled.

use std::collections::BTreeSet;

use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::group_filter::GroupFilter;
use sealgate_domain::scope::{Scope, ScopeValue};
use serde_json::{Value, json};

use crate::support::{Provider, Tokens, jwt_claims};

const ON: &str = "[tokens]\ngroups_scope = true";

async fn may_ask(provider: &Provider, client: &str) {
    let scope = Scope::all().union([ScopeValue::Groups].into_iter().collect());
    let change = |client: &mut Client| client.scope = scope;
    provider.sealgate.store.change_client(&ClientId::parse(client).unwrap(), change).await.unwrap().unwrap();
}

async fn put_anna_into(provider: &Provider, groups: impl IntoIterator<Item = String>) {
    let groups: BTreeSet<String> = groups.into_iter().collect();
    let change = |user: &mut sealgate_domain::user::User| user.groups.clone_from(&groups);
    provider.sealgate.store.change_user(provider.anna.sub, change).await.unwrap().unwrap();
}

/// Returns the claim in the ID token, the access token and UserInfo.
async fn told(provider: &Provider, tokens: &Tokens) -> [Value; 3] {
    let info = provider.userinfo(&tokens.access).await.json();
    [jwt_claims(&tokens.id)["groups"].clone(), jwt_claims(&tokens.access)["groups"].clone(), info["groups"].clone()]
}

async fn document(provider: &Provider) -> Value {
    provider.get("/.well-known/openid-configuration").await.json()
}

#[tokio::test]
async fn a_client_with_the_groups_scope_receives_the_groups() {
    let provider = Provider::with(ON).await;
    may_ask(&provider, "c1").await;
    put_anna_into(&provider, ["staff".to_owned(), "Muhasebe Ekibi".to_owned()]).await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[("scope", "openid groups")])).await;
    let consent = browser.sign_in(&page, "anna@example.test").await;
    assert!(consent.text().contains("groups that you are in") && consent.text().contains("Muhasebe Ekibi"));
    let tokens = provider.c1().tokens("openid groups offline_access").await;
    assert_eq!(told(&provider, &tokens).await, [(); 3].map(|()| json!(["Muhasebe Ekibi", "staff"])));
    assert_eq!(told(&provider, &provider.c1().tokens("openid profile").await).await, [(); 3].map(|()| Value::Null));
    // An empty list is sent as an empty list, and a refresh sends the current groups.
    put_anna_into(&provider, []).await;
    let refreshed = Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
    assert_eq!(told(&provider, &refreshed).await, [(); 3].map(|()| json!([])));
    let document = document(&provider).await;
    assert!(document["scopes_supported"].as_array().unwrap().contains(&json!("groups")));
    assert!(document["claims_supported"].as_array().unwrap().contains(&json!("groups")));
}

#[tokio::test]
async fn the_groups_scope_needs_permission() {
    let provider = Provider::with(ON).await;
    let refused = provider.browser().open(&provider.c1().authorize(&[("scope", "openid groups")])).await;
    assert_eq!(refused.returned("error").as_deref(), Some("invalid_scope"));
    // While it is disabled, the scope is unknown, even to clients to which it was granted.
    let provider = Provider::new().await;
    may_ask(&provider, "c1").await;
    let refused = provider.browser().open(&provider.c1().authorize(&[("scope", "openid groups")])).await;
    assert_eq!(refused.returned("error").as_deref(), Some("invalid_scope"));
    assert!(!document(&provider).await.to_string().contains("groups"));
}

#[tokio::test]
async fn groups_too_long_for_a_token_are_returned_by_userinfo() {
    let provider = Provider::with(ON).await;
    may_ask(&provider, "c1").await;
    let many: Vec<String> = (0..100).map(|number| format!("{number:03}{}", "x".repeat(97))).collect();
    put_anna_into(&provider, many.clone()).await;
    let tokens = provider.c1().tokens("openid groups").await;
    assert_eq!(told(&provider, &tokens).await, [Value::Null, Value::Null, json!(many)]);
    assert!(tokens.access.len() < 2048 && tokens.id.len() < 2048);
    // 64 names of 61 letters, each with its quotes and a comma, are 4096 bytes.
    let mut full: Vec<String> = (0..64).map(|number| format!("{number:02}{}", "x".repeat(59))).collect();
    put_anna_into(&provider, full.clone()).await;
    let tokens = provider.c1().tokens("openid groups").await;
    assert_eq!(told(&provider, &tokens).await, [json!(full), json!(full), json!(full)]);
    full[63].push('x');
    put_anna_into(&provider, full.clone()).await;
    let tokens = provider.c1().tokens("openid groups").await;
    assert_eq!(told(&provider, &tokens).await, [Value::Null, Value::Null, json!(full)]);
}

#[tokio::test]
async fn a_self_registered_client_cannot_get_the_groups_scope() {
    let provider = Provider::with(&format!("[registration]\nmode = \"open\"\n{ON}")).await;
    let body = json!({"redirect_uris": ["https://rp.test/cb"], "scope": "openid groups"}).to_string();
    let json = [("content-type", "application/json")];
    let reply = provider.request("POST", "/oauth/register", &json, &body).await;
    assert_eq!((reply.status, &reply.json()["scope"]), (201, &"openid".into()));
}

#[tokio::test]
async fn a_client_sees_only_its_listed_groups() {
    let provider = Provider::with(ON).await;
    may_ask(&provider, "c1").await;
    may_ask(&provider, "c2").await;
    let filter = GroupFilter::parse(["wiki-*", "staff"]).unwrap();
    provider.change_client("c1", |client| client.visible_groups = filter.clone()).await;
    // More than fits into a token: the client sees only few of them.
    let others = (0..400).map(|number| format!("a group of somebody else {number}"));
    let own = ["staff", "wiki", "wiki-editors", "staff-2"].map(str::to_owned);
    put_anna_into(&provider, own.into_iter().chain(others)).await;
    let browser = provider.browser();
    let page = browser.open(&provider.c1().authorize(&[("scope", "openid groups")])).await;
    let consent = browser.sign_in(&page, "anna@example.test").await;
    assert!(consent.text().contains("wiki-editors") && !consent.text().contains("somebody else"), "{consent:?}");
    let tokens = provider.c1().tokens("openid groups offline_access").await;
    let expected = [(); 3].map(|()| json!(["staff", "wiki-editors"]));
    assert_eq!(told(&provider, &tokens).await, expected);
    let refreshed = Tokens::of(&provider.c1().refresh(&tokens.refresh).await);
    assert_eq!(told(&provider, &refreshed).await, expected);
    let [id_token, access_token, info] = told(&provider, &provider.c2().tokens("openid groups").await).await;
    assert_eq!((id_token, access_token, info.as_array().unwrap().len()), (Value::Null, Value::Null, 404));
}
