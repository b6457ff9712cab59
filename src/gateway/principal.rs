//! Authenticated user of this or another issuer, or authenticated client, with the attributes that rules and identity
//! headers use. Pure.

use sealgate_config::RuleUser;
use sealgate_domain::oauth::trusted_token::Foreign;
use sealgate_domain::service::ServiceClient;
use sealgate_domain::user::{Email, User};
use sealgate_domain::username::Username;

#[derive(Debug, Clone, Copy)]
pub(super) enum Principal<'a> {
    Local(&'a User),
    /// User of another issuer.
    Foreign(&'a Foreign),
    /// Client that got its token in its own name.
    Client(&'a ServiceClient),
}

impl<'a> Principal<'a> {
    /// Returns a unique name of the user: the `sub`. For a user of another issuer, the configured
    /// name of that issuer precedes the `sub`.
    pub(super) fn name(self) -> String {
        match self {
            Self::Local(user) => user.sub.to_string(),
            Self::Foreign(foreign) => foreign.name(),
            Self::Client(client) => client.name(),
        }
    }

    /// Returns the e-mail address, and whether it was verified.
    pub(super) fn email(self) -> Option<(&'a str, bool)> {
        match self {
            Self::Local(user) => user.email.as_ref().map(|email| (email.as_str(), user.email_verified)),
            // Unverified addresses of other issuers' tokens are discarded earlier.
            Self::Foreign(foreign) => foreign.email.as_ref().map(|email| (email.as_str(), true)),
            Self::Client(_) => None,
        }
    }

    /// Returns the e-mail address that applications receive: see
    /// [`User::identifying_email`].
    pub(super) fn identifying_email(self) -> Option<&'a str> {
        match self {
            Self::Local(user) => user.identifying_email().map(Email::as_str),
            Self::Foreign(_) | Self::Client(_) => self.email().map(|(email, _)| email),
        }
    }

    /// Returns the full name, or an empty text if it is unknown.
    pub(super) fn full_name(self) -> &'a str {
        match self {
            Self::Local(user) => user.name.trim(),
            Self::Foreign(_) => "",
            Self::Client(client) => client.name.trim(),
        }
    }

    /// Returns the username, if any. Users of other issuers and clients have no username.
    pub(super) fn username(self) -> Option<&'a str> {
        match self {
            Self::Local(user) => user.username.as_ref().map(Username::as_str),
            Self::Foreign(_) | Self::Client(_) => None,
        }
    }

    /// Returns the groups, sorted, each once.
    pub(super) fn groups(self) -> impl Iterator<Item = &'a String> {
        let (user, others) = match self {
            Self::Local(user) => (Some(user.all_groups()), None),
            Self::Foreign(foreign) => (None, Some(foreign.groups.iter())),
            Self::Client(client) => (None, Some(client.groups.iter())),
        };
        user.into_iter().flatten().chain(others.into_iter().flatten())
    }

    /// Returns whether the user is in this group.
    pub(super) fn is_in_group(self, group: &str) -> bool {
        match self {
            Self::Local(user) => user.is_in_group(group),
            Self::Foreign(foreign) => foreign.groups.contains(group),
            Self::Client(client) => client.groups.contains(group),
        }
    }

    /// Returns the name of the account to show on pages.
    pub(super) fn account(self) -> String {
        match self {
            Self::Local(user) => user.sign_in_name().to_owned(),
            Self::Client(_) => self.name(),
            Self::Foreign(_) => self.email().map_or_else(|| self.name(), |(address, _)| address.to_owned()),
        }
    }

    /// Returns whether this entry of a rule names the user. Rules name no clients.
    pub(super) fn is(self, user: &RuleUser) -> bool {
        match self {
            Self::Local(own) => user.is(own),
            Self::Foreign(foreign) => user.is_foreign(foreign),
            Self::Client(_) => false,
        }
    }
}
