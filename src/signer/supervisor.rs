//! The supervisor thread, which repairs the connection to the token, and the watchdog thread, which
//! detects calls that do not return.
//!
//! To repair the connection, the supervisor logs in again. If that does not help, it resets the
//! module with exponential backoff: it finalizes and initializes the module, and finds the token
//! and its keys again. The supervisor owns the PIN and the session that keeps the process logged
//! in. A rejected PIN is never tried again: the signer refuses requests until the operator fixes
//! the cause and restarts the server.
//!
//! The watchdog makes no calls into the module, so the module cannot block it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use cryptoki::types::AuthPin;

use crate::error::SignerOpenError;
use crate::fault::{ErrorClass, TokenFault};
use crate::gate::{Gate, HungCalls, SignerTask};
use crate::key::KeyReport;
use crate::keychain::{KeyGenerationRequest, Keychain};
use crate::pkcs11::{Initialized, LoginSession, Module};
use crate::pool::{Observer, Timing};
use crate::{ceremony, key};
use sealgate_system::log;

/// Time that a closing supervisor waits for calls in progress. If the calls do not return, the
/// supervisor leaves the module initialized.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_secs(2);

/// Time without a failure after which the next repair starts without a pause.
const CALM_PERIOD: Duration = Duration::from_secs(30);

/// Maximum time to generate a key. Small devices search for primes for minutes.
pub(super) const GENERATION_TIMEOUT: Duration = Duration::from_mins(5);

pub(super) struct Supervisor {
    pub(super) module: Module,
    pub(super) initialized: Initialized,
    pub(super) label: String,
    pub(super) login: LoginSession,
    pub(super) pin: AuthPin,
    pub(super) keys: Arc<Keychain>,
    pub(super) gate: Arc<Gate>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) timing: Timing,
}

struct Backoff {
    next: Duration,
    last_repair: Option<Instant>,
}

impl Supervisor {
    /// Executes the tasks from the gate until the signer is closed.
    pub(super) fn run(mut self) {
        let mut backoff = Backoff { next: self.timing.first_pause, last_repair: None };
        let mut latched = false;
        loop {
            match self.gate.next_task(self.timing.probe_interval) {
                SignerTask::Close => break,
                SignerTask::Scan => match self.keys.take_generation_request() {
                    Some(request) => self.make(request),
                    None => self.scan(),
                },
                SignerTask::Probe if latched => {}
                SignerTask::Probe => self.probe(),
                SignerTask::Repair(class) => latched = self.repair(class, &mut backoff).is_err(),
            }
        }
        self.close();
    }

    /// Signs a test message.
    ///
    /// This detects a lost device before a request does, and keeps sessions open on devices that
    /// close idle sessions.
    fn probe(&self) {
        let epoch = self.gate.epoch();
        let outcome = {
            let Some(_supervising) = self.gate.supervise() else { return };
            self.test_active_key()
        };
        if let Err(fault) = outcome {
            self.note(&fault, "the token stopped signing");
            let class = if fault.class == ErrorClass::Login { ErrorClass::Login } else { ErrorClass::Device };
            self.gate.report(epoch, class);
        }
    }

    /// Reads the keys in the token and tests each of them. If a key is unsuitable, the known keys
    /// stay unchanged.
    fn scan(&self) {
        let epoch = self.gate.epoch();
        let outcome = {
            let Some(_supervising) = self.gate.supervise() else { return };
            key::signing_keys(&self.login.session, &self.label, self.keys.terms()).and_then(|keys| {
                let device = |fault: TokenFault| SignerOpenError::device(&self.label, &fault);
                keys.iter().try_for_each(|key| key::test_signature(&self.login.session, key)).map_err(device)?;
                Ok(keys)
            })
        };
        if let Err(error) = &outcome {
            tracing::warn!(%error, "cannot read the keys in the token");
            if matches!(error, SignerOpenError::Device { .. } | SignerOpenError::NoKey { .. }) {
                // After a lost login, a token lists no keys and returns no error.
                self.gate.report(epoch, ErrorClass::Login);
            }
        }
        self.keys.complete_scan(outcome);
    }

    /// Generates a key, then reads the keys again. No repair runs at the same time.
    ///
    /// The workers continue to sign, unless there is only one worker. With only one session, the
    /// device would block the worker's call, and the watchdog would report a hung call.
    fn make(&self, request: KeyGenerationRequest) {
        let generated = {
            let Some(_supervising) = self.gate.supervise_long(GENERATION_TIMEOUT) else { return };
            self.make_key(&request)
        };
        self.scan();
        let kid = generated.map_err(|error| error.to_string());
        let seen = kid.and_then(|report| {
            let seen = self.keys.key_reports().iter().any(|key| key.kid == report.kid);
            if seen { Ok(report) } else { Err("the token generated the key but does not list it; try again".into()) }
        });
        // The caller may have given up. The next request of the caller with the same id returns
        // this key.
        let _ = request.reply.send(seen);
    }

    fn make_key(&self, request: &KeyGenerationRequest) -> Result<KeyReport, SignerOpenError> {
        let device = |fault: TokenFault| SignerOpenError::device(&self.label, &fault);
        let session = self.module.open_writing_session(self.login.token.slot).map_err(device)?;
        let (terms, new) = (self.keys.terms(), request.new);
        let label = terms.label(new.algorithm).ok_or(SignerOpenError::NotConfigured(new.algorithm))?;
        let existing = key::token_keys(&session, Some(label), new.algorithm).map_err(device)?;
        match existing.into_iter().find(|key| key.id == request.id) {
            Some(key) => Ok(key.report),
            None => ceremony::make(&session, new, &request.id, &self.label, terms),
        }
    }

    /// Repairs the connection until the token signs again.
    ///
    /// # Errors
    /// `Latched` if only the operator can fix the failure.
    fn repair(&mut self, class: ErrorClass, backoff: &mut Backoff) -> Result<(), Latched> {
        if class == ErrorClass::Login && backoff.is_calm() {
            let Some(_supervising) = self.gate.supervise() else { return Ok(()) };
            match self.log_in_again() {
                Ok(()) => {
                    tracing::warn!("logged in to the token again");
                    backoff.repaired();
                    self.gate.open(self.login.token.slot, false);
                    return Ok(());
                }
                Err(error) if error.uses_up_pin_attempts() => return Err(self.latch(&error)),
                Err(error) => tracing::warn!(%error, "a new login did not restore signing"),
            }
        }
        self.reset_with_backoff(backoff)
    }

    fn reset_with_backoff(&mut self, backoff: &mut Backoff) -> Result<(), Latched> {
        loop {
            // The pause limits the rate of resets if the device fails again after each repair.
            if let Some(pause) = backoff.pause(&self.timing)
                && !self.gate.pause(pause)
            {
                return Ok(());
            }
            let gate = Arc::clone(&self.gate);
            let outcome = {
                let Some(_supervising) = gate.supervise() else { return Ok(()) };
                if !gate.drain() {
                    return Ok(());
                }
                self.reset()
            };
            backoff.repaired();
            match outcome {
                Ok(()) => {
                    tracing::warn!("the PKCS#11 module was reset; the token signs again");
                    self.observer.reset();
                    self.gate.open(self.login.token.slot, true);
                    return Ok(());
                }
                Err(error) if error.uses_up_pin_attempts() => return Err(self.latch(&error)),
                Err(error) => {
                    tracing::error!(%error, "the token is unusable; retrying");
                    self.observer.failed(ErrorClass::Device);
                    self.gate.refuse_calls(&error.to_string());
                }
            }
        }
    }

    /// Resets the module: finalizes and initializes it, finds the token by label and serial number,
    /// logs in, and signs a test message.
    ///
    /// While the device is absent, a module may initialize and list no slots. Only a signature
    /// therefore counts as success.
    fn reset(&mut self) -> Result<(), SignerOpenError> {
        if let Err(fault) = self.module.finalize() {
            tracing::warn!(error = %fault, "the PKCS#11 module failed to finalize");
        }
        self.initialized = self.module.initialize()?;
        let serial = self.login.token.serial.clone();
        self.login = LoginSession::open(&self.module, &self.label, Some(&serial), &self.pin)?;
        self.test_active_key().map_err(|fault| SignerOpenError::device(&self.label, &fault))
    }

    fn log_in_again(&self) -> Result<(), SignerOpenError> {
        self.module.login(&self.label, self.login.token.slot, &self.login.session, &self.pin)?;
        self.test_active_key().map_err(|fault| SignerOpenError::device(&self.label, &fault))
    }

    fn test_active_key(&self) -> Result<(), TokenFault> {
        let missing = || TokenFault::new(ErrorClass::Device, "the active signing key is not in the token");
        key::test_signature(&self.login.session, self.keys.active_key().ok_or_else(missing)?.as_ref())
    }

    /// Refuses all requests until the operator restarts the server.
    fn latch(&self, error: &SignerOpenError) -> Latched {
        tracing::error!(%error, "the PIN is not retried; correct the error and restart");
        self.observer.failed(ErrorClass::Pin);
        self.gate.refuse_calls(&error.to_string());
        Latched
    }

    fn note(&self, fault: &TokenFault, what: &str) {
        self.observer.failed(fault.class);
        tracing::warn!(class = fault.class.as_str(), error = %fault, "{what}");
    }

    fn close(self) {
        // Finalizing during a call is undefined behaviour. At the end of the process, an
        // initialized module does no harm.
        if self.gate.drain_closed(LAST_CALLS_TIMEOUT)
            && self.initialized == Initialized::Here
            && let Err(fault) = self.module.finalize()
        {
            tracing::warn!(error = %fault, "the PKCS#11 module failed to finalize");
        }
    }
}

/// Marker for a failure that only the operator can fix.
struct Latched;

impl Backoff {
    /// Returns whether the last repair is at least `CALM_PERIOD` ago. The next failure then counts
    /// as a new failure.
    fn is_calm(&self) -> bool {
        self.last_repair.is_none_or(|last| last.elapsed() >= CALM_PERIOD)
    }

    /// Returns the pause before the next reset, or `None` after a time without failures.
    fn pause(&mut self, timing: &Timing) -> Option<Duration> {
        if self.is_calm() {
            self.next = timing.first_pause;
            return None;
        }
        let pause = self.next;
        self.next = (self.next * 2).min(timing.max_pause);
        Some(pause)
    }

    fn repaired(&mut self) {
        self.last_repair = Some(Instant::now());
    }
}

/// Number of checks within `hang_detection`.
const CHECKS_PER_HANG: u32 = 8;

/// Detects calls into the module that do not return.
pub(super) struct Watchdog {
    pub(super) gate: Arc<Gate>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) timing: Timing,
}

impl Watchdog {
    /// Runs until the signer is closed.
    pub(super) fn run(self) {
        while self.gate.pause(self.timing.hang_detection / CHECKS_PER_HANG) {
            let hung = self.gate.hung_calls(self.timing.hang_detection);
            if self.gate.mark_hung(hung) {
                self.observer.failed(ErrorClass::Hang);
                let HungCalls { workers, supervisor, .. } = hung;
                tracing::error!(workers, supervisor, "calls into the PKCS#11 module do not return");
            }
            let hopeless = self.gate.hung_calls(self.timing.hang_abort);
            // Abort after a single hung call: its thread and session are lost, and the signer
            // cannot become ready again in this process.
            if hopeless != HungCalls::default() {
                tracing::error!("a call into the PKCS#11 module does not return and cannot be cancelled; aborting");
                log::flush();
                std::process::abort();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_maximum() {
        let timing = Timing::default();
        let mut backoff = Backoff { next: timing.first_pause, last_repair: None };
        assert_eq!(backoff.pause(&timing), None, "the first reset is made at once");
        backoff.repaired();
        let pauses: Vec<_> = std::iter::from_fn(|| backoff.pause(&timing)).take(6).collect();
        assert_eq!(pauses[0], timing.first_pause);
        assert!(pauses.windows(2).all(|pair| pair[1] == (pair[0] * 2).min(timing.max_pause)));
        assert_eq!(pauses[5], timing.max_pause);
    }
}
