//! Pictures of clients' logos: one record per client, under the id of the client.
//!
//! [`Store::change_client_with`] writes and deletes them in the same commit as the record of the
//! client, which has the digest of the picture.

use crate::format::table;
use crate::{Store, StoreError};
use sealgate_domain::client::Client;
use sealgate_domain::client_logo::LogoPicture;

impl Store {
    /// Returns the picture of a client's logo. `None` if the client has no logo, or if its logo has
    /// changed meanwhile.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn client_logo(&self, client: &Client) -> Result<Option<LogoPicture>, StoreError> {
        let Some(logo) = &client.logo else { return Ok(None) };
        let stored = self.load::<LogoPicture>(table::client_logo(&client.id)).await?;
        Ok(stored.map(|stored| stored.value).filter(|picture| picture.describe() == *logo))
    }
}
