//! What a person has allowed a client to learn.

use serde::{Deserialize, Serialize};

use crate::domain::client::{Client, ClientId};
use crate::domain::scope::Scope;
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;

/// A person's consent for a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// Whose.
    pub subject: Subject,
    pub client: ClientId,
    pub scope: Scope,
    /// When it was last given.
    pub at: UnixTime,
    /// To which of the clients that have had this id; none in a consent from before clients were told apart so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
}

impl Consent {
    /// Whether it was given to this client, and not to an earlier one that had the same id. Not by the clock: one that is
    /// moved back would make every consent older than its client.
    pub fn is_for(&self, client: &Client) -> bool {
        self.client == client.id
            && match self.incarnation {
                Some(incarnation) => incarnation == client.incarnation,
                // Both are of an earlier version, and so of the past, where nothing else tells.
                None => client.incarnation == 0 && self.at >= client.created_at,
            }
    }
}
