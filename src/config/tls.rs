//! How the public listeners prove who they are, and ask it of clients.

use std::path::PathBuf;

use serde::Serialize;

/// Certificate chain and private key, PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// The chain, leaf first.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientCertificates {
    /// The authorities that may have signed them, a PEM file.
    #[serde(rename = "client_ca", serialize_with = "super::serialize::as_debug")]
    pub ca: PathBuf,
    /// Whether a client may do without.
    #[serde(rename = "client_certificates")]
    pub demand: Presence,
}

/// Whether something must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Presence {
    /// It may be absent.
    Optional,
    /// It may not.
    Required,
}
