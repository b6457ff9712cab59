//! Initial access tokens: one record per token, under the hash of the token, until it expires.

use crate::engine::{Changes, Expect, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError, UserRule};
use sealgate_domain::registration_token::{MAX_REGISTRATION_TOKENS, RegistrationToken, RegistrationTokenId};
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Maximum number of tokens per scan. Concurrent requests may exceed [`MAX_REGISTRATION_TOKENS`].
const MAX_READ: usize = 2 * MAX_REGISTRATION_TOKENS;

/// Initial access token of a request, and the rule that its creator must still satisfy.
#[derive(Debug, Clone)]
pub struct PresentedInitialToken {
    pub hash: SecretHash,
    pub creator: UserRule,
}

impl Store {
    /// Stores a new token until it expires. Returns false if there are already
    /// [`MAX_REGISTRATION_TOKENS`].
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn add_registration_token(&self, token: &RegistrationToken) -> Result<bool, StoreError> {
        if self.registration_tokens().await?.len() >= MAX_REGISTRATION_TOKENS {
            return Ok(false);
        }
        let key = table::registration_token(&token.hash);
        let mut changes = record::create(key.clone(), token)?;
        changes.put.push((table::expiry(token.expires_at, &key), Vec::new()));
        self.write(changes).await?;
        Ok(true)
    }

    /// Returns the token with this hash, even if it no longer works.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn registration_token(&self, hash: &SecretHash) -> Result<Option<RegistrationToken>, StoreError> {
        Ok(self.loaded_registration_token(hash).await?.map(|loaded| loaded.value))
    }

    /// Returns whether a token registers a client now. Does not use it.
    pub async fn initial_token_works(&self, token: &PresentedInitialToken, now: UnixTime) -> Result<bool, StoreError> {
        let Some(stored) = self.registration_token(&token.hash).await? else { return Ok(false) };
        Ok(stored.works(now) && self.creator_of(&stored, &token.creator).await?.is_some())
    }

    /// Returns the expectations that the creator of a token may still create it. Empty for a token of an
    /// operator, `None` if the creator may not.
    pub(crate) async fn creator_of(
        &self,
        token: &RegistrationToken,
        rule: &UserRule,
    ) -> Result<Option<Vec<Expect>>, StoreError> {
        let Some(creator) = token.creator else { return Ok(Some(Vec::new())) };
        let Some(user) = self.user_record(creator).await? else { return Ok(None) };
        // A revocation that opens after this read deletes the token.
        let is_allowed =
            user.value.is_enabled() && rule.holds(&user.value) && !self.has_open_revocation(creator).await?;
        Ok(is_allowed.then(|| vec![user.unchanged()]))
    }

    /// Returns all tokens.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn registration_tokens(&self) -> Result<Vec<RegistrationToken>, StoreError> {
        let page = self.all_registration_tokens(&table::all(Table::RegistrationToken)).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// Deletes a token. Returns it, or `None` if there is no token with this id.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn remove_registration_token(
        &self,
        id: RegistrationTokenId,
    ) -> Result<Option<RegistrationToken>, StoreError> {
        let prefix = [table::all(Table::RegistrationToken).as_slice(), id.as_bytes()].concat();
        for _ in 0..MAX_CONFLICTS {
            let found = self.all_registration_tokens(&prefix).await?.into_iter().next();
            let Some(loaded) = found else { return Ok(None) };
            let (expect, delete) = (vec![loaded.unchanged()], vec![loaded.key().clone()]);
            if self.commit(Changes { expect, delete, ..Changes::default() }).await? == Committed::Yes {
                return Ok(Some(loaded.value));
            }
        }
        Err(StoreError::Contended)
    }

    /// Deletes the tokens that a user has created.
    pub async fn end_registration_tokens(&self, creator: Subject) -> Result<(), StoreError> {
        for token in self.registration_tokens().await?.iter().filter(|token| token.creator == Some(creator)) {
            self.remove_registration_token(token.id()).await?;
        }
        Ok(())
    }

    pub(crate) async fn loaded_registration_token(
        &self,
        hash: &SecretHash,
    ) -> Result<Option<Loaded<RegistrationToken>>, StoreError> {
        self.load(table::registration_token(hash)).await
    }

    async fn all_registration_tokens(&self, prefix: &Key) -> Result<Vec<Loaded<RegistrationToken>>, StoreError> {
        self.page(prefix, None, MAX_READ).await
    }
}
