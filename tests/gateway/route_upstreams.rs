//! Tests upstreams of routes, and the paths that they receive.

use crate::browser::Browser;
use crate::world::{ANNA, BEN, World};
use sealgate_config::{Config, UpstreamProtocol};
use sealgate_domain::time::UnixTime;
use sealgate_gateway::{Asker, ExplainedUpstream, explain};

const APPS: &str = r#"
    [[app]]
    name = "apps"
    host = "apps.test"
    upstreams = ["http://127.0.0.1:8091"]
    [[app.route]]
    path = "/"
    access = "public"
    [[app.route]]
    path = "/wiki/"
    access = "public"
    upstreams = ["http://127.0.0.1:8092"]
    upstream_path = "/"
    path_characters = ["%2F"]
    [[app.route]]
    path = "/wiki/admin/"
    access = "signed_in"
    groups = ["staff"]
    [[app.route]]
    path = "/wiki/raw/"
    access = "public"
    upstreams = ["http://127.0.0.1:8093"]
    [[app.route]]
    path = "/docs/"
    access = "public"
    upstream_path = "/public/docs/"
    [[app.route]]
    path = "/public/docs/"
    access = "public"
    [[app.route]]
    path = "/tools/"
    access = "signed_in"
    upstreams = ["http://127.0.0.1:8092"]
    [[app.route]]
    path = "/wiki/tools/"
    access = "signed_in"
"#;

fn at(path: &str) -> String {
    format!("https://apps.test{path}")
}

/// Sends an anonymous request. Returns the number of the list of upstreams, and the target.
async fn arrived(world: &World, path: &str) -> (usize, String) {
    let reply = world.call("GET", &at(path), &[]).await;
    let arrived = reply.arrived.unwrap_or_else(|| panic!("{path}: {}", reply.status));
    assert_eq!(arrived.app, "apps");
    (arrived.list, arrived.target)
}

#[tokio::test]
async fn a_route_has_its_own_upstreams_and_path() {
    let world = World::with(APPS).await;
    for (path, list, target) in [
        ("/", 0, "/"),
        ("/x?a=/wiki/", 0, "/x?a=/wiki/"),
        ("/wikis/x", 0, "/wikis/x"),
        ("/wiki/", 1, "/"),
        ("/wiki/?", 1, "/?"),
        ("/wiki/a/b?c=%2e%2e//d&e=/wiki/", 1, "/a/b?c=%2e%2e//d&e=/wiki/"),
        // Escapes outside of the prefix remain, and an escaped prefix is the prefix.
        ("/wiki/ge%C3%A7mi%C5%9F%20a%2Cb", 1, "/ge%C3%A7mi%C5%9F%20a%2Cb"),
        ("/%77iki/a", 1, "/a"),
        ("/wiki/a%2Fb", 1, "/a%2Fb"),
        // A route with its own upstreams keeps its path.
        ("/wiki/raw/a", 2, "/wiki/raw/a"),
        ("/docs/a", 0, "/public/docs/a"),
    ] {
        assert_eq!(arrived(&world, path).await, (list, target.to_owned()), "{path}");
    }
}

#[tokio::test]
async fn a_route_below_has_its_own_conditions_and_the_upstream_of_the_route_above() {
    let world = World::with(APPS).await;
    let (anna, ben) = (Browser::new(&world), Browser::new(&world));
    anna.sign_in_at(&at("/wiki/admin/"), ANNA).await.arrived();
    ben.sign_in_at(&at("/tools/"), BEN).await.arrived();
    for (path, target) in
        [("/wiki/admin/x?y", "/admin/x?y"), ("/wiki/admin", "/admin"), ("/wiki/%61dmin/", "/%61dmin/")]
    {
        let reply = anna.visit(&at(path)).await;
        assert_eq!((reply.arrived().1, reply.arrived.as_ref().unwrap().list), (target, 1), "{path}");
        ben.visit(&at(path)).await.assert_page(403);
    }
    // The same list of upstreams is one list.
    assert_eq!(ben.visit(&at("/tools/x")).await.arrived.unwrap().list, 1);
}

#[tokio::test]
async fn paths_that_upstreams_read_differently_are_refused() {
    let world = World::with(APPS).await;
    let paths = [
        "/wiki//a",
        "/wiki/../x",
        "/wiki/%2e%2e/x",
        "/wiki/..%2Fx",
        "/wiki/%2e%2e%2fx",
        "/wiki/%2Fadmin/",
        "/wiki/%2F%2Fevil.test/",
        "/wiki/x%2F..%2Fadmin",
        "/wiki/admin%2Fx",
        "/wiki%2Fadmin/x",
        "/WIKI/admin/x",
        "/wiki/Admin/x",
        "/wiki/./admin/x",
        "/x/../wiki/admin/x",
        "/wiki/%252e%252e/x",
        "/wiki;x/admin/",
        "/wiki/admin;x/",
        "/wiki\\admin/",
    ];
    for path in paths {
        // Some of these are no targets of a request at all.
        if at(path).parse::<http::Uri>().is_ok() {
            world.refuses_to_read("apps.test", &[path]).await;
        }
    }
}

#[tokio::test]
async fn a_prefix_without_its_slash_is_redirected_after_the_decision() {
    let world = World::with(APPS).await;
    for (path, location) in [("/wiki", "/wiki/"), ("/%77iki?a=b/c", "/wiki/?a=b/c"), ("/docs", "/docs/")] {
        let reply = world.call("GET", &at(path), &[]).await;
        assert_eq!((reply.answered_with(), reply.header("location")), (308, Some(location)), "{path}");
    }
    // The decision comes first. A route that keeps its path needs no redirect.
    assert_eq!(world.call("GET", &at("/tools"), &[]).await.answered_with(), 401);
    let closed =
        APPS.replace("path = \"/docs/\"\n    access = \"public\"", "path = \"/docs/\"\n    access = \"bearer\"");
    let closed = closed.replace(
        "path = \"/public/docs/\"\n    access = \"public\"",
        "path = \"/public/docs/\"\n    access = \"bearer\"",
    );
    assert_eq!(World::with(&closed).await.call("GET", &at("/docs"), &[]).await.answered_with(), 401);
}

#[tokio::test]
async fn the_upstream_learns_the_prefix() {
    let world = World::with(APPS).await;
    let forged = [("x-forwarded-prefix", "/forged"), ("x_forwarded_prefix", "/forged")];
    for (path, prefix) in [("/wiki/a", Some("/wiki")), ("/docs/a", None), ("/x", None), ("/wiki/raw/a", None)] {
        let reply = world.call("GET", &at(path), &forged).await;
        reply.arrived();
        assert_eq!(reply.header("x-forwarded-prefix"), prefix, "{path}");
        assert_eq!(reply.header("x_forwarded_prefix"), None);
    }
}

#[tokio::test]
async fn a_destination_is_changed_like_the_path() {
    let world = World::with(APPS).await;
    let copy = async |path: &str, to: &str| world.call("COPY", &at(path), &[("destination", to)]).await;
    for (to, changed) in
        [("/wiki/b", "/b"), ("https://apps.test/wiki/b/c", "https://apps.test/b/c"), ("/%77iki/b%2Fc", "/b%2Fc")]
    {
        let reply = copy("/wiki/a", to).await;
        assert_eq!((reply.arrived().1, reply.header("destination")), ("/a", Some(changed)), "{to}");
    }
    assert_eq!(copy("/x", "/y").await.header("destination"), Some("/y"));
    // The upstream of the request would read these as its own paths.
    for (path, to) in [("/wiki/a", "/x"), ("/wiki/a", "/wiki/raw/x"), ("/x", "/wiki/a"), ("/docs/a", "/x")] {
        copy(path, to).await.assert_refused(403, "access_denied");
    }
    copy("/wiki/a", "/wiki/%2Fb").await.assert_refused(400, "invalid_request");
    copy("/wiki/a", "/wiki/admin/x").await.assert_refused(403, "access_denied");
}

#[tokio::test]
async fn a_request_for_everything_below_needs_the_rules_below() {
    let world = World::with(APPS).await;
    world.call("DELETE", &at("/wiki/"), &[]).await.assert_refused(403, "access_denied");
    let fields = [("destination", "/wiki")];
    world.call("COPY", &at("/wiki/a"), &fields).await.assert_refused(403, "access_denied");
    assert_eq!(world.call("DELETE", &at("/docs/"), &[]).await.arrived().1, "/public/docs/");
}

#[tokio::test]
async fn an_explanation_names_the_upstream_and_its_path() {
    let text = crate::configuration::Configuration::default().text("", APPS);
    let config = Config::parse(&text, std::path::Path::new("/nowhere")).unwrap();
    let explained = |path: &str| {
        explain(&config, "GET", &at(path), &Asker::Anonymous, None, UnixTime::from_seconds(0)).unwrap().upstream
    };
    let upstream = |server: &str, path: &str| {
        let servers = vec![server.to_owned()];
        Some(ExplainedUpstream { servers, protocol: UpstreamProtocol::Http1, path: path.to_owned() })
    };
    assert_eq!(explained("/wiki/a?b"), upstream("http://127.0.0.1:8092", "/a"));
    assert_eq!(explained("/docs/a"), upstream("http://127.0.0.1:8091", "/public/docs/a"));
    assert_eq!(explained("/x"), upstream("http://127.0.0.1:8091", "/x"));
    assert_eq!(explained("/wiki/admin/"), None);
    assert_eq!(explained("/wiki/%2Fa"), None);
}
