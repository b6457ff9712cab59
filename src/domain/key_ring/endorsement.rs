//! Data in a key ring entry for nodes whose tokens lack the key: its public members and the
//! endorsements of other keys.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::secret::{base64url, from_base64url};

/// Public members of an RSA key in a ring (RFC 7518 §6.3.1). They are unverified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicJwk {
    kty: String,
    n: String,
    e: String,
}

impl PublicJwk {
    /// Creates the key with this modulus and exponent, both encoded as in a JWK.
    pub fn rsa(n: &str, e: &str) -> Self {
        Self { kty: "RSA".to_owned(), n: n.to_owned(), e: e.to_owned() }
    }

    /// Returns the input of the thumbprint (RFC 7638 §3). `None` if the members are not those of an
    /// RSA key or contain invalid characters.
    pub fn canonical(&self) -> Option<String> {
        self.components()?;
        (self.kty == "RSA").then(|| format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, self.e, self.n))
    }

    /// Returns the RFC 7638 thumbprint, which is the kid.
    pub fn thumbprint(&self) -> Option<String> {
        Some(base64url(&Sha256::digest(self.canonical()?)))
    }

    /// Returns modulus and exponent, big-endian.
    pub fn components(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((from_base64url(&self.n)?, from_base64url(&self.e)?))
    }
}

/// A signature by one key about another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endorsement {
    /// The kid of the signing key.
    pub by: String,
    /// Signature over [`super::statement`], base64url.
    pub signature: String,
}
