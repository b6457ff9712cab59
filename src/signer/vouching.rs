//! Where each node has a token of its own: the keys of the ring against those in the token. Which are believed is decided by
//! [`crate::domain::key_ring`]; here are the keys that it decides by.

use super::public_key::{KeyId, PublicKey};
use crate::domain::key_ring::{DueEndorsement, KeyLife, KeyRing, KeyState, PublicJwk, TokenHolder, Trust};
use crate::domain::time::UnixTime;

/// What a node has to add to the ring.
#[derive(Debug)]
pub struct Vouching {
    /// Own keys whose public members the ring does not have.
    pub undescribed: Vec<(String, PublicJwk)>,
    /// Signatures to be made, each with the own key that makes it.
    pub due: Vec<(KeyId, DueEndorsement)>,
    /// Kids of other nodes' keys that are not believed here.
    pub untrusted: Vec<String>,
}

fn judge<T>(holder: &TokenHolder, found: &[PublicKey], judge: impl FnOnce(&Trust<'_>) -> T) -> T {
    let in_token = |kid: &str| found.iter().any(|key| key.kid().as_str() == kid);
    let verify = |jwk: &PublicJwk, message: &[u8], signature: &[u8]| {
        PublicKey::from_jwk(jwk).is_some_and(|key| key.verify(message, signature))
    };
    judge(&Trust { holder, in_token: &in_token, verify: &verify })
}

/// The keys of the ring that this node publishes: those that are found in its token, and of other nodes those that it believes.
pub(super) fn published(ring: &KeyRing, holder: &TokenHolder, found: &[PublicKey], now: UnixTime) -> Vec<PublicKey> {
    let key = |life: &KeyLife| {
        let own = found.iter().find(|key| key.kid().as_str() == life.kid).cloned();
        own.or_else(|| PublicKey::from_jwk(life.jwk.as_ref()?).filter(|key| key.kid().as_str() == life.kid))
    };
    judge(holder, found, |trust| ring.trusted(trust, now).into_iter().filter_map(key).collect())
}

pub(super) fn vouching(ring: &KeyRing, holder: &TokenHolder, found: &[PublicKey], now: UnixTime) -> Vouching {
    let is_undescribed = |key: &PublicKey| {
        let life = ring.find(key.kid().as_str()).filter(|life| life.holder.as_ref() == Some(&holder.node));
        // Of a removed one they are of no use.
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
        Vouching { undescribed, due, untrusted }
    })
}
