//! Upstreams of routes, and the paths that they receive.

use sealgate_config::{App, Upstream, UpstreamProtocol};

use super::{REQUIRED, fault, faults, parse, starts};

const OWN: &str = "http://127.0.0.1:8081";
const OTHER: &str = "http://127.0.0.1:8082";

/// Returns a configuration whose application has these lines and routes. A route is a path, an access
/// and further lines.
fn with(lines: &str, routes: &[(&str, &str, &str)]) -> String {
    let app = format!("[[app]]\nname = \"apps\"\nhost = \"apps.example.com\"\nupstreams = [{OWN:?}]\n{lines}\n");
    let route = |(path, access, lines): &(&str, &str, &str)| {
        format!("[[app.route]]\npath = {path:?}\naccess = {access:?}\n{lines}\n")
    };
    format!("{REQUIRED}{app}{}", routes.iter().map(route).collect::<String>())
}

fn to(upstream: &str, path: &str) -> String {
    format!("upstreams = [{upstream:?}]\nupstream_path = {path:?}")
}

/// Returns the number of the list, the first server, and the path of the upstream for a route.
fn upstream<'a>(app: &'a App, path: &str) -> (usize, String, Option<(&'a str, &'a str)>) {
    let route = &app.routes.iter().find(|route| route.path == path).unwrap().upstream;
    let servers = route.servers.as_deref().unwrap_or(&app.upstreams);
    let prefix = route.prefix.as_deref().map(|prefix| (prefix.public.as_str(), prefix.upstream.as_str()));
    (route.list, servers[0].to_string(), prefix)
}

#[test]
fn a_route_has_the_upstream_of_the_route_above_it() {
    let wiki = to(OTHER, "/");
    let config = parse(&with(
        "",
        &[
            ("/", "public", ""),
            ("/wiki/", "public", &wiki),
            ("/wiki/admin/", "bearer", ""),
            ("/wiki/admin/x", "public", ""),
            ("/wiki/own/", "public", "upstreams = [\"unix:/run/own.sock\"]"),
            ("/wiki/own/a/", "public", ""),
            ("/wiki/moved/", "public", "upstream_path = \"/files/\""),
            ("/wiki/kept/", "public", "upstream_path = \"/wiki/kept/\""),
            ("/wikis", "public", ""),
            ("/other/", "public", &format!("upstreams = [{OTHER:?}]")),
            ("/same/", "public", &format!("upstreams = [{OWN:?}]")),
        ],
    ));
    let app = &config.apps[0];
    for (path, list, server, prefix) in [
        ("/", 0, OWN, None),
        ("/wiki/", 1, OTHER, Some(("/wiki/", "/"))),
        ("/wiki/admin/", 1, OTHER, Some(("/wiki/", "/"))),
        ("/wiki/admin/x", 1, OTHER, Some(("/wiki/", "/"))),
        ("/wiki/own/", 2, "unix:/run/own.sock", None),
        ("/wiki/own/a/", 2, "unix:/run/own.sock", None),
        ("/wiki/moved/", 1, OTHER, Some(("/wiki/moved/", "/files/"))),
        ("/wiki/kept/", 1, OTHER, None),
        ("/wikis", 0, OWN, None),
        ("/other/", 1, OTHER, None),
        ("/same/", 0, OWN, None),
    ] {
        assert_eq!(upstream(app, path), (list, server.to_owned(), prefix), "{path}");
    }
    assert_eq!(app.route_upstreams().len(), 2);
    let all: Vec<_> = app.all_upstreams().into_iter().map(Upstream::to_string).collect();
    assert_eq!(all.len(), 3, "{all:?}");
}

#[test]
fn a_route_has_the_protocol_of_its_upstreams() {
    let (own, other) = (format!("upstreams = [{OWN:?}]"), format!("upstreams = [{OTHER:?}]"));
    let h2 = "upstream_protocol = \"h2\"";
    let http_1 = "upstream_protocol = \"http/1.1\"";
    let routes = [
        ("/", "public", String::new()),
        ("/a/", "public", format!("{own}\n{h2}")),
        ("/a/b/", "public", String::new()),
        ("/c/", "public", format!("{own}\n{http_1}")),
        ("/d/", "public", other.clone()),
        ("/e/", "public", format!("{other}\n{h2}")),
    ];
    let routes: Vec<_> = routes.iter().map(|(path, access, lines)| (*path, *access, lines.as_str())).collect();
    let lists = |lines: &str| {
        let config = parse(&with(lines, &routes));
        let app = &config.apps[0];
        let of = |path: &str| app.routes.iter().find(|route| route.path == path).unwrap().upstream.list;
        let protocols = app.route_upstreams().iter().map(|(_, protocol)| protocol.as_str()).collect::<Vec<_>>();
        (["/", "/a/", "/a/b/", "/c/", "/d/", "/e/"].map(of), protocols, app.upstream_protocol)
    };
    assert_eq!(lists(""), ([0, 1, 1, 0, 2, 3], vec!["h2", "http/1.1", "h2"], UpstreamProtocol::Http1));
    assert_eq!(lists(h2), ([0, 0, 0, 1, 2, 2], vec!["http/1.1", "h2"], UpstreamProtocol::Http2));
}

#[test]
fn a_protocol_without_effect_is_an_error() {
    let found = fault(&with("", &[("/", "public", "upstream_protocol = \"h2\"")]));
    starts(&found, "app[0].route[0].upstream_protocol: is the protocol of the route's own upstreams");
    let found = fault(&with("upstream_protocol = \"h3\"", &[("/", "public", "")]));
    starts(&found, "app[0].upstream_protocol: ");
    let upstreams = format!("upstreams = [{OTHER:?}]\nupstream_protocol =");
    let rules = ["h2", "http/1.1"]
        .map(|value| format!("methods = [{:?}]\n{upstreams} {value:?}", if value == "h2" { "GET" } else { "POST" }));
    let found = fault(&with("", &[("/", "public", &rules[0]), ("/", "public", &rules[1])]));
    starts(&found, "app[0].route[1].upstream_protocol: another rule of \"/\" has a different value");
}

#[test]
fn the_rules_of_a_path_have_one_upstream() {
    let rules = |get: &str, post: &str| {
        let (get, post) = (format!("methods = [\"GET\"]\n{get}"), format!("methods = [\"POST\"]\n{post}"));
        with("", &[("/wiki/", "public", &get), ("/wiki/", "public", &post)])
    };
    let (one, other) = (to(OTHER, "/"), to(OTHER, "/w/"));
    for text in [rules(&one, ""), rules("", &one), rules(&one, &one)] {
        let config = parse(&text);
        assert!(config.apps[0].routes.iter().all(|route| route.upstream.list == 1 && route.upstream.prefix.is_some()));
    }
    starts(
        &fault(&rules(&one, &other)),
        "app[0].route[1].upstream_path: another rule of \"/wiki/\" has a different value; ",
    );
    starts(
        &fault(&rules(&one, "upstreams = [\"http://127.0.0.1:8083\"]")),
        "app[0].route[1].upstreams: another rule of \"/wiki/\" has a different value; ",
    );
}

#[test]
fn invalid_upstreams_and_paths_of_a_route_are_errors() {
    for (path, lines, start) in [
        ("/wiki/", "upstreams = []", "app[0].route[0].upstreams: is empty; "),
        ("/wiki/", "upstreams = [\"127.0.0.1:8082\"]", "app[0].route[0].upstreams[0]: \"127.0.0.1:8082\" is not "),
        (
            "/wiki/",
            "upstreams = [\"http://127.0.0.1:8082/w/\"]",
            "app[0].route[0].upstreams[0]: \"http://127.0.0.1:8082/w/\" ",
        ),
        ("/wiki/", "upstream_path = \"/w\"", "app[0].route[0].upstream_path: \"/w\" does not end in /; "),
        ("/wiki/", "upstream_path = \"w/\"", "app[0].route[0].upstream_path: \"w/\" does not start with /; "),
        ("/wiki/", "upstream_path = \"//\"", "app[0].route[0].upstream_path: \"//\" has an empty segment; "),
        ("/wiki/", "upstream_path = \"/a/../\"", "app[0].route[0].upstream_path: \"/a/../\" has a dot segment; "),
        ("/wiki/", "upstream_path = \"/a%2F/\"", "app[0].route[0].upstream_path: \"/a%2F/\" has a character "),
        ("/wiki", "upstream_path = \"/\"", "app[0].route[0].upstream_path: replaces the start of longer paths, "),
    ] {
        starts(&faults(&with("", &[(path, "public", lines)]))[0], start);
    }
    let own = format!("upstreams = [{:?}]", format!("http://{}", parse(REQUIRED).server.listen[0]));
    starts(&fault(&with("", &[("/wiki/", "public", &own)])), "app[0].route[0].upstreams[0]: ");
}

#[test]
fn tls_settings_apply_to_the_upstreams_of_routes() {
    let tls = "upstream_tls = { server_name = \"wiki.internal\" }";
    let secure = "upstreams = [\"https://127.0.0.1:8082\"]";
    assert!(parse(&with(tls, &[("/wiki/", "public", secure)])).apps[0].upstream_tls.server_name.is_some());
    starts(&fault(&with(tls, &[("/wiki/", "public", "")])), "app[0].upstream_tls: no upstream uses TLS; ");
    let odd = "upstreams = [\"https://under_score:8082\"]";
    starts(&fault(&with("", &[("/wiki/", "public", odd)])), "app[0].upstreams: the host name in ");
}

#[test]
fn a_rule_that_another_path_avoids_is_an_error() {
    let wiki = to(OWN, "/");
    let other = to(OTHER, "/");
    let root = |access| ("/", access, "");
    // One path of the upstream has two names with different conditions.
    for routes in [
        vec![root("bearer"), ("/wiki/", "public", "upstream_path = \"/\"")],
        vec![root("public"), ("/admin/", "bearer", ""), ("/wiki/", "public", wiki.as_str())],
        vec![root("public"), ("/admin.php", "bearer", ""), ("/wiki/", "public", wiki.as_str())],
        vec![root("public"), ("/wiki/", "bearer", "upstream_path = \"/admin/\"")],
        vec![root("public"), ("/wiki/", "bearer", "upstream_path = \"/Admin/\""), ("/admin/", "public", "")],
        vec![("/a/", "public", "upstream_path = \"/\""), ("/b/", "bearer", "upstream_path = \"/x/\"")],
        vec![("/a/", "public", "upstream_path = \"/admin.php/\""), ("/admin.php", "bearer", "")],
        vec![
            ("/a/", "public", "upstreams = [\"http://localhost:8082\"]\nupstream_path = \"/\""),
            ("/b/", "bearer", "upstreams = [\"http://127.0.0.2:8082\", \"http://other.test\"]\nupstream_path = \"/\""),
        ],
        vec![
            ("/a/", "public", "upstreams = [\"unix:/run/a\"]\nupstream_path = \"/\""),
            ("/a/b/", "public", ""),
            ("/b/", "bearer", "upstreams = [\"unix:/run/a\"]"),
        ],
        vec![root("public"), ("/wiki/", "public", "upstream_path = \"/\""), ("/wiki/admin/", "bearer", "")],
        // The gateway lets /wiki/ADMIN/ through, because the rules of /wiki/ and /wiki/admin/ are alike.
        vec![
            root("public"),
            ("/admin/", "bearer", ""),
            ("/wiki/", "public", wiki.as_str()),
            ("/wiki/admin/", "public", other.as_str()),
        ],
    ] {
        let faults = faults(&with("", &routes));
        assert!(faults.iter().all(|fault| fault.starts_with("app[0].route: ")), "{faults:?}");
        assert!(!faults.is_empty(), "{routes:?}");
    }
    let fault = fault(&with("", &[root("public"), ("/admin/", "bearer", ""), ("/wiki/", "public", &wiki)]));
    starts(
        &fault,
        "app[0].route: \"/admin/\" and \"/wiki/admin/\" are the same path \"/admin/\" of one upstream, but have different \
         conditions, so one of the rules can be avoided; add a route \"/wiki/admin/\" with the conditions of \"/admin/\"",
    );
}

#[test]
fn two_names_of_a_path_with_the_same_conditions_are_valid() {
    let staff = "groups = [\"staff\"]";
    let (of_wiki, of_other) = (to(OWN, "/"), to(OTHER, "/"));
    for routes in [
        vec![("/", "signed_in", ""), ("/wiki/", "signed_in", "upstream_path = \"/\"")],
        vec![
            ("/", "public", ""),
            ("/admin/", "signed_in", staff),
            ("/wiki/", "public", of_wiki.as_str()),
            ("/wiki/admin/", "signed_in", staff),
        ],
        vec![
            ("/", "public", ""),
            ("/admin/", "bearer", ""),
            ("/wiki/", "public", of_wiki.as_str()),
            ("/wiki/admin/", "bearer", of_other.as_str()),
        ],
        // Another server, or a path of the server that no other route reaches.
        vec![
            ("/", "public", ""),
            ("/wiki/", "bearer", "upstreams = [\"http://127.0.0.1:8082\"]\nupstream_path = \"/\""),
        ],
        vec![("/a/", "public", "upstream_path = \"/x/\""), ("/b/", "bearer", "upstream_path = \"/y/\"")],
        vec![("/a/", "public", "upstream_path = \"/xy/\""), ("/b/", "bearer", "upstream_path = \"/x/\"")],
        // No rule lets the second name through.
        vec![("/api/", "bearer", ""), ("/wiki/", "public", "upstream_path = \"/w/\"")],
        // The second name belongs to another upstream.
        vec![
            ("/", "public", ""),
            ("/admin/", "bearer", "upstreams = [\"http://127.0.0.1:8082\"]"),
            ("/wiki/", "bearer", "upstream_path = \"/admin/\""),
        ],
    ] {
        assert_eq!(parse(&with("", &routes)).apps.len(), 1, "{routes:?}");
    }
}
