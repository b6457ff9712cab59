//! Application passwords: for programs that can only do HTTP Basic (RFC 7617), each good for one person at one protected
//! application. The password is 160 random bits, so its SHA-256 is enough to keep: nobody guesses it, whatever they hold.

use serde::{Deserialize, Serialize};

use crate::domain::secret::{Secret, SecretHash, base64url};
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;

/// The most that one person has.
pub const MOST_APP_PASSWORDS: usize = 50;

/// The longest name of one, characters.
pub const LONGEST_APP_PASSWORD_NAME: usize = 60;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppPassword {
    pub app: String,
    pub name: String,
    /// Its hash.
    pub hash: SecretHash,
    pub created_at: UnixTime,
    /// When it was last used, about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<UnixTime>,
}

impl AppPassword {
    /// A new one, and the password itself, which is kept nowhere.
    pub fn new(app: &str, name: &str, random: &[u8; 20], now: UnixTime) -> (Self, Secret) {
        let secret = Secret::from_random(random);
        let password = Self {
            app: app.to_owned(),
            name: name.to_owned(),
            hash: secret.hash(),
            created_at: now,
            last_used_at: None,
        };
        (password, secret)
    }

    /// Its name on pages and in forms, which tells nothing of it.
    pub fn id(&self) -> String {
        let id = SecretHash::of(self.hash.as_bytes());
        base64url(&id.as_bytes()[..12])
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppPasswords {
    /// Whose.
    pub subject: Subject,
    /// They, the oldest first.
    pub passwords: Vec<AppPassword>,
}

impl AppPasswords {
    /// None.
    pub fn none(subject: Subject) -> Self {
        Self { subject, passwords: Vec::new() }
    }

    /// Whether there is room for another one.
    pub fn has_room(&self) -> bool {
        self.passwords.len() < MOST_APP_PASSWORDS
    }

    /// The one of this application that has this hash.
    pub fn find(&self, app: &str, hash: &SecretHash) -> Option<&AppPassword> {
        self.passwords.iter().find(|password| password.app == app && password.hash == *hash)
    }

    /// Whether each one of these is among `others` too.
    pub fn are_among(&self, others: &Self) -> bool {
        self.passwords.iter().all(|password| others.find(&password.app, &password.hash).is_some())
    }
}
