//! Checks docs/how-to/client-libraries.md and applications.md: each entry must say whether a test
//! runs it, and name the test.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the folders of `tests/clients` that contain a client.
fn tested_clients(root: &Path) -> BTreeSet<String> {
    let folders = fs::read_dir(root.join("tests/clients")).unwrap().map(|entry| entry.unwrap().path());
    let clients = folders.filter(|folder| folder.join("run").is_file());
    clients.map(|folder| folder.file_name().unwrap().to_str().unwrap().to_owned()).collect()
}

/// Returns the folders of `tests/clients` that a text names.
fn named_folders(text: &str) -> BTreeSet<String> {
    let parts = text.split("`tests/clients/").skip(1);
    parts.filter_map(|part| part.split_once('`')).map(|(name, _)| name.to_owned()).collect()
}

/// Returns the entries of a part of the page, each with its heading, without the general one.
fn entries(part: &str) -> impl Iterator<Item = (&str, &str)> {
    let sections = part.split("\n## ").skip(1).filter_map(|section| section.split_once("\n\n"));
    sections.filter(|(heading, _)| *heading != "Common settings")
}

/// Returns the entries that do not say whether a test runs them or that name a missing test, and
/// the tests without an entry.
fn faults(libraries: &str, behind: &str, clients: &BTreeSet<String>, applications: &str) -> Vec<String> {
    let (mut faults, mut named) = (Vec::new(), BTreeSet::new());
    for (heading, text) in entries(libraries) {
        let folders = named_folders(text);
        let is_marked = (text.starts_with("Tested") && !folders.is_empty())
            || (text.starts_with("Not tested") && folders.is_empty());
        if !is_marked {
            faults.push(format!("{heading}: write `Tested …, in tests/clients/…` or `Not tested`"));
        }
        named.extend(folders);
    }
    faults.extend(
        named
            .symmetric_difference(clients)
            .map(|name| format!("{name}: an entry without a test, or a test without an entry")),
    );
    // `make test-apps` runs all of these.
    for (heading, _) in entries(behind) {
        let name = heading.split(' ').next().unwrap_or_default().to_lowercase();
        if !applications.to_lowercase().contains(&name) {
            faults.push(format!("{heading}: tests/apps/test.mjs does not run it"));
        }
    }
    faults
}

#[test]
fn the_page_about_clients_marks_the_clients_with_a_test() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = |name: &str| fs::read_to_string(root.join("docs/how-to").join(name)).unwrap();
    let (libraries, behind) = (page("client-libraries.md"), page("applications.md"));
    let applications = fs::read_to_string(root.join("tests/apps/test.mjs")).unwrap();
    let clients = tested_clients(root);
    assert!(clients.len() >= 8 && entries(&libraries).count() + entries(&behind).count() >= 20, "{clients:?}");
    assert_eq!(faults(&libraries, &behind, &clients, &applications), [""; 0]);
}

#[test]
fn a_missing_or_wrong_mark_is_reported() {
    let page = |libraries: &str| format!("# Clients\n\n## Common settings\n\nx\n{libraries}");
    let behind = "# Applications\n\n## Wiki\n\nx\n";
    let clients: BTreeSet<String> = ["one".to_owned()].into();
    let found = |libraries: &str| faults(&page(libraries), behind, &clients, "the wiki").len();
    assert_eq!(found("\n## One\n\nTested (1), in `tests/clients/one`.\n\n## Two\n\nNot tested. x\n"), 0);
    assert_eq!(found("\n## One\n\nTested (1), in `tests/clients/one`.\n\n## Two\n\nWorks.\n"), 1);
    assert_eq!(found("\n## One\n\nTested (1).\n"), 2);
    assert_eq!(found("\n## One\n\nTested, in `tests/clients/one` and `tests/clients/gone`.\n"), 1);
    assert_eq!(found("\n## One\n\nNot tested. `tests/clients/one`\n"), 1);
    assert_eq!(faults(&page("\n## One\n\nTested, in `tests/clients/one`.\n"), behind, &clients, "").len(), 1);
}
