//! The import rules of docs/explanation/architecture.md, read off the source: who may name which part of the crate, and where each
//! heavy dependency may be named.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "architecture/circles.rs"]
mod circles;
#[path = "architecture/links.rs"]
mod links;
#[path = "architecture/named_tests.rs"]
mod named_tests;
#[path = "architecture/process_state.rs"]
mod process_state;
#[path = "architecture/prose.rs"]
mod prose;
#[path = "architecture/tried_clients.rs"]
mod tried_clients;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The parts of the crate from the bottom to the top, and what each may name besides itself: parts above it in this list, so
/// that there is no circle. A part is a module with everything below it; the longest name counts.
const MAY_NAME: &[(&str, &[&str])] = &[
    ("domain", &[]),
    ("webauthn", &["domain"]),
    ("factors", &["domain", "webauthn"]),
    ("oauth", &["domain", "factors", "webauthn"]),
    ("web::request_fields", &[]),
    ("web::origin", &[]),
    ("web::navigation", &["domain", "web::origin"]),
    ("web::rewrite", &[]),
    ("config", &["domain", "oauth", "web::request_fields", "webauthn"]),
    ("log", &["config"]),
    ("clock", &["domain", "log"]),
    ("fetch", &[]),
    ("named_certificate", &[]),
    ("web::cookie", &["config", "domain"]),
    ("metrics", &["domain", "log"]),
    ("limiter", &["domain"]),
    ("password", &["config", "domain"]),
    ("page", &["config", "domain", "password"]),
    ("mail", &["config", "domain", "named_certificate", "page"]),
    ("oaep", &["domain"]),
    ("store", &["config", "domain", "factors", "log", "named_certificate", "oaep", "oauth", "webauthn"]),
    ("limits", &["domain", "limiter", "metrics", "store"]),
    ("audit", &["clock", "config", "domain", "store"]),
    ("signer", &["clock", "config", "domain", "log", "oaep"]),
    ("attestation", &["config", "domain", "fetch", "signer"]),
    ("tokens::issuer", &["domain", "oauth", "signer"]),
    ("tokens::clients", &["config", "domain", "store"]),
    ("tokens::bearer", &["config", "domain", "oauth", "store", "tokens::clients", "tokens::issuer"]),
    ("tokens::trusted", &["clock", "config", "domain", "fetch", "metrics", "oauth"]),
    ("app::memory", &[]),
    ("app::not_serving", &["store"]),
    ("app::expiry", &["config"]),
    ("app::status", &["clock", "domain", "metrics"]),
    ("app::answers", &["domain", "store"]),
    ("app::endorsing", &["app::not_serving", "clock", "domain", "signer", "store"]),
    (
        "app::state",
        &[
            "app::answers",
            "app::endorsing",
            "app::not_serving",
            "app::status",
            "attestation",
            "audit",
            "clock",
            "config",
            "domain",
            "limits",
            "metrics",
            "page",
            "password",
            "signer",
            "store",
            "tokens::bearer",
            "tokens::clients",
            "tokens::issuer",
            "tokens::trusted",
        ],
    ),
    ("admin", &["app::state", "audit", "clock", "domain", "factors", "password", "store", "webauthn"]),
    (
        "web",
        &[
            "app::state",
            "clock",
            "config",
            "domain",
            "limiter",
            "limits",
            "oauth",
            "page",
            "password",
            "signer",
            "store",
            "tokens::clients",
            "web::cookie",
            "web::navigation",
            "web::origin",
        ],
    ),
    (
        "provider",
        &[
            "admin",
            "app::state",
            "config",
            "domain",
            "factors",
            "limiter",
            "limits",
            "metrics",
            "oauth",
            "page",
            "password",
            "store",
            "tokens::bearer",
            "tokens::clients",
            "tokens::issuer",
            "web",
            "web::cookie",
            "web::navigation",
            "webauthn",
        ],
    ),
    (
        "gateway",
        &[
            "app::state",
            "config",
            "domain",
            "limiter",
            "oauth",
            "page",
            "store",
            "tokens::bearer",
            "tokens::clients",
            "tokens::trusted",
            "web",
            "web::cookie",
            "web::navigation",
            "web::origin",
            "web::request_fields",
            "web::rewrite",
        ],
    ),
    ("edge", &["config", "named_certificate", "web::navigation", "web::origin", "web::rewrite"]),
    ("app::address_lookup", &["app::state", "clock", "domain", "store"]),
    ("app::relying_party", &["app::not_serving", "audit", "config", "domain", "store"]),
    ("app::reset_lookup", &["app::state", "clock", "domain", "store"]),
    ("app::sealing", &["app::not_serving", "clock", "config", "domain", "signer", "store"]),
    ("app::server", &["clock", "config", "edge", "log"]),
    ("app::duty", &["app::state", "store"]),
    ("app::sweeping", &["app::duty", "app::server", "app::state", "domain", "store"]),
    ("app::counting", &["app::duty", "app::server", "app::state", "store"]),
    ("app::enrolment", &["app::duty", "app::server", "app::state", "domain", "factors", "metrics", "store"]),
    ("app::rotation", &["app::endorsing", "app::state", "clock", "domain", "signer"]),
    ("app::notices", &["app::state", "clock", "domain", "store"]),
    (
        "app::outbox",
        &[
            "app::address_lookup",
            "app::duty",
            "app::reset_lookup",
            "app::server",
            "app::state",
            "clock",
            "config",
            "domain",
            "mail",
            "metrics",
            "store",
        ],
    ),
    (
        "app::site",
        &[
            "app::expiry",
            "app::notices",
            "app::server",
            "app::state",
            "config",
            "domain",
            "edge",
            "gateway",
            "provider",
        ],
    ),
    ("app::reload", &["admin", "app::server", "app::site", "config", "domain", "edge", "log"]),
    (
        "app::start",
        &[
            "admin",
            "app::counting",
            "app::enrolment",
            "app::not_serving",
            "app::outbox",
            "app::relying_party",
            "app::reload",
            "app::rotation",
            "app::sealing",
            "app::server",
            "app::site",
            "app::state",
            "app::sweeping",
            "clock",
            "config",
            "edge",
            "log",
            "metrics",
            "signer",
            "store",
            "tokens::trusted",
        ],
    ),
    (
        "cli",
        &[
            "admin",
            "app::memory",
            "app::not_serving",
            "app::relying_party",
            "app::sealing",
            "app::server",
            "app::start",
            "attestation",
            "audit",
            "clock",
            "config",
            "domain",
            "fetch",
            "gateway",
            "log",
            "mail",
            "metrics",
            "oauth",
            "provider",
            "signer",
            "store",
        ],
    ),
];

/// Each heavy dependency and the only files that may name it.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("pingora", &["src/edge/", "src/app/server/"]),
    ("cryptoki", &["src/signer/"]),
    ("clap", &["src/cli/", "src/admin/"]),
    ("prometheus", &["src/metrics.rs", "src/metrics/"]),
    ("askama", &["src/page/"]),
    ("argon2", &["src/password/"]),
    ("bcrypt", &["src/password/"]),
    ("sha_crypt", &["src/password/"]),
    ("csv", &["src/admin/people_file/"]),
    ("ureq", &["src/fetch.rs"]),
    ("webpki", &["src/attestation/"]),
    ("tokio_postgres", &["src/store/postgres"]),
    (
        "x509_parser",
        &["src/config/disk.rs", "src/attestation/", "src/edge/", "src/named_certificate.rs", "src/store/postgres/"],
    ),
    (
        "aws_lc_rs",
        &[
            "src/domain/recovery_code.rs",
            "src/domain/totp.rs",
            "src/edge/",
            "src/oaep.rs",
            "src/password/foreign.rs",
            "src/signer/",
            "src/store/sealer.rs",
            "src/tokens/trusted/",
            "src/webauthn/",
        ],
    ),
    ("lettre", &["src/mail/"]),
    ("qrcode", &["src/page/"]),
];

/// What the pure parts may use: nothing that does I/O, tells the time or speaks HTTP.
const PURE_CRATES: &[&str] = &[
    "aws_lc_rs",
    "base64",
    "icu_properties",
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

/// The module of a file: `app::state` of `src/app/state.rs`, `store` of `src/store/mod.rs`.
fn module(file: &Path) -> String {
    let path = file.strip_prefix("src").unwrap().with_extension("");
    let names: Vec<&str> = path.iter().map(|name| name.to_str().unwrap()).filter(|name| *name != "mod").collect();
    names.join("::")
}

/// The part that a module belongs to: `app::server` for `app::server::process`.
fn part(module: &str) -> Option<&'static str> {
    let holds = |part: &str| module.strip_prefix(part).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    MAY_NAME.iter().map(|(part, _)| *part).filter(|part| holds(part)).max_by_key(|part| part.len())
}

/// The modules and items that a source names by `crate::…` or `super::…`, one by one or in braces.
fn named(source: &str, module: &str) -> BTreeSet<String> {
    let code = without_comments(source);
    let mut named = BTreeSet::new();
    let above = module.rsplit_once("::").map_or("", |(above, _)| above);
    for (start, base) in [("crate::", ""), ("super::", above)] {
        for (at, _) in code.match_indices(start) {
            // A macro's own crate, a visibility, a longer chain, and the test module of the file itself.
            if code[..at].ends_with(['$', '(', ':']) || (base.is_empty() && start == "super::") {
                continue;
            }
            let rest = &code[at + start.len()..];
            if rest.starts_with('*') {
                continue;
            }
            let is_name = |char: char| char.is_alphanumeric() || char == '_' || char == ':';
            let path: String = rest.chars().take_while(|char| is_name(*char)).collect();
            let list = match rest[path.len()..].strip_prefix('{') {
                Some(list) => list.split('}').next().unwrap(),
                None => "",
            };
            for word in list.split(',') {
                let word: String = word.trim().chars().take_while(|char| is_name(*char)).collect();
                let whole = [base, path.trim_end_matches(':'), &word];
                named.insert(whole.into_iter().filter(|one| !one.is_empty()).collect::<Vec<_>>().join("::"));
            }
        }
    }
    named
}

fn without_comments(source: &str) -> String {
    source.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_part_names_only_parts_below_it_and_of_these_only_those_that_it_may() {
    let mut faults = Vec::new();
    for (at, (part, allowed)) in MAY_NAME.iter().enumerate() {
        for other in *allowed {
            if !MAY_NAME[..at].iter().any(|(below, _)| below == other) {
                faults.push(format!("the rule of {part} names {other}, which does not stand before it"));
            }
        }
    }
    let mut used = BTreeSet::new();
    for (file, source) in sources() {
        let module = module(&file);
        if ["lib", "main", "facade", "app", "tokens", "web"].contains(&module.as_str()) {
            continue;
        }
        let Some(own) = part(&module) else {
            faults.push(format!("{}: its part has no rule", file.display()));
            continue;
        };
        let (_, allowed) = MAY_NAME.iter().find(|(part, _)| *part == own).unwrap();
        for named in named(&source, &module) {
            let Some(other) = part(&named) else { continue };
            used.insert((own, other));
            if other != own && !allowed.contains(&other) {
                faults.push(format!("{} may not name crate::{named}", file.display()));
            }
        }
    }
    for (part, allowed) in MAY_NAME {
        faults.extend(
            allowed
                .iter()
                .filter(|other| !used.contains(&(*part, **other)))
                .map(|other| format!("the rule of {part} names {other}, and nothing there needs it")),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn few_files_stand_beside_the_folders() {
    let beside = sources().into_iter().filter(|(file, _)| file.components().count() == 2).count();
    assert!((1..=8).contains(&beside), "{beside} files stand at the root of src");
}

#[test]
fn a_public_name_of_a_type_stands_for_one_thing() {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for (_, source) in sources() {
        let code = without_comments(source.split("#[cfg(test)]\nmod tests").next().unwrap());
        for rest in code.lines().filter_map(|line| line.strip_prefix("pub")) {
            let rest = if rest.starts_with('(') { rest.split_once(')').unwrap().1 } else { rest };
            let words: Vec<&str> = rest.split_whitespace().collect();
            if let ["struct" | "enum" | "trait" | "type", name, ..] = words[..] {
                let name = name.chars().take_while(|char| char.is_alphanumeric()).collect();
                *seen.entry(name).or_default() += 1;
            }
        }
    }
    assert!(seen.len() > 300, "the types were not found");
    let twice: Vec<&str> = seen.iter().filter(|(_, times)| **times > 1).map(|(name, _)| name.as_str()).collect();
    assert_eq!(twice, Vec::<&str>::new());
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
fn the_domain_and_the_protocol_are_pure() {
    let mut faults = Vec::new();
    for (file, source) in sources() {
        if !matches!(part(&module(&file)), Some("domain" | "oauth" | "webauthn")) {
            continue;
        }
        for line in source.lines() {
            let Some(path) = line.trim_start().strip_prefix("use ") else { continue };
            let root = path.split("::").next().unwrap();
            if !["crate", "super"].contains(&root) && !PURE_CRATES.contains(&root) {
                faults.push(format!("{} may not use {root}", file.display()));
            }
        }
        for banned in ["async fn", "tracing::", "std::time::SystemTime", "Instant::now", "http::", "::rand"] {
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
            "src/store/mod.rs" => 1,
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
