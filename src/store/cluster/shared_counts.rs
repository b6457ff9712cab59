//! Counts that several nodes share in an engine, apart from the records.
//!
//! Seed with which the nodes of a store hash the keys of their limits.
//!
//! With the same seed they share counts and windows, and a count does not reveal its subject. Each
//! store has its own seed: exports leave it out.

use async_trait::async_trait;

use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::pace::{Moved, Pace};
use sealgate_domain::secret::{base64url, from_base64url};
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
    pub(crate) key: CountKey,
    pub(crate) moved: Moved,
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

impl Store {
    /// Returns this store's seed; sets it to `fresh` if there is none yet.
    pub async fn limit_seed(&self, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        for _ in 0..MAX_CONFLICTS {
            if let Some(known) = self.load::<String>(table::limit_seed()).await? {
                let seed = from_base64url(&known.value).and_then(|bytes| bytes.try_into().ok());
                return seed.ok_or_else(|| StoreError::Broken("the seed of the rate limits cannot be read".to_owned()));
            }
            let made = record::create(table::limit_seed(), &base64url(&fresh))?;
            // If two first starts race, the loser uses the winner's seed.
            if self.commit(made).await? == Committed::Yes {
                return Ok(fresh);
            }
        }
        Err(StoreError::Contended)
    }
}
