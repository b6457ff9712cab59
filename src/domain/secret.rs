//! Secrets that are shown once and stored as hashes: codes, cookies, refresh tokens and client
//! secrets. Also encrypted values of records, which the store's `sealer` encrypts and decrypts.
//!
//! The hashed secrets have at least 128 random bits. They cannot be guessed, so SHA-256 suffices.
//! Passwords are chosen by users, so they are hashed with argon2id (`sealgate_core::password`).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Encodes base64url without padding (RFC 7515 §2).
pub fn base64url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Decodes base64url without padding. Returns `None` for any other text, including non-canonical
/// endings.
pub fn from_base64url(text: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(text).ok()
}

/// Secret in clear text. The memory is zeroized on drop, and `Debug` does not show the text.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps the text of a secret.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// Encodes random bytes as base64url.
    pub fn from_random(bytes: &[u8]) -> Self {
        Self::new(base64url(bytes))
    }

    /// Returns the secret. To be used only to hash it, or to write it to a response.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Returns the hash to store.
    pub fn hash(&self) -> SecretHash {
        SecretHash::for_secret(self.0.as_bytes())
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
    /// Hashes these bytes.
    pub fn for_secret(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Wraps a hash that was computed elsewhere.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the hash's 32 bytes, for use as a key.
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

/// Serializes a fixed number of bytes as base64url.
pub mod base64url_bytes {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    /// Writes the bytes as base64url without padding (RFC 4648 §5).
    pub fn serialize<const N: usize, S: Serializer>(bytes: &[u8; N], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::base64url(bytes))
    }

    /// Reads exactly `N` bytes from base64url without padding (RFC 4648 §5).
    pub fn deserialize<'de, const N: usize, D: Deserializer<'de>>(deserializer: D) -> Result<[u8; N], D::Error> {
        let bytes = super::from_base64url(&String::deserialize(deserializer)?);
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes.ok_or_else(|| Error::custom(format_args!("not {N} bytes in base64url")))
    }
}

/// Returns whether two texts are equal. The duration reveals only their lengths.
pub fn constant_time_eq(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// Encrypted bytes: data key id, nonce, ciphertext and tag. In JSON, a base64url string.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// Wraps bytes produced by the sealer.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the data key id, nonce, ciphertext and tag.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({} bytes)", self.0.len())
    }
}

impl Serialize for Sealed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64url(&self.0))
    }
}

impl<'de> Deserialize<'de> for Sealed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_base64url(&text).map(Self).ok_or_else(|| serde::de::Error::custom("not base64url"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_printed() {
        let secret = Secret::new("hunter2");
        assert!(!format!("{secret:?} {:?}", secret.hash()).contains("hunter2"));
    }

    #[test]
    fn a_hash_is_unchanged_after_storing_and_reading() {
        let hash = SecretHash::for_secret(b"x");
        let text = serde_json::to_string(&hash).unwrap();
        assert_eq!(serde_json::from_str::<SecretHash>(&text).unwrap(), hash);
    }
}
