//! Client assertions for upstream providers, signed with a key in the token.

use std::sync::Arc;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use sealgate_core::client_keys::ClientKeys;
use sealgate_signer::generate_tls_key;
use sealgate_upstream::AssertionSigner;

use crate::softhsm::in_own_process;
use crate::support::{LABEL, generate, hsm, open, quick};

#[test]
fn a_key_in_the_token_signs_assertions() {
    in_own_process("client_keys::a_key_in_the_token_signs_assertions", LABEL, |softhsm| {
        let hsm = hsm(softhsm);
        generate(&hsm);
        generate_tls_key(&hsm, "partner", &[7; 16]).unwrap();
        let (signer, _) = open(&hsm, quick());
        let keys = ClientKeys::new(Arc::new(signer));
        let point = keys.public_point("partner").unwrap();
        assert_eq!((point.len(), point[0]), (65, 4));
        for message in [b"one".as_slice(), b"another"] {
            let signature = keys.sign("partner", message).unwrap();
            assert_eq!(signature.len(), 64);
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &point).verify(message, &signature).unwrap();
        }
        let missing = keys.sign("other", b"one").unwrap_err();
        assert!(missing.contains("other") && missing.contains("sealgate key generate-tls-key other"), "{missing}");
        // The label of the signing keys has no EC key.
        assert!(keys.public_point(LABEL).is_err());
    });
}
