//! Checks of a registration (Level 3 §7.1). Each response fails one check only.

use sealgate_domain::webauthn::{
    BackupState, CborFault, CeremonyBlame, CeremonyError, CredentialKind, CredentialRecord, KeyAlgorithm,
};
use serde_json::{Value, json};

use crate::authenticator::{
    AT, Authenticator, BE, BS, Ceremony, ED, UP, UV, attested, bytes, int, map, registered, text,
};
use crate::{CHALLENGE, ORIGIN, RP_ID, authenticator, register};

fn es256() -> (Authenticator, Ceremony) {
    let authenticator = authenticator(KeyAlgorithm::Es256);
    let ceremony = authenticator.registration(ORIGIN, RP_ID, &CHALLENGE);
    (authenticator, ceremony)
}

fn passkey(answer: &Value) -> Result<CredentialRecord, CeremonyError> {
    register(answer, CredentialKind::Passkey).map(|made| made.credential)
}

#[test]
fn keys_of_each_offered_algorithm_are_accepted() {
    for algorithm in KeyAlgorithm::OFFERED {
        let authenticator = authenticator(algorithm);
        let ceremony = authenticator.registration(ORIGIN, RP_ID, &CHALLENGE);
        let made = register(&ceremony.registered(), CredentialKind::Passkey).unwrap();
        assert_eq!(made.discoverable, Some(true));
        let credential = made.credential;
        assert_eq!(credential.id.as_bytes(), authenticator.id);
        assert_eq!((credential.key.algorithm(), credential.key.as_cose()), (algorithm, &authenticator.cose_key()[..]));
        assert_eq!((credential.kind, credential.backup), (CredentialKind::Passkey, BackupState::DeviceBound));
        assert_eq!((credential.sign_count, credential.aaguid), (0, [7; 16]));
        assert_eq!(credential.transports, ["usb", "nfc"]);
        let stored = serde_json::to_string(&credential).unwrap();
        assert_eq!(serde_json::from_str::<CredentialRecord>(&stored).unwrap(), credential);
    }
}

#[test]
fn client_data_must_match_ceremony_challenge_and_origin() {
    let (_, sound) = es256();
    let with = |old: &str, new: &str| passkey(&sound.clone().saying(old, new).registered()).map(|_| ());
    let other_challenge = CHALLENGE.to_string().replacen("BQ", "BA", 1);
    for (old, new, expected) in [
        ("webauthn.create", "webauthn.get", Err(CeremonyError::OtherCeremony)),
        ("webauthn.create", "payment.get", Err(CeremonyError::OtherCeremony)),
        (&CHALLENGE.to_string(), &other_challenge, Err(CeremonyError::OtherChallenge)),
        (&CHALLENGE.to_string(), "", Err(CeremonyError::OtherChallenge)),
        (ORIGIN, "http://id.example.test", Err(CeremonyError::OtherOrigin)),
        (ORIGIN, "https://id.example.test:8443", Err(CeremonyError::OtherOrigin)),
        (ORIGIN, "https://evil.id.example.test", Err(CeremonyError::OtherOrigin)),
        (ORIGIN, "https://example.test", Err(CeremonyError::OtherOrigin)),
        (ORIGIN, "https://id.example.test/", Err(CeremonyError::OtherOrigin)),
        (ORIGIN, "https://id.example.test.evil.test", Err(CeremonyError::OtherOrigin)),
        (ORIGIN, "null", Err(CeremonyError::OtherOrigin)),
        (":false", ":true", Err(CeremonyError::CrossOrigin)),
        (":false", r#":false,"topOrigin":"https://id.example.test""#, Err(CeremonyError::CrossOrigin)),
        (":false", r#":false,"topOrigin":null"#, Err(CeremonyError::CrossOrigin)),
        // JSON that the specification does not permit.
        (":false", r#":"false""#, Err(CeremonyError::ClientData)),
        (":false", ":null", Err(CeremonyError::ClientData)),
        (":false", r#":false,"type":"webauthn.create""#, Err(CeremonyError::ClientData)),
        (":false}", r#":false}{"type":"webauthn.create"}"#, Err(CeremonyError::ClientData)),
        ("\"webauthn.create\"", "1", Err(CeremonyError::ClientData)),
        ("\"type\"", "\"Type\"", Err(CeremonyError::ClientData)),
        // Variations that browsers may send.
        (r#","crossOrigin":false"#, "", Ok(())),
        (":false", r#":false,"tokenBinding":{"status":"supported"},"x1b9":[[{}]]"#, Ok(())),
        ("\"type\"", " \"\\u0074ype\"", Ok(())),
        ("{", "\u{feff}{", Ok(())),
    ] {
        assert_eq!(with(old, new), expected, "{old} {new}");
    }
    let as_array = format!(r#"["webauthn.create","{CHALLENGE}","{ORIGIN}",false,false]"#);
    let not_utf8 = [sound.client_data.trim_end_matches('}').as_bytes(), b",\"x\":\"\xff\"}"].concat();
    for wrong in [&b""[..], b"null", b"{}", as_array.as_bytes(), &not_utf8] {
        let answer = registered(&sound.id, wrong, &sound.attestation_object());
        assert_eq!(passkey(&answer), Err(CeremonyError::ClientData));
    }
}

#[test]
fn authenticator_data_must_match_the_site_and_confirm_presence() {
    let (_, sound) = es256();
    let with_flags = |flags, kind| {
        let made = register(&Ceremony { flags, ..sound.clone() }.registered(), kind);
        made.map(|made| made.credential.backup)
    };
    let (passkey, key) = (CredentialKind::Passkey, CredentialKind::SecurityKey);
    for (flags, kind, expected) in [
        (UV | AT, passkey, Err(CeremonyError::NotPresent)),
        (UV | AT, key, Err(CeremonyError::NotPresent)),
        (UP | AT, passkey, Err(CeremonyError::NotVerified)),
        (UP | AT, key, Ok(BackupState::DeviceBound)),
        (UP | UV | AT | BS, passkey, Err(CeremonyError::BackupFlags)),
        (UP | UV | AT | BE, passkey, Ok(BackupState::Eligible)),
        (UP | UV | AT | BE | BS, passkey, Ok(BackupState::BackedUp)),
        // Reserved bits.
        (UP | UV | AT | 1 << 1 | 1 << 5, passkey, Ok(BackupState::DeviceBound)),
    ] {
        assert_eq!(with_flags(flags, kind), expected, "{flags:b} {kind:?}");
    }
    for rp_id in ["example.test", "ID.example.test", "evil.test", ""] {
        let other = Ceremony { rp_id: rp_id.into(), ..sound.clone() };
        assert_eq!(register(&other.registered(), passkey), Err(CeremonyError::OtherRelyingParty));
    }
    let without = Ceremony { flags: UP | UV, attested: Vec::new(), ..sound.clone() };
    assert_eq!(register(&without.registered(), passkey), Err(CeremonyError::NoCredential));
}

#[test]
fn authenticator_data_must_have_their_declared_length() {
    let (authenticator, sound) = es256();
    let extensions = |extensions: Vec<u8>, flags| Ceremony { extensions, flags: sound.flags | flags, ..sound.clone() };
    let asked = map(&[(text("credProtect"), int(2)), (text("hmac-secret"), vec![0xf5])]);
    for (bent, expected) in [
        (extensions(asked.clone(), ED), Ok(())),
        (extensions(asked.clone(), 0), Err(CeremonyError::AuthenticatorDataLength)),
        (extensions(Vec::new(), ED), Err(CeremonyError::AuthenticatorDataCbor(CborFault::Truncated))),
        (extensions([asked, vec![0]].concat(), ED), Err(CeremonyError::AuthenticatorDataLength)),
        (extensions(int(1), ED), Err(CeremonyError::AuthenticatorDataCbor(CborFault::Shape))),
        (
            extensions(map(&[(text("b"), int(1)), (text("a"), int(1))]), ED),
            Err(CeremonyError::AuthenticatorDataCbor(CborFault::KeyOrder)),
        ),
        (
            Ceremony { attested: attested(&[7; 16], &authenticator.id, &[]), ..sound.clone() },
            Err(CeremonyError::AuthenticatorDataCbor(CborFault::Truncated)),
        ),
        (Ceremony { attested: vec![7; 17], ..sound.clone() }, Err(CeremonyError::AuthenticatorDataLength)),
        (
            // The length of the ID exceeds the data that follow.
            Ceremony { attested: [&[7; 16][..], &[0xff, 0xff], &[1; 200]].concat(), ..sound.clone() },
            Err(CeremonyError::AuthenticatorDataLength),
        ),
    ] {
        assert_eq!(passkey(&bent.registered()).map(|_| ()), expected);
    }
}

#[test]
fn the_attestation_object_has_three_members_and_its_statement_is_ignored() {
    let (_, sound) = es256();
    let data = || bytes(&sound.authenticator_data());
    let none = || (text("fmt"), text("none"));
    let object = |members: &[(Vec<u8>, Vec<u8>)]| registered(&sound.id, sound.client_data.as_bytes(), &map(members));
    let statement = map(&[(text("alg"), int(-7)), (text("sig"), bytes(&[9; 70]))]);
    let shape = Err(CeremonyError::AttestationObject(CborFault::Shape));
    for (members, expected) in [
        (vec![none(), (text("attStmt"), map(&[])), (text("authData"), data())], Ok(())),
        (vec![(text("fmt"), text("packed")), (text("attStmt"), statement.clone()), (text("authData"), data())], Ok(())),
        (vec![(text("fmt"), text("x")), (text("attStmt"), map(&[])), (text("authData"), data())], Ok(())),
        (vec![none(), (text("attStmt"), statement), (text("authData"), data())], Err(CeremonyError::StatementOfNone)),
        (
            vec![none(), (text("authData"), data()), (text("attStmt"), map(&[]))],
            Err(CeremonyError::AttestationObject(CborFault::KeyOrder)),
        ),
        (vec![none(), (text("attStmt"), map(&[]))], shape),
        (vec![none(), (text("attStmt"), int(1)), (text("authData"), data())], shape),
        (vec![(text("fmt"), int(1)), (text("attStmt"), map(&[])), (text("authData"), data())], shape),
        (vec![none(), (text("attStmt"), map(&[])), (text("authData"), text("x"))], shape),
        (vec![none(), (text("epAtt"), vec![0xf5]), (text("attStmt"), map(&[])), (text("authData"), data())], shape),
    ] {
        assert_eq!(passkey(&object(&members)).map(|_| ()), expected);
    }
    for (wrong, fault) in
        [(&b"\x01"[..], CborFault::Shape), (b"", CborFault::Truncated), (b"\xa0\x00", CborFault::Trailing)]
    {
        let answer = registered(&sound.id, sound.client_data.as_bytes(), wrong);
        assert_eq!(passkey(&answer), Err(CeremonyError::AttestationObject(fault)));
    }
}

#[test]
fn the_credential_id_must_be_consistent_and_of_permitted_length() {
    let (authenticator, sound) = es256();
    let other = Ceremony { attested: attested(&[7; 16], &[0x1e; 32], &authenticator.cose_key()), ..sound.clone() };
    assert_eq!(passkey(&other.registered()), Err(CeremonyError::OtherId));
    for (length, expected) in
        [(15, Err(CeremonyError::IdLength)), (16, Ok(())), (1023, Ok(())), (1024, Err(CeremonyError::IdLength))]
    {
        let id = vec![3; length];
        let made = Ceremony { attested: attested(&[7; 16], &id, &authenticator.cose_key()), id, ..sound.clone() };
        assert_eq!(passkey(&made.registered()).map(|_| ()), expected, "{length}");
    }
}

#[test]
fn the_answer_must_be_the_json_of_a_credential() {
    let (_, sound) = es256();
    let sound = sound.registered();
    let with = |pointer: &str, value: Value| {
        let mut answer = sound.clone();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        answer.pointer_mut(parent).unwrap()[name] = value;
        passkey(&answer).map(|_| ())
    };
    for (pointer, value, expected) in [
        ("/type", json!("password"), Err(CeremonyError::ResponseJson)),
        ("/id", json!("AAAA"), Err(CeremonyError::IdText)),
        ("/response", json!([]), Err(CeremonyError::ResponseJson)),
        ("/response/clientDataJSON", json!(1), Err(CeremonyError::ResponseJson)),
        ("/response/clientDataJSON", json!("a+/="), Err(CeremonyError::ResponseJson)),
        ("/response/attestationObject", json!(null), Err(CeremonyError::ResponseJson)),
        ("/response/transports", json!("usb"), Err(CeremonyError::ResponseJson)),
        ("/response/transports", json!([]), Ok(())),
        ("/response/publicKey", json!("ignored"), Ok(())),
        ("/clientExtensionResults", json!({"credProps": {"rk": 1}}), Err(CeremonyError::ResponseJson)),
        ("/clientExtensionResults", json!({"appid": true}), Ok(())),
        ("/authenticatorAttachment", json!(null), Ok(())),
    ] {
        assert_eq!(with(pointer, value.clone()), expected, "{pointer} {value}");
    }
    for id in ["", "AAAA=", "Ä", "HR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR0dHR1"] {
        let mut answer = sound.clone();
        (answer["id"], answer["rawId"]) = (id.into(), id.into());
        let expected = if id.is_empty() { CeremonyError::IdLength } else { CeremonyError::IdText };
        assert_eq!(passkey(&answer), Err(expected), "{id}");
    }
    let mut long = sound.clone();
    long["padding"] = "x".repeat(16 * 1024).into();
    assert_eq!(passkey(&long), Err(CeremonyError::TooLong));
    let mut tpm = sound.clone();
    tpm["padding"] = "x".repeat(12 * 1024).into();
    assert!(passkey(&tpm).is_ok());
    let twice = sound.to_string().replacen('{', r#"{"type":"public-key","#, 1);
    assert_eq!(
        sealgate_domain::webauthn::RegistrationResponse::parse(&twice).map(|_| ()),
        Err(CeremonyError::ResponseJson)
    );
}

/// Each error belongs to one of three groups, which determine the message.
#[test]
fn a_refusal_names_the_responsible_party() {
    for (error, blame) in [
        (CeremonyError::NotAKey, CeremonyBlame::Client),
        (CeremonyError::NotVerified, CeremonyBlame::User),
        (CeremonyError::OtherOrigin, CeremonyBlame::Misuse),
        (CeremonyError::SignCount { presented: 1 }, CeremonyBlame::Misuse),
    ] {
        assert_eq!(error.blame(), blame);
    }
}
