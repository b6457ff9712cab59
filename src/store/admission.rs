//! What a new node asks for, and the data key as it is sent to it. Both are there for minutes, and mean nothing in another store.

use crate::domain::admission::{DataKeyEnvelope, NodeRequest, OaepHash};
use crate::domain::key_ring::PublicJwk;
use crate::oaep::NotEncrypted;
use crate::store::data_keys::WrappedRecord;
use crate::store::engine::Changes;
use crate::store::record::{self, Loaded};
use crate::store::{Committed, Store, StoreError, table};

impl Store {
    /// What this node asks for.
    pub async fn node_request(&self, node: &str) -> Result<Option<NodeRequest>, StoreError> {
        Ok(self.load(table::node_request(node)).await?.map(|loaded| loaded.value))
    }

    /// Keeps what a node asks for, in the place of what it asked for before.
    pub async fn keep_node_request(&self, request: &NodeRequest) -> Result<(), StoreError> {
        let put = vec![(table::node_request(&request.node), record::encode(request)?)];
        let delete = vec![table::data_key_envelope(&request.node)];
        self.write(Changes { put, delete, ..Changes::default() }).await
    }

    /// What was sent to this node.
    pub async fn data_key_envelope(&self, node: &str) -> Result<Option<DataKeyEnvelope>, StoreError> {
        Ok(self.load(table::data_key_envelope(node)).await?.map(|loaded| loaded.value))
    }

    /// Sends a node what it has asked for. False where it asks for something else by now.
    pub async fn send_data_key(&self, request: &NodeRequest, envelope: &DataKeyEnvelope) -> Result<bool, StoreError> {
        let loaded: Option<Loaded<NodeRequest>> = self.load(table::node_request(&request.node)).await?;
        let Some(loaded) = loaded.filter(|loaded| loaded.value == *request) else { return Ok(false) };
        let put = vec![(table::data_key_envelope(&envelope.node), record::encode(envelope)?)];
        Ok(self.commit(Changes { expect: vec![loaded.unchanged()], put, ..Changes::default() }).await?
            == Committed::Yes)
    }

    /// Keeps the data key as the node's own token has wrapped it; the request is settled.
    ///
    /// # Errors
    /// [`StoreError::Contended`] when one of this wrapping key is there; when the store fails.
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

    /// The id of the data key that this store seals with, and the data key encrypted to this key. `None` where nothing seals.
    ///
    /// # Errors
    /// [`NotEncrypted`] where that is no key.
    pub fn encrypt_data_key(&self, to: &PublicJwk, hash: OaepHash) -> Result<Option<(String, Vec<u8>)>, NotEncrypted> {
        let Some(sealing) = &self.sealing else { return Ok(None) };
        let ciphertext = sealing.sealer.encrypt_data_key(to, hash)?;
        Ok(Some((sealing.sealer.data_key_id().to_owned(), ciphertext)))
    }
}
