//! Console pages that invite several users.

use askama::Template;

use crate::console::{BulkLine, InvitationForm};
use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words};
use sealgate_domain::console_role::ConsoleRoles;

/// Error in the form. No user is invited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteFault {
    /// The field has no line.
    Empty,
    TooMany {
        most: u64,
    },
    /// The line has no address that mail servers accept.
    Address,
    /// The line has no name, or an invalid one.
    Name,
    /// Another user has the address.
    Taken,
    /// An earlier line has the address.
    Repeated {
        first: u64,
    },
    /// A group is invalid.
    Groups,
    /// The users would be in none of the groups that the user manager manages.
    ManagedGroups,
    /// The server cannot send the mails now.
    NotNow,
}

/// Fault of a line. Line 0 is the form as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InviteLineFault {
    pub line: u64,
    pub fault: InviteFault,
}

/// Form with a line for each user.
#[derive(Template)]
#[template(path = "console/invite.html")]
pub struct InvitePage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// The lines as typed.
    pub users: &'a str,
    /// The groups as typed, one per line.
    pub groups: &'a str,
    /// Groups that a user manager can choose.
    pub managed: &'a [&'a str],
    pub invitation: InvitationForm<'a>,
    pub faults: &'a [InviteLineFault],
}

impl InvitePage<'_> {
    fn is_wrong_in_groups(&self) -> bool {
        self.faults.iter().any(|fault| fault.fault == InviteFault::Groups)
    }

    fn is_wrong_in_users(&self) -> bool {
        self.faults
            .iter()
            .any(|fault| !matches!(fault.fault, InviteFault::Groups | InviteFault::ManagedGroups | InviteFault::NotNow))
    }

    fn has_no_managed_group(&self) -> bool {
        self.faults.iter().any(|fault| fault.fault == InviteFault::ManagedGroups)
    }

    fn is_member(&self, group: &str) -> bool {
        self.groups.lines().any(|line| line == group)
    }
}

/// Page that lists the users as they were read, and asks for the confirmation. Its form sends the
/// fields of the first form again, with `sure`.
#[derive(Template)]
#[template(path = "console/invite_confirm.html")]
pub struct InviteConfirmPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub users: &'a [BulkLine],
    pub groups: &'a [&'a str],
    /// Console roles of the members of the groups.
    pub roles: ConsoleRoles,
    /// Title of the application to go to afterwards.
    pub app: Option<&'a str>,
    pub fields: &'a [(&'a str, &'a str)],
}

impl InviteConfirmPage<'_> {
    fn count(&self) -> u64 {
        self.users.len() as u64
    }
}

impl Words {
    fn invite_fault(self, at: &InviteLineFault) -> Markup {
        let line = at.line;
        match at.fault {
            InviteFault::Empty => self.invite_empty(),
            InviteFault::TooMany { most } => self.invite_too_many(most),
            InviteFault::Address => self.invite_address_wrong(line),
            InviteFault::Name => self.invite_name_wrong(line),
            InviteFault::Taken => self.invite_taken(line),
            InviteFault::Repeated { first } => self.invite_repeated(first, line),
            InviteFault::Groups => self.invite_groups_wrong(),
            InviteFault::ManagedGroups => self.user_managed_wrong(),
            InviteFault::NotNow => self.invite_not_now(),
        }
    }
}
