//! Compares docs/reference/http-errors.md with the error codes and reasons in the source.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Functions whose string literals are error codes.
const CODES: &[(&str, &str)] =
    &[("src/domain/error.rs", "const fn as_str("), ("src/edge/refusal.rs", "fn wording(status: StatusCode)")];

/// Functions whose string literals are reasons of the gateway.
const REASONS: &[(&str, &str)] = &[
    ("src/gateway/policy.rs", "const fn as_str("),
    ("src/gateway/reading.rs", "const fn as_str("),
    ("src/domain/oauth/trusted_token.rs", "const fn as_str("),
];

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// Returns whether a string literal is a code and not a sentence.
fn is_code(literal: &str) -> bool {
    !literal.is_empty()
        && literal.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// Returns the codes among the string literals of a function.
fn codes_of(text: &str, function: &str) -> BTreeSet<String> {
    let body = text.split_once(function).unwrap_or_else(|| panic!("there is no {function}")).1;
    let end = body.lines().take_while(|line| !matches!(*line, "}" | "    }"));
    let literals = end.flat_map(|line| line.split('"').skip(1).step_by(2));
    literals.filter(|literal| is_code(literal)).map(str::to_owned).collect()
}

/// Returns the codes in the first column of the tables below a heading.
fn documented(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.lines().skip_while(|line| *line != heading).skip(1).take_while(|line| !line.starts_with("## "));
    let first = section.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    first.filter(|code| !matches!(*code, "error" | "reason")).map(str::to_owned).collect()
}

fn assert_same(what: &str, documented: &BTreeSet<String>, found: &BTreeSet<String>) {
    let missing: Vec<_> = found.difference(documented).collect();
    assert!(missing.is_empty(), "docs/reference/http-errors.md lacks these {what}: {missing:?}");
    let stale: Vec<_> = documented.difference(found).collect();
    assert!(stale.is_empty(), "docs/reference/http-errors.md has {what} that the program lacks: {stale:?}");
}

#[test]
fn each_error_code_is_documented() {
    let found: BTreeSet<String> = CODES.iter().flat_map(|(file, function)| codes_of(&read(file), function)).collect();
    assert!(found.contains("invalid_grant") && found.contains("bad_gateway"), "{found:?}");
    assert_same("error codes", &documented(&read("docs/reference/http-errors.md"), "## Error codes"), &found);
}

#[test]
fn each_reason_of_the_gateway_is_documented() {
    let mut found: BTreeSet<String> = REASONS.iter().flat_map(|(file, name)| codes_of(&read(file), name)).collect();
    for (path, text) in super::sources() {
        if path.starts_with("src/gateway") {
            let reasons = text.split("reason = \"").skip(1).filter_map(|rest| rest.split('"').next());
            found.extend(reasons.filter(|reason| is_code(reason)).map(str::to_owned));
        }
    }
    assert!(found.contains("unopened") && found.contains("dot_segment"), "{found:?}");
    assert_same("reasons", &documented(&read("docs/reference/http-errors.md"), "## Reasons"), &found);
}

#[test]
fn error_codes_are_extracted_from_code_and_page() {
    let text = "const fn as_str(self) {\n    \"a_b\" => (\"c\", \"A sentence.\"),\n}\nfn other() { \"d\" }\n";
    assert_eq!(codes_of(text, "const fn as_str("), ["a_b", "c"].map(String::from).into());
    let page = "## One\n| `error` | s |\n| `a` | `x` |\n## Two\n| `b` | |\n";
    assert_eq!(documented(page, "## One"), ["a"].map(String::from).into());
}
