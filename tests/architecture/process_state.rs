//! Checks that docs/explanation/process-state.md names each type that keeps state in memory, and so
//! the effect of that state on a cluster of several nodes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Types with interior mutability, and queues.
const SHARED: &[&str] =
    &["Mutex<", "RwLock<", "ArcSwap", "Atomic", "Semaphore", "OnceLock<", "watch::Sender<", "queue: Sender<", "Cache<"];

/// Matches that are not the state of a server: fixtures, and values that live for one request or
/// one command.
const NOT_OF_A_SERVER: &[&str] = &["src/system/clock.rs: FixedClock", "src/store/memory.rs: MemoryEngine"];

/// Returns the types of a source file that hold state, except in tests, as `file: Type`.
fn of_file(file: &str, text: &str) -> BTreeSet<String> {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut found = BTreeSet::new();
    let mut current: Option<String> = None;
    for line in text.lines() {
        let code = line.trim_start();
        if code.starts_with("//") {
            continue;
        }
        let words = code.strip_prefix("pub ").or_else(|| Some(code.strip_prefix("pub(")?.split_once(") ")?.1));
        let words = words.unwrap_or(code);
        let name = |rest: &str| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or("").to_owned();
        if let Some(rest) = words.strip_prefix("struct ") {
            current = Some(name(rest));
        } else if let Some(rest) = words.strip_prefix("static ")
            && !rest.contains("LazyLock<")
        {
            current = Some(name(rest));
        }
        let holds = |field: &str| SHARED.iter().any(|kind| field.contains(kind));
        if let Some(of) = current.as_ref().filter(|_| holds(code)) {
            found.insert(format!("{file}: {of}"));
        }
        if line.starts_with('}') || code.ends_with(';') {
            current = None;
        }
    }
    found
}

#[test]
fn process_state_is_detected() {
    let text = "pub(crate) struct A {\n    b: Mutex<u8>,\n}\nstruct C(AtomicU8);\nstruct D(u8);\nfn e() {\n    let f: Mutex<u8>;\n}\n\
                static G: AtomicU8 = AtomicU8::new(0);\n/// Mutex<u8>\nstruct H;\n#[cfg(test)]\nmod tests {\nstruct I(Mutex<u8>);\n}\n";
    assert_eq!(of_file("x", text), ["x: A", "x: C", "x: G"].map(String::from).into());
}

/// A change that adds state to a process must document its effect on a cluster.
#[test]
fn all_process_state_is_documented() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let document = fs::read_to_string(root.join("docs/explanation/process-state.md")).unwrap();
    let rows = document.lines().filter(|line| line.starts_with('|'));
    let named = rows.flat_map(|row| row.split('`').skip(1).step_by(2)).filter(|name| name.contains(".rs: "));
    let named: BTreeSet<String> = named.map(|name| format!("src/{name}")).collect();
    let mut found = BTreeSet::new();
    for (path, text) in super::sources() {
        let file = path.strip_prefix(root).unwrap_or(&path).to_str().unwrap();
        if !file.ends_with("tests.rs") {
            found.extend(of_file(file, &text));
        }
    }
    for name in NOT_OF_A_SERVER {
        assert!(found.remove(*name), "{name} holds no state");
    }
    let missing: Vec<_> = found.difference(&named).collect();
    assert!(
        missing.is_empty(),
        "docs/explanation/process-state.md does not say what these mean with three nodes: {missing:#?}"
    );
    let gone: Vec<_> = named.difference(&found).collect();
    assert!(gone.is_empty(), "docs/explanation/process-state.md has these, and they hold no state: {gone:#?}");
}
