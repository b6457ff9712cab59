//! Numbers that are unique within a process, for ids that need not be secret.

use std::sync::atomic::{AtomicU64, Ordering};

/// Generator of unique 64-bit numbers (`SplitMix64`).
///
/// The numbers are not secret, but their order reveals nothing about how many were drawn.
#[derive(Debug)]
pub struct UniqueNumbers(AtomicU64);

impl UniqueNumbers {
    /// Creates a generator. `seed` must be random for each process.
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// Returns a number that this generator has not returned before.
    ///
    /// The finalizer of `SplitMix64` is a bijection, so different values of the counter give
    /// different numbers.
    pub fn next(&self) -> u64 {
        let mut mixed = self.0.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
