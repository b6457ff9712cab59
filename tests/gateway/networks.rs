//! Tests rules for the networks of clients.

use bytes::Bytes;
use http::Request;
use sealgate_edge::origin::Origin;
use sealgate_edge::{Front, RouteDecision};

use crate::browser::Browser;
use crate::world::{ANNA, BEN, World, request};

/// Anna is in the group `staff`, Ben is not.
const APPS: &str = r#"
    [[app]]
    name = "net"
    host = "net.test"
    upstreams = ["http://127.0.0.1:8091"]
    [[app.route]]
    path = "/"
    networks = ["10.0.0.0/8", "2001:db8::/32"]
    access = "signed_in"
    [[app.route]]
    path = "/"
    networks = ["10.9.0.0/16"]
    access = "signed_in"
    groups = ["staff"]
    [[app.route]]
    path = "/"
    access = "signed_in"
    acr = ["2"]
    [[app.route]]
    path = "/admin/"
    networks = ["10.1.0.0/16", "192.0.2.77"]
    access = "signed_in"
    cors_origins = ["https://www.test"]
    [[app.route]]
    path = "/hooks/"
    networks = ["198.51.100.7"]
    access = "public"
    [[app.route]]
    path = "/files/"
    methods = ["GET"]
    networks = ["10.0.0.0/8"]
    access = "public"
    [[app.route]]
    path = "/files/"
    access = "public"
    [[app.route]]
    path = "/hook.php"
    methods = ["POST"]
    networks = ["198.51.100.7"]
    access = "public"
    [[app.route]]
    path = "/hook.php"
    access = "public"
"#;

/// Returns the URL of a path at the application.
fn at(path: &str) -> String {
    format!("https://net.test{path}")
}

/// Returns a browser at this address in which the user has signed in to the application.
async fn signed_in<'a>(world: &'a World, user: &str, address: &str) -> Browser<'a> {
    let mut browser = Browser::new(world);
    browser.address = "10.1.0.1".into();
    browser.sign_in_at(&at("/"), user).await.arrived();
    browser.address = address.into();
    browser
}

#[tokio::test]
async fn the_rule_of_the_smallest_network_applies() {
    let world = World::with(APPS).await;
    for address in ["10.2.3.4", "::ffff:10.2.3.4", "2001:db8::7"] {
        assert_eq!(signed_in(&world, BEN, address).await.visit(&at("/x")).await.arrived(), ("net", "/x"), "{address}");
    }
    // The smaller network requires a group.
    assert_eq!(signed_in(&world, ANNA, "10.9.3.4").await.visit(&at("/x")).await.arrived(), ("net", "/x"));
    signed_in(&world, BEN, "10.9.3.4").await.visit(&at("/x")).await.assert_page(403);
    // All other clients need a second factor.
    for address in ["203.0.113.9", "2001:db9::7", "11.0.0.1", "::ffff:11.0.0.1"] {
        let browser = signed_in(&world, ANNA, address).await;
        let reply = browser.visit(&at("/x")).await;
        assert_eq!(reply.sent_with("acr_values").as_deref(), Some("2"), "{address}");
        browser.fetch(&at("/x")).await.assert_refused(401, "insufficient_user_authentication");
    }
}

#[tokio::test]
async fn clients_of_other_networks_are_refused_before_the_sign_in() {
    let world = World::with(APPS).await;
    for address in ["10.2.0.1", "192.0.2.76", "2001:db8::7"] {
        let browser = signed_in(&world, ANNA, address).await;
        let page = browser.visit(&at("/admin/x")).await;
        page.assert_page(403);
        assert!(page.text().contains("VPN"));
        browser.fetch(&at("/admin/x")).await.assert_refused(403, "access_denied");
        // The header of a client that is no trusted proxy has no effect.
        let fields = [("x-forwarded-for", "10.1.0.1"), ("x-real-ip", "10.1.0.1"), ("forwarded", "for=10.1.0.1")];
        browser.send("GET", &at("/admin/x"), &fields, "").await.assert_refused(403, "access_denied");
        let unknown = Browser::new(&world);
        unknown.visit(&at("/admin/x")).await.assert_page(403);
    }
    for address in ["10.1.200.3", "::ffff:10.1.0.9", "192.0.2.77"] {
        let arrived = signed_in(&world, ANNA, address).await.visit(&at("/admin/x")).await;
        assert_eq!(arrived.arrived(), ("net", "/admin/x"), "{address}");
    }
    let mut hook = Browser::new(&world);
    hook.address = "198.51.100.7".into();
    hook.fetch(&at("/hooks/a")).await.arrived();
    hook.address = "198.51.100.8".into();
    hook.fetch(&at("/hooks/a")).await.assert_refused(403, "access_denied");
}

#[tokio::test]
async fn a_rule_without_methods_does_not_apply_to_a_method_of_another_network() {
    let world = World::with(APPS).await;
    let mut browser = Browser::new(&world);
    for method in ["GET", "HEAD"] {
        browser.address = "10.2.0.1".into();
        browser.send(method, &at("/files/a"), &[], "").await.arrived();
        browser.address = "203.0.113.9".into();
        browser.send(method, &at("/files/a"), &[], "").await.assert_refused(403, "access_denied");
    }
    browser.send("PUT", &at("/files/a"), &[], "").await.arrived();
}

#[tokio::test]
async fn no_other_spelling_of_a_path_avoids_its_networks() {
    let world = World::with(APPS).await;
    let browser = signed_in(&world, ANNA, "10.2.0.1").await;
    for path in ["/ADMIN/x", "/admin./x", "/adm%C4%B1n/x", "/x/../admin/x", "//admin/x", "/admin%2Fx"] {
        browser.fetch(&at(path)).await.assert_refused(400, "invalid_request");
    }
    // Requests on everything below need the rules there, and the rule of the destination.
    let everything = [("depth", "infinity")];
    browser.send("PROPFIND", &at("/"), &everything, "").await.assert_refused(403, "access_denied");
    browser.send("DELETE", &at("/"), &[], "").await.assert_refused(403, "access_denied");
    let destination = [("destination", "https://net.test/admin/x")];
    browser.send("MOVE", &at("/x"), &destination, "").await.assert_refused(403, "access_denied");
    let inside = signed_in(&world, ANNA, "10.1.0.7").await;
    inside.send("MOVE", &at("/x"), &destination, "").await.arrived();
}

#[tokio::test]
async fn no_path_below_a_script_avoids_its_networks() {
    let world = World::with(APPS).await;
    let browser = signed_in(&world, ANNA, "10.2.0.1").await;
    browser.send("POST", &at("/hook.php"), &[], "").await.assert_refused(403, "access_denied");
    for path in ["/hook.php/x", "/hook.php%3Fx", "/hook.php%23x"] {
        browser.send("POST", &at(path), &[], "").await.assert_refused(400, "invalid_request");
    }
}

#[tokio::test]
async fn public_answers_of_some_networks_are_private() {
    let world = World::with(APPS).await;
    let is_private = async |address: &str, url: &str| {
        let (mut head, _) = request("GET", url, &[], "").into_parts();
        let address = address.parse().unwrap();
        head.extensions.insert(Origin { address, secure: true, request_id: "request-1".into(), ..Origin::unknown() });
        match world.site.decide(&head).await {
            RouteDecision::Forward(forward) => forward.rewrite.answer.private,
            other => panic!("not forwarded: {other:?}"),
        }
    };
    assert!(is_private("198.51.100.7", &at("/hooks/a")).await);
    assert!(is_private("10.2.0.1", &at("/files/a")).await);
    assert!(!is_private("10.2.0.1", "https://wiki.test/public/a").await);
}

#[tokio::test]
async fn a_client_of_unknown_address_is_in_no_network() {
    let world = World::with(APPS).await;
    let status = async |method: &str, path: &str| {
        let (mut head, _) = request(method, &at(path), &[], "").into_parts();
        // A trusted proxy in the rule's network reports no address of its client.
        let address = "10.1.0.1".parse().unwrap();
        let origin = Origin { address, is_address_known: false, request_id: "request-1".into(), ..Origin::unknown() };
        head.extensions.insert(origin);
        match world.site.decide(&head).await {
            RouteDecision::Answer(response) => response.status().as_u16(),
            RouteDecision::Forward(_) => 200,
            RouteDecision::Local { .. } => panic!("a page of the provider"),
        }
    };
    for (method, path) in [("GET", "/x"), ("GET", "/admin/x"), ("GET", "/files/a"), ("POST", "/hook.php")] {
        assert_eq!(status(method, path).await, 403, "{method} {path}");
    }
    // No rule of the method has networks.
    assert_eq!(status("PUT", "/files/a").await, 200);
}

#[tokio::test]
async fn a_preflight_is_answered_in_the_networks_of_the_rule_only() {
    let world = World::with(APPS).await;
    let mut browser = Browser::new(&world);
    let fields = [("origin", "https://www.test"), ("access-control-request-method", "GET")];
    browser.address = "10.1.0.1".into();
    let reply = browser.send("OPTIONS", &at("/admin/x"), &fields, "").await;
    assert_eq!(reply.header("access-control-allow-origin"), Some("https://www.test"));
    browser.address = "203.0.113.9".into();
    let reply = browser.send("OPTIONS", &at("/admin/x"), &fields, "").await;
    assert_eq!((reply.answered_with(), reply.header("access-control-allow-origin")), (403, None));
}

#[tokio::test]
async fn a_forward_auth_request_has_the_address_of_the_proxys_client() {
    let world = World::with(APPS).await;
    let status = async |client: &str| {
        let request = Request::get("/.sealgate/auth?app=net&fields=request").header("host", "127.0.0.1:8080");
        let request = request.header("x-forwarded-method", "GET").header("x-forwarded-proto", "https");
        let request = request.header("x-forwarded-host", "net.test").header("x-forwarded-uri", "/hooks/a");
        let mut head = request.body(Bytes::new()).unwrap().into_parts().0;
        // The edge reads the client's address from the header of a trusted proxy.
        let (address, peer) = (client.parse().unwrap(), "192.0.2.200".parse().unwrap());
        head.extensions.insert(Origin {
            address,
            peer,
            secure: true,
            request_id: "request-1".into(),
            ..Origin::unknown()
        });
        match world.site.decide(&head).await {
            RouteDecision::Answer(response) => response.status().as_u16(),
            other => panic!("not answered: {other:?}"),
        }
    };
    assert_eq!(status("198.51.100.7").await, 200);
    assert_eq!(status("198.51.100.8").await, 403);
    assert_eq!(status("192.0.2.200").await, 403);
}
