//! Public keys: kids, verification of signatures, and JWKs (RFC 7517).
//!
//! Includes the byte formats of the algorithms: the numbers of an RSA key (RFC 7518 §6.3.1), the thumbprint
//! (RFC 7638) and the `DigestInfo` that PKCS #1 v1.5 signs (RFC 8017 §9.2).

use std::fmt;
use std::sync::Arc;

use aws_lc_rs::digest;
use aws_lc_rs::digest::Digest;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
    RsaPublicKeyComponents,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;

use sealgate_domain::key_ring::PublicJwk;
use sealgate_domain::oauth::jwk_set::{Algorithm, Numbers};
use sealgate_domain::secret::from_base64url;

/// Minimum public exponent. Some faulty verifiers accept forged signatures of keys with smaller
/// exponents.
const MIN_EXPONENT: u64 = 65_537;

/// Accepted modulus sizes, in bits.
const MODULUS_BITS: std::ops::RangeInclusive<usize> = 2048..=8192;

/// Length of a coordinate on P-256 and of a key on Ed25519, in bits.
const CURVE_BITS: usize = 256;

/// Key id (kid): the RFC 7638 thumbprint of the public key.
///
/// It is always computed from the key, so it cannot refer to another key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct KeyId(Arc<str>);

impl KeyId {
    /// Returns the id of the RSA key with these big-endian components.
    pub fn from_public_key(modulus: &[u8], exponent: &[u8]) -> Self {
        Self(thumbprint(modulus, exponent).into())
    }

    /// Returns the id of a key of any type. Returns `None` if a coordinate has the wrong length.
    pub(super) fn from_numbers(numbers: &Numbers) -> Option<Self> {
        match numbers {
            Numbers::Rsa { n, e } => Some(Self::from_public_key(n, e)),
            other => Some(Self(ring_jwk(other).thumbprint()?.into())),
        }
    }

    /// Returns the id of a key whose public key is unknown. It is derived from the `CKA_ID`.
    pub(super) fn unknown(id: &[u8]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(sha256(&[b"unknown key ".as_slice(), id].concat())).into())
    }

    /// Returns the kid as in a JWS header.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for KeyId {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Signature in the form of a JWS: ECDSA signatures are r and s, 32 bytes each (RFC 7518 §3.4).
#[derive(Clone, PartialEq, Eq)]
pub struct Signature(Vec<u8>);

impl Signature {
    /// Returns the raw bytes of the signature.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn from_token(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl AsRef<[u8]> for Signature {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for Signature {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Do not log signatures: an attacker who knows the other parts of a token could complete
        // it.
        write!(formatter, "Signature({} bytes)", self.0.len())
    }
}

/// Reason why a public key is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum UnfitPublicKey {
    /// The modulus is shorter than 2048 or longer than 8192 bits. The message names the usual sizes.
    #[error("its modulus has {0} bits; 2048, 3072 or 4096 are used")]
    Size(usize),
    /// The exponent is even or below 65537.
    #[error("its public exponent is even or less than 65537")]
    Exponent,
    /// The modulus and the exponent form no RSA key.
    #[error("its modulus and exponent form no RSA key")]
    Components,
    /// The token reports no public key on the required curve.
    #[error("the token reports no public key for {0} (CKA_EC_PARAMS and CKA_EC_POINT)")]
    Unreported(Algorithm),
    /// The point is not on the curve, or the key is of another type than the algorithm.
    #[error("its public key is not a key for {0}")]
    Type(Algorithm),
}

/// Public key for the verification of signatures of one algorithm.
#[derive(Clone)]
pub struct PublicKey {
    kid: KeyId,
    algorithm: Algorithm,
    numbers: Numbers,
    verifier: ParsedPublicKey,
}

impl PublicKey {
    /// Creates an RS256 key from its big-endian modulus and exponent.
    #[cfg(test)]
    pub(crate) fn from_components(modulus: &[u8], exponent: &[u8]) -> Result<Self, UnfitPublicKey> {
        Self::from_numbers(Algorithm::Rs256, &Numbers::Rsa { n: modulus.to_vec(), e: exponent.to_vec() })
    }

    /// Creates a key for this algorithm. Leading zeros of RSA numbers are dropped.
    ///
    /// # Errors
    /// [`UnfitPublicKey`] if the numbers are not a key for this algorithm.
    pub(crate) fn from_numbers(algorithm: Algorithm, numbers: &Numbers) -> Result<Self, UnfitPublicKey> {
        let numbers = match numbers {
            Numbers::Rsa { n, e } => {
                let (n, e) = (without_leading_zeros(n), without_leading_zeros(e));
                check_rsa(n, e)?;
                Numbers::Rsa { n: n.to_vec(), e: e.to_vec() }
            }
            other => other.clone(),
        };
        let parsed = match (&numbers, algorithm) {
            (Numbers::Rsa { n, e }, Algorithm::Rs256) => {
                RsaPublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
            }
            // The salt must have 32 bytes, as long as the hash (RFC 7518 §3.5).
            (Numbers::Rsa { n, e }, Algorithm::Ps256) => {
                RsaPublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PSS_2048_8192_SHA256)
            }
            (Numbers::P256(point), Algorithm::Es256) => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point),
            (Numbers::Ed25519(key), Algorithm::EdDsa) => ParsedPublicKey::new(&ED25519, key),
            _ => return Err(UnfitPublicKey::Type(algorithm)),
        };
        let unfit = || match &numbers {
            Numbers::Rsa { .. } => UnfitPublicKey::Components,
            Numbers::P256(_) | Numbers::Ed25519(_) => UnfitPublicKey::Type(algorithm),
        };
        let verifier = parsed.map_err(|_| unfit())?;
        let kid = KeyId::from_numbers(&numbers).ok_or_else(unfit)?;
        Ok(Self { kid, algorithm, numbers, verifier })
    }

    /// Creates the key from a JWK of the key ring, for this algorithm. Returns `None` if the key is
    /// not accepted.
    pub(super) fn from_jwk(jwk: &PublicJwk, algorithm: Algorithm) -> Option<Self> {
        Self::from_numbers(algorithm, &jwk.numbers()?).ok()
    }

    /// Returns whether this RS256 key made the signature of the message. `signature` is base64url.
    pub fn has_signed(key: &PublicJwk, message: &[u8], signature: &str) -> bool {
        Self::from_jwk(key, Algorithm::Rs256)
            .zip(from_base64url(signature))
            .is_some_and(|(public, signature)| public.verify(message, &signature))
    }

    /// Returns the key as a JWK of the key ring.
    pub(super) fn public_jwk(&self) -> PublicJwk {
        ring_jwk(&self.numbers)
    }

    /// Returns the key ID (`kid`, RFC 7517 §4.5).
    pub fn kid(&self) -> &KeyId {
        &self.kid
    }

    /// Returns the only algorithm of the key.
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// Returns the parameters of the key.
    pub(super) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// Returns the modulus of an RSA key: big-endian, without leading zeros. Empty for other keys.
    pub fn modulus(&self) -> &[u8] {
        if let Numbers::Rsa { n, .. } = &self.numbers { n } else { &[] }
    }

    /// Returns the public exponent of an RSA key: big-endian, without leading zeros. Empty for other
    /// keys.
    pub fn exponent(&self) -> &[u8] {
        if let Numbers::Rsa { e, .. } = &self.numbers { e } else { &[] }
    }

    /// Returns the length of the modulus, or of a coordinate of the curve, in bits.
    pub fn bits(&self) -> usize {
        bits(&self.numbers)
    }

    /// Returns the key as published in the JWK set.
    pub fn jwk(&self) -> Jwk {
        Jwk::new(self.kid.clone(), self.algorithm, &self.numbers)
    }

    /// Returns whether `signature` is this key's signature of `message`, in the form of a JWS (RFC
    /// 7518 §3, RFC 8037 §3.1).
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.verifier.verify_sig(message, signature).is_ok()
    }

    /// Returns whether `signature` is this key's signature of a message to sign.
    pub(super) fn verify_message(&self, message: &Message, signature: &[u8]) -> bool {
        match self.algorithm {
            // Ed25519 has no hash that is computed before (RFC 8032 §5.1.6).
            Algorithm::EdDsa => self.verify(&message.bytes, signature),
            Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256 => {
                self.verifier.verify_digest_sig(&message.digest, signature).is_ok()
            }
        }
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("PublicKey");
        shown.field("kid", &self.kid).field("algorithm", &self.algorithm).field("bits", &self.bits());
        shown.finish_non_exhaustive()
    }
}

fn check_rsa(modulus: &[u8], exponent: &[u8]) -> Result<(), UnfitPublicKey> {
    let bits = bit_length(modulus);
    if !MODULUS_BITS.contains(&bits) {
        return Err(UnfitPublicKey::Size(bits));
    }
    match exponent_value(exponent) {
        Some(value) if value >= MIN_EXPONENT && value % 2 == 1 => Ok(()),
        _ => Err(UnfitPublicKey::Exponent),
    }
}

/// Returns the length of the modulus, or of a coordinate of the curve, in bits.
pub(super) fn bits(numbers: &Numbers) -> usize {
    match numbers {
        Numbers::Rsa { n, .. } => bit_length(without_leading_zeros(n)),
        Numbers::P256(_) | Numbers::Ed25519(_) => CURVE_BITS,
    }
}

fn ring_jwk(numbers: &Numbers) -> PublicJwk {
    match numbers {
        Numbers::Rsa { n, e } => PublicJwk::rsa(&base64url_uint(n), &base64url_uint(e)),
        Numbers::P256(point) => {
            let (x, y) = coordinates(point);
            PublicJwk::p256(&URL_SAFE_NO_PAD.encode(x), &URL_SAFE_NO_PAD.encode(y))
        }
        Numbers::Ed25519(key) => PublicJwk::ed25519(&URL_SAFE_NO_PAD.encode(key)),
    }
}

/// Splits an uncompressed point on P-256. A coordinate keeps its leading zeros (RFC 7518 §6.2.1.2).
fn coordinates(point: &[u8]) -> (&[u8], &[u8]) {
    point.get(1..).and_then(|both| both.split_at_checked(32)).unwrap_or_default()
}

/// A public key as published in the JWK set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Jwk {
    pub kty: &'static str,
    #[serde(rename = "use")]
    pub use_: &'static str,
    /// Thumbprint of the key (RFC 7638).
    pub kid: KeyId,
    pub alg: Algorithm,
    /// Modulus: base64url of the big-endian bytes without leading zeros.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub n: Option<String>,
    /// Public exponent, encoded like the modulus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub e: Option<String>,
    /// Curve (RFC 7518 §6.2.1.1, RFC 8037 §2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub crv: Option<&'static str>,
    /// The x coordinate, or the whole key on Ed25519.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub x: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub y: Option<String>,
}

impl Jwk {
    fn new(kid: KeyId, alg: Algorithm, numbers: &Numbers) -> Self {
        let empty = Self { kty: "RSA", use_: "sig", kid, alg, n: None, e: None, crv: None, x: None, y: None };
        match numbers {
            Numbers::Rsa { n, e } => Self { n: Some(base64url_uint(n)), e: Some(base64url_uint(e)), ..empty },
            Numbers::P256(point) => {
                let (x, y) = coordinates(point);
                let (x, y) = (Some(URL_SAFE_NO_PAD.encode(x)), Some(URL_SAFE_NO_PAD.encode(y)));
                Self { kty: "EC", crv: Some("P-256"), x, y, ..empty }
            }
            Numbers::Ed25519(key) => {
                Self { kty: "OKP", crv: Some("Ed25519"), x: Some(URL_SAFE_NO_PAD.encode(key)), ..empty }
            }
        }
    }

    /// Creates the JWK of an RSA key for RS256. `modulus` and `exponent` are big-endian.
    #[cfg(test)]
    pub(super) fn rs256(kid: KeyId, modulus: &[u8], exponent: &[u8]) -> Self {
        Self::new(kid, Algorithm::Rs256, &Numbers::Rsa { n: modulus.to_vec(), e: exponent.to_vec() })
    }
}

/// Returns the bit length of a big-endian number without leading zeros.
fn bit_length(number: &[u8]) -> usize {
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

/// Returns the value of a big-endian exponent, or `None` if it is longer than eight bytes.
fn exponent_value(bytes: &[u8]) -> Option<u64> {
    (bytes.len() <= 8).then(|| bytes.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte)))
}

/// DER of the SHA-256 `DigestInfo` before the digest (RFC 8017 §9.2, note 1).
const SHA256_PREFIX: [u8; 19] =
    [0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20];

/// Length of a SHA-256 digest in bytes.
const SHA256_BYTES: usize = 32;

/// Returns the thumbprint of an RSA public key: base64url of the SHA-256 of its required members in
/// lexical order (RFC 7638).
pub(super) fn thumbprint(modulus: &[u8], exponent: &[u8]) -> String {
    // base64url needs no JSON escaping, so this is the canonical form.
    let members = format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, base64url_uint(exponent), base64url_uint(modulus));
    URL_SAFE_NO_PAD.encode(sha256(members.as_bytes()))
}

pub(super) fn sha256(message: &[u8]) -> Digest {
    digest::digest(&digest::SHA256, message)
}

/// A message to sign: its digest, and its bytes if the token computes the hash.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) digest: Digest,
    /// Empty if only the digest is sent to the token.
    pub(super) bytes: Vec<u8>,
}

/// Returns the DER `DigestInfo` of a SHA-256 digest, which `CKM_RSA_PKCS` pads and signs.
pub(super) fn digest_info(digest: &Digest) -> [u8; SHA256_PREFIX.len() + SHA256_BYTES] {
    let mut der = [0; SHA256_PREFIX.len() + SHA256_BYTES];
    let (prefix, hash) = der.split_at_mut(SHA256_PREFIX.len());
    prefix.copy_from_slice(&SHA256_PREFIX);
    // All digests in this module are SHA-256 (`sha256`), so the lengths match.
    hash.copy_from_slice(digest.as_ref());
    der
}

/// Strips leading zeros from a big-endian number. Some tokens return a modulus with a leading zero.
pub(super) fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// Formats bytes in lower-case hexadecimal, as `CKA_ID`s are displayed.
pub(super) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;

    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Encodes a number as `Base64urlUInt` (RFC 7518 §2).
pub(super) fn base64url_uint(number: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(without_leading_zeros(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an odd number of this length in bytes. It need not be a product of two primes.
    fn modulus(bytes: usize) -> Vec<u8> {
        let mut number = vec![0x5a; bytes];
        number[0] = 0xc1;
        number[bytes - 1] = 0x01;
        number
    }

    #[test]
    fn a_key_is_identified_by_the_thumbprint_of_its_components() {
        let key = PublicKey::from_components(&modulus(256), &[1, 0, 1]).unwrap();
        assert_eq!(key.kid(), &KeyId::from_public_key(&modulus(256), &[1, 0, 1]));
        assert_eq!(key.bits(), 2048);
    }

    #[test]
    fn short_modulus_is_refused() {
        assert_eq!(PublicKey::from_components(&modulus(128), &[1, 0, 1]).unwrap_err(), UnfitPublicKey::Size(1024));
        assert_eq!(PublicKey::from_components(&[], &[1, 0, 1]).unwrap_err(), UnfitPublicKey::Size(0));
    }

    #[test]
    fn small_even_or_absent_exponent_is_refused() {
        for exponent in [&[3][..], &[1, 0, 0], &[], &[0], &[1; 9]] {
            assert_eq!(
                PublicKey::from_components(&modulus(256), exponent).unwrap_err(),
                UnfitPublicKey::Exponent,
                "{exponent:?}"
            );
        }
    }

    #[test]
    fn signature_of_nothing_is_refused() {
        let key = PublicKey::from_components(&modulus(256), &[1, 0, 1]).unwrap();
        assert!(!key.verify(b"message", &[]));
        assert!(!key.verify(b"message", &[0; 256]));
    }

    #[test]
    fn leading_zeros_change_no_jwk() {
        let (modulus, kid) = (modulus(256), KeyId::from_public_key(&modulus(256), &[1, 0, 1]));
        let padded = [vec![0, 0], modulus.clone()].concat();
        assert_eq!(Jwk::rs256(kid.clone(), &padded, &[0, 1, 0, 1]), Jwk::rs256(kid, &modulus, &[1, 0, 1]));
    }

    #[test]
    fn jwk_is_written_with_the_names_of_rfc_7517() {
        let jwk = Jwk::rs256(KeyId::from_public_key(&[0xff, 1], &[1, 0, 1]), &[0xff, 1], &[1, 0, 1]);
        let expected = serde_json::json!({
            "kty": "RSA", "use": "sig", "kid": jwk.kid.as_str(), "alg": "RS256", "n": "_wE", "e": "AQAB"
        });
        assert_eq!(serde_json::to_value(&jwk).unwrap(), expected);
    }

    /// Example key of RFC 7638 §3.1.
    const VECTOR_MODULUS: &str = "0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_\
        BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZg\
        nYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csF\
        Cur-kEgU8awapJzKnqDKgw";
    const VECTOR_THUMBPRINT: &str = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs";

    #[test]
    fn thumbprint_matches_the_vector_of_rfc_7638_with_leading_zeros_too() {
        let modulus = URL_SAFE_NO_PAD.decode(VECTOR_MODULUS).unwrap();
        assert_eq!(thumbprint(&modulus, &[1, 0, 1]), VECTOR_THUMBPRINT);
        let padded = [vec![0, 0], modulus].concat();
        assert_eq!(thumbprint(&padded, &[0, 1, 0, 1]), VECTOR_THUMBPRINT);
    }

    #[test]
    fn digest_info_is_the_prefix_and_the_digest() {
        let der = digest_info(&sha256(b"abc"));
        assert_eq!(der[..2], [0x30, 49]);
        assert_eq!(hex(&der[19..]), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
