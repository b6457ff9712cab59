//! Access tokens of other issuers.
//!
//! `source` holds the key set of one issuer, and `fetch` fetches it. This module verifies tokens
//! and runs the tasks that refresh key sets. It does not depend on HTTP requests or applications.
//!
//! Requests do not wait for the network, with one exception. A request with a token of an unknown
//! key triggers a fetch and waits briefly for the result, so that a new key is usable at once.
//! Tokens of other issuers cannot be revoked here. They are valid until their `exp` claim, or until
//! their key is withdrawn.
//!
//! Fetching blocks, so it uses blocking threads, a few at a time.

mod fetch;
mod source;

use std::sync::Arc;
use std::time::Duration;

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::sleep;

use crate::tokens::trusted::fetch::fetch;
use sealgate_config::TrustedIssuer;
use sealgate_domain::assertion_source::Workload;
use sealgate_domain::oauth::client_assertion::{AssertionFault, ClientAssertion};
use sealgate_domain::oauth::trusted_token::{Foreign, ForeignFault, Signed, TrustTerms, claimed_issuer};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_system::clock::Clock;
use sealgate_system::file_version::FileVersion;
use sealgate_system::metrics::Metrics;

pub use source::Source;

/// Approximate number of cached tokens.
const MAX_CACHED: usize = 16_384;
/// Maximum memory of cached tokens, in bytes. The limit is needed because issuers choose the size
/// of tokens.
const MAX_CACHE_BYTES: u64 = 32 << 20;

/// Issuers whose tokens applications accept, or that vouch for workloads.
pub struct TrustedIssuers {
    sources: Vec<Arc<Source>>,
    /// Verified tokens by SHA-256, so that the cache contains no credentials.
    verified: Cache<[u8; 32], Entry, Size>,
}

#[derive(Clone)]
struct Entry {
    foreign: Arc<Foreign>,
    /// Generation of the issuer's keys when the token was verified. After any key has changed, the
    /// signature is verified again, because the issuer may have withdrawn a compromised key.
    generation: u64,
    /// Approximate size in bytes.
    size: u64,
}

/// Weighs cache entries by their memory.
#[derive(Clone)]
struct Size;

impl Weighter<[u8; 32], Entry> for Size {
    fn weight(&self, _key: &[u8; 32], entry: &Entry) -> u64 {
        entry.size
    }
}

impl TrustedIssuers {
    /// Prepares the issuers, and reads key files. Blocking I/O: call it only at startup.
    ///
    /// # Errors
    /// One line for each file without usable keys.
    pub fn open(issuers: &[TrustedIssuer]) -> Result<Self, Vec<String>> {
        let mut faults = Vec::new();
        let opened = issuers.iter().filter_map(|issuer| Source::open(issuer).map_err(|fault| faults.push(fault)).ok());
        let sources = opened.map(Arc::new).collect();
        let verified = Cache::with_weighter(MAX_CACHED, MAX_CACHE_BYTES, Size);
        if faults.is_empty() { Ok(Self { sources, verified }) } else { Err(faults) }
    }

    /// Returns the issuer that a token claims, if `names` contains it. Verifies nothing.
    pub fn claimed(&self, token: &str, names: &[String]) -> Option<&Arc<Source>> {
        if names.is_empty() {
            return None;
        }
        let claimed = claimed_issuer(token)?;
        let source = self.sources.iter().find(|source| source.settings().terms.issuer == claimed)?;
        names.contains(&source.settings().terms.name).then_some(source)
    }

    /// Verifies a token with the keys and settings of the issuer that it claims.
    ///
    /// # Errors
    /// [`ForeignFault`]. After `NoKeys` the token may still be valid.
    pub async fn verify(
        &self,
        source: &Source,
        token: &str,
        now: UnixTime,
        metrics: &Metrics,
    ) -> Result<Arc<Foreign>, ForeignFault> {
        let outcome = self.judge(source, token, now).await;
        let word = outcome.as_ref().map_or_else(|fault| fault.as_str(), |_| "taken");
        metrics.foreign_token(&source.settings().terms.name, word);
        outcome
    }

    async fn judge(&self, source: &Source, token: &str, now: UnixTime) -> Result<Arc<Foreign>, ForeignFault> {
        let terms = &source.settings().terms;
        let key = *SecretHash::for_secret(token.as_bytes()).as_bytes();
        let remembered = self.verified.get(&key).filter(|entry| entry.foreign.issuer == terms.name);
        if let Some(entry) = &remembered {
            if now >= entry.foreign.ends_at {
                self.verified.remove(&key);
                return Err(ForeignFault::Expired);
            }
            let keys = source.keys(now).ok_or(ForeignFault::NoKeys)?;
            if keys.generation() == entry.generation {
                return Ok(Arc::clone(&entry.foreign));
            }
        }
        let signed = Signed::parse(token, terms)?;
        // Check the claims first, so that an expired token is reported as expired even without
        // keys.
        let foreign = signed.judged(terms, now)?;
        let mut keys = source.keys(now).ok_or(ForeignFault::NoKeys)?;
        if keys.find(signed.jws()).is_none() && source.request_fetch().await {
            keys = source.keys(now).ok_or(ForeignFault::NoKeys)?;
        }
        let verifier = keys.find(signed.jws()).ok_or(ForeignFault::UnknownKey)?;
        if !verifier.verifies(signed.jws()) {
            self.verified.remove(&key);
            return Err(ForeignFault::Signature);
        }
        let foreign = Arc::new(foreign);
        let size = (foreign.size() + size_of::<Entry>() + key.len()) as u64;
        self.verified.insert(key, Entry { foreign: Arc::clone(&foreign), generation: keys.generation(), size });
        Ok(foreign)
    }

    /// Verifies a token that an issuer has made for a workload, for this server as the only audience.
    /// `own` is the issuer of this server.
    ///
    /// # Errors
    /// [`AssertionFault`]. After `NoKeys` the token may still be valid.
    pub async fn verify_workload(
        &self,
        workload: &Workload,
        token: &str,
        own: &str,
        now: UnixTime,
    ) -> Result<(), AssertionFault> {
        let mut sources = self.sources.iter();
        let source = sources.find(|source| source.settings().terms.name == workload.issuer);
        let source = source.ok_or(AssertionFault::Issuer)?;
        let terms = &source.settings().terms;
        let TrustTerms { issuer, algorithms, skew, longest, .. } = terms;
        let assertion = ClientAssertion::parse(token, *longest, algorithms)?;
        assertion.judge_workload(workload, issuer, own, *skew, now)?;
        if !terms.accept_client_of(assertion.jws().claims()) {
            return Err(AssertionFault::Client);
        }
        let mut keys = source.keys(now).ok_or(AssertionFault::NoKeys)?;
        if keys.find(assertion.jws()).is_none() && source.request_fetch().await {
            keys = source.keys(now).ok_or(AssertionFault::NoKeys)?;
        }
        let verifier = keys.find(assertion.jws()).ok_or(AssertionFault::UnknownKey)?;
        if verifier.verifies(assertion.jws()) { Ok(()) } else { Err(AssertionFault::Signature) }
    }

    /// Returns a warning for each issuer whose keys cannot be fetched.
    pub fn warnings(&self) -> Vec<String> {
        self.sources.iter().filter_map(|source| source.warning()).collect()
    }
}

/// Maximum number of concurrent fetches. A fetch that hangs occupies a thread until its deadline.
pub const MAX_FETCHES: usize = 4;

/// Interval between checks of a file.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Fetches the keys of all trusted issuers periodically, until `stop`.
pub async fn run(
    trust: Arc<TrustedIssuers>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(MAX_FETCHES));
    let mut tasks = JoinSet::new();
    for source in &trust.sources {
        tasks.spawn(run_one(Arc::clone(source), Arc::clone(&clock), Arc::clone(&metrics), Arc::clone(&places)));
    }
    // Dropping `tasks` ends all tasks. A thread that is fetching keys ends at the deadline of the
    // fetch.
    let _ = stop.changed().await;
}

async fn run_one(source: Arc<Source>, clock: Arc<dyn Clock>, metrics: Arc<Metrics>, places: Arc<Semaphore>) {
    let mut seen = None;
    loop {
        let mut pause = FILE_CHECK_INTERVAL;
        match source.file().map(FileVersion::of) {
            Some(version) if seen == Some(version) => {}
            version => {
                seen = version;
                let next = read(&source, clock.as_ref(), &metrics, &places).await;
                pause = if version.is_some() { FILE_CHECK_INTERVAL } else { next };
            }
        }
        tokio::select! {
            () = source.fetch_requested() => {}
            () = sleep(pause) => {}
        }
    }
}

/// Fetches once, and returns the time until the next fetch.
async fn read(source: &Arc<Source>, clock: &dyn Clock, metrics: &Metrics, places: &Semaphore) -> Duration {
    // The semaphore is never closed, so this cannot fail.
    let _place = places.acquire().await;
    source.begin();
    let reading = Arc::clone(source);
    let outcome = spawn_blocking(move || fetch(reading.settings())).await;
    let outcome = outcome.unwrap_or_else(|error| Err(format!("the task failed: {error}")));
    let result = source.complete(outcome, clock.now());
    let read = result.keys.map(|(count, at)| (count, at.seconds()));
    metrics.foreign_keys_read(&source.settings().terms.name, read);
    result.pause
}
