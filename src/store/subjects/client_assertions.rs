//! Identifiers of client assertions that were used (RFC 7523 §3, `jti`).
//!
//! Only a client with a valid signature adds entries, within its rate limit, and an entry expires with
//! its assertion. So the number of entries is limited.

use crate::format::{record, table};
use crate::{Committed, Store, StoreError};
use sealgate_domain::client::ClientId;
use sealgate_domain::oauth::client_assertion::AssertionId;

impl Store {
    /// Returns whether an assertion of the client was used before.
    pub async fn is_assertion_used(&self, client: &ClientId, id: &AssertionId) -> Result<bool, StoreError> {
        Ok(self.engine.get(&table::client_assertion(client, &id.jti)).await?.is_some())
    }

    /// Records that an assertion of the client is used. Returns false if it was used before, at this or
    /// another node.
    pub async fn use_assertion(&self, client: &ClientId, id: &AssertionId) -> Result<bool, StoreError> {
        let key = table::client_assertion(client, &id.jti);
        let mut changes = record::create(key.clone(), &id.until)?;
        changes.put.push((table::expiry(id.until, &key), Vec::new()));
        Ok(self.commit(changes).await? == Committed::Yes)
    }
}
