//! Other issuers whose access tokens applications accept.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use sealgate_domain::oauth::trusted_token::TrustTerms;

/// `[[trusted_issuer]]`: an issuer whose access tokens some applications accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// Requirements for its tokens, and its short name.
    pub terms: TrustTerms,
    pub keys: KeySource,
    /// Maximum time between two reads of its keys.
    pub refresh: Duration,
    /// Minimum time between two reads triggered by tokens with an unknown key.
    pub throttle: Duration,
    /// Time during which the last keys are used while they cannot be read again.
    pub stale: Duration,
}

/// Source of an issuer's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// The URL in its metadata (OpenID Connect Discovery §4, RFC 8414 §3).
    Discovered,
    At(Url),
    /// A file, which is read again when it changes.
    File(PathBuf),
}
