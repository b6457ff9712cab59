//! Checks that public items have a doc comment: modules, types, traits, functions and constants.
//!
//! This is the lint `missing_docs` of rustc without fields and variants. For most fields and
//! variants, a comment could only repeat the name.

/// First words of a declaration after `pub`.
const ITEMS: &[&str] =
    &["async", "const", "enum", "extern", "fn", "mod", "static", "struct", "trait", "type", "union", "unsafe"];

/// First words of a declaration in a trait.
const MEMBERS: &[&str] = &["async", "const", "fn", "type", "unsafe"];

/// Returns the declaration in a line, if it needs a doc comment.
fn declaration(line: &str, is_in_trait: bool) -> Option<&str> {
    let code = line.trim_start();
    let first = |code: &str| code.split(' ').next().unwrap_or_default().to_owned();
    let member = line.strip_prefix("    ").filter(|code| is_in_trait && MEMBERS.contains(&first(code).as_str()));
    // The comment of a module in a file of its own is in that file.
    let is_public =
        |code: &&str| ITEMS.contains(&first(code).as_str()) && !(code.starts_with("mod ") && code.ends_with(';'));
    member.or_else(|| code.strip_prefix("pub ").filter(is_public))
}

/// Returns the number of public items in a file without its tests, and the lines and declarations
/// of the items without a doc comment.
fn items(text: &str) -> (usize, Vec<(usize, &str)>) {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let (mut count, mut undocumented) = (0, Vec::new());
    let (mut has_comment, mut is_in_attribute, mut is_in_trait) = (false, false, false);
    for (number, line) in (1..).zip(text.lines()) {
        let code = line.trim_start();
        if is_in_attribute || code.starts_with("#[") {
            is_in_attribute = !code.ends_with(']');
            continue;
        }
        if code.starts_with("//") {
            has_comment |= code.starts_with("///");
            continue;
        }
        if let Some(declaration) = declaration(line, is_in_trait) {
            count += 1;
            if !has_comment {
                undocumented.push((number, declaration));
            }
        }
        has_comment = false;
        is_in_trait = (is_in_trait && line != "}") || (line.starts_with("pub trait ") && line.ends_with('{'));
    }
    (count, undocumented)
}

#[test]
fn items_without_a_doc_comment_are_detected() {
    let text = "/// A.\n#[derive(\n    Debug,\n)]\npub struct A {\n    pub b: u8,\n}\npub mod c;\npub mod d {\n}\n\
                pub trait E {\n    /// F.\n    fn f(&self) {\n        drop(());\n    }\n    fn g(&self);\n}\nimpl A {\n    \
                /// H.\n    // Reason.\n    pub const fn h() {}\n    fn i() {}\n    pub async fn j() {}\n}\npub(crate) fn k() {}\n\
                pub const L: u8 = 0;\n#[cfg(test)]\nmod tests {\n    pub fn m() {}\n}\n";
    let (count, undocumented) = items(text);
    let undocumented: Vec<_> = undocumented.into_iter().map(|(_, declaration)| declaration).collect();
    assert_eq!(undocumented, ["mod d {", "trait E {", "fn g(&self);", "async fn j() {}", "const L: u8 = 0;"]);
    assert_eq!(count, 8);
}

#[test]
fn all_public_items_have_a_doc_comment() {
    let (mut all, mut faults) = (0, Vec::new());
    for (file, text) in super::sources() {
        if file.ends_with("tests.rs") {
            continue;
        }
        let file = file.display();
        if !text.starts_with("//!") {
            faults.push(format!("{file}: the module"));
        }
        let (count, undocumented) = items(&text);
        all += count;
        faults.extend(undocumented.iter().map(|(line, declaration)| format!("{file}:{line}: {declaration}")));
    }
    assert!(all > 1000, "the items were not found: {all}");
    assert!(faults.is_empty(), "these have no doc comment (CONTRIBUTING.md, Style):\n{}", faults.join("\n"));
}
