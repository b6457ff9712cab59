//! Mutated bytes, the same in every run.

/// Knuth's MMIX generator: random enough for tests, and deterministic.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.below(256).to_le_bytes()[0]
    }

    /// Returns an index into something that is not empty.
    pub(crate) fn place(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    /// Changes one bit or one byte, or removes or inserts one byte. Returns a description and the
    /// result.
    pub(crate) fn bend(&mut self, bytes: &[u8]) -> (String, Vec<u8>) {
        let mut bent = bytes.to_vec();
        let at = self.place(bytes.len());
        let done = match self.below(5) {
            0 | 1 => {
                bent[at] ^= 1 << self.below(8);
                "a bit flipped"
            }
            2 => {
                bent[at] = self.byte();
                "a byte replaced"
            }
            3 => {
                bent.remove(at);
                "a byte removed"
            }
            _ => {
                bent.insert(at, self.byte());
                "a byte inserted"
            }
        };
        (format!("{done} at {at}"), bent)
    }
}
