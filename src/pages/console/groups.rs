//! Console pages about groups: the list, the page of a group, and the confirmation of a change.

use askama::Template;

use crate::console::UserLine;
use crate::console::bulk::BulkAction;
use crate::inside::{Inside, MenuEntry};
use crate::words::Markup;
use sealgate_domain::console_role::{ConsoleRole, ConsoleRoles};

/// Page with the list of groups.
#[derive(Template)]
#[template(path = "console/groups.html")]
pub struct GroupsPage<'a> {
    pub inside: Inside<'a>,
    /// CSRF token of the form that adds users.
    pub csrf: &'a str,
    pub groups: &'a [GroupLine],
    /// Search text as typed.
    pub wanted: &'a str,
    pub previous: Option<&'a str>,
    pub next: Option<&'a str>,
}

/// Group in the list of groups.
#[derive(Debug, Clone)]
pub struct GroupLine {
    pub name: String,
    /// URL of the group's page.
    pub url: String,
    pub members: u64,
    /// Number of places in the configuration that name the group.
    pub uses: u64,
}

/// Place in the configuration that names a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupUse<'a> {
    /// Members may use this path of an application. `methods` is empty for all methods.
    Rule { app: &'a str, path: &'a str, methods: &'a [String] },
    /// Members may use an application that is in maintenance.
    Maintenance { app: &'a str },
    /// Members are signed in to an application with a certain account.
    Account { app: &'a str },
    /// Members have this role in the console.
    Console(ConsoleRole),
    /// Members of `group` manage the members.
    Managed { group: &'a str },
    /// Members must sign in with two-factor authentication.
    Factors,
}

/// Reason why a group was not renamed or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupFault {
    /// The new name is invalid.
    Name,
    /// The administrator would lose the role.
    OwnRole,
}

/// Page of a group.
///
/// The form sends `csrf`, `name` and one of these actions as `action`: `rename` with `to`, or
/// `delete`. The forms for members are those of [`crate::console::BulkPage`].
#[derive(Template)]
#[template(path = "console/group.html")]
pub struct GroupPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// CSRF token of the forms about members.
    pub members_csrf: &'a str,
    pub name: &'a str,
    /// Input of the field for the new name.
    pub to: &'a str,
    pub members: &'a [UserLine],
    pub skipped: usize,
    pub total: usize,
    pub uses: &'a [GroupUse<'a>],
    /// Whether the page has the forms about members.
    pub may_change: bool,
    /// Whether a directory has put a member that the page shows into the group.
    pub is_of_directory: bool,
    /// URL of this page of members.
    pub back: &'a str,
    pub previous: Option<&'a str>,
    pub next: Option<&'a str>,
    pub fault: Option<GroupFault>,
}

/// Page that asks for the confirmation of a renaming, or of a deletion if there is no new name.
#[derive(Template)]
#[template(path = "console/group_confirm.html")]
pub struct GroupConfirmPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub name: &'a str,
    pub to: Option<&'a str>,
    pub total: usize,
    pub uses: &'a [GroupUse<'a>],
    /// Places in the configuration that name the new name.
    pub new_uses: &'a [GroupUse<'a>],
    /// Console roles of the members of the new name.
    pub roles: ConsoleRoles,
    /// Number of members who get rights and whom a user manager could sign in as.
    pub open_to_managers: u64,
    pub fields: &'a [(&'a str, &'a str)],
    /// URL of the group's page.
    pub back: &'a str,
}

impl GroupPage<'_> {
    fn first(&self) -> u64 {
        (self.skipped + 1) as u64
    }

    fn last(&self) -> u64 {
        (self.skipped + self.members.len()) as u64
    }

    fn all(&self) -> u64 {
        self.total as u64
    }

    fn is_wrong(&self, fault: GroupFault) -> bool {
        self.fault == Some(fault)
    }

    fn use_words(&self, place: &GroupUse<'_>) -> Markup {
        use_words(&self.inside, place)
    }
}

impl GroupConfirmPage<'_> {
    fn title(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.to {
            Some(to) => t.group_rename_title(self.name, to),
            None => t.group_delete_title(self.name),
        }
    }

    fn effect(&self) -> Markup {
        let t = self.inside.frame.t;
        let total = self.total as u64;
        if self.to.is_some() { t.group_rename_effect(total) } else { t.group_delete_effect(total) }
    }

    /// Returns the warning that the members get a role in the console.
    fn new_role(&self) -> Option<Markup> {
        self.inside.frame.t.roles_of_group(self.roles)
    }

    fn use_words(&self, place: &GroupUse<'_>) -> Markup {
        use_words(&self.inside, place)
    }

    fn has_users_open_to_managers(&self) -> bool {
        self.open_to_managers > 0
    }
}

fn use_words(inside: &Inside<'_>, place: &GroupUse<'_>) -> Markup {
    let t = inside.frame.t;
    match place {
        GroupUse::Rule { app, path, methods: [] } => t.group_use_rule(*app, *path),
        GroupUse::Rule { app, path, methods } => t.group_use_methods(*app, methods.join(", "), *path),
        GroupUse::Maintenance { app } => t.group_use_maintenance(*app),
        GroupUse::Account { app } => t.group_use_account(*app),
        GroupUse::Console(ConsoleRole::Administrator) => t.group_use_admins(),
        GroupUse::Console(ConsoleRole::Auditor) => t.group_use_auditors(),
        GroupUse::Console(ConsoleRole::UserManager) => t.group_use_managers(),
        GroupUse::Console(ConsoleRole::Developer) => t.group_use_developers(),
        GroupUse::Managed { group } => t.group_use_managed(*group),
        GroupUse::Factors => t.group_use_factors(),
    }
}
