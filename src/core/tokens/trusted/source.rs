//! One other issuer: its public keys as last fetched, their maximum age, and the time of the next fetch.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256,
};
use tokio::sync::{Notify, Semaphore, watch};
use tokio::time::timeout;

use crate::tokens::trusted::fetch;
use crate::tokens::trusted::fetch::Fetched;
use sealgate_config::{KeySource, TrustedIssuer};
use sealgate_domain::oauth::jwk_set::{Algorithm, Numbers, TrustedJwk};
use sealgate_domain::oauth::trusted_token::Signed;
use sealgate_domain::time::UnixTime;

/// How long a token whose key is not known waits for a reading.
const PATIENCE: Duration = Duration::from_secs(2);
/// Requests that may wait for it at once; more are answered without.
const MAX_WAITING: usize = 64;
/// The shortest time between two readings, where the issuer lets its keys be kept for less.
const SHORTEST: Duration = Duration::from_mins(1);
/// The first pause while the keys have never come; it doubles up to the throttle.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// An issuer and its keys.
pub struct Source {
    settings: TrustedIssuer,
    keys: RwLock<Arc<Keys>>,
    pace: Mutex<Pace>,
    /// Told when a token asks for a reading before its time.
    wanted: Notify,
    ended: watch::Sender<u64>,
    waiting: Semaphore,
}

#[derive(Default)]
pub(super) struct Keys {
    /// Grows whenever any key comes or goes.
    generation: u64,
    read_at: Option<UnixTime>,
    jwks: Vec<TrustedJwk>,
    verifying: Arc<[VerifyingKey]>,
}

#[derive(Default)]
struct Pace {
    reading: bool,
    last_began: Option<Instant>,
    failures: u32,
    fault: Option<String>,
}

pub(super) struct Settled {
    /// How many keys there are now, and when they were read, after a success.
    pub(super) keys: Option<(usize, UnixTime)>,
    pub(super) pause: Duration,
}

impl Keys {
    /// Which keys these are, in a number.
    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// The one key that may have signed a token. A token that names none is taken only where there is no choice.
    pub(super) fn find(&self, signed: &Signed<'_>) -> Option<&VerifyingKey> {
        let mut fit = self.verifying.iter().filter(|key| key.may_have_signed(signed));
        match (fit.next(), fit.next()) {
            (Some(only), None) => Some(only),
            _ => None,
        }
    }
}

impl Source {
    /// An issuer whose keys are still to come, but for those in a file.
    pub(super) fn open(settings: &TrustedIssuer) -> Result<Self, String> {
        let source = Self {
            settings: settings.clone(),
            keys: RwLock::default(),
            pace: Mutex::default(),
            wanted: Notify::new(),
            ended: watch::Sender::new(0),
            waiting: Semaphore::new(MAX_WAITING),
        };
        if let KeySource::File(path) = &settings.keys {
            let read = fetch::file(path).and_then(|jwks| source.replace(jwks, UnixTime::from_seconds(0)));
            read.map_err(|fault| format!("trusted_issuer {}: {fault}", settings.terms.name))?;
        }
        Ok(source)
    }

    pub fn settings(&self) -> &TrustedIssuer {
        &self.settings
    }

    /// The keys; none while they have never come, or when they were last read too long ago. A file is as good as it was.
    pub(super) fn keys(&self, now: UnixTime) -> Option<Arc<Keys>> {
        let keys = Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner));
        let read_at = keys.read_at?;
        let lasting = self.file().is_some() || now.since(read_at) < self.settings.stale;
        lasting.then_some(keys)
    }

    /// The file that the keys stand in, where they do.
    pub(super) fn file(&self) -> Option<&Path> {
        match &self.settings.keys {
            KeySource::File(path) => Some(path),
            KeySource::Discovered | KeySource::At(_) => None,
        }
    }

    /// Asks for a reading before its time, and waits a moment for it. Whether one has ended: not when the last one is too
    /// recent, so that tokens with invented keys cause no more than one a throttle interval.
    pub(super) async fn look_again(&self) -> bool {
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
                self.wanted.notify_one();
            }
        }
        timeout(PATIENCE, ended.changed()).await.is_ok_and(|changed| changed.is_ok())
    }

    /// Waits until a token asks for a reading.
    pub(super) async fn wanted(&self) {
        self.wanted.notified().await;
    }

    pub(super) fn begin(&self) {
        let mut pace = self.pace();
        pace.reading = true;
        pace.last_began = Some(Instant::now());
    }

    pub(super) fn settle(&self, outcome: Result<Fetched, String>, now: UnixTime) -> Settled {
        let outcome = outcome.and_then(|fetched| Ok((self.replace(fetched.jwks, now)?, fetched.max_age)));
        let name = &self.settings.terms.name;
        let mut pace = self.pace();
        pace.reading = false;
        let settled = match outcome {
            Ok((count, max_age)) => {
                if pace.fault.take().is_some() {
                    tracing::info!(issuer = name, keys = count, "the keys of a trusted issuer can be read again");
                }
                pace.failures = 0;
                let shortest = SHORTEST.min(self.settings.refresh);
                let pause = max_age.map_or(self.settings.refresh, |age| age.clamp(shortest, self.settings.refresh));
                Settled { keys: Some((count, now)), pause }
            }
            Err(fault) => {
                if pace.fault.as_ref() != Some(&fault) {
                    tracing::warn!(
                        issuer = name,
                        fault,
                        "cannot read the keys of a trusted issuer; the last known ones stay in use"
                    );
                }
                let eager = FIRST_PAUSE.saturating_mul(1 << pace.failures.min(16));
                pace.failures = pace.failures.saturating_add(1);
                pace.fault = Some(fault);
                let never_came = self.keys.read().unwrap_or_else(PoisonError::into_inner).read_at.is_none();
                let pause = if never_came { eager.min(self.settings.throttle) } else { self.settings.throttle };
                Settled { keys: None, pause }
            }
        };
        drop(pace);
        self.ended.send_modify(|ended| *ended += 1);
        settled
    }

    /// What an operator should see to.
    pub(super) fn warning(&self) -> Option<String> {
        let fault = self.pace().fault.clone()?;
        Some(format!("cannot read the keys of trusted_issuer {}: {fault}", self.settings.terms.name))
    }

    /// Takes over keys that were read; how many can be used.
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
        let verifying: Arc<[_]> = jwks.iter().filter_map(|jwk| VerifyingKey::from_jwk(jwk, algorithms)).collect();
        if verifying.is_empty() {
            // An empty set in the midst of a deployment must not shut everybody out.
            return Err("the key set has no key for its algorithms".to_owned());
        }
        let count = verifying.len();
        *keys = Arc::new(Keys { generation: keys.generation + 1, read_at: Some(now), jwks, verifying });
        Ok(count)
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A key, ready for each algorithm that it is for and that the issuer's tokens may have.
pub(super) struct VerifyingKey {
    kid: Option<String>,
    verifiers: Vec<(Algorithm, ParsedPublicKey)>,
}

impl VerifyingKey {
    /// `None` when the numbers are no key, or it is for none of these algorithms.
    pub(super) fn from_jwk(jwk: &TrustedJwk, algorithms: &[Algorithm]) -> Option<Self> {
        let fit = algorithms.iter().filter(|algorithm| jwk.is_for(**algorithm));
        let verifiers: Vec<_> =
            fit.filter_map(|algorithm| Some((*algorithm, parsed(&jwk.numbers, *algorithm)?))).collect();
        (!verifiers.is_empty()).then(|| Self { kid: jwk.kid.clone(), verifiers })
    }

    /// Whether the token may be of this key: by its name, where it names one, and by its algorithm.
    pub(super) fn may_have_signed(&self, signed: &Signed<'_>) -> bool {
        let named = signed.kid.is_none() || signed.kid == self.kid;
        named && self.verifier(signed.algorithm).is_some()
    }

    /// Whether this key has signed the token.
    pub(super) fn verifies(&self, signed: &Signed<'_>) -> bool {
        let verifier = self.verifier(signed.algorithm);
        verifier.is_some_and(|key| key.verify_sig(signed.signing_input.as_bytes(), &signed.signature).is_ok())
    }

    fn verifier(&self, algorithm: Algorithm) -> Option<&ParsedPublicKey> {
        self.verifiers.iter().find(|(known, _)| *known == algorithm).map(|(_, verifier)| verifier)
    }
}

fn parsed(numbers: &Numbers, algorithm: Algorithm) -> Option<ParsedPublicKey> {
    let key = match (numbers, algorithm) {
        (Numbers::Rsa { n, e }, Algorithm::Rs256) => {
            PublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256)
        }
        (Numbers::Rsa { n, e }, Algorithm::Ps256) => {
            PublicKeyComponents { n, e }.to_parsed_public_key(&RSA_PSS_2048_8192_SHA256)
        }
        (Numbers::P256(point), Algorithm::Es256) => ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point),
        (Numbers::Ed25519(key), Algorithm::EdDsa) => ParsedPublicKey::new(&ED25519, key),
        _ => return None,
    };
    key.ok()
}
