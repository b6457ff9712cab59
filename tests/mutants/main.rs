//! Mutation tests. Each mutant removes one guard from the source and names the tests that must then
//! fail.
//!
//! `make test` checks that the guard of each mutant still occurs in the source. `make mutants` runs
//! the mutants, which takes one to two hours. `MUTANTS=word,word` selects the mutants whose name or
//! file contains one of the words.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test that cannot go on fails, and a long one tells")]

mod run;
mod table;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use run::{Outcome, Scratch};
use table::Mutant;

#[test]
fn every_mutant_text_occurs_once_in_the_source() {
    let faults: Vec<String> = table::all().iter().filter_map(|mutant| mutant.fault(&table::root())).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_filter_names_a_test_of_its_target() {
    let mut targets: HashMap<PathBuf, Vec<String>> = HashMap::new();
    for mutant in table::all() {
        let folder = table::root().join(mutant.folder());
        let names = targets.entry(folder.clone()).or_insert_with(|| {
            let mut names = Vec::new();
            add_functions(&folder, "", &mut names);
            names
        });
        for filter in &mutant.filters {
            let is_known = names.iter().any(|name| name.contains(filter));
            assert!(is_known, "{}: no test in {} matches {filter}", mutant.name, folder.display());
        }
    }
}

/// Adds the paths of all functions in the Rust files of a folder, such as `module::tests::name`.
fn add_functions(folder: &Path, parent: &str, found: &mut Vec<String>) {
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let module = match path.file_stem().unwrap().to_str().unwrap() {
            "lib" | "main" | "mod" => parent.to_owned(),
            name => format!("{parent}{name}::"),
        };
        if path.is_dir() {
            add_functions(&path, &module, found);
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            for function in names_after("fn ", &text) {
                found.push(format!("{module}{function}"));
                // A function may be in any module of the file.
                found.extend(names_after("mod ", &text).map(|inner| format!("{module}{inner}::{function}")));
            }
        }
    }
}

/// Returns the words that follow a keyword.
fn names_after<'t>(keyword: &'static str, text: &'t str) -> impl Iterator<Item = &'t str> {
    text.split(keyword).skip(1).filter_map(|rest| rest.split([' ', '(', '<', ';']).next())
}

#[test]
fn every_part_has_mutants_with_unique_names() {
    let mutants = table::all();
    let mut names: Vec<&str> = mutants.iter().map(|mutant| mutant.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), mutants.len());
    for part in ["domain", "provider", "gateway", "edge", "store", "core", "app"] {
        let of_part = |mutant: &&Mutant| Path::new(&mutant.file).starts_with("src") && mutant.part() == part;
        assert!(mutants.iter().any(|mutant| of_part(&mutant)), "{part}");
    }
}

#[test]
#[ignore = "builds the program once for each mutant: make mutants"]
fn no_mutant_survives() {
    let words = std::env::var("MUTANTS").unwrap_or_default();
    let is_meant = |one: &Mutant| words.split(',').any(|word| one.name.contains(word) || one.file.contains(word));
    let mutants: Vec<Mutant> = table::all().into_iter().filter(is_meant).collect();
    let scratch = Scratch::new(&table::root());
    let unmutated = scratch.check(&mutants);
    assert!(unmutated.is_empty(), "fail without any mutant:\n{}", unmutated.join("\n"));
    let mut faults = Vec::new();
    for (number, mutant) in mutants.iter().enumerate() {
        let outcome = scratch.run(mutant);
        println!("{}/{} {outcome:?}: {} ({})", number + 1, mutants.len(), mutant.name, mutant.file);
        let fault = match (outcome, &mutant.survives) {
            (Outcome::Killed, None) | (Outcome::Survived, Some(_)) => continue,
            (Outcome::Killed, Some(_)) => "is killed, and the table explains why it survives",
            (Outcome::Survived, None) => "survives",
            (Outcome::DoesNotBuild, _) => "does not build",
            (Outcome::NothingRan, _) => "has filters that match no test",
        };
        faults.push(format!("{} ({}) {fault}", mutant.name, mutant.file));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}
