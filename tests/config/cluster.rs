//! Settings of a cluster.

use std::path::Path;

use sealgate_config::{BeatDurability, StoreConfig};

use super::{REQUIRED, base, fault, faults, parse};

const CLUSTER: &str = r#"
    issuer = "https://id.example.com"
    server.listen = ["127.0.0.1:8080"]
    admin.socket = "/run/sealgate/admin.sock"
    hsm.module = "module.so"
    hsm.token_label = "sealgate"
    hsm.pin_file = "pin"
    hsm.shared = true
    store.engine = "postgres"
    store.url_file = "url"
    cluster.node = "id-1"
"#;

fn without(line: &str) -> String {
    CLUSTER.lines().filter(|one| !one.trim().starts_with(line)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_store_in_a_database_is_read_with_its_node() {
    let config = parse(CLUSTER);
    let StoreConfig::Postgres(store) = &config.store else { panic!("{:?}", config.store) };
    assert_eq!((&store.url_file, &store.ca_file), (&base().join("url"), &None));
    assert_eq!((store.writers, store.queue), (2, 4096));
    let cluster = config.cluster.unwrap();
    assert_eq!((cluster.node.as_str(), cluster.beat, cluster.staleness_ms), ("id-1", BeatDurability::Replicated, 900));
    assert_eq!(config.admin.socket, Path::new("/run/sealgate/admin.sock"));
}

#[test]
fn missing_keys_of_a_cluster_are_reported() {
    for (line, said) in [
        ("cluster.node", "cluster: is missing"),
        ("store.url_file", "store.url_file: is missing"),
        ("admin.socket", "admin.socket: is missing"),
    ] {
        let fault = fault(&without(line));
        assert!(fault.contains(said), "{fault}");
    }
    let fault = fault(&CLUSTER.replace("cluster.node = \"id-1\"", "cluster.beat = \"local\""));
    assert!(fault.contains("cluster.node: is missing"), "{fault}");
}

#[test]
fn keys_of_the_other_engine_are_refused() {
    let files = format!("{CLUSTER}\nstore.path = \"store\"\nstore.cache_bytes = 1048576\n");
    let said = faults(&files);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().all(|fault| fault.contains("requires engine = \"sled\"")), "{said:?}");
    let shared = format!("{REQUIRED}\nstore.url_file = \"url\"\ncluster.node = \"id-1\"\n");
    let said = faults(&shared);
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said.iter().all(|fault| fault.contains("requires ")), "{said:?}");
}

#[test]
fn the_staleness_of_a_node_is_limited_to_a_second() {
    for staleness in [299, 901] {
        let fault = fault(&format!("{CLUSTER}\ncluster.staleness_ms = {staleness}\n"));
        assert!(fault.contains("300 to 900"), "{fault}");
    }
}
