//! Tests requests of clients in their own name, without a user.

use std::collections::{BTreeMap, BTreeSet};

use sealgate_config::{App, Config};
use sealgate_domain::client::{Client, ClientId, ClientState};
use sealgate_domain::grant::EndReason;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::oauth::jwt;
use sealgate_domain::service::ServiceAccess;
use sealgate_system::clock::Clock as _;

use crate::world::{Reply, World, encode, request};

const APPS: &str = r#"
    [[app]]
    name = "notes"
    host = "notes.test"
    upstreams = ["http://127.0.0.1:8091"]
    scopes = { "notes:read" = "Read notes", "notes:write" = "Change notes" }
    assertion = true
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/edit/"
    access = "bearer"
    scopes = ["notes:write"]
    [[app.route]]
    path = "/backup/"
    access = "signed_in"
    groups = ["backup"]
    [[app.route]]
    path = "/staff/"
    access = "signed_in"
    groups = ["staff"]
    [[app.route]]
    path = "/anna/"
    access = "signed_in"
    users = ["anna@example.test"]
    [[app.route]]
    path = "/recent/"
    access = "signed_in"
    max_age_seconds = 300
    [[app.route]]
    path = "/level/"
    access = "signed_in"
    acr = ["1"]

    [[app]]
    name = "mail"
    host = "mail.test"
    upstreams = ["http://127.0.0.1:8092"]
    issuer_audience = false

    [[app]]
    name = "listed"
    host = "listed.test"
    upstreams = ["http://127.0.0.1:8093"]
    issuer_audience = false
    clients = ["other"]
"#;

async fn world() -> World {
    let world = World::with(APPS).await;
    change(&world, |client| {
        let apps = [("notes", &["notes:read"][..]), ("listed", &[])];
        let set = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<BTreeSet<_>>();
        client.service = Some(ServiceAccess {
            apps: apps.into_iter().map(|(app, scopes)| (app.to_owned(), set(scopes))).collect::<BTreeMap<_, _>>(),
            groups: set(&["backup"]),
        });
    })
    .await;
    world
}

async fn change(world: &World, change: impl Fn(&mut Client) + Send + Sync) {
    let id = ClientId::parse("api").unwrap();
    assert!(world.sealgate.store.change_client(&id, change).await.unwrap().is_some());
}

async fn ask(world: &World, resource: &str) -> Reply {
    let form = encode(&[
        ("grant_type", "client_credentials"),
        ("resource", resource),
        ("client_id", "api"),
        ("client_secret", "secret"),
    ]);
    let fields = [("content-type", "application/x-www-form-urlencoded")];
    world.send("192.0.2.9", request("POST", "https://id.test/oauth/token", &fields, &form)).await
}

async fn token(world: &World) -> String {
    ask(world, "https://notes.test").await.json()["access_token"].as_str().unwrap().to_owned()
}

async fn call(world: &World, url: &str, token: &str) -> Reply {
    world.call("GET", url, &[("authorization", &format!("Bearer {token}"))]).await
}

#[tokio::test]
async fn the_application_receives_the_client_and_its_groups() {
    let world = world().await;
    let token = token(&world).await;
    let reply = call(&world, "https://notes.test/a", &token).await;
    assert_eq!(reply.arrived(), ("notes", "/a"));
    assert_eq!(reply.header("x-forwarded-user"), Some("client:api"));
    assert_eq!(reply.header("x-forwarded-name"), Some("Api"));
    assert_eq!(reply.header("x-forwarded-groups"), Some("backup"));
    assert_eq!((reply.header("x-forwarded-email"), reply.header("authorization")), (None, None));
    let assertion = reply.header("x-sealgate-assertion").unwrap();
    let claims = sealgate_domain::secret::from_base64url(assertion.split('.').nth(1).unwrap()).unwrap();
    let claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    assert_eq!((&claims["sub"], claims.get("email")), (&serde_json::json!("client:api"), None));
}

#[tokio::test]
async fn rules_about_users_and_sign_ins_refuse_clients() {
    let world = world().await;
    let token = token(&world).await;
    assert_eq!(call(&world, "https://notes.test/backup/a", &token).await.arrived(), ("notes", "/backup/a"));
    for (path, status) in [("/edit/", 403), ("/staff/", 403), ("/anna/", 403), ("/recent/", 401), ("/level/", 401)] {
        let reply = call(&world, &format!("https://notes.test{path}"), &token).await;
        assert_eq!(reply.answered_with(), status, "{path}");
    }
    // Another application, and all applications that accept tokens for the issuer.
    for host in ["mail", "wiki", "desk"] {
        call(&world, &format!("https://{host}.test/a"), &token).await.assert_refused(401, "invalid_token");
    }
    // An application that lists its clients does not list this one.
    assert_eq!(ask(&world, "https://listed.test").await.json()["error"], "invalid_target");
}

#[tokio::test]
async fn access_ends_at_once() {
    let world = world().await;
    let store = &world.sealgate.store;
    let id = ClientId::parse("api").unwrap();
    let refused = async |token: &str| {
        call(&world, "https://notes.test/a", token).await.assert_refused(401, "invalid_token");
    };
    let used = async || {
        let token = token(&world).await;
        assert_eq!(call(&world, "https://notes.test/a", &token).await.arrived(), ("notes", "/a"));
        token
    };
    let first = used().await;
    store.end_grants_of_client(&id, EndReason::Administrator, world.clock.now()).await.unwrap();
    refused(&first).await;
    let second = used().await;
    refused(&first).await;
    change(&world, |client| client.state = ClientState::Disabled).await;
    refused(&second).await;
    change(&world, |client| client.state = ClientState::Enabled).await;
    // The operator removes a scope, the application, or the permission.
    let third = used().await;
    for remove in [
        |service: &mut ServiceAccess| {
            service.apps.insert("notes".to_owned(), BTreeSet::new());
        },
        |service: &mut ServiceAccess| {
            service.apps.remove("notes");
        },
    ] {
        let before = store.client(&id).await.unwrap().unwrap().service;
        change(&world, |client| remove(client.service.as_mut().unwrap())).await;
        refused(&third).await;
        change(&world, move |client| client.service.clone_from(&before)).await;
        assert_eq!(call(&world, "https://notes.test/a", &third).await.arrived(), ("notes", "/a"));
    }
    change(&world, |client| client.service = None).await;
    refused(&third).await;
}

#[tokio::test]
async fn a_users_token_is_not_a_clients_token() {
    let world = world().await;
    // Signed by the provider's key, with the grant of a user and the client as subject.
    let token = world.resource_token("https://notes.test", "notes:read").await;
    let part = token.split('.').nth(1).unwrap();
    let claims = sealgate_domain::secret::from_base64url(part).unwrap();
    let mut claims: serde_json::Value = serde_json::from_slice(&claims).unwrap();
    claims["sub"] = "api".into();
    let signer = world.sealgate.issuer.signer();
    let keys = signer.key_set();
    let kid = keys.active().kid();
    let input = jwt::signing_input(jwt::ACCESS_TOKEN, Algorithm::Rs256, kid.as_str(), &claims).unwrap();
    let signatures = signer.sign(kid, vec![input.clone().into_bytes()]).await.unwrap();
    let forged = jwt::assemble(&input, signatures[0].as_bytes());
    call(&world, "https://notes.test/a", &forged).await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn a_reload_applies_to_tokens_that_were_used_before() {
    let mut world = world().await;
    let token = token(&world).await;
    assert_eq!(call(&world, "https://notes.test/a", &token).await.arrived(), ("notes", "/a"));
    let before = Config::clone(&world.sealgate.config);
    let app = |config: &mut Config, change: fn(&mut App)| {
        change(config.apps.iter_mut().find(|app| app.name == "notes").unwrap());
        config.clone()
    };
    for changed in [
        app(&mut before.clone(), |app| app.name = "papers".to_owned()),
        app(&mut before.clone(), |app| app.scopes.retain(|scope| scope.name != "notes:read")),
    ] {
        world.site = world.site.with(changed);
        call(&world, "https://notes.test/a", &token).await.assert_refused(401, "invalid_token");
        world.site = world.site.with(before.clone());
        assert_eq!(call(&world, "https://notes.test/a", &token).await.arrived(), ("notes", "/a"));
    }
}
