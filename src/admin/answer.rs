//! What a command yields: one JSON object, with the names that stand on the wire of OAuth and OpenID Connect.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use zeroize::Zeroize;

/// Members that hold a secret that is shown once.
const SECRETS: [&str; 2] = ["client_secret", "initial_access_token"];

/// The answer to a command. A secret in it is wiped when it is dropped and never printed by `Debug`.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Answer(Map<String, Value>);

impl Answer {
    /// An answer of these members.
    pub(super) fn new(members: Map<String, Value>) -> Self {
        Self(members)
    }

    /// The same with one member more.
    #[must_use]
    pub(super) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    /// The members.
    pub fn members(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Takes a member out.
    pub fn take(&mut self, name: &str) -> Option<Value> {
        self.0.remove(name)
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        for name in SECRETS {
            if let Some(Value::String(secret)) = self.0.get_mut(name) {
                secret.zeroize();
            }
        }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
