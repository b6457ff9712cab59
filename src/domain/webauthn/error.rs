//! Errors of WebAuthn ceremonies.

use crate::webauthn::cbor::CborFault;

/// Reason to reject a browser's answer. Each check of Level 3 §7.1 and §7.2 that can fail has a
/// variant.
///
/// The messages are for the log. Users see only that the key was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CeremonyError {
    // Conforming browsers and authenticators do not cause these errors.
    /// The answer has more than
    /// [`MAX_CEREMONY_RESPONSE_LENGTH`](super::MAX_CEREMONY_RESPONSE_LENGTH) bytes.
    #[error("the response is too long")]
    TooLong,
    /// The answer is not the JSON of a `PublicKeyCredential` (§5.1.8) of this ceremony.
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
    /// The attestation format is `none`, but the statement is not empty.
    #[error("an attestation with the format none has a statement")]
    StatementOfNone,
    /// The authenticator data are too short or too long.
    #[error("the authenticator data has a wrong length")]
    AuthenticatorDataLength,
    /// The credential's key or the extension outputs are not CBOR.
    #[error("the authenticator data has malformed CBOR: {0}")]
    AuthenticatorDataCbor(CborFault),
    /// The registration contains no credential.
    #[error("the authenticator data has no credential")]
    NoCredential,
    /// The assertion contains a new credential (§6.1).
    #[error("the authenticator data of an assertion has a credential")]
    UnexpectedCredential,
    /// The credential is backed up without being eligible for backup.
    #[error("the flags contradict each other: backed up, but not eligible for backup")]
    BackupFlags,
    /// The key's algorithm was not offered.
    #[error("the key's algorithm was not offered")]
    AlgorithmNotOffered,
    /// The parameters are not a valid key of the algorithm.
    #[error("the key is not valid for its algorithm")]
    NotAKey,
    /// The credential id has fewer than 16 or more than 1,023 bytes.
    #[error("the credential ID has an invalid length")]
    IdLength,
    /// The response and the authenticator data have different credential ids.
    #[error("the credential ID differs from the one in the authenticator data")]
    OtherId,

    // Users can resolve these errors.
    /// The authenticator did not detect the presence of a user.
    #[error("the user was not present (UP)")]
    NotPresent,
    /// The authenticator did not verify the user by PIN or biometrics.
    #[error("the user was not verified (UV)")]
    NotVerified,
    /// A security key was used where a passkey is required.
    #[error("the credential is a security key, but a passkey is required")]
    NotAPasskey,
    /// The key does not belong to this account.
    #[error("the credential does not belong to this account")]
    NotTheirs,
    /// The account is unknown and the answer has no user handle, so the key is not a passkey.
    #[error("the response has no user handle")]
    NoUserHandle,

    // The answer was created for another purpose.
    /// A registration was sent instead of an assertion, or vice versa.
    #[error("the response is for another ceremony")]
    OtherCeremony,
    /// The challenge belongs to another ceremony, so this is a replay.
    #[error("the response is for another challenge")]
    OtherChallenge,
    /// The page has another origin. Users may reach the issuer under a name that is not configured.
    #[error("the ceremony took place on a page of another origin")]
    OtherOrigin,
    /// The page was in a frame on another site.
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
    /// The signature is not valid for this key and data.
    #[error("the signature does not verify with the credential's key")]
    Signature,
    /// The signature counter of a device-bound credential did not increase.
    ///
    /// The key may have been copied, the authenticator may be broken, or answers may have been
    /// reordered. The caller must still store `presented` as the counter, so that the owner is
    /// rejected only once.
    #[error("the signature counter did not increase; the authenticator may have been cloned")]
    SignCount { presented: u32 },
}

/// Who can resolve an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CeremonyBlame {
    /// The browser, authenticator or script violates the specification.
    Client,
    /// The user, with another key or its PIN.
    User,
    /// The answer is well-formed, but was created for another purpose. This is an attack or an
    /// error in the configuration.
    Misuse,
}

impl CeremonyError {
    /// Returns who can resolve the error.
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
                CeremonyBlame::User
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
