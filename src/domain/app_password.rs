//! Application passwords, for clients that only support HTTP Basic (RFC 7617).
//!
//! Each password is valid for one user at one protected application. It has 160 random bits, so it
//! is safe to store its plain SHA-256.

use serde::{Deserialize, Serialize};

use crate::assurance::AssuranceLevel;
use crate::secret::{Secret, SecretHash, base64url};
use crate::time::UnixTime;
use crate::user::Subject;

/// Maximum number of application passwords per user.
pub const MAX_APP_PASSWORDS: usize = 50;

/// Maximum length of a name in characters.
pub const MAX_APP_PASSWORD_NAME_LENGTH: usize = 60;

/// Application password of a user, without its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppPassword {
    pub app: String,
    pub name: String,
    /// Hash of the password.
    pub hash: SecretHash,
    /// Level of the sign-in in which the password was created. Records of older versions have no
    /// level, which counts as the lowest.
    #[serde(default = "lowest")]
    pub level: AssuranceLevel,
    pub created_at: UnixTime,
    /// Approximate time of the last use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<UnixTime>,
}

const fn lowest() -> AssuranceLevel {
    AssuranceLevel::One
}

impl AppPassword {
    /// Creates an application password in a sign-in of this level. Also returns the password's
    /// text, which is not stored.
    pub fn new(app: &str, name: &str, level: AssuranceLevel, random: &[u8; 20], now: UnixTime) -> (Self, Secret) {
        let secret = Secret::from_random(random);
        let password = Self {
            app: app.to_owned(),
            name: name.to_owned(),
            hash: secret.hash(),
            level,
            created_at: now,
            last_used_at: None,
        };
        (password, secret)
    }

    /// Returns an id for pages and forms, which does not reveal the password.
    pub fn id(&self) -> String {
        let id = SecretHash::for_secret(self.hash.as_bytes());
        base64url(&id.as_bytes()[..12])
    }
}

/// All application passwords of a user. They are stored as one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppPasswords {
    /// Owner of the passwords.
    pub subject: Subject,
    /// Passwords, oldest first.
    pub passwords: Vec<AppPassword>,
}

impl AppPasswords {
    /// Creates an empty set.
    pub fn none(subject: Subject) -> Self {
        Self { subject, passwords: Vec::new() }
    }

    /// Returns whether another password can be added.
    pub fn has_room(&self) -> bool {
        self.passwords.len() < MAX_APP_PASSWORDS
    }

    /// Returns the password of this application with this hash.
    pub fn find(&self, app: &str, hash: &SecretHash) -> Option<&AppPassword> {
        self.passwords.iter().find(|password| password.app == app && password.hash == *hash)
    }

    /// Returns whether `others` contains all passwords of this set.
    pub fn are_among(&self, others: &Self) -> bool {
        self.passwords.iter().all(|password| others.find(&password.app, &password.hash).is_some())
    }
}
