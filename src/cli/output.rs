//! Standard output: text for users, or one JSON object. Untrusted text is made printable.

use std::fmt::Write as _;
use std::io;
use std::io::Write as _;

use chrono::{DateTime, SecondsFormat};
use serde::Serialize;
use serde_json::{Map, Value, json};
use zeroize::Zeroizing;

use crate::cli::failure::CommandFailure;
use sealgate_admin::Answer;
use sealgate_admin::answer::Members;

/// Printer of results.
pub(super) struct Output {
    json: bool,
}

/// A list with the columns of its text output.
pub(super) struct OutputTable<'a> {
    /// Member of the JSON output.
    pub(super) name: &'a str,
    pub(super) rows: Vec<Value>,
    pub(super) columns: Vec<&'a str>,
}

impl Output {
    pub(super) fn new(json: bool) -> Self {
        Self { json }
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints one object with all its members.
    pub(super) fn record(&self, answer: &Answer) -> Result<(), CommandFailure> {
        let members = answer.members();
        self.result(&members, || {
            let mut text = String::new();
            for (name, value) in members.iter() {
                push_line(&mut text, name, &text_of(name, value));
            }
            text
        })
    }

    /// Prints a sentence, and a line for each member in `names`.
    pub(super) fn done(&self, members: &Members, sentence: &str, names: &[&str]) -> Result<(), CommandFailure> {
        self.result(members, || {
            let mut text = format!("{sentence}\n");
            for name in names {
                if let Some(value) = members.get(*name) {
                    push_line(&mut text, name, &text_of(name, value));
                }
            }
            text
        })
    }

    /// Prints a sentence above a table. Prints nothing in JSON output.
    pub(super) fn sentence(&self, sentence: &str) -> Result<(), CommandFailure> {
        if self.json { Ok(()) } else { write(&format!("{sentence}\n")) }
    }

    /// Prints a list. Text output is a table with these columns.
    pub(super) fn list(&self, name: &str, rows: &impl Serialize, columns: &[&str]) -> Result<(), CommandFailure> {
        let rows = serde_json::to_value(rows).map_err(CommandFailure::line)?;
        let rows = rows.as_array().cloned().unwrap_or_default();
        self.tables(&[OutputTable { name, rows, columns: columns.to_vec() }], &Map::<String, Value>::new())
    }

    /// Prints lists, and members that concern the first list.
    ///
    /// Text output leaves out empty tables after the first.
    pub(super) fn tables(&self, tables: &[OutputTable<'_>], more: &impl Serialize) -> Result<(), CommandFailure> {
        let mut more = serde_json::to_value(more).map_err(CommandFailure::line)?;
        if self.json {
            for table in tables {
                more[table.name] = json!(table.rows);
            }
            return write_json(&more);
        }
        let Some((first, others)) = tables.split_first() else { return Ok(()) };
        let mut text = table(&first.rows, &first.columns);
        for (name, value) in more.as_object().into_iter().flatten() {
            push_line(&mut text, name, &text_of(name, value));
        }
        for other in others.iter().filter(|other| !other.rows.is_empty()) {
            text.push('\n');
            text.push_str(&table(&other.rows, &other.columns));
        }
        write(&text)
    }

    /// Prints a result as JSON or as text.
    pub(super) fn result(&self, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), CommandFailure> {
        if self.json {
            return write_json(value);
        }
        write(&Zeroizing::new(text()))
    }
}

fn write_json(value: &impl Serialize) -> Result<(), CommandFailure> {
    let text = serde_json::to_string(value).map_err(CommandFailure::line)?;
    write(&Zeroizing::new(text + "\n"))
}

fn write(text: &str) -> Result<(), CommandFailure> {
    let mut stdout = io::stdout().lock();
    let written = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    written.map_err(|error| CommandFailure::line(format_args!("cannot write to standard output: {error}")))
}

fn push_line(text: &mut String, name: &str, value: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{}", format!("{name}: {value}").trim_end());
}

fn table(rows: &[Value], columns: &[&str]) -> String {
    let header = columns.iter().map(|name| name.to_uppercase()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(rows.iter().map(|row| cells(row, columns))).collect();
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut padded = String::new();
        for (cell, &width) in line.iter().zip(&widths) {
            let _ = write!(padded, "{cell:width$}  ");
        }
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

fn cells(row: &Value, columns: &[&str]) -> Vec<String> {
    columns.iter().map(|name| row.get(name).map_or_else(String::new, |value| text_of(name, value))).collect()
}

/// Returns whether the member with this name is a time, in seconds.
fn is_instant(name: &str) -> bool {
    name.ends_with("_at") || name.ends_with("_time") || ["added", "last_used"].contains(&name)
}

/// Formats a value for users.
pub(super) fn text_of(name: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => printable(text),
        Value::Number(number) if is_instant(name) => {
            let instant = number.as_i64().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
            instant.map_or_else(|| number.to_string(), |at| at.to_rfc3339_opts(SecondsFormat::Secs, true))
        }
        Value::Array(values) => values.iter().map(|value| text_of(name, value)).collect::<Vec<_>>().join(", "),
        Value::Object(members) => {
            let members = members.iter().filter(|(_, value)| !value.is_null());
            members.map(|(name, value)| format!("{name} {}", text_of(name, value))).collect::<Vec<_>>().join(" ")
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Escapes a text for a terminal.
///
/// Attackers can choose the names of clients and browsers. A control character could rewrite the
/// operator's output, and a bidirectional character could disguise it.
pub(super) fn printable(text: &str) -> String {
    let mut printable = String::with_capacity(text.len());
    for char in text.chars() {
        let turns =
            matches!(char, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if char.is_control() || turns {
            printable.extend(char.escape_unicode());
        } else {
            printable.push(char);
        }
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned_by_characters() {
        let rows = [json!({"name": "Çağrı", "state": "enabled"}), json!({"name": "Ben", "state": "disabled"})];
        assert_eq!(table(&rows, &["name", "state"]), "NAME   STATE\nÇağrı  enabled\nBen    disabled\n");
    }

    #[test]
    fn instants_and_lists_are_readable() {
        assert_eq!(text_of("created_at", &json!(1_700_000_000)), "2023-11-14T22:13:20Z");
        assert_eq!(text_of("roles", &json!(["admin", "developer"])), "admin, developer");
        assert_eq!(
            text_of("client_secrets", &json!([{"created_at": 0, "expires_at": null}])),
            "created_at 1970-01-01T00:00:00Z"
        );
    }

    #[test]
    fn a_name_cannot_contain_terminal_control_characters() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}c\n"), "a\\u{1b}[2Jb\\u{202e}c\\u{a}");
        assert_eq!(printable("Şule 😀"), "Şule 😀");
    }
}
