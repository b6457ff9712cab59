//! Checks that the tests that docs/explanation/protocol.md and docs/explanation/threats.md name
//! exist in the files that they name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the names of the tests in a file, or nothing if it does not exist. The path is relative
/// to `tests/`, unless it starts with `src/`.
fn tests_of(file: &str) -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = if file.starts_with("src/") { root.join(file) } else { root.join("tests").join(file) };
    names_of_tests(&fs::read_to_string(path).unwrap_or_default())
}

/// Returns the functions with a test attribute, and the identifiers on lines of their own in calls
/// of a macro that generates tests.
fn names_of_tests(source: &str) -> BTreeSet<String> {
    let is_attribute = |line: &str| line.starts_with("#[test]") || line.starts_with("#[tokio::test");
    let identifier = |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let (mut names, mut is_test, mut in_macro, mut defines) = (BTreeSet::new(), false, false, false);
    for line in source.lines() {
        let words = line.trim();
        match line {
            "}" => (in_macro, defines) = (false, false),
            // The body of the macro has the attribute, but no test names.
            _ if line.starts_with("macro_rules!") => defines = true,
            _ if line.ends_with("! {") && !line.starts_with(' ') => in_macro = true,
            _ => {}
        }
        if in_macro && line.starts_with(' ') {
            let name = identifier(words);
            if matches!(words.strip_prefix(name.as_str()), Some("" | ":")) || words.starts_with(&format!("{name}: ")) {
                names.insert(name);
            }
        } else if is_attribute(words) {
            is_test = !defines;
        } else if let Some((_, rest)) = words.split_once("fn ").filter(|_| is_test) {
            names.insert(identifier(rest));
            is_test = false;
        }
    }
    names
}

/// Returns the words in backquotes, without the backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Result of looking for the test names of a document: the number of names found, and errors for
/// missing names.
#[derive(Default)]
struct Resolved {
    found: usize,
    faults: Vec<String>,
}

impl Resolved {
    /// Looks for tests whose names begin with these words. Records an error if there are none.
    fn look_for(&mut self, file: &str, words: &str) {
        let words = words.trim_end_matches('…');
        if tests_of(file).iter().any(|name| name.starts_with(words)) {
            self.found += 1;
        } else {
            self.faults.push(format!("no test of {file} begins with {words}"));
        }
    }

    fn fault(&mut self, what: String) {
        self.faults.push(what);
    }
}

/// Returns the last cells of all tables whose last column is headed `test`, each with its row.
fn cells_of_tests(document: &str) -> Vec<(&str, &str)> {
    let mut cells = Vec::new();
    let mut names_tests = false;
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        let Some(row) = line.strip_prefix('|').and_then(|row| row.trim_end().strip_suffix('|')) else { continue };
        let (_, cell) = row.rsplit_once('|').unwrap();
        if lines.peek().is_some_and(|next| next.starts_with("|-")) {
            names_tests = cell.trim() == "test";
            lines.next();
        } else if names_tests {
            cells.push((row, cell.trim()));
        }
    }
    cells
}

/// Checks docs/explanation/protocol.md, whose cells are `file: id, id … id · file: id`. A file
/// without a folder is in `tests/http`. A file in `src/` contains unit tests.
fn resolved_in_protocol(document: &str) -> Resolved {
    let mut resolved = Resolved::default();
    for (row, cell) in cells_of_tests(document) {
        for part in cell.split('·') {
            let Some((file, ids)) = part.split_once(": ") else {
                resolved.fault(format!("a part without a file and an id: {row}"));
                continue;
            };
            let file = file.trim();
            let file = if file.contains('/') { format!("{file}.rs") } else { format!("http/{file}.rs") };
            for id in quoted(ids) {
                resolved.look_for(&file, id);
            }
            // Each number of a range must have a test.
            for (before, after) in
                ids.match_indices(" … ").map(|(at, between)| (&ids[..at], &ids[at + between.len()..]))
            {
                let end = |id: Option<&str>| -> Option<(String, u32)> {
                    let (word, number) = id?.rsplit_once('_')?;
                    Some((word.to_owned(), number.parse().ok()?))
                };
                match (end(quoted(before).last()), end(quoted(after).next())) {
                    (Some((word, first)), Some((last_word, last))) if word == last_word && first < last => {
                        (first..=last).for_each(|number| resolved.look_for(&file, &format!("{word}_{number:02}")));
                    }
                    _ => resolved.fault(format!("no group of tests: {ids}")),
                }
            }
            if quoted(ids).next().is_none() {
                resolved.fault(format!("a file without an id: {row}"));
            }
        }
    }
    resolved
}

/// Checks a page of the threat model, whose cells are `tests/file.rs: name` or `src/file.rs: name`.
/// A threat without a countermeasure has no test.
fn resolved_in_threats(document: &str) -> Resolved {
    let mut resolved = Resolved::default();
    for (row, cell) in cells_of_tests(document) {
        if cell.is_empty() && row.contains("nothing can be done here") {
            continue;
        }
        if quoted(cell).next().is_none() {
            resolved.fault(format!("a row without a test: {row}"));
        }
        for quote in quoted(cell) {
            match quote.split_once(": ") {
                Some((file, name)) if file.starts_with("src/") => resolved.look_for(file, name),
                Some((file, name)) if file.starts_with("tests/") => resolved.look_for(&file["tests/".len()..], name),
                _ => resolved.fault(format!("no file and test: {quote}")),
            }
        }
    }
    resolved
}

#[test]
fn every_test_named_in_the_threat_model_exists() {
    let (model, directories, upstreams, agents, clients, logouts, api, managers) = (
        include_str!("../../docs/explanation/threats.md"),
        include_str!("../../docs/explanation/directory-threats.md"),
        include_str!("../../docs/explanation/upstream-threats.md"),
        include_str!("../../docs/explanation/agent-threats.md"),
        include_str!("../../docs/explanation/client-threats.md"),
        include_str!("../../docs/explanation/logout-threats.md"),
        include_str!("../../docs/explanation/api-threats.md"),
        include_str!("../../docs/explanation/user-manager-threats.md"),
    );
    let others =
        [(directories, 10), (upstreams, 10), (agents, 5), (clients, 8), (logouts, 5), (api, 10), (managers, 8)];
    for (page, least) in [(model, 40)].into_iter().chain(others) {
        let resolved = resolved_in_threats(page);
        assert!(resolved.faults.is_empty(), "{}", resolved.faults.join("\n"));
        assert!(resolved.found > least, "the names were not found: {}", resolved.found);
    }
}

#[test]
fn every_test_named_in_the_protocol_rules_exists() {
    let pages = concat!(
        include_str!("../../docs/explanation/protocol.md"),
        include_str!("../../docs/explanation/protocol-tokens.md")
    );
    let resolved = resolved_in_protocol(pages);
    assert!(resolved.faults.is_empty(), "docs/explanation/protocol*.md: {}", resolved.faults.join("\n"));
    assert!(resolved.found > 300, "the names were not found: {}", resolved.found);
}

/// Each figure needs a date and a command that can reproduce it.
#[test]
fn each_section_of_figures_has_a_date_and_commands_that_select_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = [
        include_str!("../../docs/explanation/performance.md"),
        include_str!("../../docs/explanation/performance-service.md"),
        include_str!("../../docs/explanation/durability.md"),
    ];
    for section in pages.iter().flat_map(|page| page.split("\n## ").skip(1)) {
        assert!(section.contains("Measured on 2026-"), "no day: {}", section.lines().next().unwrap());
    }
    let document = pages.concat();
    let document = document.as_str();
    let mut found = 0;
    for command in quoted(document).filter(|quote| quote.contains("cargo test")) {
        let (_, rest) = command.split_once("--test ").unwrap_or_else(|| panic!("no target: {command}"));
        let mut words = rest.split_whitespace().filter(|word| !word.starts_with('-'));
        let target = words.next().unwrap();
        let folder = fs::read_dir(root.join("tests").join(target)).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = folder.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect();
        for word in words {
            let is_module = files.iter().any(|file| file.file_stem().is_some_and(|stem| stem == word));
            let names = files.iter().flat_map(|file| names_of_tests(&fs::read_to_string(file).unwrap()));
            assert!(is_module || names.into_iter().any(|name| name.contains(word)), "{command} finds no {word}");
            found += 1;
        }
    }
    assert!(found > 8, "the commands were not found: {found}");
}

#[test]
fn a_test_named_in_the_wrong_file_is_reported() {
    let table = |cell: &str| format!("| rule | test |\n|---|---|\n| a rule | {cell} |\n");
    let faults = |cell: &str| resolved_in_protocol(&table(cell)).faults.len();
    assert_eq!(faults("token: `tok_01`, `tok_02` · blackbox/bodies: `tok_22`"), 0);
    assert_eq!(faults("session: `sess_01` … `sess_03`"), 0);
    for cell in [
        "",
        "refresh",
        "refresh: of those",
        "refresh: `tok_01`",
        "tokens: `tok_01`",
        "token: `tok_01` · bodies: `tok_22`",
        "token: `the_token_endpoints_tests`",
        "redirect_uri: `auth_04` … `auth_14`",
        "session: `sess_03` … `auth_04`",
    ] {
        assert_ne!(faults(cell), 0, "{cell}");
    }
    let faults = |cell: &str| resolved_in_threats(&table(cell)).faults.len();
    assert_eq!(faults("`tests/signer/answers.rs: a_wrong_signature_is_never_returned`"), 0);
    for cell in [
        "",
        "`a_wrong_signature_is_never_returned`",
        "`tests/signer/faults.rs: a_wrong_signature_is_never_returned`",
        "`tests/signer/answer.rs: a_wrong_signature_is_never_returned`",
    ] {
        assert_ne!(faults(cell), 0, "{cell}");
    }
}

#[test]
fn other_identifiers_are_not_taken_for_test_names() {
    let source = "fn helper() {}\n#[test]\nfn one() {}\n    #[tokio::test(flavor = \"x\")]\n    #[ignore = \"y\"]\n    \
        async fn two() {\nlet three = 1;\nmacro_rules! m {\n    #[test]\n    fn four() {}\n}\nm! {\n    five\n    six: x;\n}\nfn seven() {}\n";
    let names: Vec<_> = names_of_tests(source).into_iter().collect();
    assert_eq!(names, ["five", "one", "six", "two"]);
}
