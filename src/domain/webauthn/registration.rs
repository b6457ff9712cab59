//! Registration of new credentials (Level 3 §7.1).

use serde::Deserialize;

use crate::webauthn::authenticator_data::AuthenticatorData;
use crate::webauthn::cbor::{CborFault, CborItem};
use crate::webauthn::response::{Base64Bytes, parse};
use crate::webauthn::{
    CeremonyChallenge, CeremonyError, CredentialId, CredentialKey, CredentialKind, CredentialRecord, RelyingParty,
    credential, response,
};

/// What a registration must satisfy.
#[derive(Debug, Clone, Copy)]
pub struct RegistrationTerms<'a> {
    pub relying_party: &'a RelyingParty,
    pub challenge: &'a CeremonyChallenge,
    /// Kind of the new credential. A passkey requires user verification.
    pub kind: CredentialKind,
}

/// Answer of a browser to `navigator.credentials.create()`.
pub struct RegistrationResponse {
    id: CredentialId,
    client_data: Vec<u8>,
    attestation_object: Vec<u8>,
    transports: Vec<String>,
    discoverable: Option<bool>,
}

#[derive(Deserialize)]
struct AttestationJson {
    #[serde(rename = "clientDataJSON")]
    client_data: Base64Bytes,
    #[serde(rename = "attestationObject")]
    attestation_object: Base64Bytes,
    #[serde(default)]
    transports: Vec<String>,
}

/// Valid new credential.
///
/// The store's commit checks that no other account has a credential with this id (§7.1 step 26).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedRegistration {
    /// Credential to store.
    pub credential: CredentialRecord,
    /// Whether the credential is discoverable, according to the browser. `None` if the browser does
    /// not report it.
    pub discoverable: Option<bool>,
}

impl RegistrationResponse {
    /// Parses the JSON of the credential (`RegistrationResponseJSON`).
    ///
    /// # Errors
    /// Returns an error if the text is too long, is not such JSON, or has invalid ids.
    pub fn parse(json: &str) -> Result<Self, CeremonyError> {
        let (id, answer, discoverable) = parse::<AttestationJson>(json)?;
        Ok(Self {
            id,
            client_data: answer.client_data.0,
            attestation_object: answer.attestation_object.0,
            transports: credential::transports(answer.transports),
            discoverable,
        })
    }

    /// Verifies the answer, in the order of §7.1.
    ///
    /// # Errors
    /// Returns the error of the first failed check.
    pub fn verify(&self, terms: &RegistrationTerms<'_>) -> Result<VerifiedRegistration, CeremonyError> {
        response::check(&self.client_data, "webauthn.create", terms.relying_party, terms.challenge)?;
        let attestation = AttestationObject::parse(&self.attestation_object)?;
        let data = AuthenticatorData::parse(attestation.authenticator_data)?;
        let flags = data.check(terms.relying_party, terms.kind == CredentialKind::Passkey)?;
        let credential_data = data.credential.ok_or(CeremonyError::NoCredential)?;
        let key = CredentialKey::from_item(&credential_data.key, credential_data.encoded_key)?;
        // Verification of the format `none` (§8.7).
        if attestation.format == "none" && attestation.has_statement {
            return Err(CeremonyError::StatementOfNone);
        }
        let id = CredentialId::from_bytes(credential_data.id).ok_or(CeremonyError::IdLength)?;
        if id != self.id {
            return Err(CeremonyError::OtherId);
        }
        let credential = CredentialRecord {
            id,
            key,
            kind: terms.kind,
            sign_count: data.sign_count,
            backup: flags.backup,
            aaguid: credential_data.aaguid,
            transports: self.transports.clone(),
        };
        Ok(VerifiedRegistration { credential, discoverable: self.discoverable })
    }
}

/// Attestation object (§6.5.4).
///
/// Only the empty statement of the format `none` is checked. Browsers may send other statements
/// without a request, but these would only prove the model of the authenticator.
struct AttestationObject<'a> {
    format: &'a str,
    has_statement: bool,
    authenticator_data: &'a [u8],
}

impl<'a> AttestationObject<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, CeremonyError> {
        let object = CborItem::whole(bytes).map_err(CeremonyError::AttestationObject)?;
        let CborItem::Map(members) = object else { return Err(CeremonyError::AttestationObject(CborFault::Shape)) };
        // The members are in the canonical order of CBOR. No version of the specification defines
        // further members.
        match &members[..] {
            [
                (CborItem::Text("fmt"), CborItem::Text(format)),
                (CborItem::Text("attStmt"), CborItem::Map(statement)),
                (CborItem::Text("authData"), CborItem::Bytes(authenticator_data)),
            ] => Ok(Self { format, has_statement: !statement.is_empty(), authenticator_data }),
            _ => Err(CeremonyError::AttestationObject(CborFault::Shape)),
        }
    }
}
