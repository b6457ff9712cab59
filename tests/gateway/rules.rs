//! Tests the requirements of rules: methods, users, audience, and the strength and age of the
//! sign-in.

use sealgate_domain::user::User;
use sealgate_domain::username::Username;
use sealgate_store::RenameOutcome;

use crate::browser::{Browser, is_login};
use crate::world::{ANNA, BEN, World};

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[tokio::test]
async fn a_method_without_a_rule_is_refused() {
    let world = World::new().await;
    let (anna, ben) = (Browser::new(&world), Browser::new(&world));
    anna.sign_in_at("https://desk.test/", ANNA).await;
    ben.sign_in_at("https://desk.test/", BEN).await;
    let records = "https://desk.test/records/7";
    for method in ["GET", "HEAD"] {
        assert_eq!(ben.send(method, records, &[], "").await.arrived(), ("desk", "/records/7"));
    }
    for method in ["POST", "DELETE"] {
        assert_eq!(anna.send(method, records, &[], "").await.arrived(), ("desk", "/records/7"));
        ben.send(method, records, &[], "").await.assert_refused(403, "access_denied");
    }
    // The request neither matches the wider rule of `/`, nor does it require a sign-in.
    for method in ["PUT", "PATCH", "OPTIONS", "PROPFIND"] {
        for reply in [anna.send(method, records, &[], "").await, world.call(method, records, &[]).await] {
            reply.assert_refused(405, "method_not_allowed");
            assert_eq!(reply.header("allow"), Some("DELETE, GET, HEAD, POST"));
        }
    }
    // The application's framework receives no method override.
    let fields = [("x-http-method-override", "DELETE"), ("x_method_override", "DELETE")];
    let reply = ben.send("GET", records, &fields, "").await;
    reply.arrived();
    assert!(reply.headers.values().all(|value| value != "DELETE"), "{reply:?}");
}

#[tokio::test]
async fn a_rule_for_one_user_refuses_others() {
    let world = World::new().await;
    let (anna, ben) = (Browser::new(&world), Browser::new(&world));
    anna.sign_in_at("https://desk.test/", ANNA).await;
    ben.sign_in_at("https://desk.test/", BEN).await;
    ben.visit("https://desk.test/bens/x").await.arrived();
    let refused = anna.visit("https://desk.test/bens/x").await;
    refused.assert_page(403);
    assert!(refused.text().contains(ANNA));
    anna.fetch("https://desk.test/bens/x").await.assert_refused(403, "access_denied");
    // Anyone can enter an unverified address.
    let store = &world.sealgate.store;
    store.change_user(world.ben.sub, |user| user.email_verified = false).await.unwrap();
    ben.fetch("https://desk.test/bens/x").await.assert_refused(403, "access_denied");
}

#[tokio::test]
async fn a_rule_for_an_address_refuses_its_user_after_the_address_is_removed() {
    let world = World::new().await;
    let ben = Browser::new(&world);
    ben.sign_in_at("https://desk.test/", BEN).await;
    ben.visit("https://desk.test/bens/x").await.arrived();
    let remove_address = |user: &mut User| {
        (user.email, user.email_verified, user.username) = (None, false, Username::parse("ben"));
    };
    let outcome = world.sealgate.store.rename_user(world.ben.sub, remove_address).await.unwrap();
    assert!(matches!(outcome, RenameOutcome::Renamed(_)));
    ben.fetch("https://desk.test/bens/x").await.assert_refused(403, "access_denied");
    let refused = ben.visit("https://desk.test/bens/x").await;
    refused.assert_page(403);
    assert!(refused.text().contains("<bdi>ben</bdi>") && !refused.text().contains(BEN), "{refused:?}");
}

#[tokio::test]
async fn an_old_sign_in_is_renewed_and_the_browser_returns() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://desk.test/", ANNA).await;
    world.wait(300);
    browser.visit("https://desk.test/money/out?to=%C5%9F").await.arrived();
    world.wait(1);
    // A script gets the requirement in the challenge (RFC 9470).
    let refused = browser.fetch("https://desk.test/money/out").await;
    refused.assert_refused(401, "insufficient_user_authentication");
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains("error=\"insufficient_user_authentication\""), "{challenge}");
    assert!(challenge.contains("max_age=\"300\""), "{challenge}");
    // The user must sign in again; single sign-on does not apply.
    let sent = browser.visit("https://desk.test/money/out?to=%C5%9F").await;
    assert_eq!(sent.sent_with("max_age").as_deref(), Some("300"));
    let page = browser.follow("https://desk.test/", sent).await;
    assert!(is_login(&page), "{page:?}");
    let end = browser.sign_in(&page, ANNA).await;
    assert_eq!(end.arrived(), ("desk", "/money/out?to=%C5%9F"));
    browser.fetch("https://desk.test/money/out").await.arrived();
    // Elsewhere an old sign-in is sufficient.
    world.wait(1000);
    browser.visit("https://desk.test/").await.arrived();
}

#[tokio::test]
async fn a_sign_in_renewed_at_another_application_counts() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://desk.test/", ANNA).await;
    world.wait(301);
    let page = browser.open("https://id.test/oauth/authorize?client_id=api&response_type=code&redirect_uri=https://rp.test/cb&scope=openid&prompt=login").await;
    browser.sign_in(&page, ANNA).await;
    assert_eq!(browser.open("https://desk.test/money/").await.arrived(), ("desk", "/money/"));
}

#[tokio::test]
async fn an_old_token_is_refused_by_its_auth_time() {
    let world = World::new().await;
    let token = bearer(&world.access_token("openid").await);
    let fields = [("authorization", token.as_str()), ("accept", "text/html")];
    world.call("GET", "https://desk.test/money/", &fields).await.arrived();
    world.wait(301);
    let refused = world.call("GET", "https://desk.test/money/", &fields).await;
    refused.assert_refused(401, "insufficient_user_authentication");
    world.call("GET", "https://desk.test/", &fields).await.arrived();
}

#[tokio::test]
async fn a_user_without_a_factor_adds_one_before_the_sign_in_completes() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let page = browser.open("https://desk.test/vault/x").await;
    let page = browser.sign_in(&page, ANNA).await;
    assert!(page.text().contains("id=\"enrol-key\""), "{page:?}");
    // The password alone has opened nothing.
    assert!(is_login(&browser.open("https://desk.test/").await));
}

#[tokio::test]
async fn a_rules_audience_is_required_of_tokens() {
    let world = World::new().await;
    let token = bearer(&world.access_token("openid").await);
    let refused = world.call("GET", "https://desk.test/partners/x", &[("authorization", &token)]).await;
    refused.assert_refused(401, "invalid_token");
    assert_eq!(refused.json()["error_description"], "The access token is for another audience.");
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains("error_description=\"The access token is for another audience.\""), "{challenge}");
}

#[tokio::test]
async fn every_application_publishes_its_resource_metadata() {
    let world = World::new().await;
    let address = "https://wiki.test/.well-known/oauth-protected-resource";
    let reply = world.call("GET", address, &[]).await;
    assert_eq!(reply.answered_with(), 200);
    let document = reply.json();
    assert_eq!(document["resource"], "https://wiki.test");
    assert_eq!(document["authorization_servers"], serde_json::json!(["https://id.test"]));
    assert_eq!(document["scopes_supported"], serde_json::json!(["openid", "profile"]));
    assert_eq!(document["bearer_methods_supported"], serde_json::json!(["header"]));
    assert_eq!(reply.header("access-control-allow-origin"), Some("*"));
    let asked = [("origin", "https://inspector.test"), ("access-control-request-method", "GET")];
    let asked = [&asked[..], &[("access-control-request-headers", "mcp-protocol-version")]].concat();
    let preflight = world.call("OPTIONS", address, &asked).await;
    assert_eq!(preflight.answered_with(), 204);
    assert_eq!(preflight.header("access-control-allow-origin"), Some("*"));
    assert_eq!(preflight.header("access-control-allow-headers"), Some("MCP-Protocol-Version"));
    assert!(preflight.header("access-control-allow-methods").unwrap().contains("GET"));
    world.call("POST", address, &[]).await.assert_refused(405, "method_not_allowed");
    // The path below it belongs to the application again.
    world.call("GET", &format!("{address}/x"), &[]).await.assert_refused(401, "login_required");
}

#[tokio::test]
async fn an_application_without_tokens_publishes_no_scopes() {
    let world = World::with(
        r#"
        [[app]]
        name = "open"
        host = "open.test"
        upstreams = ["http://127.0.0.1:8087"]
        [[app.route]]
        path = "/"
        access = "public"
    "#,
    )
    .await;
    let reply = world.call("GET", "https://open.test/.well-known/oauth-protected-resource", &[]).await;
    assert_eq!(reply.json().get("scopes_supported"), None);
}

/// The console shows the refusals. Redirects to a sign-in are not refusals.
#[tokio::test]
async fn refusals_are_remembered_with_their_user_and_reason() {
    let world = World::new().await;
    let ben = Browser::new(&world);
    ben.sign_in_at("https://desk.test/", BEN).await;
    for _ in 0..2 {
        ben.send("DELETE", "https://desk.test/records/7?token=secret", &[], "")
            .await
            .assert_refused(403, "access_denied");
    }
    world.call("PUT", "https://desk.test/records/7", &[]).await.assert_refused(405, "method_not_allowed");
    let refusals = world.sealgate.refusals.of_app("desk");
    let of =
        |reason| refusals.iter().find(|refusal| refusal.reason == reason).unwrap_or_else(|| panic!("{refusals:?}"));
    let by_ben = refusals.iter().find(|refusal| refusal.subject.is_some()).unwrap();
    assert_eq!(by_ben.subject, Some(world.ben.sub.to_string()));
    assert_eq!((by_ben.method.as_str(), by_ben.path.as_str(), by_ben.count), ("DELETE", "/records/7", 2));
    assert_eq!((of("method").method.as_str(), &of("method").subject), ("PUT", &None));
    assert_eq!(refusals.len(), 2, "{refusals:?}");
}
