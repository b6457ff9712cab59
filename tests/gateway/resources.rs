//! Tests resources (RFC 8707): an application accepts only tokens for itself.

use http::Request;
use sealgate_edge::origin::Origin;
use sealgate_edge::{Front, RouteDecision};

use crate::world::{Reply, World};

/// Wiki and shop are resources. The mail accepts no tokens for the issuer. The desk of the world is
/// no resource.
const APPS: &str = r#"
    [[app]]
    name = "notes"
    host = "notes.test"
    upstreams = ["http://127.0.0.1:8091"]
    scopes = { "notes:read" = "Read notes", "notes:write" = "Change notes" }
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/edit/"
    access = "bearer"
    scopes = ["notes:write"]
    [[app.route]]
    path = "/api/"
    access = "bearer"
    audience = "https://api.notes.test"
    [[app.route]]
    path = "/public/"
    access = "public"

    [[app]]
    name = "mail"
    host = "mail.test"
    upstreams = ["http://127.0.0.1:8092"]
    issuer_audience = false
    [[app.route]]
    path = "/"
    access = "signed_in"

    [[app]]
    name = "previews"
    host = "*.previews.test"
    upstreams = ["http://127.0.0.1:8093"]
    issuer_audience = false
    [[app.route]]
    path = "/"
    access = "signed_in"
"#;

async fn call(world: &World, url: &str, token: &str) -> Reply {
    world.call("GET", url, &[("authorization", &format!("Bearer {token}"))]).await
}

/// Returns the status of the answer to a proxy that asks about a request.
async fn forward_auth(world: &World, app: &str, token: &str) -> u16 {
    let request = Request::get(format!("/.sealgate/auth?app={app}&fields=request"))
        .header("host", "127.0.0.1:8080")
        .header("authorization", format!("Bearer {token}"))
        .header("x-forwarded-for", "192.0.2.1")
        .header("x-forwarded-method", "GET")
        .header("x-forwarded-proto", "https")
        .header("x-forwarded-host", format!("{app}.test"))
        .header("x-forwarded-uri", "/a");
    let mut head = request.body(()).unwrap().into_parts().0;
    let peer = "192.0.2.200".parse().unwrap();
    head.extensions.insert(Origin { peer, secure: true, request_id: "request-1".into(), ..Origin::unknown() });
    match world.site.decide(&head).await {
        RouteDecision::Answer(response) => response.status().as_u16(),
        other => panic!("not answered: {other:?}"),
    }
}

#[tokio::test]
async fn a_token_for_one_application_opens_no_other() {
    let world = World::with(APPS).await;
    for (resource, own, app) in
        [("https://notes.test", "https://notes.test/a", "notes"), ("https://mail.test/", "https://mail.test/a", "mail")]
    {
        for scope in ["openid", "offline_access"] {
            let token = world.resource_token(resource, scope).await;
            assert_eq!(call(&world, own, &token).await.arrived(), (app, "/a"));
            assert_eq!(forward_auth(&world, app, &token).await, 200);
            for (host, other) in [("notes", "notes"), ("mail", "mail"), ("wiki", "wiki"), ("desk", "desk")] {
                if other == app {
                    continue;
                }
                let url = format!("https://{host}.test/a");
                call(&world, &url, &token).await.assert_refused(401, "invalid_token");
                assert_eq!(forward_auth(&world, other, &token).await, 401, "{other}");
            }
            // The application on the issuer's host accepts only tokens for all applications.
            call(&world, "https://id.test/a", &token).await.assert_refused(401, "invalid_token");
        }
    }
}

#[tokio::test]
async fn tokens_for_the_issuer_end_where_the_operator_ends_them() {
    let world = World::with(APPS).await;
    let token = world.access_token("openid").await;
    assert_eq!(call(&world, "https://wiki.test/a", &token).await.arrived(), ("wiki", "/a"));
    assert_eq!(call(&world, "https://notes.test/a", &token).await.arrived(), ("notes", "/a"));
    call(&world, "https://mail.test/a", &token).await.assert_refused(401, "invalid_token");
    assert_eq!(forward_auth(&world, "mail", &token).await, 401);
}

#[tokio::test]
async fn each_host_of_a_wildcard_is_a_resource() {
    let world = World::with(APPS).await;
    let token = world.resource_token("https://a.previews.test", "openid").await;
    assert_eq!(call(&world, "https://a.previews.test/x", &token).await.arrived(), ("previews", "/x"));
    assert_eq!(call(&world, "https://A.Previews.test/x", &token).await.arrived(), ("previews", "/x"));
    call(&world, "https://b.previews.test/x", &token).await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn rules_require_scopes_and_audiences_of_the_application() {
    let world = World::with(APPS).await;
    let edit = "https://notes.test/edit/a";
    let reads = world.resource_token("https://notes.test", "notes:read").await;
    assert_eq!(call(&world, "https://notes.test/a", &reads).await.arrived(), ("notes", "/a"));
    let refused = call(&world, edit, &reads).await;
    refused.assert_refused(403, "insufficient_scope");
    let challenge = refused.header("www-authenticate").unwrap();
    assert!(challenge.contains("scope=\"openid notes:write\""), "{challenge}");
    let writes = world.resource_token("https://notes.test", "notes:write").await;
    assert_eq!(call(&world, edit, &writes).await.arrived(), ("notes", "/edit/a"));
    // The rule names another audience.
    call(&world, "https://notes.test/api/a", &writes).await.assert_refused(401, "invalid_token");
    assert_eq!(call(&world, "https://notes.test/public/a", &writes).await.arrived(), ("notes", "/public/a"));
}

#[tokio::test]
async fn the_metadata_of_a_resource_name_its_scopes() {
    let world = World::with(APPS).await;
    let document = async |host: &str| {
        let url = format!("https://{host}.test/.well-known/oauth-protected-resource");
        world.call("GET", &url, &[]).await.json()["scopes_supported"].clone()
    };
    assert_eq!(document("notes").await, serde_json::json!(["openid", "notes:write", "notes:read"]));
    assert_eq!(document("wiki").await, serde_json::json!(["openid", "profile"]));
    // Without `openid`, tokens have only the application as audience.
    assert_eq!(document("mail").await, serde_json::Value::Null);
    let challenge = world.call("GET", "https://mail.test/a", &[]).await;
    assert!(!challenge.header("www-authenticate").unwrap().contains("scope="), "{challenge:?}");
}
