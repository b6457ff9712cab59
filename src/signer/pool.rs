//! The signer for a PKCS#11 token: opens the token, starts and stops the threads, and queues
//! requests.
//!
//! Also defines the timeouts of the signer and the interface for observing it.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{fmt, thread};

use async_channel::{Sender, TrySendError};
use async_trait::async_trait;
use cryptoki::types::AuthPin;
use tokio::sync::oneshot;

use crate::ceremony::NewKey;
use crate::error::{SignError, SignerOpenError};
use crate::fault::{ErrorClass, TokenFault};
use crate::gate::Gate;
use crate::key::{KeyReport, KeyTerms, SigningKey};
use crate::keychain::{EndorsementPlan, KeyGenerationRequest, KeySet, Keychain};
use crate::pkcs11::{Initialized, LoginSession, Module};
use crate::public_key::{KeyId, Signature, sha256};
use crate::supervisor::{GENERATION_TIMEOUT, Supervisor, Watchdog};
use crate::tls_key::TlsKey;
use crate::worker::{BlockingWork, SignerJob, TokenSignature, Work, Worker, WorkerSession};
use crate::{Signer, key, pkcs11};
use sealgate_config as config;
use sealgate_domain::key_ring::{KeyRing, TokenHolder};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::time::UnixTime;
use sealgate_system::clock::Clock;
use sealgate_system::trace::{SpanDescription, span, text};

/// Time that dropping the signer waits for its threads. A thread inside a hung call is abandoned.
const THREADS_END_TIMEOUT: Duration = Duration::from_secs(4);

/// Maximum time to scan the keys in the token, including a repair before the scan.
const SCAN_TIMEOUT: Duration = Duration::from_secs(30);

/// Signs with keys in a PKCS#11 token, on its own threads.
///
/// The state of a module is global to the process, so a process must open only one signer for a
/// module.
pub struct Pkcs11Signer {
    keys: Arc<Keychain>,
    gate: Arc<Gate>,
    queue: Sender<SignerJob>,
    sessions: usize,
    timeout: Duration,
    observer: Arc<dyn Observer>,
    /// Disconnected when the last thread has ended.
    threads: Mutex<mpsc::Receiver<()>>,
}

impl Pkcs11Signer {
    /// Opens the token and tests that its keys sign. Blocking: call it before the server starts.
    ///
    /// # Errors
    /// [`SignerOpenError`], one line for the operator. The PIN is tried at most once.
    pub fn open(hsm: &config::Hsm, observer: Arc<dyn Observer>) -> Result<Self, SignerOpenError> {
        Self::open_with(hsm, observer, Timing { hang_abort: hsm.hang_abort, ..Timing::default() })
    }

    /// Like [`Self::open`], with other pauses and limits. `hsm.hang_abort` is ignored.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(hsm: &config::Hsm, observer: Arc<dyn Observer>, timing: Timing) -> Result<Self, SignerOpenError> {
        let pin = pkcs11::read_pin(&hsm.pin_file)?;
        let module = Module::load(&hsm.module)?;
        let initialized = module.initialize()?;
        let opened = open_token(&module, hsm, &pin);
        let (login, keys) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                if initialized == Initialized::Here
                    && let Err(fault) = module.finalize()
                {
                    tracing::warn!(error = %fault, "the PKCS#11 module failed to finalize");
                }
                return Err(error);
            }
        };

        let keys = Arc::new(Keychain::new(&hsm.token_label, KeyTerms::from_config(hsm), keys)?);
        let gate = Arc::new(Gate::new(hsm.sessions.max(1), login.token.slot, Arc::clone(&observer)));
        let (queue, jobs) = async_channel::bounded(hsm.queue.max(1));
        let worker = |number| Worker {
            number,
            module: module.clone(),
            gate: Arc::clone(&gate),
            jobs: jobs.clone(),
            queue: queue.clone(),
            observer: Arc::clone(&observer),
            session: None,
        };
        let workers = (0..hsm.sessions.max(1)).map(worker).collect();
        let watchdog = Watchdog { gate: Arc::clone(&gate), observer: Arc::clone(&observer), timing };
        let supervisor = Supervisor {
            module,
            initialized,
            label: hsm.token_label.clone(),
            login,
            pin,
            keys: Arc::clone(&keys),
            gate: Arc::clone(&gate),
            observer: Arc::clone(&observer),
            timing,
        };
        let threads = start_threads(watchdog, supervisor, workers).inspect_err(|_| {
            gate.close();
            queue.close();
        })?;
        let threads = Mutex::new(threads);
        let sessions = hsm.sessions.max(1);
        Ok(Self { keys, gate, queue, sessions, timeout: hsm.sign_timeout, observer, threads })
    }

    /// Marks the token as this node's own: see [`KeyRing::of_node`]. Pass `None` if all nodes share
    /// one token.
    #[must_use]
    pub fn with_token_holder(self, holder: Option<TokenHolder>) -> Self {
        if let Some(holder) = holder {
            self.keys.set_holder(holder);
        }
        self
    }

    /// Queues one job for each input.
    fn submit(&self, key: &Arc<SigningKey>, inputs: &[Vec<u8>], deadline: Instant) -> Result<Vec<Reply>, SignError> {
        let replies = inputs
            .iter()
            .map(|input| {
                let (reply, receiver) = oneshot::channel();
                let work = TokenSignature { key: Arc::clone(key), message: key.message(input), made: None, reply };
                // An early return drops the receivers. The workers then skip the jobs that are
                // already queued.
                self.enqueue(Box::new(work), deadline)?;
                Ok(receiver)
            })
            .collect();
        self.observer.queue_length(self.queue.len());
        replies
    }

    fn enqueue(&self, work: Box<dyn Work>, deadline: Instant) -> Result<(), SignError> {
        self.queue.try_send(SignerJob { work, queued: Instant::now(), deadline }).map_err(|error| match error {
            TrySendError::Full(_) => SignError::Busy,
            TrySendError::Closed(_) => SignError::Unavailable("the signer is being closed".into()),
        })
    }

    /// Returns the number of sessions, which is also the maximum number of concurrent signatures.
    pub fn sessions(&self) -> usize {
        self.sessions
    }

    /// Finds the TLS key with this label in the token, and tests that it signs. Blocking.
    ///
    /// # Errors
    /// One line that names the key and says what to do. Returns within `hsm.sign_timeout` even if the
    /// token does not respond.
    pub fn tls_key(&self, label: &str) -> Result<TlsKey, String> {
        let (own, require_local) = (label.to_owned(), self.keys.terms().require_local);
        let key_result = self.perform(move |session| session.find_tls_key(&own, require_local));
        let key_result = key_result.map_err(|error| format!("TLS key \"{label}\": {error}"))?;
        key_result.map_err(|unfit| format!("TLS key \"{label}\": {unfit}"))
    }

    /// Signs a TLS handshake message with SHA-256. Returns a DER `ECDSA-Sig-Value`. Blocking.
    ///
    /// # Errors
    /// As [`Signer::sign`].
    pub fn sign_tls(&self, key: &Arc<TlsKey>, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let (started, own, digest) = (Instant::now(), Arc::clone(key), sha256(message));
        let outcome = self.perform(move |session| session.sign_tls(&own, &digest));
        match &outcome {
            Ok(_) => self.observer.tls_signed(started.elapsed()),
            Err(error) => self.observer.tls_failed(error.class()),
        }
        outcome
    }

    /// Signs a client assertion with SHA-256. Returns r and s, 32 bytes each (RFC 7518 §3.4). Blocking.
    ///
    /// # Errors
    /// As [`Signer::sign`].
    pub fn sign_assertion(&self, key: &Arc<TlsKey>, message: &[u8]) -> Result<Vec<u8>, SignError> {
        let (own, digest) = (Arc::clone(key), sha256(message));
        self.perform(move |session| session.sign_assertion(&own, &digest))
    }

    /// Records that a TLS handshake is not signed because too many handshakes wait. Returns the
    /// error.
    pub fn refuse_tls(&self) -> SignError {
        self.observer.tls_failed(ErrorClass::Busy);
        SignError::Busy
    }

    /// Runs `work` in a session of the token, and blocks until its result or the deadline.
    fn perform<T: Send + 'static>(
        &self,
        work: impl FnMut(&mut WorkerSession) -> Result<T, TokenFault> + Send + 'static,
    ) -> Result<T, SignError> {
        let deadline = Instant::now() + self.timeout;
        if let Some(refusal) = self.gate.refusal() {
            return Err(refusal.into());
        }
        let (reply, receiver) = mpsc::sync_channel(1);
        self.enqueue(Box::new(BlockingWork { run: work, made: None, reply }), deadline)?;
        self.observer.queue_length(self.queue.len());
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(outcome) => outcome,
            Err(mpsc::RecvTimeoutError::Timeout) => Err(SignError::Timeout),
            Err(mpsc::RecvTimeoutError::Disconnected) => Err(SignError::Bug("a signer thread ended".into())),
        }
    }

    async fn sign_with(&self, kid: &KeyId, inputs: &[Vec<u8>]) -> Result<Vec<Signature>, SignError> {
        let deadline = Instant::now() + self.timeout;
        let key = self.keys.find(kid).ok_or_else(|| SignError::Bug(format!("no key {kid} in the token")))?;
        if let Some(refusal) = self.gate.refusal() {
            return Err(refusal.into());
        }
        let replies = self.submit(&key, inputs, deadline)?;
        let collect = async {
            let mut signatures = Vec::with_capacity(replies.len());
            for reply in replies {
                let lost = || SignError::Bug("a signer thread ended".into());
                signatures.push(reply.await.map_err(|_| lost())??);
            }
            Ok(signatures)
        };
        tokio::time::timeout_at(deadline.into(), collect).await.unwrap_or(Err(SignError::Timeout))
    }
}

type Reply = oneshot::Receiver<Result<Signature, SignError>>;

/// Logs in, reads the signing keys and tests that each of them signs.
fn open_token(
    module: &Module,
    hsm: &config::Hsm,
    pin: &AuthPin,
) -> Result<(LoginSession, Vec<SigningKey>), SignerOpenError> {
    let login = LoginSession::open(module, &hsm.token_label, None, pin)?;
    let keys = key::signing_keys(&login.session, &hsm.token_label, &KeyTerms::from_config(hsm))?;
    for key in &keys {
        key::test_signature(&login.session, key).map_err(|fault| SignerOpenError::device(&hsm.token_label, &fault))?;
    }
    Ok((login, keys))
}

/// Starts all threads. Returns a channel without messages, which is disconnected when the last
/// thread has ended.
fn start_threads(
    watchdog: Watchdog,
    supervisor: Supervisor,
    workers: Vec<Worker>,
) -> Result<mpsc::Receiver<()>, SignerOpenError> {
    let (running, threads) = mpsc::channel();
    let start = |name: String, body: Box<dyn FnOnce() + Send>| {
        let running = running.clone();
        let body = move || {
            body();
            drop(running);
        };
        thread::Builder::new().name(name).spawn(body).map_err(|error| SignerOpenError::Thread(error.to_string()))
    };
    start("signer-watchdog".into(), Box::new(move || watchdog.run()))?;
    start("signer-repair".into(), Box::new(move || supervisor.run()))?;
    for (number, worker) in workers.into_iter().enumerate() {
        start(format!("signer-{number}"), Box::new(move || worker.run()))?;
    }
    Ok(threads)
}

#[async_trait]
impl Signer for Pkcs11Signer {
    async fn sign(&self, kid: &KeyId, inputs: Vec<Vec<u8>>) -> Result<Vec<Signature>, SignError> {
        let describe = |outcome: &Result<_, _>| SpanDescription {
            attributes: vec![text("sealgate.outcome", if outcome.is_ok() { "signed" } else { "failed" })],
            failed: outcome.is_err(),
        };
        let outcome = span("signature", self.sign_with(kid, &inputs), describe).await;
        match &outcome {
            // Errors of the token were reported to the observer where they occurred.
            Ok(_) | Err(SignError::Unavailable(_) | SignError::Bug(_)) => {}
            Err(SignError::Busy) => self.observer.failed(ErrorClass::Busy),
            Err(SignError::Timeout) => self.observer.failed(ErrorClass::Timeout),
        }
        outcome
    }

    fn key_set(&self) -> Arc<KeySet> {
        self.keys.key_set()
    }

    fn generation(&self) -> u64 {
        self.keys.generation()
    }

    fn key_reports(&self) -> Vec<KeyReport> {
        self.keys.key_reports()
    }

    async fn scan(&self) -> Result<(), String> {
        let (reply, answer) = oneshot::channel();
        if !self.keys.await_scan(reply) {
            return Err("too many requests wait for the token; try again".into());
        }
        self.gate.request_scan();
        match tokio::time::timeout(SCAN_TIMEOUT, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("the signer is being closed".into()),
            Err(_) => Err("the token did not list its keys in time".into()),
        }
    }

    async fn make(&self, new: NewKey, id: Vec<u8>) -> Result<KeyReport, String> {
        let (reply, answer) = oneshot::channel();
        if !self.keys.request_generation(KeyGenerationRequest { new, id, reply }) {
            return Err("the token is already generating another key; try again later".into());
        }
        self.gate.request_scan();
        match tokio::time::timeout(GENERATION_TIMEOUT, answer).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err("the signer is being closed".into()),
            Err(_) => Err("the token did not generate a key within five minutes".into()),
        }
    }

    fn set_key_ring(&self, ring: KeyRing, clock: Arc<dyn Clock>) {
        self.keys.set_key_ring(ring, clock);
    }

    fn endorsement_plan(&self, ring: &KeyRing, now: UnixTime) -> Option<EndorsementPlan> {
        self.keys.endorsement_plan(ring, now)
    }

    fn ready(&self) -> bool {
        self.gate.ready()
    }
}

impl Drop for Pkcs11Signer {
    fn drop(&mut self) {
        self.gate.close();
        self.queue.close();
        let threads = self.threads.get_mut().unwrap_or_else(PoisonError::into_inner);
        if threads.recv_timeout(THREADS_END_TIMEOUT) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::error!("a signer thread is blocked in a PKCS#11 call; closing without it");
        }
    }
}

impl fmt::Debug for Pkcs11Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pkcs11Signer").field("keys", &self.keys.key_set()).finish_non_exhaustive()
    }
}

/// Pauses and limits of repairs. Tests use shorter times than the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Pause before the second consecutive reset. Doubles with each further reset.
    pub first_pause: Duration,
    /// Maximum pause between two resets. When the device becomes available again, the signer uses
    /// it after at most this time.
    pub max_pause: Duration,
    /// Interval between test signatures while nothing fails.
    pub probe_interval: Duration,
    /// Time inside a call after which the call counts as hung and the signer as not ready.
    pub hang_detection: Duration,
    /// Time inside a call after which the process aborts.
    ///
    /// A call into a module cannot be cancelled. After the abort, the service manager starts a new
    /// process.
    pub hang_abort: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(100),
            max_pause: Duration::from_secs(1),
            probe_interval: Duration::from_secs(10),
            hang_detection: Duration::from_millis(3500),
            hang_abort: Duration::from_secs(30),
        }
    }
}

/// Receiver of the signer's events.
///
/// The signer's threads call these methods for each signature, so an implementation must be fast
/// and must not block.
pub trait Observer: Send + Sync {
    /// Called when a signature was made and verified. `waited` is its time in the queue, `took` the
    /// time in the token.
    fn signed(&self, algorithm: Algorithm, waited: Duration, took: Duration) {
        let _ = (algorithm, waited, took);
    }

    /// Called when a TLS handshake was signed. `took` includes the time in the queue.
    fn tls_signed(&self, took: Duration) {
        let _ = took;
    }

    /// Called when a TLS handshake was not signed.
    fn tls_failed(&self, class: ErrorClass) {
        let _ = class;
    }

    /// Called with the number of queued jobs when a job enters or leaves the queue.
    fn queue_length(&self, jobs: usize) {
        let _ = jobs;
    }

    /// Called for each failure, including failures after which a retry succeeds.
    fn failed(&self, class: ErrorClass) {
        let _ = class;
    }

    /// Called after the module was finalized and initialized again, and the token has signed a test
    /// message.
    fn reset(&self) {}

    /// Called when the signer becomes ready (`true`) or unavailable (`false`).
    ///
    /// The calls are in order, because they are made under the signer's lock. Do not call the
    /// signer from here.
    fn ready(&self, ready: bool) {
        let _ = ready;
    }
}

/// Observer that ignores all events, for commands and tests.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoopObserver;

impl Observer for NoopObserver {}
