//! `[console]`: the pages for administrators, auditors, user managers and developers.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use sealgate_domain::console_role::{ConsoleRole, ConsoleRoles};
use sealgate_domain::user::{Role, User};
use serde::Serialize;

/// `[console]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Console {
    pub enabled: bool,
    /// Group whose members are developers, in addition to users with the role.
    pub developers: Option<String>,
    /// Group whose members are administrators, in addition to users with the role.
    pub admins: Option<String>,
    /// Group whose members are auditors, in addition to users with the role.
    pub auditors: Option<String>,
    /// Groups whose members manage the users of other groups.
    #[serde(rename = "user_manager")]
    pub user_managers: Vec<UserManagers>,
    /// Maximum time since the sign-in of a user of the console.
    pub sign_in: Duration,
    /// File with further `[[app]]` sections.
    pub applications_file: Option<PathBuf>,
    /// Whether administrators can change `applications_file` in the console.
    pub edit_applications: bool,
}

/// `[[console.user_manager]]`: members of a group who manage the users of other groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UserManagers {
    pub group: String,
    pub manages: Vec<String>,
}

impl Console {
    /// Returns each group that gives a console role, with the role.
    pub fn role_groups(&self) -> impl Iterator<Item = (&str, ConsoleRole)> {
        let of_roles = [
            (&self.admins, ConsoleRole::Administrator),
            (&self.auditors, ConsoleRole::Auditor),
            (&self.developers, ConsoleRole::Developer),
        ];
        let of_roles = of_roles.into_iter().filter_map(|(group, role)| group.as_deref().map(|group| (group, role)));
        let managers = self.user_managers.iter().map(|managers| (managers.group.as_str(), ConsoleRole::UserManager));
        of_roles.chain(managers)
    }

    /// Returns the console roles that these stored roles and groups give. Empty if the console is
    /// disabled.
    pub fn roles(&self, roles: &BTreeSet<Role>, is_in_group: impl Fn(&str) -> bool) -> ConsoleRoles {
        if self.enabled { self.named_roles(roles, is_in_group) } else { ConsoleRoles::NONE }
    }

    fn named_roles(&self, roles: &BTreeSet<Role>, is_in_group: impl Fn(&str) -> bool) -> ConsoleRoles {
        let of_groups = self.role_groups().filter(|(group, _)| is_in_group(group)).map(|(_, role)| role);
        roles.iter().map(|role| role.in_console()).chain(of_groups).collect()
    }

    /// Returns the console roles of a user.
    pub fn roles_of(&self, user: &User) -> ConsoleRoles {
        self.roles(&user.roles, |group| user.is_in_group(group))
    }

    /// Returns whether a user is an administrator, or would be one if the console were enabled.
    pub fn is_administrator(&self, user: &User) -> bool {
        user.roles.contains(&Role::Admin) || self.admins.as_ref().is_some_and(|group| user.is_in_group(group))
    }

    /// Returns the groups whose users this user manages. Empty if the user is no user manager.
    pub fn managed_by(&self, user: &User) -> BTreeSet<String> {
        if self.enabled { self.named_groups(user) } else { BTreeSet::new() }
    }

    fn named_groups(&self, user: &User) -> BTreeSet<String> {
        let managers = self.user_managers.iter().filter(|managers| user.is_in_group(&managers.group));
        managers.flat_map(|managers| &managers.manages).cloned().collect()
    }

    /// Returns whether a change gives a user more rights in the console: a role, or further groups whose
    /// users they manage.
    ///
    /// The stored roles and the groups count even if the console is disabled.
    pub fn promotes(&self, before: &User, after: &User) -> bool {
        let roles = |user: &User| self.named_roles(&user.roles, |group| user.is_in_group(group));
        let had = roles(before);
        !had.covers(roles(after))
            || (!had.is_administrator() && !self.named_groups(before).is_superset(&self.named_groups(after)))
    }

    /// Returns whether a group gives a console role.
    pub fn is_role_group(&self, group: &str) -> bool {
        self.role_groups().any(|(known, _)| known == group)
    }

    /// Returns whether a user manager of these groups manages this user: a member of one of the groups
    /// who has no console role. With a console role, the manager could get the rights of the user.
    ///
    /// The stored roles and the groups count even if the console is disabled.
    pub fn is_managed(&self, user: &User, groups: &BTreeSet<String>) -> bool {
        let has_role = !user.roles.is_empty() || self.role_groups().any(|(group, _)| user.is_in_group(group));
        !has_role && user.all_groups().any(|group| groups.contains(group))
    }
}
