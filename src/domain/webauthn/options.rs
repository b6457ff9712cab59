//! Options that a page passes to the browser, in the JSON form of Level 3 §5.1.9.
//!
//! The browser parses them with `parseCreationOptionsFromJSON` and `parseRequestOptionsFromJSON`.

use std::time::Duration;

use serde::Serialize;

use crate::webauthn::{
    AssertionPurpose, CeremonyChallenge, CredentialKind, CredentialOwner, CredentialRecord, KeyAlgorithm, RelyingParty,
    UserHandle,
};

/// Options for `navigator.credentials.create()` (`PublicKeyCredentialCreationOptionsJSON`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CreationOptions {
    rp: RelyingPartyEntity,
    user: UserEntity,
    challenge: String,
    pub_key_cred_params: Vec<KeyParameters>,
    timeout: u64,
    exclude_credentials: Vec<CredentialDescriptor>,
    authenticator_selection: AuthenticatorSelection,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hints: Vec<&'static str>,
    attestation: &'static str,
    extensions: CreationExtensions,
}

/// Options for `navigator.credentials.get()` (`PublicKeyCredentialRequestOptionsJSON`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RequestOptions {
    challenge: String,
    timeout: u64,
    rp_id: String,
    allow_credentials: Vec<CredentialDescriptor>,
    user_verification: &'static str,
}

/// Account of a new credential, as authenticators show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UserEntity {
    pub id: UserHandle,
    /// E-mail address, to distinguish the account.
    pub name: String,
    pub display_name: String,
}

/// Reference to a credential (§5.8.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CredentialDescriptor {
    r#type: &'static str,
    id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transports: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct RelyingPartyEntity {
    id: String,
    name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct KeyParameters {
    r#type: &'static str,
    alg: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct AuthenticatorSelection {
    resident_key: &'static str,
    require_resident_key: bool,
    user_verification: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct CreationExtensions {
    cred_props: bool,
}

impl CreationOptions {
    /// Creates options for a new credential.
    ///
    /// A passkey is stored on the authenticator and requires user verification. A security key is
    /// not stored there (§5.4.6). `name` is the name of the site. `existing` lists all credentials
    /// of the account, so that no credential is duplicated or overwritten.
    pub fn new(
        relying_party: &RelyingParty,
        name: &str,
        user: UserEntity,
        challenge: &CeremonyChallenge,
        kind: CredentialKind,
        existing: &[CredentialRecord],
        timeout: Duration,
    ) -> Self {
        let resident = kind == CredentialKind::Passkey;
        let requirement = if resident { "required" } else { "discouraged" };
        Self {
            rp: RelyingPartyEntity { id: relying_party.id().to_owned(), name: name.to_owned() },
            user,
            challenge: challenge.to_string(),
            pub_key_cred_params: KeyAlgorithm::OFFERED
                .map(|algorithm| KeyParameters { r#type: PUBLIC_KEY, alg: algorithm.cose_number() })
                .to_vec(),
            timeout: milliseconds(timeout),
            exclude_credentials: existing.iter().map(CredentialDescriptor::from_record).collect(),
            authenticator_selection: AuthenticatorSelection {
                resident_key: requirement,
                require_resident_key: resident,
                user_verification: requirement,
            },
            hints: if resident { Vec::new() } else { vec!["security-key"] },
            attestation: "none",
            extensions: CreationExtensions { cred_props: true },
        }
    }
}

impl RequestOptions {
    /// Creates options for a known account, with its credentials that suit the purpose.
    ///
    /// The list of credentials reveals that the account exists (§14.6.3). Use `SecondFactor` only
    /// after the correct password.
    pub fn of_account(
        relying_party: &RelyingParty,
        challenge: &CeremonyChallenge,
        purpose: AssertionPurpose,
        account: &CredentialOwner<'_>,
        timeout: Duration,
    ) -> Self {
        let fit = account.credentials.iter().filter(|credential| purpose.takes(credential.kind));
        Self {
            allow_credentials: fit.map(CredentialDescriptor::from_record).collect(),
            user_verification: if purpose.needs_verification() { "required" } else { "discouraged" },
            ..Self::of_anybody(relying_party, challenge, timeout)
        }
    }

    /// Creates options for a sign-in without typed input. Every passkey is accepted, so the options
    /// reveal no accounts.
    pub fn of_anybody(relying_party: &RelyingParty, challenge: &CeremonyChallenge, timeout: Duration) -> Self {
        Self {
            challenge: challenge.to_string(),
            timeout: milliseconds(timeout),
            rp_id: relying_party.id().to_owned(),
            allow_credentials: Vec::new(),
            user_verification: "required",
        }
    }
}

const PUBLIC_KEY: &str = "public-key";

impl CredentialDescriptor {
    fn from_record(credential: &CredentialRecord) -> Self {
        Self { r#type: PUBLIC_KEY, id: credential.id.to_string(), transports: credential.transports.clone() }
    }
}

fn milliseconds(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
