//! Public keys of one trusted issuer, and when to fetch them next.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use crate::tokens::trusted::fetch;
use crate::tokens::trusted::fetch::Fetched;
use sealgate_config::{KeySource, TrustedIssuer};
use sealgate_domain::oauth::jwk_set::TrustedJwk;
use sealgate_domain::oauth::jws::Jws;
use sealgate_domain::oauth::verifying_keys::{VerifyingKey, VerifyingKeys};
use sealgate_domain::time::UnixTime;

/// Maximum time that a token with an unknown key waits for a fetch.
const MAX_WAIT: Duration = Duration::from_secs(2);
/// Maximum number of requests that wait for a fetch. Further requests are refused at once.
const MAX_WAITING: usize = 64;
/// Minimum time between two fetches, even if the issuer permits shorter caching.
const MIN_INTERVAL: Duration = Duration::from_mins(1);
/// First retry interval while no fetch has ever succeeded. Doubles up to the throttle interval.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Trusted issuer and its keys.
pub struct Source {
    settings: TrustedIssuer,
    keys: RwLock<Arc<Keys>>,
    pace: Mutex<Pace>,
    /// Notified when a token requests a fetch before the next one is due.
    requested: Notify,
    /// Number of completed fetches.
    ended: watch::Sender<u64>,
    waiting: Semaphore,
}

#[derive(Default)]
pub(super) struct Keys {
    /// Incremented with every change of the keys.
    generation: u64,
    read_at: Option<UnixTime>,
    jwks: Vec<TrustedJwk>,
    verifying: Arc<VerifyingKeys>,
}

/// Pace of fetches.
#[derive(Default)]
struct Pace {
    reading: bool,
    last_began: Option<Instant>,
    failures: u32,
    fault: Option<String>,
}

/// Result of a fetch.
pub(super) struct FetchResult {
    /// Number of usable keys and time of the fetch, after a success.
    pub(super) keys: Option<(usize, UnixTime)>,
    /// Time until the next fetch.
    pub(super) pause: Duration,
}

impl Keys {
    /// Returns the generation of the keys, which changes when a key changes.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the key that may have signed the token.
    pub(super) fn find(&self, jws: &Jws<'_>) -> Option<&VerifyingKey> {
        self.verifying.find(jws)
    }
}

impl Source {
    /// Prepares an issuer. Reads a key file immediately. Keys from other sources are fetched later.
    pub(super) fn open(settings: &TrustedIssuer) -> Result<Self, String> {
        let source = Self {
            settings: settings.clone(),
            keys: RwLock::default(),
            pace: Mutex::default(),
            requested: Notify::new(),
            ended: watch::Sender::new(0),
            waiting: Semaphore::new(MAX_WAITING),
        };
        if let KeySource::File(path) = &settings.keys {
            let read = fetch::file(path).and_then(|jwks| source.replace(jwks, UnixTime::from_seconds(0)));
            read.map_err(|fault| format!("trusted_issuer {}: {fault}", settings.terms.name))?;
        }
        Ok(source)
    }

    /// Returns the configuration of the issuer.
    pub fn settings(&self) -> &TrustedIssuer {
        &self.settings
    }

    /// Returns the keys. Returns `None` before the first successful fetch, and after the keys have
    /// exceeded their maximum age.
    ///
    /// Keys in a file do not expire.
    pub(super) fn keys(&self, now: UnixTime) -> Option<Arc<Keys>> {
        let keys = Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner));
        let read_at = keys.read_at?;
        let lasting = self.file().is_some() || now.since(read_at) < self.settings.stale;
        lasting.then_some(keys)
    }

    /// Returns the path of the key file, if the keys are in a file.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.settings.keys {
            KeySource::File(path) => Some(path),
            KeySource::Discovered | KeySource::At(_) => None,
        }
    }

    /// Requests a fetch before the next fetch is due, and waits briefly for the result. Returns
    /// whether a fetch has completed.
    ///
    /// Returns false immediately if the last fetch is recent. Tokens with invented key ids
    /// therefore cause at most one fetch per throttle interval.
    pub(super) async fn request_fetch(&self) -> bool {
        if self.file().is_some() {
            return false;
        }
        let Ok(_place) = self.waiting.try_acquire() else { return false };
        let mut ended = self.ended.subscribe();
        {
            let mut pace = self.pace();
            let recent = pace.last_began.is_some_and(|began| began.elapsed() < self.settings.throttle);
            if !pace.reading && recent {
                return false;
            }
            if !pace.reading {
                pace.reading = true;
                self.requested.notify_one();
            }
        }
        timeout(MAX_WAIT, ended.changed()).await.is_ok_and(|changed| changed.is_ok())
    }

    /// Waits until a token requests a fetch.
    pub(super) async fn fetch_requested(&self) {
        self.requested.notified().await;
    }

    /// Records the start of a fetch.
    pub(super) fn begin(&self) {
        let mut pace = self.pace();
        pace.reading = true;
        pace.last_began = Some(Instant::now());
    }

    /// Records the outcome of a fetch and replaces the keys if it succeeded.
    pub(super) fn complete(&self, outcome: Result<Fetched, String>, now: UnixTime) -> FetchResult {
        let outcome = outcome.and_then(|fetched| Ok((self.replace(fetched.jwks, now)?, fetched.max_age)));
        let name = &self.settings.terms.name;
        let mut pace = self.pace();
        pace.reading = false;
        let result = match outcome {
            Ok((count, max_age)) => {
                if pace.fault.take().is_some() {
                    tracing::info!(issuer = name, keys = count, "the keys of a trusted issuer can be read again");
                }
                pace.failures = 0;
                let shortest = MIN_INTERVAL.min(self.settings.refresh);
                let pause = max_age.map_or(self.settings.refresh, |age| age.clamp(shortest, self.settings.refresh));
                FetchResult { keys: Some((count, now)), pause }
            }
            Err(fault) => {
                if pace.fault.as_ref() != Some(&fault) {
                    tracing::warn!(
                        issuer = name,
                        fault,
                        "cannot read the keys of a trusted issuer; the last known keys stay in use"
                    );
                }
                let eager = FIRST_PAUSE.saturating_mul(1 << pace.failures.min(16));
                pace.failures = pace.failures.saturating_add(1);
                pace.fault = Some(fault);
                let never_fetched = self.keys.read().unwrap_or_else(PoisonError::into_inner).read_at.is_none();
                let pause = if never_fetched { eager.min(self.settings.throttle) } else { self.settings.throttle };
                FetchResult { keys: None, pause }
            }
        };
        drop(pace);
        self.ended.send_modify(|ended| *ended += 1);
        result
    }

    /// Returns a warning for the operator, if the last fetch failed.
    pub(super) fn warning(&self) -> Option<String> {
        let fault = self.pace().fault.clone()?;
        Some(format!("cannot read the keys of trusted_issuer {}: {fault}", self.settings.terms.name))
    }

    /// Replaces the keys with the fetched keys, and returns the number of usable keys.
    fn replace(&self, jwks: Vec<TrustedJwk>, now: UnixTime) -> Result<usize, String> {
        let mut keys = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        if keys.read_at.is_some() && keys.jwks == jwks {
            let known =
                Keys { generation: keys.generation, read_at: Some(now), jwks, verifying: Arc::clone(&keys.verifying) };
            let count = known.verifying.len();
            *keys = Arc::new(known);
            return Ok(count);
        }
        let algorithms = &self.settings.terms.algorithms;
        let verifying = Arc::new(VerifyingKeys::from_jwks(&jwks, algorithms));
        if verifying.is_empty() {
            // Keep the previous keys, because an issuer may briefly publish an empty set during a
            // deployment.
            return Err("the key set has no key for the configured algorithms".to_owned());
        }
        let count = verifying.len();
        *keys = Arc::new(Keys { generation: keys.generation + 1, read_at: Some(now), jwks, verifying });
        Ok(count)
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
