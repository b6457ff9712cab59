//! Tests applications for agents (`agents = true`): resources of paths, challenges, metadata, and
//! methods of tokens.

use serde_json::json;

use crate::browser::{Browser, is_login};
use crate::world::{ANNA, Reply, World, encode, request};

/// The notes have an MCP endpoint, a path with listed methods, and plain paths. The boards are for
/// agents too, at each host of a wildcard.
const APPS: &str = r#"
    [[app]]
    name = "notes"
    host = "notes.test"
    upstreams = ["http://127.0.0.1:8091"]
    agents = true
    scopes = { "notes:read" = "Read notes", "notes:write" = "Change notes" }
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/mcp"
    access = "bearer"
    resource = true
    scopes = ["notes:read"]
    [[app.route]]
    path = "/mcp/admin"
    access = "bearer"
    scopes = ["notes:read", "notes:write"]
    [[app.route]]
    path = "/tools/"
    access = "bearer"
    resource = true
    [[app.route]]
    path = "/profile"
    access = "bearer"
    scopes = ["profile"]
    [[app.route]]
    path = "/items/"
    methods = ["GET", "POST"]
    access = "signed_in"

    [[app]]
    name = "boards"
    host = "*.boards.test"
    upstreams = ["http://127.0.0.1:8092"]
    agents = true
    [[app.route]]
    path = "/"
    access = "signed_in"
    [[app.route]]
    path = "/mcp"
    access = "bearer"
    resource = true
"#;

const NOTES: &str = "https://notes.test";
const MCP: &str = "https://notes.test/mcp";

async fn with_token(world: &World, method: &str, url: &str, token: &str) -> Reply {
    world.call(method, url, &[("authorization", &format!("Bearer {token}"))]).await
}

fn challenge(reply: &Reply) -> &str {
    reply.header("www-authenticate").unwrap()
}

#[tokio::test]
async fn each_path_has_the_metadata_of_its_resource() {
    let world = World::with(APPS).await;
    let document = async |path: &str| {
        let url = format!("https://notes.test/.well-known/oauth-protected-resource{path}");
        world.call("GET", &url, &[]).await
    };
    for (path, resource, scopes) in [
        ("", NOTES, json!(["openid", "notes:read", "notes:write", "profile"])),
        ("/", NOTES, json!(["openid", "notes:read", "notes:write", "profile"])),
        ("/mcp", MCP, json!(["notes:read", "notes:write"])),
        ("/mcp/", MCP, json!(["notes:read", "notes:write"])),
        ("/tools", "https://notes.test/tools", json!(["notes:read", "notes:write"])),
    ] {
        let reply = document(path).await;
        assert_eq!(reply.header("access-control-allow-origin"), Some("*"), "{path}");
        let body = reply.json();
        assert_eq!((&body["resource"], &body["scopes_supported"]), (&json!(resource), &scopes), "{path}");
        assert_eq!(body["authorization_servers"], json!(["https://id.test"]), "{path}");
    }
    for path in ["/mcp/admin", "/items", "/other", "/mcpx", "x"] {
        let reply = document(path).await;
        assert!(matches!(reply.status, 404 | 401), "{path}: {reply:?}");
        assert_eq!(reply.status == 404, path.starts_with('/'), "{path}");
    }
    let url = "https://b.boards.test/.well-known/oauth-protected-resource/mcp";
    assert_eq!(world.call("GET", url, &[]).await.json()["resource"], "https://b.boards.test/mcp");
    // Other applications answer these paths themselves.
    let other = world.call("GET", "https://wiki.test/.well-known/oauth-protected-resource/public", &[]).await;
    assert_eq!(other.status, 401, "{other:?}");
    assert!(challenge(&other).contains("https://wiki.test/.well-known/oauth-protected-resource\""), "{other:?}");
}

#[tokio::test]
async fn the_challenge_names_the_resource_and_all_scopes() {
    let world = World::with(APPS).await;
    let of =
        |path: &str| format!("resource_metadata=\"https://notes.test/.well-known/oauth-protected-resource{path}\"");
    let reply = world.call("POST", MCP, &[]).await;
    assert_eq!(reply.status, 401, "{reply:?}");
    assert_eq!(challenge(&reply), format!("Bearer realm=\"notes\", scope=\"notes:read\", {}", of("/mcp")));
    let reply = world.call("POST", "https://notes.test/mcp/admin", &[]).await;
    assert_eq!(challenge(&reply), format!("Bearer realm=\"notes\", scope=\"notes:read notes:write\", {}", of("")));
    // The user's data need `openid`.
    let reply = world.call("GET", "https://notes.test/profile", &[]).await;
    assert!(challenge(&reply).contains("scope=\"openid profile\""), "{reply:?}");
    for (token, error) in [("x", "invalid_token"), (&*world.access_token("openid").await, "invalid_token")] {
        let reply = with_token(&world, "POST", MCP, token).await;
        reply.assert_refused(401, error);
        assert!(challenge(&reply).ends_with(&of("/mcp")), "{reply:?}");
    }
}

#[tokio::test]
async fn a_token_opens_only_its_resource() {
    let world = World::with(APPS).await;
    let (of_path, of_app) =
        (world.resource_token(MCP, "notes:read").await, world.resource_token(NOTES, "notes:read notes:write").await);
    assert_eq!(with_token(&world, "POST", MCP, &of_path).await.arrived(), ("notes", "/mcp"));
    assert_eq!(with_token(&world, "GET", "https://notes.test/a", &of_app).await.arrived(), ("notes", "/a"));
    assert_eq!(
        with_token(&world, "GET", "https://notes.test/mcp/admin", &of_app).await.arrived(),
        ("notes", "/mcp/admin")
    );
    for (url, token) in [
        (MCP, &of_app),
        ("https://notes.test/tools/a", &of_app),
        ("https://notes.test/tools/a", &of_path),
        ("https://notes.test/a", &of_path),
        ("https://notes.test/mcp/admin", &of_path),
        ("https://wiki.test/a", &of_path),
        ("https://b.boards.test/mcp", &of_path),
    ] {
        with_token(&world, "GET", url, token).await.assert_refused(401, "invalid_token");
    }
    // A slash at the end of the identifier is ignored.
    let of_tools = world.resource_token("https://notes.test/tools/", "notes:read").await;
    assert_eq!(with_token(&world, "POST", "https://notes.test/tools", &of_tools).await.arrived(), ("notes", "/tools"));
    let of_board = world.resource_token("https://b.boards.test/mcp", "offline_access").await;
    assert_eq!(with_token(&world, "POST", "https://b.boards.test/mcp", &of_board).await.arrived(), ("boards", "/mcp"));
    with_token(&world, "POST", "https://c.boards.test/mcp", &of_board).await.assert_refused(401, "invalid_token");
}

#[tokio::test]
async fn a_refusal_names_the_missing_scopes_and_those_of_the_token() {
    let world = World::with(APPS).await;
    let token = world.resource_token(NOTES, "notes:read").await;
    let reply = with_token(&world, "GET", "https://notes.test/mcp/admin", &token).await;
    reply.assert_refused(403, "insufficient_scope");
    assert!(challenge(&reply).contains("scope=\"notes:read notes:write\""), "{reply:?}");
    let token = world.resource_token(NOTES, "notes:write").await;
    let reply = with_token(&world, "GET", "https://notes.test/profile", &token).await;
    reply.assert_refused(403, "insufficient_scope");
    assert!(challenge(&reply).contains("scope=\"openid profile notes:write\""), "{reply:?}");
}

#[tokio::test]
async fn tokens_may_only_read_where_no_rule_says_otherwise() {
    let world = World::with(APPS).await;
    let token = world.resource_token(NOTES, "notes:read").await;
    for method in ["GET", "HEAD", "OPTIONS"] {
        assert_eq!(with_token(&world, method, "https://notes.test/a", &token).await.arrived(), ("notes", "/a"));
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "PROPFIND", "REPORT"] {
        with_token(&world, method, "https://notes.test/a", &token).await.assert_refused(403, "access_denied");
    }
    let fields: [(&str, &[(&str, &str)]); 3] = [
        ("websocket", &[("connection", "upgrade"), ("upgrade", "websocket")]),
        ("other protocol", &[("connection", "upgrade"), ("upgrade", "h2c")]),
        ("without hop-by-hop fields", &[("sec-websocket-version", "13")]),
    ];
    for (what, fields) in fields {
        let authorization = format!("Bearer {token}");
        let fields = [fields, &[("authorization", &*authorization)]].concat();
        let reply = world.call("GET", "https://notes.test/a", &fields).await;
        assert_eq!(reply.status, 403, "{what}: {reply:?}");
    }
    // The application must not execute another method than the request's.
    let authorization = format!("Bearer {token}");
    let fields = [("authorization", &*authorization), ("x-http-method-override", "DELETE")];
    let reply = world.call("GET", "https://notes.test/a", &fields).await;
    assert_eq!((reply.arrived(), reply.header("x-http-method-override")), (("notes", "/a"), None));
    // This rule lists its methods.
    let posted = with_token(&world, "POST", "https://notes.test/items/1", &token).await;
    assert_eq!(posted.arrived(), ("notes", "/items/1"));
    with_token(&world, "DELETE", "https://notes.test/items/1", &token).await.assert_refused(405, "method_not_allowed");
    // A browser's session may write.
    let browser = Browser::new(&world);
    let page = browser.open("https://notes.test/a").await;
    assert_eq!(browser.sign_in(&page, ANNA).await.arrived(), ("notes", "/a"));
    let cookies = browser.jar("notes.test");
    let fields = [("cookie", &*cookies), ("origin", NOTES)];
    let posted = world.send("192.0.2.9", request("POST", "https://notes.test/a", &fields, "")).await;
    assert_eq!(posted.arrived(), ("notes", "/a"));
}

/// Returns an access token of a client whose identifier is the URL of its document.
async fn document_token(world: &World, id: &str, resource: &str) -> String {
    let fields = [
        ("client_id", id),
        ("response_type", "code"),
        ("redirect_uri", "https://rp.test/cb"),
        ("resource", resource),
        ("code_challenge", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"),
        ("code_challenge_method", "S256"),
    ];
    let browser = Browser::new(world);
    let page = browser.open(&format!("https://id.test/oauth/authorize?{}", encode(&fields))).await;
    let page = if is_login(&page) { browser.sign_in(&page, ANNA).await } else { page };
    let back = browser.submit(&page, &[("consent-allow", "yes")]).await;
    let location = url::Url::parse(back.location()).unwrap();
    let code = location.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let form = encode(&[
        ("grant_type", "authorization_code"),
        ("code", &code),
        ("redirect_uri", "https://rp.test/cb"),
        ("client_id", id),
        ("code_verifier", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"),
    ]);
    let fields = [("content-type", "application/x-www-form-urlencoded")];
    let reply = world.send("192.0.2.9", request("POST", "https://id.test/oauth/token", &fields, &form)).await;
    reply.json()["access_token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_application_accepts_clients_by_url_or_host_of_their_document() {
    const LISTS: &str = r#"
        [registration]
        document_hosts = ["agents.test", "other.test"]
        [[app]]
        name = "byhost"
        host = "byhost.test"
        upstreams = ["http://127.0.0.1:8093"]
        agents = true
        client_hosts = ["agents.test"]
        [[app]]
        name = "byurl"
        host = "byurl.test"
        upstreams = ["http://127.0.0.1:8094"]
        agents = true
        clients = ["https://other.test/a.json"]
        [[app]]
        name = "unlisted"
        host = "unlisted.test"
        upstreams = ["http://127.0.0.1:8095"]
        agents = true
    "#;
    let world = World::with(LISTS).await;
    let (agent, other) = ("https://agents.test/a.json", "https://other.test/a.json");
    let (by_host, by_url) = ("https://byhost.test", "https://byurl.test");
    for (id, resource, app) in [(agent, by_host, "byhost"), (other, by_url, "byurl")] {
        let token = document_token(&world, id, resource).await;
        assert_eq!(with_token(&world, "GET", &format!("{resource}/a"), &token).await.arrived(), (app, "/a"));
    }
    // An application without a list accepts approved clients only. That is also the case if it lists hosts.
    for (id, resource) in [(agent, "https://unlisted.test"), (other, by_host)] {
        let token = document_token(&world, id, resource).await;
        let reply = with_token(&world, "GET", &format!("{resource}/a"), &token).await;
        reply.assert_refused(403, "access_denied");
        assert!(reply.text().contains("administrator must approve"), "{reply:?}");
    }
}

/// No rule of this application lists methods, so only the setting decides about the header.
#[tokio::test]
async fn agents_headers_cannot_name_another_method() {
    let world = World::with(APPS).await;
    let token = world.resource_token("https://b.boards.test", "offline_access").await;
    let authorization = format!("Bearer {token}");
    let fields = [("authorization", &*authorization), ("x-http-method-override", "DELETE")];
    let reply = world.call("GET", "https://b.boards.test/a", &fields).await;
    assert_eq!((reply.arrived(), reply.header("x-http-method-override")), (("boards", "/a"), None));
}
