//! A user's consent to a client's access.

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientId};
use crate::scope::Scope;
use crate::time::UnixTime;
use crate::user::Subject;

/// Consent of a user to a client's access.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// User who consented.
    pub subject: Subject,
    pub client: ClientId,
    pub scope: Scope,
    /// Time of the last consent.
    pub at: UnixTime,
    /// Incarnation of the client. An earlier client with the same id had another incarnation.
    /// `None` in records of versions without incarnations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
}

impl Consent {
    /// Returns whether the consent is for this client, and not for an earlier client with the same
    /// id.
    ///
    /// Times alone do not suffice: if the clock is set back, every consent seems older than its
    /// client.
    pub fn is_for(&self, client: &Client) -> bool {
        self.client == client.id
            && match self.incarnation {
                Some(incarnation) => incarnation == client.incarnation,
                // Both records are from an earlier version, so only their times can be compared.
                None => client.incarnation == 0 && self.at >= client.created_at,
            }
    }
}
