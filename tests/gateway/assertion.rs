//! Tests the signed assertion that identifies the user of a request to an application.

use std::sync::Arc;

use sealgate_domain::oauth::jwt::Unverified;
use sealgate_domain::user::User;
use sealgate_domain::username::Username;
use sealgate_store::RenameOutcome;
use serde_json::Value;

use crate::browser::Browser;
use crate::world::{ANNA, World};

const HEADER: &str = "x-sealgate-assertion";

/// Verifies an assertion with a published key and returns its claims.
async fn verified(world: &World, assertion: &str) -> Value {
    let token = Unverified::parse(assertion).unwrap();
    let published = world.call("GET", "https://id.test/oauth/jwks", &[]).await.json();
    let key = published["keys"].as_array().unwrap().iter().find(|key| key["kid"] == token.kid.as_str());
    assert!(key.is_some(), "{} is not in {published}", token.kid);
    let keys = world.sealgate.issuer.signer().key_set();
    assert!(keys.find(&token.kid).unwrap().verify(token.signing_input.as_bytes(), &token.signature));
    token.claims().unwrap()
}

#[tokio::test]
async fn a_configured_application_gets_a_signed_assertion_about_the_user() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let first = browser.sign_in_at("https://desk.test/", ANNA).await;
    let claims = verified(&world, first.header(HEADER).unwrap()).await;
    assert_eq!(claims["iss"], "https://id.test");
    assert_eq!(claims["aud"], "https://desk.test");
    assert_eq!(claims["sub"], world.anna.sub.to_string());
    assert_eq!(claims["email"], ANNA);
    assert_eq!(claims["groups"], serde_json::json!(["a,b", "staff"]));
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 300);
    assert!(claims["sid"].as_str().unwrap().len() >= 20);
    // Anonymous requests have no assertion, even if the client sends one, and neither do requests
    // to other applications.
    browser.open("https://wiki.test/").await.arrived();
    for url in ["https://desk.test/open/x", "https://wiki.test/"] {
        let reply = browser.send("GET", url, &[(HEADER, "forged")], "").await;
        reply.arrived();
        assert_eq!(reply.header(HEADER), None);
    }
    // The holder of a token has no session.
    let token = format!("Bearer {}", world.access_token("openid").await);
    let reply = world.call("GET", "https://desk.test/", &[("authorization", &token), (HEADER, "forged")]).await;
    assert_eq!(verified(&world, reply.header(HEADER).unwrap()).await["sid"], Value::Null);
}

#[tokio::test]
async fn an_assertion_is_cached_until_its_renewal_or_a_change_of_claims() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let first = browser.sign_in_at("https://desk.test/", ANNA).await.header(HEADER).unwrap().to_owned();
    let next = async || browser.visit("https://desk.test/").await.header(HEADER).unwrap().to_owned();
    world.wait(170);
    assert_eq!(next().await, first);
    world.wait(11);
    let second = next().await;
    assert_ne!(second, first);
    assert_eq!(next().await, second);
    world.wait(299);
    let third = next().await;
    assert_ne!(third, second);
    let store = &world.sealgate.store;
    store.change_user(world.anna.sub, |user| _ = user.groups.insert("new".into())).await.unwrap();
    let fourth = next().await;
    assert!(verified(&world, &fourth).await["groups"].as_array().unwrap().contains(&"new".into()));
    let named = |user: &mut User| user.username = Username::parse("anna.s");
    assert!(matches!(store.rename_user(world.anna.sub, named).await.unwrap(), RenameOutcome::Renamed(_)));
    assert_eq!(verified(&world, &next().await).await["preferred_username"], "anna.s");
}

#[tokio::test]
async fn the_assertion_of_a_user_without_an_address_has_no_address() {
    let world = World::new().await;
    let remove_address = |user: &mut User| {
        (user.email, user.email_verified, user.username) = (None, false, Username::parse("anna"));
    };
    let outcome = world.sealgate.store.rename_user(world.anna.sub, remove_address).await.unwrap();
    assert!(matches!(outcome, RenameOutcome::Renamed(_)));
    let browser = Browser::new(&world);
    let reply = browser.sign_in_at("https://desk.test/", "anna").await;
    let claims = verified(&world, reply.header(HEADER).unwrap()).await;
    assert_eq!((&claims["sub"], &claims["preferred_username"]), (&world.anna.sub.to_string().into(), &"anna".into()));
    assert!(claims.get("email").is_none() && claims.get("email_verified").is_none(), "{claims}");
}

#[tokio::test]
async fn concurrent_requests_sign_one_assertion() {
    let world = Arc::new(World::new().await);
    let browser = Browser::new(&world);
    browser.sign_in_at("https://desk.test/", ANNA).await;
    world.wait(400);
    let visits = (0..20).map(|_| browser.visit("https://desk.test/"));
    let replies = futures_of(visits).await;
    let assertions: std::collections::BTreeSet<_> =
        replies.iter().map(|reply| reply.header(HEADER).unwrap().to_owned()).collect();
    assert_eq!(assertions.len(), 1);
}

/// Runs all futures concurrently.
async fn futures_of<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut waiting: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(move |context| {
        for (future, done) in &mut waiting {
            if done.is_none()
                && let std::task::Poll::Ready(value) = future.as_mut().poll(context)
            {
                *done = Some(value);
            }
        }
        if waiting.iter().all(|(_, done)| done.is_some()) {
            return std::task::Poll::Ready(waiting.iter_mut().filter_map(|(_, done)| done.take()).collect());
        }
        std::task::Poll::Pending
    })
    .await
}

#[tokio::test]
async fn an_assertion_is_no_access_token_and_no_id_token() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    let assertion = browser.sign_in_at("https://desk.test/", ANNA).await.header(HEADER).unwrap().to_owned();
    let bearer = format!("Bearer {assertion}");
    for url in ["https://desk.test/", "https://wiki.test/api/x"] {
        world.call("GET", url, &[("authorization", &bearer)]).await.assert_refused(401, "invalid_token");
    }
    let reply = world.call("GET", "https://id.test/oauth/userinfo", &[("authorization", &bearer)]).await;
    assert_eq!(reply.answered_with(), 401);
    let now = world.sealgate.clock.now();
    assert!(world.sealgate.issuer.access_token(&assertion, now).is_none());
    assert!(world.sealgate.issuer.id_token_hint(&assertion).is_none());
}
