//! A user as named by an operator.

use std::fmt;

use serde::{Deserialize, Serialize};

use sealgate_domain::user::{Email, Subject};
use sealgate_domain::username::Username;

/// A user as named by an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Person {
    /// By `sub`.
    Sub(Subject),
    Email(Email),
    Username(Username),
}

impl Person {
    /// Parses a `sub`, an e-mail address if it contains `@`, or a username. The forms do not
    /// overlap.
    pub fn parse(text: &str) -> Option<Self> {
        if text.contains('@') {
            return Email::parse(text).map(Self::Email);
        }
        Subject::parse(text).map(Self::Sub).or_else(|| Username::parse(text).map(Self::Username))
    }
}

impl fmt::Display for Person {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sub(sub) => sub.fmt(f),
            Self::Email(email) => f.write_str(email.as_str()),
            Self::Username(username) => username.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_is_named_by_sub_address_or_username() {
        let sub = "6f2c6f0e-5a3b-4d5e-8f3a-0d6a2b1c4e5f";
        assert_eq!(Person::parse(sub).unwrap().to_string(), sub);
        assert_eq!(Person::parse("a@b").unwrap().to_string(), "a@b");
        assert_eq!(Person::parse("somebody").unwrap().to_string(), "somebody");
        assert_eq!(Person::parse("Some body"), None);
        assert_eq!(Person::parse("a@b@c"), None);
    }
}
