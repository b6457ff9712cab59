//! Console pages about users.

use std::collections::BTreeSet;

use askama::Template;

use super::sections::UserSection;
use crate::account::AppLoginFault;
use crate::console::user_list::role_names;
use crate::inside::{Inside, MenuEntry};
use crate::open_access::AccessTable;
use crate::security::FactorLine;
use crate::words::{Markup, Words};
use sealgate_domain::account_links::InvitationState;
use sealgate_domain::open_access::AccessKind;
use sealgate_domain::session::SessionId;
use sealgate_domain::source::{SourceState, UserSource};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::{Email, Role, User, UserState};

impl Words {
    /// Returns why an account is not enabled at its source.
    fn source_state(self, source: &UserSource) -> Markup {
        match (source.state, source.is_upstream()) {
            (SourceState::Enabled | SourceState::Disabled, false) => self.directory_state_disabled(),
            (SourceState::Enabled | SourceState::Disabled, true) => self.upstream_state_disabled(),
            (SourceState::Expired, false) => self.directory_state_expired(),
            (SourceState::Expired, true) => self.upstream_state_expired(),
            (SourceState::Gone, false) => self.directory_state_gone(),
            (SourceState::Gone, true) => self.upstream_state_gone(),
        }
    }
}

/// Page with the form for a new user.
///
/// The form sends `csrf`, `email`, `username`, `name`, `groups` (one per line), `role_developer`,
/// `role_auditor` and `role_admin`. If users can be invited, the form also sends `app` and the pressed button:
/// `invite` or `with-password`.
#[derive(Template)]
#[template(path = "console/new_user.html")]
pub struct NewUserPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub email: &'a str,
    /// Username. Empty if the user has none.
    pub username: &'a str,
    pub name: &'a str,
    /// Groups, one per line.
    pub groups: &'a str,
    /// Groups that a user manager can choose.
    pub managed: &'a [&'a str],
    pub roles: &'a BTreeSet<Role>,
    /// Choices of an invitation, if users can be invited.
    pub invitation: Option<InvitationForm<'a>>,
    pub faults: &'a [UserField],
}

/// Choices of an invitation in addition to the user's attributes.
#[derive(Debug, Clone, Copy)]
pub struct InvitationForm<'a> {
    /// Applications that the invitation may lead to: name and title.
    pub apps: &'a [(&'a str, &'a str)],
    /// Name of the selected application. Empty if none is selected.
    pub app: &'a str,
}

/// Field of a user's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserField {
    /// The address is invalid.
    Email,
    EmailTaken,
    /// The username is invalid.
    Username,
    UsernameTaken,
    Name,
    /// The phone number is invalid.
    Phone,
    Groups,
    /// The user would be in none of the groups that the user manager manages.
    ManagedGroups,
    /// Administrators may not remove their own role.
    OwnRole,
}

impl NewUserPage<'_> {
    fn is_member(&self, group: &str) -> bool {
        self.groups.lines().any(|line| line == group)
    }

    fn is_first(&self, field: UserField) -> bool {
        self.faults.first() == Some(&field)
    }
}

/// Section of the page of a user.
///
/// The forms go to the user's own URL. They send `csrf` and one of these actions as `action`:
///
/// - `save` with `groups`, `role_developer`, `role_auditor` and `role_admin`, and with the shown values
///   as `shown_groups` and `shown_roles`, each separated by commas;
/// - `save-profile` with `name`, `email` and `phone_number`, with the shown values as `shown_name`,
///   `shown_email` and `shown_phone_number`, and with `username` if the user has no username. Not for
///   users of a directory;
/// - `set-app-login` with `app`, `app_username` and `app_password`;
/// - without further fields: `disable`, `enable`, `delete`, `reset-password`, `revoke`,
///   `send-reset-link`, `unblock-factors`, `reset-factors`, `resend-invitation`, `withdraw-invitation`.
///
/// The buttons of the open accesses send `end` with an access instead of `action`.
#[derive(Template)]
#[template(path = "console/user.html")]
pub struct UserPage<'a> {
    pub inside: Inside<'a>,
    pub csrf: &'a str,
    pub user: &'a User,
    pub section: UserSection,
    /// Whether the page shows the signed-in user. Administrators cannot lock themselves out.
    pub own: bool,
    /// Whether the page has forms. Otherwise the user of the page only reads.
    pub may_change: bool,
    /// Groups that a user manager can choose.
    pub managed: &'a [&'a str],
    /// Input of the form, shown instead of the user's groups and roles.
    pub typed: Option<TypedUser<'a>>,
    /// Input of the form, shown instead of the user's name, address and phone number.
    pub profile: Option<TypedProfile<'a>>,
    /// Open accesses of the section.
    pub accesses: AccessTable<'a>,
    /// Session of this browser, on the signed-in user's own page.
    pub own_session: Option<SessionId>,
    pub factors: UserFactors<'a>,
    pub invitation: UserInvitation,
    /// Form for a name and password at an application. `None` if no application takes them.
    pub app_logins: Option<UserAppLogins<'a>>,
    /// Whether a link to set a new password can be mailed to the user.
    pub may_send_reset_link: bool,
    /// New password, shown once.
    pub password: Option<&'a str>,
    /// New enrolment link after a reset, shown once.
    pub link: Option<&'a str>,
    pub faults: &'a [UserField],
}

/// Input of the form with a user's profile.
#[derive(Debug, Clone, Copy)]
pub struct TypedProfile<'a> {
    pub name: &'a str,
    pub email: &'a str,
    pub phone_number: &'a str,
    /// Username. Empty if the user has none.
    pub username: &'a str,
    /// Name, address and phone number that the page with the form has shown. `None` if they are the
    /// stored ones.
    pub shown: Option<&'a [String; 3]>,
}

/// Input of the form with a user's groups and roles.
#[derive(Debug, Clone, Copy)]
pub struct TypedUser<'a> {
    /// Groups, one per line.
    pub groups: &'a str,
    pub roles: &'a BTreeSet<Role>,
    /// Groups and roles that the page with the form has shown. `None` if they are the stored ones.
    pub shown: Option<&'a (BTreeSet<String>, BTreeSet<Role>)>,
}

/// Form for a user's name and password at an application. The page never contains a stored password.
#[derive(Debug, Clone, Copy)]
pub struct UserAppLogins<'a> {
    /// Names and titles of the applications for which an administrator can store a user's name and
    /// password.
    pub apps: &'a [(&'a str, &'a str)],
    /// Name of the selected application.
    pub app: &'a str,
    /// Name at the application, as typed.
    pub username: &'a str,
    pub fault: Option<AppLoginFault>,
}

impl UserAppLogins<'_> {
    fn blames(&self, fault: AppLoginFault) -> bool {
        self.fault == Some(fault)
    }
}

/// State of a user's invitation, and whether a link can be sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct UserInvitation {
    /// State, with the time of sending or acceptance.
    pub state: Option<(InvitationState, UnixTime)>,
    /// Expiry of the link.
    pub until: Option<UnixTime>,
    /// Whether the user has no credential yet, so that a link can be sent.
    pub may_send: bool,
}

/// Factors of a user besides the password.
#[derive(Debug, Clone, Copy)]
pub struct UserFactors<'a> {
    /// Factors in the order of their addition.
    pub lines: &'a [FactorLine<'a>],
    /// Number of unused recovery codes, if the user has recovery codes.
    pub recovery_left: Option<u64>,
    /// Whether codes are refused because too many were wrong.
    pub blocked: bool,
    pub reset: Option<ResetState>,
}

impl UserInvitation {
    /// Returns the link's expiry, or `sent` if the link has no expiry.
    fn end<'a>(&'a self, sent: &'a UnixTime) -> &'a UnixTime {
        self.until.as_ref().unwrap_or(sent)
    }

    fn is_open(&self) -> bool {
        self.state.is_some_and(|(state, _)| state != InvitationState::Accepted)
    }
}

/// State of a reset after which the user has not enrolled a factor yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetState {
    Open {
        /// Expiry of the link.
        until: UnixTime,
    },
    /// The link has expired.
    Late,
}

impl UserPage<'_> {
    /// Returns whether disabling the user would change something: also if only a user manager has disabled
    /// the user, and an administrator does.
    fn may_disable(&self) -> bool {
        self.user.is_changed_by_disabling(!self.inside.is_for_administrators())
    }

    /// Returns whether the user of the page may enable the user.
    fn may_enable(&self) -> bool {
        self.inside.is_for_administrators() || self.user.may_be_enabled_by_manager()
    }

    /// Returns the sections of the menu.
    fn sections(&self) -> impl Iterator<Item = UserSection> {
        UserSection::ALL.into_iter().filter(|section| self.may_change || *section != UserSection::Danger)
    }

    fn section_address(&self, section: &UserSection) -> String {
        self.inside.address(&section.page(self.user.sub))
    }

    /// Returns whether a form of the page has a fault.
    fn is_faulty(&self) -> bool {
        !self.faults.is_empty() || self.app_logins.is_some_and(|logins| logins.fault.is_some())
    }

    fn heading(&self) -> &str {
        if self.user.name.is_empty() { self.user.sign_in_name() } else { &self.user.name }
    }

    fn has_password_section(&self) -> bool {
        self.may_send_reset_link || (!self.own && self.user.source.is_none())
    }

    /// Returns the open accesses by kind: id of the table, heading and rows.
    fn parts(&self) -> Vec<(&'static str, Markup, AccessTable<'_>)> {
        let t = self.inside.frame.t;
        let parts = [
            ("accesses", t.user_devices(), &[AccessKind::Session, AccessKind::AppSession][..]),
            ("grants", t.user_grants(), &[AccessKind::Client]),
            ("app-passwords", t.app_passwords_title(), &[AccessKind::AppPassword]),
            ("app-logins", t.menu_app_logins(), &[AccessKind::AppLogin]),
        ];
        let part = |(id, heading, kinds)| Some((id, heading, self.accesses.part(kinds)?));
        parts.into_iter().filter_map(part).collect()
    }

    /// Returns the profile as typed, or as stored.
    fn form(&self) -> TypedProfile<'_> {
        self.profile.unwrap_or_else(|| TypedProfile {
            name: &self.user.name,
            email: self.user.email.as_ref().map(Email::as_str).unwrap_or_default(),
            phone_number: self.user.phone_number.as_deref().unwrap_or_default(),
            username: "",
            shown: None,
        })
    }

    /// Returns the name, address and phone number for the hidden fields of the form.
    fn shown_profile(&self) -> [String; 3] {
        let stored = || {
            let email = self.user.email.as_ref().map(Email::as_str).unwrap_or_default().to_owned();
            [self.user.name.clone(), email, self.user.phone_number.clone().unwrap_or_default()]
        };
        self.profile.and_then(|profile| profile.shown.cloned()).unwrap_or_else(stored)
    }

    /// Returns the groups for the hidden field of the form. Groups contain no commas. The form for a user
    /// manager only has managed groups.
    fn shown_groups(&self) -> String {
        let shown = self.typed.and_then(|typed| typed.shown);
        let groups = shown.map_or(&self.user.groups, |(groups, _)| groups).iter().map(String::as_str);
        let in_form = |group: &&str| self.inside.is_for_administrators() || self.managed.contains(group);
        groups.filter(in_form).collect::<Vec<_>>().join(",")
    }

    /// Returns whether the box of a managed group is ticked.
    fn is_member(&self, group: &str) -> bool {
        let stored = || self.user.groups.contains(group);
        self.typed.map_or_else(stored, |typed| typed.groups.lines().any(|line| line == group))
    }

    /// Returns the groups that this installation has assigned, for users who do not change all of them.
    fn local_groups(&self) -> String {
        let is_shown = |group: &&str| !self.may_change || !self.managed.contains(group);
        self.user.groups.iter().map(String::as_str).filter(is_shown).collect::<Vec<_>>().join(", ")
    }

    /// Returns the stored console roles. Empty if there are none.
    fn stored_roles(&self) -> String {
        role_names(&self.inside.frame.t, self.user)
    }

    /// Returns the roles for the hidden field of the form.
    fn shown_roles(&self) -> String {
        let shown = self.typed.and_then(|typed| typed.shown);
        let roles = shown.map_or(&self.user.roles, |(_, roles)| roles);
        roles.iter().map(|role| role.as_str()).collect::<Vec<_>>().join(",")
    }

    fn is_wrong(&self, field: UserField) -> bool {
        self.faults.contains(&field)
    }

    fn is_first(&self, field: UserField) -> bool {
        self.faults.first() == Some(&field)
    }

    /// Returns the groups of the user's directory.
    fn directory_groups(&self) -> String {
        let groups = self.user.source.iter().flat_map(|source| &source.groups);
        groups.map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Returns the groups, one per line.
    fn groups(&self) -> String {
        let stored = || self.user.groups.iter().map(String::as_str).collect::<Vec<_>>().join("\n");
        self.typed.map_or_else(stored, |typed| typed.groups.to_owned())
    }

    fn has_role(&self, role: Role) -> bool {
        self.typed.map_or(&self.user.roles, |typed| typed.roles).contains(&role)
    }
}
