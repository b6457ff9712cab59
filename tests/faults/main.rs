//! Durability tests: acknowledged data survives a killed process, a power cut and a failing token.
//!
//! `FAULT_ROUNDS` sets the number of rounds; the default is a short run. `FAULT_SEED` repeats the
//! random choices of a run, as far as the timing of the machine permits.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "the seed and the counts")]

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
#[path = "../support/token_certificate.rs"]
mod token_certificate;
mod turnover;

/// Lock on the machine. Tests that measure take it exclusively. All other tests share it.
static MACHINE: tokio::sync::RwLock<()> = tokio::sync::RwLock::const_new(());

/// Returns the number of rounds: `FAULT_ROUNDS`, or `short`.
fn rounds(short: usize) -> usize {
    std::env::var("FAULT_ROUNDS").map_or(short, |text| text.parse().expect("FAULT_ROUNDS is a number"))
}
