//! Certificates of the public listeners and of their clients.

use std::path::PathBuf;

use serde::Serialize;

/// PEM files of a certificate chain and its private key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificate chain, starting with the leaf.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Settings for client certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientCertificates {
    /// PEM file of the authorities that sign client certificates.
    #[serde(rename = "client_ca", serialize_with = "super::serialize::as_debug")]
    pub ca: PathBuf,
    /// Whether clients must present a certificate.
    #[serde(rename = "client_certificates")]
    pub demand: Presence,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Presence {
    Optional,
    Required,
}
