//! Usernames: additional names to sign in with. They are also sent to applications that identify
//! users by short names.

use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::secret::SecretHash;

/// Maximum length of a username in characters.
const MAX_LENGTH: usize = 64;

/// Username: 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`. It begins with a letter and ends with a
/// letter or digit.
///
/// It has no `@` and is not a UUID, so it is different from every address and `sub`. It has no `:`,
/// which ends the name in HTTP Basic authentication (RFC 7617).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Username(String);

impl Username {
    /// Parses a username in its stored form.
    pub fn parse(text: &str) -> Option<Self> {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
        let (first, last) = (text.bytes().next()?, text.bytes().next_back()?);
        let is_valid = text.len() <= MAX_LENGTH
            && text.bytes().all(allowed)
            && first.is_ascii_lowercase()
            && last.is_ascii_alphanumeric()
            && Uuid::try_parse(text).is_err();
        is_valid.then(|| Self(text.to_owned()))
    }

    /// Parses a username that a user typed. Converts only ASCII letters to lower case.
    ///
    /// If `ı` and `İ` were converted to `i`, `ADMİN` would match another user's `admin`.
    pub fn typed(text: &str) -> Option<Self> {
        Self::parse(&text.to_ascii_lowercase())
    }

    /// Returns the username in its stored form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the key under which the user is stored.
    pub fn lookup_key(&self) -> SecretHash {
        SecretHash::for_secret(self.0.as_bytes())
    }
}

impl fmt::Display for Username {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for Username {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or("not a username")
    }
}

impl From<Username> for String {
    fn from(username: Username) -> Self {
        username.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_username_is_never_taken_for_an_address_or_a_sub() {
        for right in ["a", "anna", "anna.k-2_x9", &"a".repeat(64)] {
            assert_eq!(Username::parse(right).unwrap().as_str(), right);
        }
        for wrong in [
            "",
            "Anna",
            "9anna",
            ".anna",
            "anna.",
            "anna-",
            "an na",
            "anna@example.test",
            "an:na",
            "anna\n",
            "ayşe",
            "ırmak",
            "a6f1c0f6e-7b0e-4f4e-9a53-0d8e1c4d2b77@",
            "af1c0f6e-7b0e-4f4e-9a53-0d8e1c4d2b77",
            "af1c0f6e7b0e4f4e9a530d8e1c4d2b77",
            &"a".repeat(65),
        ] {
            assert_eq!(Username::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn turkish_letters_never_fold_into_ascii_ones() {
        assert_eq!(Username::typed("ADMIN"), Username::parse("admin"));
        for other in ["ADMİN", "admın", "ADMi\u{307}N", "ａdmin"] {
            assert_eq!(Username::typed(other), None, "{other}");
        }
    }
}
