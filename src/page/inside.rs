//! What surrounds the pages of somebody who is signed in: the menu, who it is, what has just been done.

use super::frame::Frame;
use super::words::{Markup, Words};

/// What surrounds a page of the account or the console.
#[derive(Debug, Clone)]
pub struct Inside<'a> {
    pub frame: Frame<'a>,
    /// The path in front of the provider's own paths; empty at the root.
    pub prefix: &'a str,
    /// Who is signed in, as its owner knows the account (the email address).
    pub account: &'a str,
    /// What they may do in the console, if this person may use it.
    pub console: Option<ConsoleRole>,
    /// What the form before this page has done.
    pub done: Option<Done>,
    pub app_passwords: bool,
    /// The token of the page's forms that take effect once, in their field `once`.
    pub once: String,
    /// Whether there is a page of applications.
    pub home: bool,
}

/// What a person may do in the console.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConsoleRole {
    Developer,
    Administrator,
}

/// What a form has done, told on the page that follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    Profile,
    /// The password was changed; other sessions have ended.
    Password,
    AddressVerified,
    AddressChanged,
    /// The same, without a link to undo it.
    AddressReturned,
    Session,
    OtherSessions,
    Withdrawn,
    AppPassword,
    FactorAdded,
    FactorRenamed,
    FactorRemoved,
    Client,
    ClientDeleted,
    ClientState,
    User,
    /// A person's sessions and tokens were ended.
    UserRevoked,
    UserInvited,
    InvitationWithdrawn,
    /// What was made was shown before, and is not shown again.
    ShownBefore,
}

impl Done {
    const ALL: [(Self, &'static str); 20] = [
        (Self::Profile, "profile"),
        (Self::Password, "password"),
        (Self::AddressVerified, "address-verified"),
        (Self::AddressChanged, "address-changed"),
        (Self::AddressReturned, "address-returned"),
        (Self::Session, "session"),
        (Self::OtherSessions, "other-sessions"),
        (Self::Withdrawn, "withdrawn"),
        (Self::AppPassword, "app-password"),
        (Self::FactorAdded, "factor-added"),
        (Self::FactorRenamed, "factor-renamed"),
        (Self::FactorRemoved, "factor-removed"),
        (Self::Client, "client"),
        (Self::ClientDeleted, "client-deleted"),
        (Self::ClientState, "client-state"),
        (Self::User, "user"),
        (Self::UserRevoked, "user-revoked"),
        (Self::UserInvited, "user-invited"),
        (Self::InvitationWithdrawn, "invitation-withdrawn"),
        (Self::ShownBefore, "shown-before"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(known, _)| *known == self).map_or("", |(_, word)| word)
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(done, _)| *done)
    }

    pub(super) fn words(self, t: &Words) -> Markup {
        match self {
            Self::Profile => t.done_profile(),
            Self::Password => t.done_password(),
            Self::AddressVerified => t.done_address_verified(),
            Self::AddressChanged => t.done_address_changed(),
            Self::AddressReturned => t.done_address_returned(),
            Self::Session => t.done_session(),
            Self::OtherSessions => t.done_other_sessions(),
            Self::Withdrawn => t.done_withdrawn(),
            Self::AppPassword => t.done_app_password(),
            Self::FactorAdded => t.done_factor_added(),
            Self::FactorRenamed => t.done_factor_renamed(),
            Self::FactorRemoved => t.done_factor_removed(),
            Self::Client => t.done_client(),
            Self::ClientDeleted => t.done_client_deleted(),
            Self::ClientState => t.done_client_state(),
            Self::User => t.done_user(),
            Self::UserRevoked => t.done_user_revoked(),
            Self::UserInvited => t.done_user_invited(),
            Self::InvitationWithdrawn => t.done_user_invitation_withdrawn(),
            Self::ShownBefore => t.done_shown_before(),
        }
    }
}

/// The pages that the menu leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MenuEntry {
    Home,
    Profile,
    Password,
    Security,
    Sessions,
    Applications,
    AppPasswords,
    Activity,
    Clients,
    Users,
    Keys,
    Apps,
    Settings,
    Audit,
}

impl MenuEntry {
    const ACCOUNT: [Self; 8] = [
        Self::Home,
        Self::Profile,
        Self::Password,
        Self::Security,
        Self::Sessions,
        Self::Applications,
        Self::AppPasswords,
        Self::Activity,
    ];
    const DEVELOPER: [Self; 1] = [Self::Clients];
    const ADMINISTRATOR: [Self; 6] = [Self::Clients, Self::Apps, Self::Users, Self::Audit, Self::Keys, Self::Settings];

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Home => "/",
            Self::Profile => "/account",
            Self::Password => "/account/password",
            Self::Security => "/account/security",
            Self::Sessions => "/account/sessions",
            Self::Applications => "/account/applications",
            Self::AppPasswords => "/account/app-passwords",
            Self::Activity => "/account/activity",
            Self::Clients => "/console",
            Self::Users => "/console/users",
            Self::Keys => "/console/keys",
            Self::Apps => "/console/applications",
            Self::Settings => "/console/settings",
            Self::Audit => "/console/audit",
        }
    }

    pub(super) fn words(self, t: &Words) -> Markup {
        match self {
            Self::Home => t.menu_home(),
            Self::Profile => t.menu_profile(),
            Self::Password => t.menu_password(),
            Self::Security => t.menu_security(),
            Self::Sessions => t.menu_sessions(),
            Self::Applications => t.menu_applications(),
            Self::AppPasswords => t.menu_app_passwords(),
            Self::Activity => t.menu_activity(),
            Self::Clients => t.menu_clients(),
            Self::Users => t.menu_users(),
            Self::Keys => t.menu_keys(),
            Self::Apps => t.menu_apps(),
            Self::Settings => t.menu_settings(),
            Self::Audit => t.menu_audit(),
        }
    }

    pub(super) fn in_console(self) -> bool {
        !Self::ACCOUNT.contains(&self)
    }
}

impl Inside<'_> {
    /// The pages of the menu that has this entry.
    pub(super) fn menu(&self, current: &MenuEntry) -> impl Iterator<Item = MenuEntry> {
        let entries: &[MenuEntry] = match (current.in_console(), self.console) {
            (false, _) => &MenuEntry::ACCOUNT,
            (true, Some(ConsoleRole::Administrator)) => &MenuEntry::ADMINISTRATOR,
            (true, _) => &MenuEntry::DEVELOPER,
        };
        // Where no application takes application passwords, or one has our root, there is no such page.
        let exists = |entry: &MenuEntry| match entry {
            MenuEntry::AppPasswords => self.app_passwords,
            MenuEntry::Home => self.home,
            _ => true,
        };
        entries.iter().copied().filter(exists)
    }

    pub(super) fn menu_name(&self, current: &MenuEntry) -> Markup {
        if current.in_console() { self.frame.t.menu_console() } else { self.frame.t.menu_account() }
    }

    /// The way from the account to the console, or back.
    pub(super) fn across(&self, current: &MenuEntry) -> Option<(MenuEntry, Markup)> {
        match (current.in_console(), self.console) {
            (false, Some(_)) => Some((MenuEntry::Clients, self.frame.t.menu_console())),
            (false, None) => None,
            (true, _) => Some((MenuEntry::Profile, self.frame.t.menu_account())),
        }
    }

    pub(super) fn done(&self) -> Option<Markup> {
        self.done.map(|done| done.words(&self.frame.t))
    }

    pub(super) fn is_for_administrators(&self) -> bool {
        self.console == Some(ConsoleRole::Administrator)
    }

    /// Where the name of the operator leads.
    pub(super) fn first(&self) -> String {
        self.address(if self.home { MenuEntry::Home.path() } else { MenuEntry::Profile.path() })
    }

    pub(super) fn address(&self, path: &str) -> String {
        format!("{}{path}", self.prefix)
    }
}
