//! Tokens for the admin API: one record per token, under the hash of the token.

use crate::engine::{Changes, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::api_token::{ApiToken, ApiTokenId, MAX_TOKENS};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Maximum number of tokens per scan. Concurrent requests may exceed [`MAX_TOKENS`].
const MAX_READ: usize = 2 * MAX_TOKENS;

impl Store {
    /// Stores a new token until it expires. Returns false if there are already [`MAX_TOKENS`].
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn add_api_token(&self, token: &ApiToken) -> Result<bool, StoreError> {
        if self.count(Table::ApiToken).await? >= MAX_TOKENS {
            return Ok(false);
        }
        let key = table::api_token(&token.hash);
        let mut changes = record::create(key.clone(), token)?;
        changes.put.push((table::expiry(token.expires_at, &key), Vec::new()));
        self.write(changes).await?;
        Ok(true)
    }

    /// Returns the token with this hash, even if it has expired.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn api_token(&self, hash: &SecretHash) -> Result<Option<ApiToken>, StoreError> {
        Ok(self.load(table::api_token(hash)).await?.map(|loaded: Loaded<ApiToken>| loaded.value))
    }

    /// Returns all tokens.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn api_tokens(&self) -> Result<Vec<ApiToken>, StoreError> {
        let page = self.loaded_api_tokens(&table::all(Table::ApiToken)).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// Deletes a token. Returns it, or `None` if there is no token with this id.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn remove_api_token(&self, id: ApiTokenId) -> Result<Option<ApiToken>, StoreError> {
        let prefix = [table::all(Table::ApiToken).as_slice(), id.as_bytes()].concat();
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.loaded_api_tokens(&prefix).await?.into_iter().next() else { return Ok(None) };
            if self.commit(deletion(&loaded)).await? == Committed::Yes {
                return Ok(Some(loaded.value));
            }
        }
        Err(StoreError::Contended)
    }

    /// Records a use of a token, as the server's own work. A token that was deleted stays deleted.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn note_api_token(&self, hash: &SecretHash, now: UnixTime) -> Result<(), StoreError> {
        let Some(loaded) = self.load::<ApiToken>(table::api_token(hash)).await? else { return Ok(()) };
        let used = ApiToken { last_used_at: Some(now), ..loaded.value.clone() };
        // A conflict means that another request recorded a use, or that the token was deleted.
        self.for_server().commit(record::replace(&loaded, &used)?).await.map(drop)
    }

    /// Deletes the tokens that a user has created.
    pub async fn end_api_tokens(&self, creator: Subject) -> Result<(), StoreError> {
        for loaded in self.loaded_api_tokens(&table::all(Table::ApiToken)).await? {
            if loaded.value.creator == Some(creator) {
                // The recorded use of a token conflicts at most once an hour.
                self.remove_api_token(loaded.value.id()).await?;
            }
        }
        Ok(())
    }

    async fn loaded_api_tokens(&self, prefix: &Key) -> Result<Vec<Loaded<ApiToken>>, StoreError> {
        self.page(prefix, None, MAX_READ).await
    }
}

/// Returns the changes that delete a token. Garbage collection deletes its entry of the expiry index.
fn deletion(loaded: &Loaded<ApiToken>) -> Changes {
    Changes { expect: vec![loaded.unchanged()], delete: vec![loaded.key().clone()], ..Changes::default() }
}
