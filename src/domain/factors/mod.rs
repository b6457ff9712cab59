//! Factors of a user in addition to the password: authenticator apps, security keys, passkeys and
//! recovery codes.
//!
//! This code has no I/O, clock or randomness. All factors of a user are one record. Each change,
//! such as a used code, a counted guess or a removed key, is one commit. The commit fails if the
//! record has changed in the meantime.

mod trial;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::assurance::{AssuranceLevel, FactorId};
use crate::factor_failures::FactorFailures;
use crate::profile::visible_part;
use crate::recovery_code::RecoveryCodes;
use crate::secret::{Sealed, SecretHash};
use crate::time::UnixTime;
use crate::totp::TotpStep;
use crate::user::{Subject, User};
use crate::webauthn::{CeremonyChallenge, CredentialId, CredentialKind, CredentialRecord, UserHandle};

pub use trial::{FactorTrial, OpenedTotp};

/// Maximum number of authenticator apps per user.
pub(crate) const MAX_TOTP_APPS: usize = 5;

/// Maximum number of security keys and passkeys per user.
pub(crate) const MAX_KEYS: usize = 20;

/// Maximum length of a factor's name in characters.
pub(crate) const MAX_FACTOR_NAME_LENGTH: usize = 60;

/// Kind of a factor as shown to users and administrators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorKind {
    Totp,
    SecurityKey,
    Passkey,
    RecoveryCodes,
}

impl FactorKind {
    /// Returns the name in `--json`, in the audit log and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Totp => "totp",
            Self::SecurityKey => "security_key",
            Self::Passkey => "passkey",
            Self::RecoveryCodes => "recovery_codes",
        }
    }

    /// Parses the name of a kind that is a second factor.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::Totp, Self::SecurityKey, Self::Passkey].into_iter().find(|kind| kind.as_str() == name)
    }

    /// Returns the kind of a factor with a WebAuthn credential.
    pub const fn of_credential(kind: CredentialKind) -> Self {
        match kind {
            CredentialKind::Passkey => Self::Passkey,
            CredentialKind::SecurityKey => Self::SecurityKey,
        }
    }
}

/// An authenticator app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TotpFactor {
    pub id: FactorId,
    /// Name given by the user.
    pub name: String,
    /// Encrypted secret of 20 bytes. A factor whose secret cannot be decrypted still counts as a
    /// factor of the user.
    pub secret: Sealed,
    /// Time step of the last accepted code.
    pub last_step: TotpStep,
    pub added_at: UnixTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<UnixTime>,
}

/// A security key or a passkey.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFactor {
    /// Id, derived from the credential id.
    pub id: FactorId,
    /// Name given by the user.
    pub name: String,
    pub credential: CredentialRecord,
    pub added_at: UnixTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<UnixTime>,
}

impl KeyFactor {
    /// Returns whether this is a security key or a passkey.
    pub const fn kind(&self) -> FactorKind {
        FactorKind::of_credential(self.credential.kind)
    }
}

/// The sign-in or session in which an enrolment began. The enrolment can be finished only there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FactorOrigin(SecretHash);

impl FactorOrigin {
    /// Creates the origin for the sign-in or session with this identifier.
    pub fn from_text(text: &str) -> Self {
        Self(SecretHash::for_secret(text.as_bytes()))
    }
}

/// Kind of a factor whose enrolment is in progress. The enrolment ends when the factor is used for
/// the first time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    Totp {
        id: FactorId,
        secret: Sealed,
    },
    /// Security key or passkey. The authenticator's answer determines which of the two.
    Key {
        challenge: CeremonyChallenge,
    },
}

/// Enrolment in progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingFactor {
    pub origin: FactorOrigin,
    pub kind: PendingKind,
    pub until: UnixTime,
}

/// Lifetime of the link to enrol a factor after a reset.
pub const LINK_LIFE: Duration = Duration::from_hours(24);

/// Path of the enrolment link. The query parameter `token` contains the token.
pub const LINK_PATH: &str = "/oauth/enrolment";

/// State of an account after an administrator's reset. All sign-ins are refused, even with the
/// correct password, until the user enrols a factor with the link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactorReset {
    /// Hash of the link's secret.
    pub link: SecretHash,
    /// Expiry of the link. The reset state remains until a factor is enrolled.
    pub until: UnixTime,
}

/// All factors of a user in addition to the password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factors {
    pub subject: Subject,
    /// The account's identifier for authenticators. It never changes while the record exists.
    pub handle: UserHandle,
    /// Authenticator apps, in the order of their enrolment.
    #[serde(default)]
    pub totp: Vec<TotpFactor>,
    /// Failures of all apps together, because a wrong code cannot be attributed to one app.
    #[serde(default)]
    pub totp_failures: FactorFailures,
    /// Keys, in the order of their enrolment.
    #[serde(default)]
    pub keys: Vec<KeyFactor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryCodes>,
    #[serde(default)]
    pub recovery_failures: FactorFailures,
    /// Time when a recovery code was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_used_at: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingFactor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<FactorReset>,
    /// Incremented when a factor is added or removed. Pending sign-ins with another value become
    /// invalid.
    #[serde(default)]
    pub generation: u64,
}

/// Maximum number of enrolments in progress per user: an app and a key, each in two browsers.
const MAX_PENDING: usize = 4;

/// Summary of a user's factors, for sign-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactorSummary {
    /// Whether the user has a factor. Recovery codes alone do not count.
    pub has_any: bool,
    /// Highest level that the user can reach.
    pub reachable: AssuranceLevel,
    /// Whether the user must enrol a factor after an administrator's reset.
    pub is_reset: bool,
    pub generation: u64,
}

impl Factors {
    /// Creates a record without factors. See [`UserHandle`].
    pub fn none(subject: Subject, handle: UserHandle) -> Self {
        Self {
            subject,
            handle,
            totp: Vec::new(),
            totp_failures: FactorFailures::default(),
            keys: Vec::new(),
            recovery: None,
            recovery_failures: FactorFailures::default(),
            recovery_used_at: None,
            pending: Vec::new(),
            reset: None,
            generation: 0,
        }
    }

    /// Returns whether the user has a factor. Recovery codes do not count.
    pub fn has_any(&self) -> bool {
        !self.totp.is_empty() || !self.keys.is_empty()
    }

    /// Returns whether the user has a passkey, and can therefore sign in without a password.
    pub fn has_passkey(&self) -> bool {
        self.keys.iter().any(|key| key.kind() == FactorKind::Passkey)
    }

    /// Returns the kind of the strongest factor: a passkey, a security key or an app. `None` if the
    /// user has none of them. Recovery codes do not count.
    pub fn strongest(&self) -> Option<FactorKind> {
        if self.has_passkey() {
            Some(FactorKind::Passkey)
        } else if !self.keys.is_empty() {
            Some(FactorKind::SecurityKey)
        } else {
            (!self.totp.is_empty()).then_some(FactorKind::Totp)
        }
    }

    /// Returns the highest level that the user can reach.
    pub fn reachable(&self, user: &User) -> AssuranceLevel {
        let has_password = user.has_password();
        if self.has_passkey() || (has_password && !self.keys.is_empty()) {
            AssuranceLevel::PhishingResistant
        } else if has_password && !self.totp.is_empty() {
            AssuranceLevel::Two
        } else {
            AssuranceLevel::One
        }
    }

    /// Returns the properties of the factors that sign-ins depend on.
    pub fn summary(&self, user: &User) -> FactorSummary {
        FactorSummary {
            has_any: self.has_any(),
            reachable: self.reachable(user),
            is_reset: self.reset.is_some(),
            generation: self.generation,
        }
    }

    /// Returns whether the user may have recovery codes.
    ///
    /// Recovery codes replace a second factor. In an account without a password, they would be ten
    /// permanent passwords.
    pub fn may_have_recovery_codes(&self, user: &User) -> bool {
        user.has_password() && self.has_any()
    }

    /// Returns the key with this credential.
    pub fn key_of(&self, id: &CredentialId) -> Option<&KeyFactor> {
        self.keys.iter().find(|key| key.credential.id == *id)
    }

    /// Returns the credentials for a WebAuthn ceremony.
    pub fn credentials(&self) -> Vec<CredentialRecord> {
        self.keys.iter().map(|key| key.credential.clone()).collect()
    }

    /// Returns whether another app can be added.
    pub fn has_room_for_app(&self) -> bool {
        self.totp.len() < MAX_TOTP_APPS
    }

    /// Returns whether another key can be added.
    pub fn has_room_for_key(&self) -> bool {
        self.keys.len() < MAX_KEYS
    }

    /// Begins an enrolment. Replaces an earlier enrolment of the same kind and origin.
    pub fn begin(&mut self, pending: PendingFactor, now: UnixTime) {
        let is_totp = |kind: &PendingKind| matches!(kind, PendingKind::Totp { .. });
        self.pending.retain(|known| {
            now < known.until && (known.origin != pending.origin || is_totp(&known.kind) != is_totp(&pending.kind))
        });
        if self.pending.len() >= MAX_PENDING {
            self.pending.remove(0);
        }
        self.pending.push(pending);
    }

    /// Returns the id and the encrypted secret of the app whose enrolment began in `origin`.
    pub fn pending_app(&self, origin: FactorOrigin, now: UnixTime) -> Option<(FactorId, &Sealed)> {
        self.pending_of(origin, now).find_map(|kind| match kind {
            PendingKind::Totp { id, secret } => Some((*id, secret)),
            PendingKind::Key { .. } => None,
        })
    }

    /// Returns the challenge of the key enrolment that began in this sign-in or session.
    pub fn pending_key(&self, origin: FactorOrigin, now: UnixTime) -> Option<CeremonyChallenge> {
        self.pending_of(origin, now).find_map(|kind| match kind {
            PendingKind::Key { challenge } => Some(*challenge),
            PendingKind::Totp { .. } => None,
        })
    }

    fn pending_of(&self, origin: FactorOrigin, now: UnixTime) -> impl Iterator<Item = &PendingKind> {
        let open = move |pending: &&PendingFactor| pending.origin == origin && now < pending.until;
        self.pending.iter().filter(open).map(|pending| &pending.kind)
    }

    /// Adds the app whose enrolment began in `origin`. The caller has verified the app's first
    /// code, which belongs to the time step `step`.
    pub fn add_app(&mut self, origin: FactorOrigin, name: &str, step: TotpStep, now: UnixTime) -> Option<FactorId> {
        let (id, secret) = self.pending_app(origin, now)?;
        let secret = secret.clone();
        let name = name.to_owned();
        self.totp.push(TotpFactor { id, name, secret, last_step: step, added_at: now, last_used_at: Some(now) });
        self.reset = None;
        self.changed();
        Some(id)
    }

    /// Adds a key whose registration the caller has verified.
    pub fn add_key(&mut self, name: &str, credential: CredentialRecord, now: UnixTime) -> FactorId {
        let id = FactorId::of_credential(credential.id.as_bytes());
        self.keys.push(KeyFactor { id, name: name.to_owned(), credential, added_at: now, last_used_at: None });
        self.reset = None;
        self.changed();
        id
    }

    /// Cancels all enrolments in progress after each change of the factors, because an attacker may
    /// have begun them.
    fn changed(&mut self) {
        self.pending.clear();
        self.generation += 1;
    }

    /// Removes an app or a key and returns its kind and name. If no app or key is left, also
    /// removes the recovery codes.
    pub fn remove(&mut self, id: FactorId) -> Option<(FactorKind, String)> {
        let removed = if let Some(at) = self.totp.iter().position(|app| app.id == id) {
            (FactorKind::Totp, self.totp.remove(at).name)
        } else {
            let at = self.keys.iter().position(|key| key.id == id)?;
            let key = self.keys.remove(at);
            (key.kind(), key.name)
        };
        if self.totp.is_empty() {
            self.totp_failures = FactorFailures::default();
        }
        if !self.has_any() {
            self.recovery = None;
        }
        self.changed();
        Some(removed)
    }

    /// Renames an app or a key. Returns whether it exists.
    pub fn rename(&mut self, id: FactorId, name: &str) -> bool {
        let app = self.totp.iter_mut().find(|app| app.id == id).map(|app| &mut app.name);
        let key = self.keys.iter_mut().find(|key| key.id == id).map(|key| &mut key.name);
        let Some(place) = app.or(key) else { return false };
        name.clone_into(place);
        true
    }

    /// Returns the name of an app or a key.
    pub fn name_of(&self, id: FactorId) -> Option<&str> {
        let app = self.totp.iter().find(|app| app.id == id).map(|app| app.name.as_str());
        app.or_else(|| self.keys.iter().find(|key| key.id == id).map(|key| key.name.as_str()))
    }

    /// Replaces all recovery codes.
    pub fn set_recovery_codes(&mut self, codes: RecoveryCodes) {
        self.recovery = Some(codes);
        self.recovery_failures = FactorFailures::default();
    }

    /// Removes all factors. Sign-ins are refused until the user enrols a factor with the link of
    /// `reset`.
    pub fn reset(&mut self, reset: FactorReset) {
        self.reset = Some(reset);
        self.remove_all();
    }

    /// Removes all factors. The user can sign in without them, unless the factors were reset before.
    pub fn remove_all(&mut self) {
        let Self { subject, handle, generation, .. } = *self;
        let reset = self.reset.take();
        *self = Self { reset, generation: generation + 1, ..Self::none(subject, handle) };
    }

    /// Ends the link of a reset. The reset state remains.
    pub fn end_reset_link(&mut self, now: UnixTime) {
        if let Some(reset) = &mut self.reset {
            reset.until = reset.until.min(now);
        }
    }

    /// Returns whether this is the hash of the reset link's secret and the link has not expired.
    pub fn opens_reset(&self, link: &SecretHash, now: UnixTime) -> bool {
        self.reset.as_ref().is_some_and(|reset| reset.link == *link && now < reset.until)
    }
}

/// Normalizes a factor name that the user typed: removes invisible characters, truncates the name
/// and trims it.
///
/// Returns `default` if nothing remains.
pub fn factor_name(typed: &str, default: &str) -> String {
    let cut: String = visible_part(typed).trim().chars().take(MAX_FACTOR_NAME_LENGTH).collect();
    // Truncation may leave a zero-width joiner at the end.
    let name = visible_part(cut.trim());
    if name.is_empty() { default.to_owned() } else { name }
}
