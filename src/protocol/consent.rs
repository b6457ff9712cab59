//! What a person has allowed a client to learn.

use serde::{Deserialize, Serialize};

use crate::protocol::client::{Client, ClientId};
use crate::protocol::scope::Scope;
use crate::protocol::time::UnixTime;
use crate::protocol::user::Subject;

/// A person's consent for a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// Whose.
    pub subject: Subject,
    /// For whom.
    pub client: ClientId,
    /// To what.
    pub scope: Scope,
    /// When it was last given.
    pub at: UnixTime,
}

impl Consent {
    /// Whether it was given to this client, and not to an earlier one that had the same id.
    pub fn is_for(&self, client: &Client) -> bool {
        self.client == client.id && self.at >= client.created_at
    }
}
