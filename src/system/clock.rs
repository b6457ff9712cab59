//! Time and randomness as injected dependencies.
//!
//! No other code may read the system clock or random numbers (clippy.toml forbids it). Tests can
//! therefore run time-dependent rules at a chosen time, and repeat them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::log;
use sealgate_domain::time::UnixTime;

/// Source of the wall-clock time.
pub trait Clock: Send + Sync {
    /// Returns the current time in whole seconds.
    fn now(&self) -> UnixTime;
}

/// The machine's clock.
#[derive(Debug, Default, Clone, Copy)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the only module that reads the system clock and random numbers")]
    fn now(&self) -> UnixTime {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        UnixTime::from_seconds(since_epoch.as_secs())
    }
}

/// Returns the system's wall-clock time in fractional seconds since 1970, for comparison with the
/// clock of another machine.
#[expect(clippy::disallowed_methods, reason = "the machine's time, independent of the clock of tests")]
pub fn wall_clock_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// A clock for tests that changes only on request.
#[derive(Debug)]
pub struct FixedClock(AtomicU64);

impl FixedClock {
    /// Creates a clock that is set to `now`.
    pub fn at(now: UnixTime) -> Self {
        Self(AtomicU64::new(now.seconds()))
    }

    /// Sets the clock forward, in whole seconds.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(by.as_secs(), Ordering::SeqCst);
    }

    /// Sets the time. The new time may be earlier.
    pub fn set(&self, now: UnixTime) {
        self.0.store(now.seconds(), Ordering::SeqCst);
    }
}

impl Clock for FixedClock {
    fn now(&self) -> UnixTime {
        UnixTime::from_seconds(self.0.load(Ordering::SeqCst))
    }
}

/// Source of unpredictable bytes.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with random bytes suitable for keys and tokens.
    fn fill(&self, bytes: &mut [u8]);
}

/// The kernel's random number generator.
#[derive(Debug, Default, Clone, Copy)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    #[expect(clippy::disallowed_methods, reason = "the only module that reads the system clock and random numbers")]
    fn fill(&self, bytes: &mut [u8]) {
        if let Err(error) = getrandom::fill(bytes) {
            // An attacker could guess tokens from a broken generator, so the process aborts.
            tracing::error!(%error, "cannot read random bytes from the kernel; aborting");
            log::flush();
            std::process::abort();
        }
    }
}

/// Returns an array of random bytes.
pub fn random<const N: usize>(entropy: &dyn Entropy) -> [u8; N] {
    let mut bytes = [0; N];
    entropy.fill(&mut bytes);
    bytes
}
