//! Counts phrases that make technical prose hard to read (CONTRIBUTING.md, "Style"), and holds each
//! folder to its limit in `prose.txt`.
//!
//! Reads the comments of Rust, JavaScript, shell and TOML files, string literals of five words or
//! more in Rust, the English page texts, and the paragraphs of Markdown files outside of code
//! blocks.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// Phrases as sequences of words. `|` separates alternatives for one word, `*` is any word, and
/// `!word` forbids a following word.
const PHRASES: &[&str] = &[
    "whoever",
    "whatever is|was|a|the|it|they|comes|has",
    "nobody|somebody",
    "of which|whom",
    "by|with which",
    "what is|was|it|they|we|a|the|an|each|every|has|had|comes|came|stands|lies|must|may|could|wait|waits|goes",
    "what * is|are|was|were|has|had",
    "is|are|was|were|be told",
    "is|are|was|were|be looked at|through|for|up",
    "is|are|was|were|be asked for|about|again",
    "is|are|was|were|be gone by",
    "is|are|was|were|be taken over|down|apart|for|out|away",
    "is|are|was|were|be laid down",
    "is|are|was|were|be held against",
    "lie|lies|lay|lain|stand|stands|stood in|at|on|under|with|beside|there|below|above|for|open|still|behind|before",
    "it|they|that|which|key|record|store|token|file|node|process|server says|tells|knows|wants|sees|hears|speaks|believes|remembers|learns",
    "beside",
    "in place of",
    "in the place of",
    "from there|here|now|then on",
    "as long again",
    "that which",
    "those|one|ones that",
    "betimes|thereof|therein|befall|befalls|anew",
    "so many|long|often|much !as",
];

const EXTENSIONS: &[&str] = &["rs", "md", "js", "mjs", "sh", "toml", "ftl"];

/// Number of words and phrases in a file or folder.
#[derive(Default)]
struct Count {
    words: usize,
    phrases: Vec<String>,
}

impl Count {
    fn add(&mut self, place: &str, text: &str) {
        // A phrase does not extend over the end of a sentence or a clause.
        let words: Vec<String> = text
            .replace(['.', ';', ':', '(', ')'], " . ")
            .split(|c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’' | '.'))
            .filter(|word| !word.is_empty())
            .map(str::to_lowercase)
            .collect();
        self.words += text.split_whitespace().count();
        for start in 0..words.len() {
            for (phrase, _) in PARSED.iter().filter(|(_, wanted)| is_at(&words[start..], wanted)) {
                self.phrases.push(format!("{place}: \"{phrase}\" in: {text:.120}"));
            }
        }
    }

    fn per_thousand(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a few hundred thousand words")]
        let (phrases, words) = (self.phrases.len() as f64, self.words.max(1) as f64);
        1000.0 * phrases / words
    }
}

/// The words of a phrase, each with its alternatives.
type Words = Vec<Vec<&'static str>>;

static PARSED: LazyLock<Vec<(&str, Words)>> = LazyLock::new(|| {
    let parse = |phrase: &'static str| phrase.split(' ').map(|word| word.split('|').collect()).collect();
    PHRASES.iter().map(|phrase| (*phrase, parse(phrase))).collect()
});

fn is_at(words: &[String], phrase: &[Vec<&str>]) -> bool {
    let mut rest = words.iter();
    phrase.iter().all(|wanted| match wanted[0].strip_prefix('!') {
        Some(forbidden) => rest.clone().next().is_none_or(|word| word != forbidden),
        None => rest.next().is_some_and(|word| wanted[0] == "*" || wanted.iter().any(|one| one == word)),
    })
}

/// Calls `each` with the line and the text of every comment, message or paragraph of a file.
fn blocks(path: &Path, mut each: impl FnMut(usize, &str)) {
    let text = fs::read_to_string(path).unwrap();
    let extension = path.extension().unwrap_or_default().to_str().unwrap();
    let marker = if matches!(extension, "rs" | "js" | "mjs") { "//" } else { "#" };
    let (mut block, mut first, mut in_code) = (String::new(), 0, false);
    for (number, line) in text.lines().chain([""]).enumerate() {
        let trimmed = line.trim();
        let prose = match extension {
            "md" => {
                in_code ^= trimmed.starts_with("```");
                (!trimmed.is_empty() && !in_code && !trimmed.starts_with("```")).then_some(trimmed)
            }
            "ftl" => (!line.starts_with('#') && !trimmed.is_empty())
                .then(|| line.split_once(" =").map_or(trimmed, |(_, text)| text)),
            _ => trimmed.strip_prefix(marker).map(|text| text.trim_start_matches(['/', '!', '#'])),
        };
        if extension == "rs" && prose.is_none() {
            let messages = line.split('"').skip(1).step_by(2).filter(|text| text.split_whitespace().count() >= 5);
            messages.for_each(|text| each(number + 1, text));
        }
        let ends = prose.is_none() || extension == "ftl";
        if ends && !block.is_empty() {
            each(first, &block);
            block.clear();
        }
        if let Some(prose) = prose {
            if block.is_empty() {
                first = number + 1;
            }
            block.push_str(prose);
            block.push(' ');
        }
    }
}

fn files(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        let is_read = path.extension().is_some_and(|end| EXTENSIONS.iter().any(|one| *one == end));
        // The phrases are English, and this file contains all of them.
        if is_read && !path.ends_with("tr.ftl") && !path.ends_with("architecture/prose.rs") {
            found.push(path.to_owned());
        }
        return;
    }
    let mut entries: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries.iter().filter(|entry| !entry.ends_with("node_modules") && !entry.ends_with("target")) {
        files(entry, found);
    }
}

fn count(root: &Path, path: &str) -> Count {
    let mut found = Vec::new();
    files(&root.join(path), &mut found);
    let mut count = Count::default();
    for file in found {
        let name = file.strip_prefix(root).unwrap().display().to_string();
        blocks(&file, |line, text| count.add(&format!("{name}:{line}"), text));
    }
    count
}

#[test]
fn each_folder_is_within_its_limit_of_mannered_phrases() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let limits = include_str!("prose.txt").lines().filter(|line| !line.starts_with('#'));
    let (mut over, mut number) = (Vec::new(), 0);
    for line in limits {
        let (path, limit) = line.split_once(' ').unwrap();
        let limit: f64 = limit.trim().parse().unwrap();
        let count = count(root, path);
        number += 1;
        println!("{path} {:.1}", count.per_thousand());
        if count.per_thousand() > limit {
            let shown = count.phrases.iter().take(20).cloned().collect::<Vec<_>>().join("\n  ");
            over.push(format!("{path}: {:.2} per 1,000 words, at most {limit}\n  {shown}", count.per_thousand()));
        }
    }
    assert!(number > 10, "the list of limits is not read");
    assert!(over.is_empty(), "rewrite these in plain words (CONTRIBUTING.md, Style):\n{}", over.join("\n"));
}

#[test]
fn phrases_are_found_in_any_case_and_across_lines() {
    let mut count = Count::default();
    count.add("a", "Whoever asks waits so long. It is as good so long as it lasts; the limit\nof which this speaks.");
    let phrases: Vec<_> = count.phrases.iter().map(|found| found.split('"').nth(1).unwrap()).collect();
    assert_eq!(phrases, ["whoever", "so many|long|often|much !as", "of which|whom"]);
}
