//! Console page that asks for the confirmation of a change to several users.

use askama::Template;

use crate::inside::{Inside, MenuEntry};
use crate::words::{Markup, Words};
use sealgate_domain::console_role::ConsoleRoles;

/// Change to several users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkAction {
    Disable,
    Enable,
    AddToGroup,
    RemoveFromGroup,
    /// Ends all sessions and access.
    Revoke,
    /// Sends a new invitation link.
    InviteAgain,
}

impl BulkAction {
    /// All actions, in the order of the form.
    pub const ALL: [Self; 6] =
        [Self::AddToGroup, Self::RemoveFromGroup, Self::InviteAgain, Self::Revoke, Self::Disable, Self::Enable];

    /// Returns the name in forms.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Enable => "enable",
            Self::AddToGroup => "add-to-group",
            Self::RemoveFromGroup => "remove-from-group",
            Self::Revoke => "revoke",
            Self::InviteAgain => "invite",
        }
    }

    /// Parses the name in forms.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }

    /// Returns whether the form names a group.
    pub fn has_group(self) -> bool {
        matches!(self, Self::AddToGroup | Self::RemoveFromGroup)
    }
}

/// Reason why a change leaves out a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkSkip {
    /// The change would lock out or sign out the administrator who makes it.
    Own,
    /// The user already is as the change would make them.
    Unchanged,
    /// The directory of the user, not this installation, has put the user into the group.
    Directory,
    TooManyGroups,
    /// The user has a password or a passkey.
    HasCredential,
    /// The user has no e-mail address, or is disabled.
    CannotInvite,
    /// No user has this address or username.
    Unknown,
    /// The user was deleted in the meantime.
    Deleted,
    /// The user manager does not manage the user.
    NotManaged,
    /// Without the group, the user would be in none of the groups that the user manager manages.
    LastGroup,
    /// An administrator disabled the user, and a user manager wants to enable them.
    DisabledByAdministrator,
    /// The rules of the command refused the change, because the user has changed in the meantime.
    Refused,
    /// The server failed before or at this user.
    Failed,
}

impl BulkSkip {
    const ALL: [(Self, &'static str); 13] = [
        (Self::Own, "own"),
        (Self::Unchanged, "unchanged"),
        (Self::Directory, "directory"),
        (Self::TooManyGroups, "too-many-groups"),
        (Self::HasCredential, "has-credential"),
        (Self::CannotInvite, "cannot-invite"),
        (Self::Unknown, "unknown"),
        (Self::Deleted, "deleted"),
        (Self::NotManaged, "not-managed"),
        (Self::LastGroup, "last-group"),
        (Self::DisabledByAdministrator, "disabled-by-administrator"),
        (Self::Refused, "refused"),
        (Self::Failed, "failed"),
    ];

    /// Returns the name in a stored result.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, name)| name)
    }

    /// Parses the name in a stored result.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(reason, _)| *reason)
    }
}

/// Reason why the form changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BulkFault {
    NoUsers,
    /// Too many users were selected.
    TooMany {
        most: u64,
    },
    /// The name of the group is invalid.
    Group,
    /// The user manager does not manage the group.
    OtherGroup,
}

/// User in the question or in the result.
#[derive(Debug, Clone)]
pub struct BulkLine {
    /// Full name. May be empty.
    pub name: String,
    /// Address or username.
    pub identifier: String,
}

/// Page that asks for the confirmation of a change to several users. Its form sends the fields of
/// the previous form again, with `sure`.
#[derive(Template)]
#[template(path = "console/bulk.html")]
pub struct BulkPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub action: BulkAction,
    /// Group of the change. Empty for changes without a group.
    pub group: &'a str,
    /// Console roles of the members of the group.
    pub roles: ConsoleRoles,
    pub users: &'a [BulkLine],
    /// Number of users who get rights and whom a user manager could sign in as.
    pub open_to_managers: u64,
    /// Users that the change leaves out.
    pub skipped: &'a [(BulkLine, BulkSkip)],
    pub fault: Option<BulkFault>,
    pub fields: &'a [(&'a str, &'a str)],
    /// URL of the page with the form.
    pub back: &'a str,
}

/// Page with the result of a change that left out users.
#[derive(Template)]
#[template(path = "console/bulk_result.html")]
pub struct BulkResultPage<'a> {
    pub inside: Inside<'a>,
    pub action: BulkAction,
    /// Group of the change. Empty for changes without a group.
    pub group: &'a str,
    /// Users that were changed.
    pub done: &'a [BulkLine],
    /// Users that were not changed.
    pub left_out: &'a [(BulkLine, BulkSkip)],
    /// URL of the page with the form.
    pub back: &'a str,
}

impl BulkResultPage<'_> {
    fn count(&self) -> u64 {
        self.done.len() as u64
    }
}

impl Words {
    pub(super) fn bulk_action(self, action: &BulkAction) -> Markup {
        match action {
            BulkAction::Disable => self.client_disable(),
            BulkAction::Enable => self.client_enable(),
            BulkAction::AddToGroup => self.bulk_add(),
            BulkAction::RemoveFromGroup => self.bulk_remove(),
            BulkAction::Revoke => self.user_revoke(),
            BulkAction::InviteAgain => self.bulk_invite(),
        }
    }

    fn bulk_skip(self, reason: &BulkSkip) -> Markup {
        match reason {
            BulkSkip::Own => self.bulk_own(),
            BulkSkip::Unchanged => self.bulk_unchanged(),
            BulkSkip::Directory => self.bulk_directory(),
            BulkSkip::TooManyGroups => self.bulk_too_many_groups(),
            BulkSkip::HasCredential => self.bulk_has_credential(),
            BulkSkip::CannotInvite => self.bulk_cannot_invite(),
            BulkSkip::Unknown => self.bulk_unknown(),
            BulkSkip::Deleted => self.bulk_deleted(),
            BulkSkip::NotManaged => self.bulk_not_managed(),
            BulkSkip::LastGroup => self.bulk_last_group(),
            BulkSkip::DisabledByAdministrator => self.user_disabled_by_administrator(),
            BulkSkip::Refused => self.bulk_refused(),
            BulkSkip::Failed => self.bulk_failed(),
        }
    }
}

impl BulkPage<'_> {
    fn title(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.action {
            BulkAction::AddToGroup | BulkAction::RemoveFromGroup if self.group.is_empty() => t.bulk_selected(),
            BulkAction::Disable => t.bulk_disable_title(),
            BulkAction::Enable => t.bulk_enable_title(),
            BulkAction::AddToGroup => t.bulk_add_title(self.group),
            BulkAction::RemoveFromGroup => t.bulk_remove_title(self.group),
            BulkAction::Revoke => t.bulk_revoke_title(),
            BulkAction::InviteAgain => t.bulk_invite_title(),
        }
    }

    fn effect(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.action {
            BulkAction::Disable => t.bulk_disable_effect(),
            BulkAction::Enable => t.bulk_enable_effect(),
            BulkAction::AddToGroup => t.roles_of_group(self.roles).unwrap_or_else(|| t.bulk_add_effect()),
            BulkAction::RemoveFromGroup => t.bulk_remove_effect(),
            BulkAction::Revoke => t.bulk_revoke_effect(),
            BulkAction::InviteAgain => t.bulk_invite_effect(),
        }
    }

    fn fault_words(&self, fault: &BulkFault) -> Markup {
        let t = self.inside.frame.t;
        match fault {
            BulkFault::NoUsers => t.bulk_no_users(),
            BulkFault::TooMany { most } => t.bulk_too_many(*most),
            BulkFault::Group => t.bulk_group_wrong(),
            BulkFault::OtherGroup => t.bulk_other_group(),
        }
    }

    fn count(&self) -> u64 {
        self.users.len() as u64
    }

    fn has_users_open_to_managers(&self) -> bool {
        self.open_to_managers > 0
    }
}
