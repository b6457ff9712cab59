//! Texts: each page in its own language, and all texts in the message files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use sealgate_config::Language;

use crate::build_script::methods;
use crate::markup::text;
use crate::sample::{Sample, every_page, page, pages};

#[test]
fn names_are_isolated_with_bdi() {
    for name in ["consent.en", "consent.tr", "login.en", "login.tr", "forbidden.tr", "logout.en"] {
        assert!(page(name).contains("<bdi>Wiki</bdi>"), "{name}");
    }
}

#[test]
fn no_turkish_suffix_is_appended_to_a_name() {
    for line in include_str!("../../src/pages/words/tr.ftl").lines().filter(|line| !line.starts_with('#')) {
        for after in line.split('}').skip(1) {
            let after = after.trim_start_matches("</bdi>");
            assert!(!after.starts_with(|c: char| c.is_alphabetic() || "'’-".contains(c)), "{line}");
        }
    }
}

#[test]
fn templates_contain_no_text() {
    for (path, mut template) in templates() {
        for (open, close) in [("{%", "%}"), ("{{", "}}")] {
            while let Some(start) = template.find(open) {
                let end = start + template[start..].find(close).expect("a tag ends") + close.len();
                template.replace_range(start..end, "");
            }
        }
        assert_eq!(text(&template), "", "{}", path.display());
    }
}

#[test]
fn every_page_uses_messages_of_its_language() {
    let english = every_page(&Sample::plain(), Language::English);
    for ((name, turkish), (_, english)) in every_page(&Sample::plain(), Language::Turkish).into_iter().zip(english) {
        let heading = |html: &str| {
            let start = html.find("<h1>").unwrap();
            text(&html[start..html.find("</h1>").unwrap()])
        };
        // The heading of the page of a client or user is its name.
        let named = heading(&turkish) == Sample::plain().client || heading(&turkish) == Sample::plain().person;
        assert!(named || heading(&turkish) != heading(&english), "{name}");
        assert_ne!(text(&turkish), text(&english), "{name}");
        for html in [turkish, english] {
            assert!(!html.contains("{$") && !html.contains("{ $"), "{name}: an argument is missing");
        }
    }
}

#[test]
fn the_language_follows_ui_locales_then_the_saved_choice_then_the_browser() {
    let pages = pages("Acme", Language::English);
    assert_eq!(pages.language(Some("tr"), Some("en"), Some("en")), Language::Turkish);
    assert_eq!(pages.language(None, Some("tr"), Some("en")), Language::Turkish);
    assert_eq!(pages.language(None, None, Some("tr")), Language::Turkish);
    assert_eq!(pages.language(None, None, None), Language::English);
    assert_eq!(pages.language(Some("se"), Some("xx"), Some("tr")), Language::Turkish, "unknown ones are passed over");
    assert_eq!(pages.language(Some("se de tr en"), None, None), Language::Turkish);
    assert_eq!(pages.language(Some(""), Some(""), Some("")), Language::English);
}

/// A wrong order of arguments compiles, because most of them have the same type.
#[test]
fn arguments_are_in_the_order_of_their_names() {
    let mut arguments = BTreeMap::<String, BTreeSet<String>>::new();
    let mut message = String::new();
    for line in include_str!("../../src/pages/words/en.ftl").lines().filter(|line| !line.starts_with('#')) {
        if let Some((id, _)) = line.split_once(" =").filter(|_| !line.starts_with(' ')) {
            message = id.replace('-', "_");
        }
        let names = line.split("{ $").skip(1).map(|rest| words(rest).next().unwrap().to_owned());
        arguments.entry(message.clone()).or_default().extend(names);
    }
    let mut count = 0;
    for (path, text) in files(&source(""), &["rs", "html"]) {
        for (at, _) in text.match_indices('(') {
            let before = &text[..at];
            let method = before.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap();
            let Some(names) = arguments.get(method).filter(|names| names.len() > 1) else { continue };
            if !before.ends_with(&format!(".{method}")) {
                continue;
            }
            count += 1;
            for (given, name) in list(&text[at + 1..]).iter().zip(names) {
                let has = |name: &String| words(given).any(|word| word == name);
                let other = names.iter().find(|other| *other != name && has(other) && !has(name));
                assert_eq!(other, None, "{}: {method} expects {names:?}, and {given:?} is {name}", path.display());
            }
        }
    }
    assert!(count > 50, "{count} calls");
}

/// Returns the names in an expression.
fn words(expression: &str) -> impl Iterator<Item = &str> {
    expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the arguments of a call. `text` begins after the opening parenthesis.
fn list(text: &str) -> Vec<&str> {
    let (mut depth, mut start, mut found) = (0, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            ')' | ']' | '}' if depth == 0 => {
                found.push(&text[start..at]);
                break;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// Returns the build's errors for an English and a Turkish file.
fn faults(english: &str, turkish: &str) -> String {
    methods(&[english.into(), turkish.into()]).err().unwrap_or_default().join("\n")
}

#[test]
fn the_build_reports_the_file_and_message_of_an_error() {
    let sound = "go = Go to <bdi>{ $name }</bdi>.\n";
    assert_eq!(faults(sound, "go = <bdi>{ $name }</bdi> açılsın.\n"), "");
    for (english, turkish, fault) in [
        (sound, "", "words/tr.ftl lacks the message go"),
        ("", sound, "words/en.ftl lacks the message go"),
        (sound, "go = { $app } açılsın.\n", "go has the arguments [\"name\"] in en.ftl and [\"app\"] in tr.ftl"),
        (sound, "go = Açılsın.\n", "go has the arguments [\"name\"] in en.ftl and [] in tr.ftl"),
        (sound, "go = { $name\n", "words/tr.ftl, line 1: "),
        ("go = One\ngo = Two\n", "go = Bir\n", "words/en.ftl: the message go is defined twice"),
        ("go =\n    .title = One\n", "go = Bir\n", "en.ftl: the message go has no text, or has attributes"),
        ("-brand = Acme\n", "", "en.ftl: the message brand is a term"),
        ("go = { NUMBER($name) }\n", "go = { $name }\n", "en.ftl: the message go uses other syntax than"),
        ("go = <b>Go</b>\n", "go = Git\n", "en.ftl: the message go holds a tag other than <bdi> and <code>"),
        ("go = <bdi>Go\n", "go = Git\n", "en.ftl: the message go does not close a tag"),
        (
            "go = <bdi><code>Go</code></bdi>\n",
            "go = Git\n",
            "en.ftl: the message go does not close a tag before the next",
        ),
        ("go = Go\n", "go = \"Git\"\n", "tr.ftl: the message go contains an ASCII quote or &"),
    ] {
        let found = faults(english, turkish);
        assert!(found.contains(fault), "{fault:?} is not in {found:?}");
    }
}

#[test]
fn a_plural_message_takes_a_number_in_both_languages() {
    let english = "wait =\n    { $n ->\n        [one] a second\n       *[other] { $n } seconds\n    }\n";
    let code = methods(&[english.into(), "wait = { $n } saniye\n".into()]).unwrap();
    assert!(code.contains("fn wait(&self, n: impl std::borrow::Borrow<u64>) -> Markup"), "{code}");
    assert!(code.contains(r#"match n { 1 => format!("a second"), _ => format!("{n} seconds") }"#), "{code}");
}

fn source(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pages").join(file)
}

fn templates() -> Vec<(PathBuf, String)> {
    files(&source("templates"), &["html"])
}

/// Returns the files of a folder and its subfolders with one of these extensions.
fn files(folder: &Path, extensions: &[&str]) -> Vec<(PathBuf, String)> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the folder exists") {
            let path = entry.expect("a file").path();
            let is_wanted = path.extension().is_some_and(|known| extensions.iter().any(|wanted| known == *wanted));
            if path.is_dir() {
                folders.push(path);
            } else if is_wanted {
                found.push((path.clone(), fs::read_to_string(path).expect("the file is text")));
            }
        }
    }
    found
}
