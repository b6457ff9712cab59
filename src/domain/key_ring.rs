//! Life cycle of signing keys: pre-published, active, retired, removed.
//!
//! The state of a key follows from its times and the current time, so all readers of a ring agree
//! without communication. [`KeyRing`] guarantees two invariants. No key signs before it has been
//! published for [`KeyTimes::publish`], unless an operator permits that. Once a key has become
//! active, there is always an active key.

mod fault;
mod holders;
mod life;
mod rotation;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::oauth::jwk_set::Algorithm;
use super::time::UnixTime;

pub use fault::KeyFault;
pub use holders::{DueEndorsement, FirstKeyTrust};
pub use life::{Endorsement, PublicJwk};
pub use life::{KeyLife, KeyState, KeyTimes};
pub use life::{TokenHolder, Trust, statement};
pub use rotation::Rotating;

/// Maximum number of keys in a ring, including removed keys: twenty years of monthly rotation.
const MAX_KEYS: usize = 256;
/// Maximum number of keys of a node with its own token: three years of monthly rotation.
///
/// The ring is one record, which must hold the keys of a dozen nodes.
const MAX_KEYS_OF_NODE: usize = 36;
/// Number of further algorithms, whose keys share a record.
const FURTHER_ALGORITHMS: usize = 3;

/// Length of a kid: SHA-256 in base64url (RFC 7638).
const KID_LENGTH: usize = 43;

/// All announced keys, in the order of their announcement.
///
/// The times of several keys change atomically. Each algorithm has its own active key and its own
/// rotation. A reader selects an algorithm with [`KeyRing::of_algorithm`]; the default is RS256.
///
/// The RS256 keys are one record, and the keys of further algorithms another: see
/// [`KeyRing::further`]. Versions without further algorithms read and write only the first record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRing {
    keys: Vec<KeyLife>,
    /// Rotation in progress, if all nodes share a token.
    #[serde(default, skip_serializing_if = "Rotating::is_idle")]
    rotating: Rotating,
    /// Rotations in progress of nodes with their own token, by node name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rotating_at: BTreeMap<String, Rotating>,
    /// Time of the latest change. If the clock is set back, state changes up to this time stay in
    /// effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    as_of: Option<UnixTime>,
    /// Node that reads the ring, if it has its own token: see [`KeyRing::of_node`].
    #[serde(skip)]
    node: Option<String>,
    /// Rotations in progress of further algorithms: see [`KeyRing::rotating_name`].
    #[serde(skip)]
    rotating_further: BTreeMap<String, Rotating>,
    /// Selected algorithm: see [`KeyRing::of_algorithm`].
    #[serde(skip)]
    algorithm: Algorithm,
}

/// Keys of other algorithms than RS256, and their rotations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FurtherKeys {
    keys: Vec<KeyLife>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    rotating: BTreeMap<String, Rotating>,
}

impl FurtherKeys {
    /// Returns whether there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.rotating.is_empty()
    }
}

impl KeyRing {
    /// Returns the ring with this algorithm selected. Active and next keys, announcements and
    /// rotations are those of the selected algorithm.
    #[must_use]
    pub fn of_algorithm(self, algorithm: Algorithm) -> Self {
        Self { algorithm, ..self }
    }

    /// Selects an algorithm: see [`Self::of_algorithm`].
    pub fn select(&mut self, algorithm: Algorithm) {
        self.algorithm = algorithm;
    }

    /// Adds the keys of further algorithms, which are stored apart.
    #[must_use]
    pub fn with_further(mut self, further: FurtherKeys) -> Self {
        // The first record has only RS256 keys, and the second one has none. Otherwise a key could
        // be listed twice.
        self.keys.retain(|key| key.is_for(Algorithm::Rs256));
        self.keys.extend(further.keys.into_iter().filter(|key| !key.is_for(Algorithm::Rs256)));
        self.rotating_further = further.rotating;
        self
    }

    /// Returns the part of the ring that is stored apart.
    pub fn further(&self) -> FurtherKeys {
        let keys = self.keys.iter().filter(|key| !key.is_for(Algorithm::Rs256)).cloned().collect();
        FurtherKeys { keys, rotating: self.rotating_further.clone() }
    }

    /// Returns the ring without keys of further algorithms, for its own record.
    #[must_use]
    pub fn without_further(mut self) -> Self {
        self.keys.retain(|key| key.is_for(Algorithm::Rs256));
        self.rotating_further.clear();
        self
    }

    /// Returns the keys of each algorithm, oldest first.
    pub fn keys(&self) -> &[KeyLife] {
        &self.keys
    }

    /// Returns the key with this kid.
    pub fn find(&self, kid: &str) -> Option<&KeyLife> {
        self.keys.iter().find(|key| key.kid == kid)
    }

    /// Converts the clock's time to the time of the ring, which is never before the latest change.
    ///
    /// Otherwise, after the clock was set back, a removed compromised key would be valid again, and
    /// the active key would be scheduled again.
    pub fn at(&self, now: UnixTime) -> UnixTime {
        let learnt = self.keys.iter().map(|key| key.created_at).max();
        [self.as_of, learnt].into_iter().flatten().fold(now, UnixTime::max)
    }

    /// Returns the state of a key when the clock shows `now`.
    pub fn state(&self, key: &KeyLife, now: UnixTime) -> KeyState {
        key.state(self.at(now))
    }

    /// Records a change of the schedule. `at` is the ring's time.
    fn changed(&mut self, at: UnixTime) {
        self.as_of = Some(at);
        self.strip_removed(at);
    }

    /// Returns whether the ring has no space for another key of this holder and the selected
    /// algorithm.
    fn is_full(&self, holder: Option<&str>) -> bool {
        let most = if holder.is_some() { MAX_KEYS_OF_NODE } else { MAX_KEYS };
        let most = if self.algorithm == Algorithm::Rs256 { most } else { most / FURTHER_ALGORITHMS };
        let is_alike = |key: &&KeyLife| key.holder.as_deref() == holder && key.is_for(self.algorithm);
        self.keys.iter().filter(is_alike).count() >= most
    }

    /// Returns the node's usable key of the selected algorithm that is active at `now`. If several
    /// are active, returns the one that became active last.
    pub fn active(&self, now: UnixTime, usable: impl Fn(&str) -> bool) -> Option<&KeyLife> {
        let now = self.at(now);
        let active = self.own().filter(|key| key.state(now) == KeyState::Active && usable(&key.kid));
        active.max_by_key(|key| (key.activate_at, &key.kid))
    }

    /// Returns the next time after `now` at which the state of a key changes.
    pub fn next_change(&self, now: UnixTime) -> Option<UnixTime> {
        let now = self.at(now);
        let times = self.keys.iter().flat_map(|key| [key.activate_at, key.retire_at, key.remove_at]);
        times.flatten().filter(|at| *at > now).min()
    }

    /// Compares the ring with the RS256 keys in the token. To be called when the server starts.
    ///
    /// In an empty ring, the token's only key becomes active immediately. In all other cases, an
    /// unannounced key is an error, because write access to the token must not suffice to choose
    /// the signing key.
    ///
    /// # Errors
    /// `Unannounced`, `NotAdmitted`, `OfAnother`, `Missing`, `NotYet`, `Waiting`, `NodeRetired`.
    pub fn reconcile(&mut self, kids_in_token: &[String], now: UnixTime) -> Result<(), KeyFault> {
        self.claim(kids_in_token);
        if let ([], [only]) = (&self.keys[..], kids_in_token) {
            self.push_active(only, now);
        }
        self.check_announced(kids_in_token)?;
        if self.active(now, |_| true).is_none() {
            return self.check_own_is_active(now);
        }
        self.check_active_in_token(kids_in_token, now)
    }

    /// Compares the ring with the keys of the selected further algorithm in the token. To be called
    /// when the server starts, after [`Self::reconcile`].
    ///
    /// At the first start, with `is_first` set, the token's only key of the algorithm becomes active
    /// immediately. Later keys are announced by an operator, as with RS256. The server starts before
    /// the first key of an algorithm is active.
    ///
    /// # Errors
    /// `Unannounced`, `NotAdmitted`, `OfAnother`, `WrongAlgorithm`, `Missing`, `NotYet`.
    pub fn reconcile_further(
        &mut self,
        kids_in_token: &[String],
        is_first: bool,
        now: UnixTime,
    ) -> Result<(), KeyFault> {
        self.claim(kids_in_token);
        let has_none = self.own().next().is_none();
        if let (true, true, [only]) = (is_first, has_none, kids_in_token) {
            self.push_active(only, now);
        }
        self.check_announced(kids_in_token)?;
        self.check_active_in_token(kids_in_token, now)
    }

    fn push_active(&mut self, kid: &str, now: UnixTime) {
        let life = KeyLife::new(kid, self.node.as_deref(), self.algorithm, now);
        self.keys.push(KeyLife { activate_at: Some(now), ..life });
    }

    /// Checks that the active key, if there is one, is in the token.
    fn check_active_in_token(&self, kids_in_token: &[String], now: UnixTime) -> Result<(), KeyFault> {
        let Some(active) = self.active(now, |_| true) else { return Ok(()) };
        if kids_in_token.contains(&active.kid) {
            return Ok(());
        }
        let kid = active.kid.clone();
        Err(match self.next_to_sign(now, |kid| kids_in_token.iter().any(|known| known == kid)) {
            Some((next, at)) => KeyFault::NotYet { kid, next: next.kid.clone(), at, now },
            None => KeyFault::Missing(kid),
        })
    }

    /// Returns the node's usable key that becomes active next, with the time of its activation.
    pub fn next_to_sign(&self, now: UnixTime, usable: impl Fn(&str) -> bool) -> Option<(&KeyLife, UnixTime)> {
        let now = self.at(now);
        let waiting = self.own().filter(|key| key.is_scheduled(now) && usable(&key.kid));
        waiting.filter_map(|key| Some((key, key.activate_at?))).min_by_key(|(_, at)| *at)
    }

    /// Announces a new key. From then on, the key is published. [`KeyRing::activate`] schedules its
    /// first signature.
    ///
    /// `others` are the kids of the other keys in the token. If the ring is empty and `others` has
    /// a single key, that key becomes active, as at a first start. If both are empty, the new key
    /// becomes active.
    ///
    /// # Errors
    /// `NotAKid`, `CachedSession`, `TooMany`, `NotAdmitted`, and `Unannounced` if the ring is empty
    /// and the token has several other keys.
    pub fn announce(&mut self, kid: &str, others: &[String], now: UnixTime) -> Result<(), KeyFault> {
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if kid.len() != KID_LENGTH || !kid.bytes().all(is_base64url) {
            return Err(KeyFault::NotAKid(kid.to_owned()));
        }
        if self.find(kid).is_some() {
            return Err(KeyFault::Known(kid.to_owned()));
        }
        if self.is_full(self.node.as_deref()) {
            return Err(KeyFault::TooMany);
        }
        let now = self.at(now);
        self.check_admitted(kid)?;
        if self.keys.is_empty() {
            return match others {
                _ if self.algorithm != Algorithm::Rs256 => Err(KeyFault::NotStarted),
                [] => self.reconcile(&[kid.to_owned()], now),
                [_] => {
                    self.reconcile(others, now)?;
                    self.announce(kid, &[], now)
                }
                _ => Err(KeyFault::Unannounced(others.to_vec())),
            };
        }
        self.keys.push(KeyLife::new(kid, self.node.as_deref(), self.algorithm, now));
        Ok(())
    }

    /// Returns whether the selected algorithm has no key of this node yet that signs or is scheduled.
    pub fn awaits_first_key(&self, now: UnixTime) -> bool {
        let now = self.at(now);
        !self.own().any(|key| key.state(now) == KeyState::Active || key.is_scheduled(now))
    }

    /// Schedules the activation of a key at `at`, or as soon as verifiers know the key.
    ///
    /// The current signing key is retired at that time, and removed when all its signatures have
    /// expired. `early` permits an activation before verifiers know the key.
    ///
    /// # Errors
    /// `Unknown`, `State`, `Scheduled`, `Early`.
    pub fn activate(
        &mut self,
        kid: &str,
        at: Option<UnixTime>,
        early: bool,
        now: UnixTime,
        times: KeyTimes,
    ) -> Result<(), KeyFault> {
        let now = self.at(now);
        let key = self.find(kid).ok_or_else(|| KeyFault::Unknown(kid.to_owned()))?;
        let (state, line) = (key.state(now), key.line());
        if !matches!(state, KeyState::PrePublished | KeyState::Retired) {
            return Err(KeyFault::State { kid: kid.to_owned(), state, target: "activated" });
        }
        let mut of_line = self.keys.iter().filter(|key| key.line() == line);
        if let Some(other) = of_line.find(|key| key.is_scheduled(now) && key.kid != kid) {
            return Err(KeyFault::Scheduled { kid: other.kid.clone(), at: other.activate_at.unwrap_or(now) });
        }
        let known_at = key.published_at.plus(times.publish);
        let at = at.unwrap_or(if early { now } else { known_at }).max(now);
        if at < known_at && !early {
            let published = at.since(key.published_at).as_secs();
            return Err(KeyFault::Early { published, publish: times.publish });
        }
        for key in &mut self.keys {
            if key.kid == kid {
                (key.activate_at, key.retire_at, key.remove_at) = (Some(at), None, None);
            } else if key.line() == line && key.state(now) == KeyState::Active {
                key.retire(at, times);
            }
        }
        self.changed(now);
        Ok(())
    }

    /// Cancels the activation of a pre-published key. The key is removed when verifiers cannot have
    /// cached it any more.
    ///
    /// An active key is retired by activating another key.
    ///
    /// # Errors
    /// `Unknown`, `State`.
    pub fn retire(&mut self, kid: &str, now: UnixTime, times: KeyTimes) -> Result<(), KeyFault> {
        let now = self.at(now);
        let state = self.find(kid).ok_or_else(|| KeyFault::Unknown(kid.to_owned()))?.state(now);
        if state != KeyState::PrePublished {
            let target = if state == KeyState::Active { "retired; activate another key instead" } else { "retired" };
            return Err(KeyFault::State { kid: kid.to_owned(), state, target });
        }
        self.withdraw(kid, now);
        if let Some(key) = self.find_mut(kid) {
            key.retire(now, times);
        }
        self.changed(now);
        Ok(())
    }

    /// Schedules the removal of a retired key for the time when all its signatures have expired.
    ///
    /// # Errors
    /// `Unknown`, `State`.
    pub fn remove(&mut self, kid: &str, now: UnixTime, times: KeyTimes) -> Result<(), KeyFault> {
        let now = self.at(now);
        let key = self.find_mut(kid).ok_or_else(|| KeyFault::Unknown(kid.to_owned()))?;
        match (key.state(now), key.retire_at) {
            (KeyState::Retired, Some(retired)) => {
                key.remove_at = Some(retired.plus(times.keep).max(now));
                self.changed(now);
                Ok(())
            }
            (state, _) => {
                Err(KeyFault::State { kid: kid.to_owned(), state, target: "removed; retire it first, or use --now" })
            }
        }
    }

    /// Removes a compromised key at once, so that its signatures are rejected.
    ///
    /// An active key is replaced by the scheduled key, or by the oldest pre-published key. The
    /// successor must be `usable`. The key of another node is removed even if there is no
    /// successor. The contents of that node's token are unknown here, and an attacker who stole the
    /// token would not add a successor.
    ///
    /// # Errors
    /// `Unknown`, `State`, `NoSuccessor`.
    pub fn remove_now(&mut self, kid: &str, now: UnixTime, usable: impl Fn(&str) -> bool) -> Result<(), KeyFault> {
        let now = self.at(now);
        let key = self.find(kid).ok_or_else(|| KeyFault::Unknown(kid.to_owned()))?;
        let (state, line) = (key.state(now), key.line());
        match state {
            KeyState::Removed => return Err(KeyFault::State { kid: kid.to_owned(), state, target: "removed again" }),
            KeyState::PrePublished => self.withdraw(kid, now),
            KeyState::Active => {
                let is_of_another = line.0.is_some() && line.0 != self.node;
                let waits = |key: &&mut KeyLife| {
                    let is_usable = is_of_another || usable(&key.kid);
                    key.line() == line && key.state(now) == KeyState::PrePublished && is_usable
                };
                let waiting = self.keys.iter_mut().filter(waits);
                // Prefer a scheduled key. Otherwise that key would later become active in addition
                // to the successor. If several keys are scheduled, use the first.
                match waiting.min_by_key(|key| key.activate_at.is_none()) {
                    Some(successor) => successor.activate_at = Some(now),
                    None if is_of_another => {}
                    None => return Err(KeyFault::NoSuccessor(kid.to_owned())),
                }
            }
            KeyState::Retired => {}
        }
        if let Some(key) = self.find_mut(kid) {
            key.retire_at = Some(key.retire_at.map_or(now, |at| at.min(now)));
            key.remove_at = Some(now);
        }
        self.changed(now);
        Ok(())
    }

    /// Cancels a scheduled activation, and the retirement of the current key.
    fn withdraw(&mut self, kid: &str, now: UnixTime) {
        let Some(key) = self.find_mut(kid) else { return };
        let line = key.line();
        let Some(planned) = key.activate_at.take() else { return };
        for key in &mut self.keys {
            if key.line() == line && key.state(now) == KeyState::Active && key.retire_at == Some(planned) {
                (key.retire_at, key.remove_at) = (None, None);
            }
        }
    }

    fn find_mut(&mut self, kid: &str) -> Option<&mut KeyLife> {
        self.keys.iter_mut().find(|key| key.kid == kid)
    }
}

#[cfg(test)]
mod tests;
