//! JSON that the pages pass to browsers (Level 3 §5.1.9).

use std::time::Duration;

use sealgate_domain::webauthn::{
    AssertionPurpose, CreationOptions, CredentialKind, CredentialOwner, KeyAlgorithm, RequestOptions, UserEntity,
};
use serde_json::{Value, json};

use crate::{CHALLENGE, authenticator, record, relying_party};

const MINUTE: Duration = Duration::from_mins(1);

fn creation(kind: CredentialKind) -> Value {
    let authenticator = authenticator(KeyAlgorithm::Es256);
    let user =
        UserEntity { id: authenticator.handle, name: "anna@example.test".into(), display_name: "Anna Şahin".into() };
    let existing = [record(&authenticator, kind)];
    let options = CreationOptions::new(&relying_party(), "Çelik", user, &CHALLENGE, kind, &existing, MINUTE);
    serde_json::to_value(options).unwrap()
}

fn descriptor() -> Value {
    json!({ "type": "public-key", "id": "HR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0", "transports": ["usb", "nfc"] })
}

#[test]
fn a_passkey_stays_on_its_authenticator_and_verifies_its_user() {
    let expected = json!({
        "rp": { "id": "id.example.test", "name": "Çelik" },
        "user": {
            "id": "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI",
            "name": "anna@example.test",
            "displayName": "Anna Şahin",
        },
        "challenge": "BQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU",
        "pubKeyCredParams": [
            { "type": "public-key", "alg": -8 },
            { "type": "public-key", "alg": -7 },
            { "type": "public-key", "alg": -257 },
        ],
        "timeout": 60_000,
        "excludeCredentials": [descriptor()],
        "authenticatorSelection": {
            "residentKey": "required", "requireResidentKey": true, "userVerification": "required",
        },
        "attestation": "none",
        "extensions": { "credProps": true },
    });
    assert_eq!(creation(CredentialKind::Passkey), expected);
}

#[test]
fn a_security_key_needs_no_storage_and_no_pin() {
    let options = creation(CredentialKind::SecurityKey);
    let selection = json!({
        "residentKey": "discouraged", "requireResidentKey": false, "userVerification": "discouraged",
    });
    assert_eq!(options["authenticatorSelection"], selection);
    assert_eq!(options["hints"], json!(["security-key"]));
}

#[test]
fn options_without_an_account_list_no_credential() {
    let options = RequestOptions::of_anybody(&relying_party(), &CHALLENGE, MINUTE);
    let expected = json!({
        "challenge": CHALLENGE.to_string(),
        "timeout": 60_000,
        "rpId": "id.example.test",
        "allowCredentials": [],
        "userVerification": "required",
    });
    assert_eq!(serde_json::to_value(options).unwrap(), expected);
}

#[test]
fn options_of_an_account_list_its_suitable_credentials() {
    let key = authenticator(KeyAlgorithm::Es256);
    let passkey = sealgate_domain::webauthn::CredentialRecord {
        id: sealgate_domain::webauthn::CredentialId::from_bytes(&[9; 16]).unwrap(),
        transports: Vec::new(),
        ..record(&key, CredentialKind::Passkey)
    };
    let account =
        CredentialOwner { handle: &key.handle, credentials: &[record(&key, CredentialKind::SecurityKey), passkey] };
    let of = |purpose| {
        serde_json::to_value(RequestOptions::of_account(&relying_party(), &CHALLENGE, purpose, &account, MINUTE))
            .unwrap()
    };
    let second = of(AssertionPurpose::SecondFactor);
    let its_passkey = json!({ "type": "public-key", "id": "CQkJCQkJCQkJCQkJCQkJCQ" });
    assert_eq!(second["allowCredentials"], json!([descriptor(), its_passkey]));
    assert_eq!(second["userVerification"], "discouraged");
    for purpose in [AssertionPurpose::Confirmation, AssertionPurpose::SignIn] {
        let options = of(purpose);
        assert_eq!(options["allowCredentials"], json!([its_passkey]));
        assert_eq!(options["userVerification"], "required");
    }
}
