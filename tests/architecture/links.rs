//! Links between documents: each leads to an existing file, and each fragment to a heading of that
//! file.
//!
//! The site (`make docs`) consists of the pages in docs/, so each of them must be in the summary,
//! and none may link to a file outside.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Reads a document without its code blocks.
fn prose_of(path: &Path) -> String {
    let mut in_code = false;
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines = text.lines().filter(|line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !is_fence && !in_code
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the targets of the inline links and images of a text: the text between `](` and `)`.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')?.0.split_whitespace().next())
}

/// Returns the fragments of a document's headings, as GitHub and mdBook form them.
fn fragments(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for heading in text.lines().filter(|line| line.starts_with('#')) {
        let title = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let fragment: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let mut numbered = fragment.clone();
        for number in 1.. {
            if found.insert(numbered.clone()) {
                break;
            }
            numbered = format!("{fragment}-{number}");
        }
    }
    found
}

fn documents(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|end| end == "md") {
                found.push(entry);
            }
        }
    }
    let others = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    found.extend(others.map(|name| root.join(name)));
    found
}

#[test]
fn every_link_of_a_document_has_a_target() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut broken, mut number) = (Vec::new(), 0);
    for document in documents(root) {
        let text = prose_of(&document);
        for target in targets(&text).filter(|target| !target.contains("://") && !target.starts_with("mailto:")) {
            number += 1;
            let (file, fragment) = target.split_once('#').unwrap_or((target, ""));
            let path = if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            let is_missing = !path.exists() || !fragment.is_empty() && !fragments(&prose_of(&path)).contains(fragment);
            if is_missing {
                broken.push(format!("{}: {target}", document.strip_prefix(root).unwrap().display()));
            }
        }
    }
    assert!(number > 100, "only {number} links were found");
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn pages_of_the_site_link_only_to_pages_of_the_site() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let site = root.join("docs").canonicalize().unwrap();
    let mut outside = Vec::new();
    for page in documents(root).into_iter().filter(|page| page.starts_with(root.join("docs"))) {
        let text = prose_of(&page);
        for target in targets(&text).filter(|target| !target.contains("://") && !target.starts_with(['#', '<'])) {
            let file = target.split('#').next().unwrap_or_default();
            let path = page.parent().unwrap().join(file).canonicalize();
            // mdBook names README.md index.html, except in links, and makes no page of SUMMARY.md.
            if !path.is_ok_and(|path| {
                path.starts_with(&site)
                    && path.is_file()
                    && !["README.md", "SUMMARY.md"].iter().any(|name| path.ends_with(name))
            }) {
                outside.push(format!("{}: {target}", page.strip_prefix(root).unwrap().display()));
            }
        }
    }
    outside.retain(|link| link != "docs/SUMMARY.md: README.md");
    assert!(outside.is_empty(), "these links lead to no page of the site:\n{}", outside.join("\n"));
}

#[test]
fn every_page_is_in_the_summary_once_with_its_title() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let docs = root.join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).unwrap();
    let mut listed: Vec<_> = targets(&summary).map(|target| docs.join(target)).collect();
    let mut pages: Vec<_> = documents(root).into_iter().filter(|page| page.starts_with(&docs)).collect();
    pages.retain(|page| !page.ends_with("SUMMARY.md"));
    listed.sort();
    pages.sort();
    assert_eq!(listed, pages);
    for line in summary.lines().filter_map(|line| line.trim_start().strip_prefix("- [")) {
        let (title, rest) = line.split_once("](").unwrap();
        let page = fs::read_to_string(docs.join(rest.trim_end_matches(')'))).unwrap();
        assert_eq!(page.lines().next(), Some(format!("# {title}").as_str()), "{rest}");
    }
}

/// A longer page serves more than one task.
#[test]
fn no_page_is_longer_than_300_lines() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated = ["cli.md", "configuration.md"];
    for page in documents(root).into_iter().filter(|page| page.starts_with(root.join("docs"))) {
        let lines = fs::read_to_string(&page).unwrap().lines().count();
        assert!(lines <= 300 || generated.iter().any(|name| page.ends_with(name)), "{}: {lines}", page.display());
    }
}

#[test]
fn fragments_are_formed_from_headings() {
    let text = "# Keys, and `sealgate key`\n## What to do?\ntext\n## What to do?";
    let expected = ["keys-and-sealgate-key", "what-to-do", "what-to-do-1"].map(str::to_owned);
    assert_eq!(fragments(text), BTreeSet::from(expected));
    assert_eq!(targets("see [a](b.md#c) and ![d](e.png \"f\")").collect::<Vec<_>>(), ["b.md#c", "e.png"]);
}
