//! RSA-OAEP (RFC 8017 §7.1) to a public key that came from elsewhere: how the data key of a cluster goes to a new node.

use aws_lc_rs::rsa::{OAEP_SHA1_MGF1SHA1, OAEP_SHA256_MGF1SHA256, OaepPublicEncryptingKey, PublicEncryptingKey};
use aws_lc_rs::signature::RsaPublicKeyComponents;

use crate::admission::OaepHash;
use crate::key_ring::PublicJwk;

/// Not a key that can be encrypted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the enrolment key is not an RSA key for encryption")]
pub struct NotEncrypted;

/// Encrypts a few bytes.
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
