//! Other issuers whose access tokens applications take.

use std::path::PathBuf;
use std::time::Duration;

use url::Url;

use crate::oauth::trusted_token::TrustTerms;

/// `[[trusted_issuer]]`: an issuer whose access tokens some applications take.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedIssuer {
    /// What its tokens must be like, and our name for it.
    pub terms: TrustTerms,
    pub keys: KeySource,
    /// The longest time between two readings of its keys.
    pub refresh: Duration,
    /// The shortest time between two readings that a token with an unknown key asks for.
    pub throttle: Duration,
    /// How long keys are used after they were last read, while they cannot be read again.
    pub stale: Duration,
}

/// Where an issuer's keys are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// At the address that its metadata names (OpenID Connect Discovery §4, RFC 8414 §3).
    Discovered,
    At(Url),
    /// In a file, which is read again when it changes.
    File(PathBuf),
}
