//! Software authenticator and browser, whose answers can be changed before and after they are
//! signed.

#![allow(dead_code, reason = "each program of tests uses a part of this")]

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use sealgate_domain::secret::base64url;
use sealgate_domain::webauthn::{CeremonyChallenge, KeyAlgorithm, UserHandle};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

pub(crate) const UP: u8 = 1;
pub(crate) const UV: u8 = 1 << 2;
pub(crate) const BE: u8 = 1 << 3;
pub(crate) const BS: u8 = 1 << 4;
pub(crate) const AT: u8 = 1 << 6;
pub(crate) const ED: u8 = 1 << 7;

/// One credential and its private key.
pub(crate) struct Authenticator {
    pair: Pair,
    pub(crate) id: Vec<u8>,
    pub(crate) handle: UserHandle,
}

enum Pair {
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

/// Parts of a ceremony. Tests change a part and sign the result.
#[derive(Clone)]
pub(crate) struct Ceremony {
    pub(crate) id: Vec<u8>,
    /// Client data as JSON text.
    pub(crate) client_data: String,
    pub(crate) rp_id: String,
    pub(crate) flags: u8,
    pub(crate) sign_count: u32,
    /// AAGUID, credential ID and `COSE_Key`; present with the flag AT.
    pub(crate) attested: Vec<u8>,
    /// Extensions; present with the flag ED.
    pub(crate) extensions: Vec<u8>,
    pub(crate) format: &'static str,
    /// The attestation statement in CBOR.
    pub(crate) statement: Vec<u8>,
    pub(crate) user_handle: Option<String>,
}

impl Authenticator {
    pub(crate) fn new(algorithm: KeyAlgorithm, id: &[u8]) -> Self {
        let pair = match algorithm {
            KeyAlgorithm::Es256 => Pair::P256(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).unwrap()),
            KeyAlgorithm::EdDsa => Pair::Ed25519(Ed25519KeyPair::generate().unwrap()),
            KeyAlgorithm::Rs256 => Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()),
        };
        Self { pair, id: id.to_vec(), handle: UserHandle::from_random([0x42; 32]) }
    }

    /// Returns the public key as `COSE_Key`.
    pub(crate) fn cose_key(&self) -> Vec<u8> {
        match &self.pair {
            Pair::P256(pair) => {
                let point = pair.public_key().as_ref();
                map(&[
                    (int(1), int(2)),
                    (int(3), int(-7)),
                    (int(-1), int(1)),
                    (int(-2), bytes(&point[1..33])),
                    (int(-3), bytes(&point[33..])),
                ])
            }
            Pair::Ed25519(pair) => map(&[
                (int(1), int(1)),
                (int(3), int(-8)),
                (int(-1), int(6)),
                (int(-2), bytes(pair.public_key().as_ref())),
            ]),
            Pair::Rsa(pair) => {
                // PKCS #1: the headers of the sequence and of the modulus, with its leading zero,
                // then 256 bytes.
                rsa_key(&pair.public_key().as_ref()[9..9 + 256], &[1, 0, 1])
            }
        }
    }

    /// Returns a registration by an authenticator with a PIN, of a key that cannot be copied.
    pub(crate) fn registration(&self, origin: &str, rp_id: &str, challenge: &CeremonyChallenge) -> Ceremony {
        Ceremony {
            id: self.id.clone(),
            client_data: client_data("webauthn.create", origin, challenge),
            rp_id: rp_id.to_owned(),
            flags: UP | UV | AT,
            sign_count: 0,
            attested: attested(&[7; 16], &self.id, &self.cose_key()),
            extensions: Vec::new(),
            format: "none",
            statement: map(&[]),
            user_handle: None,
        }
    }

    /// Returns an assertion with this credential.
    pub(crate) fn assertion(&self, origin: &str, rp_id: &str, challenge: &CeremonyChallenge) -> Ceremony {
        Ceremony {
            client_data: client_data("webauthn.get", origin, challenge),
            flags: UP | UV,
            sign_count: 8,
            attested: Vec::new(),
            user_handle: Some(self.handle.to_string()),
            ..self.registration(origin, rp_id, challenge)
        }
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Vec<u8> {
        match &self.pair {
            Pair::P256(pair) => pair.sign(&SystemRandom::new(), message).unwrap().as_ref().to_vec(),
            Pair::Ed25519(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message, &mut signature).unwrap();
                signature
            }
        }
    }

    /// Returns the signature over an assertion.
    pub(crate) fn signature(&self, authenticator_data: &[u8], client_data: &[u8]) -> Vec<u8> {
        self.sign(&[authenticator_data, &Sha256::digest(client_data)].concat())
    }
}

impl Ceremony {
    pub(crate) fn authenticator_data(&self) -> Vec<u8> {
        let mut data = Sha256::digest(&self.rp_id).to_vec();
        data.push(self.flags);
        data.extend(self.sign_count.to_be_bytes());
        data.extend(&self.attested);
        data.extend(&self.extensions);
        data
    }

    pub(crate) fn attestation_object(&self) -> Vec<u8> {
        map(&[
            (text("fmt"), text(self.format)),
            (text("attStmt"), self.statement.clone()),
            (text("authData"), bytes(&self.authenticator_data())),
        ])
    }

    /// Returns the JSON of a registration.
    pub(crate) fn registered(&self) -> Value {
        registered(&self.id, self.client_data.as_bytes(), &self.attestation_object())
    }

    /// Returns the JSON of an assertion, signed in its current state.
    pub(crate) fn asserted(&self, by: &Authenticator) -> Value {
        let data = self.authenticator_data();
        let signature = by.signature(&data, self.client_data.as_bytes());
        asserted(&self.id, self.client_data.as_bytes(), &data, &signature, self.user_handle.as_deref())
    }

    /// Replaces a part of the client data's text.
    pub(crate) fn saying(mut self, old: &str, new: &str) -> Self {
        assert!(self.client_data.contains(old), "{}: {old}", self.client_data);
        self.client_data = self.client_data.replacen(old, new, 1);
        self
    }
}

/// Returns the `RegistrationResponseJSON` for these bytes.
pub(crate) fn registered(id: &[u8], client_data: &[u8], attestation_object: &[u8]) -> Value {
    json!({
        "id": base64url(id),
        "rawId": base64url(id),
        "type": "public-key",
        "authenticatorAttachment": "cross-platform",
        "clientExtensionResults": { "credProps": { "rk": true } },
        "response": {
            "clientDataJSON": base64url(client_data),
            "attestationObject": base64url(attestation_object),
            "transports": ["usb", "nfc"],
        },
    })
}

/// Returns the `AuthenticationResponseJSON` for these bytes.
pub(crate) fn asserted(
    id: &[u8],
    client_data: &[u8],
    authenticator_data: &[u8],
    signature: &[u8],
    user_handle: Option<&str>,
) -> Value {
    let mut answer = json!({
        "id": base64url(id),
        "rawId": base64url(id),
        "type": "public-key",
        "authenticatorAttachment": "cross-platform",
        "clientExtensionResults": {},
        "response": {
            "clientDataJSON": base64url(client_data),
            "authenticatorData": base64url(authenticator_data),
            "signature": base64url(signature),
        },
    });
    if let Some(handle) = user_handle {
        answer["response"]["userHandle"] = handle.into();
    }
    answer
}

/// Returns client data as browsers serialize them (Level 3 §5.8.1.1).
fn client_data(ceremony: &str, origin: &str, challenge: &CeremonyChallenge) -> String {
    format!(r#"{{"type":"{ceremony}","challenge":"{challenge}","origin":"{origin}","crossOrigin":false}}"#)
}

pub(crate) fn attested(aaguid: &[u8; 16], id: &[u8], key: &[u8]) -> Vec<u8> {
    [&aaguid[..], &u16::try_from(id.len()).unwrap().to_be_bytes(), id, key].concat()
}

pub(crate) fn rsa_key(n: &[u8], e: &[u8]) -> Vec<u8> {
    map(&[(int(1), int(3)), (int(3), int(-257)), (int(-1), bytes(n)), (int(-2), bytes(e))])
}

pub(crate) fn int(number: i64) -> Vec<u8> {
    if number < 0 { head(1, u64::try_from(-1 - number).unwrap()) } else { head(0, u64::try_from(number).unwrap()) }
}

pub(crate) fn bytes(bytes: &[u8]) -> Vec<u8> {
    [head(2, bytes.len() as u64), bytes.to_vec()].concat()
}

pub(crate) fn text(text: &str) -> Vec<u8> {
    [head(3, text.len() as u64), text.as_bytes().to_vec()].concat()
}

/// Encodes a map of members that are already in order.
pub(crate) fn map(members: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let members_of = members.iter().flat_map(|(key, value)| [key.clone(), value.clone()]);
    head(5, members.len() as u64).into_iter().chain(members_of.flatten()).collect()
}

fn head(major: u8, number: u64) -> Vec<u8> {
    let major = major << 5;
    match number {
        0..24 => vec![major | number.to_be_bytes()[7]],
        24..0x100 => vec![major | 0x18, number.to_be_bytes()[7]],
        0x100..0x1_0000 => [&[major | 0x19], &number.to_be_bytes()[6..]].concat(),
        0x1_0000..0x1_0000_0000 => [&[major | 0x1a], &number.to_be_bytes()[4..]].concat(),
        _ => [&[major | 0x1b], &number.to_be_bytes()[..]].concat(),
    }
}
