//! Table of mutants: the guard that each removes, and the tests that must detect it.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A mutant: one guard, removed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Mutant {
    /// Name of the mutant: the behaviour of the program without the guard.
    pub(crate) name: String,
    /// Path of the source file.
    pub(crate) file: String,
    /// Text that must occur exactly once in the file.
    pub(crate) old: String,
    /// Replacement text.
    pub(crate) new: String,
    /// Target whose tests must fail: `lib`, or a target in `tests`.
    pub(crate) test: String,
    /// Names of the tests that must fail, or parts of these names.
    pub(crate) filters: Vec<String>,
    /// Reason why no test fails, if that is correct.
    pub(crate) survives: Option<String>,
}

#[derive(Deserialize)]
struct Table {
    mutant: Vec<Mutant>,
}

impl Mutant {
    /// Returns the module or crate that contains the source file.
    pub(crate) fn part(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default().trim_end_matches(".rs")
    }

    /// Returns the folder with the tests of the target.
    pub(crate) fn folder(&self) -> PathBuf {
        if self.test == "lib" { Path::new("src").join(self.part()) } else { Path::new("tests").join(&self.test) }
    }

    /// Returns the arguments of cargo that select the target. Unit tests are in the mutant's crate.
    pub(crate) fn target(&self) -> Vec<String> {
        let of_crate = format!("sealgate-{}", self.part().replace('_', "-"));
        let target =
            if self.test == "lib" { vec!["--package", &of_crate, "--lib"] } else { vec!["--test", &self.test] };
        target.into_iter().map(str::to_owned).collect()
    }

    /// Returns the source without the guard.
    pub(crate) fn applied(&self, source: &str) -> String {
        source.replacen(&self.old, &self.new, 1)
    }

    /// Returns the error in this row, if any.
    pub(crate) fn fault(&self, root: &Path) -> Option<String> {
        let source = fs::read_to_string(root.join(&self.file)).unwrap_or_default();
        let why = match source.matches(&self.old).count() {
            1 if self.old == self.new => "changes nothing".to_owned(),
            1 if self.filters.is_empty() => "names no test".to_owned(),
            1 => return None,
            count => format!("the source contains its text {count} times; update it"),
        };
        Some(format!("{} ({}): {why}", self.name, self.file))
    }
}

/// Returns the root directory of the project.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all rows, in the order of the files.
pub(crate) fn all() -> Vec<Mutant> {
    let rows = fs::read_dir(root().join("tests/mutants")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = rows.filter(|file| file.extension().is_some_and(|kind| kind == "toml")).collect();
    files.sort();
    let read = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        toml::from_str::<Table>(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display())).mutant
    };
    files.into_iter().flat_map(read).collect()
}
