//! How patient the signer is with its device.

use std::time::Duration;

/// Pauses and limits of the repair. The defaults are for operation; tests shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The pause before the second reset in a row; doubles with each further one.
    pub first_pause: Duration,
    /// The longest pause between two resets. Bounds how long after the device's return service is back.
    pub longest_pause: Duration,
    /// How often the token is asked to sign when nothing failed.
    pub probe_interval: Duration,
    /// After this long inside the module a call is taken to hang, and the signer is not ready.
    pub hang_noticed: Duration,
    /// After this long inside the module the process aborts, for a call into a module cannot be cancelled and the service
    /// manager starts a new process with a new module.
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
