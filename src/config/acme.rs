//! Certificates that the server obtains itself (RFC 8555).

use std::path::PathBuf;

use serde::Serialize;

/// `[acme]`: the certificate authority, and the hosts that get certificates from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcmeConfig {
    /// URL of the authority's directory.
    pub directory: String,
    /// Address for messages of the authority.
    pub contact: Option<String>,
    /// Host names and IP addresses; each gets its own certificate.
    pub hosts: Vec<String>,
    /// Profile of the certificates; the authority's default when absent.
    pub profile: Option<String>,
    pub challenge: AcmeChallenge,
    /// PEM file of authorities that sign the certificate of the directory's server, in addition to those of
    /// the machine.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub ca_file: Option<PathBuf>,
    /// Directory of the account and the certificates.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub path: PathBuf,
}

/// How the authority validates a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum AcmeChallenge {
    /// By a TLS handshake at port 443 (RFC 8737).
    TlsAlpn01,
    /// By a request to port 80 (RFC 8555 §8.3).
    Http01,
}

/// URL of Let's Encrypt's directory, the default of `acme.directory`.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// End of the file names of certificates that the server obtains itself.
pub const ACME_SUFFIX: &str = ".acme.pem";

impl AcmeConfig {
    /// Returns the file of a host's private key and certificate chain.
    pub fn file(&self, host: &str) -> PathBuf {
        self.path.join(format!("{host}{ACME_SUFFIX}"))
    }
}
