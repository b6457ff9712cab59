//! Repeatable random choices: the seed is printed and can be set.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Small random number generator (splitmix64), not for secrets.
pub(crate) struct Chance(u64);

impl Chance {
    /// Returns a generator seeded from `FAULT_SEED`, or from the system.
    pub(crate) fn seeded(test: &str) -> Self {
        let seed = std::env::var("FAULT_SEED").map_or_else(
            |_| RandomState::new().hash_one(test) >> 32,
            |text| text.parse().expect("FAULT_SEED is a number"),
        );
        println!("{test}: FAULT_SEED={seed}");
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a random number below `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).unwrap()
    }

    /// Returns a random duration of at least `from` and less than `to` milliseconds.
    pub(crate) fn milliseconds(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.next() % (to - from))
    }
}
