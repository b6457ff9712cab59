//! Counts that several nodes share in an engine, apart from the records.

use async_trait::async_trait;

use sealgate_domain::pace::{Moved, Pace};
use sealgate_domain::time::UnixTime;

/// Key of a count: a hash under the store's seed, never an address or a name.
pub type CountKey = [u8; 16];

/// Request for a block of a window's limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRequest {
    pub key: CountKey,
    /// End of the window, seconds since 1970. Each window is counted separately.
    pub ends: u64,
    /// Limit of the window for all nodes.
    pub limit: u32,
    /// Block size while much is left.
    pub block: u32,
}

/// A reserved block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Total reserved by all nodes.
    pub all: u32,
    /// Amount for this request; 0 when nothing was left.
    pub got: u32,
}

/// A guess that was counted under a key.
#[derive(Debug)]
#[must_use]
pub struct CountedGuess {
    pub(super) key: CountKey,
    pub(super) moved: Moved,
}

/// Reason why there is no count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotCounted(pub &'static str);

/// Counts of all nodes over one database.
#[async_trait]
pub trait SharedCounts: Send + Sync {
    /// Reserves a block of a key's window, never exceeding the limit in total.
    ///
    /// The limit may be exceeded after a restart of the database server. A request waits for the
    /// answer, so it comes within a fraction of a second, and at once without a connection.
    ///
    /// # Errors
    /// The block may have been reserved.
    async fn reserve(&self, wanted: BlockRequest) -> Result<Block, NotCounted>;

    /// Counts one guess under each of these keys, exactly and durably.
    ///
    /// If a limit is reached it counts none and returns the seconds to wait.
    ///
    /// # Errors
    /// The guess may have been counted, and must not be made.
    async fn count_guess(
        &self,
        keys: Vec<(CountKey, Pace)>,
        now: UnixTime,
    ) -> Result<Result<Vec<CountedGuess>, u64>, NotCounted>;

    /// Decrements the counts of a guess, soon. Visible to later guesses of this node.
    fn give_back(&self, counted: Vec<CountedGuess>, now: UnixTime);

    /// Returns the number of nodes that share the counts, as far as known; at least 1.
    fn nodes(&self) -> u32;
}
