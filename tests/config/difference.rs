//! Differences between two configurations, and which of them a running server can apply.

use sealgate_config::Difference;

use super::documented::{of_sled, switched_on};
use super::{APP, REQUIRED, parse};

fn difference(old: &str, new: &str) -> Difference {
    parse(old).difference(&parse(new))
}

/// Returns the changes. A running server must be able to apply all of them.
#[track_caller]
fn reloadable(old: &str, new: &str) -> Vec<String> {
    let Difference { reloadable, restart } = difference(old, new);
    assert_eq!(restart, Vec::<String>::new());
    reloadable
}

/// Returns the required settings with this line in this table.
fn with_key(table: &str, line: &str) -> String {
    format!("{REQUIRED}[{table}]\n{line}\n")
}

#[test]
fn an_explicit_default_is_no_difference() {
    let defaults = format!("{REQUIRED}server.idle_timeout_seconds = 65\n[rate_limits]\ntoken = 50\n{APP}");
    assert!(difference(&format!("{REQUIRED}{APP}"), &defaults).is_empty());
}

#[test]
fn each_section_reports_which_changes_need_a_restart() {
    for (table, line, key) in [
        ("rate_limits", "token = 7", "rate_limits.token"),
        ("login", "window_seconds = 7", "login.window_seconds"),
        ("forward_auth", "trusted = [\"127.0.0.1\"]", "forward_auth.trusted"),
        ("sessions", "idle_seconds = 7", "sessions.idle_seconds"),
        ("sessions", "keep_signed_in = \"choice\"", "sessions.keep_signed_in"),
        ("tokens", "refresh_token_seconds = 7", "tokens.refresh_token_seconds"),
        ("factors", "level = \"2\"", "factors.level"),
        ("factors", "groups = { admins = \"phr\" }", "factors.groups"),
        ("factors", "enrolment = \"administrator\"", "factors.enrolment"),
        ("registration", "mode = \"off\"", "registration.mode"),
        ("pages", "operator = \"Anna\"", "pages.operator"),
        ("console", "enabled = true", "console.enabled"),
        ("api", "enabled = true", "api.enabled"),
        ("log", "filter = \"debug\"", "log.filter"),
    ] {
        assert_eq!(reloadable(REQUIRED, &with_key(table, line)), [key]);
    }
    for (line, keys) in [
        ("server.threads = 77", &["server.threads"][..]),
        ("server.trusted_proxies = [\"10.0.0.0/8\"]", &["server.trusted_proxies"]),
        ("server.proxy_protocol = [\"10.0.0.5\"]", &["server.proxy_protocol"]),
        ("server.health_path = \"/up\"", &["server.health_path"]),
        ("admin.listen = \"127.0.0.1:9\"", &["admin.listen"]),
        ("hsm.queue = 7", &["hsm.queue"]),
        ("store.queue = 7", &["store.queue"]),
        ("audit.keep_days = 7", &["audit.keep_days"]),
        ("log.format = \"json\"", &["log.format"]),
        ("login.password_threads = 7", &["login.password_threads"]),
        ("sessions.max_interactions = 7", &["sessions.max_interactions"]),
        // The default of the second key depends on the first.
        ("tokens.access_token_seconds = 60", &["tokens.access_token_seconds", "keys.keep_seconds"]),
        ("keys.publish_seconds = 60", &["keys.publish_seconds"]),
        ("server.hsts_seconds = 7", &["server.hsts_seconds"]),
        ("server.redirect_listen = [\"127.0.0.1:80\"]", &["server.redirect_listen"]),
        (
            "[[trusted_issuer]]\nname = \"other\"\nissuer = \"https://other.test\"\naudiences = [\"a\"]",
            &["trusted_issuer"],
        ),
        (
            "[[directory]]\nname = \"corp\"\nkind = \"ldap\"\nservers = [\"ldaps://a.test\"]\ndefault = true\n\
             bind = { dn = \"cn=a\", password_file = \"p\" }\nusers.base = \"dc=a\"",
            &["directory"],
        ),
        (
            "[[upstream]]\nname = \"op\"\nissuer = \"https://op.test\"\nclient_id = \"c\"\nclient_key = \"k\"",
            &["upstream"],
        ),
    ] {
        let found = difference(REQUIRED, &format!("{REQUIRED}{line}\n"));
        assert_eq!((found.reloadable, found.restart), (Vec::new(), keys.iter().map(ToString::to_string).collect()));
    }
}

#[test]
fn a_changed_mail_server_is_reloaded() {
    let mail = |more: &str| format!("{REQUIRED}[mail]\nhost = \"smtp.test\"\nfrom = \"a@id.test\"\n{more}\n");
    let set =
        ["host", "port", "tls", "from", "hello", "timeout_seconds", "per_minute"].map(|key| format!("mail.{key}"));
    assert_eq!(reloadable(REQUIRED, &mail("")), set);
    assert_eq!(reloadable(&mail(""), REQUIRED), set);
    assert_eq!(reloadable(&mail(""), &mail("per_minute = 7")), ["mail.per_minute"]);
    let known = mail("username = \"id\"\npassword_file = \"p\"\nca_file = \"ca\"");
    assert_eq!(reloadable(&mail(""), &known), ["mail.username", "mail.password_file", "mail.ca_file"]);
    assert_eq!(reloadable(&known, &known.replace("\"p\"", "\"other\"")), ["mail.password_file"]);
}

#[test]
fn changed_certificate_files_are_reloaded_but_tls_itself_needs_a_restart() {
    let with = |name: &str| format!("{REQUIRED}server.tls = {{ certificate = \"{name}\", key = \"key\" }}\n");
    assert_eq!(reloadable(&with("one"), &with("other")), ["server.tls"]);
    let asking =
        |word: &str| format!("{}server.client_ca = \"ca\"\nserver.client_certificates = \"{word}\"\n", with("one"));
    assert_eq!(reloadable(&with("one"), &asking("optional")), ["server.client_ca", "server.client_certificates"]);
    assert_eq!(reloadable(&asking("optional"), &asking("required")), ["server.client_certificates"]);
    assert_eq!(difference(REQUIRED, &with("one")).restart, ["server.tls"]);
    assert_eq!(difference(&with("one"), REQUIRED).restart, ["server.tls"]);
}

#[test]
fn applications_are_distinguished_by_name() {
    let one = format!("{REQUIRED}{APP}");
    let other = APP.replace("wiki", "shop");
    assert_eq!(reloadable(&one, &format!("{one}{other}")), ["app shop: added"]);
    assert_eq!(reloadable(&format!("{one}{other}"), &one), ["app shop: removed"]);
    assert_eq!(reloadable(&one, &format!("{REQUIRED}{other}")), ["app shop: added", "app wiki: removed"]);
    assert_eq!(reloadable(&format!("{one}{other}"), &format!("{REQUIRED}{other}{APP}")), ["app: their order"]);
    let changed = one.replace("signed_in", "bearer").replace("8081", "8082");
    let changed = changed.replace("    [[app.route]]", "    groups_delimiter = \";\"\n    [[app.route]]");
    assert_eq!(reloadable(&one, &changed), ["app wiki: upstreams, route, groups_delimiter"]);
}

/// Returns a line with its number incremented or its boolean negated.
fn altered(line: &str) -> String {
    let Some((key, value)) = line.split_once(" = ") else { return line.to_owned() };
    let (value, comment) = value.split_once(' ').unwrap_or((value, ""));
    let value = match value {
        // Required to be true.
        _ if key == "agree_to_terms" => value.to_owned(),
        "true" => "false".to_owned(),
        "false" => "true".to_owned(),
        _ => value.parse::<u64>().map_or_else(|_| value.to_owned(), |number| (number + 1).to_string()),
    };
    format!("{key} = {value} {comment}")
}

const RELOADABLE: [&str; 72] = [
    "acme.directory",
    "acme.contact",
    "acme.external_account_id",
    "acme.external_account_key_file",
    "acme.hosts",
    "acme.profile",
    "acme.challenge",
    "acme.ca_file",
    "acme.path",
    "tokens.authorization_code_seconds",
    "tokens.refresh_token_seconds",
    "tokens.refresh_retry_seconds",
    "tokens.groups_scope",
    "tokens.logout_networks",
    "sessions.idle_seconds",
    "sessions.absolute_seconds",
    "sessions.interaction_seconds",
    "sessions.keep_signed_in",
    "sessions.kept_session_seconds",
    "rate_limits.authorize",
    "rate_limits.sign_ins",
    "rate_limits.token",
    "rate_limits.userinfo",
    "rate_limits.discovery",
    "rate_limits.jwks",
    "rate_limits.revoke",
    "rate_limits.logout",
    "rate_limits.introspect",
    "rate_limits.register",
    "rate_limits.api",
    "rate_limits.pages",
    "login.failures_per_account",
    "login.failures_per_address",
    "login.window_seconds",
    "login.only_upstream",
    "factors.level",
    "factors.groups",
    "factors.enrol_by",
    "factors.enrolment",
    "factors.abandon_keys_of",
    "registration.mode",
    "registration.max_clients",
    "registration.unused_seconds",
    "registration.notify",
    "registration.document_hosts",
    "pages.operator",
    "pages.default_language",
    "pages.accent",
    "mail.host",
    "mail.port",
    "mail.tls",
    "mail.from",
    "mail.reply_to",
    "mail.username",
    "mail.password_file",
    "mail.hello",
    "mail.timeout_seconds",
    "mail.per_minute",
    "mail.ca_file",
    "registration_of_people.mode",
    "registration_of_people.domains",
    "console.enabled",
    "console.developers",
    "console.admins",
    "console.auditors",
    "console.user_manager",
    "console.sign_in_seconds",
    "api.enabled",
    "console.applications_file",
    "console.edit_applications",
    "log.filter",
    "form_post.enabled",
];

const RESTART: [&str; 56] = [
    "issuer",
    "server.listen",
    "server.tls",
    "server.redirect_listen",
    "server.hsts_seconds",
    "server.threads",
    "server.huge_pages",
    "server.health_path",
    "server.header_timeout_seconds",
    "server.header_bytes",
    "server.body_timeout_seconds",
    "server.idle_timeout_seconds",
    "server.max_connections",
    "server.max_connections_per_peer",
    "server.shutdown_timeout_seconds",
    "server.client_ca",
    "server.client_certificates",
    "admin.listen",
    "admin.socket",
    "hsm.module",
    "hsm.token_label",
    "hsm.pin_file",
    "hsm.softhsm_conf",
    "hsm.key_label",
    "hsm.attestation",
    "hsm.sessions",
    "hsm.sign_timeout_seconds",
    "hsm.queue",
    "hsm.hang_abort_seconds",
    "hsm.mechanism",
    "hsm.require_local",
    "hsm.shared",
    "store.path",
    "store.cache_bytes",
    "store.reserve_bytes",
    "store.queue",
    "tokens.access_token_seconds",
    "keys.algorithms",
    "keys.rotate_seconds",
    "keys.publish_seconds",
    "keys.keep_seconds",
    "sessions.max_interactions",
    "sessions.max_forms",
    "login.password_threads",
    "login.password_queue",
    "factors.rp_id",
    "log.format",
    "telemetry.otlp",
    "telemetry.sample",
    "telemetry.service_name",
    "telemetry.headers_file",
    "audit.keep_days",
    "audit.max_records",
    "trusted_issuer",
    "directory",
    "upstream",
];

/// Compares two configurations that differ in nearly every key. Checks the reported keys and their
/// order.
#[test]
fn differences_are_listed_in_the_order_of_the_sections() {
    let (old, new) = (format!("{REQUIRED}{APP}"), of_sled(&switched_on(true)));
    let new = new.lines().map(altered).collect::<Vec<_>>().join("\n");
    let words = [
        ("app_passwords = true", "app_passwords = false"),
        ("application_tokens = true", "application_tokens = false"),
        // The client of the example introspects tokens of an application.
        ("introspection = false", "introspection = true"),
        // The path of the example is public.
        ("resource = true", "resource = false"),
        ("\"https://id.example.com\"", "\"https://other.example.com\""),
        ("token_label = \"sealgate\"", "token_label = \"other\""),
        ("key_label = \"sealgate\"", "key_label = \"other\""),
        ("\"rsa-pkcs\"", "\"sha256-rsa-pkcs\""),
        ("algorithms = [\"RS256\"]", "algorithms = [\"RS256\", \"ES256\"]"),
        ("alg = \"RS256\"", "alg = \"ES256\""),
        ("\"token\"", "\"open\""),
        ("mode = \"off\"", "mode = \"open\""),
        ("keep_signed_in = \"off\"", "keep_signed_in = \"on\""),
        ("domains = [\"example.com\"]", "domains = [\"example.org\"]"),
        ("level = \"1\"", "level = \"2\""),
        // The servers of the example use LDAPS.
        ("starttls = true", "starttls = false"),
        ("\"self\"", "\"administrator\""),
        ("\"Sealgate\"", "\"Other\""),
        ("\"en\"", "\"tr\""),
        ("\"text\"", "\"json\""),
        ("\"info,", "\"warn,"),
        ("wiki.example.com", "wiki.example.org"),
        ("\"http/1.1\"", "\"h2\""),
        ("\"pass\"", "\"strip\""),
        ("\"ascii-percent\"", "\"utf8\""),
        ("groups_delimiter = \",\"", "groups_delimiter = \";\""),
        ("trusted_issuers = []", "trusted_issuers = [\"corp\"]"),
        ("\"Read pages\"", "\"Read all pages\""),
        ("pass_headers = []", "pass_headers = [\"Remote-User\"]"),
        ("X-Forwarded-Name = \"name\"", "X-Forwarded-Other = \"name\""),
    ];
    let new = words.into_iter().fold(new, |new, (word, other)| {
        assert!(new.contains(word), "{word}");
        new.replace(word, other)
    });
    // `also_sign_in` names a second application.
    let api = APP.replace("wiki", "api");
    let Difference { reloadable, restart } = difference(&format!("{old}{api}"), &format!("{new}{api}"));
    let [reloadable @ .., client, app] = reloadable.as_slice() else { panic!("{reloadable:?}") };
    assert_eq!(
        app,
        "app wiki: title, description, host, url, upstreams, upstream_protocol, upstream_tls, health_check, sticky, maintenance, route, after_sign_out, also_sign_in, audience, scopes, issuer_audience, agents, alg, clients, client_hosts, \
         trusted_issuers, acr, preserve_host, max_requests, max_requests_per_client, reads_bodies_whole, \
         max_body_bytes, compression, connect_timeout_seconds, read_timeout_seconds, stream_timeout_seconds, write_timeout_seconds, identity_headers, \
         pass_headers, app_password_header, request_headers, request_header_files, response_headers, assertion, authorization, names, groups_delimiter"
    );
    assert_eq!(client, "client shop: added");
    assert_eq!(reloadable, RELOADABLE);
    assert_eq!(restart, RESTART);
}
