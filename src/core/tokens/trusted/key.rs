//! Public keys of other issuers that verify signatures.

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
};

use sealgate_domain::oauth::algorithm::Algorithm;
use sealgate_domain::oauth::jwk_set::{Numbers, TrustedJwk};
use sealgate_domain::oauth::trusted_token::Signed;

/// A key, ready for each algorithm that it is for and that the issuer's tokens may have.
pub(super) struct VerifyingKey {
    kid: Option<String>,
    verifiers: Vec<(Algorithm, ParsedPublicKey)>,
}

impl VerifyingKey {
    /// `None` when the numbers are no key, or it is for none of these algorithms.
    pub(super) fn of(jwk: &TrustedJwk, algorithms: &[Algorithm]) -> Option<Self> {
        let fit = algorithms.iter().filter(|algorithm| jwk.is_for(**algorithm));
        let verifiers: Vec<_> =
            fit.filter_map(|algorithm| Some((*algorithm, parsed(&jwk.numbers, *algorithm)?))).collect();
        (!verifiers.is_empty()).then(|| Self { kid: jwk.kid.clone(), verifiers })
    }

    /// Whether the token may be of this key: by its name, where it names one, and by its algorithm.
    pub(super) fn may_have_signed(&self, signed: &Signed<'_>) -> bool {
        let named = signed.kid.is_none() || signed.kid == self.kid;
        named && self.verifier(signed.algorithm).is_some()
    }

    /// Whether this key has signed the token.
    pub(super) fn verifies(&self, signed: &Signed<'_>) -> bool {
        let verifier = self.verifier(signed.algorithm);
        verifier.is_some_and(|key| key.verify_sig(signed.signing_input.as_bytes(), &signed.signature).is_ok())
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
