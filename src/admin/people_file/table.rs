//! Users as CSV for spreadsheets and other programs. Contains no password hashes.

use std::borrow::Cow;
use std::io::{self, Write};

use chrono::{DateTime, SecondsFormat};
use serde_json::{Value, json};

use crate::answer::UserAnswer;
use crate::audit_file::write_fields;

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

/// Writes the header line with the names of the columns.
pub fn write_header(to: &mut impl Write) -> io::Result<()> {
    write_fields(to, COLUMNS.into_iter().map(Cow::Borrowed))
}

/// Writes a user as a line of CSV.
pub fn write_row(to: &mut impl Write, user: &UserAnswer) -> io::Result<()> {
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
