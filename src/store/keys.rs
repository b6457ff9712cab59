//! States of the signing keys: one record, because a rotation changes two keys atomically.

use crate::engine::Counter;
use crate::record;
use crate::record::Loaded;
use crate::table;
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::key_ring::{KeyFault, KeyRing};

impl Store {
    /// Returns the announced keys as seen by this node; an empty ring before the first start.
    pub async fn key_ring(&self) -> Result<KeyRing, StoreError> {
        let ring: Option<KeyRing> = self.load(table::key_ring()).await?.map(|loaded| loaded.value);
        Ok(ring.unwrap_or_default().of_node(self.node.as_deref()))
    }

    /// Returns a number that grows when the ring changes. Read it before the ring.
    pub fn keys_counter(&self) -> u64 {
        self.engine.counters().of(Counter::Keys)
    }

    /// Returns the names of the nodes that serve now.
    pub async fn live_nodes(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.engine.live_nodes().await?)
    }

    /// Changes the key ring, retrying on conflicts. Returns the new ring; on an error it is
    /// unchanged.
    pub async fn change_key_ring(
        &self,
        change: impl Fn(&mut KeyRing) -> Result<(), KeyFault> + Send,
    ) -> Result<Result<KeyRing, KeyFault>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let loaded: Option<Loaded<KeyRing>> = self.load(table::key_ring()).await?;
            let before = loaded.as_ref().map(|loaded| loaded.value.clone()).unwrap_or_default();
            let before = before.of_node(self.node.as_deref());
            let mut next = before.clone();
            if let Err(fault) = change(&mut next) {
                return Ok(Err(fault));
            }
            // Store the ring without the view of a node.
            let kept = next.clone().of_node(None);
            let changes = match &loaded {
                Some(_) if before == next => return Ok(Ok(next)),
                Some(loaded) => record::replace(loaded, &kept)?,
                None => record::create(table::key_ring(), &kept)?,
            };
            if self.commit(changes).await? == Committed::Yes {
                return Ok(Ok(next));
            }
        }
        Err(StoreError::Contended)
    }
}
