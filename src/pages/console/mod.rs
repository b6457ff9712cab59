//! Console pages for developers and administrators: the pages about signing keys and settings, and
//! the confirmation of a change.

mod apps;
mod bulk;
mod check_access;
mod clients;
mod form;
mod groups;
mod mail;
mod overview;
mod snippets;
mod user_list;
mod users;

use askama::Template;

use crate::inside::{ConsoleRole, Inside, MenuEntry};
use crate::words::Markup;
use sealgate_domain::key_ring::{KeyLife, KeyRing, KeyState};
use sealgate_domain::time::UnixTime;

pub use apps::{AppLine, AppPage, AppsPage, NewAppForm, NewAppPage, NewAppResult, RefusalLine, RuleLine};
pub use bulk::{BulkAction, BulkFault, BulkLine, BulkPage, BulkSkip};
pub use check_access::{AccessOutcome, CheckAccessPage, CheckField, CheckForm, CheckNote, CheckedHeader, CheckedLogin};
pub use clients::{ClientPage, ClientRefusal, ClientTestPage, ClientTestProblem, ClientsPage, NewClientPage};
pub use form::{ClientFault, ClientField, ClientForm};
pub use groups::{GroupConfirmPage, GroupFault, GroupLine, GroupPage, GroupUse, GroupsPage};
pub use mail::{MailLine, MailPage, MailTemplatesPage};
pub use overview::{CountedFigures, OverviewPage, OverviewWarning, SignInChart};
pub use user_list::{UserFilter, UserLine, UsersPage};
pub use users::{
    InvitationForm, NewUserPage, ResetState, TypedProfile, TypedUser, UserAppLogins, UserFactors, UserField,
    UserInvitation, UserPage,
};

/// Page of the signing keys.
#[derive(Template)]
#[template(path = "console/keys.html")]
pub struct KeysPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Keys, oldest first.
    pub ring: &'a KeyRing,
    pub now: UnixTime,
    /// Next automatic rotation.
    pub next_rotation: Option<UnixTime>,
    /// Reason why a rotation failed.
    pub problem: Option<&'a str>,
}

/// Page with the plan of a rotation, which asks for confirmation.
#[derive(Template)]
#[template(path = "console/key_plan.html")]
pub struct KeyPlanPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    /// Key that signs until the new key does.
    pub active_key: Option<&'a str>,
    /// Key that is already published and waits for its activation.
    pub waiting_key: Option<&'a str>,
    pub activate_at: UnixTime,
    /// Time at which the current key is removed.
    pub remove_at: UnixTime,
    /// Fields of the form that asked for the rotation, without its CSRF token.
    pub fields: &'a [(&'a str, &'a str)],
}

impl KeysPage<'_> {
    fn next_change(&self) -> Option<UnixTime> {
        self.ring.next_change(self.now)
    }

    /// Returns whether the ring already has a key that signs next.
    fn is_rotating(&self) -> bool {
        let now = self.ring.at(self.now);
        self.ring.own().any(|key| key.activate_at.is_some_and(|at| at > now))
    }

    fn state(&self, key: &KeyLife) -> Markup {
        let t = self.inside.frame.t;
        match self.ring.state(key, self.now) {
            KeyState::PrePublished => t.key_pre_published(),
            KeyState::Active => t.key_active(),
            KeyState::Retired => t.key_retired(),
            KeyState::Removed => t.key_removed(),
        }
    }

    fn times(&self, key: &KeyLife) -> impl Iterator<Item = Markup> {
        let t = self.inside.frame.t;
        let published = t.key_published_at(t.moment(&key.published_at));
        let activate = key.activate_at.map(|at| t.key_activate_at(t.moment(&at)));
        let retire = key.retire_at.map(|at| t.key_retire_at(t.moment(&at)));
        let remove = key.remove_at.map(|at| t.key_remove_at(t.moment(&at)));
        std::iter::once(published).chain(activate).chain(retire).chain(remove)
    }
}

/// Page with the provider's addresses and the rate limits.
#[derive(Template)]
#[template(path = "console/settings.html")]
pub struct SettingsPage<'a> {
    pub inside: Inside<'a>,
    pub issuer: &'a str,
    /// Limits of requests per minute.
    pub limits: &'a [LimitLine<'a>],
    /// Number of sign-ins that an address may start per minute. `None` if unlimited.
    pub sign_ins: Option<u64>,
    /// Maximum number of wrong passwords per account in the window.
    pub failures_per_account: u64,
    /// Maximum number of wrong passwords per client address in the window.
    pub failures_per_address: u64,
    /// Duration of the window for wrong passwords, in minutes.
    pub window_minutes: u64,
}

/// Rate limit of one endpoint.
#[derive(Debug, Clone, Copy)]
pub struct LimitLine<'a> {
    /// Paths that the limit applies to. `None` for all other paths.
    pub path: Option<&'a str>,
    /// Requests per minute. `None` if unlimited.
    pub limit: Option<u64>,
    /// Whether requests are counted by client or token. Otherwise they are counted by address.
    pub by_credential: bool,
}

/// A change in the console that takes effect only after a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardedChange {
    ResetPassword,
    ChangeAddress,
    DisableUser,
    DeleteUser,
    RevokeAccess,
    ResetFactors,
    /// The change gives the user this console role, through roles or groups.
    SetRole(Option<ConsoleRole>),
    /// The new user has this console role.
    AddUser(Option<ConsoleRole>),
    DisableClient,
    DeleteClient,
    RotateSecret,
    AddSecret,
    RemoveSecret,
    /// The client uses public keys instead of secrets, or other keys.
    SetKeys,
    /// The client uses a secret instead of public keys.
    UseSecret,
}

/// Page that asks for confirmation of a change. Its form sends the fields of the previous form
/// again, with `sure`.
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
    /// New address of [`GuardedChange::ChangeAddress`]. `None` if the address is removed.
    pub new_address: Option<&'a str>,
    /// Fields of the form that asked for the change, without its CSRF token.
    pub fields: &'a [(&'a str, &'a str)],
    /// Path to which the form is sent. `cancel` is the path that the Cancel link opens. Both paths
    /// are without the issuer's prefix.
    pub action: &'a str,
    pub cancel: &'a str,
}

impl ConfirmPage<'_> {
    fn is_about_client(&self) -> bool {
        use GuardedChange::{AddSecret, DeleteClient, DisableClient, RemoveSecret, RotateSecret, SetKeys, UseSecret};
        matches!(
            self.change,
            DisableClient | DeleteClient | RotateSecret | AddSecret | RemoveSecret | SetKeys | UseSecret
        )
    }

    fn entry(&self) -> MenuEntry {
        if self.is_about_client() { MenuEntry::Clients } else { MenuEntry::Users }
    }

    fn title(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.change {
            GuardedChange::ResetPassword => t.confirm_password_title(),
            GuardedChange::ChangeAddress => t.confirm_address_title(),
            GuardedChange::DisableUser => t.confirm_disable_title(),
            GuardedChange::DeleteUser => t.confirm_delete_title(),
            GuardedChange::RevokeAccess => t.confirm_revoke_title(),
            GuardedChange::ResetFactors => t.confirm_factors_title(),
            GuardedChange::SetRole(_) => t.confirm_role_title(),
            GuardedChange::AddUser(_) => t.confirm_add_title(),
            GuardedChange::DisableClient => t.confirm_client_disable_title(),
            GuardedChange::DeleteClient => t.confirm_client_delete_title(),
            GuardedChange::RotateSecret => t.confirm_client_rotate_title(),
            GuardedChange::AddSecret => t.confirm_client_secret_add_title(),
            GuardedChange::RemoveSecret => t.confirm_client_secret_remove_title(),
            GuardedChange::SetKeys => t.confirm_client_keys_title(),
            GuardedChange::UseSecret => t.confirm_client_use_secret_title(),
        }
    }

    fn effect(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.change {
            GuardedChange::ResetPassword => t.confirm_password_effect(),
            GuardedChange::ChangeAddress => match self.new_address {
                Some(address) => t.confirm_address_effect(address),
                None => t.confirm_address_removed(),
            },
            GuardedChange::DisableUser => t.confirm_disable_effect(),
            GuardedChange::DeleteUser => t.confirm_delete_effect(),
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
            GuardedChange::AddSecret => t.confirm_client_secret_add_effect(),
            GuardedChange::RemoveSecret => t.confirm_client_secret_remove_effect(),
            GuardedChange::SetKeys => t.confirm_client_keys_effect(),
            GuardedChange::UseSecret => t.confirm_client_use_secret_effect(),
        }
    }

    fn button(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.change {
            GuardedChange::ResetPassword => t.user_reset_password(),
            GuardedChange::DisableUser | GuardedChange::DisableClient => t.client_disable(),
            GuardedChange::RevokeAccess => t.user_revoke(),
            GuardedChange::ResetFactors => t.user_factors_reset(),
            GuardedChange::SetRole(_) | GuardedChange::ChangeAddress => t.profile_save(),
            GuardedChange::AddUser(_) => t.user_add(),
            GuardedChange::DeleteClient | GuardedChange::DeleteUser => t.client_delete(),
            GuardedChange::RotateSecret => t.client_rotate(),
            GuardedChange::AddSecret => t.client_secret_add(),
            GuardedChange::RemoveSecret => t.client_secret_remove(),
            GuardedChange::SetKeys => t.client_keys_save(),
            GuardedChange::UseSecret => t.client_use_secret(),
        }
    }
}
