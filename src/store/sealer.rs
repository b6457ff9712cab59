//! Sealing what must be read back and may not lie on a disk in clear: AES-256-GCM under the data key that the token
//! wraps. Knows neither the token nor what is sealed. A sealed record is bound to its key in the store, so that one copied
//! over another does not open.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::domain::secret::{base64url, from_base64url};

/// Bytes of a nonce. Random ones are safe for 2^32 records under one key (NIST SP 800-38D §8.3): one a second for 136 years.
pub(crate) const NONCE_BYTES: usize = 12;

/// What is written in front of the associated data: a sealed record can be of no other kind.
const CONTEXT: &[u8] = b"sealgate record 1\0";

/// Bytes of a data key's id.
const ID_BYTES: usize = 8;

/// Seals and opens records. The library wipes its copy of the key when it goes.
pub struct Sealer {
    key: LessSafeKey,
    id: [u8; ID_BYTES],
}

/// A sealed record: which data key, which nonce, ciphertext and tag. One base64url text in JSON.
#[derive(Clone, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

/// Why a record does not open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// It was sealed under another data key.
    #[error("sealed with another data key: the token or the store is another one")]
    OtherKey,
    /// It was altered, or belongs elsewhere.
    #[error("a sealed record that does not open: it was altered or moved")]
    Altered,
    #[error("the record cannot be sealed")]
    Refused,
}

impl Sealer {
    /// Seals with this data key.
    ///
    /// # Errors
    /// [`SealError::Refused`] when the library takes no key of 32 bytes.
    pub fn new(key: &[u8; 32]) -> Result<Self, SealError> {
        let digest = Zeroizing::new(<[u8; 32]>::from(Sha256::new().chain_update(CONTEXT).chain_update(key).finalize()));
        let id = digest.first_chunk().copied().ok_or(SealError::Refused)?;
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| SealError::Refused)?;
        Ok(Self { key: LessSafeKey::new(key), id })
    }

    /// Seals `plain` for the record with this key in the store. `nonce`: random, never used again.
    pub fn seal(&self, record: &[u8], nonce: [u8; NONCE_BYTES], plain: &[u8]) -> Result<Sealed, SealError> {
        let mut bytes = [&self.id[..], &nonce].concat();
        let mut text = Zeroizing::new(plain.to_vec());
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = self.key.seal_in_place_separate_tag(nonce, self.associated(record), &mut text);
        let tag = tag.map_err(|_| SealError::Refused)?;
        bytes.extend_from_slice(&text);
        bytes.extend_from_slice(tag.as_ref());
        Ok(Sealed(bytes))
    }

    /// Opens what was sealed for the record with this key in the store.
    ///
    /// # Errors
    /// [`SealError::OtherKey`], [`SealError::Altered`].
    pub fn open(&self, record: &[u8], sealed: &Sealed) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let (id, rest) = sealed.0.split_first_chunk::<ID_BYTES>().ok_or(SealError::Altered)?;
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

    fn sealer() -> Sealer {
        Sealer::new(&[7; 32]).unwrap()
    }

    #[test]
    fn what_was_sealed_opens_for_its_record_only() {
        let sealed = sealer().seal(b"p1", [1; NONCE_BYTES], b"hunter2").unwrap();
        assert_eq!(sealer().open(b"p1", &sealed).unwrap().as_slice(), b"hunter2");
        assert_eq!(sealer().open(b"p2", &sealed), Err(SealError::Altered));
        assert_eq!(Sealer::new(&[8; 32]).unwrap().open(b"p1", &sealed), Err(SealError::OtherKey));
    }

    #[test]
    fn no_altered_byte_and_no_shortened_record_opens() {
        let sealed = sealer().seal(b"p1", [1; NONCE_BYTES], b"hunter2").unwrap();
        for at in 0..sealed.0.len() {
            let mut altered = sealed.clone();
            altered.0[at] ^= 1;
            assert!(sealer().open(b"p1", &altered).is_err(), "byte {at}");
            assert!(sealer().open(b"p1", &Sealed(sealed.0[..at].to_vec())).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn neither_key_nor_text_is_printed_or_written() {
        let sealed = sealer().seal(b"p1", [1; NONCE_BYTES], b"hunter2").unwrap();
        assert_eq!(format!("{:?} {sealed:?}", sealer()), "Sealer(…) Sealed(43 bytes)");
        let written = serde_json::to_string(&sealed).unwrap();
        assert!(!written.contains("hunter2"));
        assert_eq!(serde_json::from_str::<Sealed>(&written).unwrap(), sealed);
        assert!(!sealed.0.windows(7).any(|window| window == b"hunter2"));
    }
}
