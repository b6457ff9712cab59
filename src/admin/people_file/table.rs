//! People as a table for spreadsheets and other programs. No hash of a password is in it.

use std::borrow::Cow;
use std::io::{self, Write};

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use crate::admin::answer::UserAnswer;
use crate::admin::audit_file::write_fields;

/// The members of `user show --json`.
const COLUMNS: [&str; 13] = [
    "sub",
    "email",
    "email_verified",
    "name",
    "username",
    "phone_number",
    "picture",
    "groups",
    "roles",
    "state",
    "created_at",
    "updated_at",
    "imported_hash",
];

/// Writes the first line: the names of the columns.
pub(crate) fn write_header(to: &mut impl Write) -> io::Result<()> {
    write_fields(to, COLUMNS.into_iter().map(Cow::Borrowed))
}

/// Writes the line of a person.
pub(crate) fn write_row(to: &mut impl Write, user: &UserAnswer) -> io::Result<()> {
    let user = json!(user);
    write_fields(to, COLUMNS.into_iter().map(|column| cell(column, user.get(column).unwrap_or(&Value::Null))))
}

fn cell<'v>(column: &str, value: &'v Value) -> Cow<'v, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Number(seconds) if column.ends_with("_at") => {
            let instant = seconds.as_i64().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
            Cow::Owned(instant.map_or_else(String::new, |at| at.to_rfc3339_opts(SecondsFormat::Secs, true)))
        }
        Value::Array(values) => Cow::Owned(values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")),
        other => Cow::Owned(other.to_string()),
    }
}
