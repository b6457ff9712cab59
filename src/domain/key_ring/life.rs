//! One key's life: its times, the state that follows from them, and, where nodes have tokens of their own, whose it is and who
//! vouches for it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::endorsement::{Endorsement, PublicJwk};
use crate::domain::time::UnixTime;

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// Published, so that verifiers know it before it signs.
    PrePublished,
    Active,
    /// Published, so that what it signed still verifies.
    Retired,
    /// Neither published nor used; what it signed is refused.
    Removed,
}

/// The times of a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyLife {
    /// Its RFC 7638 thumbprint.
    pub kid: String,
    pub created_at: UnixTime,
    pub published_at: UnixTime,
    /// From when on it signs; nobody has said so while absent.
    pub activate_at: Option<UnixTime>,
    /// From when on another key signs instead.
    pub retire_at: Option<UnixTime>,
    /// From when on it is published no more.
    pub remove_at: Option<UnixTime>,
    /// The node whose own token has it; absent where all nodes have one token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<String>,
    /// Its public members, for nodes whose tokens do not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwk: Option<PublicJwk>,
    /// What it signs with (RFC 7518 §3.1).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alg: Option<String>,
    /// What keys of the fleet have signed about it.
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

    /// Whether it will sign, at a time that is known and lies ahead.
    pub(super) fn is_scheduled(&self, now: UnixTime) -> bool {
        self.state(now) == KeyState::PrePublished && self.activate_at.is_some()
    }

    pub(super) fn retire(&mut self, at: UnixTime, times: KeyTimes) {
        self.retire_at = Some(at);
        self.remove_at = Some(at.plus(times.keep));
    }
}

/// How long keys are in their states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct KeyTimes {
    /// From publication to the first signature: the longest that anybody keeps the JWK set, and the clocks' difference.
    pub publish: Duration,
    /// From the last signature to removal: the longest life of a token, and the clocks' difference.
    pub keep: Duration,
}
