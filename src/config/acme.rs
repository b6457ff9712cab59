//! `[acme]`: certificates that the server obtains itself (RFC 8555).

use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::disk::read_longer_secret_file;

/// Maximum length of the encoded MAC key of an external account. Let's Encrypt needs no external
/// account. The keys of other authorities have 32 to 64 bytes.
const MAX_MAC_KEY_LENGTH: usize = 1024;
const MIN_MAC_KEY_BYTES: usize = 16;

/// `[acme]`: the certificate authority, and the hosts that get certificates from it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AcmeConfig {
    /// URL of the authority's directory.
    pub directory: String,
    /// Address for messages of the authority.
    pub contact: Option<String>,
    /// External account: an account at the operator of the authority. The ACME account is bound to
    /// the external account (RFC 8555 §7.3.4).
    #[serde(flatten)]
    pub external_account: Option<ExternalAccount>,
    /// Host names and IP addresses. Each gets its own certificate.
    pub hosts: Vec<String>,
    /// Profile of the certificates. `None` means the authority's default profile.
    pub profile: Option<String>,
    pub challenge: AcmeChallenge,
    /// PEM file with CA certificates. Connections to the directory trust these authorities in
    /// addition to the authorities of the machine.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub ca_file: Option<PathBuf>,
    /// Directory with the ACME account and the certificates.
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub path: PathBuf,
}

/// Key identifier of an external account, and the file that contains its MAC key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalAccount {
    pub external_account_id: String,
    #[serde(serialize_with = "super::serialize::as_debug")]
    pub external_account_key_file: PathBuf,
}

impl ExternalAccount {
    /// Reads the MAC key. Blocking I/O.
    ///
    /// # Errors
    /// One line with the path and what to do, without the contents.
    pub fn read_key(&self) -> Result<Zeroizing<Vec<u8>>, String> {
        read_mac_key(&self.external_account_key_file)
    }
}

/// Reads a MAC key in base64url or Base64, with or without padding.
pub(crate) fn read_mac_key(file: &Path) -> Result<Zeroizing<Vec<u8>>, String> {
    let fault = |problem: &str| format!("{} {problem}", file.display());
    let text = read_longer_secret_file(file, "the MAC key of the external account", MAX_MAC_KEY_LENGTH)
        .map_err(|problem| fault(&problem))?;
    let url_safe: Zeroizing<String> = Zeroizing::new(text.trim_end_matches('=').replace('+', "-").replace('/', "_"));
    let key = BASE64_URL_SAFE_NO_PAD.decode(url_safe.as_bytes()).map(Zeroizing::new).ok();
    key.filter(|key| key.len() >= MIN_MAC_KEY_BYTES).ok_or_else(|| {
        fault("contains no MAC key; use the key as the authority shows it, in base64url, at least 16 bytes")
    })
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
