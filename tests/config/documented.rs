//! The file `conf/sealgate.toml`, which documents every key.

use std::collections::BTreeSet;

use sealgate_config as config;

use super::{APP, parse};

const EXAMPLE: &str = include_str!("../../conf/sealgate.toml");

/// Tables whose keys are names that the operator chooses.
const TABLES: [&str; 9] = [
    "app.identity_headers",
    "app.request_headers",
    "app.request_header_files",
    "app.response_headers",
    "app.scopes",
    "factors.groups",
    "upstream.acr",
    "upstream.group_map",
    "upstream.required",
];

/// Returns the documented file with its commented settings enabled.
///
/// Includes the settings marked as examples only if `examples` is true.
pub(super) fn switched_on(examples: bool) -> String {
    let switch = |line: &'static str| match line.strip_prefix('#') {
        Some(setting) if !setting.starts_with(' ') && (setting.contains(" = ") || setting.starts_with('[')) => {
            if setting.ends_with("# example") && !examples {
                ""
            } else {
                setting
            }
        }
        _ => line,
    };
    let text = EXAMPLE.lines().map(switch).collect::<Vec<_>>().join("\n");
    // TLS settings for upstreams are valid only for upstreams with TLS.
    if examples { text.replace("\"http://127.0.0.1:8081\"", "\"https://127.0.0.1:8081\"") } else { text }
}

/// Settings of the example client that exclude its secret.
const CLIENT_KEYS: [&str; 3] = ["jwks_file", "jwks_uri", "workload = "];

/// Returns the file without the settings of the PostgreSQL store.
pub(super) fn of_sled(text: &str) -> String {
    let of_cluster = ["url_file", "ca_file = \"/etc/sealgate/database", "writers", "durability", "[cluster]"];
    let of_cluster = of_cluster.into_iter().chain(["node = ", "beat = ", "staleness_ms"]);
    without(text, &of_cluster.chain(CLIENT_KEYS).collect::<Vec<_>>())
}

/// Returns the file with the settings of the PostgreSQL store.
fn of_cluster(text: &str) -> String {
    let text = text.replace("engine = \"sled\"", "engine = \"postgres\"").replace("shared = false", "shared = true");
    without(&text, &[&["path = \"/var/lib/sealgate/store", "cache_bytes", "reserve_bytes"][..], &CLIENT_KEYS].concat())
}

fn without(text: &str, lines: &[&str]) -> String {
    let kept = text.lines().filter(|line| !lines.iter().any(|start| line.starts_with(start)));
    kept.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_documented_file_is_valid_as_it_is_and_with_all_options_enabled() {
    assert_eq!(parse(EXAMPLE).apps[0].routes.len(), 3);
    // The example of also_sign_in names a second application.
    let all = switched_on(true) + &APP.replace("wiki", "api");
    assert_eq!(parse(&of_sled(&all)).server.threads, 2);
    assert_eq!(parse(&of_cluster(&all)).cluster.unwrap().node, "id-1");
}

#[test]
fn documented_defaults_are_the_defaults() {
    assert_ne!(switched_on(false), EXAMPLE);
    assert_eq!(format!("{:#?}", parse(&of_sled(&switched_on(false)))), format!("{:#?}", parse(EXAMPLE)));
    let needed = "\n[cluster]\nnode = \"id-1\"\n";
    let with_needed = |text: &str| {
        let text = of_cluster(text).replace("\n[store]\n", &format!("{needed}[store]\nurl_file = \"url\"\n"));
        without(&text, &["beat = ", "staleness_ms"])
    };
    let example =
        EXAMPLE.replace("#engine = \"sled\"", "engine = \"sled\"").replace("#shared = false", "shared = false");
    assert_eq!(
        format!("{:#?}", parse(&with_needed(&switched_on(false)))),
        format!("{:#?}", parse(&with_needed(&example)))
    );
}

#[test]
fn every_key_is_documented_and_every_documented_key_exists() {
    let document: toml::Table = switched_on(true).parse().unwrap();
    let mut documented = BTreeSet::new();
    collect("", &toml::Value::Table(document), &mut documented);
    let known = config::known_keys();
    let undocumented: Vec<_> = known.difference(&documented).collect();
    assert!(undocumented.is_empty(), "not in conf/sealgate.toml: {undocumented:?}");
    let unknown: Vec<_> = documented.difference(&known).collect();
    assert!(unknown.is_empty(), "no such key: {unknown:?}");
    assert!(known.contains("app.route.access") && known.contains("server.tls.key"), "{known:?}");
}

fn collect(path: &str, value: &toml::Value, keys: &mut BTreeSet<String>) {
    match value {
        toml::Value::Table(table) => {
            for (key, value) in table {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                keys.insert(path.clone());
                // The keys of these tables are names of headers, groups and claims.
                if !TABLES.contains(&path.as_str()) {
                    collect(&path, value, keys);
                }
            }
        }
        toml::Value::Array(values) => values.iter().for_each(|value| collect(path, value, keys)),
        _ => {}
    }
}

/// Returns the documented file as a Markdown page.
///
/// The page has a section per table, with the lines and the comment of each key.
fn page(file: &str) -> String {
    let mut page = String::from(
        "# Configuration\n\nThis page is generated from `conf/sealgate.toml`, which the package installs as `/etc/sealgate/sealgate.toml`, and a test\n\
         compares the two.\n\n",
    );
    let escape = |line: &str| -> String {
        // Text between backquotes has no markup.
        let parts = line.split('`').enumerate().map(|(number, part)| match number % 2 {
            0 => "*<>[]".chars().fold(part.to_owned(), |part, mark| part.replace(mark, &format!("\\{mark}"))),
            _ => part.to_owned(),
        });
        parts.collect::<Vec<_>>().join("`")
    };
    let is_comment = |line: &str| line == "#" || line.starts_with("# ");
    let (mut tables, mut lines) = (BTreeSet::new(), file.lines().skip(1).peekable());
    while lines.peek().is_some() {
        let (mut comment, mut keys) = (Vec::new(), Vec::new());
        while let Some(line) = lines.next_if(|line| is_comment(line)) {
            comment.push(escape(line.trim_start_matches('#').trim_start()));
        }
        while let Some(line) = lines.next_if(|line| !is_comment(line) && !line.is_empty()) {
            let table = line.trim_start_matches('#').split("  ").next().unwrap().trim();
            // A comment before the first key of a table describes the table.
            if table.starts_with('[') && tables.insert(table.to_owned()) {
                page.extend(["## `", table, "`\n\n"]);
            } else {
                keys.push(line);
            }
        }
        if !keys.is_empty() {
            page.extend(["```toml\n", &keys.join("\n"), "\n```\n\n"]);
        }
        for paragraph in comment.split(String::is_empty).filter(|paragraph| !paragraph.is_empty()) {
            page.extend([&paragraph.join("\n"), "\n\n"]);
        }
        while lines.next_if(|line| line.is_empty()).is_some() {}
    }
    format!("{}\n", page.trim_end())
}

#[test]
fn the_configuration_reference_matches_the_documented_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/configuration.md");
    let page = page(EXAMPLE);
    if std::env::var_os("ACCEPT").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let is_same = std::fs::read_to_string(path).is_ok_and(|kept| kept == page);
    assert!(is_same, "docs/reference/configuration.md is not conf/sealgate.toml; run this test with ACCEPT=1");
}

#[test]
fn the_documented_proxy_configurations_are_the_tested_ones() {
    for (file, page) in [
        (include_str!("../../conf/proxies/nginx.conf"), include_str!("../../docs/how-to/nginx.md")),
        (include_str!("../../conf/proxies/Caddyfile"), include_str!("../../docs/how-to/caddy.md")),
        (include_str!("../../conf/proxies/traefik.yml"), include_str!("../../docs/how-to/traefik.md")),
        (include_str!("../../conf/proxies/haproxy-forward-auth.cfg"), include_str!("../../docs/how-to/haproxy.md")),
        (include_str!("../../conf/proxies/haproxy-forward-auth.lua"), include_str!("../../docs/how-to/haproxy.md")),
        (include_str!("../../conf/proxies/envoy.yaml"), include_str!("../../docs/how-to/envoy.md")),
    ] {
        assert!(page.contains(&format!("\n{file}```\n")), "{file}");
    }
}

#[test]
fn the_unit_permits_the_time_and_descriptors_of_the_documented_file() {
    let unit = include_str!("../../systemd/sealgate.service");
    let setting = |name: &str| -> u64 {
        let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap();
        line.parse().unwrap()
    };
    let server = parse(EXAMPLE).server;
    assert!(setting("TimeoutStopSec") > server.shutdown_timeout.as_secs());
    assert!(setting("LimitNOFILE") > 2 * server.max_connections as u64);
}
