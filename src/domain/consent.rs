//! Consent of a user for a client.

use serde::{Deserialize, Serialize};

use crate::client::{Client, ClientId};
use crate::scope::Scope;
use crate::time::UnixTime;
use crate::user::Subject;

/// A user's consent for a client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// User who consented.
    pub subject: Subject,
    pub client: ClientId,
    pub scope: Scope,
    /// Time of the last consent.
    pub at: UnixTime,
    /// Incarnation of the client. It distinguishes the client from earlier clients with the same
    /// id. Absent in records from before clients had incarnations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incarnation: Option<u32>,
}

impl Consent {
    /// Reports whether the consent is for this client and not for an earlier client with the same
    /// id.
    ///
    /// Times alone are not sufficient: after the clock was set back, every consent would seem older
    /// than its client.
    pub fn is_for(&self, client: &Client) -> bool {
        self.client == client.id
            && match self.incarnation {
                Some(incarnation) => incarnation == client.incarnation,
                // Both records are from an earlier version, so their times are the only difference.
                None => client.incarnation == 0 && self.at >= client.created_at,
            }
    }
}
