//! Public keys of credentials: `COSE_Key` (RFC 9052 §7) of the offered algorithms.
//!
//! Level 3 §6.5.2 permits only the members that a key needs.

use std::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::secret::{base64url, from_base64url};
use crate::webauthn::CeremonyError;
use crate::webauthn::cbor::CborItem;

/// Accepted lengths of an RSA modulus in bytes: 2048 to 4096 bits. Only TPMs still create RSA keys,
/// with 2048 bits.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=512;

/// Accepted public exponents. If the exponent is smaller, careless verifiers accept forgeries. If
/// the exponent is larger, verification is slower without benefit.
const EXPONENT: std::ops::RangeInclusive<u64> = 65_537..=0xFFFF_FFFF;

/// Signature algorithm of a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyAlgorithm {
    /// ECDSA on P-256 with SHA-256. The signature is DER (§6.5.5).
    Es256,
    /// `EdDSA` on Ed25519.
    EdDsa,
    /// RSA with PKCS #1 v1.5 and SHA-256.
    Rs256,
}

impl KeyAlgorithm {
    /// Offered algorithms in order of preference. An authenticator uses the first that it supports.
    pub const OFFERED: [Self; 3] = [Self::EdDsa, Self::Es256, Self::Rs256];

    /// Returns the number of the algorithm in the registry of COSE algorithms.
    pub(crate) const fn cose_number(self) -> i64 {
        match self {
            Self::Es256 => -7,
            Self::EdDsa => -8,
            Self::Rs256 => -257,
        }
    }
}

/// Public key that verifies a credential's signatures.
#[derive(Clone)]
pub struct CredentialKey {
    cose: Box<[u8]>,
    algorithm: KeyAlgorithm,
    verifier: ParsedPublicKey,
}

impl CredentialKey {
    /// Parses a `COSE_Key`.
    ///
    /// # Errors
    /// Returns an error if the key is malformed, has an algorithm that was not offered, or is
    /// invalid for its algorithm.
    pub fn from_cose(bytes: &[u8]) -> Result<Self, CeremonyError> {
        let item = CborItem::whole(bytes).map_err(CeremonyError::AuthenticatorDataCbor)?;
        Self::from_item(&item, bytes)
    }

    pub(super) fn from_item(item: &CborItem<'_>, encoded: &[u8]) -> Result<Self, CeremonyError> {
        let CborItem::Map(members) = item else { return Err(CeremonyError::NotAKey) };
        let number = |label| match member(members, label) {
            Some(CborItem::Integer(number)) => Some(*number),
            _ => None,
        };
        // Labels 1 and 3 are the key type and the algorithm (RFC 9052 §7.1).
        let algorithm_number = number(3).ok_or(CeremonyError::NotAKey)?;
        let algorithm = KeyAlgorithm::OFFERED.into_iter().find(|one| one.cose_number() == algorithm_number);
        let algorithm = algorithm.ok_or(CeremonyError::AlgorithmNotOffered)?;
        let kind = number(1).ok_or(CeremonyError::NotAKey)?;
        let verifier = verifier(algorithm, kind, members).ok_or(CeremonyError::NotAKey)?;
        Ok(Self { cose: encoded.into(), algorithm, verifier })
    }

    /// Returns the `COSE_Key` from which the key was parsed.
    pub fn as_cose(&self) -> &[u8] {
        &self.cose
    }

    /// Returns the signature algorithm of the COSE key (RFC 9052 §7.1).
    pub const fn algorithm(&self) -> KeyAlgorithm {
        self.algorithm
    }

    /// Returns whether the signature over the message is valid for this key.
    pub(super) fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        self.verifier.verify_sig(message, signature).is_ok()
    }
}

/// Creates the verifier from these parameters (RFC 9053 §7, RFC 8230 §4). Returns `None` if they
/// are invalid.
///
/// The library checks that a point is on its curve.
fn verifier(algorithm: KeyAlgorithm, kind: i64, members: &[(CborItem<'_>, CborItem<'_>)]) -> Option<ParsedPublicKey> {
    let curve = match member(members, -1) {
        Some(CborItem::Integer(curve)) => *curve,
        _ => 0,
    };
    let key = match (algorithm, kind, curve, members.len()) {
        (KeyAlgorithm::Es256, 2, 1, 5) => {
            let point = [&[4][..], coordinate(members, -2)?, coordinate(members, -3)?].concat();
            ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
        }
        (KeyAlgorithm::EdDsa, 1, 6, 4) => ParsedPublicKey::new(&ED25519, coordinate(members, -2)?),
        // The label −1 is the modulus of RSA keys and the curve of other keys.
        (KeyAlgorithm::Rs256, 3, 0, 4) => {
            let (n, e) = (bytes(members, -1)?, bytes(members, -2)?);
            if !is_sound_rsa(n, e) {
                return None;
            }
            RsaPublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
        }
        _ => return None,
    };
    key.ok()
}

fn is_sound_rsa(n: &[u8], e: &[u8]) -> bool {
    let exponent = e.iter().try_fold(0_u64, |value, byte| value.checked_mul(256)?.checked_add(u64::from(*byte)));
    let is_odd = |number: &[u8]| number.last().is_some_and(|last| last % 2 == 1);
    // Reject a leading zero byte, because the number would have two encodings. A modulus of the
    // minimum length must have its highest bit set, or it has fewer than 2048 bits.
    let full = |number: &[u8], least: u8| number.first().is_some_and(|first| *first >= least);
    MODULUS.contains(&n.len())
        && full(n, if n.len() == *MODULUS.start() { 0x80 } else { 1 })
        && is_odd(n)
        && exponent.is_some_and(|exponent| EXPONENT.contains(&exponent))
        && full(e, 1)
        && is_odd(e)
}

fn member<'m, 'a>(members: &'m [(CborItem<'a>, CborItem<'a>)], label: i64) -> Option<&'m CborItem<'a>> {
    members.iter().find(|(key, _)| *key == CborItem::Integer(label)).map(|(_, value)| value)
}

fn bytes<'a>(members: &[(CborItem<'a>, CborItem<'a>)], label: i64) -> Option<&'a [u8]> {
    match member(members, label) {
        Some(CborItem::Bytes(bytes)) => Some(*bytes),
        _ => None,
    }
}

fn coordinate<'a>(members: &[(CborItem<'a>, CborItem<'a>)], label: i64) -> Option<&'a [u8]> {
    bytes(members, label).filter(|bytes| bytes.len() == 32)
}

impl PartialEq for CredentialKey {
    fn eq(&self, other: &Self) -> bool {
        self.cose == other.cose
    }
}

impl Eq for CredentialKey {}

impl fmt::Debug for CredentialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialKey({:?}, {})", self.algorithm, base64url(&self.cose))
    }
}

impl Serialize for CredentialKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&base64url(&self.cose))
    }
}

impl<'de> Deserialize<'de> for CredentialKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let bytes = from_base64url(&String::deserialize(deserializer)?);
        let key = bytes.and_then(|bytes| Self::from_cose(&bytes).ok());
        key.ok_or_else(|| serde::de::Error::custom("not a credential's key in base64url"))
    }
}
