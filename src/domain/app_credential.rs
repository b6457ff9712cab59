//! Names and passwords of users at applications that have their own login form.
//!
//! The gateway signs in to such an application on the user's behalf, so it needs the password
//! itself and not a hash. The stored password is encrypted with the data key. No page, export or
//! log contains it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::profile::is_line;
use crate::secret::Sealed;
use crate::time::UnixTime;
use crate::user::Subject;

/// Maximum number of applications for which a user can store a password.
pub const MAX_APP_CREDENTIALS: usize = 50;

/// Maximum length of a name at an application, in characters.
pub const MAX_APP_USERNAME_LENGTH: usize = 200;

/// Maximum length of a password at an application, in bytes.
pub const MAX_APP_CREDENTIAL_PASSWORD_BYTES: usize = 1000;

/// Returns whether this can be the name of a user at an application.
///
/// All its characters must be visible, because pages show the name to administrators. Control
/// characters could also end a line or a field of the login form.
pub fn is_app_username(text: &str) -> bool {
    is_line(text, MAX_APP_USERNAME_LENGTH)
}

/// Returns whether this can be the password of a user at an application.
pub fn is_app_credential_password(text: &str) -> bool {
    let is_short = text.len() <= MAX_APP_CREDENTIAL_PASSWORD_BYTES;
    !text.is_empty() && is_short && !text.contains(['\r', '\n', '\0'])
}

/// Name and password of a user at one application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppCredential {
    /// Name of the application in the configuration.
    pub app: String,
    /// Name of the user at the application.
    pub username: String,
    /// Encrypted password, bound to the user and the application.
    pub password: Sealed,
    /// Time of the last change of name or password. Each change has a later time than the one
    /// before, even if both happen within a second.
    pub changed_at: UnixTime,
    /// Whether the application has rejected the name or password. The gateway does not try a
    /// rejected credential again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_refused: bool,
}

/// All names and passwords of a user at applications. They are stored as one record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AppCredentials {
    /// User that the credentials belong to.
    pub subject: Subject,
    /// Credentials, at most one for each application. Earlier additions come first.
    pub credentials: Vec<AppCredential>,
    /// Latest `changed_at` of the credentials, including removed credentials.
    ///
    /// A new credential therefore never has the `changed_at` of a removed credential, even if both
    /// were set within a second. A late report about the removed credential does not affect the new
    /// credential.
    pub latest_change: UnixTime,
}

impl AppCredentials {
    /// Creates an empty set.
    pub fn none(subject: Subject) -> Self {
        Self { subject, credentials: Vec::new(), latest_change: UnixTime::from_seconds(0) }
    }

    /// Returns the credential for this application.
    pub fn find(&self, app: &str) -> Option<&AppCredential> {
        self.credentials.iter().find(|credential| credential.app == app)
    }

    /// Adds or replaces the credential for this application, and marks it as not refused.
    ///
    /// Returns false if a new credential would exceed [`MAX_APP_CREDENTIALS`].
    #[must_use]
    pub fn set(&mut self, app: &str, username: &str, password: Sealed, now: UnixTime) -> bool {
        let changed_at = now.max(self.latest_change.plus(Duration::from_secs(1)));
        let next = AppCredential {
            app: app.to_owned(),
            username: username.to_owned(),
            password,
            changed_at,
            is_refused: false,
        };
        if let Some(known) = self.credentials.iter_mut().find(|credential| credential.app == app) {
            *known = next;
        } else if self.credentials.len() < MAX_APP_CREDENTIALS {
            self.credentials.push(next);
        } else {
            return false;
        }
        self.latest_change = changed_at;
        true
    }

    /// Marks the credential as refused by the application. Returns whether the set has changed.
    ///
    /// `changed_at` is the time in the refused credential. If the user has entered another password
    /// in the meantime, nothing is changed.
    pub fn refuse(&mut self, app: &str, changed_at: UnixTime) -> bool {
        let is_meant = |one: &&mut AppCredential| one.app == app && one.changed_at == changed_at && !one.is_refused;
        let Some(refused) = self.credentials.iter_mut().find(is_meant) else { return false };
        refused.is_refused = true;
        true
    }

    /// Removes the credential for this application. Returns whether it existed.
    pub fn remove(&mut self, app: &str) -> bool {
        let before = self.credentials.len();
        self.credentials.retain(|credential| credential.app != app);
        self.credentials.len() < before
    }

    /// Returns whether the methods of this type could have produced this set.
    pub fn is_consistent(&self) -> bool {
        let is_own = |(at, one): (usize, &AppCredential)| {
            let is_first = self.credentials[..at].iter().all(|earlier| earlier.app != one.app);
            is_first && is_app_username(&one.username) && one.changed_at <= self.latest_change
        };
        self.credentials.len() <= MAX_APP_CREDENTIALS && self.credentials.iter().enumerate().all(is_own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixTime = UnixTime::from_seconds(1_800_000_000);

    fn sealed(byte: u8) -> Sealed {
        Sealed::from_bytes(vec![byte])
    }

    fn none() -> AppCredentials {
        AppCredentials::none(Subject::from_random([1; 16]))
    }

    #[test]
    fn names_and_passwords_have_limits() {
        for name in ["anna", "Anna Ünal", "DOMAIN\\anna", &"ü".repeat(200)] {
            assert!(is_app_username(name), "{name}");
        }
        for name in ["", " ", "a\nb", "a\0", "a\u{85}", "a\u{202e}b", &"u".repeat(201)] {
            assert!(!is_app_username(name), "{name:?}");
        }
        for password in ["x", " geheim ", "tab\tis typed", &"x".repeat(1000)] {
            assert!(is_app_credential_password(password), "{password}");
        }
        for password in ["", "a\rb", "a\nb", "a\0b", &"ü".repeat(501)] {
            assert!(!is_app_credential_password(password), "{password:?}");
        }
    }

    #[test]
    fn each_change_has_a_later_time_also_after_a_removal() {
        let mut credentials = none();
        assert!(credentials.set("wiki", "anna", sealed(1), NOW));
        assert_eq!(credentials.find("wiki").unwrap().changed_at, NOW);
        // The clock may also have been set back.
        assert!(credentials.set("wiki", "anna", sealed(2), UnixTime::from_seconds(9)));
        let second = credentials.find("wiki").unwrap().changed_at;
        assert!(second > NOW);
        assert!(credentials.remove("wiki") && !credentials.remove("wiki"));
        assert!(credentials.set("wiki", "anna", sealed(3), NOW));
        assert!(credentials.find("wiki").unwrap().changed_at > second);
        assert!(credentials.is_consistent());
    }

    #[test]
    fn a_refusal_concerns_only_the_credential_that_was_tried() {
        let mut credentials = none();
        assert!(credentials.set("wiki", "anna", sealed(1), NOW));
        assert!(credentials.set("mail", "anna", sealed(1), NOW));
        let tried = credentials.find("wiki").unwrap().changed_at;
        assert!(credentials.set("wiki", "anna", sealed(2), NOW));
        assert!(!credentials.refuse("wiki", tried) && !credentials.refuse("chat", tried));
        assert!(!credentials.find("wiki").unwrap().is_refused);
        let current = credentials.find("wiki").unwrap().changed_at;
        assert!(credentials.refuse("wiki", current) && !credentials.refuse("wiki", current));
        assert!(credentials.find("wiki").unwrap().is_refused && !credentials.find("mail").unwrap().is_refused);
        assert!(credentials.set("wiki", "anna", sealed(3), NOW));
        assert!(!credentials.find("wiki").unwrap().is_refused);
    }

    #[test]
    fn the_number_of_applications_is_limited_but_replacing_is_always_possible() {
        let mut credentials = none();
        for number in 0..MAX_APP_CREDENTIALS {
            assert!(credentials.set(&format!("app{number}"), "anna", sealed(1), NOW));
        }
        let full = credentials.clone();
        assert!(!credentials.set("another", "anna", sealed(1), NOW));
        assert_eq!(credentials, full);
        assert!(credentials.set("app7", "anna", sealed(2), NOW) && credentials.remove("app8"));
        assert!(credentials.set("another", "anna", sealed(1), NOW) && credentials.is_consistent());
    }

    #[test]
    fn inconsistent_sets_are_detected() {
        let mut credentials = none();
        assert!(credentials.is_consistent());
        assert!(credentials.set("wiki", "anna", sealed(1), NOW));
        let one = credentials.credentials[0].clone();
        let with = |credentials: Vec<AppCredential>| AppCredentials { credentials, latest_change: NOW, ..none() };
        assert!(with(vec![one.clone()]).is_consistent());
        assert!(!with(vec![one.clone(), one.clone()]).is_consistent());
        assert!(!with(vec![AppCredential { username: "a\nb".into(), ..one.clone() }]).is_consistent());
        assert!(!with(vec![AppCredential { changed_at: NOW.plus(Duration::from_secs(1)), ..one }]).is_consistent());
    }
}
