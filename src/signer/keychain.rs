//! The usable keys in the token: which of them are published, and which one signs now.
//!
//! The key ring determines both, depending on the time. A computed key set is cached until the next
//! change that the key ring schedules. If each node has its own token, the keychain also determines
//! which keys of other nodes are published: it supplies the keys in this token, and
//! [`sealgate_domain::key_ring`] decides which keys are trusted.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use arc_swap::ArcSwap;
use serde::Serialize;
use tokio::sync::oneshot;

use crate::ceremony::NewKey;
use crate::error::SignerOpenError;
use crate::key::{KeyReport, KeyTerms, SigningKey};
use crate::public_key::{Jwk, KeyId, PublicKey};
use sealgate_domain::key_ring::{DueEndorsement, KeyLife, KeyRing, KeyState, PublicJwk, TokenHolder, Trust};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::time::UnixTime;
use sealgate_system::clock::Clock;

/// Maximum number of callers that wait for a scan of the token at the same time.
const MAX_WAITING: usize = 16;

/// Channel for the outcome of a scan of the token.
pub(super) type ScanReply = oneshot::Sender<Result<(), String>>;

/// A request to generate a key.
pub(super) struct KeyGenerationRequest {
    pub(super) new: NewKey,
    pub(super) id: Vec<u8>,
    pub(super) reply: oneshot::Sender<Result<KeyReport, String>>,
}

/// Keys in the token, and the key ring that they follow.
pub(super) struct Keychain {
    terms: KeyTerms,
    inner: RwLock<KeychainState>,
    /// Copy of [`KeychainState::published`], which is read without the lock.
    published: ArcSwap<CachedKeySet>,
    waiting: Mutex<Vec<ScanReply>>,
    /// At most one request, because generating a key keeps the token busy.
    generation_request: Mutex<Option<KeyGenerationRequest>>,
}

struct KeychainState {
    keys: Vec<Arc<SigningKey>>,
    /// Configured algorithms other than RS256.
    further: Vec<Algorithm>,
    /// Owner of the token if each node has its own token, otherwise `None`.
    holder: Option<TokenHolder>,
    ring: Option<RingWithClock>,
    published: Arc<CachedKeySet>,
}

#[derive(Clone)]
struct RingWithClock {
    ring: KeyRing,
    clock: Arc<dyn Clock>,
}

/// Cached key set, valid from `from` until `until`, or indefinitely if `until` is `None`.
struct CachedKeySet {
    set: Arc<KeySet>,
    from: UnixTime,
    until: Option<UnixTime>,
    /// Clock of the key ring. Without a ring, the set is valid at all times.
    clock: Option<Arc<dyn Clock>>,
}

impl CachedKeySet {
    fn is_valid(&self) -> bool {
        let is_valid_at = |now| self.from <= now && self.until.is_none_or(|until| now < until);
        self.clock.as_ref().is_none_or(|clock| is_valid_at(clock.now()))
    }
}

impl Keychain {
    /// Creates a keychain from the keys that the token contains. Until [`Self::set_key_ring`], the first
    /// key signs.
    pub(super) fn new(token: &str, terms: KeyTerms, keys: Vec<SigningKey>) -> Result<Self, SignerOpenError> {
        let label = terms.label(Algorithm::Rs256).unwrap_or_default().to_owned();
        let no_key = || SignerOpenError::NoKey { token: token.to_owned(), label };
        let first = keys.iter().find(|key| key.public.algorithm() == Algorithm::Rs256);
        let first = first.ok_or_else(no_key)?.public.clone();
        let published = Arc::new(CachedKeySet {
            set: Arc::new(KeySet::new(first, Vec::new())),
            from: UnixTime::from_seconds(0),
            until: None,
            clock: None,
        });
        let keys = keys.into_iter().map(Arc::new).collect();
        let further = terms.algorithms().filter(|algorithm| *algorithm != Algorithm::Rs256).collect();
        let copy = ArcSwap::from(Arc::clone(&published));
        let inner = RwLock::new(KeychainState { keys, further, holder: None, ring: None, published });
        Ok(Self {
            terms,
            inner,
            published: copy,
            waiting: Mutex::new(Vec::new()),
            generation_request: Mutex::new(None),
        })
    }

    /// Returns the requirements for signing keys.
    pub(super) fn terms(&self) -> &KeyTerms {
        &self.terms
    }

    /// Returns the key in the token with this kid, whether it is published or not.
    pub(super) fn find(&self, kid: &KeyId) -> Option<Arc<SigningKey>> {
        self.read(|inner| inner.keys.iter().find(|key| key.public.kid() == kid).cloned())
    }

    /// Returns the attributes that the token reports for each key.
    pub(super) fn key_reports(&self) -> Vec<KeyReport> {
        self.read(|inner| inner.keys.iter().map(|key| key.report.clone()).collect())
    }

    /// Returns the key that signs now, or `None` if it is missing in the token.
    ///
    /// A token without this key counts as failed. Other missing keys do not stop signing.
    pub(super) fn active_key(&self) -> Option<Arc<SigningKey>> {
        self.find(self.key_set().active().kid())
    }

    /// Returns the published keys and the active key. Computes the set if the cached one has
    /// expired.
    pub(super) fn key_set(&self) -> Arc<KeySet> {
        let published = self.published.load();
        if published.is_valid() { Arc::clone(&published.set) } else { self.recompute() }
    }

    /// Returns the generation of [`Self::key_set`].
    pub(super) fn generation(&self) -> u64 {
        let published = self.published.load();
        if published.is_valid() { published.set.generation() } else { self.recompute().generation() }
    }

    fn recompute(&self) -> Arc<KeySet> {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        self.publish(&mut inner);
        Arc::clone(&inner.published.set)
    }

    /// Computes the key set, and publishes it while the lock is held, so that an older set never
    /// replaces a newer one.
    fn publish(&self, inner: &mut KeychainState) {
        inner.recompute_key_set();
        self.published.store(Arc::clone(&inner.published));
    }

    /// Marks the token as the token of this node only.
    pub(super) fn set_holder(&self, holder: TokenHolder) {
        self.inner.write().unwrap_or_else(PoisonError::into_inner).holder = Some(holder);
    }

    /// See [`super::Signer::endorsement_plan`].
    pub(super) fn endorsement_plan(&self, ring: &KeyRing, now: UnixTime) -> Option<EndorsementPlan> {
        self.read(|inner| Some(endorsement_plan(ring, inner.holder.as_ref()?, &inner.public(), now)))
    }

    /// Sets the key ring, which determines the published keys and the signing key.
    pub(super) fn set_key_ring(&self, ring: KeyRing, clock: Arc<dyn Clock>) {
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.ring = Some(RingWithClock { ring, clock });
        self.publish(&mut inner);
    }

    /// Registers `reply` for the outcome of the next scan. Returns `false` if too many callers
    /// already wait.
    pub(super) fn await_scan(&self, reply: ScanReply) -> bool {
        let mut waiting = self.waiting();
        waiting.retain(|reply| !reply.is_closed());
        if waiting.len() >= MAX_WAITING {
            return false;
        }
        waiting.push(reply);
        true
    }

    /// Requests that the next scan generates a key. Returns `false` if another request is pending.
    pub(super) fn request_generation(&self, request: KeyGenerationRequest) -> bool {
        let mut pending = self.generation_request.lock().unwrap_or_else(PoisonError::into_inner);
        if pending.as_ref().is_some_and(|pending| !pending.reply.is_closed()) {
            return false;
        }
        *pending = Some(request);
        true
    }

    /// Takes the pending request if its caller still waits.
    pub(super) fn take_generation_request(&self) -> Option<KeyGenerationRequest> {
        let request = self.generation_request.lock().unwrap_or_else(PoisonError::into_inner).take();
        request.filter(|request| !request.reply.is_closed())
    }

    /// Stores the keys that a scan found, and sends the outcome to the waiting callers.
    pub(super) fn complete_scan(&self, outcome: Result<Vec<SigningKey>, SignerOpenError>) {
        let outcome = outcome.map(|keys| {
            let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
            inner.keys = keys.into_iter().map(Arc::new).collect();
            if inner.ring.is_some() {
                self.publish(&mut inner);
            }
        });
        let outcome = outcome.map_err(|error| error.to_string());
        for reply in self.waiting().drain(..) {
            // An error means that the caller has given up.
            let _ = reply.send(outcome.clone());
        }
    }

    fn read<T>(&self, read: impl FnOnce(&KeychainState) -> T) -> T {
        read(&self.inner.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<ScanReply>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeychainState {
    fn public(&self) -> Vec<PublicKey> {
        self.keys.iter().map(|key| key.public.clone()).collect()
    }

    /// Computes the key set that the key ring requires now.
    fn recompute_key_set(&mut self) {
        let Some(RingWithClock { ring, clock }) = &self.ring else { return };
        let now = clock.now();
        let public_for = |kid: &str, algorithm: Algorithm| {
            let key = self.keys.iter().find(|key| key.public.kid().as_str() == kid);
            key.map(|key| key.public.clone()).filter(|key| key.algorithm() == algorithm)
        };
        let public = |kid: &str| public_for(kid, Algorithm::Rs256);
        // A key of the token is published only for the algorithm for which it was announced.
        let announced = |life: &KeyLife| {
            let key = self.keys.iter().find(|key| key.public.kid().as_str() == life.kid)?;
            Some(key.public.clone()).filter(|key| life.is_for(key.algorithm()))
        };
        let mut published: Vec<PublicKey> = if let Some(holder) = &self.holder {
            published(ring, holder, &self.public(), now)
        } else {
            let published = ring.keys().iter().filter(|life| ring.state(life, now) != KeyState::Removed);
            published.filter_map(announced).collect()
        };
        let further: Vec<PublicKey> = self
            .further
            .iter()
            .filter_map(|algorithm| {
                let ring = ring.clone().of_algorithm(*algorithm);
                let is_usable = |kid: &str| public_for(kid, *algorithm).is_some();
                ring.active(now, is_usable).and_then(|life| public_for(&life.kid, *algorithm))
            })
            .collect();
        let active = ring.active(now, |kid| public(kid).is_some()).and_then(|life| public(&life.kid));
        let published_set = &self.published.set;
        let set = if let Some(active) = active {
            if active.kid() != published_set.active().kid() {
                tracing::info!(kid = active.kid().as_str(), "the active signing key changed");
            }
            published.retain(|key| key.kid() != active.kid());
            KeySet::new(active, published)
        } else {
            // The active key is not in the token: either other software removed it, or the clock is
            // behind. The previous key continues to sign. If the ring has removed the previous key,
            // it must not be published either, and signing stops.
            let due = ring.active(now, |_| true).map(|life| life.kid.as_str());
            if let Some((next, at)) = ring.next_to_sign(now, |kid| public(kid).is_some()) {
                tracing::error!(
                    next = next.kid,
                    active_from = %at,
                    clock = %now,
                    missing = due,
                    "no key in the token is active yet; the next key becomes active later. Check the clock"
                );
            } else {
                tracing::error!(kid = due, "the active signing key is not in the token");
            }
            let last = published_set.active().clone();
            let removed = ring.find(last.kid().as_str());
            let removed = removed.is_some_and(|life| ring.state(life, now) == KeyState::Removed);
            published.retain(|key| key.kid() != last.kid());
            let set = KeySet::new(last, published);
            if removed { set.without_active() } else { set }
        };
        let set = set.with_further(further);
        self.published = Arc::new(CachedKeySet {
            set: Arc::new(set.with_generation_after(published_set)),
            from: now,
            until: ring.next_change(now),
            clock: Some(Arc::clone(clock)),
        });
    }
}

/// The published keys and the active signing key.
#[derive(Debug, Clone)]
pub struct KeySet {
    active: PublicKey,
    others: Vec<PublicKey>,
    /// Active keys of other algorithms than RS256. They are also among `others`.
    further: Vec<PublicKey>,
    /// Whether the active key is unpublished because it was removed and the token has no other key.
    is_active_removed: bool,
    generation: u64,
}

impl KeySet {
    /// Creates a set. `active` signs. The keys in `others` are published only for verification.
    pub fn new(active: PublicKey, others: Vec<PublicKey>) -> Self {
        Self { active, others, further: Vec::new(), is_active_removed: false, generation: 0 }
    }

    /// Returns the set with these active keys of other algorithms than RS256.
    #[must_use]
    pub fn with_further(self, further: Vec<PublicKey>) -> Self {
        let further = further.into_iter().filter(|key| self.others.iter().any(|other| other.kid() == key.kid()));
        Self { further: further.collect(), ..self }
    }

    /// Returns the set without publishing the active key, so that its signatures are rejected.
    pub(super) fn without_active(self) -> Self {
        Self { is_active_removed: true, ..self }
    }

    /// Returns this set with a generation number. The number of `before` is kept if both publish
    /// the same keys, and incremented otherwise.
    pub(super) fn with_generation_after(self, before: &Self) -> Self {
        let same = self.iter().map(PublicKey::kid).eq(before.iter().map(PublicKey::kid));
        let generation = if same { before.generation } else { before.generation.wrapping_add(1) };
        Self { generation, ..self }
    }

    /// Returns a number that changes with the published keys or their order.
    ///
    /// A cache of verified signatures reads the number before it verifies, stores it with the
    /// result, and looks up the key again if the number has changed.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the RS256 key that signs.
    pub fn active(&self) -> &PublicKey {
        &self.active
    }

    /// Returns the key that signs with this algorithm. Returns `None` if no key of a further
    /// algorithm is active.
    pub fn active_for(&self, algorithm: Algorithm) -> Option<&PublicKey> {
        match algorithm {
            Algorithm::Rs256 => Some(&self.active),
            _ => self.further.iter().find(|key| key.algorithm() == algorithm),
        }
    }

    /// Returns the published key with this `kid` from a JWS header.
    pub fn find(&self, kid: &str) -> Option<&PublicKey> {
        self.iter().find(|key| key.kid().as_str() == kid)
    }

    /// Returns the published keys, the active one first.
    pub fn iter(&self) -> impl Iterator<Item = &PublicKey> {
        let active = Some(&self.active).filter(|_| !self.is_active_removed);
        active.into_iter().chain(&self.others)
    }

    /// Returns the document at `jwks_uri`.
    pub fn jwk_set(&self) -> JwkSet {
        JwkSet { keys: self.iter().map(PublicKey::jwk).collect() }
    }
}

/// Document at `jwks_uri` (RFC 7517 §5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct JwkSet {
    /// The published keys, the active one first.
    pub keys: Vec<Jwk>,
}

/// Entries that a node must add to the key ring.
#[derive(Debug)]
pub struct EndorsementPlan {
    /// This node's keys whose public key is missing in the ring, by kid.
    pub undescribed: Vec<(String, PublicJwk)>,
    /// Endorsements to sign, each with the kid of this node's key that signs it.
    pub due: Vec<(KeyId, DueEndorsement)>,
    /// Kids of other nodes' keys that this node does not trust.
    pub untrusted: Vec<String>,
}

fn with_trust<T>(holder: &TokenHolder, own_keys: &[PublicKey], use_trust: impl FnOnce(&Trust<'_>) -> T) -> T {
    let in_token = |kid: &str| own_keys.iter().any(|key| key.kid().as_str() == kid);
    let verify = |jwk: &PublicJwk, message: &[u8], signature: &[u8]| {
        PublicKey::from_jwk(jwk, Algorithm::Rs256).is_some_and(|key| key.verify(message, signature))
    };
    use_trust(&Trust { holder, in_token: &in_token, verify: &verify })
}

/// Returns the keys of the ring that this node publishes: the keys in its own token, and the
/// trusted keys of other nodes.
pub(super) fn published(ring: &KeyRing, holder: &TokenHolder, own_keys: &[PublicKey], now: UnixTime) -> Vec<PublicKey> {
    let key = |life: &KeyLife| {
        let algorithm = Algorithm::parse(life.algorithm_name()).filter(|algorithm| life.is_for(*algorithm))?;
        let own = own_keys.iter().find(|key| key.kid().as_str() == life.kid && key.algorithm() == algorithm).cloned();
        own.or_else(|| PublicKey::from_jwk(life.jwk.as_ref()?, algorithm).filter(|key| key.kid().as_str() == life.kid))
    };
    with_trust(holder, own_keys, |trust| ring.trusted(trust, now).into_iter().filter_map(key).collect())
}

pub(super) fn endorsement_plan(
    ring: &KeyRing,
    holder: &TokenHolder,
    own_keys: &[PublicKey],
    now: UnixTime,
) -> EndorsementPlan {
    let is_undescribed = |key: &PublicKey| {
        let life = ring.find(key.kid().as_str()).filter(|life| life.holder.as_ref() == Some(&holder.node));
        // The ring needs no public parameters of a removed key.
        let life = life.filter(|life| ring.state(life, now) != KeyState::Removed);
        life.is_some_and(|life| life.jwk.as_ref() != Some(&key.public_jwk()))
    };
    let undescribed = own_keys.iter().filter(|key| is_undescribed(key));
    let undescribed = undescribed.map(|key| (key.kid().to_string(), key.public_jwk())).collect();
    with_trust(holder, own_keys, |trust| {
        let with_key = |due: DueEndorsement| {
            let by = own_keys.iter().find(|key| key.kid().as_str() == due.by)?;
            Some((by.kid().clone(), due))
        };
        let due = ring.due_endorsements(trust, now).into_iter().filter_map(with_key).collect();
        let untrusted = ring.untrusted(trust, now).into_iter().map(|life| life.kid.clone()).collect();
        EndorsementPlan { undescribed, due, untrusted }
    })
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
