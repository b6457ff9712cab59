//! Reads TOML values key by key, and collects all errors.
//!
//! Keys that were not read are reported as unknown. A derived `Deserialize` would stop at the first
//! error. This module does not depend on the names of keys.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::iter;
use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeInteger, DeString, DeTable, DeValue};

use crate::ConfigFault;

/// Reader of a configuration file: its text, the errors, and the keys that were read.
pub(super) struct ConfigReader<'t> {
    text: &'t str,
    /// Byte offset of the start of each line. Indexed because the line of every value is needed,
    /// and a file may have thousands of lines.
    lines: Vec<usize>,
    faults: RefCell<Vec<ConfigFault>>,
    warnings: RefCell<Vec<ConfigFault>>,
    keys: RefCell<BTreeSet<String>>,
}

impl<'t> ConfigReader<'t> {
    /// Creates a reader for a file's text.
    pub(super) fn new(text: &'t str) -> Self {
        let lines = iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, lines, faults: RefCell::default(), warnings: RefCell::default(), keys: RefCell::default() }
    }

    /// Returns the whole file as a section, or `None` if the text is not valid TOML.
    ///
    /// Checks of an incomplete file would only add misleading errors.
    pub(super) fn root(&self) -> Option<Section<'_, 't>> {
        let (root, errors) = DeTable::parse_recoverable(self.text);
        let mut last_line = 0;
        for error in &errors {
            let at = error.span().map_or(self.text.len(), |span| span.start);
            let (line, column) = self.position(at);
            // A second error in a line usually follows from the first.
            if line != last_line {
                let message = error.message().replace('\n', " ");
                self.report(format!("line {line}, column {column}"), None, format!("not TOML: {message}"));
            }
            last_line = line;
        }
        errors.is_empty().then(|| self.whole(root.into_inner()))
    }

    /// Returns the readable parts of a file that need not be valid TOML.
    ///
    /// For callers that need a single value and report no errors.
    pub(super) fn recovered(&self) -> Section<'_, 't> {
        self.whole(DeTable::parse_recoverable(self.text).0.into_inner())
    }

    fn whole(&self, entries: DeTable<'t>) -> Section<'_, 't> {
        Section { reading: self, path: String::new(), shape: Shape::Absent, entries, read_keys: BTreeMap::new() }
    }

    /// Returns the errors and the warnings, each in the order of the file.
    pub(super) fn into_faults_and_warnings(self) -> (Vec<ConfigFault>, Vec<ConfigFault>) {
        let in_order = |mut found: Vec<ConfigFault>| {
            found.sort_by_key(ConfigFault::line);
            found
        };
        (in_order(self.faults.into_inner()), in_order(self.warnings.into_inner()))
    }

    /// Returns the keys that were read, without indexes of arrays.
    pub(super) fn keys(&self) -> BTreeSet<String> {
        self.keys.borrow().clone()
    }

    fn report(&self, path: String, line: Option<usize>, problem: String) {
        self.faults.borrow_mut().push(ConfigFault::new(path, line, problem));
    }

    /// Returns the line and the column (in characters) of a byte offset. Both start at 1.
    fn position(&self, offset: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let column = self.text.get(start..offset).unwrap_or_default().chars().count();
        (line, column + 1)
    }
}

/// How a section was created.
#[derive(Clone, Copy)]
enum Shape {
    /// The table is absent, or is the whole file.
    Absent,
    /// A table that starts in this line.
    Table(usize),
    /// The value is not a table. This error was reported, so missing keys of the table are not
    /// reported too.
    Wrong,
}

/// Table of the file.
///
/// Dropping a section reports the keys that were not read. The caller must therefore read all known
/// keys, even after an error.
pub(super) struct Section<'r, 't> {
    reading: &'r ConfigReader<'t>,
    path: String,
    shape: Shape,
    entries: DeTable<'t>,
    /// Keys that were read, and their lines in the file.
    read_keys: BTreeMap<&'static str, Option<usize>>,
}

struct Found<'t> {
    path: String,
    line: usize,
    value: DeValue<'t>,
}

impl<'r, 't> Section<'r, 't> {
    /// Returns a subtable. If the key is absent, the subtable is empty.
    pub(super) fn section(&mut self, key: &'static str) -> Section<'r, 't> {
        match self.take(key) {
            Some(found) => self.table(found, &format!("write it as a table, [{key}]")),
            None => self.child(self.join(key), Shape::Absent, DeTable::new()),
        }
    }

    /// Returns a subtable, or `None` if the key is absent.
    pub(super) fn optional_section(&mut self, key: &'static str, allowed: &str) -> Option<Section<'r, 't>> {
        self.take(key).map(|found| self.table(found, allowed))
    }

    /// Returns a list of subtables. A single table becomes a list with one element. If the key is
    /// absent, the list is empty.
    pub(super) fn one_or_more_sections(&mut self, key: &'static str, allowed: &str) -> Vec<Section<'r, 't>> {
        let Some(found) = self.take(key) else { return Vec::new() };
        if !found.value.is_array() {
            return vec![self.table(found, allowed)];
        }
        let elements = self.elements(found, allowed).unwrap_or_default();
        if elements.is_empty() {
            self.fault(key, &format!("is empty; {allowed}, or leave it out"));
        }
        elements.into_iter().map(|found| self.table(found, allowed)).collect()
    }

    /// Returns the tables of an array of tables. If the key is absent, the list is empty.
    pub(super) fn sections(&mut self, key: &'static str) -> Vec<Section<'r, 't>> {
        let Some(found) = self.take(key) else { return Vec::new() };
        let allowed = format!("write each as a table of its own, [[{key}]]");
        match self.elements(found, &allowed) {
            Some(elements) => elements.into_iter().map(|found| self.table(found, &allowed)).collect(),
            None => Vec::new(),
        }
    }

    /// Returns the tables of an array of tables. If the key is absent, returns one table with these
    /// strings.
    pub(super) fn sections_or(
        &mut self,
        key: &'static str,
        default: [(&'static str, &'static str); 2],
    ) -> Vec<Section<'r, 't>> {
        if self.entries.contains_key(key) {
            return self.sections(key);
        }
        let path = format!("{}[0]", self.join(key));
        let spanned = |text| Spanned::new(0..0, DeString::Borrowed(text));
        let string = |text| Spanned::new(0..0, DeValue::String(DeString::Borrowed(text)));
        let entries = default.into_iter().map(|(key, text)| (spanned(key), string(text))).collect();
        vec![self.child(path, Shape::Absent, entries)]
    }

    /// Returns the string of a key without reading it. `None` if it is absent or not a string.
    pub(super) fn peek(&self, key: &str) -> Option<&str> {
        self.entries.get(key)?.get_ref().as_str()
    }

    /// Parses a string with `read`. Returns `None` if the key is absent or the value invalid.
    ///
    /// The error of `read` must state the problem and the allowed values. `allowed` is reported if
    /// the value is not a string.
    pub(super) fn text<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.take(key)?;
        self.read_text(&value, allowed, read)
    }

    /// Parses a string. The key is required if `is_wanted` is true.
    pub(super) fn text_if<T>(
        &mut self,
        is_wanted: bool,
        key: &'static str,
        allowed: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        if is_wanted { self.required_text(key, allowed, read) } else { self.text(key, allowed, read) }
    }

    /// Parses a required string.
    pub(super) fn required_text<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let value = self.take(key);
        if value.is_none() {
            self.missing(key, allowed);
        }
        self.read_text(&value?, allowed, read)
    }

    /// Parses a list of strings with `read`, and omits invalid elements. Returns `None` if the key
    /// is absent or its value is not a list.
    pub(super) fn texts<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        mut read: impl FnMut(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let value = self.take(key)?;
        let elements = self.elements(value, allowed)?;
        Some(elements.iter().filter_map(|value| self.read_text(value, allowed, &mut read)).collect())
    }

    /// Parses a list of strings that must not be empty. A single string becomes a list with one
    /// element.
    ///
    /// Invalid elements are omitted. Returns `None` if the key is absent or its value has another
    /// type.
    pub(super) fn one_or_more_texts<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        read: impl FnMut(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        if self.entries.get(key).is_some_and(|value| value.get_ref().is_str()) {
            return self.text(key, allowed, read).map(|value| vec![value]);
        }
        self.some_texts(key, allowed, read)
    }

    /// Parses a table with keys that the operator chooses. `read` parses each pair of key and
    /// string.
    ///
    /// Invalid entries are omitted. Returns `None` if the key is absent or its value is not a
    /// table.
    pub(super) fn named_texts<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        mut read: impl FnMut(&str, &str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let found = self.take(key)?;
        let DeValue::Table(entries) = found.value else {
            self.wrong_type(&found, allowed);
            return None;
        };
        if entries.is_empty() {
            self.fault(key, &format!("is empty; {allowed}, or leave it out"));
        }
        let entry = |(name, value): (Spanned<DeString<'t>>, Spanned<DeValue<'t>>)| {
            let line = self.reading.position(name.span().start).0;
            let name = name.into_inner();
            let found = Found { path: format!("{}.{name}", found.path), line, value: value.into_inner() };
            self.read_text(&found, allowed, |text| read(&name, text))
        };
        Some(entries.into_iter().filter_map(entry).collect())
    }

    /// Returns the tables of a table with keys that the operator chooses, with their keys. A string
    /// in the place of a table becomes a table in which each of `only` has this string.
    ///
    /// Returns `None` if the key is absent or its value is not a table.
    pub(super) fn named_sections(
        &mut self,
        key: &'static str,
        only: &[&'static str],
        allowed: &str,
    ) -> Option<Vec<(String, Section<'r, 't>)>> {
        let found = self.take(key)?;
        let DeValue::Table(entries) = found.value else {
            self.wrong_type(&found, allowed);
            return None;
        };
        if entries.is_empty() {
            self.fault(key, &format!("is empty; {allowed}, or leave it out"));
        }
        let entry = |(name, value): (Spanned<DeString<'t>>, Spanned<DeValue<'t>>)| {
            let line = self.reading.position(name.span().start).0;
            let (name, span) = (name.into_inner().into_owned(), value.span());
            let value = match value.into_inner() {
                DeValue::String(text) => {
                    let spanned = |text| Spanned::new(span.clone(), text);
                    let value = |key: &&'static str| {
                        (spanned(DeString::Borrowed(*key)), Spanned::new(span.clone(), DeValue::String(text.clone())))
                    };
                    DeValue::Table(only.iter().map(value).collect())
                }
                value => value,
            };
            let path = format!("{}.{name:?}", found.path);
            (name, self.table(Found { path, line, value }, allowed))
        };
        Some(entries.into_iter().map(entry).collect())
    }

    /// Reports an error of the table itself.
    pub(super) fn fault_here(&self, problem: &str) {
        let line = if let Shape::Table(line) = self.shape { Some(line) } else { None };
        self.reading.report(self.path.clone(), line, problem.to_owned());
    }

    /// Parses an optional list of strings. Reports an empty list as an error.
    pub(super) fn some_texts<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        read: impl FnMut(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let empty = self.is_empty_list(key);
        let texts = self.texts(key, allowed, read);
        if empty {
            self.fault(key, &format!("is empty; {allowed}, or leave it out"));
        }
        texts
    }

    fn is_empty_list(&self, key: &str) -> bool {
        self.entries.get(key).and_then(|value| value.get_ref().as_array()).is_some_and(|list| list.is_empty())
    }

    /// Parses a required list of strings. Reports an empty list as an error.
    pub(super) fn required_texts<T>(
        &mut self,
        key: &'static str,
        allowed: &str,
        read: impl FnMut(&str) -> Result<T, String>,
    ) -> Vec<T> {
        if !self.entries.contains_key(key) {
            self.take(key);
            self.missing(key, allowed);
            return Vec::new();
        }
        let empty = self.is_empty_list(key);
        let texts = self.texts(key, allowed, read).unwrap_or_default();
        if empty {
            self.fault(key, &format!("is empty; {allowed}"));
        }
        texts
    }

    /// Reads one of the words in `choices`. Returns `None` if the key is absent or the word is
    /// unknown.
    pub(super) fn choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let allowed = written(choices);
        self.text(key, &allowed, |text| chosen(text, choices))
    }

    /// Reads one of the words in `choices`. Reports a missing key as an error.
    pub(super) fn required_choice<T: Copy>(&mut self, key: &'static str, choices: &[(&str, T)]) -> Option<T> {
        let allowed = written(choices);
        self.required_text(key, &allowed, |text| chosen(text, choices))
    }

    /// Reads an integer in `range`. Returns `default` if the key is absent or its value is invalid.
    pub(super) fn number<T>(&mut self, key: &'static str, default: T, range: RangeInclusive<T>) -> T
    where
        T: TryFrom<i128> + PartialOrd + Display,
    {
        self.whole(key, range, "").unwrap_or(default)
    }

    /// Reads a duration in whole seconds in `range`. Returns `default` seconds if the key is absent
    /// or its value is invalid.
    pub(super) fn seconds(&mut self, key: &'static str, default: u64, range: RangeInclusive<u64>) -> Duration {
        Duration::from_secs(self.whole(key, range, " of seconds").unwrap_or(default))
    }

    /// Reads a duration in whole seconds in `range`. Returns `None` if the key is absent or its
    /// value is invalid.
    pub(super) fn optional_seconds(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<Duration> {
        self.whole(key, range, " of seconds").map(Duration::from_secs)
    }

    /// Reads a number of bytes in `range`. Returns `None` if the key is absent or its value is
    /// invalid.
    pub(super) fn optional_bytes(&mut self, key: &'static str, range: RangeInclusive<u64>) -> Option<u64> {
        self.whole(key, range, " of bytes")
    }

    /// Reads an integer in `range`. Returns `None` if the key is absent or its value is invalid.
    pub(super) fn optional_number<T>(&mut self, key: &'static str, range: RangeInclusive<T>) -> Option<T>
    where
        T: TryFrom<i128> + PartialOrd + Display,
    {
        self.whole(key, range, "")
    }

    /// Reads an integer in `range`, or `word` as `None`. Returns `default` if the key is absent or
    /// its value is invalid.
    pub(super) fn number_or<T>(
        &mut self,
        word: &str,
        key: &'static str,
        default: T,
        range: RangeInclusive<T>,
    ) -> Option<T>
    where
        T: TryFrom<i128> + PartialOrd + Display,
    {
        if self.entries.get(key).is_some_and(|value| value.get_ref().as_str() == Some(word)) {
            self.take(key);
            return None;
        }
        let allowed = format!("write a whole number from {} to {}, or {word:?}", range.start(), range.end());
        Some(self.whole_number(key, &range, &allowed).unwrap_or(default))
    }

    /// Reads a number from 0 to 1. Returns `default` if the key is absent or its value is invalid.
    pub(super) fn ratio(&mut self, key: &'static str, default: f64) -> f64 {
        let Some(found) = self.take(key) else { return default };
        let value = match &found.value {
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(integer) => integer.as_str().parse().ok(),
            _ => None,
        };
        value.filter(|value| (0.0..=1.0).contains(value)).unwrap_or_else(|| {
            self.reading.report(found.path, Some(found.line), "is no ratio; write a number from 0.0 to 1.0".to_owned());
            default
        })
    }

    /// Reads a boolean. Returns `default` if the key is absent or its value is invalid.
    pub(super) fn flag(&mut self, key: &'static str, default: bool) -> bool {
        let Some(found) = self.take(key) else { return default };
        found.value.as_bool().unwrap_or_else(|| {
            self.wrong_type(&found, "write true or false");
            default
        })
    }

    /// Reports an error in the value of a key, for checks that involve several keys.
    ///
    /// `problem` states the problem, then the allowed values.
    pub(super) fn fault(&self, key: &'static str, problem: &str) {
        let line = self.read_keys.get(key).copied().flatten().or(match self.shape {
            Shape::Table(line) => Some(line),
            Shape::Absent | Shape::Wrong => None,
        });
        self.reading.report(self.join(key), line, problem.to_owned());
    }

    /// Reports a warning about a value that is allowed but may be a mistake.
    pub(super) fn warn(&self, key: &'static str, problem: &str) {
        let line = self.read_keys.get(key).copied().flatten();
        self.reading.warnings.borrow_mut().push(ConfigFault::new(self.join(key), line, problem.to_owned()));
    }

    /// Reports a missing required key.
    pub(super) fn missing(&self, key: &'static str, allowed: &str) {
        if !matches!(self.shape, Shape::Wrong) {
            self.fault(key, &format!("is missing; {allowed}"));
        }
    }

    /// Returns the full name of a key in this table, such as `server.tls[1].key`.
    pub(super) fn path_of(&self, key: &str) -> String {
        self.join(key)
    }

    /// Reports a fault if the file contains one of two keys without the other. Both must have been
    /// read.
    pub(super) fn require_both(&self, one: &'static str, other: &'static str) {
        for (key, other) in [(one, other), (other, one)] {
            if self.has(key) && !self.has(other) {
                self.fault(key, &format!("requires {other}; set both, or leave both out"));
            }
        }
    }

    /// Returns whether the file contains a key, even with an invalid value. The key must have been
    /// read.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.read_keys.get(key).is_some_and(Option::is_some)
    }

    fn whole<T>(&mut self, key: &'static str, range: RangeInclusive<T>, unit: &str) -> Option<T>
    where
        T: TryFrom<i128> + PartialOrd + Display,
    {
        let allowed = format!("write a whole number{unit} from {} to {}", range.start(), range.end());
        self.whole_number(key, &range, &allowed)
    }

    fn whole_number<T>(&mut self, key: &'static str, range: &RangeInclusive<T>, allowed: &str) -> Option<T>
    where
        T: TryFrom<i128> + PartialOrd + Display,
    {
        let value = self.take(key)?;
        let DeValue::Integer(integer) = &value.value else {
            self.wrong_type(&value, allowed);
            return None;
        };
        let number =
            integer_value(integer).and_then(|number| T::try_from(number).ok()).filter(|number| range.contains(number));
        if number.is_none() {
            self.reading.report(value.path, Some(value.line), format!("{integer} is out of range; {allowed}"));
        }
        number
    }

    fn read_text<T>(
        &self,
        found: &Found<'t>,
        allowed: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = found.value.as_str() else {
            self.wrong_type(found, allowed);
            return None;
        };
        read(text).map_err(|problem| self.reading.report(found.path.clone(), Some(found.line), problem)).ok()
    }

    fn elements(&self, found: Found<'t>, allowed: &str) -> Option<Vec<Found<'t>>> {
        let DeValue::Array(array) = found.value else {
            self.wrong_type(&found, allowed);
            return None;
        };
        let element = |(number, value): (usize, Spanned<DeValue<'t>>)| Found {
            path: format!("{}[{number}]", found.path),
            line: self.reading.position(value.span().start).0,
            value: value.into_inner(),
        };
        Some(array.into_iter().enumerate().map(element).collect())
    }

    fn table(&self, found: Found<'t>, allowed: &str) -> Section<'r, 't> {
        if let DeValue::Table(entries) = found.value {
            return self.child(found.path, Shape::Table(found.line), entries);
        }
        self.wrong_type(&found, allowed);
        self.child(found.path, Shape::Wrong, DeTable::new())
    }

    fn child(&self, path: String, shape: Shape, entries: DeTable<'t>) -> Section<'r, 't> {
        Section { reading: self.reading, path, shape, entries, read_keys: BTreeMap::new() }
    }

    fn wrong_type(&self, found: &Found<'t>, allowed: &str) {
        let article = if found.value.is_array() || found.value.is_integer() { "an" } else { "a" };
        let problem = format!("is {article} {}; {allowed}", found.value.type_str());
        self.reading.report(found.path.clone(), Some(found.line), problem);
    }

    /// Removes the value of a key from the table, so that the key is not reported as unknown.
    fn take(&mut self, key: &'static str) -> Option<Found<'t>> {
        let path = self.join(key);
        self.reading.keys.borrow_mut().insert(without_numbers(&path));
        let entry = self.entries.remove_entry(key);
        let line = entry.as_ref().map(|(key, _)| self.reading.position(key.span().start).0);
        self.read_keys.insert(key, line);
        Some(Found { path, line: line?, value: entry?.1.into_inner() })
    }

    fn join(&self, key: &str) -> String {
        let bare =
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
        let key = if bare { key.to_owned() } else { format!("{key:?}") };
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }
}

impl Drop for Section<'_, '_> {
    fn drop(&mut self) {
        let read_keys = self.read_keys.keys().copied().collect::<Vec<_>>().join(", ");
        for (key, _) in std::mem::take(&mut self.entries) {
            let line = self.reading.position(key.span().start).0;
            let key: DeString<'_> = key.into_inner();
            let problem = match similar(&key, self.read_keys.keys().copied()) {
                Some(similar) => format!("unknown key; did you mean {similar}? The keys here are {read_keys}"),
                None => format!("unknown key; the keys here are {read_keys}"),
            };
            self.reading.report(self.join(&key), Some(line), problem);
        }
    }
}

/// Minimum Jaro-Winkler similarity (0 to 1) between an unknown key and a known key to suggest.
///
/// clap's limit for commands is 0.7. Keys need a higher one, because short keys are more similar to
/// each other.
const MIN_SIMILARITY: f64 = 0.8;

/// Returns the known key that is most similar to an unknown key, or `None` if none is similar
/// enough.
fn similar<'k>(key: &str, known: impl Iterator<Item = &'k str>) -> Option<&'k str> {
    let scored = known.map(|known| (strsim::jaro_winkler(key, known), known));
    let best = scored.max_by(|(one, _), (other, _)| one.total_cmp(other))?;
    (best.0 > MIN_SIMILARITY).then_some(best.1)
}

fn integer_value(integer: &DeInteger<'_>) -> Option<i128> {
    i128::from_str_radix(integer.as_str(), integer.radix()).ok()
}

/// Returns a key without the indexes of lists.
pub(super) fn without_numbers(path: &str) -> String {
    path.split('.').map(|part| part.split('[').next().unwrap_or(part)).collect::<Vec<_>>().join(".")
}

fn written<T>(choices: &[(&str, T)]) -> String {
    let words: Vec<_> = choices.iter().map(|(word, _)| format!("{word:?}")).collect();
    match words.as_slice() {
        [others @ .., last] if !others.is_empty() => format!("write {} or {last}", others.join(", ")),
        words => format!("write {}", words.concat()),
    }
}

fn chosen<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let choice = choices.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
    choice.ok_or_else(|| format!("{text:?} is not known; {}", written(choices)))
}
