//! Counts that several nodes keep together, beside the records: in an engine that nodes share.

use async_trait::async_trait;

use crate::domain::pace::{Moved, Pace};
use crate::domain::time::UnixTime;

/// What is counted: a hash under the store's seed, never an address or a name.
pub type CountKey = [u8; 16];

/// A question for a part of what a key may have in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRequest {
    pub key: CountKey,
    /// When the window ends, seconds since 1970. Each window is counted by itself.
    pub ends: u64,
    /// What all may have of it.
    pub limit: u32,
    /// How many to take while much is left.
    pub block: u32,
}

/// What was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// By all nodes.
    pub all: u32,
    /// Of these, for whoever asked; 0 when nothing was left.
    pub got: u32,
}

/// A guess that was counted under a key.
#[derive(Debug)]
#[must_use]
pub struct CountedGuess {
    pub(super) key: CountKey,
    pub(super) moved: Moved,
}

/// Why there is no count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotCounted(pub &'static str);

/// Counts of all nodes over one database.
#[async_trait]
pub trait SharedCounts: Send + Sync {
    /// Takes a block of a key's window: never more than the limit in all, unless the server that counts starts anew. A request
    /// waits for it, so it answers within a fraction of a second, and at once when there is no connection.
    ///
    /// # Errors
    /// Whether something was taken is not known then.
    async fn reserve(&self, wanted: BlockRequest) -> Result<Block, NotCounted>;

    /// Counts one guess under each of these keys, exactly and durably; or under none, and yields the seconds to wait.
    ///
    /// # Errors
    /// The guess may have been counted then, and must not be made.
    async fn count_guess(
        &self,
        keys: Vec<(CountKey, Pace)>,
        now: UnixTime,
    ) -> Result<Result<Vec<CountedGuess>, u64>, NotCounted>;

    /// Takes the count of a guess back, soon. A guess of this node that is counted later finds it taken back.
    fn give_back(&self, counted: Vec<CountedGuess>, now: UnixTime);

    /// How many nodes share the counts, as far as this one knows; at least 1.
    fn nodes(&self) -> u32;
}
