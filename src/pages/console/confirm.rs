//! The page on which a change in the console is confirmed.

use askama::Template;

use crate::inside::{ConsoleRole, Inside, MenuEntry};
use crate::words::Markup;

/// A change in the console that takes effect only after a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardedChange {
    ResetPassword,
    DisableUser,
    RevokeAccess,
    ResetFactors,
    /// After the change, the user's roles or groups give this console role.
    SetRole(Option<ConsoleRole>),
    /// A new user has this console role.
    AddUser(Option<ConsoleRole>),
    DisableClient,
    DeleteClient,
    RotateSecret,
}

/// Asks for confirmation of a change. The form sends the fields of the form before it again, with
/// `sure`.
#[derive(Template)]
#[template(path = "console/confirm.html")]
pub struct ConfirmPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub change: GuardedChange,
    /// Name of the user or client.
    pub name: &'a str,
    /// Email address of the user, or identifier of the client.
    pub identifier: &'a str,
    /// Fields of the form that asked for the change, without its token.
    pub fields: &'a [(&'a str, &'a str)],
    /// Path that the form is sent to. `cancel` is the path of the page that Cancel leads to. Both
    /// are without the issuer's prefix.
    pub action: &'a str,
    pub cancel: &'a str,
}

impl ConfirmPage<'_> {
    fn is_about_client(&self) -> bool {
        use GuardedChange::{DeleteClient, DisableClient, RotateSecret};
        matches!(self.change, DisableClient | DeleteClient | RotateSecret)
    }

    fn entry(&self) -> MenuEntry {
        if self.is_about_client() { MenuEntry::Clients } else { MenuEntry::Users }
    }

    fn title(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.change {
            GuardedChange::ResetPassword => t.confirm_password_title(),
            GuardedChange::DisableUser => t.confirm_disable_title(),
            GuardedChange::RevokeAccess => t.confirm_revoke_title(),
            GuardedChange::ResetFactors => t.confirm_factors_title(),
            GuardedChange::SetRole(_) => t.confirm_role_title(),
            GuardedChange::AddUser(_) => t.confirm_add_title(),
            GuardedChange::DisableClient => t.confirm_client_disable_title(),
            GuardedChange::DeleteClient => t.confirm_client_delete_title(),
            GuardedChange::RotateSecret => t.confirm_client_rotate_title(),
        }
    }

    fn effect(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.change {
            GuardedChange::ResetPassword => t.confirm_password_effect(),
            GuardedChange::DisableUser => t.confirm_disable_effect(),
            GuardedChange::RevokeAccess => t.confirm_revoke_effect(),
            GuardedChange::ResetFactors => t.confirm_factors_effect(),
            GuardedChange::SetRole(role) | GuardedChange::AddUser(role) => match role {
                Some(ConsoleRole::Administrator) => t.confirm_role_admin(),
                Some(ConsoleRole::Developer) => t.confirm_role_developer(),
                None => t.confirm_role_none(),
            },
            GuardedChange::DisableClient => t.confirm_client_disable_effect(),
            GuardedChange::DeleteClient => t.confirm_client_delete_effect(),
            GuardedChange::RotateSecret => t.confirm_client_rotate_effect(),
        }
    }

    fn button(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.change {
            GuardedChange::ResetPassword => t.user_reset_password(),
            GuardedChange::DisableUser | GuardedChange::DisableClient => t.client_disable(),
            GuardedChange::RevokeAccess => t.user_revoke(),
            GuardedChange::ResetFactors => t.user_factors_reset(),
            GuardedChange::SetRole(_) => t.profile_save(),
            GuardedChange::AddUser(_) => t.user_add(),
            GuardedChange::DeleteClient => t.client_delete(),
            GuardedChange::RotateSecret => t.client_rotate(),
        }
    }
}
