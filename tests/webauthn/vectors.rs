//! Test vectors of Web Authentication Level 3, section "Test Vectors" (W3C): all fifteen pairs of
//! ceremonies. `vectors.json` contains their values.

use sealgate_domain::secret::base64url;
use sealgate_domain::webauthn::{
    AssertionPurpose, AssertionResponse, AssertionTerms, CeremonyChallenge, CeremonyError, CredentialKind,
    CredentialOwner, RelyingParty, UserHandle,
};
use serde::Deserialize;

use crate::authenticator::{asserted, registered};
use crate::register_for;

#[derive(Deserialize)]
struct Vector {
    section: String,
    registration: RegistrationVector,
    authentication: AuthenticationVector,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RegistrationVector {
    challenge: String,
    #[serde(rename = "credential_id")]
    credential_id: String,
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    attestation_object: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticationVector {
    challenge: String,
    authenticator_data: String,
    #[serde(rename = "clientDataJSON")]
    client_data: String,
    signature: String,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    assert_eq!(hex.len() % 2, 0);
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Returns the challenge and the client data that contain it. One vector has a challenge of 128
/// bytes; it is replaced, because the server only issues challenges of 32 bytes.
fn challenge(hex: &str, client_data: &str) -> (CeremonyChallenge, Vec<u8>) {
    let (challenge, client_data) = (bytes(hex), bytes(client_data));
    if let Some(challenge) = CeremonyChallenge::parse(&base64url(&challenge)) {
        return (challenge, client_data);
    }
    assert_eq!(challenge.len(), 128);
    let ours = CeremonyChallenge::from_random([1; 32]);
    let text = String::from_utf8(client_data).unwrap();
    (ours, text.replace(&base64url(&challenge), &ours.to_string()).into_bytes())
}

/// Returns the result of a vector: of its registration and, if that is accepted, of its assertion.
fn outcome(vector: &Vector) -> Result<(), CeremonyError> {
    let relying_party = RelyingParty::new(&"https://example.org".parse().unwrap(), None).unwrap();
    let made = &vector.registration;
    let (made_challenge, client_data) = challenge(&made.challenge, &made.client_data);
    let id = bytes(&made.credential_id);
    let answer = registered(&id, &client_data, &bytes(&made.attestation_object));
    let credential =
        register_for(&relying_party, &made_challenge, &answer.to_string(), CredentialKind::SecurityKey)?.credential;
    assert_eq!(credential.id.as_bytes(), id);

    let used = &vector.authentication;
    let (challenge, client_data) = challenge(&used.challenge, &used.client_data);
    let answer = asserted(&id, &client_data, &bytes(&used.authenticator_data), &bytes(&used.signature), None);
    let purpose = AssertionPurpose::SecondFactor;
    let terms = AssertionTerms { relying_party: &relying_party, challenge: &challenge, purpose };
    let handle = UserHandle::from_random([0; 32]);
    let account = CredentialOwner { handle: &handle, credentials: &[credential] };
    AssertionResponse::parse(&answer.to_string())?.verify(&terms, &account).map(|_| ())
}

#[test]
fn every_vector_is_accepted_except_cross_origin_frames_and_other_algorithms() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 15);
    for vector in &vectors {
        let expected = match vector.section.trim_start_matches("sctn-test-vectors-") {
            "none-es256-crossOrigin" | "none-es256-topOrigin" => Err(CeremonyError::CrossOrigin),
            "packed-es384" | "packed-es512" | "packed-ed448" => Err(CeremonyError::AlgorithmNotOffered),
            _ => Ok(()),
        };
        assert_eq!(outcome(vector), expected, "{}", vector.section);
    }
}

#[test]
fn no_vector_is_accepted_with_another_vectors_signature() {
    let vectors = vectors();
    for (at, mut vector) in self::vectors().into_iter().enumerate() {
        if outcome(&vector).is_ok() {
            let other = &vectors[(at + 1) % vectors.len()];
            vector.authentication.signature.clone_from(&other.authentication.signature);
            assert_eq!(outcome(&vector), Err(CeremonyError::Signature), "{}", vector.section);
        }
    }
}
