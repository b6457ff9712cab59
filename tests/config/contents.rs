//! Accepted settings and their defaults.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use sealgate_config::{
    Access, CertificateKey, ClientCertificates, Config, ListenerCertificate, Mechanism, Presence, RegistrationMode,
    StoreConfig, Upstream,
};
use sealgate_domain::rate_limit::RateLimit;

use super::{APP, REQUIRED, base, fault, lines, parse, starts, with, with_app};

#[test]
fn six_keys_are_enough() {
    let config = parse(REQUIRED);
    assert_eq!(config.issuer.as_str(), "https://id.example.com");
    assert_eq!(config.server.listen, ["127.0.0.1:8080".parse::<SocketAddr>().unwrap()]);
    assert!(config.server.tls.is_empty() && config.admin.listen.is_none() && config.apps.is_empty());
    assert_eq!(config.server.threads, std::thread::available_parallelism().unwrap().get());
    assert_eq!(config.tokens.access_token.as_secs(), 900);
    assert_eq!(config.tokens.authorization_code.as_secs(), 300);
    assert_eq!(config.tokens.refresh_token.as_secs(), 2_592_000);
    assert_eq!(config.hsm.key_label, "sealgate");
    assert_eq!(config.hsm.sign_timeout.as_secs(), 5);
    assert_eq!(config.registration.mode, RegistrationMode::Token);
    let limits = &config.rate_limits;
    let requests = |limits: [RateLimit; 5]| limits.map(|limit| limit.requests().unwrap());
    assert_eq!(
        requests([limits.authorize, limits.token, limits.userinfo, limits.discovery, limits.jwks]),
        [100, 50, 200, 1000, 1000]
    );
    assert_eq!(
        requests([limits.revoke, limits.logout, limits.register, limits.sign_ins, limits.pages]),
        [50, 100, 20, 600, 3000]
    );
    assert_eq!(limits.introspect.requests(), Some(3000));
    assert!(config.tokens.logout_networks.is_empty());
}

#[test]
fn relative_paths_start_at_the_directory_of_the_file() {
    let config = parse(REQUIRED);
    assert_eq!(config.hsm.module, base().join("module.so"));
    assert_eq!(config.hsm.pin_file, base().join("pin"));
    let place = |config: Config| match config.store {
        StoreConfig::Sled(store) => store.path,
        StoreConfig::Postgres(_) => panic!("it has no files"),
    };
    assert_eq!(place(config), base().join("store"));
    assert_eq!(place(parse(&with("store.path", "\"/var/lib/store\""))), Path::new("/var/lib/store"));
}

#[test]
fn admin_socket_lies_in_the_store_unless_configured() {
    assert_eq!(parse(REQUIRED).admin.socket, base().join("store/admin.sock"));
    let text = format!("{REQUIRED} admin.socket = \"/run/sealgate/admin.sock\"");
    assert_eq!(parse(&text).admin.socket, Path::new("/run/sealgate/admin.sock"));
}

#[test]
fn application_is_read_with_its_routes_the_longest_path_first() {
    let text = format!(
        "{REQUIRED}{APP}
        [[app.route]]
        path = \"/api/\"
        access = \"bearer\"
        scopes = [\"profile\", \"email\"]
        groups = [\"staff\"]
        [[app.route]]
        path = \"/favicon.ico\"
        access = \"public\""
    );
    let config = parse(&text);
    let app = &config.apps[0];
    assert_eq!((app.name.as_str(), app.host.as_str()), ("wiki", "wiki.example.com"));
    assert_eq!(app.upstreams, [Upstream::Url("http://127.0.0.1:8081".parse().unwrap())]);
    assert!(app.preserve_host && app.audience.is_none() && app.url.is_none());
    assert_eq!(app.connect_timeout.as_secs(), 3);
    let routes: Vec<_> = app.routes.iter().map(|route| (route.path.as_str(), route.access)).collect();
    assert_eq!(routes, [("/favicon.ico", Access::Public), ("/api/", Access::Bearer), ("/", Access::SignedIn)]);
    assert_eq!(app.routes[1].scopes, ["profile", "email"]);
    assert_eq!(app.routes[1].groups, ["staff"]);
}

#[test]
fn scopes_may_be_required_on_a_route_that_also_accepts_browsers() {
    let text = with_app("access = \"signed_in\"", "access = \"signed_in\"\nscopes = [\"openid\"]");
    assert_eq!(parse(&text).apps[0].routes[0].scopes, ["openid"]);
}

#[test]
fn issuer_may_be_http_on_a_loopback_host_only() {
    for issuer in ["http://localhost:8080", "http://id.localhost", "http://127.0.0.1:8080", "http://[::1]:8080"] {
        assert_eq!(parse(&with("issuer", &format!("{issuer:?}"))).issuer.as_str(), issuer);
    }
    starts(
        &fault(&with("issuer", "\"http://id.example.com\"")),
        "issuer: \"http://id.example.com\": http is only allowed on",
    );
}

#[test]
fn the_issuer_must_be_comparable_byte_by_byte() {
    for issuer in [
        "id.example.com",
        "ftp://id.example.com",
        "https://id.example.com/",
        "https://ID.example.com",
        "https://id.example.com:443",
        "https://id.example.com?a=b",
        "https://id.example.com#a",
        "https://user@id.example.com",
        "https://id.example.com/a/../b",
        "https://id.example.com//a",
        "https://id.example.com/a%20b",
        "https://*.example.com",
        "https://",
        "",
    ] {
        starts(&fault(&with("issuer", &format!("{issuer:?}"))), "issuer: ");
    }
    assert_eq!(parse(&with("issuer", "\"https://example.com:8443/id\"")).issuer.path_prefix(), "/id");
}

#[test]
fn listeners_with_conflicting_ports_are_errors() {
    for (list, place) in [
        (r#"["127.0.0.1:80", "127.0.0.1:80"]"#, "server.listen[1]: "),
        (r#"["127.0.0.1:80", "0.0.0.0:80"]"#, "server.listen[1]: "),
        (r#"["[::]:80", "[::1]:80"]"#, "server.listen[1]: "),
        ("[]", "server.listen: is empty; "),
        (r#"["443"]"#, "server.listen[0]: "),
        (r#"[":443"]"#, "server.listen[0]: "),
    ] {
        starts(&fault(&with("server.listen", list)), place);
    }
    let config = parse(&with("server.listen", r#"["127.0.0.1:80", "127.0.0.2:80", "127.0.0.1:81", "[::1]:80"]"#));
    assert_eq!(config.server.listen.len(), 4);
}

#[test]
fn admin_listener_may_not_be_a_public_one() {
    let text = format!("{REQUIRED}\nadmin.listen = \"127.0.0.1:8080\"");
    starts(&fault(&text), "admin.listen: 127.0.0.1:8080 conflicts with the listener on 127.0.0.1:8080; ");
    assert!(parse(&format!("{REQUIRED}\nadmin.listen = \"127.0.0.1:9100\"")).admin.listen.is_some());
}

#[test]
fn trusted_proxies_are_networks_or_addresses_but_not_all_addresses() {
    let text = |list: &str| format!("{REQUIRED}\nserver.trusted_proxies = [{list}]");
    let networks = parse(&text(r#""10.0.0.0/8", "192.0.2.7", "2001:db8::/32""#)).server.trusted_proxies;
    assert_eq!(
        networks.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["10.0.0.0/8", "192.0.2.7/32", "2001:db8::/32"]
    );
    for (network, what) in [
        ("10.0.0.7/8", "has bits set outside the network's prefix; write 10.0.0.0/8 or 10.0.0.7"),
        ("0.0.0.0/0", "is every address"),
        ("::/0", "is every address"),
        ("10.0.0.0/33", "is not a network"),
        ("proxy.example.com", "is not a network"),
    ] {
        let fault = fault(&text(&format!("{network:?}")));
        assert!(fault.starts_with("server.trusted_proxies[0]: ") && fault.contains(what), "{fault}");
    }
}

#[test]
fn tls_listener_needs_an_https_issuer_and_both_files() {
    let tls = "server.tls = { certificate = \"a\", key = \"b\" }";
    let text = format!("{}\n{tls}", with("issuer", "\"http://localhost:8080\""));
    starts(&fault(&text), "server.tls: the issuer uses http; ");
    assert_eq!(parse(&format!("{REQUIRED}\n{tls}")).server.tls[0].key, CertificateKey::File(base().join("b")));
    starts(&fault(&format!("{REQUIRED}\nserver.tls = {{ key = \"b\" }}")), "server.tls.certificate: is missing; ");
}

#[test]
fn admin_socket_that_is_too_long_for_the_kernel_is_a_fault() {
    let fits = format!("/{}", "s".repeat(106));
    assert_eq!(parse(&format!("{REQUIRED}\nadmin.socket = {fits:?}")).admin.socket, Path::new(&fits));
    starts(&fault(&format!("{REQUIRED}\nadmin.socket = \"{fits}s\"")), "admin.socket: ");
    let long_store = with("store.path", &format!("\"/{}\"", "s".repeat(100)));
    starts(&fault(&long_store), "admin.socket: is missing, and the default cannot be used: ");
}

#[test]
fn a_rate_limit_is_a_number_up_to_a_million_or_none() {
    let token = |limit: &str| format!("{REQUIRED}\nrate_limits.token = {limit}");
    assert_eq!(parse(&token("1000000")).rate_limits.token, RateLimit::PerMinute(1_000_000));
    assert_eq!(parse(&token("\"none\"")).rate_limits.token, RateLimit::Unlimited);
    let allowed = "write a whole number from 1 to 1000000, or \"none\" (line 9)";
    for limit in ["0", "1000001", "-1"] {
        let said = fault(&token(limit));
        assert_eq!(said, format!("rate_limits.token: {limit} is out of range; {allowed}"));
    }
    assert_eq!(fault(&token("\"no\"")), format!("rate_limits.token: is a string; {allowed}"));
}

#[test]
fn sign_in_cannot_be_idle_for_longer_than_it_lasts() {
    let text = format!("{REQUIRED}\n[sessions]\nidle_seconds = 7200\nabsolute_seconds = 3600");
    starts(&fault(&text), "sessions.idle_seconds: is longer than absolute_seconds; set at most 3600 (line 10)");
}

#[test]
fn a_kept_session_cannot_end_before_others() {
    let with = |lines: &str| format!("{REQUIRED}\n[sessions]\nkeep_signed_in = \"choice\"\n{lines}");
    let days = |text: &str| parse(text).sessions.kept_session.as_secs() / 86_400;
    assert_eq!(days(&with("")), 30);
    assert_eq!(days(&with("absolute_seconds = 7776000")), 90);
    let text = with("kept_session_seconds = 604799");
    starts(
        &fault(&text),
        "sessions.kept_session_seconds: is shorter than absolute_seconds; set at least 604800 (line 11)",
    );
    let text = format!("{REQUIRED}\n[sessions]\nkeep_signed_in = \"always\"");
    assert!(fault(&text).contains("sessions.keep_signed_in: "), "{}", fault(&text));
}

#[test]
fn the_limit_per_peer_cannot_exceed_the_total_limit() {
    let text = format!("{REQUIRED}\nserver.max_connections = 100");
    assert_eq!(parse(&text).server.max_connections_per_peer, 100);
    starts(
        &fault(&format!("{text}\nserver.max_connections_per_peer = 101")),
        "server.max_connections_per_peer: is larger than the limit of all peers together; set at most 100",
    );
}

#[test]
fn a_label_that_no_token_can_have_is_an_error() {
    for label in ["", " sealgate", "0123456789abcdef0123456789abcdef0"] {
        starts(&fault(&with("hsm.token_label", &format!("{label:?}"))), "hsm.token_label: ");
    }
}

#[test]
fn an_invalid_log_filter_is_an_error() {
    assert_eq!(parse(&format!("{REQUIRED}\nlog.filter = \"warn,sealgate=debug\"")).log.filter, "warn,sealgate=debug");
    starts(
        &fault(&format!("{REQUIRED}\nlog.filter = \"sealgate=loud\"")),
        "log.filter: \"sealgate=loud\" is not a filter",
    );
}

/// Key names that existing configuration files use. They must never change.
#[test]
fn established_key_names_are_accepted() {
    let config = parse(
        r#"
        issuer = "https://id.example.com"
        [server]
        listen = ["0.0.0.0:443"]
        tls = { certificate = "certificate.pem", key = "key.pem" }
        trusted_proxies = ["10.0.0.0/8"]
        [admin]
        listen = "127.0.0.1:9100"
        socket = "/run/sealgate/admin.sock"
        [hsm]
        module = "/usr/lib/softhsm/libsofthsm2.so"
        token_label = "token"
        pin_file = "pin"
        sessions = 3
        [store]
        engine = "sled"
        path = "/var/lib/sealgate/store"
        [tokens]
        access_token_seconds = 901
        authorization_code_seconds = 301
        refresh_token_seconds = 2592001
        [rate_limits]
        authorize = 101
        token = 51
        userinfo = 201
        discovery = 1001
        jwks = 1002
        revoke = 52
        logout = 102
        register = 21
        [[app]]
        name = "wiki"
        host = "wiki.example.com"
        upstreams = ["http://127.0.0.1:8081"]
        [[app.route]]
        path = "/public/"
        access = "public"
        [[app.route]]
        path = "/api/"
        access = "bearer"
        scopes = ["profile"]
        [[app.route]]
        path = "/"
        access = "signed_in""#,
    );
    assert_eq!(config.server.trusted_proxies.len(), 1);
    assert_eq!(config.admin.listen.unwrap().port(), 9100);
    assert_eq!((config.hsm.token_label.as_str(), config.hsm.sessions), ("token", 3));
    assert_eq!(config.tokens.access_token.as_secs(), 901);
    assert_eq!(config.tokens.authorization_code.as_secs(), 301);
    assert_eq!(config.tokens.refresh_token.as_secs(), 2_592_001);
    let limits = config.rate_limits;
    let requests = |limits: [RateLimit; 4]| limits.map(|limit| limit.requests().unwrap());
    assert_eq!(requests([limits.authorize, limits.token, limits.userinfo, limits.discovery]), [101, 51, 201, 1001]);
    assert_eq!(requests([limits.jwks, limits.revoke, limits.logout, limits.register]), [1002, 52, 102, 21]);
    assert_eq!(config.apps[0].routes.len(), 3);
}

#[test]
fn invalid_colours_are_errors_with_a_remedy() {
    let accent = |lines: &str| format!("{REQUIRED}\n[pages]\n{lines}");
    let problem = fault(&accent("accent = \"#ffcc00\""));
    assert!(problem.contains("is hard to read on light pages") && problem.contains("use a darker colour"), "{problem}");
    let problem = fault(&accent("accent = \"#0a5c53\"\naccent_dark = \"#0a5c53\""));
    assert!(problem.contains("is hard to read on dark pages"), "{problem}");
    let problem = fault(&accent("accent_dark = \"#7fd6c6\""));
    assert!(problem.contains("requires accent"), "{problem}");
    let problem = fault(&accent("accent = \"red\""));
    assert!(problem.contains("is not a colour"), "{problem}");
    let chosen = parse(&accent("accent = \"#8a1c4b\"\naccent_dark = \"#ffb0d0\"")).pages.accent.unwrap();
    assert_eq!((chosen.light.to_string(), chosen.dark.to_string()), ("#8a1c4b".into(), "#ffb0d0".into()));
}

#[test]
fn a_rotation_interval_covers_publication_and_retirement() {
    let keys = |rotate: u32| {
        format!("{REQUIRED}\n[keys]\npublish_seconds = 100\nkeep_seconds = 900\nrotate_seconds = {rotate}")
    };
    assert_eq!(parse(&keys(1000)).keys.rotate, Some(Duration::from_secs(1000)));
    let fault = fault(&keys(999));
    starts(&fault, "keys.rotate_seconds: is shorter than publish_seconds and keep_seconds together; set at least 1000");
    assert_eq!(parse(REQUIRED).keys.rotate, None, "nothing happens by itself");
}

#[test]
fn an_unknown_mechanism_is_an_error() {
    let hsm = |mechanism: &str| format!("{REQUIRED}\nhsm.mechanism = \"{mechanism}\"");
    assert_eq!(parse(&hsm("sha256-rsa-pkcs")).hsm.mechanism, Mechanism::Sha256RsaPkcs);
    assert_eq!(parse(REQUIRED).hsm.mechanism, Mechanism::RsaPkcs);
    starts(&fault(&hsm("rsa-pss")), "hsm.mechanism: \"rsa-pss\" is not known; write ");
}

#[test]
fn one_or_several_certificates_can_be_configured() {
    let one = "{ certificate = \"a\", key = \"b\" }";
    let tls = |text: &str| parse(&format!("{REQUIRED}\n{text}")).server.tls;
    let keys = |tls: Vec<ListenerCertificate>| tls.into_iter().map(|tls| tls.key).collect::<Vec<_>>();
    let file = |name: &str| CertificateKey::File(base().join(name));
    assert_eq!(keys(tls(&format!("server.tls = {one}"))), [file("b")]);
    let two = format!("server.tls = [{one}, {}]", one.replace('"', "'").replace("'b'", "'c'"));
    assert_eq!(keys(tls(&two)), [file("b"), file("c")]);
    let token = tls("server.tls = { certificate = \"a\", key = \"pkcs11:object=tls\" }");
    assert_eq!(keys(token), [CertificateKey::Token("tls".to_owned())]);
    starts(&fault(&format!("{REQUIRED}\nserver.tls = []")), "server.tls: is empty; ");
    starts(&fault(&format!("{REQUIRED}\nserver.tls = \"a\"")), "server.tls: is a string; ");
    starts(
        &fault(&format!("{REQUIRED}\nserver.tls = [{one}, {{ key = \"c\" }}]")),
        "server.tls[1].certificate: is missing; ",
    );
}

#[test]
fn redirecting_listeners_need_an_https_issuer_and_their_own_addresses() {
    let text = format!("{REQUIRED}\nserver.redirect_listen = [\"127.0.0.1:80\", \"[::1]:80\"]");
    assert_eq!(parse(&text).server.redirect_listen.len(), 2);
    let http = text.replace("https://id.example.com", "http://localhost:8080");
    starts(&fault(&http), "server.redirect_listen: the issuer uses http; ");
    for taken in ["127.0.0.1:8080", "0.0.0.0:8080"] {
        starts(&fault(&format!("{REQUIRED}\nserver.redirect_listen = [{taken:?}]")), "server.redirect_listen[0]: ");
    }
    starts(&fault(&format!("{text}\nadmin.listen = \"127.0.0.1:80\"")), "admin.listen: ");
    let upstream = with_app("http://127.0.0.1:8081", "http://127.0.0.1:80");
    let upstream = upstream.replacen("[[app]]", "[server]\nredirect_listen = [\"0.0.0.0:80\"]\n[[app]]", 1);
    let upstream = upstream
        .replace("server.listen = [\"127.0.0.1:8080\"]", "")
        .replace("[server]", "[server]\nlisten = [\"127.0.0.1:8080\"]");
    assert!(fault(&upstream).contains("is Sealgate's own listener on 0.0.0.0:80"), "{}", fault(&upstream));
}

#[test]
fn client_certificates_need_authorities_and_tls() {
    let tls = "server.tls = { certificate = \"a\", key = \"b\" }";
    let clients = |more: &str| format!("{REQUIRED}\n{tls}\n{more}");
    let of = |text: &str| parse(&clients(text)).server.client_certificates;
    assert_eq!(of(""), None);
    let ca = base().join("ca");
    let expected = |demand| Some(ClientCertificates { ca: ca.clone(), demand });
    assert_eq!(of("server.client_ca = \"ca\""), expected(Presence::Required));
    let optional = "server.client_ca = \"ca\"\nserver.client_certificates = \"optional\"";
    assert_eq!(of(optional), expected(Presence::Optional));
    starts(
        &fault(&clients("server.client_certificates = \"required\"")),
        "server.client_certificates: requires client_ca; ",
    );
    starts(&fault(&format!("{REQUIRED}\n{optional}")), "server.client_ca: requires tls; ");
}

#[test]
fn an_https_issuer_without_tls_termination_is_a_warning() {
    let found = |text: &str| lines(&parse(text).warnings);
    for text in [REQUIRED.to_owned(), format!("{REQUIRED}\nserver.trusted_proxies = []")] {
        let [warning] = &found(&text)[..] else { panic!("{text}") };
        starts(warning, "server.trusted_proxies: the issuer uses https, but neither tls nor trusted_proxies is set");
    }
    assert_eq!(found(&format!("{REQUIRED}\nserver.trusted_proxies = [\"127.0.0.1\"]")), [""; 0]);
    assert_eq!(found(&with("issuer", "\"http://localhost:8080\"")), [""; 0]);
}

#[test]
fn notified_accounts_need_mail_and_are_limited_to_ten() {
    let mail = "[mail]\nhost = \"127.0.0.1\"\nfrom = \"no-reply@example.com\"\n";
    let text = |list: &str, mail: &str| format!("{REQUIRED}\nregistration.notify = [{list}]\n{mail}");
    let ten = ["\"a@example.com\""; 10].join(", ");
    assert_eq!(parse(&text(&ten, mail)).registration.notify.len(), 10);
    starts(&fault(&text(&ten, "")), "registration.notify: requires [mail]");
    starts(
        &fault(&text(&format!("{ten}, \"b@example.com\""), mail)),
        "registration.notify[10]: there are more than 10",
    );
    starts(&fault(&text("\"anna\"", mail)), "registration.notify[0]: \"anna\" is not an e-mail address");
}
