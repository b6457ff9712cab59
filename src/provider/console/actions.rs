//! Actions of the console's forms, and what each of them requires: one table.
//!
//! [`super::console_page`] enforces the table before the page of the form runs. The pages match on
//! these types, so an action without an entry in the table does not compile.

use super::Area;
use crate::accesses;
use sealgate_core::web::failure::Failure;
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::oauth::params::Params;
use sealgate_pages::Problem;
use sealgate_pages::console::{AppSection, BulkAction, ClientSection, UserSection};

/// Action of a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    AddUser,
    InviteUsers,
    ImportUsers,
    User(UserAction),
    Bulk(BulkAction),
    Group(GroupAction),
    RegisterClient,
    Client(ClientAction),
    ClientLogo(ClientLogoAction),
    ClientTest(ClientTestAction),
    RotateKey,
    Mail(MailAction),
    EndAppSession,
    EditApp(EditAppAction),
    /// Adds an application to the file of applications.
    AddApp,
    CheckNewApp,
    CheckAccess,
    ApiToken(ApiTokenAction),
    RegistrationToken(RegistrationTokenAction),
    /// Reloads the configuration.
    Reload,
    Audit(AuditAction),
}

/// Action on the page of the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AuditAction {
    /// Saves the filter for the user.
    SaveFilter,
    DeleteFilter,
}

/// Action on the page of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserAction {
    /// Saves groups and roles.
    Save,
    SaveProfile,
    Delete,
    Revoke,
    Disable,
    Enable,
    ResetPassword,
    SendResetLink,
    ResendInvitation,
    WithdrawInvitation,
    UnblockFactors,
    ResetFactors,
    SetAppLogin,
    /// Ends one session or one other access.
    EndAccess,
}

/// Action on the page of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GroupAction {
    Rename,
    Delete,
}

/// Action on the page of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAction {
    Save,
    Rotate,
    AddSecret,
    RemoveSecret,
    /// Replaces the secrets by public keys.
    SetKeys,
    /// Replaces the public keys by a secret.
    UseSecret,
    Disable,
    Enable,
    Approve,
    RevokeApproval,
    Level,
    /// Sets where the client receives logout tokens.
    Logout,
    /// Sets consent rule, limit and owner.
    SetRules,
    /// Ends the access that one user has given.
    EndGrant,
    /// Ends all grants of the client.
    EndGrants,
    Delete,
}

/// Action on the page of a client's logo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientLogoAction {
    Set,
    Remove,
}

/// Action on the pages that change an application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EditAppAction {
    Save,
    /// Removes the application.
    Remove,
    /// Changes or adds a rule.
    SaveRule,
    RemoveRule,
}

/// Action on the page for test sign-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientTestAction {
    SwitchOn,
    SwitchOff,
    Start,
}

/// Action on the page of the mail queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MailAction {
    Retry,
    Delete,
    Test,
}

/// Action on the page of tokens for the admin API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ApiTokenAction {
    Create,
    Remove,
}

/// Action on the page of registration tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegistrationTokenAction {
    Create,
    Revoke,
}

/// What an action requires in addition to the role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nothing: the action neither changes access nor reveals a secret.
    None,
    /// Only some contents of the form change access. The page requires the rest.
    ByContent,
    /// A recent sign-in: see [`super::confirmation`].
    RecentSignIn,
    /// A recent sign-in and a confirmation that names the object and the effect.
    Confirmation,
}

impl Action {
    /// Returns the action of a form that was sent to a page.
    ///
    /// # Errors
    /// An error page if the page has no such action.
    pub(super) fn read(area: Area, form: &Params) -> Result<Self, Failure> {
        let action = match area {
            Area::NewUser => Some(Self::AddUser),
            Area::Invite => Some(Self::InviteUsers),
            Area::Import => Some(Self::ImportUsers),
            Area::User => Some(Self::User(UserAction::read(form)?)),
            Area::Bulk => form.one("action")?.and_then(BulkAction::parse).map(Self::Bulk),
            Area::Group => Some(Self::Group(GroupAction::read(form)?)),
            Area::NewClient => Some(Self::RegisterClient),
            Area::Client => Some(Self::Client(ClientAction::read(form)?)),
            Area::ClientSection(ClientSection::Logo) => Some(Self::ClientLogo(ClientLogoAction::read(form)?)),
            Area::ClientTest => Some(Self::ClientTest(ClientTestAction::read(form)?)),
            Area::Keys => (form.one("action")? == Some("rotate")).then_some(Self::RotateKey),
            Area::Mail => Some(Self::Mail(MailAction::read(form)?)),
            Area::App(AppSection::Sessions) => Some(Self::EndAppSession),
            Area::EditApp => Some(Self::EditApp(EditAppAction::read(form)?)),
            Area::NewApp if form.has("sure") => Some(Self::AddApp),
            Area::NewApp => Some(Self::CheckNewApp),
            Area::CheckAccess => Some(Self::CheckAccess),
            Area::ApiTokens => Some(Self::ApiToken(ApiTokenAction::read(form)?)),
            Area::RegistrationTokens => Some(Self::RegistrationToken(RegistrationTokenAction::read(form)?)),
            Area::Audit => Some(Self::Audit(AuditAction::read(form)?)),
            Area::Settings => (form.one("action")? == Some("reload")).then_some(Self::Reload),
            Area::Overview
            | Area::Clients
            | Area::ClientSection(_)
            | Area::ClientTestCallback
            | Area::Users
            | Area::UserSection(_)
            | Area::UsersExport
            | Area::Groups
            | Area::MailTemplates
            | Area::Apps
            | Area::App(_)
            | Area::EditRule
            | Area::AuditExport => None,
        };
        action.ok_or(Failure::page(Problem::InvalidRequest))
    }

    /// Returns the requirement of the action in addition to the role.
    pub(super) fn guard(self) -> Guard {
        use {ClientAction as Client, ClientTestAction as Test, MailAction as Mail, UserAction as User};
        match self {
            // The first three change nothing; a test sign-in is bound to the browser. Only the user receives
            // a mailed link. A queued message was already approved. Users save their own filters. A logo changes no
            // access, and a developer's new logo ends the approval.
            Self::CheckNewApp
            | Self::CheckAccess
            | Self::ClientTest(Test::Start)
            | Self::User(User::SendResetLink | User::ResendInvitation)
            | Self::Mail(Mail::Retry | Mail::Test)
            | Self::ClientLogo(ClientLogoAction::Set | ClientLogoAction::Remove)
            | Self::Audit(_) => Guard::None,
            // A name or a description changes no access. An address, a username or a redirect URI
            // does.
            Self::User(User::SaveProfile) | Self::Client(Client::Save) => Guard::ByContent,
            // The first three forms have fields that a confirmation would repeat, or show a new
            // credential; a new user with a console role is confirmed too. The others end or open one
            // access.
            Self::AddUser
            | Self::RegisterClient
            | Self::EndAppSession
            | Self::User(User::SetAppLogin | User::EndAccess | User::WithdrawInvitation)
            | Self::Client(Client::Logout | Client::EndGrant)
            | Self::ClientTest(Test::SwitchOn | Test::SwitchOff) => Guard::RecentSignIn,
            Self::User(
                User::Save
                | User::Delete
                | User::Revoke
                | User::Disable
                | User::Enable
                | User::ResetPassword
                | User::UnblockFactors
                | User::ResetFactors,
            )
            | Self::Bulk(
                BulkAction::Disable
                | BulkAction::Enable
                | BulkAction::AddToGroup
                | BulkAction::RemoveFromGroup
                | BulkAction::Revoke
                | BulkAction::InviteAgain,
            )
            | Self::ImportUsers
            | Self::InviteUsers
            | Self::Group(GroupAction::Rename | GroupAction::Delete)
            | Self::Client(
                Client::Rotate
                | Client::AddSecret
                | Client::RemoveSecret
                | Client::SetKeys
                | Client::UseSecret
                | Client::Disable
                | Client::Enable
                | Client::Approve
                | Client::RevokeApproval
                | Client::Level
                | Client::SetRules
                | Client::EndGrants
                | Client::Delete,
            )
            | Self::RotateKey
            | Self::EditApp(_)
            | Self::AddApp
            | Self::Reload
            | Self::Mail(Mail::Delete)
            | Self::ApiToken(ApiTokenAction::Create | ApiTokenAction::Remove)
            | Self::RegistrationToken(RegistrationTokenAction::Create | RegistrationTokenAction::Revoke) => {
                Guard::Confirmation
            }
        }
    }

    /// Returns the roles that may make the action: one of them is enough. Auditors never do, except for
    /// actions that only read. Developers reach only their own clients, and user managers only the
    /// users that they manage.
    pub(super) fn roles(self) -> ConsoleRoles {
        use {ClientAction as Client, UserAction as User};
        match self {
            Self::RegisterClient
            | Self::Client(
                Client::Save
                | Client::Rotate
                | Client::AddSecret
                | Client::RemoveSecret
                | Client::SetKeys
                | Client::UseSecret
                | Client::Disable
                | Client::Enable
                | Client::Delete,
            )
            | Self::ClientLogo(_)
            | Self::ClientTest(_) => ConsoleRoles::CLIENT_EDITORS,
            Self::AddUser
            | Self::InviteUsers
            | Self::User(
                User::Save
                | User::SaveProfile
                | User::Revoke
                | User::Disable
                | User::Enable
                | User::ResetPassword
                | User::SendResetLink
                | User::ResendInvitation
                | User::WithdrawInvitation
                | User::UnblockFactors
                | User::ResetFactors
                | User::EndAccess,
            )
            | Self::Bulk(_) => ConsoleRoles::USER_EDITORS,
            // A developer must not vouch for a client, or lower the level that an administrator set. The
            // server sends requests to the URI for logout tokens. A password at an application is an account
            // there, which rules of the application's operator may give more access than a group.
            Self::Client(
                Client::Approve
                | Client::RevokeApproval
                | Client::Level
                | Client::Logout
                | Client::SetRules
                | Client::EndGrant
                | Client::EndGrants,
            )
            // A deletion cannot be undone.
            | Self::User(User::Delete | User::SetAppLogin)
            // An import sets password hashes and verified addresses.
            | Self::ImportUsers
            | Self::Group(_)
            | Self::RotateKey
            | Self::Reload
            | Self::Audit(_)
            | Self::Mail(_)
            | Self::EndAppSession
            | Self::EditApp(_)
            | Self::AddApp
            | Self::CheckNewApp
            | Self::ApiToken(_)
            | Self::RegistrationToken(_) => ConsoleRoles::ADMINISTRATORS,
            Self::CheckAccess => ConsoleRoles::READERS,
        }
    }
}

/// Returns the entry with the name that the form sends as `action`.
fn named<T: Copy>(form: &Params, actions: &[(&str, T)]) -> Result<T, Failure> {
    let name = form.one("action")?.unwrap_or_default();
    let action = actions.iter().find(|(known, _)| *known == name).map(|(_, action)| *action);
    action.ok_or(Failure::page(Problem::InvalidRequest))
}

impl UserAction {
    /// Reads the action of a form on the page of a user.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        if accesses::chosen(form)?.is_some() {
            return Ok(Self::EndAccess);
        }
        let actions = [
            ("save", Self::Save),
            ("save-profile", Self::SaveProfile),
            ("delete", Self::Delete),
            ("revoke", Self::Revoke),
            ("disable", Self::Disable),
            ("enable", Self::Enable),
            ("reset-password", Self::ResetPassword),
            ("send-reset-link", Self::SendResetLink),
            ("resend-invitation", Self::ResendInvitation),
            ("withdraw-invitation", Self::WithdrawInvitation),
            ("unblock-factors", Self::UnblockFactors),
            ("reset-factors", Self::ResetFactors),
            ("set-app-login", Self::SetAppLogin),
        ];
        named(form, &actions)
    }

    /// Returns the section of the user's page that has the form. The button of an open access is in
    /// the section of its kind.
    pub(super) fn section(self) -> UserSection {
        match self {
            Self::Save | Self::SaveProfile | Self::ResendInvitation | Self::WithdrawInvitation => UserSection::Profile,
            Self::EndAccess => UserSection::Sessions,
            Self::SetAppLogin => UserSection::Applications,
            Self::ResetPassword | Self::SendResetLink | Self::UnblockFactors | Self::ResetFactors => {
                UserSection::Security
            }
            Self::Delete | Self::Revoke | Self::Disable | Self::Enable => UserSection::Danger,
        }
    }

    /// Returns whether administrators cannot make the change to themselves.
    ///
    /// There may be no other administrator. They change their own credentials on the account pages.
    pub(super) fn is_for_others(self) -> bool {
        matches!(self, Self::Delete | Self::Disable | Self::ResetPassword | Self::ResetFactors | Self::SetAppLogin)
    }
}

impl GroupAction {
    /// Reads the action of a form on the page of a group.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        named(form, &[("rename", Self::Rename), ("delete", Self::Delete)])
    }
}

impl ClientAction {
    /// Reads the action of a form on the page of a client.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        if form.has("grant") {
            return Ok(Self::EndGrant);
        }
        let actions = [
            ("save", Self::Save),
            ("rotate", Self::Rotate),
            ("add-secret", Self::AddSecret),
            ("remove-secret", Self::RemoveSecret),
            ("set-keys", Self::SetKeys),
            ("use-secret", Self::UseSecret),
            ("disable", Self::Disable),
            ("enable", Self::Enable),
            ("approve", Self::Approve),
            ("revoke-approval", Self::RevokeApproval),
            ("level", Self::Level),
            ("logout", Self::Logout),
            ("set-rules", Self::SetRules),
            ("end-grants", Self::EndGrants),
            ("delete", Self::Delete),
        ];
        named(form, &actions)
    }

    /// Returns the section of the client's page that has the form.
    pub(super) fn section(self) -> ClientSection {
        match self {
            Self::Save => ClientSection::Settings,
            Self::Rotate | Self::AddSecret | Self::RemoveSecret | Self::SetKeys | Self::UseSecret => {
                ClientSection::Secrets
            }
            Self::Approve | Self::RevokeApproval | Self::Level | Self::Logout | Self::SetRules => ClientSection::Rules,
            Self::EndGrant | Self::EndGrants => ClientSection::Grants,
            Self::Disable | Self::Enable | Self::Delete => ClientSection::Danger,
        }
    }
}

impl ClientLogoAction {
    /// Reads the action of a form on the page of a client's logo.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        named(form, &[("set", Self::Set), ("remove", Self::Remove)])
    }
}

impl EditAppAction {
    /// Reads the action of a form on the pages that change an application.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        let actions = [
            ("save", Self::Save),
            ("remove", Self::Remove),
            ("save-rule", Self::SaveRule),
            ("remove-rule", Self::RemoveRule),
        ];
        named(form, &actions)
    }
}

impl ClientTestAction {
    /// Reads the action of a form on the page for test sign-ins.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        named(form, &[("switch-on", Self::SwitchOn), ("switch-off", Self::SwitchOff), ("start", Self::Start)])
    }
}

impl ApiTokenAction {
    /// Reads the action of a form on the page of tokens for the admin API.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        named(form, &[("create", Self::Create), ("remove", Self::Remove)])
    }
}

impl RegistrationTokenAction {
    /// Reads the action of a form on the page of registration tokens.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        named(form, &[("create", Self::Create), ("revoke", Self::Revoke)])
    }
}

impl AuditAction {
    /// Reads the action of a form on the page of the audit log.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        named(form, &[("save-filter", Self::SaveFilter), ("delete-filter", Self::DeleteFilter)])
    }
}

impl MailAction {
    /// Reads the action of a form on the page of the mail queue.
    pub(super) fn read(form: &Params) -> Result<Self, Failure> {
        named(form, &[("retry", Self::Retry), ("delete", Self::Delete), ("test", Self::Test)])
    }
}
