//! Tokens for the admin API: bearer secrets with scopes and an expiry, stored as hashes.
//!
//! A token has at most the permissions of its creator. It works only while the creator is an enabled
//! administrator. A token that an operator created on the command line has no such user.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::Id;
use crate::secret::{Secret, SecretHash, from_base64url};
use crate::time::UnixTime;
use crate::user::Subject;

/// Maximum lifetime of a token.
pub const MAX_LIFETIME: Duration = Duration::from_hours(365 * 24);

/// Lifetime of a token if none is given.
pub const DEFAULT_LIFETIME: Duration = Duration::from_hours(90 * 24);

/// Maximum number of tokens in a store. Two concurrent requests may exceed it by one.
pub const MAX_TOKENS: usize = 200;

/// Maximum length of a token's name, in characters.
pub const MAX_TOKEN_NAME_LENGTH: usize = 100;

/// Interval in which at most one use of a token is recorded.
pub const USE_PRECISION: Duration = Duration::from_hours(1);

/// Prefix of each token. Secret scanners can recognize a published token by it.
pub const PREFIX: &str = "sealgate_api_";

/// Number of random bytes of a token.
const RANDOM_BYTES: usize = 32;

/// Identifier of a token: the first half of its hash. It grants no access.
pub type ApiTokenId = Id<'T'>;

/// Scope of a token: a noun of the API, and whether it may be changed. Write access does not include
/// read access.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "&'static str")]
pub enum ApiScope {
    UsersRead,
    UsersWrite,
    GroupsRead,
    GroupsWrite,
    ClientsRead,
    ClientsWrite,
    SessionsRead,
    SessionsWrite,
    KeysRead,
    KeysWrite,
    MailRead,
    MailWrite,
    AuditRead,
    AppsRead,
    /// Changes to users with a console role, and the assignment of console roles.
    AdminsWrite,
}

impl ApiScope {
    /// All scopes, in the order of the documentation.
    pub const ALL: [Self; 15] = [
        Self::UsersRead,
        Self::UsersWrite,
        Self::GroupsRead,
        Self::GroupsWrite,
        Self::ClientsRead,
        Self::ClientsWrite,
        Self::SessionsRead,
        Self::SessionsWrite,
        Self::KeysRead,
        Self::KeysWrite,
        Self::MailRead,
        Self::MailWrite,
        Self::AuditRead,
        Self::AppsRead,
        Self::AdminsWrite,
    ];

    /// Returns the name in records, commands and forms.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UsersRead => "users:read",
            Self::UsersWrite => "users:write",
            Self::GroupsRead => "groups:read",
            Self::GroupsWrite => "groups:write",
            Self::ClientsRead => "clients:read",
            Self::ClientsWrite => "clients:write",
            Self::SessionsRead => "sessions:read",
            Self::SessionsWrite => "sessions:write",
            Self::KeysRead => "keys:read",
            Self::KeysWrite => "keys:write",
            Self::MailRead => "mail:read",
            Self::MailWrite => "mail:write",
            Self::AuditRead => "audit:read",
            Self::AppsRead => "apps:read",
            Self::AdminsWrite => "admins:write",
        }
    }

    /// Returns the scope that shows the objects of this scope.
    pub const fn reading(self) -> Self {
        match self {
            Self::UsersRead | Self::UsersWrite | Self::AdminsWrite => Self::UsersRead,
            Self::GroupsRead | Self::GroupsWrite => Self::GroupsRead,
            Self::ClientsRead | Self::ClientsWrite => Self::ClientsRead,
            Self::SessionsRead | Self::SessionsWrite => Self::SessionsRead,
            Self::KeysRead | Self::KeysWrite => Self::KeysRead,
            Self::MailRead | Self::MailWrite => Self::MailRead,
            Self::AuditRead => Self::AuditRead,
            Self::AppsRead => Self::AppsRead,
        }
    }

    /// Parses the name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

impl TryFrom<String> for ApiScope {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::parse(&name).ok_or("not a scope of the admin API")
    }
}

impl From<ApiScope> for &'static str {
    fn from(scope: ApiScope) -> Self {
        scope.as_str()
    }
}

impl fmt::Display for ApiScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Token as stored. The secret itself is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiToken {
    pub hash: SecretHash,
    pub name: String,
    pub scopes: BTreeSet<ApiScope>,
    /// Administrator who created the token. `None` for an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<Subject>,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
    /// Last use, with the precision [`USE_PRECISION`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<UnixTime>,
}

impl ApiToken {
    /// Creates the secret of a new token from random bytes.
    pub fn new_secret(random: [u8; RANDOM_BYTES]) -> Secret {
        Secret::new(format!("{PREFIX}{}", Secret::from_random(&random).expose()))
    }

    /// Returns the hash of a presented token. `None` if the text has not the form of a token, so that
    /// the store need not be read.
    pub fn hash_of(presented: &str) -> Option<SecretHash> {
        let random = presented.strip_prefix(PREFIX).and_then(from_base64url)?;
        (random.len() == RANDOM_BYTES).then(|| SecretHash::for_secret(presented.as_bytes()))
    }

    /// Returns the identifier of the token.
    pub fn id(&self) -> ApiTokenId {
        let mut id = [0; 16];
        id.copy_from_slice(&self.hash.as_bytes()[..16]);
        ApiTokenId::from_bytes(id)
    }

    /// Returns whether the token has not expired.
    pub fn is_live(&self, now: UnixTime) -> bool {
        now < self.expires_at
    }

    /// Returns whether the token has this scope.
    pub fn has(&self, scope: ApiScope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Returns whether the next use must be recorded.
    pub fn is_use_due(&self, now: UnixTime) -> bool {
        self.last_used_at.is_none_or(|last| now.since(last) >= USE_PRECISION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_token_of_the_right_form_has_a_hash() {
        let secret = ApiToken::new_secret([7; 32]);
        assert_eq!(ApiToken::hash_of(secret.expose()), Some(secret.hash()));
        let short = format!("{PREFIX}{}", Secret::from_random(&[7; 31]).expose());
        let padded = format!("{}=", secret.expose());
        for wrong in ["", PREFIX, &short, &padded, &secret.expose()[1..], &secret.expose().to_uppercase()] {
            assert!(ApiToken::hash_of(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn scopes_keep_their_names() {
        for scope in ApiScope::ALL {
            assert_eq!(ApiScope::parse(scope.as_str()), Some(scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        }
        assert!(serde_json::from_str::<ApiScope>("\"users\"").is_err());
    }
}
