//! Tests applications in maintenance.

use sealgate_config::{Config, Maintenance};
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::time::UnixTime;
use sealgate_edge::origin::Origin;
use sealgate_edge::{Front, Reauthorization, RouteDecision};

use crate::app_passwords::{APPS, basic, made};
use crate::browser::{Browser, is_login, link};
use crate::world::{ANNA, BEN, Reply, World, request};

/// Time at which the tests start.
const NOW: u64 = 1_800_000_000;

/// Starts with every application in this maintenance.
async fn world(maintenance: Maintenance) -> World {
    let set = |config: &mut Config| {
        for app in &mut config.apps {
            app.maintenance = Some(maintenance.clone());
        }
    };
    World::made(APPS, None, set).await
}

fn closed() -> Maintenance {
    Maintenance::default()
}

/// Anna is in this group, and Ben is not.
fn for_staff() -> Maintenance {
    Maintenance { groups: vec!["staff".to_owned()], ..Maintenance::default() }
}

#[track_caller]
fn assert_in_maintenance(reply: &Reply) {
    reply.assert_refused(503, "temporarily_unavailable");
    assert_eq!(reply.header("retry-after"), Some("300"));
}

#[tokio::test]
async fn every_request_is_refused_before_credentials_are_read() {
    let world = world(closed()).await;
    let token = format!("Bearer {}", world.access_token("openid").await);
    let before = world.reads();
    for (path, fields) in [
        ("/", &[][..]),
        ("/public/a", &[]),
        ("/api/a", &[("authorization", token.as_str())]),
        ("/api/a", &[("authorization", "Bearer wrong")]),
        ("/staff/", &[("cookie", "__Host-sealgate-app=x")]),
        ("/public/a", &[("upgrade", "websocket"), ("connection", "upgrade"), ("origin", "https://wiki.test")]),
    ] {
        assert_in_maintenance(&world.call("GET", &format!("https://wiki.test{path}"), fields).await);
    }
    assert_eq!(world.reads(), before);
    assert_in_maintenance(&world.call("POST", "https://wiki.test/", &[]).await);
    // The rules refuse what needs no credentials.
    world.call("GET", "https://shop.test/other", &[]).await.assert_refused(403, "access_denied");
    world.call("GET", "https://wiki.test/a/../b", &[]).await.assert_refused(400, "invalid_request");
    let metrics = world.sealgate.metrics.text();
    let line = "sealgate_gate_decisions_total{app=\"wiki\",decision=\"maintenance\"} 7";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn sealgates_own_paths_stay_open() {
    let world = world(closed()).await;
    let style = world.call("GET", "https://wiki.test/.sealgate/style.css", &[]).await;
    assert_eq!(style.answered_with(), 200);
    let browser = Browser::new(&world);
    let left = browser.visit("https://wiki.test/.sealgate/logout").await;
    assert!(left.location().starts_with("https://id.test/oauth/logout?"), "{left:?}");
    let metadata = world.call("GET", "https://wiki.test/.well-known/oauth-protected-resource", &[]).await;
    assert_eq!(metadata.answered_with(), 200);
}

#[tokio::test]
async fn members_of_the_groups_get_through() {
    let world = world(for_staff()).await;
    let (anna, ben) = (Browser::new(&world), Browser::new(&world));
    assert_eq!(anna.sign_in_at("https://wiki.test/a", ANNA).await.arrived(), ("wiki", "/a"));
    let page = ben.sign_in_at("https://wiki.test/a", BEN).await;
    page.assert_page(503);
    for path in ["/", "/public/a"] {
        anna.fetch(&format!("https://wiki.test{path}")).await.arrived();
        assert_in_maintenance(&ben.fetch(&format!("https://wiki.test{path}")).await);
    }
    // Without credentials, the rules decide first.
    let anonymous = Browser::new(&world);
    assert!(is_login(&anonymous.open("https://wiki.test/").await));
    world.call("GET", "https://wiki.test/", &[]).await.assert_refused(401, "login_required");
    assert_in_maintenance(&world.call("GET", "https://wiki.test/public/a", &[]).await);
    // The rule of this path refuses Ben for another reason.
    ben.fetch("https://wiki.test/staff/").await.assert_refused(403, "access_denied");
    // Users can sign out.
    let left = ben.visit("https://wiki.test/.sealgate/logout").await;
    assert!(left.location().starts_with("https://id.test/oauth/logout?"), "{left:?}");
}

#[tokio::test]
async fn members_send_tokens_to_public_paths_too() {
    let world = world(for_staff()).await;
    let ben = Browser::new(&world);
    ben.sign_in_at("https://wiki.test/", BEN).await;
    let (annas, bens) = (world.access_token("openid").await, world.access_token_in(&ben, "openid").await);
    for path in ["/api/a", "/public/a"] {
        let url = format!("https://wiki.test{path}");
        let call = async |token: &str| {
            let field = format!("Bearer {token}");
            world.call("GET", &url, &[("authorization", &field)]).await
        };
        call(&annas).await.arrived();
        assert_in_maintenance(&call(&bens).await);
        let forged = format!("{annas}x");
        match path {
            "/api/a" => call(&forged).await.assert_refused(401, "invalid_token"),
            _ => assert_in_maintenance(&call(&forged).await),
        }
    }
    // This application does not accept the client of the token.
    let field = format!("Bearer {annas}");
    let refused = world.call("GET", "https://mobile.test/", &[("authorization", &field)]).await;
    refused.assert_refused(403, "access_denied");
}

#[tokio::test]
async fn only_accepted_credentials_open_public_paths() {
    let audience = |config: &mut Config| {
        config.apps[0].maintenance = Some(for_staff());
        config.apps[0].clients = Some(Vec::new());
    };
    let world = World::made("", None, audience).await;
    let token = format!("Bearer {}", world.access_token("openid").await);
    let fields = [("authorization", token.as_str())];
    assert_in_maintenance(&world.call("GET", "https://wiki.test/public/a", &fields).await);
    world.call("GET", "https://wiki.test/api/a", &fields).await.assert_refused(403, "access_denied");

    // A sign-in without a second factor, which is required now.
    let mut world = World::new().await;
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await.arrived();
    let jar = browser.jar("wiki.test");
    let mut config = Config::clone(&world.sealgate.config);
    config.apps[0].maintenance = Some(for_staff());
    let fields = [("cookie", jar.as_str())];
    world.site = world.site.with(config.clone());
    world.call("GET", "https://wiki.test/public/a", &fields).await.arrived();
    config.factors.level = AssuranceLevel::Two;
    world.site = world.site.with(config);
    assert_in_maintenance(&world.call("GET", "https://wiki.test/public/a", &fields).await);
}

#[tokio::test]
async fn a_public_path_gets_no_identity_of_a_member() {
    let world = world(for_staff()).await;
    let token = format!("Bearer {}", world.access_token("openid").await);
    let reply = world.call("GET", "https://wiki.test/public/a", &[("authorization", &token)]).await;
    reply.arrived();
    assert_eq!(reply.header("x-forwarded-user"), None);
    assert_eq!(reply.header("authorization"), None);
    let browser = Browser::new(&world);
    browser.sign_in_at("https://wiki.test/", ANNA).await;
    let own = [("authorization", "Bearer of-the-application")];
    let reply = browser.send("GET", "https://wiki.test/public/a", &own, "").await;
    assert_eq!(reply.header("authorization"), Some("Bearer of-the-application"));
    assert_eq!(reply.header("x-forwarded-user"), None);
    let foreign = [("upgrade", "websocket"), ("connection", "upgrade"), ("origin", "https://other.test")];
    browser.send("GET", "https://wiki.test/public/a", &foreign, "").await.arrived();
}

#[tokio::test]
async fn application_passwords_show_members() {
    let world = world(for_staff()).await;
    let (annas, _) = made(&world, &world.anna, "git").await;
    let (bens, _) = made(&world, &world.ben, "git").await;
    for path in ["/", "/open/a"] {
        let call = async |field: String| {
            world.call("GET", &format!("https://git.test{path}"), &[("authorization", &field)]).await
        };
        call(basic(ANNA, &annas)).await.arrived();
        assert_in_maintenance(&call(basic(BEN, &bens)).await);
    }
    let wrong = world.call("GET", "https://git.test/open/a", &[("authorization", &basic(ANNA, "wrong"))]).await;
    assert_in_maintenance(&wrong);
}

#[tokio::test]
async fn browsers_get_a_page_with_the_message_and_the_end() {
    let until = Some(UnixTime::from_seconds(NOW + 7200));
    let message = Some("Yeni sürüm <b>kuruluyor</b>".to_owned());
    let world = world(Maintenance { message, until, ..closed() }).await;
    let page = Browser::new(&world).visit("https://wiki.test/a?b=c").await;
    page.assert_page(503);
    assert_eq!(page.header("retry-after"), Some("7200"));
    for part in [
        "<bdi>wiki</bdi> is under maintenance",
        "<bdi>Yeni sürüm &#60;b&#62;kuruluyor&#60;/b&#62;</bdi>",
        "<time datetime=\"2027-01-15T10:00:00Z\">15 Jan 2027, 10:00 UTC</time>",
    ] {
        assert!(page.text().contains(part), "{part}: {}", page.text());
    }
    assert!(!page.text().contains("switch-account"));
    let turkish = [("accept", "text/html"), ("accept-language", "tr")];
    let page = world.call("GET", "https://wiki.test/", &turkish).await;
    for part in ["<h1>Bakım çalışması</h1>", "15.01.2027 10:00 UTC"] {
        assert!(page.text().contains(part), "{part}: {}", page.text());
    }
    // The end has passed, but the maintenance has not ended.
    world.wait(7200);
    let page = Browser::new(&world).visit("https://wiki.test/a").await;
    page.assert_page(503);
    assert_eq!(page.header("retry-after"), Some("300"));
    assert!(!page.text().contains("<time"), "{}", page.text());
}

#[tokio::test]
async fn the_page_leads_members_to_a_sign_in() {
    let world = world(for_staff()).await;
    let browser = Browser::new(&world);
    let page = browser.visit("https://wiki.test/public/a").await;
    page.assert_page(503);
    let switch = link(page.text(), "/.sealgate/switch-account?");
    let page = browser.open(&format!("https://wiki.test{switch}")).await;
    assert_eq!(browser.sign_in(&page, ANNA).await.arrived(), ("wiki", "/public/a"));
}

#[tokio::test]
async fn pages_of_other_origins_can_read_the_refusal() {
    let world = world(closed()).await;
    let origin = ("origin", "https://www.test");
    let fields = [origin, ("access-control-request-method", "PUT")];
    assert_eq!(world.call("OPTIONS", "https://desk.test/data", &fields).await.answered_with(), 204);
    let refused = world.call("PUT", "https://desk.test/data", &[origin]).await;
    assert_in_maintenance(&refused);
    assert_eq!(refused.header("access-control-allow-origin"), Some("https://www.test"));
    // The application would answer this preflight.
    assert_in_maintenance(&world.call("OPTIONS", "https://desk.test/open/x", &fields).await);
}

#[tokio::test]
async fn proxies_are_told_to_refuse() {
    for (maintenance, path, status) in
        [(closed(), "/", 503), (closed(), "/public/a", 503), (for_staff(), "/", 401), (for_staff(), "/public/a", 503)]
    {
        let world = world(maintenance).await;
        for query in ["", "&redirect=no"] {
            let url = format!("https://127.0.0.1:8080/.sealgate/auth?app=wiki{query}");
            let fields = [
                ("x-forwarded-for", "192.0.2.1"),
                ("x-forwarded-method", "GET"),
                ("x-forwarded-proto", "https"),
                ("x-forwarded-host", "wiki.test"),
                ("x-forwarded-uri", path),
            ];
            let (mut head, _) = request("GET", &url, &fields, "").into_parts();
            let peer = "192.0.2.200".parse().unwrap();
            head.extensions.insert(Origin { peer, secure: true, request_id: "request-1".into(), ..Origin::unknown() });
            let RouteDecision::Answer(response) = world.site.decide(&head).await else { panic!("not answered") };
            // nginx sends a request with a 403 to Sealgate.
            let status = if status == 503 && !query.is_empty() { 403 } else { status };
            assert_eq!(response.status(), status, "{path}{query}");
            assert_eq!(response.headers().contains_key("retry-after"), status == 503);
        }
    }
}

#[tokio::test]
async fn exchanges_in_progress_continue() {
    for (maintenance, user, is_member) in
        [(closed(), ANNA, false), (for_staff(), BEN, false), (for_staff(), ANNA, true)]
    {
        let mut world = World::new().await;
        let browser = Browser::new(&world);
        browser.sign_in_at("https://wiki.test/", user).await.arrived();
        let jar = browser.jar("wiki.test");
        let mut config = Config::clone(&world.sealgate.config);
        config.apps[0].maintenance = Some(maintenance);
        world.site = world.site.with(config);
        let is_forwarded =
            async |head: &http::request::Parts| matches!(world.site.decide(head).await, RouteDecision::Forward(_));
        for path in ["/", "/public/a"] {
            let url = format!("https://wiki.test{path}");
            let (mut head, _) = request("GET", &url, &[("cookie", &jar)], "").into_parts();
            head.extensions.insert(Origin { secure: true, ..Origin::unknown() });
            assert_eq!(is_forwarded(&head).await, is_member, "{path}");
            head.extensions.insert(Reauthorization);
            assert!(is_forwarded(&head).await, "{path}");
        }
    }
}

#[tokio::test]
async fn the_home_page_marks_applications_in_maintenance() {
    let set = |config: &mut Config| {
        config.apps.iter_mut().find(|app| app.name == "desk").unwrap().maintenance = Some(closed());
        // The provider serves its own home page on the issuer's host.
        config.apps.retain(|app| app.name != "portal");
    };
    let world = World::made("", None, set).await;
    let browser = Browser::new(&world);
    let page = browser.open("https://id.test/").await;
    let page = browser.sign_in(&page, ANNA).await;
    let text = page.text();
    assert_eq!(text.matches("Under maintenance").count(), 1, "{text}");
    let row = text.split("<li class=\"row\">").find(|row| row.contains("Under maintenance")).unwrap();
    assert!(row.contains("https://desk.test/"), "{row}");
}
