//! Files with users from other programs, and the exported list of users.
//!
//! CSV, LDIF and htpasswd are read into the same rows. This module checks only the syntax of a
//! file. The module never opens files or URLs that the file names. The exported list is CSV and
//! contains no password hashes.

mod csv;
mod htpasswd;
mod ldif;

use std::borrow::Cow;
use std::io;
use std::io::Write;
use std::path::PathBuf;

use chrono::{DateTime, SecondsFormat};
use clap::{Args, ValueEnum};
use memchr::memchr_iter;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::answer::{UserAnswer, in_clear};
use crate::csv_cells::write_fields;
use sealgate_domain::line_fault::{LineFault, LineProblem};
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Email;

/// Maximum size of a file, in bytes.
pub const MAX_BYTES: usize = 32 << 20;

/// Maximum size of a file of invited users, in bytes. Such a file contains no hashes.
pub const MAX_INVITEE_BYTES: usize = 4 << 20;

/// The file and options for reading it. Only the command line uses them; they are not sent to the
/// server.
#[derive(Debug, Clone, Default, Args)]
pub struct UsersSource {
    /// File with at most 10,000 users and 32 MiB, or - for standard input
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// Format of the file
    #[arg(long, value_enum)]
    pub format: UsersFormat,
    /// htpasswd: domain of the addresses; NAME becomes NAME@DOMAIN, with the username NAME. Without it, only the username
    #[arg(long, value_name = "DOMAIN", value_parser = domain)]
    pub email_domain: Option<String>,
    /// Mark every address as verified [default: those with `email_verified` in a CSV file]
    #[arg(long)]
    pub email_verified: bool,
}

/// Format of a list of users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum UsersFormat {
    /// A header with some of email, name, username, groups (commas between them), `password_hash`, `email_verified` and
    /// `phone_number`, in UTF-8
    #[default]
    Csv,
    /// Entries of a directory (RFC 2849): mail, displayName, cn, givenName, sn, uid, userPassword, memberOf
    Ldif,
    /// NAME:HASH a line, as Apache's htpasswd writes it
    Htpasswd,
}

/// Reads a file. Errors are part of the result, so that one report lists all errors.
pub fn read(bytes: &[u8], source: &UsersSource) -> UsersFile {
    let mut file = of_text(bytes, |text, file| match source.format {
        UsersFormat::Csv => csv::read(text, &csv::IMPORTED, file),
        UsersFormat::Ldif => ldif::read(text, file),
        UsersFormat::Htpasswd => htpasswd::read(text, source.email_domain.as_deref(), file),
    });
    for row in &mut file.rows {
        row.email_verified |= source.email_verified && !row.email.is_empty();
    }
    file
}

/// Reads a CSV file of users to invite.
pub fn read_invitees(bytes: &[u8]) -> UsersFile {
    of_text(bytes, |text, file| csv::read(text, &csv::INVITED, file))
}

fn of_text(bytes: &[u8], read: impl FnOnce(&str, &mut UsersFile)) -> UsersFile {
    let mut file = UsersFile::default();
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Err(error) => {
            let before = bytes.get(..error.valid_up_to()).unwrap_or_default();
            let line = 1 + memchr_iter(b'\n', before).count();
            file.faults.push(LineFault::new(line, LineProblem::NotUtf8));
        }
        Ok(text) => read(text, &mut file),
    }
    file
}

fn domain(text: &str) -> Result<String, &'static str> {
    let is_valid = Email::parse(&format!("x@{text}")).is_some() && !text.starts_with('.');
    if is_valid { Ok(text.to_owned()) } else { Err("write a domain such as example.org") }
}

/// Maximum number of users in one file. A single commit of the store writes them.
pub(crate) const MAX_USERS: usize = 10_000;

/// User of a file, not yet checked. A missing value is an empty string.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UserRow {
    /// Line where the user begins.
    pub(crate) line: usize,
    pub(crate) email: String,
    pub(crate) email_verified: bool,
    pub(crate) name: String,
    pub(crate) username: String,
    pub(crate) phone_number: String,
    pub(crate) groups: Vec<String>,
    /// Application that an invitation opens afterwards.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) app: String,
    /// Language of an invitation's mail.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) language: String,
    /// Whether the account is locked or disabled in the other system.
    #[serde(default)]
    pub(crate) is_disabled: bool,
    /// Time at which the account expires in the other system.
    #[serde(default)]
    pub(crate) expires_at: Option<UnixTime>,
    /// Password hash; never printed.
    #[serde(serialize_with = "in_clear")]
    pub(crate) password_hash: Secret,
}

impl UserRow {
    fn at(line: usize) -> Self {
        Self {
            line,
            email: String::new(),
            email_verified: false,
            name: String::new(),
            username: String::new(),
            phone_number: String::new(),
            groups: Vec::new(),
            app: String::new(),
            language: String::new(),
            is_disabled: false,
            expires_at: None,
            password_hash: Secret::new(""),
        }
    }
}

/// The content of a file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UsersFile {
    pub(crate) rows: Vec<UserRow>,
    pub(crate) faults: Vec<LineFault>,
    /// Number of entries that are not users.
    pub(crate) skipped: usize,
}

impl UsersFile {
    /// Returns a file with users that have only an address and a name.
    pub(crate) fn of(users: impl Iterator<Item = (String, String)>) -> Self {
        let rows = (1..).zip(users).map(|(line, (email, name))| UserRow { email, name, ..UserRow::at(line) });
        Self { rows: rows.collect(), ..Self::default() }
    }

    /// Returns the name of each user, and the address or username.
    pub fn names(&self) -> impl Iterator<Item = (String, String)> {
        let identifier = |row: &UserRow| if row.email.is_empty() { row.username.clone() } else { row.email.clone() };
        self.rows.iter().map(move |row| (row.name.clone(), identifier(row)))
    }

    /// Returns the number of users whose address the file marks as verified.
    pub fn verified(&self) -> usize {
        self.rows.iter().filter(|row| row.email_verified).count()
    }

    /// Adds an error if the file has more users.
    #[must_use]
    pub fn limited_to(mut self, most: usize) -> Self {
        if let Some(line) = self.rows.get(most).map(|row| row.line) {
            self.fault(line, LineProblem::TooManyUsers { most });
        }
        self
    }

    /// Returns whether another user fits. Otherwise adds one error.
    fn has_room(&mut self, line: usize) -> bool {
        let room = self.rows.len() < MAX_USERS;
        if !room {
            self.fault(line, LineProblem::TooManyUsers { most: MAX_USERS });
        }
        room
    }

    fn fault(&mut self, line: usize, problem: LineProblem) {
        self.faults.push(LineFault::new(line, problem));
    }
}

/// Columns of the exported list: the members of `user show --json`.
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

/// Writes a user as a line of JSON, as in `sealgate user show --json`.
pub fn write_line(to: &mut impl Write, user: &UserAnswer) -> io::Result<()> {
    writeln!(to, "{}", json!(user))
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

#[cfg(test)]
pub(super) mod tests {
    use super::{MAX_USERS, *};

    pub(in crate::users_file) fn read(format: UsersFormat, text: &str) -> UsersFile {
        let source = UsersSource { format, email_domain: Some("example.test".to_owned()), ..UsersSource::default() };
        super::read(text.as_bytes(), &source)
    }

    pub(in crate::users_file) fn faults(file: &UsersFile) -> Vec<String> {
        let text = |fault: &LineFault| fault.to_string().replacen("line ", "", 1);
        file.faults.iter().map(text).collect()
    }

    #[test]
    fn a_file_that_is_not_utf_8_is_refused_with_its_line() {
        let file = super::read(b"email,name\na@b.test,Ay\xfee\n", &UsersSource::default());
        assert_eq!(faults(&file), ["2: this line and those below are not UTF-8; save the file as UTF-8"]);
        let file = super::read(b"\xff\xfee\0m\0", &UsersSource::default());
        assert_eq!(file.faults.len(), 1, "UTF-16, as a spreadsheet may write it");
    }

    #[test]
    fn a_row_does_not_show_its_hash() {
        let file = read(UsersFormat::Htpasswd, "anna:{SHA}mN7MYuzjmaIu0w1JDvMzvn/ec4U=\n");
        assert_eq!(file.rows.len(), 1);
        assert!(!format!("{file:?}").contains("mN7M"));
    }

    #[test]
    fn imported_users_have_a_limit() {
        for format in [UsersFormat::Csv, UsersFormat::Ldif, UsersFormat::Htpasswd] {
            let row = |number| match format {
                UsersFormat::Csv => format!("p{number}@example.test,P\n"),
                UsersFormat::Ldif => format!("dn: uid=p{number}\nmail: p{number}@example.test\ncn: P\n\n"),
                UsersFormat::Htpasswd => format!("p{number}:x\n"),
            };
            let header = if format == UsersFormat::Csv { "email,name\n" } else { "" };
            let text = |people| header.to_owned() + &(0..people).map(row).collect::<String>();
            let whole = read(format, &text(MAX_USERS));
            assert_eq!((whole.rows.len(), whole.faults.len()), (MAX_USERS, 0), "{format:?}");
            let more = read(format, &text(MAX_USERS + 5));
            assert_eq!((more.rows.len(), more.faults.len()), (MAX_USERS, 1), "{format:?}");
            assert_eq!(more.faults[0].problem, LineProblem::TooManyUsers { most: MAX_USERS });
        }
    }
}
