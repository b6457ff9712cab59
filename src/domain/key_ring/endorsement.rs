//! What an entry of a ring says of its key for those who do not have it in their tokens: its public members, and who vouches
//! for it.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::domain::secret::{base64url, from_base64url};

/// The public members of an RSA key as a ring has them (RFC 7518 §6.3.1). What they say is proven by nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicJwk {
    kty: String,
    n: String,
    e: String,
}

impl PublicJwk {
    /// The key with this modulus and exponent, both as they stand in a JWK.
    pub fn rsa(n: &str, e: &str) -> Self {
        Self { kty: "RSA".to_owned(), n: n.to_owned(), e: e.to_owned() }
    }

    /// The members that its thumbprint is made of, as RFC 7638 §3 writes them. `None` where they are no RSA key's, or have
    /// characters by which they would say something else there.
    pub fn canonical(&self) -> Option<String> {
        self.components()?;
        (self.kty == "RSA").then(|| format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, self.e, self.n))
    }

    /// Its RFC 7638 thumbprint, which is the key's kid.
    pub fn thumbprint(&self) -> Option<String> {
        Some(base64url(&Sha256::digest(self.canonical()?)))
    }

    /// Modulus and exponent, big-endian.
    pub fn components(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        Some((from_base64url(&self.n)?, from_base64url(&self.e)?))
    }
}

/// One key's word about another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endorsement {
    /// The kid of the key that has signed.
    pub by: String,
    /// Of what [`super::statement`] says, base64url.
    pub signature: String,
}
