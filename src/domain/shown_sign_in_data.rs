//! Digests of the sign-in data of users that get rights in the console, to detect changes between the
//! confirmation and the commit.
//!
//! An administrator confirms what the page has shown. Without the digests, a user manager could set a
//! password or another address in between, and sign in with the new rights.

use std::collections::BTreeMap;

use crate::factors::Factors;
use crate::secret::{SecretHash, base64url};
use crate::user::{Subject, User};

/// Digests of the sign-in data of users, as a page has shown or confirmed them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShownSignInData(BTreeMap<Subject, String>);

impl ShownSignInData {
    /// Adds the sign-in data of a user.
    pub fn add(&mut self, user: &User, factors: Option<&Factors>) {
        self.0.insert(user.sub, digest(user, factors));
    }

    /// Returns whether a user was added, and the sign-in data have not changed since.
    pub fn is_current(&self, user: &User, factors: Option<&Factors>) -> bool {
        self.0.get(&user.sub).is_some_and(|shown| *shown == digest(user, factors))
    }

    /// Returns the digest of all users, for a form. `None` if there is no user.
    pub fn digest(&self) -> Option<String> {
        if self.0.is_empty() {
            return None;
        }
        let lines: Vec<String> = self.0.iter().map(|(subject, digest)| format!("{subject} {digest}")).collect();
        Some(shortened(lines.join("\n").as_bytes()))
    }
}

/// Returns the digest of everything with which a user can sign in, or have a new password mailed.
///
/// Uses of factors do not change it.
fn digest(user: &User, factors: Option<&Factors>) -> String {
    let names = (&user.email, user.email_verified, &user.username);
    let link = user.source.as_ref().map(|source| &source.link);
    let password = (&user.password, user.by_manager.password, user.by_manager.email);
    let of_factors = factors.map(|factors| {
        let apps: Vec<_> = factors.totp.iter().map(|app| (app.id, &app.name)).collect();
        let keys: Vec<_> = factors.keys.iter().map(|key| (key.id, &key.name)).collect();
        let recovery = factors.recovery.as_ref().map(|codes| codes.created_at);
        (apps, keys, recovery, factors.reset.as_ref().map(|reset| reset.link), factors.generation)
    });
    // Stored values serialize without errors, as they do for the store.
    shortened(&serde_json::to_vec(&(names, link, password, of_factors)).unwrap_or_default())
}

fn shortened(bytes: &[u8]) -> String {
    base64url(&SecretHash::for_secret(bytes).as_bytes()[..16])
}
