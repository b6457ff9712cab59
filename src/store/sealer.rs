//! Authenticated encryption of records: AES-256-GCM with the data key, which the token wraps.
//!
//! This module depends neither on the token nor on the content of the records. A sealed record is
//! bound to its key in the store, so it cannot be unsealed under another key.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hmac;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use sealgate_domain::admission;
use sealgate_domain::admission::NotEncrypted;
use sealgate_domain::admission::OaepHash;
use sealgate_domain::key_ring::PublicJwk;
use sealgate_domain::recovery_code::RecoveryKey;
use sealgate_domain::secret::Sealed;
use sealgate_domain::secret::{SecretHash, base64url};

/// Length of a nonce in bytes.
///
/// Random nonces are safe for 2^32 records per data key (NIST SP 800-38D §8.3), which is one per
/// second for 136 years.
pub const NONCE_BYTES: usize = 12;

/// Prefix of the associated data, which separates records from other uses of the data key.
const CONTEXT: &[u8] = b"sealgate record 1\0";

/// Label from which the key of recovery code hashes is derived.
const RECOVERY_LABEL: &[u8] = b"sealgate recovery codes 1";

/// Label from which the key of verification code hashes is derived.
const CODE_LABEL: &[u8] = b"sealgate verification codes 1";

/// Label from which the id of a data key is derived. Nodes compare the ids to detect different
/// keys.
const DATA_KEY_LABEL: &[u8] = b"sealgate data key id 1";

/// Length of the data key's id in a sealed record, in bytes.
const ID_BYTES: usize = 8;

/// Seals and unseals records. The library zeroizes its copy of the key on drop.
pub struct Sealer {
    key: LessSafeKey,
    id: [u8; ID_BYTES],
    recovery_key: RecoveryKey,
    code_key: hmac::Key,
    data_key: Zeroizing<[u8; 32]>,
    data_key_id: String,
}

/// Error of sealing or unsealing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The record was sealed with another data key.
    #[error("the record was sealed with another data key: the token does not belong to this store")]
    OtherKey,
    /// The record was altered, or it was sealed as another record.
    #[error("the sealed record does not decrypt: it was altered or moved")]
    Altered,
    #[error("the record cannot be sealed")]
    Refused,
    /// There is no data key, because the token has no wrapping key.
    #[error("the token has no wrapping key, so records cannot be sealed")]
    NoKey,
}

impl Sealer {
    /// Creates a sealer with this data key.
    ///
    /// # Errors
    /// [`SealError::Refused`] if the library rejects the key.
    pub fn new(key: &[u8; 32]) -> Result<Self, SealError> {
        let digest = Zeroizing::new(<[u8; 32]>::from(Sha256::new().chain_update(CONTEXT).chain_update(key).finalize()));
        let id = digest.first_chunk().copied().ok_or(SealError::Refused)?;
        let recovery_key = recovery_key(key)?;
        let code_key = hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&data_mac(key), CODE_LABEL).as_ref());
        let data_key = Zeroizing::new(*key);
        let data_key_id = base64url(hmac::sign(&data_mac(key), DATA_KEY_LABEL).as_ref());
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| SealError::Refused)?;
        Ok(Self { key: LessSafeKey::new(key), id, recovery_key, code_key, data_key, data_key_id })
    }

    /// Returns the id of the data key, which reveals nothing about the key.
    pub fn data_key_id(&self) -> &str {
        &self.data_key_id
    }

    /// Encrypts the data key for a new node.
    pub(super) fn encrypt_data_key(&self, to: &PublicJwk, hash: OaepHash) -> Result<Vec<u8>, NotEncrypted> {
        admission::encrypt(to, hash, self.data_key.as_slice())
    }

    /// Returns the key of recovery code hashes.
    pub(super) fn recovery_key(&self) -> &RecoveryKey {
        &self.recovery_key
    }

    /// Returns the keyed hash of an e-mailed code. `bound_to` contains the user and the purpose of
    /// the code.
    ///
    /// With an unkeyed hash, an attacker who has a copy of the store could try all codes.
    pub(super) fn code_hash(&self, bound_to: &[u8], code: &str) -> SecretHash {
        let tag = hmac::sign(&self.code_key, &[bound_to, b"\0", code.as_bytes()].concat());
        SecretHash::for_secret(tag.as_ref())
    }

    /// Seals `plain` for the record with this key. `nonce` must be random and never reused.
    pub fn seal(&self, record: &[u8], nonce: [u8; NONCE_BYTES], plain: &[u8]) -> Result<Sealed, SealError> {
        let mut bytes = [&self.id[..], &nonce].concat();
        let mut text = Zeroizing::new(plain.to_vec());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, self.associated(record), &mut text);
        let tag = tag.map_err(|_| SealError::Refused)?;
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(tag.as_ref());
        Ok(Sealed::from_bytes(bytes))
    }

    /// Unseals the content of the record with this key.
    ///
    /// # Errors
    /// [`SealError::OtherKey`], [`SealError::Altered`].
    pub fn open(&self, record: &[u8], sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (id, rest) = sealed.as_bytes().split_first_chunk::<ID_BYTES>().ok_or(SealError::Altered)?;
        if *id != self.id {
            return Err(SealError::OtherKey);
        }
        let (nonce, text) = rest.split_first_chunk::<NONCE_BYTES>().ok_or(SealError::Altered)?;
        let mut text = Zeroizing::new(text.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let opened = self.key.open_in_place(nonce, self.associated(record), &mut text);
        let length = opened.map_err(|_| SealError::Altered)?.len();
        text.truncate(length);
        Ok(text)
    }

    fn associated(&self, record: &[u8]) -> Aad<Vec<u8>> {
        Aad::from([CONTEXT, &self.id, record].concat())
    }
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(…)")
    }
}

fn data_mac(data_key: &[u8; 32]) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, data_key)
}

/// Derives the key of recovery code hashes, as HMAC-SHA-256 of a fixed label with the data key.
fn recovery_key(data_key: &[u8; 32]) -> Result<RecoveryKey, SealError> {
    let tag = hmac::sign(&data_mac(data_key), RECOVERY_LABEL);
    let bytes = Zeroizing::new(<[u8; 32]>::try_from(tag.as_ref()).map_err(|_| SealError::Refused)?);
    Ok(RecoveryKey::new(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sealer() -> Sealer {
        Sealer::new(&[7; 32]).unwrap()
    }

    #[test]
    fn sealed_data_can_be_decrypted_only_for_its_record() {
        let sealed = sealer().seal(b"p1", [1; NONCE_BYTES], b"hunter2").unwrap();
        assert_eq!(sealer().open(b"p1", &sealed).unwrap().as_slice(), b"hunter2");
        assert_eq!(sealer().open(b"p2", &sealed), Err(SealError::Altered));
        assert_eq!(Sealer::new(&[8; 32]).unwrap().open(b"p1", &sealed), Err(SealError::OtherKey));
    }

    #[test]
    fn altered_or_truncated_data_cannot_be_decrypted() {
        let sealed = sealer().seal(b"p1", [1; NONCE_BYTES], b"hunter2").unwrap();
        for at in 0..sealed.as_bytes().len() {
            let mut altered = sealed.as_bytes().to_vec();
            altered[at] ^= 1;
            assert!(sealer().open(b"p1", &Sealed::from_bytes(altered)).is_err(), "byte {at}");
            let shortened = Sealed::from_bytes(sealed.as_bytes()[..at].to_vec());
            assert!(sealer().open(b"p1", &shortened).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn neither_key_nor_text_is_printed_or_written() {
        let sealed = sealer().seal(b"p1", [1; NONCE_BYTES], b"hunter2").unwrap();
        assert_eq!(format!("{:?} {sealed:?}", sealer()), "Sealer(…) Sealed(43 bytes)");
        let written = serde_json::to_string(&sealed).unwrap();
        assert!(!written.contains("hunter2"));
        assert_eq!(serde_json::from_str::<Sealed>(&written).unwrap(), sealed);
        assert!(!sealed.as_bytes().windows(7).any(|window| window == b"hunter2"));
    }
}
