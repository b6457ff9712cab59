//! Errors of WebAuthn ceremonies.

use crate::webauthn::cbor::CborFault;

/// Reason to reject a browser's answer: each check of Level 3 §7.1 and §7.2 that can fail.
///
/// The messages are for the log. Users only learn that the key was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CeremonyError {
    // Never sent by a conforming browser or authenticator.
    /// More than [`MAX_CEREMONY_RESPONSE_LENGTH`](super::MAX_CEREMONY_RESPONSE_LENGTH) bytes.
    #[error("the response is too long")]
    TooLong,
    /// Not the JSON of a `PublicKeyCredential` (§5.1.8) of this ceremony.
    #[error("the response is not the JSON of a credential for this ceremony")]
    ResponseJson,
    /// `id` and `rawId` are not the same credential id in base64url.
    #[error("id and rawId differ")]
    IdText,
    /// The client data are not the JSON object of §5.8.1.
    #[error("the client data is not valid JSON")]
    ClientData,
    /// The attestation object is not the CBOR map of §6.5.4.
    #[error("the attestation object is malformed: {0}")]
    AttestationObject(CborFault),
    /// The attestation format is none, but there is a statement.
    #[error("an attestation with the format none has a statement")]
    StatementOfNone,
    /// The authenticator data are too short or too long.
    #[error("the authenticator data has a wrong length")]
    AuthenticatorDataLength,
    /// The credential's key or the extension outputs are not CBOR.
    #[error("the authenticator data has malformed CBOR: {0}")]
    AuthenticatorDataCbor(CborFault),
    /// A registration without a credential.
    #[error("the authenticator data has no credential")]
    NoCredential,
    /// An assertion with a credential (§6.1).
    #[error("the authenticator data of an assertion has a credential")]
    UnexpectedCredential,
    /// Backed up without being eligible for backup.
    #[error("the flags contradict each other: backed up, but not eligible for backup")]
    BackupFlags,
    /// The key's algorithm was not offered.
    #[error("the key's algorithm was not offered")]
    AlgorithmNotOffered,
    /// The parameters are no key of its algorithm.
    #[error("the key is not valid for its algorithm")]
    NotAKey,
    /// Shorter than 16 or longer than 1,023 bytes.
    #[error("the credential ID has an invalid length")]
    IdLength,
    /// The response and the authenticator data name different credentials.
    #[error("the credential ID differs from the one in the authenticator data")]
    OtherId,

    // Errors that the user can correct.
    /// The authenticator did not detect a user.
    #[error("the user was not present (UP)")]
    NotPresent,
    /// The authenticator did not verify the user by PIN or biometrics.
    #[error("the user was not verified (UV)")]
    NotVerified,
    /// A security key where a passkey is required.
    #[error("the credential is a security key, but a passkey is required")]
    NotAPasskey,
    /// Not a key of this account.
    #[error("the credential does not belong to this account")]
    NotTheirs,
    /// No user handle where the account is unknown: the key is not a passkey.
    #[error("the response has no user handle")]
    NoUserHandle,

    // Created for a different purpose.
    /// A registration for an assertion, or the reverse.
    #[error("the response is for another ceremony")]
    OtherCeremony,
    /// A challenge of another ceremony: a replay.
    #[error("the response is for another challenge")]
    OtherChallenge,
    /// A page of another origin, or an issuer that users reach under a name other than the
    /// configured one.
    #[error("the ceremony took place on a page of another origin")]
    OtherOrigin,
    /// In a frame within another site's page.
    #[error("the ceremony took place in a frame of another site")]
    CrossOrigin,
    #[error("the credential belongs to another relying party")]
    OtherRelyingParty,
    /// The authenticator names a different account.
    #[error("the credential was made for another account")]
    OtherUserHandle,
    /// The backup eligibility of the credential changed.
    #[error("the credential's eligibility for backup has changed")]
    BackupEligibilityChanged,
    /// The signature does not verify with this key and data.
    #[error("the signature does not verify with the credential's key")]
    Signature,
    /// The signature counter of a device-bound credential did not increase.
    ///
    /// The causes are a copy, a broken authenticator or reordered answers. Store `presented` as the
    /// counter nevertheless, so that the owner is rejected only once.
    #[error("the signature counter did not increase; the authenticator may have been cloned")]
    SignCount { presented: u32 },
}

/// Party that can resolve an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CeremonyBlame {
    /// A browser, authenticator or script that violates the specification.
    Client,
    /// The user: with another key, or its PIN.
    Person,
    /// The answer is well-formed but was created for a different purpose: an attack or a wrong
    /// configuration.
    Misuse,
}

impl CeremonyError {
    /// Returns the party that can resolve the error.
    pub const fn blame(self) -> CeremonyBlame {
        match self {
            Self::TooLong
            | Self::ResponseJson
            | Self::IdText
            | Self::ClientData
            | Self::AttestationObject(_)
            | Self::StatementOfNone
            | Self::AuthenticatorDataLength
            | Self::AuthenticatorDataCbor(_)
            | Self::NoCredential
            | Self::UnexpectedCredential
            | Self::BackupFlags
            | Self::AlgorithmNotOffered
            | Self::NotAKey
            | Self::IdLength
            | Self::OtherId => CeremonyBlame::Client,
            Self::NotPresent | Self::NotVerified | Self::NotAPasskey | Self::NotTheirs | Self::NoUserHandle => {
                CeremonyBlame::Person
            }
            Self::OtherCeremony
            | Self::OtherChallenge
            | Self::OtherOrigin
            | Self::CrossOrigin
            | Self::OtherRelyingParty
            | Self::OtherUserHandle
            | Self::BackupEligibilityChanged
            | Self::Signature
            | Self::SignCount { .. } => CeremonyBlame::Misuse,
        }
    }
}
