//! Certificates of the public listeners and of their clients.

use std::path::PathBuf;

use serde::Serialize;

/// Certificate chain and private key, PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsConfig {
    /// Certificate chain, leaf first.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClientCertificates {
    /// PEM file of the authorities that sign client certificates.
    #[serde(rename = "client_ca", serialize_with = "super::serialize::as_debug")]
    pub ca: PathBuf,
    /// Whether clients must present a certificate.
    #[serde(rename = "client_certificates")]
    pub demand: Presence,
}

/// Whether a client certificate is required.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Presence {
    Optional,
    Required,
}
