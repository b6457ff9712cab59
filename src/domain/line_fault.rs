//! Faults of a file with users, by line.
//!
//! A fault names the column, but never quotes its value, which may be a password hash in the wrong column.

use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};

/// Fault of a line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LineFault {
    /// Number of the line, from 1. 0 is the file as a whole.
    pub line: usize,
    /// Column or attribute, if the fault is in a single one.
    pub column: Option<String>,
    pub problem: LineProblem,
}

impl LineFault {
    /// Creates a fault of a whole line.
    pub fn new(line: usize, problem: LineProblem) -> Self {
        Self { line, column: None, problem }
    }

    /// Creates a fault of one column.
    pub fn in_column(line: usize, column: &str, problem: LineProblem) -> Self {
        Self { line, column: Some(column.to_owned()), problem }
    }
}

/// The text of the command line, in English.
impl Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if let Some(column) = &self.column {
            write!(f, "{column}: ")?;
        }
        self.problem.fmt(f)
    }
}

/// What is wrong with a line, a column, or the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum LineProblem {
    #[error("this line and those below are not UTF-8; save the file as UTF-8")]
    NotUtf8,
    #[error("the file is empty; the first line names the columns")]
    EmptyFile,
    #[error("the file contains no users")]
    NoUsers,
    #[error("more than {most} users; split the file")]
    TooManyUsers { most: usize },
    #[error("column {number} is repeated; remove one")]
    RepeatedColumn { number: usize },
    /// `known`: the names that a column can have.
    #[error("column {number} has an unknown name; remove it, or name it one of {}", known.join(", "))]
    UnknownColumn { number: usize, known: Vec<String> },
    /// A file needs at least one of the columns `names`.
    #[error("there is no column {}; the first line names the columns", names.join(" or "))]
    MissingColumn { names: Vec<String> },
    #[error(
        "the row has {found} fields, and the header has {expected}; enclose groups and fields with a delimiter in double quotes"
    )]
    FieldCount { found: usize, expected: usize },
    #[error("write true or false")]
    NotBoolean,
    #[error("write enabled or disabled")]
    NotState,
    #[error("there is neither an e-mail address nor a username, and users sign in with one of them")]
    NoIdentifier,
    #[error("the user has no e-mail address that could be verified; write false")]
    NoAddressToVerify,
    #[error("write an e-mail address as name@host, without spaces")]
    Address,
    #[error(
        "a username has 1 to 64 of a-z, 0-9, '.', '_' and '-', starts with a letter and ends with a letter or digit; \
         change the username, or leave it out"
    )]
    Username,
    #[error("a name has 1 to {most} visible characters and no line breaks")]
    Name { most: usize },
    #[error("a phone number has a plus sign and 6 to 15 digits, such as +90 555 111 22 33")]
    PhoneNumber,
    #[error("a user can be in at most {most} groups")]
    TooManyGroups { most: usize },
    #[error("a group has 1 to 100 visible characters and no commas")]
    Group,
    #[error("line {first} has the same value; remove one of the lines")]
    Repeated { first: usize },
    #[error("a user with this e-mail address already exists; remove the line")]
    AddressTaken,
    #[error("a user with this username already exists; change the username, or leave it out")]
    UsernameTaken,
    #[error("other users were added at the same time; repeat the command")]
    OthersAdded,
    /// Never serialized: only the server checks hashes.
    #[error(transparent)]
    #[serde(skip)]
    Hash(#[from] HashFault),
    /// Faults that only the command line shows, such as those of LDIF.
    #[error("{0}")]
    Other(String),
}

impl LineProblem {
    /// Creates a fault with a text of its own.
    pub fn other(text: impl Display) -> Self {
        Self::Other(text.to_string())
    }
}

/// Reason to reject a password hash of another program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HashFault {
    /// The scheme is no longer secure.
    #[error("{0} is too weak: an attacker who has the hash can find the password; {NEW_PASSWORD}")]
    Weak(&'static str),
    /// A check would occupy a thread for too long.
    #[error("the hash takes longer to verify than the limit ({0}); {NEW_PASSWORD}")]
    TooMuchWork(&'static str),
    /// The hash of the empty password.
    #[error("the hash is that of the empty password; {NEW_PASSWORD}")]
    Empty,
    /// The text begins like a hash of this scheme but is malformed.
    #[error(
        "the hash looks like {0}, but is truncated, altered or of another version; export it again, or {NEW_PASSWORD}"
    )]
    Malformed(&'static str),
    #[error(
        "the hash is not argon2, bcrypt, SHA-crypt ($5$, $6$), PBKDF2, {{SSHA}}, {{SHA}} or their SHA-2 variants, \
         and plain-text passwords are not accepted; {NEW_PASSWORD}"
    )]
    Unknown,
}

const NEW_PASSWORD: &str = "invite the user instead (user invite --from), or leave the hash out and send an \
    invitation afterwards (user resend-invitation EMAIL); see docs/how-to/users-and-groups.md";
