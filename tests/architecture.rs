//! The import rules of docs/architecture.md, read off the source: who may name which part of the crate, and where each
//! heavy dependency may be named.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "architecture/named_tests.rs"]
mod named_tests;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each part and the parts of the crate that it may name besides itself.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("ambient", &["log", "protocol"]),
    ("fields", &[]),
    ("config", &["fields", "protocol"]),
    ("log", &["config"]),
    ("memory", &[]),
    ("attestation", &["config", "protocol", "signer", "web"]),
    ("web", &[]),
    ("trust", &["protocol", "ambient", "config", "metrics", "web"]),
    ("origin", &[]),
    ("cookie", &["config", "protocol"]),
    ("metrics", &["log"]),
    ("audit", &["config", "protocol", "store"]),
    ("lateness", &["protocol"]),
    ("limiter", &["protocol"]),
    ("password", &["protocol", "config"]),
    ("page", &["config"]),
    ("store", &["protocol", "config", "log"]),
    ("signer", &["protocol", "ambient", "config", "log"]),
    ("issuer", &["protocol", "signer"]),
    ("clients", &["protocol", "config", "store"]),
    ("status", &["ambient"]),
    ("bearer", &["protocol", "clients", "config", "issuer", "store"]),
    (
        "sealgate",
        &[
            "protocol",
            "ambient",
            "attestation",
            "audit",
            "bearer",
            "clients",
            "config",
            "issuer",
            "lateness",
            "limiter",
            "metrics",
            "page",
            "password",
            "signer",
            "status",
            "store",
            "trust",
        ],
    ),
    (
        "endpoint",
        &[
            "protocol", "admin", "ambient", "bearer", "clients", "config", "cookie", "issuer", "limiter", "metrics",
            "origin", "page", "password", "sealgate", "signer", "store",
        ],
    ),
    (
        "gateway",
        &[
            "protocol", "ambient", "bearer", "clients", "config", "cookie", "fields", "limiter", "metrics", "origin",
            "page", "sealgate", "store", "trust",
        ],
    ),
    ("admin", &["protocol", "ambient", "audit", "config", "password", "sealgate", "store"]),
    ("edge", &["ambient", "config", "origin"]),
    ("expiry", &["config"]),
    ("house", &["config", "edge", "endpoint", "expiry", "gateway", "lateness", "protocol", "sealgate", "server"]),
    ("sealing", &["ambient", "config", "signer", "store"]),
    ("server", &["ambient", "config", "edge", "log"]),
    ("rotation", &["protocol", "ambient", "sealgate", "signer"]),
    ("reload", &["admin", "config", "edge", "house", "log", "protocol", "server"]),
    (
        "compose",
        &[
            "admin", "ambient", "config", "edge", "house", "log", "metrics", "reload", "rotation", "sealgate",
            "sealing", "server", "signer", "store", "trust",
        ],
    ),
    (
        "cli",
        &[
            "admin",
            "ambient",
            "attestation",
            "audit",
            "compose",
            "config",
            "gateway",
            "log",
            "metrics",
            "password",
            "protocol",
            "reload",
            "sealing",
            "server",
            "signer",
            "store",
            "web",
        ],
    ),
];

/// Each heavy dependency and the only files that may name it.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("pingora", &["src/edge/", "src/server/"]),
    ("cryptoki", &["src/signer/"]),
    ("clap", &["src/cli/"]),
    ("prometheus", &["src/metrics.rs"]),
    ("askama", &["src/page/"]),
    ("fluent_bundle", &["src/page/"]),
    ("argon2", &["src/password.rs"]),
    ("ureq", &["src/web.rs"]),
    ("webpki", &["src/attestation/"]),
    ("x509_parser", &["src/config/disk.rs", "src/attestation/", "src/edge/"]),
    ("aws_lc_rs", &["src/signer/", "src/edge/", "src/store/sealer.rs", "src/trust/"]),
];

/// What the pure rules may use: nothing that does I/O, tells the time or speaks HTTP.
const PROTOCOL_CRATES: &[&str] = &[
    "base64",
    "percent_encoding",
    "proptest",
    "serde",
    "serde_json",
    "sha2",
    "std",
    "subtle",
    "thiserror",
    "url",
    "uuid",
    "zeroize",
];

fn sources() -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_owned();
                files.push((name, fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(files.len() > 50, "the sources were not found");
    files
}

/// The part of the crate that a file belongs to: `src/store/sled.rs` to `store`.
fn part(file: &Path) -> String {
    let second = file.iter().nth(1).unwrap().to_str().unwrap();
    second.trim_end_matches(".rs").to_owned()
}

/// The parts that a source names by `crate::…`, one by one or in braces.
fn named_parts(source: &str) -> BTreeSet<String> {
    let code = without_comments(source);
    let mut named = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        if code[..at].ends_with('$') || code[..at].ends_with("pub(") {
            continue;
        }
        let rest = &code[at + "crate::".len()..];
        let words: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap().split(',').collect(),
            None => vec![rest],
        };
        for word in words {
            let word: String = word.trim().chars().take_while(|char| char.is_alphanumeric() || *char == '_').collect();
            named.insert(word);
        }
    }
    named.remove("");
    named
}

fn without_comments(source: &str) -> String {
    source.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_part_names_only_the_parts_that_it_may() {
    let mut faults = Vec::new();
    for (file, source) in sources() {
        let part = part(&file);
        if part == "lib" || part == "main" {
            continue;
        }
        let Some((_, allowed)) = MAY_NAME.iter().find(|(known, _)| *known == part) else {
            faults.push(format!("{}: the part {part} has no rule", file.display()));
            continue;
        };
        for named in named_parts(&source) {
            if named != part && !allowed.contains(&named.as_str()) && MAY_NAME.iter().any(|(known, _)| *known == named)
            {
                faults.push(format!("{} may not name crate::{named}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn heavy_dependencies_are_named_in_one_place() {
    let mut faults = Vec::new();
    for (file, source) in sources() {
        let code = without_comments(&source);
        for (dependency, places) in ONLY_IN {
            let allowed = places.iter().any(|place| file.starts_with(place) || file.to_str() == Some(place));
            if !allowed && code.contains(&format!("{dependency}::")) {
                faults.push(format!("{} may not name {dependency}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_rules_of_the_protocol_are_pure() {
    let mut faults = Vec::new();
    for (file, source) in sources() {
        if part(&file) != "protocol" {
            continue;
        }
        for line in source.lines() {
            let Some(path) = line.trim_start().strip_prefix("use ") else { continue };
            let root = path.split("::").next().unwrap();
            if !["crate", "super"].contains(&root) && !PROTOCOL_CRATES.contains(&root) {
                faults.push(format!("{} may not use {root}", file.display()));
            }
        }
        for banned in ["async fn", "tracing::", "std::time::SystemTime", "Instant::now", "http::"] {
            if without_comments(&source).contains(banned) {
                faults.push(format!("{} holds {banned}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_unsafe_stands_outside_the_files_that_say_why() {
    for (file, source) in sources() {
        let code = without_comments(&source);
        if code.contains("unsafe ") || code.contains("unsafe(") {
            assert!(source.contains("expect(unsafe_code"), "{} holds unsafe without a reason", file.display());
        }
    }
}

/// What takes access away moves counters, and which ones is read off the records in one place. A commit that went past it
/// would be honoured by no cache.
#[test]
fn every_commit_of_the_store_goes_by_the_place_that_names_its_counters() {
    let mut faults = Vec::new();
    for (file, source) in sources() {
        let code: String = without_comments(&source).split_whitespace().collect();
        let commits = code.matches("engine.commit(").count() + code.matches("engine().commit(").count();
        let allowed = match file.to_str().unwrap() {
            // A migration is over before anybody is served.
            "src/store/mod.rs" | "src/store/migration.rs" => 1,
            _ => 0,
        };
        if commits != allowed {
            faults.push(format!("{} commits to the engine in {commits} places, not {allowed}", file.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Cargo finds the targets by itself, and the Makefile splits them by what they need.
#[test]
fn make_test_runs_every_test_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let makefile = fs::read_to_string(root.join("Makefile")).unwrap();
    let listed = |name: &str| -> Vec<String> {
        let line = makefile.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(" = ")).unwrap();
        line.split(' ').map(str::to_owned).collect()
    };
    let mut listed = [listed("QUICK"), listed("REST")].concat();
    let mut found: Vec<String> = Vec::new();
    for entry in fs::read_dir(root.join("tests")).unwrap() {
        let path = entry.unwrap().path();
        if path.join("main.rs").is_file() || path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path.file_stem().unwrap().to_str().unwrap().to_owned());
        }
    }
    listed.sort_unstable();
    found.sort_unstable();
    assert_eq!(listed, found);
}

/// A build that resolves dependencies anew is not the one that was tested.
#[test]
fn every_build_of_the_makefile_and_the_scripts_takes_the_versions_of_the_lock_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = vec!["Makefile".into(), ".ci/run".into(), "conf/demo.sh".into(), "debian/build.sh".into()];
    files.push("fuzz/run.sh".to_owned());
    for entry in fs::read_dir(root.join("tests")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        files.extend([format!("tests/{name}/run.sh")].into_iter().filter(|file| root.join(file).is_file()));
    }
    let mut builds = 0;
    for file in files {
        for line in fs::read_to_string(root.join(&file)).unwrap().lines() {
            let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || c == '"').collect();
            let is_build = words.windows(2).any(|pair| {
                pair[0].to_lowercase().contains("cargo")
                    && ["build", "test", "clippy", "bench", "check"].contains(&pair[1])
            });
            if is_build && !line.trim_start().starts_with(['#', 'e']) {
                assert!(line.contains("--locked"), "{file}: {line}");
                builds += 1;
            }
        }
    }
    assert!(builds > 10, "the builds were not found: {builds}");
}
