//! What differs between two files, and what of it a running server can take over.

use sealgate::config::{self, Difference};

use super::{APP, REQUIRED, parse};

fn difference(old: &str, new: &str) -> Difference {
    parse(old).difference(&parse(new))
}

/// What a running server takes over, where that is everything.
#[track_caller]
fn live(old: &str, new: &str) -> Vec<String> {
    let Difference { live, restart } = difference(old, new);
    assert_eq!(restart, Vec::<String>::new());
    live
}

/// The documented file with this key written as the second value.
fn with_key(table: &str, line: &str) -> String {
    format!("{REQUIRED}[{table}]\n{line}\n")
}

#[test]
fn a_default_that_is_written_out_is_no_difference() {
    let defaults = format!("{REQUIRED}server.idle_timeout_seconds = 60\n[rate_limits]\ntoken = 50\n{APP}");
    assert!(difference(&format!("{REQUIRED}{APP}"), &defaults).is_empty());
}

#[test]
fn each_section_says_what_takes_effect_and_what_waits_for_a_start() {
    for (table, line, key) in [
        ("rate_limits", "token = 7", "rate_limits.token"),
        ("login", "window_seconds = 7", "login.window_seconds"),
        ("forward_auth", "trusted = [\"127.0.0.1\"]", "forward_auth.trusted"),
        ("sessions", "idle_seconds = 7", "sessions.idle_seconds"),
        ("tokens", "refresh_token_seconds = 7", "tokens.refresh_token_seconds"),
        ("registration", "mode = \"off\"", "registration.mode"),
        ("pages", "operator = \"Anna\"", "pages.operator"),
        ("console", "enabled = true", "console.enabled"),
        ("log", "filter = \"debug\"", "log.filter"),
    ] {
        assert_eq!(live(REQUIRED, &with_key(table, line)), [key]);
    }
    for (line, keys) in [
        ("server.threads = 77", &["server.threads"][..]),
        ("server.trusted_proxies = [\"10.0.0.0/8\"]", &["server.trusted_proxies"]),
        ("admin.listen = \"127.0.0.1:9\"", &["admin.listen"]),
        ("hsm.queue = 7", &["hsm.queue"]),
        ("store.queue = 7", &["store.queue"]),
        ("audit.keep_days = 7", &["audit.keep_days"]),
        ("log.format = \"json\"", &["log.format"]),
        ("login.password_threads = 7", &["login.password_threads"]),
        ("sessions.max_interactions = 7", &["sessions.max_interactions"]),
        // Its default follows from the other.
        ("tokens.access_token_seconds = 60", &["tokens.access_token_seconds", "keys.keep_seconds"]),
        ("keys.publish_seconds = 60", &["keys.publish_seconds"]),
        ("server.hsts_seconds = 7", &["server.hsts_seconds"]),
        ("server.redirect_listen = [\"127.0.0.1:80\"]", &["server.redirect_listen"]),
        (
            "[[trusted_issuer]]\nname = \"other\"\nissuer = \"https://other.test\"\naudiences = [\"a\"]",
            &["trusted_issuer"],
        ),
    ] {
        let found = difference(REQUIRED, &format!("{REQUIRED}{line}\n"));
        assert_eq!((found.live, found.restart), (Vec::new(), keys.iter().map(ToString::to_string).collect()));
    }
}

#[test]
fn other_certificate_files_are_taken_over_and_tls_itself_is_not() {
    let with = |name: &str| format!("{REQUIRED}server.tls = {{ certificate = \"{name}\", key = \"key\" }}\n");
    assert_eq!(live(&with("one"), &with("other")), ["server.tls"]);
    let asking =
        |word: &str| format!("{}server.client_ca = \"ca\"\nserver.client_certificates = \"{word}\"\n", with("one"));
    assert_eq!(live(&with("one"), &asking("optional")), ["server.client_ca", "server.client_certificates"]);
    assert_eq!(live(&asking("optional"), &asking("required")), ["server.client_certificates"]);
    assert_eq!(difference(REQUIRED, &with("one")).restart, ["server.tls"]);
    assert_eq!(difference(&with("one"), REQUIRED).restart, ["server.tls"]);
}

#[test]
fn applications_are_told_apart_by_their_names() {
    let one = format!("{REQUIRED}{APP}");
    let other = APP.replace("wiki", "shop");
    assert_eq!(live(&one, &format!("{one}{other}")), ["app shop: added"]);
    assert_eq!(live(&format!("{one}{other}"), &one), ["app shop: removed"]);
    assert_eq!(live(&one, &format!("{REQUIRED}{other}")), ["app shop: added", "app wiki: removed"]);
    assert_eq!(live(&format!("{one}{other}"), &format!("{REQUIRED}{other}{APP}")), ["app: their order"]);
    let changed = one.replace("signed_in", "bearer").replace("8081", "8082");
    let changed = changed.replace("    [[app.route]]", "    groups_delimiter = \";\"\n    [[app.route]]");
    assert_eq!(live(&one, &changed), ["app wiki: upstreams, route, groups_delimiter"]);
}

#[test]
fn every_key_of_the_file_has_a_name_here() {
    let source = include_str!("../../src/config/difference.rs");
    for key in config::known_keys() {
        let name = key.rsplit('.').next().unwrap();
        // Tables, and what is compared as one with the table that it stands in.
        let parts =
            ["app.route.", "app.upstream_tls.", "server.tls.", "trusted_issuer.", "pages.accent_dark", "app.preset"];
        let whole = parts.iter().any(|part| key.starts_with(part));
        let table = config::known_keys().iter().any(|other| other.starts_with(&format!("{key}.")));
        let said = [format!("\"{name}\""), format!(".{name}\"")].iter().any(|said| source.contains(said));
        assert!(whole || table || said, "{key}");
    }
}
