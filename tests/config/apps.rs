//! Protected applications and their routes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sealgate_config::{Config, Upstream};

use super::{APP, REQUIRED, base, fault, faults, lines, parse, starts, warnings, with, with_app};

#[test]
fn application_needs_a_name_a_host_and_an_upstream() {
    let faults = faults(&format!("{REQUIRED}\n[[app]]"));
    let paths: Vec<_> = faults.iter().map(|fault| fault.split(':').next().unwrap()).collect();
    assert_eq!(paths, ["app[0].name", "app[0].host", "app[0].upstreams"]);
    starts(&fault(&with_app("[\"http://127.0.0.1:8081\"]", "[]")), "app[0].upstreams: is empty; ");
}

#[test]
fn an_application_without_routes_requires_a_sign_in_everywhere() {
    let app = "[[app]]\nname = \"wiki\"\nhost = \"wiki.example.com\"\nupstreams = [\"http://127.0.0.1:8081\"]\n\
               max_body_bytes = 5000\n";
    let route = "[[app.route]]\npath = \"/\"\naccess = \"signed_in\"\n";
    assert_eq!(parse(&format!("{REQUIRED}\n{app}")).apps, parse(&format!("{REQUIRED}\n{app}{route}")).apps);
    starts(&fault(&format!("{REQUIRED}\n{app}route = []\n")), "app[0].route: is empty; ");
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
fn a_host_with_a_default_port_is_an_error() {
    let fault = fault(&with_app("wiki.example.com", "wiki.example.com:443"));
    starts(
        &fault,
        "app[0].host: \"wiki.example.com:443\" has the default port, which browsers leave out; write \"wiki.example.com\"",
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
fn a_host_without_a_port_matches_every_port_and_a_host_with_a_port_only_that_port() {
    let app = parse(&with_app("wiki.example.com", "app.localhost")).apps.remove(0);
    assert!(app.matches_host("app.localhost") && app.matches_host("app.localhost:8080"));
    assert!(!app.matches_host("localhost:8080") && !app.matches_host("app.localhost.example.com"));
    let app = parse(&with_app("wiki.example.com", "app.localhost:8080")).apps.remove(0);
    assert!(app.matches_host("app.localhost:8080"));
    assert!(!app.matches_host("app.localhost") && !app.matches_host("app.localhost:9090"));
    let app = parse(&with_app("wiki.example.com", "[::1]")).apps.remove(0);
    assert!(app.matches_host("[::1]") && app.matches_host("[::1]:8080") && !app.matches_host("[::1"));
}

#[test]
fn origin_of_an_application_follows_the_issuer_unless_configured() {
    let origin = |issuer: &str, app: &str| {
        let text = with("issuer", &format!("{issuer:?}")) + &APP.replace("host = \"wiki.example.com\"", app);
        let config = parse(&text);
        config.apps[0].origin(&config.issuer).unwrap()
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
        let Upstream::Url(url) = &config.apps[0].upstreams[0] else { panic!("{upstream} is no URL") };
        assert!(url.as_str().starts_with(upstream.trim_end_matches(":80")), "{url}");
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
fn an_upstream_that_is_our_own_listener_is_an_error() {
    let fault = fault(&with_app("http://127.0.0.1:8081", "http://127.0.0.1:8080"));
    assert!(fault.contains("is Sealgate's own listener on 127.0.0.1:8080"), "{fault}");
    let admin = format!("admin.listen = \"127.0.0.1:9100\"\n{}", with_app("127.0.0.1:8081", "127.0.0.1:9100"));
    let fault = super::fault(&admin);
    assert!(fault.contains("is Sealgate's own listener on 127.0.0.1:9100"), "{fault}");
}

/// Other spellings of an address reach the same listener.
#[test]
fn an_upstream_that_is_our_own_listener_in_another_spelling_is_an_error() {
    for (listener, upstream) in [
        ("127.0.0.1:9100", "http://[::ffff:127.0.0.1]:9100"),
        ("127.0.0.1:9100", "http://[::ffff:7f00:1]:9100"),
        ("127.0.0.1:9100", "http://0.0.0.0:9100"),
        ("127.0.0.1:9100", "http://[::]:9100"),
        ("127.0.0.1:9100", "http://0:9100"),
        ("127.0.0.1:9100", "http://127.1:9100"),
        ("127.0.0.1:9100", "http://localhost:9100"),
        ("127.0.0.1:9100", "http://LOCALHOST:9100"),
        ("127.0.0.1:9100", "http://localhost.:9100"),
        ("127.0.0.1:9100", "http://admin.localhost:9100"),
        ("[::1]:9100", "http://localhost:9100"),
        ("[::1]:9100", "http://[::]:9100"),
        ("0.0.0.0:9100", "http://127.8.8.8:9100"),
        ("0.0.0.0:9100", "http://[::1]:9100"),
        ("0.0.0.0:9100", "http://[::ffff:127.0.0.1]:9100"),
        ("[::]:9100", "http://127.0.0.1:9100"),
        ("[::]:9100", "http://0.0.0.0:9100"),
        ("[::]:9100", "http://localhost:9100"),
        ("[::]:80", "http://localhost"),
        ("[::ffff:127.0.0.1]:9100", "http://127.0.0.1:9100"),
    ] {
        let app = with_app("http://127.0.0.1:8081", upstream);
        let fault = fault(&format!("admin.listen = {listener:?}\n{app}"));
        assert!(fault.contains("is Sealgate's own listener on "), "{listener} {upstream}: {fault}");
    }
    for (listener, upstream) in [
        ("127.0.0.1:9100", "http://127.0.0.2:9100"),
        ("127.0.0.1:9100", "http://[::1]:9100"),
        ("127.0.0.1:9100", "http://localhost:9101"),
        ("127.0.0.1:9100", "http://localhost.example:9100"),
        ("0.0.0.0:9100", "http://192.0.2.7:9100"),
        ("192.0.2.7:9100", "http://127.0.0.1:9100"),
    ] {
        parse(&format!("admin.listen = {listener:?}\n{}", with_app("http://127.0.0.1:8081", upstream)));
    }
}

#[test]
fn a_repeated_upstream_is_a_fault() {
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
    starts(&fault(&text), "app[0].route[1].path: \"/\" has another rule; ");
}

#[test]
fn public_route_cannot_ask_for_scopes_or_groups() {
    let text = with_app("access = \"signed_in\"", "access = \"public\"\nscopes = [\"profile\"]\ngroups = [\"staff\"]");
    let faults = faults(&text);
    starts(&faults[0], "app[0].route[0].scopes: a public route requires no sign-in");
    starts(&faults[1], "app[0].route[0].groups: a public route requires no sign-in");
    assert_eq!(faults.len(), 2);
}

#[test]
fn route_without_an_access_rule_is_a_fault() {
    let fault = fault(&with_app("access = \"signed_in\"", ""));
    starts(&fault, "app[0].route[0].access: is missing; write \"public\", \"bearer\" or \"signed_in\"");
}

/// Returns a configuration with these lines in its only route.
fn with_rule(lines: &str) -> String {
    with_app("access = \"signed_in\"", &format!("access = \"signed_in\"\n{lines}"))
}

#[test]
fn a_path_may_have_a_rule_for_each_method_and_one_for_all_others() {
    let second = |first: &str, lines: &str| {
        format!("{}\n[[app.route]]\npath = \"/\"\naccess = \"public\"\n{lines}", with_rule(first))
    };
    assert_eq!(parse(&second("methods = [\"POST\"]", "")).apps[0].routes.len(), 2);
    assert_eq!(parse(&second("methods = [\"POST\"]", "methods = [\"GET\", \"HEAD\"]")).apps[0].routes.len(), 2);
    let twice = fault(&second("methods = [\"POST\"]", "methods = [\"GET\", \"POST\"]"));
    starts(&twice, "app[0].route[1].path: \"/\" has another rule for POST; ");
    for (method, lines) in [("get", "[\"get\"]"), ("", "[\"\"]"), ("TRACE", "[\"TRACE\"]"), ("G T", "[\"G T\"]")] {
        let fault = fault(&with_rule(&format!("methods = {lines}")));
        assert!(fault.starts_with("app[0].route[0].methods[0]: "), "{method}: {fault}");
    }
    starts(&fault(&with_rule("methods = []")), "app[0].route[0].methods: is empty; ");
}

#[test]
fn unread_bodies_must_be_allowed_explicitly() {
    let unsaid = parse(&with_rule("")).apps.remove(0);
    assert!(!unsaid.reads_bodies_whole && !unsaid.routes[0].allow_get_body);
    assert!(parse(&with_rule("allow_get_body = true")).apps[0].routes[0].allow_get_body);
    assert!(
        parse(
            &with_app("access = \"signed_in\"", "access = \"signed_in\"\n")
                .replace("host = ", "reads_bodies_whole = true\nhost = ")
        )
        .apps[0]
            .reads_bodies_whole
    );
    starts(
        &fault(&with_rule("allow_get_body = 1")),
        "app[0].route[0].allow_get_body: is an integer; write true or false",
    );
}

#[test]
fn users_in_a_rule_are_addresses_or_subs() {
    let route = |lines: &str| parse(&with_rule(lines)).apps[0].routes[0].clone();
    let users = "users = [\"Anna@example.com\", \"6c0c4b3c-5a4e-4a8e-9a60-0f4bb4a4e1b5\"]";
    assert_eq!(route(users).users.len(), 2);
    starts(&fault(&with_rule("users = [\"anna\"]")), "app[0].route[0].users[0]: ");
    // An empty list is an error and does not mean all users.
    starts(&fault(&with_rule("users = []")), "app[0].route[0].users: is empty; ");
}

#[test]
fn origins_in_a_rule_are_written_as_browsers_send_them() {
    let origins = |origin: &str| with_rule(&format!("cors_origins = [{origin:?}]"));
    for origin in ["https://www.example.com", "http://localhost:3000", "https://[::1]:8443"] {
        assert_eq!(parse(&origins(origin)).apps[0].routes[0].cors_origins, [origin]);
    }
    for origin in
        ["*", "null", "https://www.example.com/", "https://WWW.example.com", "https://www.example.com:443", ""]
    {
        starts(&fault(&origins(origin)), "app[0].route[0].cors_origins[0]: ");
    }
}

#[test]
fn replacing_a_header_by_the_assertion_requires_assertions() {
    let lines = "authorization = \"replace\"\npreserve_host = true";
    let with = |lines: &str| with_app("host = \"wiki.example.com\"", &format!("host = \"wiki.example.com\"\n{lines}"));
    starts(&fault(&with(lines)), "app[0].authorization: \"replace\" sends the signed assertion; ");
    assert!(parse(&with(&format!("assertion = true\n{lines}"))).apps[0].identity.assertion);
    starts(&fault(&with("groups_delimiter = \"%\"")), "app[0].groups_delimiter: ");
    starts(&fault(&with("names = \"latin1\"")), "app[0].names: ");
}

#[test]
fn an_upstream_may_be_a_unix_socket() {
    for (written, path) in
        [("unix:/run/app.sock", PathBuf::from("/run/app.sock")), ("unix:app.sock", base().join("app.sock"))]
    {
        let config = parse(&with_app("http://127.0.0.1:8081", written));
        assert_eq!(config.apps[0].upstreams, [Upstream::Socket(path)]);
    }
    let long = format!("unix:/{}", "x".repeat(107));
    for (written, problem) in [("unix:", "is not a path"), (&long, "at most 107")] {
        let fault = fault(&with_app("http://127.0.0.1:8081", written));
        assert!(fault.starts_with("app[0].upstreams[0]: ") && fault.contains(problem), "{fault}");
    }
}

#[test]
fn the_admin_socket_cannot_be_an_upstream() {
    let fault = fault(&with_app("http://127.0.0.1:8081", "unix:store/admin.sock"));
    assert!(fault.contains("is Sealgate's own socket"), "{fault}");
}

#[test]
fn tls_to_upstreams_names_authorities_a_certificate_and_a_name() {
    let tls = |inside: &str| {
        with_app("[\"http://127.0.0.1:8081\"]", &format!("[\"https://127.0.0.1:8443\"]\nupstream_tls = {{ {inside} }}"))
    };
    let config =
        parse(&tls("ca = \"ca.pem\", certificate = \"a.pem\", key = \"b.pem\", server_name = \"wiki.internal\""));
    let tls_of = &config.apps[0].upstream_tls;
    assert_eq!(tls_of.ca.as_deref(), Some(base().join("ca.pem").as_path()));
    assert_eq!(tls_of.client.as_ref().unwrap().key, base().join("b.pem"));
    assert_eq!(tls_of.server_name.as_deref(), Some("wiki.internal"));
    assert_eq!(parse(&tls("server_name = \"::1\"")).apps[0].upstream_tls.server_name.as_deref(), Some("::1"));
    starts(&fault(&tls("certificate = \"a.pem\"")), "app[0].upstream_tls.certificate: requires ");
    starts(&fault(&tls("key = \"a.pem\"")), "app[0].upstream_tls.key: requires ");
    for name in ["", "*.internal", "wiki.internal:8443", "my_wiki.internal"] {
        starts(&fault(&tls(&format!("server_name = {name:?}"))), "app[0].upstream_tls.server_name: ");
    }
    let token = fault(&tls("certificate = \"a.pem\", key = \"pkcs11:object=tls\""));
    starts(
        &token,
        "app[0].upstream_tls.key: \"pkcs11:object=tls\" is a key in the token, which only server.tls can use; ",
    );
    starts(&fault(&tls("verify = false")), "app[0].upstream_tls.verify: unknown key; ");
}

#[test]
fn tls_settings_without_a_tls_upstream_are_an_error() {
    let text = with_app(
        "[\"http://127.0.0.1:8081\"]",
        "[\"http://127.0.0.1:8081\", \"unix:/a\"]\nupstream_tls = { ca = \"a\" }",
    );
    starts(&fault(&text), "app[0].upstream_tls: no upstream uses TLS; ");
}

#[test]
fn an_upstream_whose_name_no_certificate_can_have_is_a_fault() {
    let underscore = "https://my_wiki.internal:8443";
    starts(&fault(&with_app("http://127.0.0.1:8081", underscore)), "app[0].upstreams: ");
    let named = format!("[\"{underscore}\"]\nupstream_tls = {{ server_name = \"wiki.internal\" }}");
    parse(&with_app("[\"http://127.0.0.1:8081\"]", &named));
    parse(&with_app("http://127.0.0.1:8081", "http://my_wiki.internal:8443"));
}

#[test]
fn caching_can_only_be_set_where_users_sign_in() {
    use sealgate_config::Caching;
    let with = |access: &str, caching: &str| {
        format!("{REQUIRED}{APP}\n[[app.route]]\npath = \"/x/\"\naccess = {access:?}\ncaching = {caching:?}")
    };
    for (word, caching) in [("private", Caching::Private), ("application", Caching::Application)] {
        assert_eq!(parse(&with("signed_in", word)).apps[0].routes[0].caching, caching);
    }
    starts(&fault(&with("public", "application")), "app[0].route[1].caching: on a public route");
    starts(&fault(&with("bearer", "public")), "app[0].route[1].caching: \"public\" is not known");
    let limits =
        |lines: &str| with_app("host = \"wiki.example.com\"", &format!("host = \"wiki.example.com\"\n{lines}"));
    let app = parse(&limits("max_requests = 50")).apps.remove(0);
    assert_eq!((app.max_requests, app.max_requests_per_client), (50, 50));
    let problem = fault(&limits("max_requests = 50\nmax_requests_per_client = 51"));
    starts(
        &problem,
        "app[0].max_requests_per_client: is larger than the limit of all clients together; set at most 50",
    );
}

#[test]
fn application_passwords_identify_users_but_satisfy_no_sign_in_requirement() {
    let route = |lines: &str| parse(&with_rule(lines)).apps[0].routes[0].clone();
    assert!(route("app_passwords = true").app_passwords && !route("").app_passwords);
    for (lines, told) in [("acr = [\"1\"]", "has no level"), ("max_age_seconds = 60", "has no level")] {
        let fault = fault(&with_rule(&format!("app_passwords = true\n{lines}")));
        assert!(fault.starts_with("app[0].route[0].app_passwords: ") && fault.contains(told), "{fault}");
    }
    for access in ["public", "bearer"] {
        let text =
            with_rule("app_passwords = true").replace("access = \"signed_in\"", &format!("access = \"{access}\""));
        let fault = fault(&text);
        assert!(fault.starts_with("app[0].route[0].app_passwords: requires access = \"signed_in\""), "{fault}");
    }
}

#[test]
fn tokens_of_the_application_need_a_session_and_are_forwarded() {
    let route = |lines: &str| parse(&with_rule(lines)).apps[0].routes[0].clone();
    assert!(route("application_tokens = true").application_tokens && !route("").application_tokens);
    let text = with_rule("application_tokens = true");
    for access in ["public", "bearer"] {
        let fault = fault(&text.replace("access = \"signed_in\"", &format!("access = \"{access}\"")));
        starts(&fault, "app[0].route[0].application_tokens: requires access = \"signed_in\"");
    }
    let stripped = text.replace("[[app.route]]", "authorization = \"strip\"\n[[app.route]]");
    starts(&fault(&stripped), "app[0].authorization: removes the application's own tokens");
}

#[test]
fn title_and_description_are_visible_text_on_one_line() {
    let app = |lines: &str| with_app("host = ", &format!("{lines}\nhost = "));
    let wiki = parse(&app("title = \"Bilgi Bankası\"\ndescription = \"What we know\"")).apps.remove(0);
    assert_eq!((wiki.called(), wiki.description.as_deref()), ("Bilgi Bankası", Some("What we know")));
    assert_eq!(parse(&app("")).apps[0].called(), "wiki");
    for wrong in ["", " ", "a\\nb", "a\\u202eb", &"x".repeat(61)] {
        starts(&fault(&app(&format!("title = \"{wrong}\""))), "app[0].title: ");
    }
    starts(&fault(&app(&format!("description = \"{}\"", "x".repeat(201)))), "app[0].description: ");
}

#[test]
fn identity_headers_can_be_configured() {
    use sealgate_config::{AuthorizationHeader, IdentityValue, Names};
    let with = |lines: &str| with_app("host = \"wiki.example.com\"", &format!("host = \"wiki.example.com\"\n{lines}"));
    let headers = |lines: &str| {
        let app = parse(&with(lines)).apps.remove(0);
        app.identity.headers.iter().map(|(name, value)| (name.to_string(), *value)).collect::<Vec<_>>()
    };
    let named = |list: &[(&str, IdentityValue)]| {
        list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect::<Vec<_>>()
    };
    assert_eq!(headers("")[3], ("x-forwarded-user".to_owned(), IdentityValue::Sub));
    let own = "identity_headers = { X-WEBAUTH-USER = \"username\", Remote-User = \"email\" }";
    let expected = named(&[("remote-user", IdentityValue::Email), ("x-webauth-user", IdentityValue::Username)]);
    assert_eq!(headers(own), expected);
    // `identity_headers` overrides the preset.
    assert_eq!(headers(&format!("preset = \"grafana\"\n{own}")), expected);
    assert_eq!(headers("preset = \"radicale\""), named(&[("x-remote-user", IdentityValue::Username)]));
    let grafana = parse(&with("preset = \"grafana\"\nauthorization = \"strip\"")).apps.remove(0).identity;
    assert_eq!((grafana.names, grafana.authorization), (Names::Utf8, AuthorizationHeader::Strip));
    starts(
        &fault(&with("preset = \"grafena\"")),
        "app[0].preset: \"grafena\" is not a preset; write one of \"dokuwiki\", ",
    );
    for (lines, start) in [
        ("identity_headers = {}", "app[0].identity_headers: is empty; "),
        ("identity_headers = \"Remote-User\"", "app[0].identity_headers: is a string; "),
        (
            "identity_headers = { Remote-User = \"mail\" }",
            "app[0].identity_headers.Remote-User: \"mail\" is not a property of a user; ",
        ),
        (
            "identity_headers = { Remote_User = \"sub\" }",
            "app[0].identity_headers.Remote_User: \"Remote_User\" is not a header",
        ),
        (
            "identity_headers = { Cookie = \"sub\" }",
            "app[0].identity_headers.Cookie: \"Cookie\" has another meaning in HTTP",
        ),
        ("identity_headers = { X-Forwarded-For = \"sub\" }", "app[0].identity_headers.X-Forwarded-For: "),
        ("identity_headers = { X-Sealgate-Assertion = \"sub\" }", "app[0].identity_headers.X-Sealgate-Assertion: "),
        (
            "identity_headers = { X-A = \"sub\", x-a = \"sub\" }",
            "app[0].identity_headers.x-a: \"x-a\" is repeated with other capital letters",
        ),
        ("pass_headers = [\"X-Forwarded-User\"]", "app[0].pass_headers[0]: \"X-Forwarded-User\" describes the request"),
        ("pass_headers = [\"X_User\"]", "app[0].pass_headers[0]: \"X_User\" is not a header name"),
        (
            "preset = \"radicale\"\npass_headers = [\"X-Remote-User\"]",
            "app[0].pass_headers[0]: \"X-Remote-User\" is an identity header",
        ),
    ] {
        starts(&fault(&with(lines)), start);
    }
}

#[test]
fn path_characters_that_are_data_are_listed_individually() {
    let with = |first: &str, second: &str| {
        let rule = |method: &str, lines: &str| {
            format!("[[app.route]]\npath = \"/x/\"\naccess = \"signed_in\"\nmethods = [{method:?}]\n{lines}\n")
        };
        format!("{REQUIRED}{APP}\n{}{}", rule("GET", first), rule("POST", second))
    };
    let all = "path_characters = [\";\", \"%2F\", \"%5c\", \"%252f\"]";
    let config = parse(&with(all, all));
    assert_eq!(config.apps[0].routes[0].path_characters.words(), [";", "%2F", "%5C", "%252F"]);
    let odd = "path_characters = [\"/\"]";
    starts(&faults(&with(odd, odd))[0], "app[0].route[1].path_characters[0]: \"/\" is not supported; ");
    let empty = "path_characters = []";
    starts(&faults(&with(empty, empty))[0], "app[0].route[1].path_characters: is empty; ");
    starts(&fault(&with(all, "")), "app[0].route[2].path_characters: another rule of \"/x/\" has a different value; ");
}

/// Returns a configuration with one application, with these settings for it and its first route.
fn with_acr(of_app: &str, of_rule: &str) -> String {
    let app = APP.replacen("[[app.route]]", &format!("{of_app}\n    [[app.route]]"), 1);
    format!("{REQUIRED}{app}{of_rule}\n[[app.route]]\npath = \"/open/\"\naccess = \"public\"\n")
}

#[test]
fn a_rule_inherits_the_levels_of_its_application() {
    for (of_app, of_rule, levels) in [
        ("", "", &[][..]),
        ("acr = [\"2\"]", "", &["2"]),
        ("acr = [\"2\"]", "acr = [\"3\"]", &["3"]),
        ("acr = [\"2\"]", "acr = [\"1\"]", &["1"]),
        ("acr = [\"2\"]", "acr = []", &[]),
        ("acr = []", "acr = [\"phr\"]", &["phr"]),
    ] {
        let config = parse(&with_acr(of_app, of_rule));
        let rule = |path: &str| config.apps[0].routes.iter().find(|route| route.path == path).unwrap();
        assert_eq!(rule("/").acr, levels, "{of_app} {of_rule}");
        assert_eq!(rule("/open/").acr, [""; 0], "nobody signs in there");
        assert_eq!(warnings(&config), [""; 0]);
    }
    // An application password is not a sign-in, so it cannot reach a level.
    let fault = fault(&with_acr("acr = [\"2\"]", "app_passwords = true"));
    starts(
        &fault,
        "app[0].route[0].app_passwords: an application password has no level, and this rule inherits the application's acr; ",
    );
    assert!(fault.contains("set acr = []"), "{fault}");
    assert!(parse(&with_acr("acr = [\"2\"]", "app_passwords = true\nacr = []")).apps[0].takes_app_passwords());
}

#[test]
fn a_level_is_listed_once_regardless_of_its_name() {
    for (list, told) in [
        ("[\"2\", \"2\"]", "acr[1]: \"2\" is repeated in this list; list it once"),
        ("[\"phr\", \"3\"]", "acr[1]: \"3\" is the same level as \"phr\", which is in this list already"),
        ("[\"urn:x\", \"2\", \"urn:x\"]", "acr[2]: \"urn:x\" is repeated in this list; list it once"),
        ("[2]", "acr[0]: is an integer; write a list of levels, such as [\"2\"]"),
        ("\"2\"", "acr: is a string; write a list of levels, such as [\"2\"]"),
    ] {
        starts(&fault(&with_acr("", &format!("acr = {list}"))), &format!("app[0].route[0].{told}"));
        starts(&fault(&with_acr(&format!("acr = {list}"), "")), &format!("app[0].{told}"));
    }
}

#[test]
fn an_unreachable_level_causes_a_warning() {
    let warnings = |text: &str| warnings(&parse(text));
    let told = warnings(&with_acr("", "acr = [\"aal2\", \"2\"]"));
    assert_eq!(told.len(), 1, "{told:?}");
    starts(
        &told[0],
        "app[0].route[0].acr: \"aal2\" is not a level of Sealgate, and there are no trusted_issuers, so no user can reach it; write \"1\", ",
    );
    assert!(told[0].contains("(line "), "{told:?}");
    starts(&warnings(&with_acr("acr = [\"phrh\"]", ""))[0], "app[0].acr: \"phrh\" is not a level");
    // A foreign issuer has its own `acr` values. Two names that are aliases here may differ there.
    let issuer =
        "\n[[trusted_issuer]]\nname = \"corp\"\nissuer = \"https://login.example.net/\"\naudiences = [\"a\"]\n";
    let text = with_acr("trusted_issuers = [\"corp\"]", "acr = [\"aal2\", \"phr\", \"3\"]") + issuer;
    assert_eq!(warnings(&text), [""; 0]);
}

#[test]
fn rules_of_one_path_may_differ_by_network() {
    let rules = |first: &str, second: &str| {
        let rule = |networks: &str| format!("[[app.route]]\npath = \"/n/\"\n{networks}\naccess = \"signed_in\"\n");
        format!("{REQUIRED}{APP}{}{}", rule(first), rule(second))
    };
    let office = "networks = [\"10.0.0.0/8\", \"2001:db8::/32\"]";
    for other in ["", "networks = [\"10.1.0.0/16\"]", "networks = [\"192.0.2.7\"]"] {
        assert_eq!(parse(&rules(office, other)).apps[0].routes.len(), 3, "{other}");
    }
    let again = "app[0].route[2].path: \"/n/\" has another rule from 2001:db8::/32; use one rule for";
    starts(&fault(&rules(office, "networks = [\"2001:db8::/32\"]")), again);
    starts(&fault(&rules("", "")), "app[0].route[2].path: \"/n/\" has another rule; use one rule for");
    starts(&fault(&rules(office, "networks = []")), "app[0].route[2].networks: is empty");
    starts(&fault(&rules(office, "networks = [\"10.0.0.1/8\"]")), "app[0].route[2].networks[0]: ");
    let all = "app[0].route[2].networks[0]: 0.0.0.0/0 is every address, so the rule has no condition; leave";
    starts(&fault(&rules(office, "networks = [\"0.0.0.0/0\"]")), all);
    for mapped in ["::ffff:10.0.0.0/104", "::ffff:10.0.0.7"] {
        let start = format!("app[0].route[2].networks[0]: {mapped:?} is an IPv4 network in IPv6 form");
        starts(&fault(&rules(office, &format!("networks = [{mapped:?}]"))), &start);
    }
    starts(&fault(&rules(office, "networks = [\"office\"]")), "app[0].route[2].networks[0]: ");
}

#[test]
fn networks_need_the_address_of_each_forward_auth_client() {
    let text = |proxies: &str| {
        let rule = "[[app.route]]\npath = \"/n/\"\nnetworks = [\"10.0.0.0/8\"]\naccess = \"signed_in\"\n";
        format!(
            "{REQUIRED}server.trusted_proxies = [{proxies}]\nforward_auth.trusted = [\"192.0.2.0/28\"]\n{APP}{rule}"
        )
    };
    for proxies in ["\"192.0.2.0/28\"", "\"198.51.100.1\", \"192.0.2.0/24\"", "\"192.0.2.0/28\", \"10.0.0.1\""] {
        assert!(parse(&text(proxies)).warnings.is_empty(), "{proxies}");
    }
    // Machines in a trusted network can claim any address.
    for proxies in ["\"192.0.2.0/28\", \"10.1.0.0/16\"", "\"192.0.2.0/28\", \"10.0.0.0/7\""] {
        let warned = lines(&parse(&text(proxies)).warnings);
        assert!(warned[0].contains("overlaps 10.0.0.0/8 of a route"), "{warned:?}");
    }
    for proxies in ["", "\"192.0.2.1\"", "\"192.0.2.0/29\"", "\"198.51.100.0/24\""] {
        let start =
            "forward_auth: 192.0.2.0/28 is not in server.trusted_proxies, so all its clients would have its address";
        starts(&fault(&text(proxies)), start);
    }
}

#[test]
fn the_header_of_application_passwords_is_free_for_them() {
    let text = |name: &str, more: &str| {
        let app = APP.replace("[[app.route]]", &format!("app_password_header = \"{name}\"\n{more}\n[[app.route]]"));
        format!("{REQUIRED}{app}")
    };
    let header = parse(&text("X-Api-Key", "")).apps[0].identity.app_password_header.clone();
    assert_eq!(header.unwrap().as_str(), "x-api-key");
    for name in ["Authorization", "Cookie", "X-Forwarded-For", "Host", "Content-Length", "X-Real-IP"] {
        let start = format!("app[0].app_password_header: {name:?} has another meaning in HTTP");
        starts(&fault(&text(name, "")), &start);
    }
    starts(&fault(&text("a b", "")), "app[0].app_password_header: \"a b\" is not a header name");
    for more in ["identity_headers = { X-Api-Key = \"sub\" }", "pass_headers = [\"X-Api-Key\"]"] {
        let start = "app[0].app_password_header: \"X-Api-Key\" is in identity_headers or pass_headers too";
        starts(&fault(&text("X-Api-Key", more)), start);
    }
}

#[test]
fn fixed_headers_leave_the_gateways_own_headers_alone() {
    let text = |lines: &str| {
        let app = APP.replace("[[app.route]]", &format!("{lines}\n[[app.route]]"));
        format!("{REQUIRED}{app}")
    };
    let config = parse(&text(
        "request_headers = { X-Script-Name = \"/wiki\", X-Forwarded-Prefix = \"/wiki\", User-Agent = \"gate\" }\n\
         request_header_files = { Authorization = \"secret\" }\n\
         response_headers = { X-Frame-Options = \"DENY\", Server = \"\" }",
    ));
    let fixed = &config.apps[0].fixed_headers;
    let request: Vec<_> = fixed.request.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    assert_eq!(request, [("user-agent", "gate"), ("x-forwarded-prefix", "/wiki"), ("x-script-name", "/wiki")]);
    assert_eq!(fixed.request_files.len(), 1);
    let response: Vec<_> = fixed.response.iter().map(|(name, value)| (name.as_str(), value.is_some())).collect();
    assert_eq!(response, [("server", false), ("x-frame-options", true)]);

    let own = ["Host", "Cookie", "X-Forwarded-For", "X-Forwarded-Proto", "Forwarded", "X-Request-Id", "Traceparent"];
    let more =
        ["X-Sealgate-Assertion", "Content-Length", "Transfer-Encoding", "Connection", "Accept-Encoding", "Origin"];
    for name in own.into_iter().chain(more) {
        let start =
            format!("app[0].request_headers.{name}: {name:?} is set by the gateway or has another meaning in HTTP");
        starts(&fault(&text(&format!("request_headers = {{ {name} = \"a\" }}"))), &start);
    }
    for name in
        ["Set-Cookie", "Location", "Content-Type", "Content-Length", "Access-Control-Allow-Origin", "X-Request-Id"]
    {
        let start = format!("app[0].response_headers.{name}: {name:?} is set by the gateway or describes the body");
        starts(&fault(&text(&format!("response_headers = {{ {name} = \"a\" }}"))), &start);
    }
    for (lines, start) in [
        ("request_headers = { X_Key = \"a\" }", "app[0].request_headers.X_Key: \"X_Key\" is not a header name"),
        ("request_headers = { X-Key = \"ş\" }", "app[0].request_headers.X-Key: \"ş\" is not a header value"),
        ("request_headers = { X-Key = \"a\\r\\nb: c\" }", "app[0].request_headers.X-Key: \"a\\r\\nb: c\" is not"),
        ("request_headers = { X-Key = \"\" }", "app[0].request_headers.X-Key: \"\" is not a header value"),
        ("request_headers = { X-Key = \"a\", x-key = \"b\" }", "app[0].request_headers: sets \"x-key\" a second time"),
        (
            "request_headers = { X-Key = \"a\" }\nrequest_header_files = { X-Key = \"b\" }",
            "app[0].request_header_files: sets \"x-key\" a second time",
        ),
        (
            "identity_headers = { X-Key = \"sub\" }\nrequest_headers = { X-Key = \"a\" }",
            "app[0].request_headers.X-Key: \"X-Key\" is in identity_headers, pass_headers or app_password_header too",
        ),
        (
            "assertion = true\nauthorization = \"replace\"\nrequest_headers = { Authorization = \"a\" }",
            "app[0].request_headers.Authorization: \"Authorization\" is replaced by the signed assertion",
        ),
    ] {
        starts(&fault(&text(lines)), start);
    }
}

/// Returns the errors of a file whose other files are checked, too.
fn all_faults(path: &Path) -> String {
    let faults = Config::load(path).unwrap_err();
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_login_needs_a_recipe_and_either_an_account_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = directory.path().join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    file("good.toml", include_str!("../../conf/logins/roundcube.toml"));
    file("bad.toml", "page = \"login\"\n");
    file("password", "secret\n");
    file("two-lines", "a\nb\n");
    let app = |lines: &str| APP.replace("[[app.route]]", &format!("{lines}\n[[app.route]]"));
    let read = |lines: &str| {
        let path = directory.path().join("sealgate.toml");
        fs::write(&path, format!("{REQUIRED}{}", app(lines))).unwrap();
        all_faults(&path)
    };
    // Other errors of the configuration, such as the missing token, are the same in each case.
    let none = read("login = { recipe = \"good.toml\" }");
    assert!(!none.contains("login"), "{none}");
    let account = read("login = { recipe = \"good.toml\", username = \"svc\", password_file = \"password\" }");
    assert!(!account.contains("login"), "{account}");
    let groups = read(
        "login = { recipe = \"good.toml\", group_accounts = { group = \"a\", username = \"b\", password_file = \"password\" } }",
    );
    assert!(!groups.contains("login"), "{groups}");
    for (lines, told) in [
        ("login = { username = \"svc\" }", "app[0].login.recipe: is missing"),
        ("login = { recipe = \"absent.toml\" }", "app[0].login.recipe: "),
        ("login = { recipe = \"bad.toml\" }", "bad.toml: missing field `fields`"),
        ("login = { recipe = \"good.toml\", username = \"svc\" }", "app[0].login.username: requires password_file"),
        ("login = { recipe = \"good.toml\", username = \"a\\nb\", password_file = \"password\" }", "login.username: "),
        (
            "login = { recipe = \"good.toml\", username = \"svc\", password_file = \"two-lines\" }",
            "contains a line break",
        ),
        ("login = { recipe = \"good.toml\", browser_cookies = [\"a=b\"] }", "\"a=b\" is not the name of a cookie"),
        (
            "login = { recipe = \"good.toml\", group_accounts = [{ group = \"a\" }] }",
            "app[0].login.group_accounts[0].username: is missing",
        ),
        (
            "login = { recipe = \"good.toml\", group_accounts = [{ username = \"a\", password_file = \"password\" }] }",
            "app[0].login.group_accounts[0].group: is missing",
        ),
        (
            "login = { recipe = \"good.toml\", group_accounts = [{ group = \"a\", username = \"a\" }] }",
            "app[0].login.group_accounts[0].username: requires password_file",
        ),
        (
            "login = { recipe = \"good.toml\", group_accounts = [\
             { group = \"a\", username = \"a\", password_file = \"password\" }, \
             { group = \"a\", username = \"b\", password_file = \"password\" }] }",
            "\"a\" has another account in this list; write each group once",
        ),
        ("login = { recipe = \"good.toml\", group_accounts = [] }", "group_accounts: is empty"),
        ("login = \"good.toml\"", "app[0].login: "),
    ] {
        let fault = read(lines);
        assert!(fault.contains(told) && !fault.contains("secret"), "{lines}: {fault}");
    }
    let socket = app("login = { recipe = \"good.toml\" }").replace("http://127.0.0.1:8081", "unix:/run/wiki.sock");
    fs::write(directory.path().join("sealgate.toml"), format!("{REQUIRED}{socket}")).unwrap();
    let fault = all_faults(&directory.path().join("sealgate.toml"));
    assert!(fault.contains("app[0].login: requires upstreams with http or https"), "{fault}");
    for key in ["upstreams = [\"http://127.0.0.1:8082\"]", "upstream_path = \"/\""] {
        let routes = format!(
            "{}[[app.route]]\npath = \"/a/\"\naccess = \"signed_in\"\n{key}\n",
            app("login = { recipe = \"good.toml\" }")
        );
        fs::write(directory.path().join("sealgate.toml"), format!("{REQUIRED}{routes}")).unwrap();
        let fault = all_faults(&directory.path().join("sealgate.toml"));
        assert!(fault.contains("app[0].login: signs users in at the application's upstreams"), "{fault}");
    }
}

#[test]
fn the_place_after_a_sign_out_is_a_path_or_a_url() {
    let text = |place: &str| {
        let app = APP.replace("[[app.route]]", &format!("after_sign_out = {place:?}\n[[app.route]]"));
        format!("{REQUIRED}{app}")
    };
    for (place, url) in [
        ("/bye?a=b", "https://wiki.example.com/bye?a=b"),
        ("https://www.example.com", "https://www.example.com/"),
        ("http://intranet/start", "http://intranet/start"),
    ] {
        let config = parse(&text(place));
        assert_eq!(config.apps[0].sign_out_uris(&config.issuer, None), [url]);
    }
    let several = text("/").replace("= \"/\"\n[[", "= [\"https://www.example.com\", \"/bye\"]\n[[");
    let config = parse(&several);
    let urls = ["https://www.example.com/", "https://wiki.example.com/bye"];
    assert_eq!(config.apps[0].sign_out_uris(&config.issuer, None), urls);
    starts(&fault(&text("/").replace("= \"/\"\n[[", "= []\n[[")), "app[0].after_sign_out: is empty; ");
    for place in [
        "//evil.test/",
        "/\\evil.test",
        "javascript:alert(1)",
        "https://a@b.test/",
        "bye",
        "/a b",
        "/\u{a}/",
        "/#a",
        "https://a/#b",
        "",
    ] {
        starts(&fault(&text(place)), &format!("app[0].after_sign_out: {place:?} "));
    }
}

#[test]
fn further_sign_ins_name_other_applications() {
    let text = |names: &str| {
        let app = APP.replace("[[app.route]]", &format!("also_sign_in = {names}\n[[app.route]]"));
        let api = |name: &str| APP.replace("wiki", name);
        format!("{REQUIRED}{app}{}{}{}{}", api("one"), api("two"), api("three"), api("four"))
    };
    assert_eq!(parse(&text("[\"two\", \"one\"]")).apps[0].also_sign_in, ["two", "one"]);
    for (names, problem) in [
        ("[\"wiki\"]", "\"wiki\" is this application; write the names of other applications"),
        ("[\"ones\"]", "\"ones\" is not an application; write the name of another [[app]]"),
        ("[\"one\", \"one\"]", "\"one\" is repeated in this list; write each application once"),
        ("[\"one\", \"two\", \"three\", \"four\"]", "has 4 applications; write at most 3"),
        ("[]", "is empty; write a list of applications' names, or leave it out"),
    ] {
        let fault = fault(&text(names));
        assert!(fault.starts_with("app[0].also_sign_in") && fault.contains(problem), "{fault}");
    }
    // Users have the session of the provider on its host.
    for (host, problem) in [
        ("one.example.com", "app[0].also_sign_in[0]: \"one\" is on the issuer's host"),
        ("wiki.example.com", "app[0].also_sign_in: needs a session of the application"),
    ] {
        let text = text("[\"one\"]").replace(&format!("\"{host}\""), "\"id.example.com\"");
        assert!(fault(&text).contains(problem), "{}", fault(&text));
    }
}
