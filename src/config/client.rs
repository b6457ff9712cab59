//! A client that the configuration file defines.

use sealgate_domain::client::Client;

/// `[[client]]`: a client that only this file changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinedClient {
    /// Record to store. Its times and its incarnation are set when it is stored. If the files of its
    /// secrets were not read, it lacks these secrets.
    pub client: Client,
    /// Whether it replaces a client with the same ID that was registered in another way.
    pub adopt: bool,
}
