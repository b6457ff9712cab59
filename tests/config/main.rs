//! The configuration file: accepted settings, defaults and error reports.
#![expect(clippy::unwrap_used, reason = "a test stops where it fails")]

mod acme;
mod applications;
mod apps;
mod clients;
mod cluster;
mod console;
mod contents;
mod difference;
mod directories;
mod documented;
mod factors;
mod faults;
mod files;
mod health_checks;
mod mail;
mod maintenance;
mod resources;
mod route_limits;
mod route_upstreams;
mod telemetry;
mod trusted_issuers;
mod upstreams;
mod wildcards;

use std::path::PathBuf;

use sealgate_config::{Config, ConfigFault};

const REQUIRED: &str = r#"
    issuer = "https://id.example.com"
    server.listen = ["127.0.0.1:8080"]
    hsm.module = "module.so"
    hsm.token_label = "sealgate"
    hsm.pin_file = "pin"
    store.path = "store"
"#;

const APP: &str = r#"
    [[app]]
    name = "wiki"
    host = "wiki.example.com"
    upstreams = ["http://127.0.0.1:8081"]
    [[app.route]]
    path = "/"
    access = "signed_in"
"#;

fn base() -> PathBuf {
    PathBuf::from("/etc/sealgate")
}

fn parse(text: &str) -> Config {
    Config::parse(text, &base()).unwrap_or_else(|faults| panic!("{}", lines(&faults).join("\n")))
}

fn faults(text: &str) -> Vec<String> {
    lines(&Config::parse(text, &base()).expect_err("the text has a fault"))
}

fn fault(text: &str) -> String {
    let faults = faults(text);
    assert_eq!(faults.len(), 1, "{faults:#?}");
    faults.into_iter().next().unwrap()
}

/// Returns the warnings without the warning that [`REQUIRED`] causes.
///
/// [`REQUIRED`] has an https issuer, and the server does not use TLS.
fn warnings(config: &Config) -> Vec<String> {
    lines(&config.warnings).into_iter().filter(|warning| !warning.starts_with("server.trusted_proxies: ")).collect()
}

fn lines(faults: &[ConfigFault]) -> Vec<String> {
    faults.iter().map(ConfigFault::to_string).collect()
}

/// Returns the required settings with the line of `key` replaced.
fn with(key: &str, value: &str) -> String {
    let replaced = |line: &str| {
        if line.trim().starts_with(&format!("{key} =")) { format!("{key} = {value}") } else { line.to_owned() }
    };
    let text = REQUIRED.lines().map(replaced).collect::<Vec<_>>().join("\n");
    assert_ne!(text, REQUIRED.trim_end_matches('\n'), "no line starts with {key}");
    text
}

/// Returns the required settings and one application with a replaced line.
fn with_app(line: &str, by: &str) -> String {
    assert!(APP.contains(line), "the application has no {line}");
    format!("{REQUIRED}{}", APP.replacen(line, by, 1))
}

fn starts(fault: &str, start: &str) {
    assert!(fault.starts_with(start), "{fault}\ndoes not start with\n{start}");
}
