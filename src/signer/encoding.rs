//! Byte layouts of RS256: the numbers of an RSA key (RFC 7518 §6.3.1), its thumbprint (RFC 7638)
//! and the `DigestInfo` that PKCS #1 v1.5 signs (RFC 8017 §9.2). Uses no token and no thread.

use aws_lc_rs::digest::{self, Digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The DER of `DigestInfo` for SHA-256, up to the digest itself (RFC 8017 §9.2, note 1).
const SHA256_PREFIX: [u8; 19] =
    [0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20];

/// Bytes of a SHA-256 digest.
const SHA256_BYTES: usize = 32;

/// Returns the RFC 7638 thumbprint of an RSA public key: base64url of SHA-256 over its required
/// members in lexical order.
pub(super) fn thumbprint(modulus: &[u8], exponent: &[u8]) -> String {
    // base64url needs no JSON escaping, so this is the canonical form.
    let members = format!(r#"{{"e":"{}","kty":"RSA","n":"{}"}}"#, base64url_uint(exponent), base64url_uint(modulus));
    URL_SAFE_NO_PAD.encode(sha256(members.as_bytes()))
}

/// SHA-256.
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

/// Returns the DER `DigestInfo` of a SHA-256 digest: the 51 bytes that `CKM_RSA_PKCS` pads and
/// signs.
pub(super) fn digest_info(digest: &Digest) -> [u8; SHA256_PREFIX.len() + SHA256_BYTES] {
    let mut der = [0; SHA256_PREFIX.len() + SHA256_BYTES];
    let (prefix, hash) = der.split_at_mut(SHA256_PREFIX.len());
    prefix.copy_from_slice(&SHA256_PREFIX);
    // All digests in this module are SHA-256 (`sha256`), so the lengths match.
    hash.copy_from_slice(digest.as_ref());
    der
}

/// Strips leading zeros from big-endian bytes. Some tokens put a zero byte before a modulus.
pub(super) fn without_leading_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number.get(zeros..).unwrap_or_default()
}

/// Formats bytes in lower-case hexadecimal, the display form of `CKA_ID`.
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

    /// RFC 7638 §3.1.
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
