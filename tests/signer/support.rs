//! Shared parts of the signer's tests: settings for the fixture and a counting observer.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cryptoki::context::Pkcs11;
use cryptoki::session::{Session, UserType};
use cryptoki::slot::Slot;
use sealgate_config::Hsm;
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_signer as signer;
use sealgate_signer::{ErrorClass, KeyReport, KeySize, Observer, Pkcs11Signer, SignError, Signer, Timing};

use crate::softhsm::{MODULE, PIN, SoftHsm};

/// Label of the token and of the key.
pub(crate) const LABEL: &str = "sealgate";

/// Returns settings for the fixture's token.
pub(crate) fn hsm(softhsm: &SoftHsm) -> Hsm {
    Hsm {
        module: PathBuf::from(MODULE),
        token_label: LABEL.into(),
        pin_file: softhsm.pin_file(),
        softhsm_conf: None,
        key_label: LABEL.into(),
        algorithms: vec![Algorithm::Rs256],
        attestation: None,
        sessions: 2,
        sign_timeout: Duration::from_secs(10),
        queue: 256,
        hang_abort: Duration::from_secs(30),
        mechanism: sealgate_config::Mechanism::RsaPkcs,
        require_local: true,
        shared: false,
    }
}

/// Generates a 2048-bit key with the configured label.
pub(crate) fn generate(hsm: &Hsm) -> KeyReport {
    signer::generate(hsm, KeySize::Rsa2048, &[0xa1, 0x5e], false).unwrap()
}

/// Returns pauses and limits that are short enough for a test.
pub(crate) fn quick() -> Timing {
    Timing {
        first_pause: Duration::from_millis(20),
        max_pause: Duration::from_millis(200),
        // Disabled, except in tests of it.
        probe_interval: Duration::from_mins(10),
        hang_detection: Duration::from_millis(500),
        hang_abort: Duration::from_mins(10),
    }
}

/// Opens a signer that counts its events.
pub(crate) fn open(hsm: &Hsm, timing: Timing) -> (Pkcs11Signer, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let observer: Arc<dyn Observer> = counts.clone();
    (Pkcs11Signer::open_with(hsm, observer, timing).unwrap(), counts)
}

/// Runs one future; the signer needs a timer.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap().block_on(future)
}

/// Signs `message` with the active key and verifies the signature with the published one.
pub(crate) fn sign_one(signer: &Pkcs11Signer, message: &[u8]) -> Result<(), SignError> {
    let keys = signer.key_set();
    let signatures = block_on(signer.sign(keys.active().kid(), vec![message.to_vec()]))?;
    assert_eq!(signatures.len(), 1);
    assert!(keys.active().verify(message, signatures[0].as_bytes()));
    Ok(())
}

/// Waits until `condition` holds and returns how long it took; panics after `limit`.
pub(crate) fn wait_until(limit: Duration, what: &str, condition: impl Fn() -> bool) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    start.elapsed()
}

/// Opens the module as another user in this process. A module has one state for all users in a
/// process.
pub(crate) fn module() -> Pkcs11 {
    Pkcs11::new(MODULE).unwrap()
}

/// Returns the slot of the test's token, in an initialized module.
pub(crate) fn slot(module: &Pkcs11) -> Slot {
    module.get_slots_with_initialized_token().unwrap()[0]
}

/// Opens a separate read-write session, logged in.
pub(crate) fn session(module: &Pkcs11) -> Session {
    session_at(module, slot(module))
}

/// Opens a separate read-write session at another token.
pub(crate) fn session_at(module: &Pkcs11, slot: Slot) -> Session {
    let session = module.open_rw_session(slot).unwrap();
    match session.login(UserType::User, Some(&PIN.into())) {
        Ok(()) | Err(cryptoki::error::Error::Pkcs11(cryptoki::error::RvError::UserAlreadyLoggedIn, _)) => session,
        Err(error) => panic!("{error}"),
    }
}

/// Counts the signer's events.
#[derive(Default)]
pub(crate) struct Counts {
    signed: AtomicUsize,
    resets: AtomicUsize,
    failures: Mutex<HashMap<ErrorClass, usize>>,
    readiness: Mutex<Vec<bool>>,
}

impl Counts {
    pub(crate) fn signed(&self) -> usize {
        self.signed.load(Ordering::SeqCst)
    }

    pub(crate) fn resets(&self) -> usize {
        self.resets.load(Ordering::SeqCst)
    }

    pub(crate) fn failures(&self, class: ErrorClass) -> usize {
        self.failures.lock().unwrap().get(&class).copied().unwrap_or_default()
    }

    pub(crate) fn readiness(&self) -> Vec<bool> {
        self.readiness.lock().unwrap().clone()
    }
}

impl Observer for Counts {
    fn signed(&self, _algorithm: Algorithm, _waited: Duration, took: Duration) {
        assert!(took > Duration::ZERO);
        self.signed.fetch_add(1, Ordering::SeqCst);
    }

    fn failed(&self, class: ErrorClass) {
        *self.failures.lock().unwrap().entry(class).or_default() += 1;
    }

    fn reset(&self) {
        self.resets.fetch_add(1, Ordering::SeqCst);
    }

    fn ready(&self, ready: bool) {
        self.readiness.lock().unwrap().push(ready);
    }
}
