//! Key sets of clients with a `jwks_uri` (RFC 7591 §2).
//!
//! A key set is fetched when the client presents an assertion, and is cached for as long as the
//! response permits, between five minutes and a day. An assertion with an unknown key fetches the set
//! again, at most once a minute. If a fetch fails, the last known keys stay in use for a day.
//!
//! The operator chooses the URLs, but the host may change its addresses. Therefore the fetches have
//! the rules of [`documents`](super::documents): public addresses only, no redirects, a deadline and a
//! maximum length.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::task::spawn_blocking;

use crate::tokens::documents::DocumentFetcher;
use sealgate_domain::assertion_source::algorithms;
use sealgate_domain::client::ClientId;
use sealgate_domain::oauth::jwk_set;
use sealgate_domain::oauth::jws::Jws;
use sealgate_domain::oauth::verifying_keys::VerifyingKeys;
use sealgate_domain::time::UnixTime;
use sealgate_system::fetch::{Document, Unread, Web};

/// Maximum time to fetch a key set.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum length of a key set in bytes.
const MAX_KEY_SET_LENGTH: u64 = 64 * 1024;
const MIN_AGE: Duration = Duration::from_mins(5);
const MAX_AGE: Duration = Duration::from_hours(24);
/// Minimum time between two fetches of a key set.
const MIN_INTERVAL: Duration = Duration::from_mins(1);
/// Time for which keys stay in use while their set cannot be fetched.
const MAX_STALE: Duration = Duration::from_hours(24);
/// Maximum number of requests, and so of threads, that wait for key sets. Further requests use the known
/// keys.
pub const MAX_WAITING: usize = 16;

/// Fetches key sets from public addresses.
struct Internet;

impl DocumentFetcher for Internet {
    fn fetch(&self, url: &str) -> Result<Document, String> {
        Web::for_strangers(TIMEOUT, MAX_KEY_SET_LENGTH)?.get(url).map_err(Unread::into_line)
    }
}

/// Cache of the key sets of clients.
pub struct ClientKeySets {
    fetcher: Arc<dyn DocumentFetcher>,
    /// Key sets by client. Only clients of the operator have one, so their number is limited.
    known: Mutex<HashMap<ClientId, Arc<KeySet>>>,
    waiting: Semaphore,
}

/// Key set of one client.
struct KeySet {
    uri: String,
    state: Mutex<KeySetState>,
    /// Held during a fetch.
    turn: AsyncMutex<()>,
}

#[derive(Default, Clone)]
struct KeySetState {
    keys: Option<Arc<VerifyingKeys>>,
    read_at: Option<UnixTime>,
    /// Time from which the keys are fetched again.
    fresh_until: Option<UnixTime>,
    tried_at: Option<UnixTime>,
    /// Reason why the last fetch failed.
    fault: Option<String>,
}

impl KeySetState {
    /// Returns the keys, unless their last reading is too old.
    fn keys(&self, now: UnixTime) -> Option<Arc<VerifyingKeys>> {
        let is_usable = self.read_at.is_some_and(|at| now.since(at) < MAX_STALE);
        self.keys.clone().filter(|_| is_usable)
    }

    /// Returns whether the keys may verify this assertion without a fetch.
    fn suffices(&self, jws: &Jws<'_>, now: UnixTime) -> bool {
        let is_fresh = self.fresh_until.is_some_and(|end| now < end);
        is_fresh && self.keys(now).is_some_and(|keys| keys.find(jws).is_some())
    }

    fn was_just_tried(&self, now: UnixTime) -> bool {
        self.tried_at.is_some_and(|at| now.since(at) < MIN_INTERVAL)
    }
}

impl Default for ClientKeySets {
    fn default() -> Self {
        Self::with(Arc::new(Internet))
    }
}

impl ClientKeySets {
    /// Creates an empty cache with this source of key sets.
    pub fn with(fetcher: Arc<dyn DocumentFetcher>) -> Self {
        Self { fetcher, known: Mutex::default(), waiting: Semaphore::new(MAX_WAITING) }
    }

    /// Returns the keys of a client for this assertion. The caller must have checked that the client
    /// belongs to the operator.
    ///
    /// Returns `None` if the keys were never read, or are too old.
    pub async fn keys(&self, client: &ClientId, uri: &str, jws: &Jws<'_>, now: UnixTime) -> Option<Arc<VerifyingKeys>> {
        let set = self.set(client, uri);
        let state = set.state();
        if state.suffices(jws, now) || state.was_just_tried(now) {
            return state.keys(now);
        }
        let Ok(_place) = self.waiting.try_acquire() else { return state.keys(now) };
        let _turn = set.turn.lock().await;
        // The previous lock holder may have fetched the keys already.
        let state = set.state();
        if state.suffices(jws, now) || state.was_just_tried(now) {
            return state.keys(now);
        }
        let (source, url) = (Arc::clone(&self.fetcher), uri.to_owned());
        let fetched = spawn_blocking(move || source.fetch(&url)).await;
        let fetched = fetched.unwrap_or_else(|_| Err(format!("{uri}: the fetch failed")));
        set.complete(client, fetched, now);
        set.state().keys(now)
    }

    /// Returns the key set of a client. A changed URL starts an empty one.
    fn set(&self, client: &ClientId, uri: &str) -> Arc<KeySet> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(set) = known.get(client).filter(|set| set.uri == uri) {
            return Arc::clone(set);
        }
        let set = Arc::new(KeySet { uri: uri.to_owned(), state: Mutex::default(), turn: AsyncMutex::default() });
        known.insert(client.clone(), Arc::clone(&set));
        set
    }
}

impl KeySet {
    fn state(&self) -> KeySetState {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records the outcome of a fetch, and replaces the keys if it succeeded.
    fn complete(&self, client: &ClientId, fetched: Result<Document, String>, now: UnixTime) {
        let parsed = fetched.and_then(|document| {
            let jwks = jwk_set::read(&document.body).map_err(|fault| format!("{}: {fault}", self.uri))?;
            let keys = VerifyingKeys::from_jwks(&jwks, &algorithms());
            if keys.is_empty() {
                return Err(format!("{}: the set has no usable key", self.uri));
            }
            Ok((keys, document.max_age.unwrap_or(MIN_AGE).clamp(MIN_AGE, MAX_AGE)))
        });
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.tried_at = Some(now);
        match parsed {
            Ok((keys, age)) => {
                state.keys = Some(Arc::new(keys));
                (state.read_at, state.fresh_until) = (Some(now), Some(now.plus(age)));
                state.fault = None;
            }
            // Unauthenticated requests cause fetches, so a failure that lasts is logged once.
            Err(fault) if state.fault.as_ref() != Some(&fault) => {
                tracing::warn!(%client, fault, "cannot read the keys of a client; the last known keys stay in use");
                state.fault = Some(fault);
            }
            Err(_) => {}
        }
    }
}
