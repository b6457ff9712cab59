//! Who somebody is, ours or another issuer's: what rules ask of them and what applications are told. Pure.

use std::collections::BTreeSet;

use crate::config::RulePerson;
use crate::domain::user::User;
use crate::domain::username::Username;
use crate::oauth::trusted_token::Foreign;

#[derive(Debug, Clone, Copy)]
pub(super) enum Principal<'a> {
    Ours(&'a User),
    /// Who another issuer says that they are.
    Foreign(&'a Foreign),
}

impl<'a> Principal<'a> {
    /// Their name, that is nobody else's: the `sub` of ours, or the other issuer's with our name for that issuer before it.
    pub(super) fn name(self) -> String {
        match self {
            Self::Ours(user) => user.sub.to_string(),
            Self::Foreign(foreign) => foreign.name(),
        }
    }

    /// Their address, and whether it was verified.
    pub(super) fn email(self) -> Option<(&'a str, bool)> {
        match self {
            Self::Ours(user) => Some((user.email.as_str(), user.email_verified)),
            // An unverified one is not even read.
            Self::Foreign(foreign) => foreign.email.as_ref().map(|email| (email.as_str(), true)),
        }
    }

    /// Their full name; empty when it is not known.
    pub(super) fn full_name(self) -> &'a str {
        match self {
            Self::Ours(user) => user.name.trim(),
            Self::Foreign(_) => "",
        }
    }

    /// Their username, where they have one; nobody whom only another issuer knows does.
    pub(super) fn username(self) -> Option<&'a str> {
        match self {
            Self::Ours(user) => user.username.as_ref().map(Username::as_str),
            Self::Foreign(_) => None,
        }
    }

    pub(super) fn groups(self) -> &'a BTreeSet<String> {
        match self {
            Self::Ours(user) => &user.groups,
            Self::Foreign(foreign) => &foreign.groups,
        }
    }

    /// How a page names their account.
    pub(super) fn account(self) -> String {
        self.email().map_or_else(|| self.name(), |(address, _)| address.to_owned())
    }

    /// Whether a rule means them.
    pub(super) fn is(self, person: &RulePerson) -> bool {
        match self {
            Self::Ours(user) => person.is(user),
            Self::Foreign(foreign) => person.is_foreign(foreign),
        }
    }
}
