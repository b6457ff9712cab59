//! The data keys that seal records, as wrapped by the token. Exports include them.
//!
//! Without that token they are useless. If several nodes share a store, it also records which data
//! key they use: the first that one of them generated.

use serde::{Deserialize, Serialize};

use crate::{Store, StoreError, record, table};
use sealgate_domain::secret::{base64url, from_base64url};

/// Maximum number of wrapping keys. A token is replaced a few times in a store's life.
const MAX_DATA_KEYS: usize = 256;

#[derive(PartialEq, Serialize, Deserialize)]
pub(super) struct WrappedRecord {
    pub(super) wrapping_id: String,
    wrapped: String,
}

impl WrappedRecord {
    pub(super) fn new(wrapping_id: &str, wrapped: &[u8]) -> Self {
        Self { wrapping_id: wrapping_id.to_owned(), wrapped: base64url(wrapped) }
    }
}

impl Store {
    /// Returns the wrapped data keys, each with the ID of its wrapping key.
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

    /// Stores a wrapped data key in addition to those of other wrapping keys.
    ///
    /// # Errors
    /// [`StoreError::Contended`] when this wrapping key has one already; when the store fails.
    pub async fn keep_data_key(&self, wrapping_id: &str, wrapped: &[u8]) -> Result<(), StoreError> {
        let record = WrappedRecord::new(wrapping_id, wrapped);
        self.write(record::create(table::data_key(wrapping_id), &record)?).await
    }

    /// Returns the ID of the cluster's data key; `None` before it is generated.
    pub async fn cluster_data_key(&self) -> Result<Option<String>, StoreError> {
        Ok(self.load(table::data_key_id()).await?.map(|loaded| loaded.value))
    }

    /// Stores the cluster's first data key, wrapped, and its ID.
    ///
    /// # Errors
    /// [`StoreError::Contended`] when there is one already; when the store fails.
    pub async fn keep_first_data_key(&self, wrapping_id: &str, wrapped: &[u8], id: &str) -> Result<(), StoreError> {
        let record = WrappedRecord::new(wrapping_id, wrapped);
        let mut changes = record::create(table::data_key_id(), &id.to_owned())?;
        changes.merge(record::create(table::data_key(wrapping_id), &record)?);
        self.write(changes).await
    }

    /// Records the ID of the cluster's data key, for a store that was filled by an import.
    ///
    /// # Errors
    /// [`StoreError::Contended`] when one is recorded already; when the store fails.
    pub async fn note_cluster_data_key(&self, id: &str) -> Result<(), StoreError> {
        self.write(record::create(table::data_key_id(), &id.to_owned())?).await
    }
}
