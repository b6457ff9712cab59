//! Verification of authentication assertions (Level 3 §7.2).

use serde::Deserialize;

use crate::secret::from_base64url;
use crate::webauthn::authenticator_data::AuthenticatorData;
use crate::webauthn::response::{Base64Bytes, parse};
use crate::webauthn::{
    BackupState, CeremonyChallenge, CeremonyError, CredentialId, CredentialKind, CredentialRecord, RelyingParty,
    UserHandle, response,
};

/// Purpose of an assertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssertionPurpose {
    /// Sign-in without typed input. The passkey identifies the account, and its authenticator
    /// verifies the user.
    SignIn,
    /// Second factor after the correct password, with any credential of the account. User
    /// verification is not required.
    SecondFactor,
    /// Confirmation by a signed-in user, with a passkey of the user and user verification.
    Confirmation,
}

impl AssertionPurpose {
    /// Returns whether the authenticator must verify the user.
    pub const fn needs_verification(self) -> bool {
        matches!(self, Self::SignIn | Self::Confirmation)
    }

    /// Returns whether a credential of this kind suffices.
    pub const fn takes(self, kind: CredentialKind) -> bool {
        matches!((self, kind), (Self::SecondFactor, _) | (_, CredentialKind::Passkey))
    }
}

/// What an assertion must satisfy.
#[derive(Debug, Clone, Copy)]
pub struct AssertionTerms<'a> {
    pub relying_party: &'a RelyingParty,
    pub challenge: &'a CeremonyChallenge,
    pub purpose: AssertionPurpose,
}

/// Account that signs in. It is known before the answer, or from
/// [`AssertionResponse::user_handle`].
#[derive(Debug, Clone, Copy)]
pub struct CredentialOwner<'a> {
    pub handle: &'a UserHandle,
    pub credentials: &'a [CredentialRecord],
}

/// Answer of a browser to `navigator.credentials.get()`.
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

/// Valid assertion. The caller must store `sign_count` and `backup` in the credential's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedAssertion<'a> {
    pub credential: &'a CredentialRecord,
    pub sign_count: u32,
    pub backup: BackupState,
    /// Whether a passkey was used and the user was verified, which is two factors at once. Always
    /// false for security keys.
    pub user_verified: bool,
    /// Whether the counter of a backup-eligible credential did not increase. The assertion is valid
    /// nevertheless, and the audit log records the counter.
    pub count_unchanged: bool,
}

impl AssertionResponse {
    /// Parses the JSON of the credential (`AuthenticationResponseJSON`).
    ///
    /// # Errors
    /// Returns an error if the text is too long, is not such JSON, or has an invalid id.
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

    /// Returns the credential that the answer claims to use.
    pub fn credential_id(&self) -> &CredentialId {
        &self.id
    }

    /// Returns the account that the answer claims to belong to. Returns `None` if there is no valid
    /// user handle.
    pub fn user_handle(&self) -> Option<UserHandle> {
        self.user_handle.as_deref().and_then(UserHandle::parse)
    }

    /// Verifies the answer, in the order of §7.2.
    ///
    /// # Errors
    /// Returns the error of the first failed check.
    pub fn verify<'a>(
        &self,
        terms: &AssertionTerms<'_>,
        account: &CredentialOwner<'a>,
    ) -> Result<VerifiedAssertion<'a>, CeremonyError> {
        let credential = self.credential_of(account, terms.purpose)?;
        let hash = response::check(&self.client_data, "webauthn.get", terms.relying_party, terms.challenge)?;
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
        // Both counts are 0 if the authenticator has no counter. A counter that returns to 0 has
        // not increased.
        let count_unchanged =
            (data.sign_count, credential.sign_count) != (0, 0) && data.sign_count <= credential.sign_count;
        if count_unchanged && !flags.backup.is_eligible() {
            return Err(CeremonyError::SignCount { presented: data.sign_count });
        }
        Ok(VerifiedAssertion {
            credential,
            sign_count: data.sign_count,
            backup: flags.backup,
            user_verified: flags.user_verified && credential.kind == CredentialKind::Passkey,
            count_unchanged,
        })
    }

    /// Returns the account's credential with this id, if the answer is for this account (§7.2 steps
    /// 5 and 6).
    ///
    /// Without this check, an attacker who has a user's password could complete the sign-in with
    /// the attacker's own key.
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
