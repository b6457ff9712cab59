//! Public keys of other issuers that verify the signatures of tokens.

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
};

use crate::oauth::jwk_set::{Algorithm, Numbers, TrustedJwk};
use crate::oauth::jws::Jws;

/// Usable keys of an issuer.
#[derive(Default)]
pub struct VerifyingKeys(Vec<VerifyingKey>);

impl VerifyingKeys {
    /// Prepares the keys that support one of these algorithms.
    pub fn from_jwks(jwks: &[TrustedJwk], algorithms: &[Algorithm]) -> Self {
        Self(jwks.iter().filter_map(|jwk| VerifyingKey::from_jwk(jwk, algorithms)).collect())
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the key that may have signed the token.
    ///
    /// A token without a key id is accepted only if exactly one key matches.
    pub fn find(&self, jws: &Jws<'_>) -> Option<&VerifyingKey> {
        let mut fit = self.0.iter().filter(|key| key.may_have_signed(jws));
        match (fit.next(), fit.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }
}

/// Public key, prepared for each algorithm that both the key and the settings permit.
pub struct VerifyingKey {
    kid: Option<String>,
    verifiers: Vec<(Algorithm, ParsedPublicKey)>,
}

impl VerifyingKey {
    /// Prepares a key. Returns `None` if its parameters are invalid, or if it supports none of the
    /// algorithms.
    fn from_jwk(jwk: &TrustedJwk, algorithms: &[Algorithm]) -> Option<Self> {
        let fit = algorithms.iter().filter(|algorithm| jwk.is_for(**algorithm));
        let verifiers: Vec<_> =
            fit.filter_map(|algorithm| Some((*algorithm, parsed(&jwk.numbers, *algorithm)?))).collect();
        (!verifiers.is_empty()).then(|| Self { kid: jwk.kid.clone(), verifiers })
    }

    /// Returns whether the key may have signed the token: the algorithm matches. If the token has a
    /// key id, the key id matches too.
    fn may_have_signed(&self, jws: &Jws<'_>) -> bool {
        let is_candidate = jws.kid().is_none() || jws.kid() == self.kid.as_deref();
        is_candidate && self.verifier(jws.algorithm()).is_some()
    }

    /// Returns whether the signature of the token is valid under this key.
    pub fn verifies(&self, jws: &Jws<'_>) -> bool {
        let verifier = self.verifier(jws.algorithm());
        verifier.is_some_and(|key| key.verify_sig(jws.signing_input().as_bytes(), jws.signature()).is_ok())
    }

    fn verifier(&self, algorithm: Algorithm) -> Option<&ParsedPublicKey> {
        self.verifiers.iter().find(|(known, _)| *known == algorithm).map(|(_, verifier)| verifier)
    }
}

fn parsed(numbers: &Numbers, algorithm: Algorithm) -> Option<ParsedPublicKey> {
    let key = match (numbers, algorithm) {
        (Numbers::Rsa { n, e }, Algorithm::Rs256) => {
            PublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
        }
        (Numbers::Rsa { n, e }, Algorithm::Ps256) => {
            PublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PSS_2048_8192_SHA256)
        }
        (Numbers::P256(point), Algorithm::Es256) => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point),
        (Numbers::Ed25519(key), Algorithm::EdDsa) => ParsedPublicKey::new(&ED25519, key),
        _ => return None,
    };
    key.ok()
}
