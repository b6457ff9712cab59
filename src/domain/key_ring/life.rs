//! Entry of a key ring: a key's times, the state that follows from them, its holder and its
//! endorsements.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::endorsement::{Endorsement, PublicJwk};
use crate::time::UnixTime;

/// State of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// Published before it signs, so that verifiers know it.
    PrePublished,
    Active,
    /// Published so that its signatures still verify.
    Retired,
    /// Neither published nor used. Its signatures are rejected.
    Removed,
}

/// Schedule of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLife {
    /// Its RFC 7638 thumbprint.
    pub kid: String,
    pub created_at: UnixTime,
    pub published_at: UnixTime,
    /// When it begins to sign. None if it is not scheduled.
    pub activate_at: Option<UnixTime>,
    /// When another key begins to sign instead.
    pub retire_at: Option<UnixTime>,
    /// When it is no longer published.
    pub remove_at: Option<UnixTime>,
    /// The node whose own token contains it. None if all nodes share a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Its public parameters, for nodes whose tokens do not contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwk: Option<PublicJwk>,
    /// Its signature algorithm (RFC 7518 §3.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// Endorsements of the key by other keys of the cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub endorsed: Vec<Endorsement>,
}

impl KeyLife {
    pub(super) fn new(kid: &str, holder: Option<&str>, now: UnixTime) -> Self {
        Self {
            kid: kid.to_owned(),
            created_at: now,
            published_at: now,
            activate_at: None,
            retire_at: None,
            remove_at: None,
            holder: holder.map(str::to_owned),
            jwk: None,
            alg: None,
            endorsed: Vec::new(),
        }
    }

    /// Returns the state at an instant of the ring's own time (`KeyRing::at`).
    pub(super) fn state(&self, now: UnixTime) -> KeyState {
        let come = |at: Option<UnixTime>| at.is_some_and(|at| at <= now);
        match () {
            () if come(self.remove_at) => KeyState::Removed,
            () if come(self.retire_at) => KeyState::Retired,
            () if come(self.activate_at) => KeyState::Active,
            () => KeyState::PrePublished,
        }
    }

    /// Reports whether it will sign at a scheduled time in the future.
    pub(super) fn is_scheduled(&self, now: UnixTime) -> bool {
        self.state(now) == KeyState::PrePublished && self.activate_at.is_some()
    }

    pub(super) fn retire(&mut self, at: UnixTime, times: KeyTimes) {
        self.retire_at = Some(at);
        self.remove_at = Some(at.plus(times.keep));
    }
}

/// Durations of the states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KeyTimes {
    /// From publication to the first signature: the maximum cache time of the JWK set plus the
    /// clock difference.
    pub publish: Duration,
    /// From the last signature to removal: the maximum lifetime of a token plus the clock
    /// difference.
    pub keep: Duration,
}
