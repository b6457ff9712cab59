//! Tests pages of other origins that call an application from a browser.

use crate::browser::Browser;
use crate::world::{ANNA, Reply, World};

const PAGE: (&str, &str) = ("origin", "https://www.test");

async fn preflight(world: &World, path: &str, origin: &str, method: &str) -> Reply {
    let fields = [
        ("origin", origin),
        ("access-control-request-method", method),
        ("access-control-request-headers", "authorization, x-a"),
    ];
    world.call("OPTIONS", &format!("https://desk.test{path}"), &fields).await
}

fn varies(reply: &Reply) -> bool {
    reply.headers.get_all("vary").iter().any(|value| value.to_str().unwrap().split(", ").any(|name| name == "Origin"))
}

fn is_readable(reply: &Reply) -> bool {
    let allowed = reply.header("access-control-allow-origin");
    assert_eq!(allowed.is_some(), reply.header("access-control-allow-credentials").is_some());
    assert_ne!(allowed, Some("*"));
    allowed == Some("https://www.test")
}

#[tokio::test]
async fn preflights_are_answered_without_credentials_for_listed_origins_only() {
    let world = World::new().await;
    let allowed = preflight(&world, "/data", "https://www.test", "PUT").await;
    assert_eq!(allowed.answered_with(), 204);
    assert!(is_readable(&allowed) && varies(&allowed));
    assert_eq!(allowed.header("access-control-allow-methods"), Some("PUT"));
    assert_eq!(allowed.header("access-control-allow-headers"), Some("authorization, x-a"));
    assert_eq!(allowed.header("access-control-max-age"), Some("600"));
    for origin in
        ["https://evil.test", "null", "https://www.test.evil.test", "http://www.test", "https://www.test:8443"]
    {
        let refused = preflight(&world, "/data", origin, "PUT").await;
        assert_eq!(refused.answered_with(), 403);
        assert!(!is_readable(&refused) && varies(&refused), "{origin}");
        assert_eq!(refused.header("access-control-allow-methods"), None);
    }
    // Each rule has its own list.
    assert_eq!(preflight(&world, "/data", "https://m.test", "GET").await.answered_with(), 204);
    assert_eq!(preflight(&world, "/partners/x", "https://m.test", "GET").await.answered_with(), 403);
    // Without a rule for CORS the application answers the preflight itself. Where access requires a
    // sign-in, the gateway rejects it.
    preflight(&world, "/open/x", "https://www.test", "GET").await.arrived();
    assert_eq!(preflight(&world, "/money/", "https://www.test", "GET").await.answered_with(), 401);
    assert_eq!(preflight(&world, "/records/", "https://www.test", "PUT").await.answered_with(), 405);
}

#[tokio::test]
async fn requests_that_only_resemble_a_preflight_need_access() {
    let world = World::new().await;
    let bare = world.call("OPTIONS", "https://desk.test/data", &[PAGE]).await;
    bare.assert_refused(401, "login_required");
    let get = [PAGE, ("access-control-request-method", "PUT")];
    world.call("GET", "https://desk.test/data", &get).await.assert_refused(401, "login_required");
    let twice = [PAGE, ("origin", "https://evil.test"), ("access-control-request-method", "PUT")];
    let reply = world.call("OPTIONS", "https://desk.test/data", &twice).await;
    reply.assert_refused(400, "invalid_request");
    assert_eq!(reply.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn a_listed_page_can_read_our_refusals() {
    let world = World::new().await;
    let none = world.call("GET", "https://desk.test/data", &[PAGE]).await;
    none.assert_refused(401, "login_required");
    assert!(is_readable(&none) && varies(&none));
    assert!(none.header("access-control-expose-headers").unwrap().contains("WWW-Authenticate"));
    let wrong = world.call("GET", "https://desk.test/data", &[PAGE, ("authorization", "Bearer x")]).await;
    assert!(wrong.answered_with() == 401 && is_readable(&wrong));
    let stranger = world.call("GET", "https://desk.test/data", &[("origin", "https://evil.test")]).await;
    assert!(stranger.answered_with() == 401 && !is_readable(&stranger) && varies(&stranger));
    // A cache must not serve a page the answer to a request without an origin.
    assert!(varies(&world.call("GET", "https://desk.test/data", &[]).await));
    world.engine.refuse_writes(true);
    let failed = world.call("GET", "https://desk.test/data", &[PAGE, ("accept", "text/html")]).await;
    assert!(failed.answered_with() == 503 && is_readable(&failed), "{failed:?}");
}

#[tokio::test]
async fn only_a_listed_page_may_open_a_websocket() {
    let world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://desk.test/", ANNA).await;
    for (origin, status) in [("https://www.test", 200), ("https://desk.test", 200), ("https://evil.test", 403)] {
        let fields = [("origin", origin), ("upgrade", "websocket"), ("connection", "upgrade")];
        assert_eq!(browser.send("GET", "https://desk.test/live", &fields, "").await.status, status, "{origin}");
    }
}
