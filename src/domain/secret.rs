//! Secrets that travel once and are kept as hashes only: codes, cookies, refresh tokens, client secrets.
//!
//! All of them carry at least 128 bits of randomness, so a plain SHA-256 is enough to store them: there is nothing to
//! guess. Passwords are people's choices and go through argon2id instead (`crate::password`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// base64url without padding (RFC 7515 §2).
pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The bytes that an unpadded base64url text stands for; `None` for any other text, non-canonical ends included.
pub fn from_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// A secret in clear, on its way to or from whoever holds it. Wiped when dropped, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Takes a secret that somebody presented.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Writes fresh random bytes as base64url.
    pub fn from_random(bytes: &[u8]) -> Self {
        Self::new(base64url(bytes))
    }

    /// The secret itself: only for the response that hands it out and for hashing.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What is stored of it.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(self.0.as_bytes())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// SHA-256 of a secret. Equality is constant-time.
#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SecretHash(#[serde(with = "base64url_bytes")] [u8; 32]);

impl SecretHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash's 32 bytes, for use as a key.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl PartialEq for SecretHash {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Eq for SecretHash {}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretHash(…)")
    }
}

/// Bytes of a known number, written as base64url.
pub(crate) mod base64url_bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<const N: usize, S: Serializer>(bytes: &[u8; N], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::base64url(bytes))
    }

    pub(crate) fn deserialize<'de, const N: usize, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; N], D::Error> {
        let bytes = super::from_base64url(&String::deserialize(deserializer)?);
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| Error::custom(format_args!("not {N} bytes in base64url")))
    }
}

/// Whether two texts are equal, in a time that tells only their lengths.
pub fn constant_time_eq(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_never_prints_itself() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret:?} {:?}", secret.hash()).contains("hunter2"));
    }

    #[test]
    fn a_hash_survives_its_stored_form() {
        let hash = SecretHash::of(b"x");
        let text = serde_json::to_string(&hash).unwrap();
        assert_eq!(serde_json::from_str::<SecretHash>(&text).unwrap(), hash);
    }
}
