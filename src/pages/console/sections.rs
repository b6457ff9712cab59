//! Sections of the pages of a user, a client and an application. Each section has a URL of its own, so that no
//! page exceeds the limit of its size.
//!
//! The first section is at the object's own URL, which also receives the forms of all sections of a
//! user or a client.

use std::fmt::Display;

use crate::inside::Inside;
use crate::words::{Markup, Words};
use sealgate_domain::client::Client;

/// Section of a user's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UserSection {
    /// Profile, groups and role, and invitation: the page of the user itself.
    #[default]
    Profile,
    /// Sessions and devices.
    Sessions,
    /// Grants, application passwords, and names and passwords at applications.
    Applications,
    /// Two-factor methods and password.
    Security,
    /// Actions that end the user's access or delete the user.
    Danger,
}

impl UserSection {
    /// Every section in the order of the menu.
    pub const ALL: [Self; 5] = [Self::Profile, Self::Sessions, Self::Applications, Self::Security, Self::Danger];

    /// Returns the last segment of the section's URL. Empty for the user's own URL.
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Profile => "",
            Self::Sessions => "sessions",
            Self::Applications => "applications",
            Self::Security => "security",
            Self::Danger => "danger",
        }
    }

    /// Returns the path of this section of a user's page, without the issuer's prefix.
    pub fn page(self, user: impl Display) -> String {
        page(format!("/console/users/{user}"), self.segment())
    }
}

/// Section of a client's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientSection {
    /// Facts and settings: the page of the client itself.
    #[default]
    Settings,
    /// Addresses to copy and code examples.
    Connect,
    /// Secrets and public keys.
    Secrets,
    Logo,
    /// Approval, required sign-in and other settings of administrators.
    Rules,
    /// Users who have given the client access.
    Grants,
    /// Disabling and deleting.
    Danger,
}

impl ClientSection {
    /// Every section in the order of the menu.
    pub const ALL: [Self; 7] =
        [Self::Settings, Self::Connect, Self::Secrets, Self::Logo, Self::Rules, Self::Grants, Self::Danger];

    /// Returns the last segment of the section's URL. Empty for the client's own URL.
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Settings => "",
            Self::Connect => "connect",
            Self::Secrets => "secrets",
            Self::Logo => "logo",
            Self::Rules => "rules",
            Self::Grants => "grants",
            Self::Danger => "danger",
        }
    }

    /// Returns the path of this section of a client's page, without the issuer's prefix. `client` is
    /// the identifier as a path segment.
    pub fn page(self, client: impl Display) -> String {
        page(format!("/console/clients/{client}"), self.segment())
    }

    /// Returns whether the client has the section. The console does not change a client of the
    /// configuration file.
    pub fn fits(self, client: &Client) -> bool {
        match self {
            Self::Settings | Self::Connect | Self::Grants => true,
            Self::Secrets => !client.is_public() && !client.from_configuration,
            Self::Logo | Self::Rules | Self::Danger => !client.from_configuration,
        }
    }
}

/// Section of an application's page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AppSection {
    /// Facts, access check, users with access, and rules: the page of the application itself.
    #[default]
    Access,
    Sessions,
    /// Recent refusals.
    Refusals,
    /// Settings that the console changes.
    Edit,
}

impl AppSection {
    /// Every section in the order of the menu.
    pub const ALL: [Self; 4] = [Self::Access, Self::Sessions, Self::Refusals, Self::Edit];

    /// Returns the last segment of the section's URL. Empty for the application's own URL.
    pub const fn segment(self) -> &'static str {
        match self {
            Self::Access => "",
            Self::Sessions => "sessions",
            Self::Refusals => "refusals",
            Self::Edit => "edit",
        }
    }

    pub(super) fn address(&self, inside: &Inside<'_>, app: &str) -> String {
        inside.address(&self.page(app))
    }

    /// Returns the path of this section of an application's page, without the issuer's prefix.
    pub fn page(self, app: &str) -> String {
        page(format!("/console/apps/{app}"), self.segment())
    }
}

impl Words {
    pub(super) fn app_section(self, section: &AppSection) -> Markup {
        match section {
            AppSection::Access => self.app_access(),
            AppSection::Sessions => self.app_sessions(),
            AppSection::Refusals => self.app_refusals(),
            AppSection::Edit => self.app_edit(),
        }
    }

    pub(super) fn user_section(self, section: &UserSection) -> Markup {
        match section {
            UserSection::Profile => self.menu_profile(),
            UserSection::Sessions => self.user_devices(),
            UserSection::Applications => self.menu_apps(),
            UserSection::Security => self.menu_security(),
            UserSection::Danger => self.user_danger(),
        }
    }

    pub(super) fn client_section(self, section: &ClientSection) -> Markup {
        match section {
            ClientSection::Settings => self.client_settings(),
            ClientSection::Connect => self.client_connect(),
            ClientSection::Secrets => self.client_secrets_and_keys(),
            ClientSection::Logo => self.client_logo(),
            ClientSection::Rules => self.client_rules(),
            ClientSection::Grants => self.client_grants(),
            ClientSection::Danger => self.client_end(),
        }
    }
}

fn page(object: String, segment: &str) -> String {
    if segment.is_empty() { object } else { format!("{object}/{segment}") }
}
