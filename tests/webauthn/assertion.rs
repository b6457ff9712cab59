//! Checks of an assertion (Level 3 §7.2). Each test fails one check only, because the modified
//! assertion is signed again.

use sealgate_domain::secret::base64url;
use sealgate_domain::webauthn::{
    AssertionPurpose, AssertionResponse, CborFault, CeremonyError, CredentialKind, KeyAlgorithm, UserHandle,
};

use crate::authenticator::{AT, Authenticator, BE, BS, Ceremony, ED, UP, UV, asserted, attested, int, map, text};
use crate::{Asserted, CHALLENGE, ORIGIN, RP_ID, assert_by, authenticator, record};

use AssertionPurpose::{Confirmation, SecondFactor, SignIn};
use CredentialKind::{Passkey, SecurityKey};

fn es256() -> (Authenticator, Ceremony) {
    let authenticator = authenticator(KeyAlgorithm::Es256);
    let ceremony = authenticator.assertion(ORIGIN, RP_ID, &CHALLENGE);
    (authenticator, ceremony)
}

#[test]
fn each_algorithm_signs_in_for_each_purpose() {
    for algorithm in KeyAlgorithm::OFFERED {
        let authenticator = authenticator(algorithm);
        let answer = authenticator.assertion(ORIGIN, RP_ID, &CHALLENGE).asserted(&authenticator);
        for purpose in [SignIn, SecondFactor, Confirmation] {
            let credentials = [record(&authenticator, Passkey)];
            assert_eq!(assert_by(&authenticator, &answer, purpose, &credentials), Ok((8, true, false)));
        }
        assert_eq!(
            assert_by(&authenticator, &answer, SecondFactor, &[record(&authenticator, SecurityKey)]),
            Ok((8, false, false)),
            "a security key never counts as two factors, whatever its flags say"
        );
    }
}

#[test]
fn client_data_must_match_ceremony_challenge_and_origin() {
    let (authenticator, sound) = es256();
    let credentials = [record(&authenticator, Passkey)];
    for (old, new, expected) in [
        ("webauthn.get", "webauthn.create", CeremonyError::OtherCeremony),
        ("BQUF", "BQUG", CeremonyError::OtherChallenge),
        (ORIGIN, "https://id.example.test.evil.test", CeremonyError::OtherOrigin),
        (":false", ":true", CeremonyError::CrossOrigin),
        (":false", r#":false,"topOrigin":"https://id.example.test""#, CeremonyError::CrossOrigin),
        (":false", ":0", CeremonyError::ClientData),
    ] {
        let answer = sound.clone().saying(old, new).asserted(&authenticator);
        assert_eq!(assert_by(&authenticator, &answer, SignIn, &credentials), Err(expected), "{new}");
    }
}

#[test]
fn authenticator_data_must_match_the_site_and_confirm_presence() {
    let (authenticator, sound) = es256();
    let passkey = [record(&authenticator, Passkey)];
    let key = [record(&authenticator, SecurityKey)];
    let with_flags = |flags, purpose, credentials: &[_]| {
        let answer = Ceremony { flags, ..sound.clone() }.asserted(&authenticator);
        assert_by(&authenticator, &answer, purpose, credentials)
    };
    for (flags, purpose, credentials, expected) in [
        (UV, SignIn, &passkey, Err(CeremonyError::NotPresent)),
        (0, SecondFactor, &key, Err(CeremonyError::NotPresent)),
        (UP, SignIn, &passkey, Err(CeremonyError::NotVerified)),
        (UP, Confirmation, &passkey, Err(CeremonyError::NotVerified)),
        (UP, SecondFactor, &passkey, Ok((8, false, false))),
        (UP, SecondFactor, &key, Ok((8, false, false))),
        (UP | UV | BS, SignIn, &passkey, Err(CeremonyError::BackupFlags)),
        (UP | UV | BE, SignIn, &passkey, Err(CeremonyError::BackupEligibilityChanged)),
        (UP | UV | BE | BS, SignIn, &passkey, Err(CeremonyError::BackupEligibilityChanged)),
    ] {
        assert_eq!(with_flags(flags, purpose, credentials), expected, "{flags:b} {purpose:?}");
    }
    let other = Ceremony { rp_id: "example.test".into(), ..sound.clone() }.asserted(&authenticator);
    assert_eq!(assert_by(&authenticator, &other, SignIn, &passkey), Err(CeremonyError::OtherRelyingParty));
    let made = attested(&[7; 16], &authenticator.id, &authenticator.cose_key());
    let with_credential = Ceremony { flags: UP | UV | AT, attested: made, ..sound.clone() }.asserted(&authenticator);
    assert_eq!(assert_by(&authenticator, &with_credential, SignIn, &passkey), Err(CeremonyError::UnexpectedCredential));
    let extended = |extensions| {
        let answer = Ceremony { flags: UP | UV | ED, extensions, ..sound.clone() }.asserted(&authenticator);
        assert_by(&authenticator, &answer, SignIn, &passkey)
    };
    assert_eq!(extended(map(&[(text("x"), int(1))])), Ok((8, true, false)));
    assert_eq!(extended(vec![0xf5]), Err(CeremonyError::AuthenticatorDataCbor(CborFault::Shape)));
}

#[test]
fn backup_eligibility_of_a_key_cannot_change() {
    let (authenticator, sound) = es256();
    let made = Ceremony { flags: UP | UV | AT | BE, ..authenticator.registration(ORIGIN, RP_ID, &CHALLENGE) };
    let synced = [crate::register(&made.registered(), Passkey).unwrap().credential];
    let with_flags = |flags| {
        let answer = Ceremony { flags, ..sound.clone() }.asserted(&authenticator);
        assert_by(&authenticator, &answer, SignIn, &synced)
    };
    assert_eq!(with_flags(UP | UV | BE), Ok((8, true, false)));
    assert_eq!(with_flags(UP | UV | BE | BS), Ok((8, true, false)));
    assert_eq!(with_flags(UP | UV), Err(CeremonyError::BackupEligibilityChanged));
}

/// An attacker has the user's password and a separate key.
#[test]
fn another_users_key_cannot_complete_a_sign_in() {
    let (bob, _) = es256();
    let mut eve = Authenticator::new(KeyAlgorithm::Es256, &[0xee; 32]);
    eve.handle = UserHandle::from_random([0xee; 32]);
    let bobs = [record(&bob, SecurityKey)];
    let eves = eve.assertion(ORIGIN, RP_ID, &CHALLENGE);
    assert_eq!(assert_by(&bob, &eves.asserted(&eve), SecondFactor, &bobs), Err(CeremonyError::NotTheirs));
    // The user's credential ID, signed with the attacker's key.
    let forged = Ceremony { id: bob.id.clone(), user_handle: None, ..eves.clone() };
    assert_eq!(assert_by(&bob, &forged.asserted(&eve), SecondFactor, &bobs), Err(CeremonyError::Signature));
    let named = Ceremony { id: bob.id.clone(), ..eves };
    assert_eq!(assert_by(&bob, &named.asserted(&eve), SecondFactor, &bobs), Err(CeremonyError::OtherUserHandle));
    assert_eq!(assert_by(&bob, &named.asserted(&eve), SecondFactor, &[]), Err(CeremonyError::NotTheirs));
}

#[test]
fn a_sign_in_without_typed_input_needs_a_passkey_with_a_user_handle() {
    let (authenticator, sound) = es256();
    let passkey = [record(&authenticator, Passkey)];
    let key = [record(&authenticator, SecurityKey)];
    let without = Ceremony { user_handle: None, ..sound.clone() }.asserted(&authenticator);
    assert_eq!(assert_by(&authenticator, &without, SignIn, &passkey), Err(CeremonyError::NoUserHandle));
    for purpose in [SecondFactor, Confirmation] {
        assert_eq!(assert_by(&authenticator, &without, purpose, &passkey), Ok((8, true, false)));
    }
    for handle in ["", "AAAA", "not base64url!", &base64url(&[0x42; 64])] {
        let bent = Ceremony { user_handle: Some(handle.into()), ..sound.clone() }.asserted(&authenticator);
        for purpose in [SignIn, SecondFactor, Confirmation] {
            assert_eq!(assert_by(&authenticator, &bent, purpose, &passkey), Err(CeremonyError::OtherUserHandle));
        }
    }
    // An attacker has stolen a key without a PIN and has set one.
    for purpose in [SignIn, Confirmation] {
        let answer = sound.asserted(&authenticator);
        assert_eq!(assert_by(&authenticator, &answer, purpose, &key), Err(CeremonyError::NotAPasskey));
    }
    let answer = AssertionResponse::parse(&sound.asserted(&authenticator).to_string()).unwrap();
    assert_eq!(answer.user_handle(), Some(authenticator.handle));
    assert_eq!(AssertionResponse::parse(&without.to_string()).unwrap().user_handle(), None);
}

#[test]
fn a_signature_must_match_the_key_and_the_data() {
    for algorithm in KeyAlgorithm::OFFERED {
        let authenticator = authenticator(algorithm);
        let sound = authenticator.assertion(ORIGIN, RP_ID, &CHALLENGE);
        let credentials = [record(&authenticator, Passkey)];
        let (data, text) = (sound.authenticator_data(), sound.client_data.clone().into_bytes());
        let signature = authenticator.signature(&data, &text);
        let with = |signature: &[u8]| -> Asserted {
            let handle = sound.user_handle.as_deref();
            let answer = asserted(&authenticator.id, &text, &data, signature, handle);
            assert_by(&authenticator, &answer, SignIn, &credentials)
        };
        assert_eq!(with(&signature), Ok((8, true, false)));
        let over_data = authenticator.sign(&data);
        let over_text = authenticator.sign(&[&data[..], &text].concat());
        let of_another = Authenticator::new(algorithm, &authenticator.id).signature(&data, &text);
        let mut longer = signature.clone();
        longer.push(0);
        let zeros = vec![0; signature.len()];
        for wrong in [&over_data, &over_text, &of_another, &longer, &zeros, &Vec::new(), &signature[1..].to_vec()] {
            assert_eq!(with(wrong), Err(CeremonyError::Signature), "{algorithm:?}");
        }
    }
}

/// ECDSA signatures of WebAuthn are DER. The concatenated numbers, as in JOSE, are no valid
/// signature.
#[test]
fn a_fixed_length_ecdsa_signature_is_refused() {
    let (authenticator, sound) = es256();
    let (data, text) = (sound.authenticator_data(), sound.client_data.as_bytes());
    let der = authenticator.signature(&data, text);
    let number = |at: usize| -> Vec<u8> {
        let length = usize::from(der[at + 1]);
        let number = &der[at + 2..at + 2 + length];
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        [vec![0; 32 - number.len()], number.to_vec()].concat()
    };
    let fixed = [number(2), number(4 + usize::from(der[3]))].concat();
    let answer = asserted(&authenticator.id, text, &data, &fixed, sound.user_handle.as_deref());
    let credentials = [record(&authenticator, Passkey)];
    assert_eq!(assert_by(&authenticator, &answer, SignIn, &credentials), Err(CeremonyError::Signature));
}

#[test]
fn a_counter_that_does_not_increase_indicates_a_copy() {
    let (authenticator, sound) = es256();
    let synced = Ceremony { flags: UP | UV | AT | BE | BS, ..authenticator.registration(ORIGIN, RP_ID, &CHALLENGE) };
    let synced = crate::register(&synced.registered(), Passkey).unwrap().credential;
    let bound = record(&authenticator, Passkey);
    for (stored, presented, grown) in [
        (0, 0, true),
        (0, 1, true),
        (7, 8, true),
        (7, u32::MAX, true),
        (7, 7, false),
        (7, 6, false),
        (7, 0, false),
        (u32::MAX, 0, false),
        (u32::MAX, u32::MAX, false),
    ] {
        let sign_in = |flags, mut credential: sealgate_domain::webauthn::CredentialRecord| {
            credential.sign_count = stored;
            let answer = Ceremony { sign_count: presented, flags, ..sound.clone() }.asserted(&authenticator);
            assert_by(&authenticator, &answer, SignIn, &[credential])
        };
        let refused = Err(CeremonyError::SignCount { presented });
        let expected = if grown { Ok((presented, true, false)) } else { refused };
        assert_eq!(sign_in(UP | UV, bound.clone()), expected, "{stored} {presented}");
        // Devices that share a key do not share its counter: this is reported, but not rejected.
        assert_eq!(sign_in(UP | UV | BE | BS, synced.clone()), Ok((presented, true, !grown)), "{stored} {presented}");
    }
}

#[test]
fn a_registration_is_refused_as_an_assertion_and_the_reverse() {
    let (authenticator, sound) = es256();
    let made = authenticator.registration(ORIGIN, RP_ID, &CHALLENGE).registered();
    let parsed = AssertionResponse::parse(&made.to_string()).map(|_| ());
    assert_eq!(parsed, Err(CeremonyError::ResponseJson));
    let used = crate::register(&sound.asserted(&authenticator), Passkey);
    assert_eq!(used, Err(CeremonyError::ResponseJson));
}
