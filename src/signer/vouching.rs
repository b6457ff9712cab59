//! Trust between nodes that have a token each: compares the key ring with the keys in the token.
//! [`sealgate_domain::key_ring`] decides which keys are trusted; this module supplies its input.

use super::public_key::{KeyId, PublicKey};
use sealgate_domain::key_ring::{DueEndorsement, KeyLife, KeyRing, KeyState, PublicJwk, TokenHolder, Trust};
use sealgate_domain::time::UnixTime;

/// Entries that a node has to add to the ring.
#[derive(Debug)]
pub struct EndorsementPlan {
    /// Own keys whose public members are missing in the ring.
    pub undescribed: Vec<(String, PublicJwk)>,
    /// Endorsement signatures to make, each with the own key that makes it.
    pub due: Vec<(KeyId, DueEndorsement)>,
    /// Key ids of other nodes' keys that this node does not trust.
    pub untrusted: Vec<String>,
}

fn judge<T>(holder: &TokenHolder, found: &[PublicKey], judge: impl FnOnce(&Trust<'_>) -> T) -> T {
    let in_token = |kid: &str| found.iter().any(|key| key.kid().as_str() == kid);
    let verify = |jwk: &PublicJwk, message: &[u8], signature: &[u8]| {
        PublicKey::from_jwk(jwk).is_some_and(|key| key.verify(message, signature))
    };
    judge(&Trust { holder, in_token: &in_token, verify: &verify })
}

/// Returns the keys of the ring that this node publishes: those in its own token, and the trusted
/// keys of other nodes.
pub(super) fn published(ring: &KeyRing, holder: &TokenHolder, found: &[PublicKey], now: UnixTime) -> Vec<PublicKey> {
    let key = |life: &KeyLife| {
        let own = found.iter().find(|key| key.kid().as_str() == life.kid).cloned();
        own.or_else(|| PublicKey::from_jwk(life.jwk.as_ref()?).filter(|key| key.kid().as_str() == life.kid))
    };
    judge(holder, found, |trust| ring.trusted(trust, now).into_iter().filter_map(key).collect())
}

pub(super) fn vouching(ring: &KeyRing, holder: &TokenHolder, found: &[PublicKey], now: UnixTime) -> EndorsementPlan {
    let is_undescribed = |key: &PublicKey| {
        let life = ring.find(key.kid().as_str()).filter(|life| life.holder.as_ref() == Some(&holder.node));
        // Removed keys need no description.
        let life = life.filter(|life| ring.state(life, now) != KeyState::Removed);
        life.is_some_and(|life| life.jwk.as_ref() != Some(&key.public_jwk()))
    };
    let undescribed = found.iter().filter(|key| is_undescribed(key));
    let undescribed = undescribed.map(|key| (key.kid().to_string(), key.public_jwk())).collect();
    judge(holder, found, |trust| {
        let with_key = |due: DueEndorsement| {
            let by = found.iter().find(|key| key.kid().as_str() == due.by)?;
            Some((by.kid().clone(), due))
        };
        let due = ring.due_endorsements(trust, now).into_iter().filter_map(with_key).collect();
        let untrusted = ring.untrusted(trust, now).into_iter().map(|life| life.kid.clone()).collect();
        EndorsementPlan { undescribed, due, untrusted }
    })
}
