//! The life of signing keys: pre-published, active, retired, removed. A key's state follows from its times and the time
//! it is asked at, so whoever reads the same ring agrees about it without a message.
//!
//! Two promises, both kept by [`KeyRing`] alone: no key signs before it was published for [`KeyTimes::publish`] (unless
//! an operator says that it must), and once there was a key that signs there is always one.

mod fault;
mod rotation;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::time::UnixTime;

pub use fault::KeyFault;
pub use rotation::Rotating;

/// The most keys that a ring remembers, removed ones included: twenty years of monthly rotation.
const MOST_KEYS: usize = 256;

/// The length of a kid: SHA-256 in base64url (RFC 7638).
const KID_LENGTH: usize = 43;

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
}

impl KeyLife {
    fn new(kid: &str, now: UnixTime) -> Self {
        let kid = kid.to_owned();
        Self { kid, created_at: now, published_at: now, activate_at: None, retire_at: None, remove_at: None }
    }

    /// The state at an instant of the ring's own time: see [`KeyRing::at`].
    fn state(&self, now: UnixTime) -> KeyState {
        let come = |at: Option<UnixTime>| at.is_some_and(|at| at <= now);
        match () {
            () if come(self.remove_at) => KeyState::Removed,
            () if come(self.retire_at) => KeyState::Retired,
            () if come(self.activate_at) => KeyState::Active,
            () => KeyState::PrePublished,
        }
    }

    /// Whether it will sign, at a time that is known and lies ahead.
    fn is_scheduled(&self, now: UnixTime) -> bool {
        self.state(now) == KeyState::PrePublished && self.activate_at.is_some()
    }

    fn retire(&mut self, at: UnixTime, times: KeyTimes) {
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

/// Every key that was announced, in the order in which it was. One value, so that a change of several keys' times is one
/// step.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRing {
    keys: Vec<KeyLife>,
    /// A rotation that a server has begun.
    #[serde(default, skip_serializing_if = "Rotating::is_idle")]
    rotating: Rotating,
    /// The latest instant at which the times were changed: what has come by then does not go back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    as_of: Option<UnixTime>,
}

impl KeyRing {
    /// The keys, the oldest first.
    pub fn keys(&self) -> &[KeyLife] {
        &self.keys
    }

    /// The key with this kid.
    pub fn find(&self, kid: &str) -> Option<&KeyLife> {
        self.keys.iter().find(|key| key.kid == kid)
    }

    /// The ring's own time when the clock shows `now`. It never lies before the latest change: were the clock's word taken
    /// alone, one that is moved back would bring a key back that was removed because others can sign with it, and take the
    /// key that signs for one that is to come.
    pub fn at(&self, now: UnixTime) -> UnixTime {
        let learnt = self.keys.iter().map(|key| key.created_at).max();
        [self.as_of, learnt].into_iter().flatten().fold(now, UnixTime::max)
    }

    /// The state of one of its keys when the clock shows `now`.
    pub fn state(&self, key: &KeyLife, now: UnixTime) -> KeyState {
        key.state(self.at(now))
    }

    /// Notes that the times were changed at this instant of the ring's own time.
    fn changed(&mut self, at: UnixTime) {
        self.as_of = Some(at);
    }

    /// The key that signs at `now`, of those that `usable` names: of several the one that became active last.
    pub fn active(&self, now: UnixTime, usable: impl Fn(&str) -> bool) -> Option<&KeyLife> {
        let now = self.at(now);
        let active = self.keys.iter().filter(|key| key.state(now) == KeyState::Active && usable(&key.kid));
        active.max_by_key(|key| (key.activate_at, &key.kid))
    }

    /// The next instant after `now` at which a key changes its state.
    pub fn next_change(&self, now: UnixTime) -> Option<UnixTime> {
        let now = self.at(now);
        let times = self.keys.iter().flat_map(|key| [key.activate_at, key.retire_at, key.remove_at]);
        times.flatten().filter(|at| *at > now).min()
    }

    /// Compares the ring with the keys that are in the token, at a start. The only key of a token that has never been
    /// used becomes active at once; a key that nobody announced is a fault, for whoever can put a key into the token
    /// must not thereby decide what signs.
    ///
    /// # Errors
    /// `Unannounced`, `Missing`, `NotYet`.
    pub fn settle(&mut self, found: &[String], now: UnixTime) -> Result<(), KeyFault> {
        if let ([], [only]) = (&self.keys[..], found) {
            self.keys.push(KeyLife { activate_at: Some(now), ..KeyLife::new(only, now) });
        }
        let unannounced: Vec<_> = found.iter().filter(|kid| self.find(kid).is_none()).cloned().collect();
        if !unannounced.is_empty() {
            return Err(KeyFault::Unannounced(unannounced));
        }
        let Some(active) = self.active(now, |_| true).filter(|active| !found.contains(&active.kid)) else {
            return Ok(());
        };
        let kid = active.kid.clone();
        Err(match self.next_to_sign(now, |kid| found.iter().any(|known| known == kid)) {
            Some((next, at)) => KeyFault::NotYet { kid, next: next.kid.clone(), at, now },
            None => KeyFault::Missing(kid),
        })
    }

    /// The key that becomes active first after `now`, of those that `usable` names, and when.
    pub fn next_to_sign(&self, now: UnixTime, usable: impl Fn(&str) -> bool) -> Option<(&KeyLife, UnixTime)> {
        let now = self.at(now);
        let waiting = self.keys.iter().filter(|key| key.is_scheduled(now) && usable(&key.kid));
        waiting.filter_map(|key| Some((key, key.activate_at?))).min_by_key(|(_, at)| *at)
    }

    /// Takes a new key in: published from now on, and active when told. `others` are the kids in the token beside it;
    /// where the ring is empty, the only one of them is the key that signs, as at a first start, and without any the new
    /// key itself.
    ///
    /// # Errors
    /// `NotAKid`, `Known`, `TooMany`, and `Unannounced` where it cannot be told which of the others signs.
    pub fn announce(&mut self, kid: &str, others: &[String], now: UnixTime) -> Result<(), KeyFault> {
        let is_base64url = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if kid.len() != KID_LENGTH || !kid.bytes().all(is_base64url) {
            return Err(KeyFault::NotAKid(kid.to_owned()));
        }
        if self.find(kid).is_some() {
            return Err(KeyFault::Known(kid.to_owned()));
        }
        if self.keys.len() >= MOST_KEYS {
            return Err(KeyFault::TooMany);
        }
        let now = self.at(now);
        if self.keys.is_empty() {
            return match others {
                [] => self.settle(&[kid.to_owned()], now),
                [_] => {
                    self.settle(others, now)?;
                    self.announce(kid, &[], now)
                }
                _ => Err(KeyFault::Unannounced(others.to_vec())),
            };
        }
        self.keys.push(KeyLife::new(kid, now));
        Ok(())
    }

    /// Lets a key sign from `at` on, or from when verifiers know it. The key that signs until then is retired at that
    /// time, and removed once nothing that it signed is valid. `early`: even if verifiers may not know the key yet.
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
        let state = key.state(now);
        if !matches!(state, KeyState::PrePublished | KeyState::Retired) {
            return Err(KeyFault::State { kid: kid.to_owned(), state, wanted: "activated" });
        }
        if let Some(other) = self.keys.iter().find(|key| key.is_scheduled(now) && key.kid != kid) {
            return Err(KeyFault::Scheduled { kid: other.kid.clone(), at: other.activate_at.unwrap_or(now) });
        }
        let known = key.published_at.plus(times.publish);
        let at = at.unwrap_or(if early { now } else { known }).max(now);
        if at < known && !early {
            let published = at.since(key.published_at).as_secs();
            return Err(KeyFault::Early { published, publish: times.publish });
        }
        for key in &mut self.keys {
            if key.kid == kid {
                (key.activate_at, key.retire_at, key.remove_at) = (Some(at), None, None);
            } else if key.state(now) == KeyState::Active {
                key.retire(at, times);
            }
        }
        self.changed(now);
        Ok(())
    }

    /// Takes back that a pre-published key will sign; it is removed once nobody can have seen it. The active key is
    /// retired by activating another one.
    ///
    /// # Errors
    /// `Unknown`, `State`.
    pub fn retire(&mut self, kid: &str, now: UnixTime, times: KeyTimes) -> Result<(), KeyFault> {
        let now = self.at(now);
        let state = self.find(kid).ok_or_else(|| KeyFault::Unknown(kid.to_owned()))?.state(now);
        if state != KeyState::PrePublished {
            let wanted = if state == KeyState::Active { "retired but by activating another one" } else { "retired" };
            return Err(KeyFault::State { kid: kid.to_owned(), state, wanted });
        }
        self.withdraw(kid, now);
        if let Some(key) = self.find_mut(kid) {
            key.retire(now, times);
        }
        self.changed(now);
        Ok(())
    }

    /// Sees to it that a retired key is removed, as early as nothing that it signed is valid any more.
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
                Err(KeyFault::State { kid: kid.to_owned(), state, wanted: "removed in order; retire it, or use --now" })
            }
        }
    }

    /// Removes a key at once, whatever it signed: for a key that others may be using. Where it was the active one, a
    /// pre-published key takes over at once, of those that `usable` names: the one that was to do so anyway, or else the
    /// one that was published first.
    ///
    /// # Errors
    /// `Unknown`, `State`, `NoSuccessor`.
    pub fn remove_now(&mut self, kid: &str, now: UnixTime, usable: impl Fn(&str) -> bool) -> Result<(), KeyFault> {
        let now = self.at(now);
        let state = self.find(kid).ok_or_else(|| KeyFault::Unknown(kid.to_owned()))?.state(now);
        match state {
            KeyState::Removed => return Err(KeyFault::State { kid: kid.to_owned(), state, wanted: "removed again" }),
            KeyState::PrePublished => self.withdraw(kid, now),
            KeyState::Active => {
                let waits = |key: &&mut KeyLife| key.state(now) == KeyState::PrePublished && usable(&key.kid);
                let waiting = self.keys.iter_mut().filter(waits);
                // A planned one first: left in the plan, it would sign beside the other. Of several the first in the ring.
                let successor = waiting.min_by_key(|key| key.activate_at.is_none());
                successor.ok_or_else(|| KeyFault::NoSuccessor(kid.to_owned()))?.activate_at = Some(now);
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

    /// Takes back a planned activation, and the retirement that hangs on it.
    fn withdraw(&mut self, kid: &str, now: UnixTime) {
        let Some(planned) = self.find_mut(kid).and_then(|key| key.activate_at.take()) else { return };
        for key in &mut self.keys {
            if key.state(now) == KeyState::Active && key.retire_at == Some(planned) {
                (key.retire_at, key.remove_at) = (None, None);
            }
        }
    }

    fn find_mut(&mut self, kid: &str) -> Option<&mut KeyLife> {
        self.keys.iter_mut().find(|key| key.kid == kid)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIMES: KeyTimes = KeyTimes { publish: Duration::from_secs(100), keep: Duration::from_secs(50) };

    fn kid(letter: char) -> String {
        std::iter::repeat_n(letter, KID_LENGTH).collect()
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    /// A ring in which `a` has been active since 0.
    fn ring() -> KeyRing {
        let mut ring = KeyRing::default();
        ring.settle(&[kid('a')], at(0)).unwrap();
        ring
    }

    fn active(ring: &KeyRing, now: u64) -> Option<String> {
        ring.active(at(now), |_| true).map(|key| key.kid.clone())
    }

    fn state(ring: &KeyRing, letter: char, now: u64) -> KeyState {
        ring.state(ring.find(&kid(letter)).unwrap(), at(now))
    }

    #[test]
    fn the_only_key_of_a_first_start_signs_at_once() {
        assert_eq!(active(&ring(), 0), Some(kid('a')));
        assert_eq!(ring().next_change(at(0)), None);
    }

    #[test]
    fn a_key_that_nobody_announced_is_named() {
        let unannounced = |kids: &[char]| KeyFault::Unannounced(kids.iter().map(|letter| kid(*letter)).collect());
        let both = [kid('a'), kid('b')];
        assert_eq!(KeyRing::default().settle(&both, at(0)).unwrap_err(), unannounced(&['a', 'b']));
        assert_eq!(ring().settle(&both, at(9)).unwrap_err(), unannounced(&['b']));
        assert_eq!(ring().settle(&[], at(9)).unwrap_err(), KeyFault::Missing(kid('a')));
        let mut later = ring();
        later.announce(&kid('b'), &[kid('a')], at(10)).unwrap();
        later.activate(&kid('b'), Some(at(500)), false, at(20), TIMES).unwrap();
        let fault = later.settle(&[kid('b')], at(30)).unwrap_err();
        let expected = KeyFault::NotYet { kid: kid('a'), next: kid('b'), at: at(500), now: at(30) };
        assert_eq!(fault, expected);
        assert!(later.settle(&[kid('b')], at(500)).is_ok());
    }

    #[test]
    fn a_rotation_publishes_activates_retires_and_removes_in_order() {
        let mut ring = ring();
        ring.announce(&kid('b'), &[], at(1000)).unwrap();
        ring.activate(&kid('b'), None, false, at(1000), TIMES).unwrap();
        let states = |now| (state(&ring, 'a', now), state(&ring, 'b', now));
        assert_eq!(states(1000), (KeyState::Active, KeyState::PrePublished));
        assert_eq!(states(1099), (KeyState::Active, KeyState::PrePublished));
        assert_eq!(states(1100), (KeyState::Retired, KeyState::Active));
        assert_eq!(states(1149), (KeyState::Retired, KeyState::Active));
        assert_eq!(states(1150), (KeyState::Removed, KeyState::Active));
        assert_eq!((active(&ring, 1099), active(&ring, 1100)), (Some(kid('a')), Some(kid('b'))));
        assert_eq!((ring.next_change(at(1000)), ring.next_change(at(1100))), (Some(at(1100)), Some(at(1150))));
    }

    #[test]
    fn a_key_is_not_activated_before_verifiers_know_it_unless_that_is_said() {
        let mut ring = ring();
        ring.announce(&kid('b'), &[], at(1000)).unwrap();
        let fault = ring.activate(&kid('b'), Some(at(1099)), false, at(1000), TIMES).unwrap_err();
        assert_eq!(fault, KeyFault::Early { published: 99, publish: TIMES.publish });
        ring.activate(&kid('b'), None, true, at(1000), TIMES).unwrap();
        assert_eq!(active(&ring, 1000), Some(kid('b')));
    }

    #[test]
    fn a_plan_can_be_moved_and_withdrawn() {
        let mut ring = ring();
        ring.announce(&kid('b'), &[], at(0)).unwrap();
        ring.activate(&kid('b'), Some(at(200)), false, at(0), TIMES).unwrap();
        ring.activate(&kid('b'), Some(at(300)), false, at(0), TIMES).unwrap();
        assert_eq!((active(&ring, 299), active(&ring, 300)), (Some(kid('a')), Some(kid('b'))));
        ring.announce(&kid('c'), &[], at(0)).unwrap();
        let fault = ring.activate(&kid('c'), None, false, at(0), TIMES).unwrap_err();
        assert_eq!(fault, KeyFault::Scheduled { kid: kid('b'), at: at(300) });
        ring.retire(&kid('b'), at(10), TIMES).unwrap();
        assert_eq!(active(&ring, 1000), Some(kid('a')));
        assert_eq!((state(&ring, 'b', 59), state(&ring, 'b', 60)), (KeyState::Retired, KeyState::Removed));
    }

    #[test]
    fn the_active_key_is_removed_only_when_another_takes_over() {
        let mut ring = ring();
        assert_eq!(ring.remove_now(&kid('a'), at(5), |_| true).unwrap_err(), KeyFault::NoSuccessor(kid('a')));
        assert!(matches!(ring.retire(&kid('a'), at(5), TIMES).unwrap_err(), KeyFault::State { .. }));
        ring.announce(&kid('b'), &[], at(5)).unwrap();
        ring.remove_now(&kid('a'), at(6), |_| true).unwrap();
        assert_eq!((active(&ring, 6), state(&ring, 'a', 6)), (Some(kid('b')), KeyState::Removed));
    }

    #[test]
    fn a_retired_key_can_come_back() {
        let mut ring = ring();
        ring.announce(&kid('b'), &[], at(0)).unwrap();
        ring.activate(&kid('b'), None, false, at(0), TIMES).unwrap();
        ring.activate(&kid('a'), None, false, at(120), TIMES).unwrap();
        assert_eq!((active(&ring, 120), state(&ring, 'b', 120)), (Some(kid('a')), KeyState::Retired));
        assert_eq!(state(&ring, 'b', 170), KeyState::Removed);
        assert!(ring.activate(&kid('b'), None, false, at(170), TIMES).is_err(), "removed is for good");
    }

    #[test]
    fn a_second_key_announced_before_the_first_start_does_not_take_over() {
        let mut ring = KeyRing::default();
        ring.announce(&kid('b'), &[kid('a')], at(0)).unwrap();
        assert_eq!(active(&ring, 1000), Some(kid('a')));
        assert_eq!(state(&ring, 'b', 1000), KeyState::PrePublished);
        assert!(matches!(ring.announce("short", &[], at(0)), Err(KeyFault::NotAKid(_))));
        assert_eq!(ring.announce(&kid('b'), &[], at(0)), Err(KeyFault::Known(kid('b'))));
    }

    proptest! {
        #[test]
        fn there_is_always_one_key_that_signs_and_none_signs_early_but_in_an_emergency(
            steps in proptest::collection::vec((0_u8..6, 0_usize..5, 0_u64..80, 0_u64..300), 1..40),
        ) {
            let mut ring = ring();
            let mut now = 0;
            let mut emergency = false;
            for (step, key, pause, ahead) in steps {
                now += pause;
                let kid = kid(char::from(b"abcde"[key]));
                // Refused steps are part of the matter.
                let _ = match step {
                    0 => ring.announce(&kid, &[], at(now)),
                    1 => ring.activate(&kid, Some(at(now + ahead)), false, at(now), TIMES),
                    2 => ring.activate(&kid, None, false, at(now), TIMES),
                    3 => ring.retire(&kid, at(now), TIMES),
                    4 => ring.remove(&kid, at(now), TIMES),
                    _ => {
                        emergency = true;
                        ring.remove_now(&kid, at(now), |_| true)
                    }
                };
                for later in now..now + 500 {
                    let signs = ring.active(at(later), |_| true);
                    prop_assert!(signs.is_some(), "nothing signs at {later}: {ring:?}");
                    let signs = signs.unwrap();
                    prop_assert!(
                        emergency || signs.published_at == at(0) || signs.published_at.plus(TIMES.publish) <= at(later),
                        "{signs:?} signs early at {later}"
                    );
                    let active = ring.keys().iter().filter(|key| key.state(at(later)) == KeyState::Active);
                    prop_assert_eq!(active.count(), 1);
                }
            }
        }
    }
}
