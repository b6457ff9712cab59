//! Compares the ceremonies with `@simplewebauthn/server`, over responses of a software
//! authenticator modified in hundreds of ways.
//!
//! Both accept a response and read the same from it, or both reject it, or the difference is listed
//! with its reason.

use std::collections::BTreeSet;

use sealgate_domain::webauthn::{
    AssertionPurpose, AssertionResponse, AssertionTerms, BackupState, CeremonyChallenge, CeremonyError, CredentialKind,
    CredentialOwner, CredentialRecord, KeyAlgorithm, RegistrationResponse, RegistrationTerms, RelyingParty,
    VerifiedAssertion,
};
use serde_json::{Value, json};

use crate::authenticator::{
    AT, Authenticator, BE, BS, Ceremony, ED, UP, UV, asserted, attested, bytes, int, map, registered, rsa_key, text,
};
use crate::mutate::Chance;
use crate::peer::{Reply, ask};

const ORIGIN: &str = "https://id.example.test";
const RP_ID: &str = "id.example.test";
const CHALLENGE: CeremonyChallenge = CeremonyChallenge::from_random([5; 32]);

/// Number of randomly modified responses of each kind, algorithm and ceremony.
const BENT: usize = 60;

/// A response and the results of both implementations.
struct Case {
    what: String,
    question: Value,
    ours: Result<Value, CeremonyError>,
}

/// Intended difference between the implementations. The test fails if one never occurs.
struct Difference {
    /// Part of the description of the modification.
    what: &'static str,
    /// Beginning of our error, or "taken".
    ours: &'static str,
    /// Part of their error message, or "taken".
    theirs: &'static str,
    why: &'static str,
}

/// Cases in which Sealgate and the reference differ. In no case does Sealgate accept a proof
/// (signature, challenge, origin, relying party, presence or verification of the user) that the
/// reference rejects.
const DIFFERENCES: &[Difference] = &[
    Difference {
        what: "client data",
        ours: "CrossOrigin",
        theirs: "taken",
        why: "they check frames only in assertions with a topOrigin; no ceremony of Sealgate runs in a frame",
    },
    Difference {
        what: "signature",
        ours: "Signature",
        theirs: "taken",
        why: "their DER reader ignores a wrong length of the sequence",
    },
    Difference {
        what: "client data",
        ours: "ClientData",
        theirs: "taken",
        why: "JSON.parse accepts repeated members and any value for a flag, and their decoder accepts invalid UTF-8",
    },
    Difference {
        what: "assertion",
        ours: "BackupEligibilityChanged",
        theirs: "taken",
        why: "they do not receive the backup eligibility at registration (7.2 step 19)",
    },
    Difference {
        what: "assertion",
        ours: "UnexpectedCredential",
        theirs: "taken",
        why: "6.1 forbids a credential in an assertion; they ignore it",
    },
    Difference {
        what: "user handle",
        ours: "NoUserHandle",
        theirs: "taken",
        why: "their caller finds the account (7.2 step 6)",
    },
    Difference {
        what: "user handle",
        ours: "OtherUserHandle",
        theirs: "taken",
        why: "their caller compares the account (7.2 step 6)",
    },
    Difference {
        what: "registration",
        ours: "OtherId",
        theirs: "taken",
        why: "they use the authenticator's ID and do not compare the browser's",
    },
    Difference {
        what: "id of",
        ours: "IdLength",
        theirs: "taken",
        why: "they accept IDs shorter than 16 bytes (4) and longer than 1023 (7.1 step 25)",
    },
    Difference {
        what: "registration",
        ours: "NotAKey",
        theirs: "taken",
        why: "they do not validate a key before its first signature: points off the curve, short moduli, additional members",
    },
    Difference {
        what: "registration: attestation",
        ours: "AttestationObject(",
        theirs: "taken",
        why: "they accept CBOR that is not canonical or not exactly one value (2: decoders SHOULD reject it)",
    },
    Difference {
        what: "",
        ours: "AuthenticatorDataCbor(",
        theirs: "taken",
        why: "they accept CBOR with keys out of order, tags and any depth in keys and extensions (2: decoders SHOULD reject it)",
    },
    Difference {
        what: "tokenBinding",
        ours: "taken",
        theirs: "okenBinding",
        why: "Level 3 has dropped the member, so it is ignored",
    },
    Difference {
        what: "copied credential",
        ours: "taken",
        theirs: "was lower than expected",
        why: "devices that share a key do not share its counter: recorded in the audit log, not refused (6.1.1)",
    },
    Difference {
        what: "attestation: packed",
        ours: "taken",
        theirs: "",
        why: "they verify attestation statements; Sealgate neither requests nor reads them",
    },
    Difference {
        what: "attestation",
        ours: "taken",
        theirs: "Unsupported Attestation Format",
        why: "the statement of an unknown format is not read either",
    },
];

fn relying_party() -> RelyingParty {
    RelyingParty::new(&ORIGIN.parse().unwrap(), None).unwrap()
}

fn registration(what: &str, answer: &Value, kind: CredentialKind) -> Case {
    let relying_party = relying_party();
    let terms = RegistrationTerms { relying_party: &relying_party, challenge: &CHALLENGE, kind };
    let ours = RegistrationResponse::parse(&answer.to_string()).and_then(|answer| answer.verify(&terms)).map(|made| {
        let made = made.credential;
        json!({
            "id": made.id,
            "key": made.key,
            "count": made.sign_count,
            "copied": made.backup.is_eligible(),
            "backedUp": made.backup == BackupState::BackedUp,
        })
    });
    let question = json!({
        "ask": "registration", "answer": answer, "challenge": CHALLENGE.to_string(), "origin": ORIGIN, "rpId": RP_ID,
        "verification": kind == CredentialKind::Passkey,
    });
    Case { what: format!("registration: {what}"), question, ours }
}

fn assertion(
    what: &str,
    answer: &Value,
    purpose: AssertionPurpose,
    credential: &CredentialRecord,
    handle: &Authenticator,
) -> Case {
    let relying_party = relying_party();
    let terms = AssertionTerms { relying_party: &relying_party, challenge: &CHALLENGE, purpose };
    let credentials = [credential.clone()];
    let account = CredentialOwner { handle: &handle.handle, credentials: &credentials };
    let facts = |used: VerifiedAssertion<'_>| {
        json!({
            "id": used.credential.id,
            "count": used.sign_count,
            "verified": used.user_verified,
            "copied": used.backup.is_eligible(),
            "backedUp": used.backup == BackupState::BackedUp,
        })
    };
    let parsed = AssertionResponse::parse(&answer.to_string());
    let ours = parsed.and_then(|answer| answer.verify(&terms, &account).map(facts));
    let question = json!({
        "ask": "assertion", "answer": answer, "challenge": CHALLENGE.to_string(), "origin": ORIGIN, "rpId": RP_ID,
        "verification": purpose.needs_verification(),
        "credential": { "id": credential.id, "key": credential.key, "count": credential.sign_count },
    });
    Case { what: format!("assertion: {what}"), question, ours }
}

/// Valid ceremonies of one authenticator, and all modified ones.
struct Bench {
    authenticator: Authenticator,
    credential: CredentialRecord,
    cases: Vec<Case>,
}

impl Bench {
    fn new(algorithm: KeyAlgorithm) -> Self {
        let authenticator = Authenticator::new(algorithm, &[0x1d; 32]);
        let relying_party = relying_party();
        let terms =
            RegistrationTerms { relying_party: &relying_party, challenge: &CHALLENGE, kind: CredentialKind::Passkey };
        let made = authenticator.registration(ORIGIN, RP_ID, &CHALLENGE).registered().to_string();
        let made = RegistrationResponse::parse(&made).unwrap().verify(&terms).unwrap();
        let credential = CredentialRecord { sign_count: 7, ..made.credential };
        Self { authenticator, credential, cases: Vec::new() }
    }

    fn made(&self) -> Ceremony {
        self.authenticator.registration(ORIGIN, RP_ID, &CHALLENGE)
    }

    fn used(&self) -> Ceremony {
        self.authenticator.assertion(ORIGIN, RP_ID, &CHALLENGE)
    }

    fn register(&mut self, what: &str, ceremony: &Ceremony) {
        self.cases.push(registration(what, &ceremony.registered(), CredentialKind::Passkey));
    }

    fn sign_in(&mut self, what: &str, ceremony: &Ceremony) {
        let answer = ceremony.asserted(&self.authenticator);
        self.sign_in_with(what, &answer, AssertionPurpose::SignIn);
    }

    fn sign_in_with(&mut self, what: &str, answer: &Value, purpose: AssertionPurpose) {
        self.cases.push(assertion(what, answer, purpose, &self.credential, &self.authenticator));
    }

    /// Adds the same modification of both ceremonies. It is made before signing.
    fn both(&mut self, what: &str, change: impl Fn(Ceremony) -> Ceremony) {
        let (made, used) = (change(self.made()), change(self.used()));
        self.register(what, &made);
        self.sign_in(what, &used);
    }

    fn client_data(&mut self) {
        for (old, new) in [
            ("webauthn.", "webauthn"),
            ("webauthn.", "payment."),
            ("BQUF", "BQUG"),
            ("BQUF", "BQUF="),
            ("https:", "http:"),
            ("id.example.test\"", "id.example.test:444\""),
            ("id.example.test\"", "id.example.test/\""),
            ("id.example", "evil.example"),
            (":false", ":true"),
            (":false", ":true,\"topOrigin\":\"https://evil.test\""),
            (":false", ":false,\"topOrigin\":\"https://evil.test\""),
            (":false", ":false,\"topOrigin\":null"),
            (":false", ":null"),
            (":false", ":\"\""),
            (":false", ":false,\"crossOrigin\":false"),
            (":false", ":false,\"origin\":\"https://evil.test\""),
            (":false", ":false,\"x\":{\"a\":[1,2,3]},\"x\":1"),
            (":false", ":false,\"tokenBinding\":{\"status\":\"present\",\"id\":\"x\"}"),
            (":false", ":false,\"tokenBinding\":\"x\""),
            (",\"crossOrigin\":false", ""),
            ("{", "\u{feff}{"),
            ("{", " \n{"),
            ("}", "} "),
            ("}", "}}"),
            ("}", ""),
            ("\"type\"", "\"\\u0074ype\""),
            ("\"type\"", "'type'"),
        ] {
            self.both(&format!("client data, {old} becomes {new}"), |ceremony| ceremony.saying(old, new));
        }
    }

    fn authenticator_data(&mut self) {
        let made = self.made().attested;
        for flags in 0..=255 {
            let extensions = if flags & ED == 0 { Vec::new() } else { map(&[(text("credProtect"), int(2))]) };
            let attested = if flags & AT == 0 { Vec::new() } else { made.clone() };
            self.both(&format!("flags {flags:08b}"), |ceremony| Ceremony {
                flags,
                extensions: extensions.clone(),
                attested: attested.clone(),
                ..ceremony
            });
        }
        for (what, extensions) in [
            ("none", vec![]),
            ("no map", int(1)),
            ("keys out of order", map(&[(text("b"), int(1)), (text("a"), int(1))])),
            ("a key twice", map(&[(text("a"), int(1)), (text("a"), int(1))])),
            ("a number in two bytes", map(&[(text("a"), vec![0x18, 1])])),
            ("a fraction", map(&[(text("a"), vec![0xf9, 0x3c, 0])])),
            ("a tag", map(&[(text("a"), vec![0xc1, 1])])),
            ("of open length", vec![0xbf, 0xff]),
            ("deep", map(&[(text("a"), vec![0x81, 0x81, 0x81, 0x81, 0x81, 1])])),
            ("and a byte more", [map(&[]), vec![0]].concat()),
        ] {
            self.both(&format!("extensions: {what}"), |ceremony| Ceremony {
                flags: ceremony.flags | ED,
                extensions: extensions.clone(),
                ..ceremony
            });
        }
        for rp_id in ["example.test", "evil.test", "ID.example.test", ""] {
            self.both(&format!("relying party {rp_id}"), |ceremony| Ceremony { rp_id: rp_id.into(), ..ceremony });
        }
        for sign_count in [0, 1, 6, 7, 8, u32::MAX] {
            self.both(&format!("count {sign_count}"), |ceremony| Ceremony { sign_count, ..ceremony });
        }
    }

    fn keys(&mut self) {
        let key = self.authenticator.cose_key();
        let put = |at: usize, byte: u8| {
            let mut key = key.clone();
            key[at] = byte;
            key
        };
        let last = key.len() - 1;
        let more = [&[key[0] + 1], &key[1..], &int(-9), &int(1)].concat();
        let long = [&[0xb8, key[0] & 0x1f], &key[1..]].concat();
        for (what, key) in [
            ("as it is", key.clone()),
            ("of another kind", put(2, 4)),
            ("of another algorithm", put(4, 0x27)),
            ("with another last byte", put(last, key[last] ^ 1)),
            ("with a member more", more),
            ("with a member less", [&[key[0] - 1], &key[1..]].concat()),
            ("with a long count", long),
            ("none", Vec::new()),
            ("a number", int(1)),
            ("RSA of 1024 bits", rsa_key(&[0xff; 128], &[1, 0, 1])),
            ("RSA of 2048 bits", rsa_key(&[0xff; 256], &[1, 0, 1])),
            ("RSA of 8192 bits", rsa_key(&[0xff; 1024], &[1, 0, 1])),
            ("RSA with the exponent 1", rsa_key(&[0xff; 256], &[1])),
        ] {
            let made = self.made();
            let attested = attested(&[7; 16], &made.id, &key);
            self.register(&format!("key: {what}"), &Ceremony { attested, ..made });
        }
    }

    fn ids(&mut self) {
        for length in [0, 1, 15, 16, 64, 1023, 1024] {
            let (id, key) = (vec![3; length], self.authenticator.cose_key());
            let attested = attested(&[7; 16], &id, &key);
            let made = Ceremony { id, attested, ..self.made() };
            self.register(&format!("id of {length} bytes"), &made);
        }
        let attested = attested(&[7; 16], &[4; 32], &self.authenticator.cose_key());
        let made = Ceremony { attested, ..self.made() };
        self.register("another id inside", &made);
        for handle in [None, Some(""), Some("AAAA"), Some("!")] {
            let used = Ceremony { user_handle: handle.map(str::to_owned), ..self.used() };
            self.sign_in(&format!("user handle {handle:?}"), &used);
        }
    }

    fn attestations(&mut self) {
        let packed = map(&[(text("alg"), int(-7)), (text("sig"), bytes(&[9; 70]))]);
        for (what, format, statement) in [
            ("none", "none", map(&[])),
            ("none with a statement", "none", packed.clone()),
            ("packed with a wrong signature", "packed", packed),
            ("packed without a statement", "packed", map(&[])),
            ("of no known format", "x", map(&[])),
            ("no map", "none", int(1)),
        ] {
            let made = Ceremony { format, statement, ..self.made() };
            self.register(&format!("attestation: {what}"), &made);
        }
        let made = self.made();
        let data = || bytes(&made.authenticator_data());
        for (what, object) in [
            (
                "out of order",
                [(text("fmt"), text("none")), (text("authData"), data()), (text("attStmt"), map(&[]))].to_vec(),
            ),
            ("without data", [(text("fmt"), text("none")), (text("attStmt"), map(&[]))].to_vec()),
            ("without a format", [(text("attStmt"), map(&[])), (text("authData"), data())].to_vec()),
            ("of nothing", Vec::new()),
        ] {
            let answer = registered(&made.id, made.client_data.as_bytes(), &map(&object));
            self.cases.push(registration(&format!("attestation: {what}"), &answer, CredentialKind::Passkey));
        }
    }

    /// Adds modified members of the response's JSON.
    fn members(&mut self) {
        let (made, used) = (self.made().registered(), self.used().asserted(&self.authenticator));
        for (pointer, value) in [
            ("/type", json!("password")),
            ("/id", json!("AAAA")),
            ("/rawId", json!("AAAA")),
            ("/response", json!({})),
            ("/response/clientDataJSON", json!("")),
            ("/response/clientDataJSON", json!(1)),
            ("/clientExtensionResults", json!({ "credProps": {} })),
            ("/unknown", json!([1])),
        ] {
            let bend = |answer: &Value| {
                let mut bent = answer.clone();
                let (parent, name) = pointer.rsplit_once('/').unwrap();
                bent.pointer_mut(parent).unwrap()[name] = value.clone();
                bent
            };
            let what = format!("{pointer} is {value}");
            self.cases.push(registration(&what, &bend(&made), CredentialKind::Passkey));
            self.sign_in_with(&what, &bend(&used), AssertionPurpose::SignIn);
        }
    }

    /// Adds randomly modified bytes. They are changed after signing.
    fn bent(&mut self, chance: &mut Chance) {
        let (made, used) = (self.made(), self.used());
        let (data, used_text) = (used.authenticator_data(), used.client_data.as_bytes());
        let signature = self.authenticator.signature(&data, used_text);
        let handle = used.user_handle.as_deref();
        // The two numbers of ECDSA are in a sequence; its length is the second byte.
        for less in 1..=8 {
            let mut bent = signature.clone();
            bent[1] = bent[1].wrapping_sub(less);
            let answer = asserted(&used.id, used_text, &data, &bent, handle);
            self.sign_in_with(&format!("signature, {less} off its length"), &answer, AssertionPurpose::SignIn);
        }
        for _ in 0..BENT {
            let (what, object) = chance.bend(&made.attestation_object());
            let answer = registered(&made.id, made.client_data.as_bytes(), &object);
            self.cases.push(registration(&format!("attestation object, {what}"), &answer, CredentialKind::Passkey));
            let (what, text) = chance.bend(made.client_data.as_bytes());
            let answer = registered(&made.id, &text, &made.attestation_object());
            self.cases.push(registration(&format!("client data, {what}"), &answer, CredentialKind::Passkey));

            let (what, bent) = chance.bend(&data);
            let answer = asserted(&used.id, used_text, &bent, &signature, handle);
            self.sign_in_with(&format!("authenticator data, {what}"), &answer, AssertionPurpose::SignIn);
            let (what, bent) = chance.bend(used_text);
            let answer = asserted(&used.id, &bent, &data, &signature, handle);
            self.sign_in_with(&format!("client data, {what}"), &answer, AssertionPurpose::SignIn);
            let (what, bent) = chance.bend(&signature);
            let answer = asserted(&used.id, used_text, &data, &bent, handle);
            self.sign_in_with(&format!("signature, {what}"), &answer, AssertionPurpose::SignIn);
        }
    }

    /// Adds ceremonies that need no verified user, and a credential that is copied between devices.
    fn others(&mut self) {
        for flags in [UP, UP | UV, UV, 0] {
            let made = Ceremony { flags: flags | AT, ..self.made() };
            let what = format!("security key, flags {flags:08b}");
            self.cases.push(registration(&what, &made.registered(), CredentialKind::SecurityKey));
            let used = Ceremony { flags, user_handle: None, ..self.used() };
            let answer = used.asserted(&self.authenticator);
            self.sign_in_with(&what, &answer, AssertionPurpose::SecondFactor);
        }
        self.credential.backup = BackupState::Eligible;
        for (flags, sign_count) in
            [(UP | UV | BE, 8), (UP | UV | BE | BS, 8), (UP | UV | BE, 7), (UP | UV | BE, 0), (UP | UV, 8)]
        {
            let used = Ceremony { flags, sign_count, ..self.used() };
            self.sign_in(&format!("copied credential, flags {flags:08b}, count {sign_count}"), &used);
        }
        self.credential.sign_count = 0;
        let used = Ceremony { flags: UP | UV | BE | BS, sign_count: 0, ..self.used() };
        self.sign_in("copied credential without counter", &used);
        let other = Authenticator::new(self.credential.key.algorithm(), &self.authenticator.id);
        let answer = used.asserted(&other);
        self.sign_in_with("another user's key", &answer, AssertionPurpose::SignIn);
    }
}

#[test]
fn sealgate_and_the_reference_agree_on_every_answer_except_listed_ones() {
    let mut chance = Chance::new(2);
    let mut cases = Vec::new();
    for algorithm in KeyAlgorithm::OFFERED {
        let mut bench = Bench::new(algorithm);
        bench.client_data();
        bench.authenticator_data();
        bench.keys();
        bench.ids();
        bench.attestations();
        bench.members();
        bench.bent(&mut chance);
        bench.others();
        cases.extend(bench.cases);
    }
    let questions: Vec<Value> = cases.iter().map(|case| case.question.clone()).collect();
    let (mut faults, mut met, mut taken) = (BTreeSet::new(), BTreeSet::new(), 0);
    for (case, reply) in cases.iter().zip(ask(&questions)) {
        match (&case.ours, &reply) {
            (Err(_), Reply::Refused(_)) => {}
            (Ok(ours), Reply::Accepted(theirs)) if ours == theirs => taken += 1,
            _ => match listed(case, &reply) {
                Some(why) => _ = met.insert(why),
                None => _ = faults.insert(format!("{}: {:?}, and they: {reply:?}", case.what, case.ours)),
            },
        }
    }
    let never = DIFFERENCES.iter().filter(|difference| !met.contains(difference.why));
    faults.extend(never.map(|difference| format!("listed, and never met: {}", difference.why)));
    assert!(
        faults.is_empty(),
        "{} of {}:\n{}",
        faults.len(),
        cases.len(),
        faults.into_iter().collect::<Vec<_>>().join("\n")
    );
    assert!(cases.len() > 2000 && taken > 200, "{} answers, {taken} taken by both", cases.len());
}

/// Returns why the two may differ over this response, or `None` if they must not.
fn listed(case: &Case, reply: &Reply) -> Option<&'static str> {
    let (ours, theirs) = match (&case.ours, reply) {
        (Err(error), Reply::Accepted(_)) => (format!("{error:?}"), "taken"),
        (Ok(_), Reply::Refused(words)) => ("taken".to_owned(), words.as_str()),
        _ => return None,
    };
    let difference = DIFFERENCES.iter().find(|difference| {
        case.what.contains(difference.what) && ours.starts_with(difference.ours) && theirs.contains(difference.theirs)
    })?;
    Some(difference.why)
}
