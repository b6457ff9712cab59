//! Credential records (Level 3 §4).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::secret::{base64url, base64url_bytes, from_base64url};
use crate::webauthn::CredentialKey;
use crate::webauthn::model::model_name;

/// Permitted lengths of a credential id in bytes: at least 16 (§4), at most 1,023 (§7.1 step 25).
const ID_LENGTHS: std::ops::RangeInclusive<usize> = 16..=1023;

/// Maximum number of stored transports per credential.
const MAX_TRANSPORTS: usize = 8;

/// Maximum length of the name of a stored transport, in bytes.
const MAX_TRANSPORT_LENGTH: usize = 32;

/// Identifier of a credential, assigned by its authenticator.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CredentialId(Box<[u8]>);

impl CredentialId {
    /// Creates an id. Returns `None` if the length is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        ID_LENGTHS.contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// Parses the base64url form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_bytes(&from_base64url(text)?)
    }

    /// Returns the 16 to 1,023 bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Display for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64url(&self.0))
    }
}

impl fmt::Debug for CredentialId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CredentialId({self})")
    }
}

impl Serialize for CredentialId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CredentialId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).ok_or_else(|| serde::de::Error::custom("not a credential ID"))
    }
}

/// User handle: the identifier of the account for authenticators (§6.1, user handle privacy).
///
/// It is random and not the `sub`, because every client knows the `sub`, and authenticators may
/// show the handle to their holders. It does not change while the account has a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserHandle(#[serde(with = "base64url_bytes")] [u8; 32]);

impl UserHandle {
    /// Creates the handle from random bytes.
    pub const fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses the base64url form.
    pub fn parse(text: &str) -> Option<Self> {
        from_base64url(text)?.try_into().ok().map(Self)
    }

    /// Returns the 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for UserHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64url(&self.0))
    }
}

/// Kind of a credential, which its registration determines.
///
/// The kind never changes. An attacker who stole a security key without a PIN can set a PIN. The
/// key would then report the attacker as the verified user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// For complete sign-ins. The credential is discoverable without a username, and was created by
    /// an authenticator that verified the user.
    Passkey,
    /// For a second factor after the password. It proves possession only.
    SecurityKey,
}

/// Whether a credential can be backed up, and therefore leave its device (§6.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupState {
    DeviceBound,
    /// The credential can be backed up but is not.
    Eligible,
    /// The credential is backed up, so other devices of the user may have it.
    BackedUp,
}

impl BackupState {
    /// Returns whether the credential can leave its device. This never changes.
    pub const fn is_eligible(self) -> bool {
        matches!(self, Self::Eligible | Self::BackedUp)
    }
}

/// Stored credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialRecord {
    /// Id of the credential, unique among all accounts.
    pub id: CredentialId,
    pub key: CredentialKey,
    pub kind: CredentialKind,
    /// Last signature counter. Authenticators without a counter send 0.
    pub sign_count: u32,
    pub backup: BackupState,
    /// Model of the authenticator (AAGUID), as the authenticator states without proof. All zeros if
    /// the authenticator states no model.
    #[serde(with = "base64url_bytes")]
    pub aaguid: [u8; 16],
    /// Transports of the authenticator, as the browser stated. The next request includes them
    /// (§5.8.4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transports: Vec<String>,
}

impl CredentialRecord {
    /// Returns the name of the authenticator's model, if it is known. For display only.
    pub fn model(&self) -> Option<&'static str> {
        model_name(self.aaguid)
    }
}

/// Returns the transports to store. Checks only the format of each name, because new transports may
/// be defined.
pub(super) fn transports(names: Vec<String>) -> Vec<String> {
    let mut transports: Vec<String> = Vec::new();
    for name in names {
        let is_valid = (1..=MAX_TRANSPORT_LENGTH).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if is_valid && !transports.contains(&name) && transports.len() < MAX_TRANSPORTS {
            transports.push(name);
        }
    }
    transports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_16_to_1023_bytes() {
        for (length, taken) in [(0, false), (15, false), (16, true), (1023, true), (1024, false)] {
            let id = CredentialId::from_bytes(&vec![7; length]);
            assert_eq!(id.is_some(), taken, "{length}");
            assert_eq!(id.as_ref().and_then(|id| CredentialId::parse(&id.to_string())), id);
        }
    }

    #[test]
    fn transports_are_limited_and_checked_by_format() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            transports(names(&["usb", "", "smart-card", "usb", "\"><script>", "NFC", "new2", &"a".repeat(33)])),
            names(&["usb", "smart-card", "new2"])
        );
        assert_eq!(transports((0..100).map(|number| format!("t{number}")).collect()).len(), MAX_TRANSPORTS);
    }
}
