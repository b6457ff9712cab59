//! Values of the claim `amr` that RFC 8176 §2 registers.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Registered values, in the order of RFC 8176 §2. The position of a value is its bit in
/// [`AmrValues`], which is never stored.
const REGISTERED: [&str; 20] = [
    "face", "fpt", "geo", "hwk", "iris", "kba", "mca", "mfa", "otp", "pin", "pwd", "rba", "retina", "sc", "sms", "swk",
    "tel", "user", "vbm", "wia",
];

/// Set of registered values of `amr`. Other values cannot be in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AmrValues(u32);

impl AmrValues {
    /// Creates the set of those values that are registered.
    pub fn registered<T: AsRef<str>>(values: impl IntoIterator<Item = T>) -> Self {
        let bit = |value: T| REGISTERED.iter().position(|known| *known == value.as_ref()).map(|at| 1 << at);
        Self(values.into_iter().filter_map(bit).fold(0, |all, bit: u32| all | bit))
    }

    /// Returns the values of the set.
    pub fn iter(self) -> impl Iterator<Item = &'static str> {
        REGISTERED.into_iter().enumerate().filter(move |(at, _)| self.0 & (1 << at) != 0).map(|(_, value)| value)
    }

    /// Returns whether the set has no values.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

impl Serialize for AmrValues {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for AmrValues {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<String>::deserialize(deserializer).map(Self::registered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registered_values_are_kept() {
        let values = AmrValues::registered(["wia", "pwd", "face", "pwd", "PWD", "ngcmfa", "", "pwd "]);
        assert_eq!(values.iter().collect::<Vec<_>>(), ["face", "pwd", "wia"]);
        let stored = serde_json::to_string(&values).unwrap();
        assert_eq!(serde_json::from_str::<AmrValues>(&stored).unwrap(), values);
        assert_eq!(serde_json::from_str::<AmrValues>("[\"later\"]").unwrap(), AmrValues::default());
        assert_eq!(AmrValues::registered(REGISTERED).iter().count(), REGISTERED.len());
    }
}
