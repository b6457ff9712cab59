//! Counts of rate limits and password guesses that the nodes of a cluster share, and their seed.
//!
//! The engine keeps these counts outside the records. Their keys are hashed with a seed, so that a
//! count does not reveal its subject. Each store has its own seed, which is never exported. All
//! nodes of a store use it, and so the same counts.

use async_trait::async_trait;

use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::pace::{Moved, Pace};
use sealgate_domain::secret::{base64url, from_base64url};
use sealgate_domain::time::UnixTime;

/// Key of a count: a hash with the store's seed. Never an address or a name.
pub type CountKey = [u8; 16];

/// Request to reserve a block of the requests that a limit allows in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRequest {
    pub key: CountKey,
    /// End of the window, in seconds since 1970. Each window is counted separately.
    pub ends: u64,
    /// Limit for all nodes together, in this window.
    pub limit: u32,
    /// Size of the block. Near the limit, the block is smaller.
    pub block: u32,
}

/// Reserved block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Number of requests that all nodes together have reserved.
    pub all: u32,
    /// Number of requests reserved by this call; 0 if the limit is reached.
    pub got: u32,
}

/// Guess that was counted under a key.
#[derive(Debug)]
#[must_use]
pub struct CountedGuess {
    pub(crate) key: CountKey,
    pub(crate) moved: Moved,
}

/// Reason why the count failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotCounted(pub &'static str);

/// Counts of all nodes that share a database.
#[async_trait]
pub trait SharedCounts: Send + Sync {
    /// Reserves a block of a key's window. The limit is never exceeded in total, unless the
    /// database server restarts.
    ///
    /// A request waits for the result, so it arrives within a fraction of a second. If there is no
    /// connection, the call fails at once.
    ///
    /// # Errors
    /// The block may have been reserved nevertheless.
    /// The block may have been reserved.
    async fn reserve(&self, wanted: BlockRequest) -> Result<Block, NotCounted>;

    /// Counts one guess under each of these keys, exactly and durably.
    ///
    /// If a limit is reached, counts under none of them and returns the seconds to wait.
    ///
    /// # Errors
    /// The guess may have been counted, but must not be made.
    async fn count_guess(
        &self,
        keys: Vec<(CountKey, Pace)>,
        now: UnixTime,
    ) -> Result<Result<Vec<CountedGuess>, u64>, NotCounted>;

    /// Subtracts a guess from the counts, soon. Later guesses on this node see that.
    fn give_back(&self, counted: Vec<CountedGuess>, now: UnixTime);

    /// Returns the number of nodes that share the counts, at least 1. May be outdated.
    fn nodes(&self) -> u32;
}

impl Store {
    /// Returns the seed of this store. If the store has none, sets it to `fresh`, which must be
    /// random.
    pub async fn limit_seed(&self, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        for _ in 0..MAX_CONFLICTS {
            if let Some(known) = self.load::<String>(table::limit_seed()).await? {
                let seed = from_base64url(&known.value).and_then(|bytes| bytes.try_into().ok());
                return seed.ok_or_else(|| StoreError::Broken("the seed of the rate limits cannot be read".to_owned()));
            }
            let made = record::create(table::limit_seed(), &base64url(&fresh))?;
            // If two nodes start for the first time at once, both use the seed that was written
            // first.
            if self.commit(made).await? == Committed::Yes {
                return Ok(fresh);
            }
        }
        Err(StoreError::Contended)
    }
}
