//! Words for roles in the console.

use askama::filters::Safe;

use crate::words::{Markup, Words};
use sealgate_domain::console_role::{ConsoleRole, ConsoleRoles};

impl Words {
    /// Returns the name of a role.
    pub(super) fn console_role(self, role: &ConsoleRole) -> Markup {
        match role {
            ConsoleRole::Administrator => self.user_role_admin_short(),
            ConsoleRole::Auditor => self.user_role_auditor_short(),
            ConsoleRole::UserManager => self.user_role_manager_short(),
            ConsoleRole::Developer => self.user_role_developer_short(),
        }
    }

    /// Returns what a user with these roles can do in the console.
    pub(super) fn roles_of_user(self, roles: ConsoleRoles) -> Markup {
        joined(roles, |role| match role {
            ConsoleRole::Administrator => self.confirm_role_admin(),
            ConsoleRole::Auditor => self.confirm_role_auditor(),
            ConsoleRole::UserManager => self.confirm_role_manager(),
            ConsoleRole::Developer => self.confirm_role_developer(),
        })
        .unwrap_or_else(|| self.confirm_role_none())
    }

    /// Returns what the members of a group that gives these roles can do in the console. `None` if it
    /// gives no role.
    pub(super) fn roles_of_group(self, roles: ConsoleRoles) -> Option<Markup> {
        joined(roles, |role| match role {
            ConsoleRole::Administrator => self.bulk_add_admin(),
            ConsoleRole::Auditor => self.bulk_add_auditor(),
            ConsoleRole::UserManager => self.bulk_add_manager(),
            ConsoleRole::Developer => self.bulk_add_developer(),
        })
    }
}

/// Joins the words of the roles. An administrator can do what the other roles permit.
fn joined(roles: ConsoleRoles, words: impl Fn(ConsoleRole) -> Markup) -> Option<Markup> {
    let roles = roles.roles().filter(|role| !roles.is_administrator() || *role == ConsoleRole::Administrator);
    let sentences: Vec<String> = roles.map(|role| words(role).0).collect();
    (!sentences.is_empty()).then(|| Safe(sentences.join(" ")))
}
