//! Consent of a user for a client.

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientId};
use crate::scope::Scope;
use crate::time::UnixTime;
use crate::user::Subject;

/// A user's consent for a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// The user who consented.
    pub subject: Subject,
    pub client: ClientId,
    pub scope: Scope,
    /// Time of the last consent.
    pub at: UnixTime,
    /// Which of the clients that have had this id it is for; absent in records from before clients
    /// had incarnations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
}

impl Consent {
    /// Reports whether the consent is for this client and not an earlier one with the same id. Does
    /// not rely on the clock alone: after it is set back, every consent would seem older than its
    /// client.
    pub fn is_for(&self, client: &Client) -> bool {
        self.client == client.id
            && match self.incarnation {
                Some(incarnation) => incarnation == client.incarnation,
                // Both records are from an earlier version, so only their times can distinguish
                // them.
                None => client.incarnation == 0 && self.at >= client.created_at,
            }
    }
}
