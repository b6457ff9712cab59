//! Console page that asks for the confirmation of a change.

use askama::Template;

use crate::events::EventLine;
use crate::inside::{Inside, MenuEntry};
use crate::security::FactorLine;
use crate::words::Markup;
use sealgate_domain::assurance::AssuranceLevel;
use sealgate_domain::console_role::ConsoleRoles;
use sealgate_domain::mail::MailKind;
use sealgate_domain::open_access::OpenAccess;

/// A change in the console that takes effect only after a confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardedChange {
    ResetPassword,
    ChangeAddress,
    /// The user gets the first username.
    SetUsername,
    DisableUser,
    EnableUser,
    DeleteUser,
    RevokeAccess,
    UnblockFactors,
    ResetFactors,
    /// The change of groups gives or removes no console role.
    ChangeGroups,
    /// The change leaves the user with these console roles, through roles or groups.
    SetRole(ConsoleRoles),
    /// The new user has these console roles.
    AddUser(ConsoleRoles),
    DisableClient,
    EnableClient,
    DeleteClient,
    RotateSecret,
    AddSecret,
    RemoveSecret,
    /// The client uses public keys instead of secrets, or other keys.
    SetKeys,
    /// The client uses a secret instead of public keys.
    UseSecret,
    /// The client gets further redirect URIs or scopes.
    WidenClient,
    SetLevel(AssuranceLevel),
    Approve,
    RevokeApproval,
    /// Consent rule, limit or owner of a client.
    SetClientRules,
    /// All users' access through a client ends.
    EndGrants,
    DeleteMail(MailKind),
    CreateApiToken,
    RemoveApiToken,
    CreateRegistrationToken,
    RevokeRegistrationToken,
}

/// Part of a change, shown with its values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfirmDetail {
    pub label: ConfirmLabel,
    pub values: Vec<String>,
}

/// Kind of the part of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfirmLabel {
    GroupsAdded,
    GroupsRemoved,
    Username,
    RedirectUris,
    PostLogoutRedirectUris,
    Scope,
    RedirectUrisAdded,
    PostLogoutRedirectUrisAdded,
    ScopesAdded,
    /// Scopes of a token for the admin API.
    ApiScopes,
    ExpiresAt,
    Registrations,
    ConsentRule,
    TokenLimit,
    Owner,
}

/// Enabled clients that would have no owner after the change.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnedClients {
    /// Names and identifiers of the first clients.
    pub listed: Vec<(String, String)>,
    /// Number of all clients.
    pub total: u64,
}

/// How a user can sign in who gets a console role: what somebody else may have set before.
#[derive(Debug, Clone, Copy)]
pub struct PromotedUser<'a> {
    /// Address, and whether the user has verified it.
    pub email: Option<(&'a str, bool)>,
    pub factors: &'a [FactorLine<'a>],
    /// Whether a user manager could sign in as the user, so that the password and the factors are removed.
    pub is_open_to_manager: bool,
    pub sessions: &'a [OpenAccess],
    /// Events about the sign-in data, newest first.
    pub changes: &'a [EventLine],
}

/// Page that asks for confirmation of a change. Its form sends the fields of the previous form
/// again, with `sure`, and with `disable_clients` if the user chooses so.
#[derive(Template)]
#[template(path = "console/confirm.html")]
pub struct ConfirmPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub change: GuardedChange,
    /// Name of the user or client. For a message, the name of its user, or empty.
    pub name: &'a str,
    /// Email address of the user, or identifier of the client.
    pub identifier: &'a str,
    /// New address of [`GuardedChange::ChangeAddress`]. `None` if the address is removed.
    pub new_address: Option<&'a str>,
    /// Parts of the change.
    pub details: &'a [ConfirmDetail],
    /// User who gets a console role, or further users to manage.
    pub promoted: Option<PromotedUser<'a>>,
    /// Clients of a user who loses access to the console.
    pub clients: &'a OwnedClients,
    /// Fields of the form that asked for the change, without its CSRF token.
    pub fields: &'a [(&'a str, &'a str)],
    /// Path to which the form is sent. `cancel` is the path that the Cancel link opens. Both paths
    /// are without the issuer's prefix.
    pub action: &'a str,
    pub cancel: &'a str,
}

impl ConfirmPage<'_> {
    fn is_about_client(&self) -> bool {
        use GuardedChange::{
            AddSecret, Approve, DeleteClient, DisableClient, EnableClient, EndGrants, RemoveSecret, RevokeApproval,
            RotateSecret, SetClientRules, SetKeys, SetLevel, UseSecret, WidenClient,
        };
        matches!(
            self.change,
            DisableClient
                | EnableClient
                | DeleteClient
                | RotateSecret
                | AddSecret
                | RemoveSecret
                | SetKeys
                | UseSecret
                | WidenClient
                | SetLevel(_)
                | Approve
                | RevokeApproval
                | SetClientRules
                | EndGrants
        )
    }

    fn entry(&self) -> MenuEntry {
        match self.change {
            GuardedChange::DeleteMail(_) => MenuEntry::Mail,
            GuardedChange::CreateApiToken | GuardedChange::RemoveApiToken => MenuEntry::ApiTokens,
            GuardedChange::CreateRegistrationToken | GuardedChange::RevokeRegistrationToken => MenuEntry::Clients,
            _ if self.is_about_client() => MenuEntry::Clients,
            _ => MenuEntry::Users,
        }
    }

    /// Returns the kind of the message, if the change is about one.
    fn message(&self) -> Option<Markup> {
        match self.change {
            GuardedChange::DeleteMail(kind) => Some(self.inside.frame.t.mail_kind(kind)),
            _ => None,
        }
    }

    fn label(&self, detail: &ConfirmDetail) -> Markup {
        let t = self.inside.frame.t;
        match detail.label {
            ConfirmLabel::GroupsAdded => t.confirm_groups_added(),
            ConfirmLabel::GroupsRemoved => t.confirm_groups_removed(),
            ConfirmLabel::Username => t.profile_username(),
            ConfirmLabel::RedirectUris => t.client_redirect_uris(),
            ConfirmLabel::PostLogoutRedirectUris => t.client_part_logout_uris(),
            ConfirmLabel::Scope => t.client_scopes_allowed(),
            ConfirmLabel::RedirectUrisAdded => t.confirm_uris_added(),
            ConfirmLabel::PostLogoutRedirectUrisAdded => t.confirm_post_logout_added(),
            ConfirmLabel::ScopesAdded => t.confirm_scopes_added(),
            ConfirmLabel::ApiScopes => t.api_token_scopes(),
            ConfirmLabel::Registrations => t.confirm_registration_token_number(),
            ConfirmLabel::ExpiresAt => t.confirm_api_token_until(),
            ConfirmLabel::ConsentRule => t.client_consent(),
            ConfirmLabel::TokenLimit => t.client_token_limit(),
            ConfirmLabel::Owner => t.client_owner(),
        }
    }

    fn title(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.change {
            GuardedChange::ResetPassword => t.confirm_password_title(),
            GuardedChange::ChangeAddress => t.confirm_address_title(),
            GuardedChange::SetUsername => t.confirm_username_title(),
            GuardedChange::DisableUser => t.confirm_disable_title(),
            GuardedChange::EnableUser => t.confirm_enable_title(),
            GuardedChange::DeleteUser => t.confirm_delete_title(),
            GuardedChange::RevokeAccess => t.confirm_revoke_title(),
            GuardedChange::UnblockFactors => t.confirm_unblock_title(),
            GuardedChange::ResetFactors => t.confirm_factors_title(),
            GuardedChange::ChangeGroups => t.confirm_groups_title(),
            GuardedChange::SetRole(_) => t.confirm_role_title(),
            GuardedChange::AddUser(_) => t.confirm_add_title(),
            GuardedChange::DisableClient => t.confirm_client_disable_title(),
            GuardedChange::EnableClient => t.confirm_client_enable_title(),
            GuardedChange::DeleteClient => t.confirm_client_delete_title(),
            GuardedChange::RotateSecret => t.confirm_client_rotate_title(),
            GuardedChange::AddSecret => t.confirm_client_secret_add_title(),
            GuardedChange::RemoveSecret => t.confirm_client_secret_remove_title(),
            GuardedChange::SetKeys => t.confirm_client_keys_title(),
            GuardedChange::UseSecret => t.confirm_client_use_secret_title(),
            GuardedChange::WidenClient => t.confirm_client_widen_title(),
            GuardedChange::SetLevel(_) => t.confirm_client_level_title(),
            GuardedChange::Approve => t.confirm_client_approve_title(),
            GuardedChange::RevokeApproval => t.confirm_client_unapprove_title(),
            GuardedChange::SetClientRules => t.confirm_client_rules_title(),
            GuardedChange::EndGrants => t.confirm_client_grants_title(),
            GuardedChange::DeleteMail(_) => t.confirm_mail_title(),
            GuardedChange::CreateApiToken | GuardedChange::CreateRegistrationToken => t.confirm_api_token_title(),
            GuardedChange::RemoveApiToken => t.confirm_api_token_remove_title(),
            GuardedChange::RevokeRegistrationToken => t.confirm_registration_token_title(),
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
            GuardedChange::SetUsername => t.confirm_username_effect(),
            GuardedChange::DisableUser => t.confirm_disable_effect(),
            GuardedChange::EnableUser => t.confirm_enable_effect(),
            GuardedChange::DeleteUser => t.confirm_delete_effect(),
            GuardedChange::RevokeAccess => t.confirm_revoke_effect(),
            GuardedChange::UnblockFactors => t.confirm_unblock_effect(),
            GuardedChange::ResetFactors => t.confirm_factors_effect(),
            GuardedChange::ChangeGroups => t.confirm_groups_effect(),
            GuardedChange::SetRole(roles) | GuardedChange::AddUser(roles) => t.roles_of_user(roles),
            GuardedChange::DisableClient => t.confirm_client_disable_effect(),
            GuardedChange::EnableClient => t.confirm_client_enable_effect(),
            GuardedChange::DeleteClient => t.confirm_client_delete_effect(),
            GuardedChange::RotateSecret => t.confirm_client_rotate_effect(self.identifier),
            GuardedChange::AddSecret => t.confirm_client_secret_add_effect(),
            GuardedChange::RemoveSecret => t.confirm_client_secret_remove_effect(),
            GuardedChange::SetKeys => t.confirm_client_keys_effect(),
            GuardedChange::UseSecret => t.confirm_client_use_secret_effect(),
            GuardedChange::WidenClient => t.confirm_client_widen_effect(),
            GuardedChange::SetLevel(AssuranceLevel::One) => t.confirm_client_level_effect(t.client_level_one()),
            GuardedChange::SetLevel(AssuranceLevel::Two) => t.confirm_client_level_effect(t.client_level_two()),
            GuardedChange::SetLevel(AssuranceLevel::PhishingResistant) => {
                t.confirm_client_level_effect(t.client_level_three())
            }
            GuardedChange::Approve => t.client_approved(),
            GuardedChange::RevokeApproval => t.confirm_client_unapprove_effect(),
            GuardedChange::SetClientRules => t.confirm_client_rules_effect(),
            GuardedChange::EndGrants => t.confirm_client_grants_effect(),
            GuardedChange::DeleteMail(_) => t.confirm_mail_effect(),
            GuardedChange::CreateApiToken => t.confirm_api_token_effect(),
            GuardedChange::RemoveApiToken => t.confirm_api_token_remove_effect(),
            GuardedChange::CreateRegistrationToken => t.confirm_registration_token_effect(),
            GuardedChange::RevokeRegistrationToken => t.confirm_registration_token_revoke_effect(),
        }
    }

    fn button(&self) -> Markup {
        let t = self.inside.frame.t;
        match self.change {
            GuardedChange::ResetPassword => t.user_reset_password(),
            GuardedChange::DisableUser | GuardedChange::DisableClient => t.client_disable(),
            GuardedChange::EnableUser | GuardedChange::EnableClient => t.client_enable(),
            GuardedChange::RevokeAccess => t.user_revoke(),
            GuardedChange::UnblockFactors => t.user_factors_unblock(),
            GuardedChange::ResetFactors => t.user_factors_reset(),
            GuardedChange::SetRole(_)
            | GuardedChange::ChangeGroups
            | GuardedChange::ChangeAddress
            | GuardedChange::SetUsername
            | GuardedChange::WidenClient
            | GuardedChange::SetClientRules
            | GuardedChange::SetLevel(_) => t.profile_save(),
            GuardedChange::AddUser(_) => t.user_add(),
            GuardedChange::DeleteClient | GuardedChange::DeleteUser | GuardedChange::DeleteMail(_) => t.client_delete(),
            GuardedChange::RotateSecret => t.client_rotate(),
            GuardedChange::AddSecret => t.client_secret_add(),
            GuardedChange::RemoveSecret => t.client_secret_remove(),
            GuardedChange::SetKeys => t.client_keys_save(),
            GuardedChange::UseSecret => t.client_use_secret(),
            GuardedChange::Approve => t.client_approve(),
            GuardedChange::RevokeApproval => t.client_revoke_approval(),
            GuardedChange::CreateApiToken | GuardedChange::CreateRegistrationToken => t.api_token_create(),
            GuardedChange::RemoveApiToken => t.api_token_remove(),
            GuardedChange::RevokeRegistrationToken => t.registration_token_revoke(),
            GuardedChange::EndGrants => t.client_grants_end(),
        }
    }
}
