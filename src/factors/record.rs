//! What is kept of a person's factors.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::assurance::{AssuranceLevel, FactorId};
use crate::domain::factor_failures::FactorFailures;
use crate::domain::recovery_code::RecoveryCodes;
use crate::domain::sealed::Sealed;
use crate::domain::secret::SecretHash;
use crate::domain::time::UnixTime;
use crate::domain::totp::TotpStep;
use crate::domain::user::{Subject, User};
use crate::webauthn::{CeremonyChallenge, CredentialId, CredentialKind, CredentialRecord, UserHandle};

/// Authenticator apps that one person may have.
pub const MOST_TOTP_APPS: usize = 5;

/// Security keys and passkeys that one person may have.
pub const MOST_KEYS: usize = 20;

/// The longest name of a factor, characters.
pub const LONGEST_FACTOR_NAME: usize = 60;

/// What people and administrators see a factor as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FactorKind {
    Totp,
    SecurityKey,
    Passkey,
    RecoveryCodes,
}

impl FactorKind {
    /// Its name in `--json`, in the audit trail and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Totp => "totp",
            Self::SecurityKey => "security_key",
            Self::Passkey => "passkey",
            Self::RecoveryCodes => "recovery_codes",
        }
    }
}

/// An authenticator app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TotpFactor {
    pub id: FactorId,
    /// As its owner calls it.
    pub name: String,
    /// The 20 bytes of its secret. One that does not open is a factor all the same.
    pub secret: Sealed,
    /// The last step of which a code was accepted.
    pub last_step: TotpStep,
    pub added_at: UnixTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<UnixTime>,
}

/// A security key or a passkey.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyFactor {
    /// Of its credential id.
    pub id: FactorId,
    /// As its owner calls it.
    pub name: String,
    pub credential: CredentialRecord,
    pub added_at: UnixTime,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<UnixTime>,
}

impl KeyFactor {
    pub const fn kind(&self) -> FactorKind {
        match self.credential.kind {
            CredentialKind::Passkey => FactorKind::Passkey,
            CredentialKind::SecurityKey => FactorKind::SecurityKey,
        }
    }
}

/// Where an enrolment was begun; it can be finished nowhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FactorOrigin(SecretHash);

impl FactorOrigin {
    /// The sign-in or the session that this text names.
    pub fn of(text: &str) -> Self {
        Self(SecretHash::of(text.as_bytes()))
    }
}

/// What is being enrolled. It is no factor before it was used once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PendingKind {
    Totp {
        id: FactorId,
        secret: Sealed,
    },
    /// Either kind of key: which one, the answer says by the form that it comes in.
    Key {
        challenge: CeremonyChallenge,
    },
}

/// An enrolment that was begun and not confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingFactor {
    pub origin: FactorOrigin,
    pub kind: PendingKind,
    pub until: UnixTime,
}

/// How long the link is good by which somebody enrols a factor after a reset.
pub const LINK_LIFE: Duration = Duration::from_hours(24);

/// The path of the page that it leads to, with its token in the query parameter `token`.
pub const LINK_PATH: &str = "/oauth/enrolment";

/// What an administrator's reset leaves: until a factor is enrolled by the link, nobody signs in as this person, with the
/// right password either.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FactorReset {
    /// Of the link's secret.
    pub link: SecretHash,
    /// Until when the link is good. The state itself ends with an enrolment only.
    pub until: UnixTime,
}

/// Everything that a person has beside their password.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Factors {
    pub subject: Subject,
    /// What authenticators know the account as. It stays as long as the record does.
    pub handle: UserHandle,
    /// They, in the order in which they were added.
    #[serde(default)]
    pub totp: Vec<TotpFactor>,
    /// Of all apps together: a guess is held against each of them.
    #[serde(default)]
    pub totp_failures: FactorFailures,
    /// They, in the order in which they were added.
    #[serde(default)]
    pub keys: Vec<KeyFactor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoveryCodes>,
    #[serde(default)]
    pub recovery_failures: FactorFailures,
    /// When a recovery code was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery_used_at: Option<UnixTime>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<PendingFactor>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset: Option<FactorReset>,
    /// Grows with each factor that comes or goes. A sign-in that was half done before is worth nothing afterwards.
    #[serde(default)]
    pub generation: u64,
}

/// Enrolments that one person may have open at once: an app and a key, in two places.
const MOST_PENDING: usize = 4;

/// What the sign-in has to know of somebody's factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FactorSummary {
    /// Whether there is any; recovery codes alone are none.
    pub has_any: bool,
    /// The highest level that the person can reach with what they have.
    pub reachable: AssuranceLevel,
    /// Whether an administrator's reset waits for an enrolment by its link.
    pub is_reset: bool,
    pub generation: u64,
}

impl Factors {
    /// None yet. `handle`: see [`UserHandle`].
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

    /// Whether there is a factor. Recovery codes stand in for one, and are none of their own.
    pub fn has_any(&self) -> bool {
        !self.totp.is_empty() || !self.keys.is_empty()
    }

    /// Whether there is a passkey, with which its owner signs in without a password.
    pub fn has_passkey(&self) -> bool {
        self.keys.iter().any(|key| key.kind() == FactorKind::Passkey)
    }

    /// The highest level that the person can reach.
    pub fn reachable(&self, user: &User) -> AssuranceLevel {
        let has_password = user.password.is_some();
        if self.has_passkey() || (has_password && !self.keys.is_empty()) {
            AssuranceLevel::PhishingResistant
        } else if has_password && !self.totp.is_empty() {
            AssuranceLevel::Two
        } else {
            AssuranceLevel::One
        }
    }

    pub fn summary(&self, user: &User) -> FactorSummary {
        FactorSummary {
            has_any: self.has_any(),
            reachable: self.reachable(user),
            is_reset: self.reset.is_some(),
            generation: self.generation,
        }
    }

    /// Whether the person can have recovery codes: they stand in for a second step, and where there is no password they would
    /// be ten permanent ones.
    pub fn may_have_recovery_codes(&self, user: &User) -> bool {
        user.password.is_some() && self.has_any()
    }

    /// The key of this credential.
    pub fn key_of(&self, id: &CredentialId) -> Option<&KeyFactor> {
        self.keys.iter().find(|key| key.credential.id == *id)
    }

    /// Its credentials, for a ceremony.
    pub fn credentials(&self) -> Vec<CredentialRecord> {
        self.keys.iter().map(|key| key.credential.clone()).collect()
    }

    /// Whether another app may come.
    pub fn has_room_for_app(&self) -> bool {
        self.totp.len() < MOST_TOTP_APPS
    }

    /// Whether another key may come.
    pub fn has_room_for_key(&self) -> bool {
        self.keys.len() < MOST_KEYS
    }

    /// Begins an enrolment. It takes the place of one of the same kind that was begun there.
    pub fn begin(&mut self, pending: PendingFactor, now: UnixTime) {
        let is_totp = |kind: &PendingKind| matches!(kind, PendingKind::Totp { .. });
        self.pending.retain(|known| {
            now < known.until && (known.origin != pending.origin || is_totp(&known.kind) != is_totp(&pending.kind))
        });
        if self.pending.len() >= MOST_PENDING {
            self.pending.remove(0);
        }
        self.pending.push(pending);
    }

    /// The app whose enrolment was begun there: its id and sealed secret.
    pub fn pending_app(&self, origin: FactorOrigin, now: UnixTime) -> Option<(FactorId, &Sealed)> {
        self.pending_of(origin, now).find_map(|kind| match kind {
            PendingKind::Totp { id, secret } => Some((*id, secret)),
            PendingKind::Key { .. } => None,
        })
    }

    /// The challenge for a key whose enrolment was begun there.
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

    /// Adds the app whose enrolment was begun there, after its first code: `step` is that code's.
    pub fn add_app(&mut self, origin: FactorOrigin, name: &str, step: TotpStep, now: UnixTime) -> Option<FactorId> {
        let (id, secret) = self.pending_app(origin, now)?;
        let secret = secret.clone();
        let name = name.to_owned();
        self.totp.push(TotpFactor { id, name, secret, last_step: step, added_at: now, last_used_at: Some(now) });
        self.reset = None;
        self.changed();
        Some(id)
    }

    /// Adds a key that was registered.
    pub fn add_key(&mut self, name: &str, credential: CredentialRecord, now: UnixTime) -> FactorId {
        let id = FactorId::of_credential(credential.id.as_bytes());
        self.keys.push(KeyFactor { id, name: name.to_owned(), credential, added_at: now, last_used_at: None });
        self.reset = None;
        self.changed();
        id
    }

    /// With each factor that comes or goes, what was begun before ends: somebody else may have begun it.
    fn changed(&mut self) {
        self.pending.clear();
        self.generation += 1;
    }

    /// Removes an app or a key, and yields its kind and name. With the last one the recovery codes go.
    pub fn remove(&mut self, id: FactorId) -> Option<(FactorKind, String)> {
        let gone = if let Some(at) = self.totp.iter().position(|app| app.id == id) {
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
        Some(gone)
    }

    /// Gives an app or a key another name.
    pub fn rename(&mut self, id: FactorId, name: &str) -> bool {
        let app = self.totp.iter_mut().find(|app| app.id == id).map(|app| &mut app.name);
        let key = self.keys.iter_mut().find(|key| key.id == id).map(|key| &mut key.name);
        let Some(place) = app.or(key) else { return false };
        name.clone_into(place);
        true
    }

    /// The name of an app or a key.
    pub fn name_of(&self, id: FactorId) -> Option<&str> {
        let app = self.totp.iter().find(|app| app.id == id).map(|app| app.name.as_str());
        app.or_else(|| self.keys.iter().find(|key| key.id == id).map(|key| key.name.as_str()))
    }

    /// Puts new recovery codes in the place of all earlier ones.
    pub fn set_recovery_codes(&mut self, codes: RecoveryCodes) {
        self.recovery = Some(codes);
        self.recovery_failures = FactorFailures::default();
    }

    /// Removes everything of every kind. Until an enrolment by the link, nothing lets the person in.
    pub fn reset(&mut self, reset: FactorReset) {
        let Self { subject, handle, generation, .. } = *self;
        *self = Self { reset: Some(reset), generation: generation + 1, ..Self::none(subject, handle) };
    }

    /// Whether this is the secret of the link of a reset.
    pub fn opens_reset(&self, link: &SecretHash, now: UnixTime) -> bool {
        self.reset.as_ref().is_some_and(|reset| reset.link == *link && now < reset.until)
    }
}

/// A factor's name as somebody typed it, for keeping: trimmed, without control characters, cut; the default where nothing is
/// left of it.
pub fn factor_name(typed: &str, default: &str) -> String {
    let kept: String = typed.trim().chars().filter(|char| !char.is_control()).take(LONGEST_FACTOR_NAME).collect();
    if kept.is_empty() { default.to_owned() } else { kept }
}
