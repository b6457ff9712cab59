//! Admission of a node with its own PKCS#11 token to a cluster.
//!
//! The new node publishes a request. An existing node answers with the data key, encrypted with
//! RSA-OAEP (RFC 8017 §7.1). Both messages pass through the database, where an attacker with write
//! access could change them. Therefore each message is signed by a key whose fingerprint the
//! operator has transferred between the machines.

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepPublicEncryptingKey, PublicEncryptingKey};
use aws_lc_rs::signature::RsaPublicKeyComponents;
use serde::{Deserialize, Serialize};

use crate::key_ring::{Endorsement, PublicJwk};

/// Prefix of the statement that a new node signs about its own request. A JWS signing input
/// contains no space or line break (RFC 7515 §5.1), so such a signature is never valid for a JWT.
const REQUEST: &str = "sealgate node request";

/// Prefix of the statement that the sender of the data key signs.
const DATA_KEY: &str = "sealgate data key";

/// Hash function of OAEP (RFC 8017 §7.1), for the label and for the mask generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OaepHash {
    #[serde(rename = "SHA-256")]
    Sha256,
    /// SHA-1, for tokens that support no other hash, such as SoftHSM 2.6. SHA-1 lacks collision
    /// resistance, but OAEP does not need it.
    #[serde(rename = "SHA-1")]
    Sha1,
}

impl OaepHash {
    fn name(self) -> &'static str {
        match self {
            Self::Sha256 => "SHA-256",
            Self::Sha1 => "SHA-1",
        }
    }
}

/// Request of a node to join the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRequest {
    /// Name of the new node, `cluster.node`.
    pub node: String,
    /// First signing key of the node.
    pub key: PublicJwk,
    /// Public key that encrypts the data key. The node's token has the private key until the node
    /// is admitted.
    pub enrolment: PublicJwk,
    pub hash: OaepHash,
    /// kid of the cluster's key that the new node trusts. The operator typed the kid on the new
    /// node.
    pub trusted: String,
    /// The new node's endorsement of the trusted key. It takes effect when the node is admitted:
    /// the node then publishes and trusts that key.
    pub endorsement: Endorsement,
    /// Signature of [`NodeRequest::statement`] by the node's signing key, base64url.
    ///
    /// When the node fetches the data key, it verifies this signature again. Otherwise an attacker
    /// with write access to the database could replace `trusted` in the meantime.
    pub signature: String,
}

impl NodeRequest {
    /// Returns the bytes to sign. Returns `None` if a part of the request is invalid.
    pub fn statement(&self, issuer: &str) -> Option<Vec<u8>> {
        let (key, enrolment) = (self.key.thumbprint()?, self.enrolment.thumbprint()?);
        lines(&[REQUEST, issuer, &self.node, &key, &enrolment, self.hash.name(), &self.trusted])
    }
}

/// Encrypted data key for a new node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataKeyEnvelope {
    /// Name of the receiving node.
    pub node: String,
    /// Thumbprint of the key that encrypted the data key.
    pub enrolment: String,
    pub data_key_id: String,
    /// Data key encrypted with RSA-OAEP, base64url.
    pub ciphertext: String,
    /// Key that signed the envelope.
    pub by: PublicJwk,
    /// Signature over [`DataKeyEnvelope::statement`], base64url. OAEP does not authenticate the
    /// sender.
    pub signature: String,
}

impl DataKeyEnvelope {
    /// Returns the bytes to sign. Returns `None` if a part of the envelope is invalid.
    pub fn statement(&self, issuer: &str) -> Option<Vec<u8>> {
        lines(&[DATA_KEY, issuer, &self.node, &self.enrolment, &self.data_key_id, &self.ciphertext])
    }

    /// Checks that the envelope answers the request: it must be encrypted to the node's enrolment
    /// key, and signed by the key that the node trusts.
    ///
    /// `verify` returns whether a key has signed a message.
    ///
    /// # Errors
    /// [`EnvelopeFault`].
    pub fn check(
        &self,
        request: &NodeRequest,
        issuer: &str,
        verify: impl Fn(&PublicJwk, &[u8], &str) -> bool,
    ) -> Result<(), EnvelopeFault> {
        let requested =
            request.statement(issuer).is_some_and(|statement| verify(&request.key, &statement, &request.signature));
        if !requested {
            return Err(EnvelopeFault::Request);
        }
        if self.node != request.node || request.enrolment.thumbprint().as_ref() != Some(&self.enrolment) {
            return Err(EnvelopeFault::Another);
        }
        let is_trusted = self.by.thumbprint().as_ref() == Some(&request.trusted);
        let signed = self.statement(issuer).is_some_and(|statement| verify(&self.by, &statement, &self.signature));
        if is_trusted && signed { Ok(()) } else { Err(EnvelopeFault::Stranger(request.trusted.clone())) }
    }
}

/// Reason to reject an envelope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvelopeFault {
    /// The stored request differs from the request that this node made.
    #[error("this node's request in the database was changed")]
    Request,
    /// The envelope is for another node, or for an earlier request of this node.
    #[error("the data key in the database is for another node or an earlier request")]
    Another,
    /// The nodes of the cluster use a different data key.
    #[error("the data key in the database is not the one that this store's nodes use")]
    OtherDataKey,
    /// The envelope is not signed by the key that this node trusts.
    #[error("the data key in the database is not signed by the key {0}, which this node trusts")]
    Stranger(String),
}

/// Joins parts with line breaks. Returns `None` if a part is empty or contains control characters.
fn lines(parts: &[&str]) -> Option<Vec<u8>> {
    let whole = parts.iter().all(|part| !part.is_empty() && !part.chars().any(char::is_control));
    whole.then(|| parts.join("\n").into_bytes())
}

/// Error: the public key cannot encrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the enrolment key is not an RSA key for encryption")]
pub struct NotEncrypted;

/// Encrypts a short message to a public key.
///
/// # Errors
/// [`NotEncrypted`].
pub fn encrypt(to: &PublicJwk, hash: OaepHash, plain: &[u8]) -> Result<Vec<u8>, NotEncrypted> {
    let algorithm = match hash {
        OaepHash::Sha256 => &OAEP_SHA256_MGF1SHA256,
        OaepHash::Sha1 => &OAEP_SHA1_MGF1SHA1,
    };
    let (n, e) = to.components().ok_or(NotEncrypted)?;
    let key: PublicEncryptingKey = RsaPublicKeyComponents { n, e }.try_into().map_err(|_| NotEncrypted)?;
    let key = OaepPublicEncryptingKey::new(key).map_err(|_| NotEncrypted)?;
    let mut ciphertext = vec![0; key.ciphertext_size()];
    let length = key.encrypt(algorithm, plain, &mut ciphertext, None).map_err(|_| NotEncrypted)?.len();
    ciphertext.truncate(length);
    Ok(ciphertext)
}
