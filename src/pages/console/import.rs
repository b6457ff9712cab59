//! Console pages that import users from a file.

use askama::Template;

use crate::console::BulkLine;
use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words, escaped};
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::line_fault::{HashFault, LineFault, LineProblem};

/// Form with a CSV file, as `file`, or with its content, as `csv`.
#[derive(Template)]
#[template(path = "console/import.html")]
pub struct ImportPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Content as sent.
    pub csv: &'a str,
    /// Maximum number of users.
    pub most: u64,
    /// The first faults, by line.
    pub faults: &'a [LineFault],
    /// Number of further faults.
    pub more_faults: u64,
}

impl ImportPage<'_> {
    fn has_more_faults(&self) -> bool {
        self.more_faults > 0
    }
}

/// Page that lists the users as they were read, and asks for the confirmation. Its form sends the
/// fields of the first form again, with `sure`.
#[derive(Template)]
#[template(path = "console/import_confirm.html")]
pub struct ImportConfirmPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// The first users.
    pub users: &'a [BulkLine],
    /// Number of all users.
    pub total: u64,
    /// Number of users whose address the file marks as verified.
    pub verified: u64,
    /// Number of users who are disabled.
    pub disabled: u64,
    /// Number of users who cannot sign in before they get a password or an invitation.
    pub without_password: u64,
    pub groups: &'a [&'a str],
    /// Console roles of the members of the groups.
    pub roles: ConsoleRoles,
    pub fields: &'a [(&'a str, &'a str)],
}

impl ImportConfirmPage<'_> {
    fn has_users_without_password(&self) -> bool {
        self.without_password > 0
    }

    fn has_verified_addresses(&self) -> bool {
        self.verified > 0
    }

    fn has_disabled_users(&self) -> bool {
        self.disabled > 0
    }

    fn unlisted(&self) -> u64 {
        self.total.saturating_sub(self.users.len() as u64)
    }
}

impl Words {
    /// Returns the place of a fault in the file.
    fn import_place(self, fault: &LineFault) -> Option<Markup> {
        let line = fault.line as u64;
        match fault.column.as_deref() {
            Some(column) => Some(self.import_line_column(column, line)),
            None => (line > 0).then(|| self.import_line(line)),
        }
    }

    fn import_fault(self, fault: &LineFault) -> Markup {
        match &fault.problem {
            LineProblem::NotUtf8 => self.import_not_utf8(),
            LineProblem::EmptyFile => self.import_file_empty(),
            LineProblem::NoUsers => self.import_no_users(),
            LineProblem::TooManyUsers { most } => self.import_too_many(*most as u64),
            LineProblem::RepeatedColumn { number } => self.import_column_repeated(*number as u64),
            LineProblem::UnknownColumn { number, known } => {
                self.import_column_unknown(known.join(", "), *number as u64)
            }
            LineProblem::MissingColumn { names } => self.import_column_missing(names.join(", ")),
            LineProblem::FieldCount { found, expected } => self.import_field_count(*expected as u64, *found as u64),
            LineProblem::NotBoolean => self.import_not_boolean(),
            LineProblem::NotState => self.import_not_state(),
            LineProblem::NoIdentifier => self.import_no_identifier(),
            LineProblem::NoAddressToVerify => self.import_no_address_to_verify(),
            LineProblem::Address => self.user_email_wrong(),
            LineProblem::Username => self.user_username_wrong(),
            LineProblem::Name { .. } => self.profile_name_wrong(),
            LineProblem::PhoneNumber => self.profile_phone_wrong(),
            LineProblem::TooManyGroups { most } => self.import_too_many_groups(*most as u64),
            LineProblem::Group => self.import_group_wrong(),
            LineProblem::Repeated { first } => self.import_repeated(*first as u64),
            LineProblem::AddressTaken => self.import_address_taken(),
            LineProblem::UsernameTaken => self.user_username_taken(),
            LineProblem::OthersAdded => self.import_others_added(),
            LineProblem::Hash(HashFault::Weak(scheme)) => self.import_hash_weak(scheme),
            LineProblem::Hash(HashFault::TooMuchWork(_)) => self.import_hash_slow(),
            LineProblem::Hash(HashFault::Empty) => self.import_hash_of_nothing(),
            LineProblem::Hash(HashFault::Malformed(scheme)) => self.import_hash_malformed(scheme),
            LineProblem::Hash(HashFault::Unknown) => self.import_hash_unknown(),
            // Only formats that the page does not accept have these.
            LineProblem::Other(text) => escaped(text),
        }
    }
}
