//! `[acme]`: certificates that the server obtains itself (RFC 8555).

use std::path::PathBuf;

use serde::Serialize;

/// `[acme]`: the certificate authority, and the hosts that get certificates from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcmeConfig {
    /// URL of the authority's directory.
    pub directory: String,
    /// Address for messages of the authority.
    pub contact: Option<String>,
    /// Host names and IP addresses. Each gets its own certificate.
    pub hosts: Vec<String>,
    /// Profile of the certificates; `None` for the authority's default.
    pub profile: Option<String>,
    pub challenge: AcmeChallenge,
    /// PEM file of certificate authorities to trust for connections to the directory, in addition
    /// to the authorities of the machine.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub ca_file: Option<PathBuf>,
    /// Directory with the ACME account and the certificates.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub path: PathBuf,
}

/// Method of validating a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AcmeChallenge {
    /// A TLS handshake on port 443 (RFC 8737).
    TlsAlpn01,
    /// A request to port 80 (RFC 8555 §8.3).
    Http01,
}

/// URL of Let's Encrypt's directory, the default of `acme.directory`.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// Suffix of the names of certificate files that the server obtains itself.
pub const ACME_SUFFIX: &str = ".acme.pem";

impl AcmeConfig {
    /// Returns the file with a host's private key and certificate chain.
    pub fn file(&self, host: &str) -> PathBuf {
        self.path.join(format!("{host}{ACME_SUFFIX}"))
    }
}
