//! Automatic rotation of keys: when it is due, and which server performs it.
//!
//! A server records a rotation, with the `CKA_ID` of the new key, before it creates the key.
//! Therefore two servers never create two keys. If the server fails before it announces the key,
//! other servers recognise the key by its `CKA_ID`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{KeyFault, KeyLife, KeyRing, KeyState, KeyTimes};
use crate::oauth::jwk_set::Algorithm;
use crate::time::UnixTime;

/// Maximum number of recorded ids of unannounced keys.
const MAX_IDS: usize = 16;

/// Server that performs a rotation, and ids of the keys that it may have created.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotating {
    /// Server that began a rotation, and the time until which no other server may begin a rotation.
    claim: Option<(String, UnixTime)>,
    /// `CKA_ID`s of unannounced keys that may be in the token, the latest last.
    ids: Vec<String>,
}

impl Rotating {
    pub(super) fn is_idle(&self) -> bool {
        *self == Self::default()
    }
}

/// Next automatic rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextRotation {
    /// Time at which the next key is created and published. `None` if the next key is already
    /// published.
    pub publish_at: Option<UnixTime>,
    pub activate_at: UnixTime,
}

impl KeyRing {
    /// Returns the next rotation, if each key signs for `every`. Returns `None` before the first
    /// key signs.
    pub fn next_rotation(&self, every: Duration, times: KeyTimes, now: UnixTime) -> Option<NextRotation> {
        let now = self.at(now);
        if let Some(at) = self.own().find(|key| key.is_scheduled(now)).and_then(|key| key.activate_at) {
            return Some(NextRotation { publish_at: None, activate_at: at });
        }
        let since = self.active(now, |_| true)?.activate_at?;
        let publish_at = since.plus(every.saturating_sub(times.publish)).max(now);
        Some(NextRotation { publish_at: Some(publish_at), activate_at: publish_at.plus(times.publish) })
    }

    /// Returns whether it is time to publish the next key.
    pub fn rotation_is_due(&self, every: Duration, times: KeyTimes, now: UnixTime) -> bool {
        let now = self.at(now);
        let next = self.next_rotation(every, times, now);
        next.and_then(|next| next.publish_at).is_some_and(|at| at <= now)
    }

    /// Claims the rotation for the server `by` until `until`, unless another server has claimed it.
    ///
    /// `id` is the `CKA_ID` of the new key. A server that claims again keeps its first id.
    pub fn begin_rotation(&mut self, by: &str, id: &str, until: UnixTime, now: UnixTime) {
        let rotating = self.rotating_mut();
        let again = match &rotating.claim {
            Some((other, claimed_until)) if other != by && *claimed_until > now => return,
            Some((holder, _)) => holder == by,
            None => false,
        };
        rotating.claim = Some((by.to_owned(), until));
        if !again || rotating.ids.is_empty() {
            if rotating.ids.len() >= MAX_IDS {
                rotating.ids.remove(0);
            }
            rotating.ids.push(id.to_owned());
        }
    }

    /// Records the `CKA_ID` of a key before the key is created, so that other servers recognise the
    /// key even if its creator fails.
    ///
    /// `others` are the kids of the keys that the token already has. If the ring is empty and
    /// `others` has a single key, that key becomes the signing key. If both are empty, nothing is
    /// recorded, because the new key becomes active at the next start.
    ///
    /// # Errors
    /// `TooMany`, `NotAdmitted`, and `Unannounced` if the ring is empty and the token has several
    /// keys.
    pub fn begin_key(&mut self, id: &str, others: &[String], now: UnixTime) -> Result<(), KeyFault> {
        self.check_admitted(&others.join(", "))?;
        match (&self.keys[..], others) {
            // The first start publishes the keys of all algorithms.
            ([], _) if self.algorithm != Algorithm::Rs256 => return Ok(()),
            ([], []) => return Ok(()),
            ([], [_]) => self.reconcile(others, now)?,
            ([], _) => return Err(KeyFault::Unannounced(others.to_vec())),
            _ if self.is_full(self.node.as_deref()) => return Err(KeyFault::TooMany),
            _ => {}
        }
        let rotating = self.rotating_mut();
        let ids = &mut rotating.ids;
        if ids.len() >= MAX_IDS {
            ids.remove(0);
        }
        // If there is a claim, the last id belongs to it.
        let at = if rotating.claim.is_some() { ids.len().saturating_sub(1) } else { ids.len() };
        ids.insert(at, id.to_owned());
        Ok(())
    }

    /// Removes the `CKA_ID` of a key that is now announced.
    pub fn forget_id(&mut self, id: &str) {
        self.end_rotating(id, false);
    }

    /// Returns the `CKA_ID`s of unannounced keys of the selected algorithm that may be in the token.
    pub fn unannounced_ids(&self) -> &[String] {
        self.rotating().map_or(&[], |rotating| &rotating.ids)
    }

    /// Returns the `CKA_ID`s of unannounced keys of all algorithms that may be in the token.
    pub fn all_unannounced_ids(&self) -> Vec<String> {
        let of = |algorithm| self.rotating_of(algorithm).map_or(&[][..], |rotating| &rotating.ids);
        Algorithm::ALL.iter().flat_map(|(_, algorithm)| of(*algorithm)).cloned().collect()
    }

    /// Returns the `CKA_ID` of the new key, if the server `by` holds the claim.
    pub fn rotation_of(&self, by: &str) -> Option<&str> {
        let rotating = self.rotating()?;
        let (holder, _) = rotating.claim.as_ref()?;
        if holder == by { rotating.ids.last().map(String::as_str) } else { None }
    }

    /// Returns whether this `CKA_ID` was recorded for a key that is not announced yet.
    pub fn is_unannounced(&self, id: &str) -> bool {
        self.unannounced_ids().iter().any(|own| own == id)
    }

    /// Returns the oldest usable key that is published but not scheduled.
    pub fn waiting(&self, now: UnixTime, usable: impl Fn(&str) -> bool) -> Option<&KeyLife> {
        let now = self.at(now);
        let waits = |key: &&KeyLife| key.state(now) == KeyState::PrePublished && key.activate_at.is_none();
        self.own().filter(waits).find(|key| usable(&key.kid))
    }

    /// Publishes a key whose creator failed before it announced the key.
    ///
    /// # Errors
    /// `NotAKid`, `TooMany`.
    pub fn adopt(&mut self, kid: &str, id: &str, now: UnixTime) -> Result<(), KeyFault> {
        if self.is_unannounced(id) && self.find(kid).is_none() && !self.keys.is_empty() {
            self.announce(kid, &[], now)?;
            self.end_rotating(id, true);
        }
        Ok(())
    }

    /// Publishes the key `kid` if necessary, schedules its activation, and releases the claim.
    ///
    /// The key is not scheduled in two cases: another key was scheduled in the meantime, or the
    /// nodes have their own tokens, so that the other nodes must accept the key first. If the ring
    /// is full, a removed key is dropped from the ring unless it is in `in_token`, the kids in the
    /// token.
    ///
    /// # Errors
    /// The errors of `announce` and `activate`.
    pub fn finish_rotation(
        &mut self,
        kid: &str,
        id: &str,
        in_token: &[String],
        now: UnixTime,
        times: KeyTimes,
    ) -> Result<(), KeyFault> {
        if self.find(kid).is_none() {
            self.forget_removed(in_token, now);
            self.announce(kid, &[], now)?;
        }
        self.end_rotating(id, true);
        // With one token per node, the other nodes must trust the key first: see `distrusting_nodes`.
        let (now, algorithm) = (self.at(now), self.algorithm);
        if self.node.is_some() || self.keys.iter().any(|key| key.is_for(algorithm) && key.is_scheduled(now)) {
            return Ok(());
        }
        self.activate(kid, None, false, now, times)
    }

    /// Returns the rotation of this node and the selected algorithm. All nodes that share a token
    /// have one rotation for each algorithm.
    fn rotating(&self) -> Option<&Rotating> {
        self.rotating_of(self.algorithm)
    }

    fn rotating_of(&self, algorithm: Algorithm) -> Option<&Rotating> {
        match (algorithm, &self.node) {
            (Algorithm::Rs256, Some(node)) => self.rotating_at.get(node),
            (Algorithm::Rs256, None) => Some(&self.rotating),
            _ => self.rotating_further.get(&Self::rotating_name(algorithm, self.node.as_deref())),
        }
    }

    fn rotating_mut(&mut self) -> &mut Rotating {
        match (self.algorithm, &self.node) {
            (Algorithm::Rs256, Some(node)) => self.rotating_at.entry(node.clone()).or_default(),
            (Algorithm::Rs256, None) => &mut self.rotating,
            (algorithm, node) => {
                self.rotating_further.entry(Self::rotating_name(algorithm, node.as_deref())).or_default()
            }
        }
    }

    /// Returns the name of a rotation of a further algorithm: the algorithm, and the node if it has
    /// its own token. No algorithm contains a space.
    pub(super) fn rotating_name(algorithm: Algorithm, node: Option<&str>) -> String {
        node.map_or_else(|| algorithm.name().to_owned(), |node| format!("{algorithm} {node}"))
    }

    /// Removes the `CKA_ID` of an announced key. If `claim` is true, also releases the claim.
    fn end_rotating(&mut self, id: &str, claim: bool) {
        let rotating = self.rotating_mut();
        rotating.ids.retain(|own| own != id);
        if claim {
            rotating.claim = None;
        }
        self.rotating_at.retain(|_, rotating| !rotating.is_idle());
        self.rotating_further.retain(|_, rotating| !rotating.is_idle());
    }

    /// Makes room in a full ring: removes the oldest entry of a removed key of this node. The entry
    /// of a key that is still in the node's token is kept.
    ///
    /// Keys of other nodes are kept, because their tokens may still have them. A node that finds an
    /// unannounced key in its token refuses to start.
    fn forget_removed(&mut self, in_token: &[String], now: UnixTime) {
        if !self.is_full(self.node.as_deref()) {
            return;
        }
        let now = self.at(now);
        let is_own = |key: &KeyLife| key.holder == self.node && key.is_for(self.algorithm);
        let is_forgotten =
            |key: &KeyLife| is_own(key) && key.state(now) == KeyState::Removed && !in_token.contains(&key.kid);
        if let Some(at) = self.keys.iter().position(is_forgotten) {
            self.keys.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::MAX_KEYS;
    use super::*;

    const TIMES: KeyTimes = KeyTimes { publish: Duration::from_secs(100), keep: Duration::from_secs(50) };
    const EVERY: Duration = Duration::from_secs(1000);

    fn kid(number: usize) -> String {
        format!("{number:043}")
    }

    fn at(seconds: u64) -> UnixTime {
        UnixTime::from_seconds(seconds)
    }

    /// Creates a ring whose key 0 has been active since time 0.
    fn ring() -> KeyRing {
        let mut ring = KeyRing::default();
        ring.reconcile(&[kid(0)], at(0)).unwrap();
        ring
    }

    #[test]
    fn a_key_is_published_so_that_the_next_one_signs_in_time() {
        let ring = ring();
        let next = ring.next_rotation(EVERY, TIMES, at(10)).unwrap();
        assert_eq!((next.publish_at, next.activate_at), (Some(at(900)), at(1000)));
        assert!(!ring.rotation_is_due(EVERY, TIMES, at(899)));
        assert!(ring.rotation_is_due(EVERY, TIMES, at(900)));
        let late = ring.next_rotation(EVERY, TIMES, at(5000)).unwrap();
        assert_eq!((late.publish_at, late.activate_at), (Some(at(5000)), at(5100)), "the server was not running");
        assert_eq!(KeyRing::default().next_rotation(EVERY, TIMES, at(0)), None);
    }

    #[test]
    fn one_server_rotates_until_its_claim_ends() {
        let mut ring = ring();
        ring.begin_rotation("a", "01", at(960), at(900));
        ring.begin_rotation("b", "02", at(961), at(901));
        assert_eq!((ring.rotation_of("a"), ring.rotation_of("b")), (Some("01"), None));
        ring.begin_rotation("a", "03", at(970), at(910));
        assert_eq!(ring.rotation_of("a"), Some("01"), "a second claim keeps the id of the key");
        ring.begin_rotation("b", "02", at(1030), at(970));
        assert_eq!((ring.rotation_of("a"), ring.rotation_of("b")), (None, Some("02")));
        assert!(ring.is_unannounced("01") && ring.is_unannounced("02"), "the first server may still create its key");
    }

    #[test]
    fn a_finished_rotation_is_scheduled_and_releases_the_claim() {
        let mut ring = ring();
        ring.begin_rotation("a", "01", at(960), at(900));
        ring.finish_rotation(&kid(1), "01", &[], at(902), TIMES).unwrap();
        assert_eq!(ring.find(&kid(1)).unwrap().activate_at, Some(at(1002)));
        assert_eq!(ring.find(&kid(0)).unwrap().remove_at, Some(at(1052)));
        assert!(ring.rotating.is_idle() && !ring.rotation_is_due(EVERY, TIMES, at(999)));
        assert_eq!(ring.next_rotation(EVERY, TIMES, at(1002)).unwrap().activate_at, at(2002));
    }

    #[test]
    fn the_slower_of_two_servers_does_not_change_the_schedule() {
        let mut ring = ring();
        ring.begin_rotation("a", "01", at(960), at(900));
        ring.begin_rotation("b", "02", at(1020), at(960));
        ring.finish_rotation(&kid(2), "02", &[], at(961), TIMES).unwrap();
        ring.finish_rotation(&kid(1), "01", &[], at(962), TIMES).unwrap();
        assert_eq!(ring.find(&kid(2)).unwrap().activate_at, Some(at(1061)));
        assert_eq!(ring.find(&kid(1)).unwrap().activate_at, None);
        assert_eq!(ring.waiting(at(962), |_| true).unwrap().kid, kid(1), "the next rotation uses this key");
        assert!(ring.rotating.is_idle());
    }

    #[test]
    fn only_a_key_that_was_begun_here_is_adopted() {
        let mut ring = ring();
        ring.begin_rotation("a", "01", at(960), at(900));
        ring.adopt(&kid(7), "07", at(901)).unwrap();
        assert_eq!(ring.find(&kid(7)), None);
        ring.adopt(&kid(1), "01", at(901)).unwrap();
        assert_eq!(ring.waiting(at(901), |_| true).unwrap().kid, kid(1));
        ring.adopt(&kid(8), "01", at(902)).unwrap();
        assert_eq!(ring.find(&kid(8)), None, "an id is valid for one key only");
    }

    #[test]
    fn a_key_begun_by_an_operator_keeps_a_servers_claim() {
        let mut ring = ring();
        ring.begin_rotation("a", "01", at(960), at(900));
        ring.begin_key("05", &[kid(0)], at(901)).unwrap();
        assert_eq!(ring.rotation_of("a"), Some("01"));
        assert!(ring.is_unannounced("05"));
        ring.adopt(&kid(5), "05", at(902)).unwrap();
        assert_eq!(ring.waiting(at(902), |_| true).unwrap().kid, kid(5));
        ring.forget_id("01");
        assert!(ring.rotating.is_idle());
    }

    #[test]
    fn a_key_is_begun_only_if_it_can_be_announced() {
        let mut empty = KeyRing::default();
        empty.begin_key("01", &[], at(1)).unwrap();
        assert_eq!(empty, KeyRing::default(), "the first key needs no announcement");
        let two = [kid(0), kid(1)];
        assert_eq!(empty.begin_key("01", &two, at(1)), Err(KeyFault::Unannounced(two.to_vec())));
        empty.begin_key("01", &two[..1], at(1)).unwrap();
        assert_eq!(empty.active(at(1), |_| true).unwrap().kid, kid(0));
        for number in 0..MAX_IDS + 3 {
            empty.begin_key(&format!("{number:02}"), &two[..1], at(2)).unwrap();
        }
        assert_eq!(empty.unannounced_ids().len(), MAX_IDS);
        for number in 1..MAX_KEYS {
            empty.announce(&kid(number), &[], at(3)).unwrap();
        }
        assert_eq!(empty.begin_key("ff", &two, at(4)), Err(KeyFault::TooMany));
    }

    #[test]
    fn a_full_ring_drops_keys_that_are_neither_published_nor_in_the_token() {
        let mut ring = ring();
        let mut now = 0;
        for number in 1..=MAX_KEYS + 5 {
            now += 1000;
            let in_token = [kid(0), kid(1), kid(number - 1)];
            ring.finish_rotation(&kid(number), "01", &in_token, at(now), TIMES).unwrap();
        }
        assert_eq!(ring.keys().len(), MAX_KEYS);
        assert!(ring.find(&kid(0)).is_some() && ring.find(&kid(1)).is_some() && ring.find(&kid(2)).is_none());
    }

    #[test]
    fn a_ring_of_an_earlier_version_is_read() {
        let ring: KeyRing = serde_json::from_str(r#"{"keys":[]}"#).unwrap();
        assert_eq!(serde_json::to_string(&ring).unwrap(), r#"{"keys":[]}"#);
    }
}
