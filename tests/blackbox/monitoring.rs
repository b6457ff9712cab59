//! Tests that the alerts and the dashboard use series that a running server exports.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use sealgate_domain::user::Subject;
use sealgate_store::Store;

use crate::factors;
use crate::foreign::{Answer, Key, Publisher};
use crate::older::engine;
use crate::program::program;
use crate::slapd::write_secret;
use crate::support::{Instance, PASSWORD, Settings, Upstream, wait_until};

const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conf/prometheus/sealgate.rules.yml");
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conf/prometheus/sealgate.rules.test.yml");
const DASHBOARD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/conf/grafana/sealgate.json");

/// Returns the series that a text names, without the suffixes of histograms.
fn series(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named = words.filter(|word| word.starts_with("sealgate_") || word.starts_with("process_"));
    let bare = |name: &str| {
        let ends = ["_bucket", "_sum", "_count"];
        ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned()
    };
    named.map(bare).collect()
}

fn curl(instance: &Instance, arguments: &[&str]) -> String {
    let directory = instance.directory.path();
    let output = Command::new("curl").args(["-sk", "--max-time", "10"]).args(arguments).current_dir(directory).output();
    String::from_utf8(output.expect("curl").stdout).unwrap()
}

fn make_certificate(directory: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "90"])
        .args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:app.localhost"])
        .args(["-out", "all.pem", "-keyout", "all.key"])
        .current_dir(directory)
        .output()
        .expect("openssl");
    assert!(made.status.success());
}

#[test]
fn every_series_that_alerts_and_the_dashboard_name_is_scraped_from_a_running_server() {
    let (upstream, publisher) = (Upstream::start(), Publisher::start(Answer::keys(&[&Key::rsa("one")])));
    let sections = format!(
        "[[trusted_issuer]]\nname = \"corp\"\nissuer = \"https://corp.test\"\njwks = \"{}\"\naudiences = [\"https://api.test\"]\n\
         [[directory]]\nname = \"staff\"\nkind = \"ldap\"\nservers = [\"ldap://127.0.0.1:1\"]\ndefault = true\n\
         bind = {{ dn = \"cn=sealgate\", password_file = \"ldap.password\" }}\nusers = {{ base = \"dc=test\" }}\n\
         [[upstream]]\nname = \"acme\"\nissuer = \"http://127.0.0.1:1\"\nclient_id = \"sealgate\"\n\
         client_secret_file = \"acme.secret\"\n",
        publisher.url("/keys")
    );
    let mut instance = Instance::bare(&Settings::default());
    for name in ["ldap.password", "acme.secret"] {
        write_secret(&instance.directory.path().join(name), "secret");
    }
    instance.configure(&Settings { sections, upstream: Some(upstream.url()), node: None });
    instance.run(&["key", "generate"]);
    instance.add_anna();
    make_certificate(instance.directory.path());
    let text = fs::read_to_string(instance.config())
        .unwrap()
        .replace("issuer = \"http://localhost", "issuer = \"https://localhost");
    let tls = "[server]\ntls = { certificate = \"all.pem\", key = \"all.key\" }";
    let text = text.replace("[server]", tls).replace("upstreams =", "health_check = { path = \"/\" }\nupstreams =");
    fs::write(instance.config(), text).unwrap();
    instance.start();
    for url in [instance.url("/oauth/jwks"), instance.app_url("/public/x")] {
        let host = if url.contains("app.localhost") { "app.localhost" } else { "localhost" };
        let at = format!("{host}:{}:127.0.0.1", instance.port);
        assert!(!curl(&instance, &["--resolve", &at, &url.replace("http://", "https://")]).is_empty(), "{url}");
    }

    // The connection is rejected, because it does not use TLS.
    curl(&instance, &[&instance.url("/")]);

    let named: BTreeSet<_> =
        [RULES, TESTS, DASHBOARD].iter().flat_map(|file| series(&fs::read_to_string(file).unwrap())).collect();
    assert!(named.len() > 25, "{named:?}");
    let there = || -> BTreeSet<String> {
        let scraped = curl(&instance, &[&instance.admin_url("/metrics")]);
        scraped.lines().filter(|line| !line.starts_with('#')).flat_map(series).collect()
    };
    // The keys of the trusted issuer are read after the start.
    wait_until("the keys are read", || there().contains("sealgate_foreign_keys_read_timestamp_seconds"));
    wait_until("people are counted", || there().contains("sealgate_people"));
    wait_until("the upstream is checked", || there().contains("sealgate_upstream_up"));
    wait_until("a connection was turned away", || there().contains("sealgate_connections_turned_away_total"));
    let there = there();
    let missing: Vec<_> = named.difference(&there).collect();
    assert!(missing.is_empty(), "not scraped: {missing:?}");
    let scraped = curl(&instance, &[&instance.admin_url("/metrics")]);
    let value = |name: &str| scraped.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    // The value has a resolution of seconds and may be zero.
    assert!(value("process_cpu_seconds_total").is_some(), "{scraped}");
    for name in ["process_resident_memory_bytes", "process_start_time_seconds"] {
        assert!(value(name).is_some_and(|value| value > 0.0), "{name}: {scraped}");
    }
}

/// Each enabled user is counted once, by the strongest factor, soon after a start.
#[tokio::test(flavor = "multi_thread")]
async fn people_are_counted_by_their_strongest_factor() {
    let mut instance = Instance::prepare(&Settings::default());
    let person = |email: &str| {
        let add = ["user", "add", email, "--name", "X", "--password-stdin", "--json"];
        let added: serde_json::Value = serde_json::from_str(&instance.run_with_input(&add, PASSWORD)).unwrap();
        Subject::parse(added["sub"].as_str().unwrap()).unwrap()
    };
    let people: Vec<Subject> = (0..6).map(|number| person(&format!("p{number}@example.test"))).collect();
    {
        let store = Store::open(Arc::new(engine(&instance)), 10).await.unwrap();
        let (app, security_key) = (factors::app("Phone"), |number| factors::key("security_key", "Key", number));
        let of = |at: usize, apps: &[_], keys: &[_]| factors::record(people[at], apps, keys, 0);
        let records = [
            of(0, std::slice::from_ref(&app), &[]),
            of(1, std::slice::from_ref(&app), &[security_key(1), factors::key("passkey", "Laptop", 2)]),
            of(2, &[app], &[security_key(3)]),
            of(3, &[], &[factors::key("passkey", "Laptop", 4)]),
            of(5, &[], &[]),
        ];
        store.import(&records).await.unwrap();
    }
    instance.run(&["user", "disable", "p3@example.test"]);
    instance.run(&["user", "reset-factors", "p5@example.test"]);
    instance.start();
    let counted = [
        ("sealgate_people{factor=\"none\"}", 3),
        ("sealgate_people{factor=\"totp\"}", 1),
        ("sealgate_people{factor=\"security_key\"}", 1),
        ("sealgate_people{factor=\"passkey\"}", 1),
        ("sealgate_people_reset", 1),
    ];
    let scraped = || curl(&instance, &[&instance.admin_url("/metrics")]);
    wait_until("people are counted", || scraped().contains("sealgate_people{"));
    let scraped = scraped();
    for (series, value) in counted {
        assert!(scraped.contains(&format!("{series} {value}\n")), "{series} {value}: {scraped}");
    }
}

#[test]
fn each_alert_has_a_test_that_fires_it_and_one_that_does_not() {
    let (rules, tests) = (fs::read_to_string(RULES).unwrap(), fs::read_to_string(TESTS).unwrap());
    let alerts: Vec<_> = rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(alerts.len() > 10);
    for alert in alerts {
        for case in ["fires", "is quiet"] {
            assert!(tests.contains(&format!("- name: {alert} {case}\n")), "no case where {alert} {case}");
        }
    }
    for (verb, file) in [("test", TESTS), ("check", RULES)] {
        let promtool = Command::new(program("promtool")).args([verb, "rules", file]).output().unwrap();
        assert!(promtool.status.success(), "{}", String::from_utf8_lossy(&promtool.stderr));
    }
}
