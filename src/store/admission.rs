//! Requests of new nodes, and the encrypted data keys sent to them.
//!
//! Both exist for minutes, and are useless in another store.

use crate::data_keys::WrappedRecord;
use crate::engine::Changes;
use crate::record;
use crate::record::Loaded;
use crate::{Committed, Store, StoreError, table};
use sealgate_domain::admission::{DataKeyEnvelope, NodeRequest, OaepHash};
use sealgate_domain::key_ring::PublicJwk;
use sealgate_domain::oaep::NotEncrypted;

impl Store {
    /// Returns this node's request.
    pub async fn node_request(&self, node: &str) -> Result<Option<NodeRequest>, StoreError> {
        Ok(self.load(table::node_request(node)).await?.map(|loaded| loaded.value))
    }

    /// Stores a node's request, replacing its previous one.
    pub async fn keep_node_request(&self, request: &NodeRequest) -> Result<(), StoreError> {
        let put = vec![(table::node_request(&request.node), record::encode(request)?)];
        let delete = vec![table::data_key_envelope(&request.node)];
        self.write(Changes { put, delete, ..Changes::default() }).await
    }

    /// Returns the answer sent to this node.
    pub async fn data_key_envelope(&self, node: &str) -> Result<Option<DataKeyEnvelope>, StoreError> {
        Ok(self.load(table::data_key_envelope(node)).await?.map(|loaded| loaded.value))
    }

    /// Stores the answer to a node's request. Returns false if the node has replaced the request.
    pub async fn send_data_key(&self, request: &NodeRequest, envelope: &DataKeyEnvelope) -> Result<bool, StoreError> {
        let loaded: Option<Loaded<NodeRequest>> = self.load(table::node_request(&request.node)).await?;
        let Some(loaded) = loaded.filter(|loaded| loaded.value == *request) else { return Ok(false) };
        let put = vec![(table::data_key_envelope(&envelope.node), record::encode(envelope)?)];
        Ok(self.commit(Changes { expect: vec![loaded.unchanged()], put, ..Changes::default() }).await?
            == Committed::Yes)
    }

    /// Stores the data key as wrapped by the node's own token, and removes the request.
    ///
    /// # Errors
    /// [`StoreError::Contended`] when this wrapping key has one already; when the store fails.
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

    /// Returns the ID of this store's data key, and the data key encrypted to this public key.
    ///
    /// `None` without a data key.
    ///
    /// # Errors
    /// [`NotEncrypted`] if the public key is invalid.
    pub fn encrypt_data_key(&self, to: &PublicJwk, hash: OaepHash) -> Result<Option<(String, Vec<u8>)>, NotEncrypted> {
        let Some(sealing) = &self.sealing else { return Ok(None) };
        let ciphertext = sealing.sealer.encrypt_data_key(to, hash)?;
        Ok(Some((sealing.sealer.data_key_id().to_owned(), ciphertext)))
    }
}
