//! Detects calls into the module that never return. Makes no such call itself, so it cannot hang.

use std::sync::Arc;

use super::fault::ErrorClass;
use super::gate::{Gate, HungCalls};
use super::observer::Observer;
use super::timing::Timing;
use sealgate_system::log;

/// Number of checks within the time after which a hang is detected.
const LOOKS: u32 = 8;

pub(super) struct Watchdog {
    pub(super) gate: Arc<Gate>,
    pub(super) observer: Arc<dyn Observer>,
    pub(super) timing: Timing,
}

impl Watchdog {
    /// Runs until the signer is closed.
    pub(super) fn run(self) {
        while self.gate.pause(self.timing.hang_noticed / LOOKS) {
            let hung = self.gate.stuck(self.timing.hang_noticed);
            if self.gate.mark_hung(hung) {
                self.observer.failed(ErrorClass::Hang);
                let HungCalls { workers, supervisor, .. } = hung;
                tracing::error!(workers, supervisor, "calls into the PKCS#11 module do not return");
            }
            let hopeless = self.gate.stuck(self.timing.hang_abort);
            // One hung call is enough: its thread and session are lost, and the server cannot
            // become ready again in this process.
            if hopeless != HungCalls::default() {
                tracing::error!("a call into the PKCS#11 module does not return and cannot be cancelled; aborting");
                log::flush();
                std::process::abort();
            }
        }
    }
}
