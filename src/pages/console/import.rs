//! Console pages that import users from a file.

use askama::Template;

use crate::console::BulkLine;
use crate::inside::{Inside, MenuEntry};
use sealgate_domain::console_role::ConsoleRoles;

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
    /// Faults of the file, in English, as on the command line.
    pub faults: &'a [String],
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
