//! `host` of an application with a wildcard for one label.

use sealgate_config::{AppHosts, Config};
use sealgate_domain::redirect_uri::RedirectUri;

use super::{APP, REQUIRED, fault, parse, starts, warnings, with, with_app};

/// Returns the file with these applications: pairs of name and host.
fn text(apps: &[(&str, &str)]) -> String {
    let app =
        |(name, host): &(&str, &str)| APP.replace("\"wiki\"", &format!("{name:?}")).replace("wiki.example.com", host);
    format!("{REQUIRED}{}", apps.iter().map(app).collect::<String>())
}

/// Returns the name of the application for a `Host` header.
fn name<'a>(config: &'a Config, host: &str) -> Option<&'a str> {
    AppHosts::from_config(config).app(host).map(|index| config.apps[index].name.as_str())
}

#[test]
fn a_wildcard_is_the_whole_first_label_before_at_least_two_labels() {
    for host in
        ["*.example.com", "*.apps.example.com", "*.example.com:8443", "*.apps.localhost", "*.xn--vki-0na.example"]
    {
        assert_eq!(parse(&with_app("wiki.example.com", host)).apps[0].host, host);
    }
    for (host, problem) in [
        ("*", "\"*\": a wildcard is the whole first label"),
        ("*.", "\"*.\" is not a wildcard of a host name"),
        ("*.com", "\"*.com\" has one label after the *; write at least two"),
        ("*.com:8443", "\"*.com:8443\" has one label after the *"),
        ("*.localhost", "\"*.localhost\" has one label"),
        ("a*.example.com", "\"a*.example.com\": a wildcard is the whole first label"),
        ("wiki.*.example.com", "\"wiki.*.example.com\": a wildcard is the whole first label"),
        ("*.*.example.com", "\"*.*.example.com\" has two wildcards"),
        ("*.Example.com", "\"*.Example.com\" is not a wildcard of a host name"),
        ("*.example.com.", "\"*.example.com.\" is not a wildcard of a host name"),
        ("*..example.com", "\"*..example.com\" is not a wildcard of a host name"),
        ("*.192.0.2", "\"*.192.0.2\" is not a wildcard of a host name"),
        ("*.192.0.2.7", "\"*.192.0.2.7\" is not a wildcard of a host name"),
        ("*.[::1]", "\"*.[::1]\" is not a wildcard of a host name"),
        ("*.example.com:443", "\"*.example.com:443\" has the default port"),
        ("*.example.com/a", "\"*.example.com/a\" is not a wildcard of a host name"),
    ] {
        starts(&fault(&with_app("wiki.example.com", host)), &format!("app[0].host: {problem}"));
    }
}

#[test]
fn a_wildcard_covers_exactly_one_label() {
    let config = parse(&text(&[("previews", "*.example.com")]));
    for host in ["a.example.com", "A.Example.COM", "pr-17.example.com:8443", "x_1.example.com", "1.example.com"] {
        assert_eq!(name(&config, host), Some("previews"), "{host}");
    }
    let long = format!("{}.example.com", "a".repeat(64));
    for host in [
        "example.com",
        ".example.com",
        "a.b.example.com",
        "*.example.com",
        "-a.example.com",
        "a-.example.com",
        "a..example.com",
        "a.example.com.",
        "a.example.com.evil.test",
        "a.evilexample.com",
        "a b.example.com",
        "ş.example.com",
        "İ.example.com",
        "a%2e.example.com",
        "a/.example.com",
        "a@b.example.com",
        "192.0.2.7",
        "[::1]",
        "",
        &long,
    ] {
        assert_eq!(name(&config, host), None, "{host}");
    }
    let config = parse(&text(&[("previews", "*.example.com:8443")]));
    assert_eq!(name(&config, "a.example.com:8443"), Some("previews"));
    assert_eq!(name(&config, "a.example.com"), None);
    assert_eq!(name(&config, "a.example.com:9443"), None);
}

#[test]
fn an_exact_host_and_the_issuer_have_precedence_at_every_port() {
    let config = parse(&text(&[
        ("previews", "*.example.com"),
        ("wiki", "wiki.example.com"),
        ("desk", "desk.example.com:8443"),
        ("inner", "*.wiki.example.com"),
    ]));
    assert_eq!(name(&config, "wiki.example.com"), Some("wiki"));
    assert_eq!(name(&config, "wiki.example.com:8443"), Some("wiki"));
    assert_eq!(name(&config, "a.wiki.example.com"), Some("inner"));
    assert_eq!(name(&config, "desk.example.com:8443"), Some("desk"));
    // Browsers would send the cookies of desk.example.com:8443 there.
    assert_eq!(name(&config, "desk.example.com"), None);
    for issuer in ["id.example.com", "ID.example.com:443", "id.example.com:8443"] {
        assert_eq!(name(&config, issuer), None, "{issuer}");
    }
    let of_passkeys = text(&[("previews", "*.example.com")]) + "\n[factors]\nrp_id = \"login.example.com\"\n";
    assert_eq!(name(&parse(&of_passkeys), "login.example.com"), None);
}

#[test]
fn two_equal_wildcards_are_an_error() {
    let second = |host: &str| text(&[("previews", "*.example.com"), ("others", host)]);
    let problem = "is another application's host";
    starts(&fault(&second("*.example.com")), &format!("app[1].host: \"*.example.com\" {problem}"));
    starts(&fault(&second("*.example.com:8443")), &format!("app[1].host: \"*.example.com:8443\" {problem}"));
    assert_eq!(parse(&second("*.a.example.com")).apps.len(), 2);
    assert_eq!(parse(&text(&[("a", "*.example.com:8443"), ("b", "*.example.com:9443")])).apps.len(), 2);
}

#[test]
fn the_origin_is_that_of_the_requested_host() {
    let origin = |issuer: &str, app: &str, host: &str| {
        let text = with("issuer", &format!("{issuer:?}")) + &APP.replace("host = \"wiki.example.com\"", app);
        let config = parse(&text);
        let app = &config.apps[0];
        assert_eq!(app.origin(&config.issuer), None);
        app.origin_at(&config.issuer, app.covered_host(host).as_ref())
    };
    let plain = "host = \"*.example.com\"";
    assert_eq!(origin("https://id.example.com", plain, "A.example.com:1"), "https://a.example.com");
    assert_eq!(origin("https://id.example.com:8443", plain, "a.example.com"), "https://a.example.com:8443");
    let port = "host = \"*.example.com:9443\"";
    assert_eq!(origin("https://id.example.com", port, "a.example.com:9443"), "https://a.example.com:9443");
    let url = "host = \"*.example.com\"\nurl = \"https://*.example.com:9443\"";
    assert_eq!(origin("https://id.example.com", url, "a.example.com"), "https://a.example.com:9443");
    let other = with_app("host = \"wiki.example.com\"", "host = \"*.example.com\"\nurl = \"https://a.example.com\"");
    starts(&fault(&other), "app[0].url: \"https://a.example.com\" has another host or port than host = ");
}

#[test]
fn settings_that_need_one_host_are_refused() {
    let previews = "name = \"previews\"\nhost = \"*.example.com\"";
    let of_previews = |keys: &str| {
        let app = APP.replace("name = \"wiki\"\n    host = \"wiki.example.com\"", &format!("{previews}\n{keys}"));
        format!("{REQUIRED}{APP}{app}")
    };
    parse(&of_previews("after_sign_out = \"/bye\""));
    starts(
        &fault(&of_previews("also_sign_in = [\"wiki\"]")),
        "app[1].also_sign_in: is not supported for an application",
    );
    let page = APP.replace("name = \"wiki\"", "name = \"wiki\"\nalso_sign_in = [\"previews\"]");
    let listed = format!("{REQUIRED}{page}{}", text(&[("previews", "*.example.com")]).replace(REQUIRED, ""));
    starts(&fault(&listed), "app[0].also_sign_in[0]: \"previews\" has a wildcard in its host; write applications with");
    let login = "[app.login]\nrecipe = \"grafana\"\naccount = \"user\"\n";
    let faults = super::faults(&of_previews("").replace("[[app.route]]", &format!("{login}[[app.route]]")));
    assert!(
        faults.iter().any(|line| line.starts_with("app[1].login: is not supported for an application with a wildcard"))
    );
    let long = "a".repeat(24);
    starts(&fault(&text(&[(&long, "*.example.com")])), "app[0].name: is too long for an application with a wildcard");
    parse(&text(&[(&"a".repeat(23), "*.example.com")]));
}

#[test]
fn a_wildcard_needs_a_certificate_from_files() {
    let acme = "\n[acme]\nagree_to_terms = true\npath = \"acme\"\n";
    let config = parse(&(text(&[("previews", "*.example.com"), ("wiki", "wiki.example.com")]) + acme));
    assert_eq!(config.acme.as_ref().unwrap().hosts, ["id.example.com", "wiki.example.com"]);
    let problem =
        "server.tls: no certificate is valid for *.example.com, so browsers cannot connect; add one from files";
    assert!(warnings(&config).iter().any(|line| line.starts_with(problem)), "{:?}", warnings(&config));
    // The hosts of the wildcard have certificates of their own.
    let listed = format!("{acme}hosts = [\"id.example.com\", \"wiki.example.com\", \"a.example.com\"]\n");
    let config = parse(&(text(&[("previews", "*.example.com"), ("wiki", "wiki.example.com")]) + &listed));
    assert_eq!(warnings(&config), [""; 0]);
}

#[test]
fn clients_cannot_register_a_covered_host() {
    let config = parse(&text(&[("previews", "*.example.com")]));
    let uri = |text: &str| RedirectUri::parse(text).unwrap();
    for host in ["a.example.com", "A.example.com", "a.example.com:8443", "id.example.com"] {
        assert!(!config.may_register(&uri(&format!("https://{host}/cb")), None), "{host}");
    }
    for host in ["example.com", "a.b.example.com", "a.example.net"] {
        assert!(config.may_register(&uri(&format!("https://{host}/cb")), None), "{host}");
    }
}
