//! Rows of a list of users.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::answer::in_clear;
use sealgate_domain::secret::Secret;
use sealgate_domain::time::UnixTime;

/// Maximum number of users in one file. They are one commit of the store.
pub(crate) const MAX_PEOPLE: usize = 10_000;

/// A user as written in the file. An empty string means absent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PersonRow {
    /// Line where the user begins.
    pub(crate) line: usize,
    pub(crate) email: String,
    pub(crate) email_verified: bool,
    pub(crate) name: String,
    pub(crate) username: String,
    pub(crate) phone_number: String,
    pub(crate) groups: Vec<String>,
    /// For an invitation: the application to open afterwards, and the mail's language.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) app: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) language: String,
    /// Whether the account is locked or disabled in the other system.
    #[serde(default)]
    pub(crate) is_disabled: bool,
    /// When the account expires in the other system.
    #[serde(default)]
    pub(crate) expires_at: Option<UnixTime>,
    /// Password hash; never printed.
    #[serde(serialize_with = "in_clear")]
    pub(crate) password_hash: Secret,
}

impl PersonRow {
    pub(super) fn at(line: usize) -> Self {
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

/// An error in a line.
///
/// It names the field but never quotes its value, which may be a hash in the wrong column.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineFault {
    pub(crate) line: usize,
    pub(crate) fault: String,
}

impl LineFault {
    pub(crate) fn new(line: usize, fault: impl Display) -> Self {
        Self { line, fault: fault.to_string() }
    }

    pub(crate) fn of(line: usize, field: &str, fault: impl Display) -> Self {
        Self { line, fault: format!("{field}: {fault}") }
    }
}

impl Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            // Line 0 is the file as a whole.
            0 => f.write_str(&self.fault),
            line => write!(f, "line {line}: {}", self.fault),
        }
    }
}

/// The content of a file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeopleFile {
    pub(crate) rows: Vec<PersonRow>,
    pub(crate) faults: Vec<LineFault>,
    /// Number of entries that are not users.
    pub(crate) skipped: usize,
}

impl PeopleFile {
    /// Returns whether another user fits. Adds one error if not.
    pub(super) fn has_room(&mut self, line: usize) -> bool {
        let room = self.rows.len() < MAX_PEOPLE;
        if !room {
            self.faults.push(LineFault::new(line, format_args!("more than {MAX_PEOPLE} users; split the file")));
        }
        room
    }

    pub(super) fn fault(&mut self, line: usize, fault: impl Display) {
        self.faults.push(LineFault::new(line, fault));
    }
}
