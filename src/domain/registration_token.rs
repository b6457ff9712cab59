//! Initial access tokens (RFC 7591 §3): permission to register clients over HTTP.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::client::ClientId;
use crate::id::Id;
use crate::secret::SecretHash;
use crate::time::UnixTime;
use crate::user::Subject;

/// Maximum number of tokens that have not expired.
pub const MAX_REGISTRATION_TOKENS: usize = 100;

/// Maximum number of clients that one token registers.
pub const MAX_REGISTRATIONS: u32 = 100;

/// Maximum time until a token expires.
pub const MAX_REGISTRATION_LIFETIME: Duration = Duration::from_hours(90 * 24);

/// Maximum length of the name of a token, in characters.
pub const MAX_REGISTRATION_NAME_LENGTH: usize = 100;

/// Identifier of a token: the first half of its hash. It grants no access.
pub type RegistrationTokenId = Id<'I'>;

/// Initial access token as stored. The secret itself is not stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistrationToken {
    pub hash: SecretHash,
    /// Name for administrators. May be empty.
    pub name: String,
    /// Administrator who created the token. `None` for an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creator: Option<Subject>,
    pub created_at: UnixTime,
    pub expires_at: UnixTime,
    /// Number of clients that the token registers.
    pub registrations: u32,
    /// Clients that were registered with the token, also if they were deleted later.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<ClientId>,
}

impl RegistrationToken {
    /// Creates the token of an operator that registers one client.
    pub fn new(hash: SecretHash, created_at: UnixTime, expires_at: UnixTime) -> Self {
        Self { hash, name: String::new(), creator: None, created_at, expires_at, registrations: 1, clients: Vec::new() }
    }

    /// Returns the identifier of the token.
    pub fn id(&self) -> RegistrationTokenId {
        Self::id_of(&self.hash)
    }

    /// Returns the identifier of the token with this hash.
    pub fn id_of(hash: &SecretHash) -> RegistrationTokenId {
        let mut id = [0; 16];
        id.copy_from_slice(&hash.as_bytes()[..16]);
        RegistrationTokenId::from_bytes(id)
    }

    /// Returns the number of clients that the token still registers.
    pub fn left(&self) -> u32 {
        self.registrations.saturating_sub(u32::try_from(self.clients.len()).unwrap_or(u32::MAX))
    }

    /// Returns whether the token has not expired.
    pub fn is_live(&self, now: UnixTime) -> bool {
        now < self.expires_at
    }

    /// Returns whether the token registers a client now.
    pub fn works(&self, now: UnixTime) -> bool {
        self.is_live(now) && self.left() > 0
    }
}
