//! Counts of rate limits and password guesses that the nodes of a cluster share, and their seed.
//!
//! The engine keeps these counts outside the records. The keys of the counts are hashed with the
//! seed of the store, so that a count does not reveal an address or a name. All nodes use the same
//! seed, and therefore the same counts. The seed is never exported.

use async_trait::async_trait;

use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::pace::{Moved, Pace};
use sealgate_domain::secret::{base64url, from_base64url};
use sealgate_domain::time::UnixTime;

/// Key of a count: a hash with the store's seed.
pub type CountKey = [u8; 16];

/// Request to reserve a block of requests from the limit of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockRequest {
    pub key: CountKey,
    /// End of the window, in seconds since 1970. Each window is counted separately.
    pub ends: u64,
    /// Limit of all nodes together in this window.
    pub limit: u32,
    /// Size of the block. A smaller block is reserved near the limit.
    pub block: u32,
}

/// Reserved block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Number of requests reserved by all nodes, including this block.
    pub all: u32,
    /// Number of requests in the block. 0 if the limit is reached.
    pub got: u32,
}

/// Guess that was counted under one key.
#[derive(Debug)]
#[must_use]
pub struct CountedGuess {
    pub(crate) key: CountKey,
    pub(crate) moved: Moved,
}

/// Reason why a request or guess was not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NotCounted(pub &'static str);

/// Counts of all nodes that share a database.
#[async_trait]
pub trait SharedCounts: Send + Sync {
    /// Reserves a block in a key's window. All blocks together never exceed the limit, unless the
    /// database server restarts.
    ///
    /// Returns within a fraction of a second, because a client's request waits for it. Fails at
    /// once if there is no connection.
    ///
    /// # Errors
    /// Returns an error if the result is unknown. The block may have been reserved.
    async fn reserve(&self, request: BlockRequest) -> Result<Block, NotCounted>;

    /// Counts a guess under each of these keys, exactly and durably.
    ///
    /// Returns the seconds to wait if any limit is reached. Nothing is counted then.
    ///
    /// # Errors
    /// Returns an error if the result is unknown. The guess must be refused, although it may have
    /// been counted.
    async fn count_guess(
        &self,
        keys: Vec<(CountKey, Pace)>,
        now: UnixTime,
    ) -> Result<Result<Vec<CountedGuess>, u64>, NotCounted>;

    /// Subtracts a guess from the counts, in the background but before any later guess on this node
    /// is counted.
    fn give_back(&self, counted: Vec<CountedGuess>, now: UnixTime);

    /// Returns the number of nodes that share the counts, at least 1. The number may be outdated.
    fn nodes(&self) -> u32;
}

impl Store {
    /// Returns the seed of the store. If the store has no seed, sets the seed to `fresh`, which
    /// must be random.
    pub async fn limit_seed(&self, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        for _ in 0..MAX_CONFLICTS {
            if let Some(known) = self.load::<String>(table::limit_seed()).await? {
                let seed = from_base64url(&known.value).and_then(|bytes| bytes.try_into().ok());
                return seed.ok_or_else(|| StoreError::Broken("the seed of the rate limits cannot be read".to_owned()));
            }
            let made = record::create(table::limit_seed(), &base64url(&fresh))?;
            // If two nodes start for the first time at once, both use the seed that is written
            // first.
            if self.commit(made).await? == Committed::Yes {
                return Ok(fresh);
            }
        }
        Err(StoreError::Contended)
    }
}
