//! What was acknowledged survives: a killed process, a power cut, a token that fails. `FAULT_ROUNDS` sets the length; without it a short form
//! runs. `FAULT_SEED` repeats a run's random choices as far as the machine's own timing allows.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "the seed and what was counted")]

mod chance;
#[path = "../support/configuration.rs"]
mod configuration;
mod kill;
mod power;
mod refreshes;
mod sharing;
#[path = "../support/shim.rs"]
mod shim;
#[path = "../support/softhsm.rs"]
mod softhsm;
#[path = "../blackbox/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "the blackbox tests use the rest")]
mod support;
mod token;
mod turnover;

/// A test that measures has the machine to itself; the others share it.
static MACHINE: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());

/// How many rounds to run: `FAULT_ROUNDS`, or the short form's number.
fn rounds(short: usize) -> usize {
    std::env::var("FAULT_ROUNDS").map_or(short, |text| text.parse().expect("FAULT_ROUNDS is a number"))
}
