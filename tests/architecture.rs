//! Checks the import rules of docs/explanation/architecture.md on the source: which crates may
//! depend on each other, and which files may use each heavy dependency.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "architecture/documented.rs"]
mod documented;
#[path = "architecture/http_errors.rs"]
mod http_errors;
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

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Heavy dependencies, each with the only files that may use it.
const ONLY_IN: &[(&str, &[&str])] = &[
    ("pingora", &["src/edge/", "src/app/server/"]),
    ("cryptoki", &["src/signer/"]),
    ("clap", &["src/cli/", "src/admin/"]),
    ("prometheus", &["src/system/"]),
    ("askama", &["src/pages/"]),
    ("argon2", &["src/core/"]),
    ("bcrypt", &["src/core/"]),
    ("sha_crypt", &["src/core/"]),
    ("csv", &["src/admin/"]),
    ("ureq", &["src/system/"]),
    ("webpki", &["src/signer/"]),
    ("tokio_postgres", &["src/store/"]),
    ("x509_parser", &["src/config/", "src/signer/", "src/system/", "src/edge/", "src/store/", "src/acme/"]),
    ("instant_acme", &["src/acme/"]),
    ("rcgen", &["src/acme/"]),
    ("html5gum", &["src/app_login/"]),
    ("cookie", &["src/app_login/"]),
    ("regex", &["src/app_login/"]),
    ("aws_lc_rs", &["src/domain/", "src/core/", "src/edge/", "src/signer/", "src/store/"]),
    ("lettre", &["src/pages/"]),
    ("qrcode", &["src/pages/"]),
];

/// Dependencies of the pure crate: none does I/O, reads the clock or implements HTTP.
const PURE_DEPENDENCIES: &[&str] = &[
    "aws-lc-rs",
    "base64",
    "icu_normalizer",
    "icu_properties",
    "imagesize",
    "percent-encoding",
    "serde",
    "serde_json",
    "sha2",
    "subtle",
    "thiserror",
    "url",
    "uuid",
    "zeroize",
    "zxcvbn",
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

fn without_comments(source: &str) -> String {
    source.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn public_type_names_are_unique() {
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

/// Returns the names in one section of a manifest.
fn dependencies(manifest: &str, section: &str) -> Vec<String> {
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(manifest)).unwrap();
    let lines = text.lines().skip_while(|line| *line != format!("[{section}]")).skip(1);
    let names = lines.take_while(|line| !line.starts_with('[')).filter(|line| !line.starts_with('#'));
    names.filter_map(|line| line.split(['.', ' ']).next()).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// Returns the manifests of the workspace's packages, from the repository's root.
fn manifests() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders =
        fs::read_dir(root.join("src")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let manifests = folders.map(|name| format!("src/{name}/Cargo.toml")).filter(|file| root.join(file).is_file());
    manifests.chain(["Cargo.toml".to_owned()]).collect()
}

#[test]
fn heavy_dependencies_are_in_few_crates() {
    let mut faults = Vec::new();
    for manifest in manifests() {
        for name in dependencies(&manifest, "dependencies") {
            let name = name.replace('-', "_").replace("rustls_webpki", "webpki");
            let Some((_, places)) = ONLY_IN.iter().find(|(dependency, _)| *dependency == name) else { continue };
            // The root package holds src/app and src/cli.
            let folder = manifest.trim_end_matches("Cargo.toml");
            let of_root =
                folder.is_empty() && places.iter().any(|place| ["src/cli/", "src/app/server/"].contains(place));
            if !of_root && !places.contains(&folder) {
                faults.push(format!("{manifest} may not depend on {name}"));
            }
        }
    }
    // The root package may use these libraries in one folder only.
    for (file, source) in sources() {
        let code = without_comments(&source);
        for (dependency, places) in ONLY_IN.iter().filter(|(dependency, _)| ["pingora", "clap"].contains(dependency)) {
            let allowed = places.iter().any(|place| file.starts_with(place));
            if !allowed && code.contains(&format!("{dependency}::")) {
                faults.push(format!("{} may not use {dependency}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_domain_crate_is_pure() {
    let used = dependencies("src/domain/Cargo.toml", "dependencies");
    assert!(used.len() > 5, "the manifest was not read");
    let impure: Vec<_> = used.iter().filter(|name| !PURE_DEPENDENCIES.contains(&name.as_str())).collect();
    assert!(impure.is_empty(), "src/domain may not depend on {impure:?}");
    let mut faults = Vec::new();
    for (file, source) in sources().into_iter().filter(|(file, _)| file.starts_with("src/domain")) {
        for banned in ["async fn", "SystemTime::now", "Instant::now", "std::fs", "std::net::Tcp", "std::thread::spawn"]
        {
            if without_comments(source.split("#[cfg(test)]").next().unwrap()).contains(banned) {
                faults.push(format!("{} contains {banned}", file.display()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn unsafe_code_is_only_in_files_that_explain_it() {
    for (file, source) in sources() {
        let code = without_comments(&source);
        if code.contains("unsafe ") || code.contains("unsafe(") {
            assert!(source.contains("expect(unsafe_code"), "{} holds unsafe without a reason", file.display());
        }
    }
}

/// Every commit goes through one function, which derives the counters to increment from the
/// records. A commit that bypassed it would not invalidate any cache.
#[test]
fn every_store_commit_names_its_counters_in_one_place() {
    let mut faults = Vec::new();
    for (file, source) in sources() {
        let code: String = without_comments(&source).split_whitespace().collect();
        let commits = code.matches("engine.commit(").count() + code.matches("engine().commit(").count();
        let allowed = match file.to_str().unwrap() {
            "src/store/lib.rs" => 1,
            _ => 0,
        };
        if commits != allowed {
            faults.push(format!("{} commits to the engine in {commits} places, not {allowed}", file.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Cargo discovers the test targets automatically, and the Makefile groups them by their
/// requirements.
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

/// A build that resolves dependencies again differs from the tested one.
#[test]
fn every_build_uses_the_versions_of_the_lock_file() {
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
