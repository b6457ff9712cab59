//! JWK sets of other issuers (RFC 7517 §5), and the signature algorithms that are accepted from
//! them (RFC 7518 §3.1, RFC 8037 §3.1).
//!
//! The parser returns the keys that can verify supported signatures. It ignores other keys, as RFC
//! 7517 §5 requires. The cryptography library checks whether the parameters are a valid key. `none`
//! and the symmetric algorithms have no variant, so they can be neither configured nor used.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::oauth::strict_json;
use crate::secret::from_base64url;

/// Maximum length of a set in bytes. A key with a certificate chain has several kilobytes.
pub const MAX_SET_LENGTH: usize = 256 * 1024;

/// Maximum number of keys in a set, whatever their use. Each key costs time when the set is parsed,
/// and again for each token without a `kid`.
pub const MAX_KEYS: usize = 64;

/// Maximum length of the `kid` of a key or token, in bytes.
pub const MAX_KID_LENGTH: usize = 256;

/// Length of a coordinate on P-256, and of a key on Ed25519, in bytes.
const COORDINATE: usize = 32;

/// Accepted lengths of an RSA modulus in bytes: 2048 to 8192 bits. Longer moduli would make each
/// verification expensive.
const MODULUS: std::ops::RangeInclusive<usize> = 256..=1024;

/// Accepted public exponents. If the exponent is smaller, careless verifiers accept forgeries. If
/// the exponent is larger, verification is slower without benefit.
const EXPONENT: std::ops::RangeInclusive<u64> = 65_537..=0xFFFF_FFFF;

/// Public key of a trusted issuer that can verify supported signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedJwk {
    pub kid: Option<String>,
    /// The only algorithm of the key. `None` if the set permits all algorithms of the key's type.
    pub algorithm: Option<Algorithm>,
    pub numbers: Numbers,
}

/// Parameters of a public key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Numbers {
    /// Modulus and exponent, big-endian, without leading zeros.
    Rsa {
        /// The modulus, 256 to 1024 bytes.
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// Point on P-256, uncompressed: 4, x, y; 65 bytes.
    P256(Vec<u8>),
    /// Key on Ed25519, 32 bytes.
    Ed25519(Vec<u8>),
}

impl TrustedJwk {
    /// Returns whether the key can verify signatures of this algorithm. The key determines the
    /// algorithm, never the token.
    pub fn is_for(&self, algorithm: Algorithm) -> bool {
        self.numbers.are_for(algorithm) && self.algorithm.is_none_or(|only| only == algorithm)
    }
}

impl Numbers {
    /// Returns whether keys of this type can verify signatures of this algorithm.
    pub(crate) fn are_for(&self, algorithm: Algorithm) -> bool {
        match algorithm {
            Algorithm::Rs256 | Algorithm::Ps256 => matches!(self, Self::Rsa { .. }),
            Algorithm::Es256 => matches!(self, Self::P256(_)),
            Algorithm::EdDsa => matches!(self, Self::Ed25519(_)),
        }
    }
}

/// Reason to reject a JWK set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JwkSetFault {
    /// The document is longer than [`MAX_SET_LENGTH`].
    #[error("the key set has more than {MAX_SET_LENGTH} bytes")]
    TooLong,
    /// The document is not the expected JSON.
    #[error("the key set is not a JSON object with a list \"keys\", or repeats a member")]
    Malformed,
    /// The set has more than [`MAX_KEYS`] keys.
    #[error("the key set has more than {MAX_KEYS} keys")]
    TooMany,
}

/// Parses a JWK set. Omits keys of unsupported types or uses, weak keys and private keys.
///
/// If several keys of a type have the same `kid`, omits all of them, because the `kid` is
/// ambiguous.
///
/// # Errors
/// [`JwkSetFault`] if the document is invalid.
pub fn read(document: &[u8]) -> Result<Vec<TrustedJwk>, JwkSetFault> {
    if document.len() > MAX_SET_LENGTH {
        return Err(JwkSetFault::TooLong);
    }
    let mut members = strict_json::object(document).ok_or(JwkSetFault::Malformed)?;
    let Some(Value::Array(listed)) = members.remove("keys") else { return Err(JwkSetFault::Malformed) };
    if listed.len() > MAX_KEYS {
        return Err(JwkSetFault::TooMany);
    }
    let keys: Vec<TrustedJwk> = listed.iter().filter_map(|key| key.as_object().and_then(jwk)).collect();
    let shares = |key: &TrustedJwk| {
        let alike = |other: &&TrustedJwk| {
            other.kid == key.kid && std::mem::discriminant(&other.numbers) == std::mem::discriminant(&key.numbers)
        };
        key.kid.is_some() && keys.iter().filter(alike).count() > 1
    };
    Ok(keys.iter().filter(|key| !shares(key)).cloned().collect())
}

fn jwk(members: &Map<String, Value>) -> Option<TrustedJwk> {
    let text = |name: &str| members.get(name).map(|value| value.as_str().ok_or(())).transpose().ok();
    let number = |name: &str| members.get(name)?.as_str().and_then(from_base64url);
    // A key with a published private part is compromised, because any reader can sign with it.
    if ["d", "k", "p", "q"].iter().any(|private| members.contains_key(*private)) {
        return None;
    }
    if text("use")?.is_some_and(|key_use| key_use != "sig") {
        return None;
    }
    match members.get("key_ops") {
        None => {}
        Some(Value::Array(operations)) if operations.iter().any(|operation| operation == "verify") => {}
        Some(_) => return None,
    }
    let kid = text("kid")?;
    if kid.is_some_and(|kid| kid.is_empty() || kid.len() > MAX_KID_LENGTH) {
        return None;
    }
    let algorithm = match text("alg")? {
        Some(name) => Some(Algorithm::parse(name)?),
        None => None,
    };
    let numbers = match (text("kty")??, text("crv")?) {
        ("RSA", _) => rsa(&number("n")?, &number("e")?)?,
        ("EC", Some("P-256")) => {
            let point = [vec![4], coordinate(number("x")?)?, coordinate(number("y")?)?].concat();
            Numbers::P256(point)
        }
        ("OKP", Some("Ed25519")) => Numbers::Ed25519(coordinate(number("x")?)?),
        _ => return None,
    };
    let fits = algorithm.is_none_or(|algorithm| numbers.are_for(algorithm));
    fits.then(|| TrustedJwk { kid: kid.map(str::to_owned), algorithm, numbers })
}

fn rsa(n: &[u8], e: &[u8]) -> Option<Numbers> {
    let (n, e) = (without_zeros(n), without_zeros(e));
    let exponent = e.iter().try_fold(0_u64, |value, byte| value.checked_mul(256)?.checked_add(u64::from(*byte)))?;
    // At the minimum length the highest bit must be set, or the modulus has fewer than 2048 bits.
    let full = n.len() > *MODULUS.start() || n.first().is_some_and(|first| *first >= 0x80);
    let is_valid = MODULUS.contains(&n.len()) && full && EXPONENT.contains(&exponent) && exponent % 2 == 1;
    is_valid.then(|| Numbers::Rsa { n: n.to_vec(), e: e.to_vec() })
}

fn without_zeros(number: &[u8]) -> &[u8] {
    number.iter().position(|byte| *byte != 0).and_then(|first| number.get(first..)).unwrap_or_default()
}

fn coordinate(bytes: Vec<u8>) -> Option<Vec<u8>> {
    (bytes.len() == COORDINATE).then_some(bytes)
}

/// Signature algorithm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Algorithm {
    /// RSA with PKCS #1 v1.5 and SHA-256.
    #[default]
    #[serde(rename = "RS256")]
    Rs256,
    /// RSA with PSS and SHA-256.
    #[serde(rename = "PS256")]
    Ps256,
    /// ECDSA on P-256 with SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// `EdDSA` on Ed25519, the only supported curve.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

impl Algorithm {
    /// All algorithms with their names in configuration and tokens.
    pub const ALL: [(&'static str, Self); 4] =
        [("RS256", Self::Rs256), ("PS256", Self::Ps256), ("ES256", Self::Es256), ("EdDSA", Self::EdDsa)];

    /// Returns the name in configuration and tokens.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }

    /// Parses the `alg` of a token or key, which is case-sensitive (RFC 7515 §4.1.1).
    pub fn parse(text: &str) -> Option<Self> {
        // RFC 9864 names the algorithm after its curve.
        let text = if text == "Ed25519" { "EdDSA" } else { text };
        Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, algorithm)| *algorithm)
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::secret::base64url;

    fn rsa_key() -> Value {
        json!({ "kty": "RSA", "kid": "r", "n": base64url(&[0x80; 256]), "e": "AQAB" })
    }

    fn ec_key() -> Value {
        json!({ "kty": "EC", "kid": "e", "crv": "P-256", "x": base64url(&[1; 32]), "y": base64url(&[2; 32]) })
    }

    fn okp_key() -> Value {
        json!({ "kty": "OKP", "kid": "o", "crv": "Ed25519", "x": base64url(&[3; 32]) })
    }

    fn read_keys(keys: &[Value]) -> Vec<TrustedJwk> {
        read(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    fn with(mut key: Value, name: &str, value: impl Into<Value>) -> Value {
        key[name] = value.into();
        key
    }

    #[test]
    fn each_kind_of_key_is_for_its_own_algorithms() {
        let keys = read_keys(&[rsa_key(), ec_key(), okp_key()]);
        let kinds = |key: &TrustedJwk| {
            Algorithm::ALL.iter().filter(|(_, kind)| key.is_for(*kind)).map(|(name, _)| *name).collect()
        };
        let kinds: Vec<Vec<&str>> = keys.iter().map(kinds).collect();
        assert_eq!(kinds, [vec!["RS256", "PS256"], vec!["ES256"], vec!["EdDSA"]]);
        assert_eq!(keys[0].numbers, Numbers::Rsa { n: vec![0x80; 256], e: vec![1, 0, 1] });
        assert_eq!(keys[1].numbers, Numbers::P256([vec![4], vec![1; 32], vec![2; 32]].concat()));
        let only = read_keys(&[with(rsa_key(), "alg", "PS256")]);
        assert!(only[0].is_for(Algorithm::Ps256) && !only[0].is_for(Algorithm::Rs256));
    }

    #[test]
    fn unsuitable_keys_are_omitted_and_others_kept() {
        for key in [
            with(rsa_key(), "use", "enc"),
            with(rsa_key(), "use", 1),
            with(rsa_key(), "key_ops", json!(["encrypt"])),
            with(rsa_key(), "key_ops", "verify"),
            with(rsa_key(), "alg", "RS512"),
            with(rsa_key(), "alg", "HS256"),
            with(rsa_key(), "alg", "none"),
            with(rsa_key(), "alg", "ES256"),
            with(rsa_key(), "alg", Value::Null),
            with(rsa_key(), "kid", 7),
            with(rsa_key(), "kid", ""),
            with(rsa_key(), "kid", "k".repeat(MAX_KID_LENGTH + 1)),
            with(rsa_key(), "d", "AQAB"),
            with(rsa_key(), "e", "Aw"),
            with(rsa_key(), "e", "AQAA"),
            with(rsa_key(), "e", base64url(&[1; 9])),
            with(rsa_key(), "e", ""),
            with(rsa_key(), "n", base64url(&[0x7F; 256])),
            with(rsa_key(), "n", base64url(&[0x80; 255])),
            with(rsa_key(), "n", base64url(&[0x80; 1025])),
            with(rsa_key(), "n", "not base64url!"),
            with(ec_key(), "crv", "P-384"),
            with(ec_key(), "crv", "secp256k1"),
            with(ec_key(), "x", base64url(&[1; 31])),
            with(ec_key(), "y", Value::Null),
            with(okp_key(), "crv", "X25519"),
            with(okp_key(), "x", base64url(&[1; 57])),
            json!({ "kty": "oct", "kid": "s", "k": "c2VjcmV0", "alg": "HS256" }),
            json!({ "kty": "rsa", "kid": "s", "n": base64url(&[0x80; 256]), "e": "AQAB" }),
            json!({ "kid": "s" }),
            json!([]),
            json!("RSA"),
            Value::Null,
        ] {
            let other = with(okp_key(), "kid", "other");
            let kids: Vec<_> = read_keys(&[key.clone(), other]).into_iter().map(|key| key.kid).collect();
            assert_eq!(kids, [Some("other".to_owned())], "{key}");
        }
        assert_eq!(read_keys(&[with(with(rsa_key(), "use", "sig"), "key_ops", json!(["verify"]))]).len(), 1);
        assert_eq!(read_keys(&[with(rsa_key(), "n", base64url(&[vec![0], vec![0x80; 256]].concat()))]).len(), 1);
    }

    #[test]
    fn keys_with_the_same_kid_are_omitted() {
        let other = with(rsa_key(), "n", base64url(&[0x81; 256]));
        assert_eq!(read_keys(&[rsa_key(), other.clone()]), []);
        assert_eq!(read_keys(&[rsa_key(), with(ec_key(), "kid", "r")]).len(), 2);
        let nameless = |mut key: Value| {
            key.as_object_mut().unwrap().remove("kid");
            key
        };
        assert_eq!(read_keys(&[nameless(rsa_key()), nameless(other)]).len(), 2);
    }

    #[test]
    fn a_document_that_is_not_a_key_set_is_refused() {
        for text in ["", "{}", "[]", "null", "{\"keys\":{}}", "{\"keys\":null}", "{\"keys\":[],\"keys\":[]}"] {
            assert_eq!(read(text.as_bytes()), Err(JwkSetFault::Malformed), "{text}");
        }
        let twice = r#"{"keys":[{"kty":"RSA","kty":"EC"}]}"#;
        assert_eq!(read(twice.as_bytes()), Err(JwkSetFault::Malformed));
        assert_eq!(read(&vec![b' '; MAX_SET_LENGTH + 1]), Err(JwkSetFault::TooLong));
        let many = json!({ "keys": vec![json!({}); MAX_KEYS + 1] }).to_string();
        assert_eq!(read(many.as_bytes()), Err(JwkSetFault::TooMany));
        assert_eq!(read(b"{\"keys\":[]}"), Ok(Vec::new()));
    }

    proptest! {
        #[test]
        fn no_document_causes_a_panic(text in "\\PC{0,300}") {
            let _ = read(text.as_bytes());
        }

        #[test]
        fn every_accepted_key_has_parameters_of_permitted_size(
            kty in "(RSA|EC|OKP)",
            crv in "(P-256|Ed25519|X25519)",
            lengths in prop::array::uniform4(0_usize..300),
            first in 0_u8..,
        ) {
            let number = |length: usize| {
                let mut bytes = vec![1; length];
                bytes.iter_mut().take(1).for_each(|byte| *byte = first);
                base64url(&bytes)
            };
            let [n, e, x, y] = lengths.map(number);
            let key = json!({ "kty": kty, "crv": crv, "n": n, "e": e, "x": x, "y": y });
            for key in read_keys(&[key]) {
                match key.numbers {
                    Numbers::Rsa { n, e } => prop_assert!(n.len() >= 256 && n[0] != 0 && e.len() <= 4),
                    Numbers::P256(point) => prop_assert_eq!((point.len(), point[0]), (65, 4)),
                    Numbers::Ed25519(key) => prop_assert_eq!(key.len(), 32),
                }
            }
        }
    }

    #[test]
    fn only_four_algorithms_are_supported() {
        for (name, algorithm) in Algorithm::ALL {
            assert_eq!((Algorithm::parse(name), algorithm.name()), (Some(algorithm), name));
            assert_eq!(serde_json::to_value(algorithm).unwrap(), name);
        }
        assert_eq!(Algorithm::parse("Ed25519"), Some(Algorithm::EdDsa));
        for name in
            ["none", "None", "", "HS256", "HS512", "rs256", "RS256 ", "RS384", "RS1", "ES256K", "ES384", "Ed448"]
        {
            assert_eq!(Algorithm::parse(name), None, "{name}");
        }
    }
}
