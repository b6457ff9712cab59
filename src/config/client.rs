//! Clients that the configuration file defines.

use sealgate_domain::client::Client;

/// `[[client]]`: client that can be changed only in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinedClient {
    /// Record to store. Storing it sets its times and its incarnation. Secrets whose files were not
    /// read are missing.
    pub client: Client,
    /// Whether the definition may replace a client with the same ID that was registered otherwise.
    pub adopt: bool,
}
