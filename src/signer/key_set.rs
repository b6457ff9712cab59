//! The published keys, and the active one.

use serde::Serialize;

use super::public_key::{Jwk, PublicKey};

/// The published keys and the active signing key.
#[derive(Debug, Clone)]
pub struct KeySet {
    active: PublicKey,
    others: Vec<PublicKey>,
    /// Whether the active key is not published: it was removed, and the token has no other key.
    withdrawn: bool,
    generation: u64,
}

impl KeySet {
    /// Creates a set in which `active` signs and `others` are published for verification only.
    pub fn new(active: PublicKey, others: Vec<PublicKey>) -> Self {
        Self { active, others, withdrawn: false, generation: 0 }
    }

    /// Returns the set with the active key unpublished: its signatures are rejected.
    pub(super) fn withdrawing_active(self) -> Self {
        Self { withdrawn: true, ..self }
    }

    /// Returns this set with the generation that follows `before`: the same number if the published
    /// keys are the same.
    pub(super) fn following(self, before: &Self) -> Self {
        let same = self.iter().map(PublicKey::kid).eq(before.iter().map(PublicKey::kid));
        let generation = if same { before.generation } else { before.generation.wrapping_add(1) };
        Self { generation, ..self }
    }

    /// Returns a number that grows whenever the published keys or their order change.
    ///
    /// To cache verified signatures, read it before verifying, store it with the result, and look
    /// up the key again if it has changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn active(&self) -> &PublicKey {
        &self.active
    }

    /// Returns the published key with this `kid` from a JWS header.
    pub fn find(&self, kid: &str) -> Option<&PublicKey> {
        self.iter().find(|key| key.kid().as_str() == kid)
    }

    /// Returns the published keys, the active one first.
    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        let active = Some(&self.active).filter(|_| !self.withdrawn);
        active.into_iter().chain(&self.others)
    }

    /// Returns the document at `jwks_uri`.
    pub fn jwk_set(&self) -> JwkSet {
        JwkSet { keys: self.iter().map(PublicKey::jwk).collect() }
    }
}

/// The document at `jwks_uri` (RFC 7517 §5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JwkSet {
    /// The published keys, the active one first.
    pub keys: Vec<Jwk>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_kid() {
        let modulus = [vec![0xc1], vec![0x5a; 255]].concat();
        let key = PublicKey::from_components(&modulus, &[1, 0, 1]).unwrap();
        let set = KeySet::new(key.clone(), vec![]);
        assert_eq!(set.find(key.kid().as_str()).unwrap().modulus(), key.modulus());
        assert!(set.find("another").is_none());
    }
}
