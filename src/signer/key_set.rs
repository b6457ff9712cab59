//! The published keys, and which of them signs.

use serde::Serialize;

use super::public_key::{Jwk, PublicKey};

/// The published keys and the one that signs.
#[derive(Debug, Clone)]
pub struct KeySet {
    active: PublicKey,
    others: Vec<PublicKey>,
    /// Whether the key that signs is not published: it was removed, and the token holds no other.
    withdrawn: bool,
    generation: u64,
}

impl KeySet {
    /// A set in which `active` signs and `others` are published for verification only.
    pub fn new(active: PublicKey, others: Vec<PublicKey>) -> Self {
        Self { active, others, withdrawn: false, generation: 0 }
    }

    /// The same without its active key among the published ones: nothing that it signs is taken.
    pub(super) fn withdrawing_active(self) -> Self {
        Self { withdrawn: true, ..self }
    }

    /// This set, as what follows on another: under the same number where the same keys are published.
    pub(super) fn following(self, before: &Self) -> Self {
        let same = self.iter().map(PublicKey::kid).eq(before.iter().map(PublicKey::kid));
        let generation = if same { before.generation } else { before.generation.wrapping_add(1) };
        Self { generation, ..self }
    }

    /// A number that grows whenever other keys are published, or in another order. Whoever remembers what a key has verified
    /// takes it before verifying, keeps it, and looks for the key again once it has moved.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn active(&self) -> &PublicKey {
        &self.active
    }

    /// The published key with this `kid`, as it stands in a JWS header.
    pub fn find(&self, kid: &str) -> Option<&PublicKey> {
        self.iter().find(|key| key.kid().as_str() == kid)
    }

    /// The published keys, the active one first.
    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        let active = Some(&self.active).filter(|_| !self.withdrawn);
        active.into_iter().chain(&self.others)
    }

    /// The document at `jwks_uri`.
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
