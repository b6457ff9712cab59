//! Credentials: what is kept of each (the credential record of Level 3 §4).

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::domain::secret::{base64url, base64url_bytes, from_base64url};
use crate::webauthn::CredentialKey;

/// The lengths that a credential id has, bytes: 16 at least (§4), 1,023 at most (§7.1 step 25).
const ID_LENGTHS: std::ops::RangeInclusive<usize> = 16..=1023;

/// Transports that are kept of one credential.
const MOST_TRANSPORTS: usize = 8;

/// The longest name of a transport that is kept, bytes.
const LONGEST_TRANSPORT: usize = 32;

/// What an authenticator calls a credential.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CredentialId(Box<[u8]>);

impl CredentialId {
    /// `None` with a length that no credential id has.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        ID_LENGTHS.contains(&bytes.len()).then(|| Self(bytes.into()))
    }

    /// Reads the base64url form.
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_bytes(&from_base64url(text)?)
    }

    /// The 16 to 1,023 bytes.
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
        Self::parse(&String::deserialize(deserializer)?).ok_or_else(|| serde::de::Error::custom("not a credential id"))
    }
}

/// What an account is called in authenticators: random, and not its `sub`, which every client sees and authenticators may show
/// to whoever holds them (§6.1, user handle privacy). It never changes while the account has a credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserHandle(#[serde(with = "base64url_bytes")] [u8; 32]);

impl UserHandle {
    /// The handle made of these random bytes.
    pub const fn from_random(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Reads the base64url form.
    pub fn parse(text: &str) -> Option<Self> {
        from_base64url(text)?.try_into().ok().map(Self)
    }

    /// The 32 bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for UserHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&base64url(&self.0))
    }
}

/// What a credential is for. Decided when it is made and for good: somebody who steals a key without a PIN can set one, and the
/// key would verify the thief from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CredentialKind {
    /// The whole sign-in: found without a name typed, made by an authenticator that verified its user.
    Passkey,
    /// The step after the password. It proves that somebody holds it, not who.
    SecurityKey,
}

/// Whether a credential can leave its device (§6.1.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackupState {
    DeviceBound,
    /// It can, and has not yet.
    Eligible,
    /// It has: other devices of its owner have it too.
    BackedUp,
}

impl BackupState {
    /// Whether it can leave its device; that never changes.
    pub const fn is_eligible(self) -> bool {
        matches!(self, Self::Eligible | Self::BackedUp)
    }
}

/// What is kept of a credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CredentialRecord {
    /// Its id, which no other account may have.
    pub id: CredentialId,
    pub key: CredentialKey,
    pub kind: CredentialKind,
    /// The last count of its signatures; authenticators without a counter say 0.
    pub sign_count: u32,
    pub backup: BackupState,
    /// The authenticator's model by its own account, which nothing proves. All zeros where it tells none.
    #[serde(with = "base64url_bytes")]
    pub aaguid: [u8; 16],
    /// How browsers reach the authenticator, by the browser's account, for the next request (§5.8.4).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transports: Vec<String>,
}

/// The transports of a browser that are kept: new ones come up, so their form counts and not their name.
pub(super) fn transports(named: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for name in named {
        let sound = (1..=LONGEST_TRANSPORT).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        if sound && !kept.contains(&name) && kept.len() < MOST_TRANSPORTS {
            kept.push(name);
        }
    }
    kept
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
    fn transports_are_kept_by_their_form_and_not_without_an_end() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            transports(names(&["usb", "", "smart-card", "usb", "\"><script>", "NFC", "new2", &"a".repeat(33)])),
            names(&["usb", "smart-card", "new2"])
        );
        assert_eq!(transports((0..100).map(|number| format!("t{number}")).collect()).len(), MOST_TRANSPORTS);
    }
}
