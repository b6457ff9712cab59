//! Why a ceremony is refused.

use crate::webauthn::cbor::CborFault;

/// Why the answer of a browser is refused: every check of Level 3 §7.1 and §7.2 that can fail. The words are for the log; a
/// person is told no more than that the key was not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CeremonyError {
    // What no browser and no authenticator sends.
    /// More than [`LONGEST_CEREMONY_RESPONSE`](super::LONGEST_CEREMONY_RESPONSE) bytes.
    #[error("the answer is longer than any browser's")]
    TooLong,
    /// Not the JSON of a `PublicKeyCredential` (§5.1.8) of this ceremony.
    #[error("the answer is not the JSON of a credential for this ceremony")]
    ResponseJson,
    /// `id` and `rawId` are not the same credential id in base64url.
    #[error("the two forms of the credential id differ")]
    IdText,
    /// The client data are not the JSON object of §5.8.1.
    #[error("the client data are not the JSON that browsers make")]
    ClientData,
    /// The attestation object is not the CBOR map of §6.5.4.
    #[error("the attestation object is malformed: {0}")]
    AttestationObject(CborFault),
    /// The attestation says that there is none, and holds one.
    #[error("an attestation of the format none holds a statement")]
    StatementOfNone,
    /// The authenticator data end early, or go on after their end.
    #[error("the authenticator data have a wrong length")]
    AuthenticatorDataLength,
    /// The credential's key, or the extensions' outputs, are not CBOR.
    #[error("the authenticator data hold malformed CBOR: {0}")]
    AuthenticatorDataCbor(CborFault),
    /// A registration without a credential.
    #[error("the authenticator data hold no credential")]
    NoCredential,
    /// An assertion with one (§6.1).
    #[error("the authenticator data of an assertion hold a credential")]
    UnexpectedCredential,
    /// Backed up and yet not eligible for it.
    #[error("the flags say that the credential is backed up, and that it cannot be")]
    BackupFlags,
    /// The key is of no algorithm that was offered.
    #[error("the key has an algorithm that was not offered")]
    AlgorithmNotOffered,
    /// The numbers are no key of its algorithm.
    #[error("the key is no valid key of its algorithm")]
    NotAKey,
    /// Shorter than 16 or longer than 1,023 bytes.
    #[error("the credential id has a length that none has")]
    IdLength,
    /// The answer speaks of another credential than the authenticator.
    #[error("the credential id of the answer is not the authenticator's")]
    OtherId,

    // What a person can put right.
    /// The authenticator did not see anybody.
    #[error("the authenticator did not ask for a touch")]
    NotPresent,
    /// The authenticator asked for neither PIN nor finger.
    #[error("the authenticator did not verify who used it")]
    NotVerified,
    /// A key for the second step, where a passkey is asked for.
    #[error("the credential is a security key, and a passkey is needed")]
    NotAPasskey,
    /// No key of this account's.
    #[error("the credential is none of this account's")]
    NotTheirs,
    /// It names nobody, and nobody was named before: a key that is no passkey.
    #[error("the answer does not say whose the credential is")]
    NoUserHandle,

    // What was made for something else.
    /// A registration for an assertion, or the reverse.
    #[error("the answer is for the other ceremony")]
    OtherCeremony,
    /// A challenge of another ceremony: a replay.
    #[error("the answer is for another challenge")]
    OtherChallenge,
    /// A page of another origin, or an issuer that people reach under another name than its own.
    #[error("the ceremony took place on a page of another origin")]
    OtherOrigin,
    /// In a frame inside of another site's page.
    #[error("the ceremony took place in a frame of another site")]
    CrossOrigin,
    #[error("the credential belongs to another relying party")]
    OtherRelyingParty,
    /// The account that the authenticator names is not the one at hand.
    #[error("the credential was made for another account")]
    OtherUserHandle,
    /// A credential that could not be copied and now can, or the reverse.
    #[error("the credential has changed whether it can be backed up")]
    BackupEligibilityChanged,
    /// Not of this key, or not of these data.
    #[error("the signature is not of this credential's key")]
    Signature,
    /// The count of a credential that cannot be copied did not grow: a copy, a broken authenticator, or answers that overtook
    /// each other. Keep `presented` as its count all the same, so that its owner is refused once only.
    #[error("the signature counter did not grow: the authenticator may have been copied")]
    SignCount { presented: u32 },
}

/// Who can do something about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CeremonyBlame {
    /// A browser, an authenticator or a script that does not keep to the specification.
    Client,
    /// The person: another key, or its PIN.
    Person,
    /// What was sent is well-formed and made for something else. An attack, unless the configuration is wrong.
    Misuse,
}

impl CeremonyError {
    /// Who can do something about it.
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
