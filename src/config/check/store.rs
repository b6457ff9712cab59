//! Checks of `[store]` and `[cluster]`.

use super::address;
use crate::disk::Files;
use crate::file::Section;
use crate::{BeatDurability, ClusterConfig, Durability, PostgresConfig, SledConfig, StoreConfig};

/// Maximum staleness of a node's data in milliseconds. Every node must apply a revocation within
/// one second.
const MAX_STALENESS_MS: u64 = 900;

pub(super) fn store(mut section: Section<'_, '_>, files: &Files) -> Option<StoreConfig> {
    let is_shared = section.choice("engine", &[("sled", false), ("postgres", true)]).unwrap_or(false);
    let path = section.text_if(!is_shared, "path", "write the store's directory", |text| files.store(text));
    let cache_bytes = section.number("cache_bytes", 64 << 20, 1 << 20..=64 << 30);
    let reserve_bytes = section.number("reserve_bytes", 64 << 20, 16 << 20..=64 << 40);
    let queue = section.number("queue", 4096, 1..=65_536);
    let url = |text: &str| files.secret_file(text, "the database's URL");
    let url_file = section.text_if(is_shared, "url_file", "write the path of the file with the database's URL", url);
    let ca_file = section.text(
        "ca_file",
        "write the path of the certificate of the authority that issued the database's certificate",
        |text| files.authorities(text),
    );
    let writers = section.number("writers", 2, 1..=8);
    let durabilities = [("standby", Durability::Standby), ("external", Durability::External)];
    let durability = section.choice("durability", &durabilities).unwrap_or(Durability::Standby);
    let of_other = if is_shared { OF_SLED } else { OF_POSTGRES };
    for key in of_other.iter().copied().filter(|key| section.has(key)) {
        let problem = if is_shared {
            "requires engine = \"sled\"; leave it out"
        } else {
            "requires engine = \"postgres\"; leave it out"
        };
        section.fault(key, problem);
    }
    Some(if is_shared {
        StoreConfig::Postgres(PostgresConfig { url_file: url_file?, ca_file, writers, queue, durability })
    } else {
        StoreConfig::Sled(SledConfig { path: path?, cache_bytes, reserve_bytes, queue })
    })
}

/// Keys of `[store]` that only the sled engine uses.
const OF_SLED: &[&str] = &["path", "cache_bytes", "reserve_bytes"];
const OF_POSTGRES: &[&str] = &["url_file", "ca_file", "writers", "durability"];

pub(super) fn cluster(mut section: Section<'_, '_>) -> Option<ClusterConfig> {
    let node = section.required_text("node", "write a name that no other node has, such as \"id-1\"", address::name);
    let beats = [("replicated", BeatDurability::Replicated), ("local", BeatDurability::Local)];
    let beat = section.choice("beat", &beats).unwrap_or(BeatDurability::Replicated);
    let staleness_ms = section.number("staleness_ms", MAX_STALENESS_MS, 300..=MAX_STALENESS_MS);
    Some(ClusterConfig { node: node?, beat, staleness_ms })
}
