//! Key rings of nodes that have one token each: which node holds a key, and trust between nodes.
//!
//! A node publishes and trusts the keys of its own token. It trusts a key of another node after a
//! key of its own token has endorsed that key. It endorses each key that a trusted key has
//! endorsed. The first key of a new node has no such endorsement: an operator runs a command on an
//! existing node, which endorses the key. Trust then spreads from node to node, and each node has
//! its own proof.
//!
//! Only RS256 keys endorse, because every node has one. The keys of further algorithms are endorsed
//! like the further keys of a node.
//!
//! Only a node's own keys can vouch for its further keys. Therefore a stolen token cannot introduce
//! a key under another node's name.

use super::{KeyFault, KeyLife, KeyRing, KeyState, KeyTimes};
use crate::key_ring::life;
use crate::key_ring::life::{Endorsement, PublicJwk, Trust};
use crate::oauth::jwk_set::Algorithm;
use crate::secret::base64url;
use crate::time::UnixTime;

/// Maximum number of endorsements of a key. Each node signs one endorsement, or two while it
/// replaces its own key.
const MAX_ENDORSEMENTS: usize = 64;

/// Endorsement that a node has to sign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueEndorsement {
    /// kid of the endorsed key.
    pub kid: String,
    /// kid of the node's own key that signs the endorsement.
    pub by: String,
    /// Bytes to sign.
    pub statement: Vec<u8>,
    /// Set if this endorsement makes the node trust the first key of another node.
    pub introduced: Option<FirstKeyTrust>,
}

/// First key of another node, and why it is trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstKeyTrust {
    /// Node that holds the key.
    pub holder: String,
    /// kid of the trusted key that endorsed the first key of this holder.
    pub word_of: String,
}

impl KeyRing {
    /// Returns the ring as read by this node, which has its own token. `None` is for nodes that
    /// share a token.
    #[must_use]
    pub fn of_node(self, node: Option<&str>) -> Self {
        Self { node: node.map(str::to_owned), ..self }
    }

    /// Returns the keys of the selected algorithm that belong to the node that reads the ring.
    pub fn own(&self) -> impl Iterator<Item = &KeyLife> {
        self.own_of_any_algorithm().filter(|key| key.is_for(self.algorithm))
    }

    /// Returns the keys in the ring that belong to the node that reads it.
    pub fn own_of_any_algorithm(&self) -> impl Iterator<Item = &KeyLife> {
        self.keys.iter().filter(|key| key.holder == self.node)
    }

    /// Updates the holder of the keys in the token. If the node now has its own token, the node
    /// becomes the holder. If all nodes now share a token, the keys have no holder.
    ///
    /// A node trusts the keys in its own token without endorsements.
    pub(super) fn claim(&mut self, kids_in_token: &[String]) {
        for key in self.keys.iter_mut().filter(|key| kids_in_token.contains(&key.kid)) {
            match (&self.node, &key.holder) {
                (Some(node), None) => key.holder = Some(node.clone()),
                (None, Some(_)) => {
                    key.holder = None;
                    key.strip();
                }
                _ => {}
            }
        }
    }

    /// Checks that the node has an announced key, or that the ring is empty. If the ring has keys
    /// of other nodes but no key of this node, the node is not admitted.
    ///
    /// # Errors
    /// `NotAdmitted` with `kids`, the node's keys.
    pub(super) fn check_admitted(&self, kids: &str) -> Result<(), KeyFault> {
        if self.node.is_none() || self.keys.is_empty() || self.own_of_any_algorithm().next().is_some() {
            return Ok(());
        }
        Err(KeyFault::NotAdmitted(vec![kids.to_owned()]))
    }

    /// Checks that all keys in the token are announced and belong to this node.
    ///
    /// # Errors
    /// `Unannounced`, `NotAdmitted`, `OfAnother`, `WrongAlgorithm`.
    pub(super) fn check_announced(&self, kids_in_token: &[String]) -> Result<(), KeyFault> {
        let unknown: Vec<_> = kids_in_token.iter().filter(|kid| self.find(kid).is_none()).cloned().collect();
        if !unknown.is_empty() {
            let is_new = self.node.is_some() && self.own_of_any_algorithm().next().is_none();
            return Err(if is_new { KeyFault::NotAdmitted(unknown) } else { KeyFault::Unannounced(unknown) });
        }
        // A key is for one algorithm. Its label in the token must not move it to another one.
        let moved = kids_in_token.iter().filter_map(|kid| self.find(kid)).find(|key| !key.is_for(self.algorithm));
        if let Some(key) = moved {
            let (kid, announced) = (key.kid.clone(), key.algorithm_name().to_owned());
            return Err(KeyFault::WrongAlgorithm { kid, announced, found: self.algorithm });
        }
        let of_another = kids_in_token.iter().filter_map(|kid| self.find(kid)).find(|key| key.holder != self.node);
        let of_another = of_another.and_then(|key| Some((key.kid.clone(), key.holder.clone()?)));
        of_another.map_or(Ok(()), |(kid, holder)| Err(KeyFault::OfAnother { kid, holder }))
    }

    /// Checks that the node has an active key.
    ///
    /// # Errors
    /// `Waiting` if its first key is still scheduled, `NodeRetired` if all its keys were retired.
    pub(super) fn check_own_is_active(&self, now: UnixTime) -> Result<(), KeyFault> {
        let Some(node) = &self.node else { return Ok(()) };
        Err(match self.next_to_sign(now, |_| true) {
            Some((key, at)) => KeyFault::Waiting { kid: key.kid.clone(), at },
            None => KeyFault::NodeRetired(node.clone()),
        })
    }

    /// Adds the first key of a node. The operator has compared the fingerprint of the key with the
    /// fingerprint that the node printed.
    ///
    /// The key signs as soon as verifiers know it. The caller must endorse it.
    ///
    /// # Errors
    /// `NotAKid` if the key is invalid, `CachedSession`, `TooMany`.
    pub fn admit(&mut self, holder: &str, jwk: PublicJwk, now: UnixTime, times: KeyTimes) -> Result<String, KeyFault> {
        let kid = jwk.thumbprint().ok_or_else(|| KeyFault::NotAKid(String::new()))?;
        if self.find(&kid).is_some() {
            return Err(KeyFault::Known(kid));
        }
        if self.is_full(Some(holder)) {
            return Err(KeyFault::TooMany);
        }
        let now = self.at(now);
        let mut life = KeyLife::new(&kid, Some(holder), Algorithm::Rs256, now);
        (life.jwk, life.alg) = (Some(jwk), Some(Algorithm::Rs256.name().to_owned()));
        life.activate_at = Some(now.plus(times.publish));
        self.keys.push(life);
        self.changed(now);
        Ok(kid)
    }

    /// Stores the public parameters of one of the node's keys, because the other nodes need them.
    pub fn describe(&mut self, kid: &str, jwk: &PublicJwk) {
        let node = self.node.clone();
        if let Some(key) = self.find_mut(kid).filter(|key| key.holder.is_some() && key.holder == node) {
            (key.jwk, key.alg) = (Some(jwk.clone()), Some(key.algorithm_name().to_owned()));
        }
    }

    /// Stores the signature of the key `by` about the key `kid`. Replaces an earlier signature.
    ///
    /// Does nothing if either key is removed.
    pub fn endorse(&mut self, kid: &str, by: &str, signature: &[u8], now: UnixTime) {
        let now = self.at(now);
        self.strip_removed(now);
        let is_live = |ring: &Self, kid: &str| ring.live(now).any(|key| key.kid == kid);
        if !is_live(self, kid) || !is_live(self, by) {
            return;
        }
        let Some(key) = self.find_mut(kid) else { return };
        key.endorsed.retain(|endorsement| endorsement.by != by);
        if key.endorsed.len() < MAX_ENDORSEMENTS {
            let signature = base64url(signature);
            key.endorsed.push(Endorsement { by: by.to_owned(), signature });
        }
    }

    /// Reduces removed keys to their kids. The kids are kept, so that a removed key is not mistaken
    /// for a new key.
    ///
    /// The endorsements of removed keys would fill the ring, and a full ring cannot be changed, not
    /// even to remove a stolen key.
    pub(super) fn strip_removed(&mut self, now: UnixTime) {
        let is_removed = |key: &KeyLife| key.holder.is_some() && key.state(now) == KeyState::Removed;
        let removed: Vec<String> = self.keys.iter().filter(|key| is_removed(key)).map(|key| key.kid.clone()).collect();
        for key in &mut self.keys {
            if is_removed(key) {
                key.strip();
            } else {
                key.endorsed.retain(|endorsement| !removed.contains(&endorsement.by));
            }
        }
    }

    fn live(&self, now: UnixTime) -> impl Iterator<Item = &KeyLife> {
        self.keys.iter().filter(move |key| key.state(now) != KeyState::Removed)
    }

    /// Returns the keys that a node publishes and trusts: its own, and keys of other nodes that its
    /// own keys have endorsed.
    pub fn trusted(&self, trust: &Trust<'_>, now: UnixTime) -> Vec<&KeyLife> {
        let now = self.at(now);
        let own: Vec<&KeyLife> = self.live(now).filter(|key| trust.is_own(key)).collect();
        let is_endorsed = |key: &KeyLife| !trust.has_own_name(key) && own.iter().any(|by| trust.endorses(by, key));
        let is_trusted = |key: &&KeyLife| trust.is_own(key) || is_endorsed(key);
        self.live(now).filter(is_trusted).collect()
    }

    /// Returns the keys of other nodes that a node does not trust.
    pub fn untrusted(&self, trust: &Trust<'_>, now: UnixTime) -> Vec<&KeyLife> {
        let trusted = self.trusted(trust, now);
        let now = self.at(now);
        let is_trusted = |key: &KeyLife| trusted.iter().any(|other| other.kid == key.kid);
        self.live(now).filter(|key| !is_trusted(key)).collect()
    }

    /// Returns the endorsements that a node has to sign, one with each of its active and scheduled
    /// keys.
    ///
    /// The node endorses each key that it trusts, and each key that a trusted key has endorsed.
    /// Scheduled keys endorse too, so that the node keeps its trust after the current key is
    /// removed.
    pub fn due_endorsements(&self, trust: &Trust<'_>, now: UnixTime) -> Vec<DueEndorsement> {
        let trusted = self.trusted(trust, now);
        let now = self.at(now);
        let signs = |key: &&&KeyLife| {
            let endorses = key.is_for(Algorithm::Rs256) && trust.is_own(key);
            endorses && matches!(key.state(now), KeyState::PrePublished | KeyState::Active)
        };
        let own: Vec<_> = trusted.iter().filter(signs).collect();
        let mut due = Vec::new();
        for key in self.live(now) {
            let is_trusted = trusted.iter().any(|other| other.kid == key.kid);
            let voucher = Self::voucher(key, &trusted, trust, now);
            if !is_trusted && voucher.is_none() {
                continue;
            }
            let Some(statement) = life::statement(key, &trust.holder.issuer) else { continue };
            let by_another = voucher.filter(|by| !is_trusted && by.holder != key.holder);
            let introduced = by_another.zip(key.holder.as_ref());
            let introduced =
                introduced.map(|(by, holder)| FirstKeyTrust { holder: holder.clone(), word_of: by.kid.clone() });
            for by in own.iter().filter(|by| by.kid != key.kid && !trust.endorses(by, key)) {
                let (kid, by, statement) = (key.kid.clone(), by.kid.clone(), statement.clone());
                due.push(DueEndorsement { kid, by, statement, introduced: introduced.clone() });
            }
        }
        due
    }

    /// Returns the trusted key that has endorsed another node's key.
    ///
    /// If that node has a trusted key that is active or scheduled, only the node's own keys count.
    /// If all its keys are retired, the node was removed, and a key of any node can introduce its
    /// new key.
    fn voucher<'k>(key: &KeyLife, trusted: &[&'k KeyLife], trust: &Trust<'_>, now: UnixTime) -> Option<&'k KeyLife> {
        let signs = |other: &KeyLife| matches!(other.state(now), KeyState::PrePublished | KeyState::Active);
        let is_known = trusted.iter().any(|other| other.holder == key.holder && signs(other));
        let mut endorsers = trusted.iter().filter(|other| !is_known || other.holder == key.holder);
        endorsers.find(|other| !trust.has_own_name(key) && trust.endorses(other, key)).copied()
    }

    /// Returns the nodes that do not trust the key yet: none of their own keys has endorsed it.
    ///
    /// Nodes without a key in the ring are not returned, because they do not reject tokens.
    pub fn distrusting_nodes<'n>(&self, kid: &str, nodes: &'n [String], now: UnixTime) -> Vec<&'n str> {
        let now = self.at(now);
        let Some(key) = self.find(kid).filter(|key| key.holder.is_some()) else { return Vec::new() };
        let is_of = |other: &KeyLife, node: &str| other.holder.as_deref() == Some(node);
        let distrusts_key = |node: &&str| {
            let mut own = self.live(now).filter(|other| is_of(other, node)).peekable();
            let has_keys = own.peek().is_some();
            has_keys && !is_of(key, node) && !own.any(|by| key.endorsed.iter().any(|signed| signed.by == by.kid))
        };
        nodes.iter().map(String::as_str).filter(distrusts_key).collect()
    }

    /// Retires a node's keys, so that they sign no more tokens. Their signatures remain valid until
    /// they expire.
    ///
    /// If `at_once` is true, removes the keys instead, so that their signatures are rejected.
    pub fn retire_node(&mut self, node: &str, at_once: bool, now: UnixTime, times: KeyTimes) {
        let now = self.at(now);
        for key in self.keys.iter_mut().filter(|key| key.holder.as_deref() == Some(node)) {
            match key.state(now) {
                KeyState::Removed => continue,
                KeyState::PrePublished | KeyState::Active => key.retire(now, times),
                KeyState::Retired => {}
            }
            if at_once {
                key.remove_at = Some(now);
            }
        }
        self.rotating_at.remove(node);
        for algorithm in Algorithm::ALL.map(|(_, algorithm)| algorithm) {
            self.rotating_further.remove(&Self::rotating_name(algorithm, Some(node)));
        }
        self.changed(now);
    }
}

#[cfg(test)]
mod tests;
