//! Responses of authenticators: registrations without a signature, and assertions that the target signs, so
//! that the code behind the signature check is covered too.
#![no_main]

use std::sync::OnceLock;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use libfuzzer_sys::fuzz_target;
use sealgate_fuzz::domain::secret::base64url;
use sealgate_fuzz::webauthn::{
    AssertionPurpose, AssertionResponse, AssertionTerms, BackupState, CeremonyChallenge, CredentialKey, CredentialKind,
    CredentialOwner, CredentialRecord, RegistrationResponse, RegistrationTerms, RelyingParty, UserHandle,
};
use sha2::{Digest, Sha256};

const CHALLENGE: CeremonyChallenge = CeremonyChallenge::from_random([0; 32]);

/// Valid client data of this ceremony. Half of the inputs replace it.
fn client_data(ceremony: &str) -> String {
    format!(r#"{{"type":"webauthn.{ceremony}","challenge":"{CHALLENGE}","origin":"https://id.test"}}"#)
}

fn relying_party() -> &'static RelyingParty {
    static PARTY: OnceLock<RelyingParty> = OnceLock::new();
    PARTY.get_or_init(|| RelyingParty::new(&"https://id.test".parse().expect("a URL"), None).expect("a host"))
}

fuzz_target!(|input: &[u8]| {
    // The first byte selects the part that the rest of the input replaces.
    let Some((part, rest)) = input.split_first() else { return };
    match part % 4 {
        0 => register(client_data("create").as_bytes(), rest),
        1 => register(rest, &[]),
        2 => {
            assertion(client_data("get").as_bytes(), rest);
        }
        _ => {
            let data = [&Sha256::digest("id.test")[..], &[5, 0, 0, 0, 9]].concat();
            if assertion(rest, &data) {
                let text = std::str::from_utf8(rest).expect("UTF-8");
                let read: serde_json::Value =
                    serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text)).expect("JSON");
                assert_eq!(read["type"], "webauthn.get");
                assert_eq!(read["challenge"], CHALLENGE.to_string());
                assert_eq!(read["origin"], "https://id.test");
                assert!(read.get("topOrigin").is_none() && read["crossOrigin"] != true);
            }
        }
    }
    if let Ok(text) = std::str::from_utf8(rest) {
        let _ = RegistrationResponse::parse(text);
        let _ = AssertionResponse::parse(text);
    }
    if let Ok(key) = CredentialKey::from_cose(rest) {
        assert_eq!(key.as_cose(), rest);
    }
});

fn register(client_data: &[u8], object: &[u8]) {
    // A credential id that equals the one in a valid attestation object, or any id.
    let start = if object.get(28) == Some(&0x59) { 86 } else { 85 };
    let id = object.get(start..start + 32).unwrap_or(&[1; 32]);
    let id = base64url(id);
    let answer = format!(
        r#"{{"id":"{id}","rawId":"{id}","type":"public-key","response":{{"clientDataJSON":"{}","attestationObject":"{}"}}}}"#,
        base64url(client_data),
        base64url(object)
    );
    let Ok(answer) = RegistrationResponse::parse(&answer) else { return };
    for kind in [CredentialKind::Passkey, CredentialKind::SecurityKey] {
        let terms = RegistrationTerms { relying_party: relying_party(), challenge: &CHALLENGE, kind };
        let Ok(made) = answer.verify(&terms) else { continue };
        let made = made.credential;
        assert_eq!((made.id.to_string(), made.kind), (id.clone(), kind));
        // The stored record can be parsed to the same credential.
        let stored = serde_json::to_string(&made).expect("a record");
        assert_eq!(serde_json::from_str::<CredentialRecord>(&stored).expect("a record"), made);
    }
}

/// Returns whether an assertion of these bytes, signed by the right key, is accepted.
fn assertion(client_data: &[u8], data: &[u8]) -> bool {
    static KEY: OnceLock<(Ed25519KeyPair, CredentialRecord)> = OnceLock::new();
    let (pair, record) = KEY.get_or_init(|| {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a seed");
        let cose = [b"\xa4\x01\x01\x03\x27\x20\x06\x21\x58\x20", pair.public_key().as_ref()].concat();
        let record = CredentialRecord {
            id: sealgate_fuzz::webauthn::CredentialId::from_bytes(&[1; 32]).expect("an id"),
            key: CredentialKey::from_cose(&cose).expect("a key"),
            kind: CredentialKind::Passkey,
            sign_count: 7,
            backup: BackupState::DeviceBound,
            aaguid: [0; 16],
            transports: Vec::new(),
        };
        (pair, record)
    });
    let handle = UserHandle::from_random([2; 32]);
    let signed = [data, &Sha256::digest(client_data)].concat();
    let answer = format!(
        r#"{{"id":"{id}","rawId":"{id}","type":"public-key","response":{{"clientDataJSON":"{}","authenticatorData":"{}",
            "signature":"{}","userHandle":"{handle}"}}}}"#,
        base64url(client_data),
        base64url(data),
        base64url(pair.sign(&signed).as_ref()),
        id = record.id,
    );
    let Ok(answer) = AssertionResponse::parse(&answer) else { return false };
    let owner = CredentialOwner { handle: &handle, credentials: std::slice::from_ref(record) };
    let mut taken = false;
    for purpose in [AssertionPurpose::SignIn, AssertionPurpose::SecondFactor, AssertionPurpose::Confirmation] {
        let terms = AssertionTerms { relying_party: relying_party(), challenge: &CHALLENGE, purpose };
        let Ok(used) = answer.verify(&terms, &owner) else { continue };
        taken = true;
        assert_eq!(data[..32], Sha256::digest("id.test")[..]);
        assert!(data[32] & 1 == 1 && used.sign_count > 7 && !used.count_unchanged);
        assert!(used.user_verified || !purpose.needs_verification());
        assert_eq!(used.backup, BackupState::DeviceBound);
    }
    taken
}
