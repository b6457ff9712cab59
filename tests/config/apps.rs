//! Protected applications and their routes.

use super::{APP, REQUIRED, fault, faults, parse, starts, with, with_app};

#[test]
fn application_needs_a_name_a_host_an_upstream_and_a_route() {
    let faults = faults(&format!("{REQUIRED}\n[[app]]"));
    let paths: Vec<_> = faults.iter().map(|fault| fault.split(':').next().unwrap()).collect();
    assert_eq!(paths, ["app[0].name", "app[0].host", "app[0].upstreams", "app[0].route"]);
    starts(&fault(&with_app("[\"http://127.0.0.1:8081\"]", "[]")), "app[0].upstreams: is empty; ");
}

#[test]
fn hosts_are_written_as_browsers_send_them() {
    for host in [
        "wiki.example.com",
        "app.localhost",
        "wiki",
        "wiki.example.com:8443",
        "192.0.2.7",
        "[::1]:8080",
        "xn--vki-0na.example",
    ] {
        assert_eq!(parse(&with_app("wiki.example.com", host)).apps[0].host, host);
    }
    for host in [
        "",
        "Wiki.example.com",
        "wiki.example.com.",
        "*.example.com",
        "wiki..com",
        "-wiki.com",
        "vıki.example",
        "https://wiki.example.com",
        "wiki.example.com/",
        "user@wiki.example.com",
        "wiki example",
        "wiki.example.com:0",
        "wiki.example.com:080",
        "wiki.example.com:65536",
        "wiki.example.com:",
        "192.0.2",
        "::1",
    ] {
        starts(&fault(&with_app("wiki.example.com", host)), "app[0].host: ");
    }
}

#[test]
fn host_with_the_port_that_browsers_leave_out_is_a_fault() {
    let fault = fault(&with_app("wiki.example.com", "wiki.example.com:443"));
    starts(
        &fault,
        "app[0].host: \"wiki.example.com:443\" has the port that browsers leave out; write \"wiki.example.com\"",
    );
}

#[test]
fn two_applications_cannot_share_a_name_or_a_host() {
    let second = |name: &str, host: &str| {
        format!("{REQUIRED}{APP}{}", APP.replace("\"wiki\"", &format!("{name:?}")).replace("wiki.example.com", host))
    };
    assert_eq!(parse(&second("blog", "blog.example.com")).apps.len(), 2);
    starts(&fault(&second("wiki", "blog.example.com")), "app[1].name: ");
    starts(&fault(&second("blog", "wiki.example.com")), "app[1].host: ");
    starts(&fault(&second("blog", "wiki.example.com:8443")), "app[1].host: ");
}

#[test]
fn application_may_share_the_host_of_the_issuer() {
    assert_eq!(parse(&with_app("wiki.example.com", "id.example.com")).apps.len(), 1);
}

#[test]
fn host_without_a_port_answers_on_every_port_and_one_with_a_port_on_that_one() {
    let app = parse(&with_app("wiki.example.com", "app.localhost")).apps.remove(0);
    assert!(app.answers_to("app.localhost") && app.answers_to("app.localhost:8080"));
    assert!(!app.answers_to("localhost:8080") && !app.answers_to("app.localhost.example.com"));
    let app = parse(&with_app("wiki.example.com", "app.localhost:8080")).apps.remove(0);
    assert!(app.answers_to("app.localhost:8080"));
    assert!(!app.answers_to("app.localhost") && !app.answers_to("app.localhost:9090"));
    let app = parse(&with_app("wiki.example.com", "[::1]")).apps.remove(0);
    assert!(app.answers_to("[::1]") && app.answers_to("[::1]:8080") && !app.answers_to("[::1"));
}

#[test]
fn origin_of_an_application_follows_the_issuer_unless_configured() {
    let origin = |issuer: &str, app: &str| {
        let text = with("issuer", &format!("{issuer:?}")) + &APP.replace("host = \"wiki.example.com\"", app);
        let config = parse(&text);
        config.apps[0].origin(&config.issuer)
    };
    assert_eq!(origin("https://id.example.com", "host = \"wiki.example.com\""), "https://wiki.example.com");
    assert_eq!(origin("https://id.example.com:8443", "host = \"wiki.example.com\""), "https://wiki.example.com:8443");
    assert_eq!(origin("http://localhost:8080", "host = \"app.localhost\""), "http://app.localhost:8080");
    assert_eq!(origin("http://localhost:8080", "host = \"app.localhost:9090\""), "http://app.localhost:9090");
    let with_url = "host = \"wiki.example.com\"\nurl = \"https://wiki.example.com:8443\"";
    assert_eq!(origin("https://id.example.com", with_url), "https://wiki.example.com:8443");
}

#[test]
fn url_of_an_application_agrees_with_its_host_and_the_issuer() {
    for url in [
        "http://wiki.example.com",
        "https://blog.example.com",
        "https://wiki.example.com/",
        "https://wiki.example.com:443",
        "https://wiki.example.com/wiki",
        "https://WIKI.example.com",
        "wiki.example.com",
    ] {
        let text = with_app("name =", &format!("url = {url:?}\nname ="));
        starts(&fault(&text), "app[0].url: ");
    }
    let text =
        with_app("host = \"wiki.example.com\"", "host = \"wiki.example.com:1\"\nurl = \"https://wiki.example.com:2\"");
    starts(&fault(&text), "app[0].url: ");
}

#[test]
fn upstreams_are_scheme_host_and_port() {
    for upstream in ["http://127.0.0.1:8081", "https://wiki.internal", "http://[::1]:8081", "http://wiki.internal:80"] {
        let config = parse(&with_app("http://127.0.0.1:8081", upstream));
        assert!(config.apps[0].upstreams[0].url.as_str().starts_with(&upstream[..12]));
    }
    for upstream in [
        "",
        "127.0.0.1:8081",
        "ftp://127.0.0.1",
        "http:127.0.0.1",
        "http://",
        "https://",
        "https://:8443",
        "http://127.0.0.1:0",
        "http://127.0.0.1:8081/wiki",
        "http://127.0.0.1:8081?a",
        "http://127.0.0.1:8081#a",
        "http://user:password@127.0.0.1:8081",
        "http://@127.0.0.1:8081",
    ] {
        starts(&fault(&with_app("http://127.0.0.1:8081", upstream)), "app[0].upstreams[0]: ");
    }
}

#[test]
fn upstream_that_is_our_own_listener_is_a_fault() {
    let fault = fault(&with_app("http://127.0.0.1:8081", "http://127.0.0.1:8080"));
    assert!(fault.contains("is Sealgate's own listener on 127.0.0.1:8080"), "{fault}");
}

#[test]
fn upstream_that_stands_twice_is_a_fault() {
    let text = with_app("[\"http://127.0.0.1:8081\"]", "[\"http://127.0.0.1:8081\", \"http://127.0.0.1:8081/\"]");
    starts(&fault(&text), "app[0].upstreams[1]: ");
}

#[test]
fn route_paths_are_canonical() {
    for path in ["/", "/api/", "/api", "/a.b/c-d_e~f/", "/@user:1/", "/.well-known/x"] {
        assert_eq!(parse(&with_app("path = \"/\"", &format!("path = '{path}'"))).apps[0].routes[0].path, path);
    }
    for path in [
        "",
        "api/",
        "//",
        "/a//b",
        "/a/../b",
        "/a/./b",
        "/..",
        "/a%2fb",
        "/a;b",
        "/a\\b",
        "/a b",
        "/a?b",
        "/a#b",
        "/api/*",
        "/ş",
        "/.sealgate/x",
        "/.sealgate/",
    ] {
        starts(&fault(&with_app("path = \"/\"", &format!("path = '{path}'"))), "app[0].route[0].path: ");
    }
    starts(&fault(&with_app("path = \"/\"", "path = \"/a\\u0000\"")), "app[0].route[0].path: ");
}

#[test]
fn route_paths_are_unique_in_an_application() {
    let text = format!("{REQUIRED}{APP}\n[[app.route]]\npath = \"/\"\naccess = \"public\"");
    starts(&fault(&text), "app[0].route[1].path: \"/\" is another route's path; ");
}

#[test]
fn public_route_cannot_ask_for_scopes_or_groups() {
    let text = with_app("access = \"signed_in\"", "access = \"public\"\nscopes = [\"profile\"]\ngroups = [\"staff\"]");
    let faults = faults(&text);
    starts(&faults[0], "app[0].route[0].scopes: a public route asks for none; ");
    starts(&faults[1], "app[0].route[0].groups: a public route asks for none; ");
    assert_eq!(faults.len(), 2);
}

#[test]
fn route_without_an_access_rule_is_a_fault() {
    let fault = fault(&with_app("access = \"signed_in\"", ""));
    starts(&fault, "app[0].route[0].access: is missing; write \"public\", \"bearer\" or \"signed_in\"");
}
