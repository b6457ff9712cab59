//! Responses with a changed bit or a truncated part. Nothing may panic, and no signed part may be
//! changed.

use std::collections::BTreeSet;

use proptest::prelude::*;
use sealgate_domain::webauthn::{
    AssertionPurpose, AssertionResponse, CeremonyError, CredentialKind, KeyAlgorithm, RegistrationResponse,
};

use crate::authenticator::{ED, asserted, registered};
use crate::{CHALLENGE, ORIGIN, RP_ID, assert_by, authenticator, record, register};

#[test]
fn modified_or_truncated_answers_are_refused() {
    for algorithm in KeyAlgorithm::OFFERED {
        let authenticator = authenticator(algorithm);
        let sound = authenticator.assertion(ORIGIN, RP_ID, &CHALLENGE);
        let credentials = [record(&authenticator, CredentialKind::Passkey)];
        let parts = [sound.client_data.clone().into_bytes(), sound.authenticator_data()];
        let signature = authenticator.signature(&parts[1], &parts[0]);
        let parts = [&parts[0][..], &parts[1], &signature];
        let sign_in = |parts: [&[u8]; 3]| {
            let handle = sound.user_handle.as_deref();
            let answer = asserted(&authenticator.id, parts[0], parts[1], parts[2], handle);
            assert_by(&authenticator, &answer, AssertionPurpose::SignIn, &credentials)
        };
        assert!(sign_in(parts).is_ok());
        let mut reasons = BTreeSet::new();
        for (part, whole) in parts.iter().enumerate() {
            for at in 0..whole.len() {
                for bit in 0..8 {
                    let mut bent = whole.to_vec();
                    bent[at] ^= 1 << bit;
                    let mut parts = parts;
                    parts[part] = &bent;
                    reasons.insert(format!("{:?}", sign_in(parts).unwrap_err()));
                }
                let mut parts = parts;
                parts[part] = &whole[..at];
                assert!(sign_in(parts).is_err(), "part {part} up to {at}");
            }
        }
        // The errors must differ: the bits reach the checks for which they are meant.
        for reason in ["OtherRelyingParty", "NotPresent", "NotVerified", "OtherChallenge", "OtherOrigin", "Signature"] {
            assert!(reasons.contains(reason), "{algorithm:?} {reason}: {reasons:?}");
        }
    }
}

#[test]
fn a_modified_registration_is_refused_or_has_the_same_id() {
    for algorithm in KeyAlgorithm::OFFERED {
        let authenticator = authenticator(algorithm);
        let sound = authenticator.registration(ORIGIN, RP_ID, &CHALLENGE);
        let (text, whole) = (sound.client_data.as_bytes(), sound.attestation_object());
        for at in 0..whole.len() {
            assert!(register(&registered(&sound.id, text, &whole[..at]), CredentialKind::Passkey).is_err());
            for bit in 0..8 {
                let mut bent = whole.clone();
                bent[at] ^= 1 << bit;
                // Without attestation, nothing signs a registration: another AAGUID, counter or key
                // is valid too.
                if let Ok(made) = register(&registered(&sound.id, text, &bent), CredentialKind::Passkey) {
                    assert_eq!(made.credential.id.as_bytes(), sound.id);
                    assert_eq!(made.credential.key.algorithm(), algorithm);
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn no_text_causes_a_panic(text in ".{0,200}") {
        prop_assert!(RegistrationResponse::parse(&text).is_err() && AssertionResponse::parse(&text).is_err());
    }

    #[test]
    fn no_bytes_in_a_valid_answer_cause_a_panic(
        client_data in prop::collection::vec(any::<u8>(), 0..200),
        data in prop::collection::vec(any::<u8>(), 0..400),
        signature in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let authenticator = authenticator(KeyAlgorithm::EdDsa);
        let sound = authenticator.registration(ORIGIN, RP_ID, &CHALLENGE);
        let credentials = [record(&authenticator, CredentialKind::Passkey)];
        let handle = authenticator.handle.to_string();
        for text in [&client_data[..], sound.client_data.as_bytes()] {
            prop_assert!(register(&registered(&sound.id, text, &data), CredentialKind::Passkey).is_err());
            let answer = asserted(&sound.id, text, &data, &signature, Some(&handle));
            prop_assert!(assert_by(&authenticator, &answer, AssertionPurpose::SignIn, &credentials).is_err());
        }
    }

    /// Random bytes after the flags and the counter of a valid response.
    #[test]
    fn trailing_authenticator_data_is_parsed_completely_or_refused(
        flags: u8,
        rest in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let authenticator = authenticator(KeyAlgorithm::EdDsa);
        let mut sound = authenticator.registration(ORIGIN, RP_ID, &CHALLENGE);
        (sound.flags, sound.attested) = (flags, rest);
        let made = register(&sound.registered(), CredentialKind::SecurityKey);
        prop_assert!(made.is_err());
        let mut used = authenticator.assertion(ORIGIN, RP_ID, &CHALLENGE);
        (used.flags, used.attested) = (flags, sound.attested.clone());
        let credentials = [record(&authenticator, CredentialKind::SecurityKey)];
        let answer = used.asserted(&authenticator);
        let outcome = assert_by(&authenticator, &answer, AssertionPurpose::SecondFactor, &credentials);
        if outcome.is_ok() {
            prop_assert!(used.attested.is_empty() || flags & ED != 0);
        } else {
            prop_assert!(outcome != Err(CeremonyError::Signature), "it was signed as it stands");
        }
    }
}
