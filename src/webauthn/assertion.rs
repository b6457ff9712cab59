//! Verifying an authentication assertion (Level 3 §7.2).

use serde::Deserialize;

use crate::domain::secret::from_base64url;
use crate::webauthn::authenticator_data::AuthenticatorData;
use crate::webauthn::response::{Base64Bytes, parse};
use crate::webauthn::{
    BackupState, CeremonyChallenge, CeremonyError, CredentialId, CredentialKind, CredentialRecord, RelyingParty,
    UserHandle, client_data,
};

/// What an assertion is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssertionPurpose {
    /// The whole sign-in, with nothing typed: the passkey says whose it is, and its authenticator verifies the user.
    SignIn,
    /// The step after the right password: any credential of the account's, a touch is enough.
    SecondFactor,
    /// A fresh proof of somebody who is signed in: a passkey of theirs, and its authenticator verifies the user.
    Confirmation,
}

impl AssertionPurpose {
    /// Whether the authenticator has to verify its user.
    pub const fn needs_verification(self) -> bool {
        matches!(self, Self::SignIn | Self::Confirmation)
    }

    /// Whether a credential of this kind will do.
    pub const fn takes(self, kind: CredentialKind) -> bool {
        matches!((self, kind), (Self::SecondFactor, _) | (_, CredentialKind::Passkey))
    }
}

#[derive(Debug, Clone, Copy)]
pub struct AssertionTerms<'a> {
    pub relying_party: &'a RelyingParty,
    pub challenge: &'a CeremonyChallenge,
    pub purpose: AssertionPurpose,
}

/// The account that signs in: known before, or found by [`AssertionResponse::user_handle`].
#[derive(Debug, Clone, Copy)]
pub struct CredentialOwner<'a> {
    pub handle: &'a UserHandle,
    pub credentials: &'a [CredentialRecord],
}

/// A browser's answer to `navigator.credentials.get()`.
pub struct AssertionResponse {
    id: CredentialId,
    client_data: Vec<u8>,
    authenticator_data: Vec<u8>,
    signature: Vec<u8>,
    user_handle: Option<String>,
}

#[derive(Deserialize)]
struct AssertionJson {
    #[serde(rename = "clientDataJSON")]
    client_data: Base64Bytes,
    #[serde(rename = "authenticatorData")]
    authenticator_data: Base64Bytes,
    signature: Base64Bytes,
    #[serde(rename = "userHandle", default)]
    user_handle: Option<String>,
}

/// An assertion that holds. The credential's record takes over `sign_count` and `backup`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedAssertion<'a> {
    pub credential: &'a CredentialRecord,
    pub sign_count: u32,
    pub backup: BackupState,
    /// Whether this was a passkey that verified its user, and so two factors at once. Security keys never say so.
    pub user_verified: bool,
    /// The count did not grow, of a credential that is copied between devices. For the audit.
    pub count_stood_still: bool,
}

impl AssertionResponse {
    /// Reads the JSON of the credential (`AuthenticationResponseJSON`).
    ///
    /// # Errors
    /// Too long, not such JSON, or an id that is none.
    pub fn parse(json: &str) -> Result<Self, CeremonyError> {
        let (id, answer, _) = parse::<AssertionJson>(json)?;
        Ok(Self {
            id,
            client_data: answer.client_data.0,
            authenticator_data: answer.authenticator_data.0,
            signature: answer.signature.0,
            user_handle: answer.user_handle,
        })
    }

    /// The credential that it claims to be of.
    pub fn credential_id(&self) -> &CredentialId {
        &self.id
    }

    /// The account that it claims to be of; `None` too where the text is no handle of ours.
    pub fn user_handle(&self) -> Option<UserHandle> {
        self.user_handle.as_deref().and_then(UserHandle::parse)
    }

    /// Judges the answer, in the order of §7.2.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify<'a>(
        &self,
        terms: &AssertionTerms<'_>,
        account: &CredentialOwner<'a>,
    ) -> Result<VerifiedAssertion<'a>, CeremonyError> {
        let credential = self.credential_of(account, terms.purpose)?;
        let hash = client_data::check(&self.client_data, "webauthn.get", terms.relying_party, terms.challenge)?;
        let data = AuthenticatorData::parse(&self.authenticator_data)?;
        if data.credential.is_some() {
            return Err(CeremonyError::UnexpectedCredential);
        }
        let flags = data.check(terms.relying_party, terms.purpose.needs_verification())?;
        if flags.backup.is_eligible() != credential.backup.is_eligible() {
            return Err(CeremonyError::BackupEligibilityChanged);
        }
        let signed = [&self.authenticator_data[..], &hash].concat();
        if !credential.key.verifies(&signed, &self.signature) {
            return Err(CeremonyError::Signature);
        }
        // Both are 0 where an authenticator keeps no count. One that goes back to 0 has not grown.
        let count_stood_still =
            (data.sign_count, credential.sign_count) != (0, 0) && data.sign_count <= credential.sign_count;
        if count_stood_still && !flags.backup.is_eligible() {
            return Err(CeremonyError::SignCount { presented: data.sign_count });
        }
        Ok(VerifiedAssertion {
            credential,
            sign_count: data.sign_count,
            backup: flags.backup,
            user_verified: flags.user_verified && credential.kind == CredentialKind::Passkey,
            count_stood_still,
        })
    }

    /// The account's credential of this id, where the account is the one that the answer names (§7.2 steps 5 and 6). Without
    /// this, a key of one's own would finish the sign-in that somebody else's password began.
    fn credential_of<'a>(
        &self,
        account: &CredentialOwner<'a>,
        purpose: AssertionPurpose,
    ) -> Result<&'a CredentialRecord, CeremonyError> {
        let credential = account.credentials.iter().find(|credential| credential.id == self.id);
        let credential = credential.ok_or(CeremonyError::NotTheirs)?;
        match self.user_handle.as_deref().map(from_base64url) {
            None if purpose == AssertionPurpose::SignIn => return Err(CeremonyError::NoUserHandle),
            None => {}
            Some(handle) if handle.as_deref() == Some(account.handle.as_bytes()) => {}
            Some(_) => return Err(CeremonyError::OtherUserHandle),
        }
        if purpose.takes(credential.kind) { Ok(credential) } else { Err(CeremonyError::NotAPasskey) }
    }
}
