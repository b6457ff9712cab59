//! WebAuthn ceremonies: the test vectors of the specification, each check separately, and responses
//! with changed bits or truncated parts.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/authenticator.rs"]
mod authenticator;

mod assertion;
mod keys;
mod mutations;
mod options;
mod registration;
mod vectors;

use authenticator::Authenticator;
use sealgate_domain::webauthn::{
    AssertionPurpose, AssertionResponse, AssertionTerms, CeremonyChallenge, CeremonyError, CredentialKind,
    CredentialOwner, CredentialRecord, KeyAlgorithm, RegistrationResponse, RegistrationTerms, RelyingParty,
    VerifiedRegistration,
};
use serde_json::Value;

const ORIGIN: &str = "https://id.example.test";
const RP_ID: &str = "id.example.test";
const CHALLENGE: CeremonyChallenge = CeremonyChallenge::from_random([5; 32]);

fn relying_party() -> RelyingParty {
    RelyingParty::new(&ORIGIN.parse().unwrap(), None).unwrap()
}

fn authenticator(algorithm: KeyAlgorithm) -> Authenticator {
    Authenticator::new(algorithm, &[0x1d; 32])
}

fn register(answer: &Value, kind: CredentialKind) -> Result<VerifiedRegistration, CeremonyError> {
    register_for(&relying_party(), &CHALLENGE, &answer.to_string(), kind)
}

fn register_for(
    relying_party: &RelyingParty,
    challenge: &CeremonyChallenge,
    answer: &str,
    kind: CredentialKind,
) -> Result<VerifiedRegistration, CeremonyError> {
    RegistrationResponse::parse(answer)?.verify(&RegistrationTerms { relying_party, challenge, kind })
}

/// Returns the credential record of an account after registration.
fn record(authenticator: &Authenticator, kind: CredentialKind) -> CredentialRecord {
    let made = register(&authenticator.registration(ORIGIN, RP_ID, &CHALLENGE).registered(), kind);
    CredentialRecord { sign_count: 7, ..made.unwrap().credential }
}

/// Result of an assertion: the counter, whether the user was verified, and whether the counter did
/// not increase.
type Asserted = Result<(u32, bool, bool), CeremonyError>;

fn assert_by(
    authenticator: &Authenticator,
    answer: &Value,
    purpose: AssertionPurpose,
    credentials: &[CredentialRecord],
) -> Asserted {
    let relying_party = relying_party();
    let terms = AssertionTerms { relying_party: &relying_party, challenge: &CHALLENGE, purpose };
    let account = CredentialOwner { handle: &authenticator.handle, credentials };
    let answer = AssertionResponse::parse(&answer.to_string())?;
    let verified = answer.verify(&terms, &account)?;
    assert_eq!(verified.credential.id, *answer.credential_id());
    Ok((verified.sign_count, verified.user_verified, verified.count_unchanged))
}
