//! Copy of the source tree with a separate target directory. Builds one mutant at a time in it and
//! runs its tests.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::table::Mutant;

/// Maximum duration of a mutant's build and of its tests. A test that exceeds it counts as failed.
const LONGEST: Duration = Duration::from_mins(20);

/// Result of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A test failed or hung.
    Killed,
    /// All tests passed.
    Survived,
    /// The mutant does not compile.
    DoesNotBuild,
    /// The filters match no test.
    NothingRan,
}

/// Copy of the source tree, removed on drop.
pub(crate) struct Scratch {
    tree: PathBuf,
    target: PathBuf,
    _place: TempDir,
}

impl Scratch {
    /// Copies tracked and untracked files that git does not ignore, and the build artifacts.
    pub(crate) fn new(root: &Path) -> Self {
        // The copy is not in /tmp, because that may be in memory. It takes several gigabytes.
        fs::create_dir_all(root.join("target")).unwrap();
        let place = tempfile::Builder::new().prefix("mutants-").tempdir_in(root.join("target")).unwrap();
        let (tree, target) = (place.path().join("tree"), place.path().join("target"));
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()
            .unwrap();
        assert!(listed.status.success(), "git lists no files");
        for name in String::from_utf8(listed.stdout).unwrap().split('\0').filter(|name| !name.is_empty()) {
            if root.join(name).is_file() {
                let copy = tree.join(name);
                fs::create_dir_all(copy.parent().unwrap()).unwrap();
                fs::copy(root.join(name), copy).unwrap();
            }
        }
        fs::create_dir_all(target.join("debug")).unwrap();
        for built in ["deps", "build", ".fingerprint"] {
            let from = root.join("target/debug").join(built);
            if from.is_dir() {
                let copied = Command::new("cp").arg("-a").arg(from).arg(target.join("debug")).status().unwrap();
                assert!(copied.success(), "the build was not copied");
            }
        }
        Self { tree, target, _place: place }
    }

    /// Runs the tests of these mutants on the unchanged source and returns the failures.
    pub(crate) fn check(&self, mutants: &[Mutant]) -> Vec<String> {
        let mut filters: BTreeMap<Vec<String>, Vec<&str>> = BTreeMap::new();
        for mutant in mutants {
            filters.entry(mutant.target()).or_default().extend(mutant.filters.iter().map(String::as_str));
        }
        let outcomes = filters.into_iter().map(|(target, filters)| (target.join(" "), self.test(&target, &filters)));
        outcomes
            .filter(|(_, (outcome, _))| *outcome != Outcome::Survived)
            .map(|(test, (outcome, told))| format!("{test}: {outcome:?}\n{told}"))
            .collect()
    }

    /// Builds a mutant and runs its tests.
    pub(crate) fn run(&self, mutant: &Mutant) -> Outcome {
        let file = self.tree.join(&mutant.file);
        let source = fs::read_to_string(&file).unwrap();
        fs::write(&file, mutant.applied(&source)).unwrap();
        let filters: Vec<&str> = mutant.filters.iter().map(String::as_str).collect();
        let (outcome, told) = self.test(&mutant.target(), &filters);
        fs::write(&file, source).unwrap();
        if outcome == Outcome::DoesNotBuild {
            println!("{told}");
        }
        outcome
    }

    fn test(&self, target: &[String], filters: &[&str]) -> (Outcome, String) {
        let target: Vec<&str> = target.iter().map(String::as_str).collect();
        let build = self.cargo(&[&["--no-run"], &target[..]].concat());
        let Some(build) = build else { return (Outcome::DoesNotBuild, "the build took too long".to_owned()) };
        if !build.status.success() {
            return (Outcome::DoesNotBuild, String::from_utf8_lossy(&build.stderr).into_owned());
        }
        let Some(run) = self.cargo(&[&target[..], &["--"], filters].concat()) else {
            return (Outcome::Killed, "it hangs".to_owned());
        };
        let told = String::from_utf8_lossy(&run.stdout).into_owned();
        let outcome = match () {
            () if !run.status.success() => Outcome::Killed,
            () if told.contains("running 0 tests") => Outcome::NothingRan,
            () => Outcome::Survived,
        };
        (outcome, told)
    }

    /// Runs `cargo test`. Returns `None` on a timeout.
    fn cargo(&self, arguments: &[&str]) -> Option<Output> {
        let told = |name: &str| fs::File::create(self.target.join(name)).unwrap();
        let mut child = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["test", "--quiet", "--locked"])
            .args(arguments.iter().filter(|one| **one != "--quiet"))
            .env("CARGO_TARGET_DIR", &self.target)
            .env_remove("MUTANTS")
            .current_dir(&self.tree)
            .stdin(Stdio::null())
            .stdout(told("stdout"))
            .stderr(told("stderr"))
            .spawn()
            .unwrap();
        let deadline = Instant::now() + LONGEST;
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                kill_with_its_children(child.id()).unwrap();
                child.wait().unwrap();
                return None;
            }
            thread::sleep(Duration::from_millis(200));
        };
        let read = |name: &str| fs::read(self.target.join(name)).unwrap_or_default();
        Some(Output { status, stdout: read("stdout"), stderr: read("stderr") })
    }
}

/// Kills the process and its descendants, because cargo does not forward signals to the tests.
fn kill_with_its_children(parent: u32) -> io::Result<()> {
    for child in fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"))?.split_whitespace() {
        if let Ok(child) = child.parse() {
            let _ = kill_with_its_children(child);
        }
    }
    Command::new("kill").args(["-9", &parent.to_string()]).status().map(|_| ())
}
