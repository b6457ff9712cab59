//! Wall-clock instants as the protocol writes them: whole seconds since 1970 (`NumericDate`, RFC 7519 §2).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// An instant, in whole seconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixTime(u64);

impl UnixTime {
    /// The instant `seconds` after 1970.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds)
    }

    /// Seconds since 1970.
    pub const fn seconds(self) -> u64 {
        self.0
    }

    /// This instant and `length` more, in whole seconds; saturates.
    #[must_use]
    pub const fn plus(self, length: Duration) -> Self {
        Self(self.0.saturating_add(length.as_secs()))
    }

    /// How long ago `earlier` was; zero when it lies ahead.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_secs(self.0.saturating_sub(earlier.0))
    }
}
