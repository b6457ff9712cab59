//! Invalid public keys.

use sealgate_domain::webauthn::{CborFault, CeremonyError, CredentialKey, CredentialRecord, KeyAlgorithm};

use crate::authenticator::{bytes, int, map, rsa_key, text};
use crate::{authenticator, record};

type Members = Vec<(Vec<u8>, Vec<u8>)>;

fn judged(key: &[u8]) -> Result<KeyAlgorithm, CeremonyError> {
    CredentialKey::from_cose(key).map(|key| key.algorithm())
}

/// Base point of P-256.
const X: &str = "6b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296";
const Y: &str = "4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn point(x: &[u8], y: &[u8]) -> Members {
    vec![(int(1), int(2)), (int(3), int(-7)), (int(-1), int(1)), (int(-2), bytes(x)), (int(-3), bytes(y))]
}

fn edwards(x: &[u8]) -> Members {
    vec![(int(1), int(1)), (int(3), int(-8)), (int(-1), int(6)), (int(-2), bytes(x))]
}

#[test]
fn a_point_must_be_on_its_curve() {
    let (x, y) = (hex(X), hex(Y));
    assert_eq!(judged(&map(&point(&x, &y))), Ok(KeyAlgorithm::Es256));
    let mut off = y.clone();
    off[31] ^= 1;
    let padded = [&[0][..], &x].concat();
    for (x, y) in [
        (&x[..], &off[..]),
        (&y, &x),
        (&[0; 32], &[0; 32]),
        (&[0xff; 32], &[0xff; 32]),
        (&x[1..], &y),
        (&padded, &y),
        (&x, &[]),
    ] {
        assert_eq!(judged(&map(&point(x, y))), Err(CeremonyError::NotAKey));
    }
    // Adding the curve's prime to a coordinate gives a second encoding, if it fits.
    let prime = hex("ffffffff00000001000000000000000000000000ffffffffffffffffffffffff");
    assert_eq!(judged(&map(&point(&prime, &y))), Err(CeremonyError::NotAKey));
}

#[test]
fn a_key_must_have_exactly_its_members() {
    let sound = point(&hex(X), &hex(Y));
    let with = |at: usize, value: Vec<u8>| {
        let mut members = sound.clone();
        members[at].1 = value;
        judged(&map(&members))
    };
    // A key of another type, curve or algorithm.
    for (at, value) in [(0, int(1)), (0, int(3)), (0, text("EC2")), (2, int(2)), (2, int(8)), (2, text("P-256"))] {
        assert_eq!(with(at, value), Err(CeremonyError::NotAKey));
    }
    for algorithm in [-8, -257] {
        assert_eq!(with(1, int(algorithm)), Err(CeremonyError::NotAKey), "{algorithm}");
    }
    for algorithm in [-35, -36, -37, -38, -39, -47, -65535, -9, 0, 7, i64::MIN] {
        assert_eq!(with(1, int(algorithm)), Err(CeremonyError::AlgorithmNotOffered), "{algorithm}");
    }
    assert_eq!(with(1, text("ES256")), Err(CeremonyError::NotAKey));
    // The y of a compressed point is a sign.
    assert_eq!(with(4, vec![0xf5]), Err(CeremonyError::NotAKey));
    for missing in 0..5 {
        let mut members = sound.clone();
        members.remove(missing);
        assert_eq!(judged(&map(&members)), Err(CeremonyError::NotAKey), "{missing}");
    }
    for (at, more) in [(1, (int(2), bytes(b"kid"))), (2, (int(4), int(2))), (5, (int(-4), bytes(&[1; 32])))] {
        let mut members = sound.clone();
        members.insert(at, more);
        assert_eq!(judged(&map(&members)), Err(CeremonyError::NotAKey));
    }
    let mut disordered = sound.clone();
    disordered.swap(0, 1);
    assert_eq!(judged(&map(&disordered)), Err(CeremonyError::AuthenticatorDataCbor(CborFault::KeyOrder)));
    assert_eq!(judged(&int(1)), Err(CeremonyError::NotAKey));
    assert_eq!(judged(b""), Err(CeremonyError::AuthenticatorDataCbor(CborFault::Truncated)));
}

#[test]
fn an_edwards_key_has_32_bytes() {
    assert_eq!(judged(&map(&edwards(&[9; 32]))), Ok(KeyAlgorithm::EdDsa));
    for length in [0, 31, 33, 57, 64] {
        assert_eq!(judged(&map(&edwards(&vec![9; length]))), Err(CeremonyError::NotAKey), "{length}");
    }
}

#[test]
fn an_rsa_key_has_2048_to_4096_bits_and_a_common_exponent() {
    let modulus = |length: usize, first: u8, last: u8| {
        let mut n = vec![0x5a; length];
        (n[0], n[length - 1]) = (first, last);
        n
    };
    let f4 = [1, 0, 1];
    for (n, e, sound) in [
        (modulus(256, 0x80, 1), &f4[..], true),
        (modulus(256, 0x7f, 1), &f4, false),
        (modulus(255, 0xff, 1), &f4, false),
        (modulus(128, 0xff, 1), &f4, false),
        (modulus(257, 0, 1), &f4, false),
        (modulus(257, 1, 1), &f4, true),
        (modulus(512, 0xff, 1), &f4, true),
        (modulus(513, 1, 1), &f4, false),
        (modulus(1024, 0xff, 1), &f4, false),
        (modulus(256, 0xff, 2), &f4, false),
        (modulus(256, 0xff, 1), &[3], false),
        (modulus(256, 0xff, 1), &[1], false),
        (modulus(256, 0xff, 1), &[0], false),
        (modulus(256, 0xff, 1), &[], false),
        (modulus(256, 0xff, 1), &[0, 1, 0, 1], false),
        (modulus(256, 0xff, 1), &[1, 0, 2], false),
        (modulus(256, 0xff, 1), &[1, 0, 0, 0, 1], false),
        (modulus(256, 0xff, 1), &[0xff; 9], false),
    ] {
        let expected = if sound { Ok(KeyAlgorithm::Rs256) } else { Err(CeremonyError::NotAKey) };
        assert_eq!(judged(&rsa_key(&n, e)), expected, "{} {:x} {e:x?}", n.len(), n[0]);
    }
}

#[test]
fn a_record_with_an_invalid_key_cannot_be_read() {
    let kept = record(&authenticator(KeyAlgorithm::Es256), sealgate_domain::webauthn::CredentialKind::Passkey);
    let mut stored = serde_json::to_value(&kept).unwrap();
    assert!(serde_json::from_value::<CredentialRecord>(stored.clone()).is_ok());
    stored["key"] = "AAAA".into();
    assert!(serde_json::from_value::<CredentialRecord>(stored).is_err());
}
