//! What the nodes of one store hash the keys of their limits with, so that they mean the same counts and the same windows, and
//! nobody can tell from a count whose it is. Another store has another: an export leaves it out.

use crate::domain::secret::{base64url, from_base64url};
use crate::store::{Committed, MOST_CONFLICTS, Store, StoreError, record, table};

impl Store {
    /// The seed of this store; `fresh` becomes it where there is none yet.
    pub async fn limit_seed(&self, fresh: [u8; 16]) -> Result<[u8; 16], StoreError> {
        for _ in 0..MOST_CONFLICTS {
            if let Some(known) = self.load::<String>(table::limit_seed()).await? {
                let seed = from_base64url(&known.value).and_then(|bytes| bytes.try_into().ok());
                return seed.ok_or_else(|| StoreError::Broken("the seed of the limits cannot be read".to_owned()));
            }
            let made = record::create(table::limit_seed(), &base64url(&fresh))?;
            // The loser of two first starts takes the other's.
            if self.commit(made).await? == Committed::Yes {
                return Ok(fresh);
            }
        }
        Err(StoreError::Contended)
    }
}
