//! Timeouts and pauses of the signer.

use std::time::Duration;

/// Pauses and limits of the repair. Tests shorten the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Pause before the second consecutive reset; doubles with each further one.
    pub first_pause: Duration,
    /// Maximum pause between two resets. Bounds the delay until service resumes after the device
    /// returns.
    pub longest_pause: Duration,
    /// Interval between test signatures while nothing fails.
    pub probe_interval: Duration,
    /// Time inside the module after which a call counts as hung and the signer is not ready.
    pub hang_noticed: Duration,
    /// Time inside the module after which the process aborts. A call into a module cannot be
    /// cancelled; the service manager starts a new process.
    pub hang_abort: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_millis(100),
            longest_pause: Duration::from_secs(1),
            probe_interval: Duration::from_secs(10),
            hang_noticed: Duration::from_millis(3500),
            hang_abort: Duration::from_secs(30),
        }
    }
}
