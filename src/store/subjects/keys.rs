//! Signing keys, data keys and the admission of new nodes:
//!
//! - The key ring, with the states of the signing keys. The RS256 keys are one record, and the keys
//!   of further algorithms another, which versions without such algorithms do not know. Both change
//!   in one commit.
//! - The data keys that seal records, each wrapped by a token. Exports include the data keys,
//!   because they are useless without that token. A store that nodes share also has the id of the
//!   data key that the nodes use, which is the first data key that a node generated.
//! - Requests of new nodes for the data key, and the data keys encrypted for them. Both are kept
//!   for minutes and are useless in another store.

use serde::{Deserialize, Serialize};

use crate::engine::{Changes, Counter, Expect};
use crate::format::record::Loaded;
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::admission::NotEncrypted;
use sealgate_domain::admission::{DataKeyEnvelope, NodeRequest, OaepHash};
use sealgate_domain::key_ring::{FurtherKeys, KeyFault, KeyRing, PublicJwk};
use sealgate_domain::oauth::jwk_set::Algorithm;
use sealgate_domain::secret::{base64url, from_base64url};

impl Store {
    /// Returns the key ring as read by this node. Empty before the first start.
    pub async fn key_ring(&self) -> Result<KeyRing, StoreError> {
        let ring: Option<KeyRing> = self.load(table::key_ring()).await?.map(|loaded| loaded.value);
        let further: Option<FurtherKeys> = self.load(table::further_keys()).await?.map(|loaded| loaded.value);
        let ring = ring.unwrap_or_default().with_further(further.unwrap_or_default());
        Ok(ring.of_node(self.node.as_deref()))
    }

    /// Returns a number that increases when the key ring changes. Read it before the key ring.
    pub fn keys_counter(&self) -> u64 {
        self.engine.counters().value(Counter::Keys)
    }

    /// Returns the names of the nodes that currently serve.
    pub async fn live_nodes(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.engine.live_nodes().await?)
    }

    /// Changes the key ring. Retries on conflicts. Returns the new ring, with RS256 selected. If
    /// `change` returns an error, the ring stays unchanged, and the error is returned.
    pub async fn change_key_ring(
        &self,
        change: impl Fn(&mut KeyRing) -> Result<(), KeyFault> + Send,
    ) -> Result<Result<KeyRing, KeyFault>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let loaded: Option<Loaded<KeyRing>> = self.load(table::key_ring()).await?;
            let loaded_further: Option<Loaded<FurtherKeys>> = self.load(table::further_keys()).await?;
            let before = loaded.as_ref().map(|loaded| loaded.value.clone()).unwrap_or_default();
            let further_before = loaded_further.as_ref().map(|loaded| loaded.value.clone()).unwrap_or_default();
            let before = before.with_further(further_before.clone()).of_node(self.node.as_deref());
            let mut next = before.clone();
            if let Err(fault) = change(&mut next) {
                return Ok(Err(fault));
            }
            next.select(Algorithm::Rs256);
            // The stored ring has the keys of all nodes.
            let (stored_ring, further) = (next.clone().without_further().of_node(None), next.further());
            let mut changes = match &loaded {
                Some(_) if before == next => return Ok(Ok(next)),
                Some(loaded) => record::replace(loaded, &stored_ring)?,
                None => record::create(table::key_ring(), &stored_ring)?,
            };
            match &loaded_further {
                Some(loaded) if further == further_before => changes.expect.push(loaded.unchanged()),
                Some(loaded) => changes.merge(record::replace(loaded, &further)?),
                // Without further algorithms, the store stays as earlier versions wrote it.
                None if further.is_empty() => changes.expect.push(Expect::Absent(table::further_keys())),
                None => changes.merge(record::create(table::further_keys(), &further)?),
            }
            if self.commit(changes).await? == Committed::Yes {
                return Ok(Ok(next));
            }
        }
        Err(StoreError::Contended)
    }
}

/// Maximum number of wrapping keys. Tokens are rarely replaced.
const MAX_DATA_KEYS: usize = 256;

#[derive(PartialEq, Serialize, Deserialize)]
pub(crate) struct WrappedRecord {
    pub(crate) wrapping_id: String,
    wrapped: String,
}

impl WrappedRecord {
    pub(crate) fn new(wrapping_id: &str, wrapped: &[u8]) -> Self {
        Self { wrapping_id: wrapping_id.to_owned(), wrapped: base64url(wrapped) }
    }
}

impl Store {
    /// Returns the wrapped data keys, each with the id of its wrapping key.
    pub async fn wrapped_data_keys(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let rows = self.page::<WrappedRecord>(&table::data_keys(), None, MAX_DATA_KEYS).await?;
        rows.into_iter()
            .map(|row| {
                let WrappedRecord { wrapping_id, wrapped } = row.value;
                let bytes = from_base64url(&wrapped)
                    .ok_or_else(|| StoreError::Broken("a wrapped data key cannot be read".to_owned()))?;
                Ok((wrapping_id, bytes))
            })
            .collect()
    }

    /// Stores a data key that was wrapped by this wrapping key. Data keys wrapped by other keys are
    /// kept.
    ///
    /// # Errors
    /// [`StoreError::Contended`] if a data key with this wrapping key is already stored. Other
    /// errors if the store fails.
    pub async fn keep_data_key(&self, wrapping_id: &str, wrapped: &[u8]) -> Result<(), StoreError> {
        let record = WrappedRecord::new(wrapping_id, wrapped);
        self.write(record::create(table::data_key(wrapping_id), &record)?).await
    }

    /// Returns the id of the cluster's data key, or `None` before it is generated.
    pub async fn cluster_data_key(&self) -> Result<Option<String>, StoreError> {
        Ok(self.load(table::data_key_id()).await?.map(|loaded| loaded.value))
    }

    /// Stores the first data key of the cluster, wrapped, and its id.
    ///
    /// # Errors
    /// [`StoreError::Contended`] if the cluster already has a data key. Other errors if the store
    /// fails.
    pub async fn keep_first_data_key(&self, wrapping_id: &str, wrapped: &[u8], id: &str) -> Result<(), StoreError> {
        let record = WrappedRecord::new(wrapping_id, wrapped);
        let mut changes = record::create(table::data_key_id(), &id.to_owned())?;
        changes.merge(record::create(table::data_key(wrapping_id), &record)?);
        self.write(changes).await
    }

    /// Stores the id of the cluster's data key after an import.
    ///
    /// # Errors
    /// [`StoreError::Contended`] if an id is stored already. Other errors if the store fails.
    pub async fn note_cluster_data_key(&self, id: &str) -> Result<(), StoreError> {
        self.write(record::create(table::data_key_id(), &id.to_owned())?).await
    }
}

impl Store {
    /// Returns the request of a new node.
    pub async fn node_request(&self, node: &str) -> Result<Option<NodeRequest>, StoreError> {
        Ok(self.load(table::node_request(node)).await?.map(|loaded| loaded.value))
    }

    /// Stores the request of a new node, and replaces its previous request.
    pub async fn keep_node_request(&self, request: &NodeRequest) -> Result<(), StoreError> {
        let put = vec![(table::node_request(&request.node), record::encode(request)?)];
        let delete = vec![table::data_key_envelope(&request.node)];
        self.write(Changes { put, delete, ..Changes::default() }).await
    }

    /// Returns the encrypted data key for a new node.
    pub async fn data_key_envelope(&self, node: &str) -> Result<Option<DataKeyEnvelope>, StoreError> {
        Ok(self.load(table::data_key_envelope(node)).await?.map(|loaded| loaded.value))
    }

    /// Stores the encrypted data key for a new node. Returns false if the node has replaced its
    /// request.
    pub async fn send_data_key(&self, request: &NodeRequest, envelope: &DataKeyEnvelope) -> Result<bool, StoreError> {
        let loaded: Option<Loaded<NodeRequest>> = self.load(table::node_request(&request.node)).await?;
        let Some(loaded) = loaded.filter(|loaded| loaded.value == *request) else { return Ok(false) };
        let put = vec![(table::data_key_envelope(&envelope.node), record::encode(envelope)?)];
        Ok(self.commit(Changes { expect: vec![loaded.unchanged()], put, ..Changes::default() }).await?
            == Committed::Yes)
    }

    /// Stores the data key as wrapped by the new node's token, and deletes the request.
    ///
    /// # Errors
    /// [`StoreError::Contended`] if a data key with this wrapping key is already stored. Other
    /// errors if the store fails.
    pub async fn keep_received_data_key(
        &self,
        node: &str,
        wrapping_id: &str,
        wrapped: &[u8],
    ) -> Result<(), StoreError> {
        let record = WrappedRecord::new(wrapping_id, wrapped);
        let mut changes = record::create(table::data_key(wrapping_id), &record)?;
        changes.delete = vec![table::node_request(node), table::data_key_envelope(node)];
        self.write(changes).await
    }

    /// Returns the id of this store's data key, and the data key encrypted with this public key.
    /// Returns `None` if there is no data key.
    ///
    /// # Errors
    /// [`NotEncrypted`] if the public key is invalid.
    pub fn encrypt_data_key(&self, to: &PublicJwk, hash: OaepHash) -> Result<Option<(String, Vec<u8>)>, NotEncrypted> {
        let Some(sealing) = &self.sealing else { return Ok(None) };
        let ciphertext = sealing.sealer.encrypt_data_key(to, hash)?;
        Ok(Some((sealing.sealer.data_key_id().to_owned(), ciphertext)))
    }
}
