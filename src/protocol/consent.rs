//! What a person has allowed a client to learn.

use serde::{Deserialize, Serialize};

use crate::protocol::client::ClientId;
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
