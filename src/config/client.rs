//! Clients that the configuration file defines.

use sealgate_domain::client::Client;

/// `[[client]]`: client that can be changed only in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinedClient {
    /// Record to store. The store sets the times and the incarnation of the record. If the secret
    /// files were not read, the record has no secrets.
    pub client: Client,
    /// Whether the definition may replace a client with the same ID that was not defined in the
    /// file.
    pub adopt: bool,
}
