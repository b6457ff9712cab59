//! Seed with which the nodes of a store hash the keys of their limits.
//!
//! With the same seed they share counts and windows, and a count does not reveal its subject. Each
//! store has its own seed: exports leave it out.

use crate::{Committed, MAX_CONFLICTS, Store, StoreError, record, table};
use sealgate_domain::secret::{base64url, from_base64url};

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
