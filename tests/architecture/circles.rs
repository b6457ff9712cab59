//! No two files of the crate need each other, be it by way of others: read off the `use` lines and paths of the sources.

use std::collections::{BTreeMap, BTreeSet};

use super::{module, sources, without_comments};

/// What one file names, as paths from the crate's root.
struct File<'a> {
    module: &'a str,
    modules: &'a BTreeSet<String>,
    named: Vec<String>,
    /// What it shows of other files, by name: for whoever asks it for that name, and no need of its own.
    shown: BTreeMap<String, String>,
}

impl<'a> File<'a> {
    fn read(module: &'a str, modules: &'a BTreeSet<String>, source: &str) -> Self {
        let mut file = Self { module, modules, named: Vec::new(), shown: BTreeMap::new() };
        // Tests within a file may name whatever they like.
        let code = without_comments(source.split("#[cfg(test)]\nmod ").next().unwrap());
        let mut rest = String::new();
        for statement in code.split(';') {
            let last_line = statement.rfind("\nuse ").max(statement.rfind("\npub use "));
            let last_line = last_line.max(statement.rfind("\npub(crate) use ")).map(|at| at + 1);
            let at = last_line.or_else(|| statement.starts_with("use ").then_some(0));
            let Some((visibility, tree)) = at.and_then(|at| statement[at..].split_once("use ")) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(&statement[..at.unwrap()]);
            file.read_use("", &tree.split_whitespace().collect::<Vec<_>>().join(" "), !visibility.is_empty());
        }
        for path in rest.split(|char: char| !char.is_alphanumeric() && char != '_' && char != ':') {
            if path.contains("::") {
                file.named.extend(file.absolute(path.trim_end_matches(':')));
            }
        }
        file
    }

    /// One of `a::b`, `a::b as c` and `a::{…}`.
    fn read_use(&mut self, before: &str, tree: &str, shows: bool) {
        if let Some((path, list)) = tree.strip_suffix('}').and_then(|tree| tree.split_once('{')) {
            let mut depth = 0;
            let parts = list.split(|char| {
                depth += i32::from(char == '{') - i32::from(char == '}');
                char == ',' && depth == 0
            });
            let before = format!("{before}{path}");
            parts.for_each(|part| self.read_use(&before, part.trim(), shows));
            return;
        }
        let (path, name) = tree.split_once(" as ").unwrap_or((tree, tree.rsplit("::").next().unwrap()));
        let path = format!("{before}{path}");
        let Some(path) = self.absolute(path.trim_end_matches("::self").trim_end_matches("::*")) else { return };
        if shows {
            self.shown.insert(name.to_owned(), path);
        } else {
            self.named.push(path);
        }
    }

    /// A path from the crate's root; none for what is not ours.
    fn absolute(&self, path: &str) -> Option<String> {
        let (first, rest) = path.split_once("::").unwrap_or((path, ""));
        let join = |base: &str, rest: &str| [base, rest].join("::").trim_matches(':').to_owned();
        match first {
            "crate" => Some(rest.to_owned()),
            "self" => Some(join(self.module, rest)),
            "super" => {
                let (mut base, mut rest) = (self.module, path);
                while let Some(above) = rest.strip_prefix("super") {
                    base = base.rsplit_once("::").map_or("", |(above, _)| above);
                    rest = above.trim_start_matches("::");
                }
                Some(join(base, rest))
            }
            _ => self.modules.contains(&join(self.module, first)).then(|| join(self.module, path)),
        }
    }
}

/// Each module, and the modules that it needs. What a module only shows is looked up where it is.
fn needs() -> BTreeMap<String, BTreeSet<String>> {
    let sources: Vec<_> = sources().into_iter().map(|(file, source)| (module(&file), source)).collect();
    let modules: BTreeSet<String> = sources.iter().map(|(module, _)| module.clone()).collect();
    let files: BTreeMap<&str, File<'_>> =
        sources.iter().map(|(module, source)| (module.as_str(), File::read(module, &modules, source))).collect();
    let home = |path: &str| {
        let mut path = path.to_owned();
        // As often as a name is shown on.
        for _ in 0..8 {
            let ends = path.match_indices("::").map(|(at, _)| at).chain([path.len()]);
            let known = ends.filter(|end| modules.contains(&path[..*end])).last()?;
            let (module, rest) = (&path[..known], path[known..].trim_start_matches("::"));
            let (name, rest) = rest.split_once("::").unwrap_or((rest, ""));
            match files[module].shown.get(name) {
                Some(other) => path = format!("{other}::{rest}").trim_end_matches(':').into(),
                None => return Some(module.to_owned()),
            }
        }
        None
    };
    let needs =
        |file: &File<'_>| file.named.iter().filter_map(|path| home(path)).filter(|to| to != file.module).collect();
    files.iter().map(|(module, file)| ((*module).to_owned(), needs(file))).collect()
}

/// Everything that can be reached from a module.
fn reached<'a>(needs: &'a BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = needs[from].iter().map(String::as_str).collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(needs[module].iter().map(String::as_str));
        }
    }
    reached
}

#[test]
fn no_two_files_need_each_other() {
    let needs = needs();
    assert!(needs.values().map(BTreeSet::len).sum::<usize>() > 500, "the sources were not read");
    let mut circles = BTreeMap::new();
    for module in needs.keys() {
        let reached_from_it = reached(&needs, module);
        if reached_from_it.contains(module.as_str()) {
            let with: Vec<&String> =
                needs[module].iter().filter(|other| reached(&needs, other).contains(module.as_str())).collect();
            circles.insert(module.as_str(), with);
        }
    }
    assert!(circles.is_empty(), "these need each other: {circles:#?}");
}
