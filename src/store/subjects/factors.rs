//! Second factors and passkeys: one record per user, and an index from credentials to users.
//!
//! Secrets of authenticator apps are sealed. Each is bound to its user and app, so it cannot be
//! unsealed in another record. The key of recovery code hashes is derived from the data key.
//!
//! This module also stores the relying party id of WebAuthn, which is the host that keys are
//! registered for. Browsers offer keys only to that host.

use zeroize::Zeroizing;

use crate::engine::{Changes, Expect, Key};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::sealer::{NONCE_BYTES, SealError};
use crate::subjects::interactions::progress_changes;
use crate::subjects::revocations::Revocation;
use crate::{Committed, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::assurance::FactorId;
use sealgate_domain::factors::{FactorKind, Factors};
use sealgate_domain::oauth::next_step::Interaction;
use sealgate_domain::recovery_code::RecoveryKey;
use sealgate_domain::secret::Sealed;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::user::Subject;
use sealgate_domain::webauthn::{CredentialId, UserHandle};

/// Outcome of a change of a user's factors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum FactorsChanged<T> {
    /// The result of the change, and the new record.
    Yes(T, Box<Factors>),
    /// A credential to add already belongs to a user. Nothing was changed.
    CredentialTaken,
}

impl Store {
    /// Returns the factors of a user, if the user has ever had a factor.
    pub async fn factors(&self, subject: Subject) -> Result<Option<Loaded<Factors>>, StoreError> {
        self.load(table::factors(subject)).await
    }

    /// Returns the user that a credential belongs to.
    pub async fn owner_of_credential(&self, id: &CredentialId) -> Result<Option<Subject>, StoreError> {
        let subject = self.load::<Subject>(credential_key(id)).await?;
        Ok(subject.map(|subject| subject.value))
    }

    /// Changes a user's factors. Repeats `change` on conflicts.
    ///
    /// An unchanged record is not written. `handle` is used for a new record, and must be random.
    pub async fn change_factors<T: Send>(
        &self,
        subject: Subject,
        handle: UserHandle,
        change: impl FnMut(&mut Factors) -> T + Send,
    ) -> Result<FactorsChanged<T>, StoreError> {
        self.change_factors_and(subject, handle, None, change).await
    }

    /// Changes a user's factors as [`Store::change_factors`] does, and opens the revocation in the
    /// same commit.
    pub async fn change_factors_with<T: Send>(
        &self,
        revocation: &Revocation,
        handle: UserHandle,
        change: impl FnMut(&mut Factors) -> T + Send,
    ) -> Result<FactorsChanged<T>, StoreError> {
        self.change_factors_and(revocation.subject, handle, Some(revocation), change).await
    }

    async fn change_factors_and<T: Send>(
        &self,
        subject: Subject,
        handle: UserHandle,
        revocation: Option<&Revocation>,
        mut change: impl FnMut(&mut Factors) -> T + Send,
    ) -> Result<FactorsChanged<T>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let loaded = self.factors(subject).await?;
            let mut next =
                loaded.as_ref().map_or_else(|| Factors::none(subject, handle), |factors| factors.value.clone());
            let result = change(&mut next);
            let changes = factors_changes(loaded.as_ref(), &next)?;
            let changes = self.opened_without_links(changes, revocation).await?;
            match self.commit_if_any(changes).await? {
                Committed::Yes => return Ok(FactorsChanged::Yes(result, Box::new(next))),
                Committed::Conflict => {
                    for key in added(loaded.as_ref().map(|factors| &factors.value), &next) {
                        if self.load::<Subject>(key).await?.is_some() {
                            return Ok(FactorsChanged::CredentialTaken);
                        }
                    }
                }
            }
        }
        Err(StoreError::Contended)
    }

    /// Replaces a user's factors and the progress of a pending request, in one commit.
    ///
    /// If two requests contain the same code or WebAuthn answer, one of them gets a conflict.
    pub async fn put_factors(
        &self,
        before: Option<&Loaded<Factors>>,
        next: &Factors,
        interaction: Option<(&Loaded<Interaction>, &Interaction)>,
    ) -> Result<Committed, StoreError> {
        let mut changes = factors_changes(before, next)?;
        if let Some((loaded, next)) = interaction {
            changes.merge(progress_changes(loaded, next)?);
        }
        self.commit_if_any(changes).await
    }

    async fn commit_if_any(&self, changes: Changes) -> Result<Committed, StoreError> {
        if changes.put.is_empty() && changes.delete.is_empty() {
            return Ok(Committed::Yes);
        }
        self.commit(changes).await
    }

    /// Returns the changes that delete the factors and the credential index entries of a user who is
    /// being deleted.
    ///
    /// The index entries of an unreadable record remain. They lead to no user.
    pub(crate) async fn factors_removal(&self, subject: Subject) -> Result<Changes, StoreError> {
        let key = table::factors(subject);
        let loaded = match self.factors(subject).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Ok(Changes { expect: vec![Expect::Absent(key)], ..Changes::default() }),
            Err(StoreError::Broken(_)) => return Ok(Changes { delete: vec![key], ..Changes::default() }),
            Err(error) => return Err(error),
        };
        let delete = std::iter::once(key).chain(credential_keys(&loaded.value)).collect();
        Ok(Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() })
    }

    /// Returns the factors of up to `limit` users whose `sub` is greater than `after`, in order.
    pub async fn all_factors(&self, after: Option<Subject>, limit: usize) -> Result<Vec<Factors>, StoreError> {
        let after = after.map(table::factors);
        let page: Vec<Loaded<Factors>> = self.page(&table::all(Table::Factors), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }
}

/// Returns the changes that replace the record with `next`, and update the credential index.
pub(crate) fn factors_changes(before: Option<&Loaded<Factors>>, next: &Factors) -> Result<Changes, StoreError> {
    let mut changes = match before {
        Some(loaded) if loaded.value == *next => Changes { expect: vec![loaded.unchanged()], ..Changes::default() },
        Some(loaded) => record::replace(loaded, next)?,
        None if *next == Factors::none(next.subject, next.handle) => Changes::default(),
        None => record::create(table::factors(next.subject), next)?,
    };
    let before = before.map(|loaded| &loaded.value);
    for key in added(before, next) {
        changes.expect.push(Expect::Absent(key.clone()));
        changes.put.push((key, record::encode(&next.subject)?));
    }
    if let Some(before) = before {
        changes.delete.extend(added(Some(next), before));
    }
    Ok(changes)
}

fn credential_key(id: &CredentialId) -> Key {
    table::credential(&SecretHash::for_secret(id.as_bytes()))
}

/// Returns the keys of a user's entries in the credential index.
pub(crate) fn credential_keys(factors: &Factors) -> Vec<Key> {
    factors.keys.iter().map(|key| credential_key(&key.credential.id)).collect()
}

/// Returns the keys of the credential index entries that `next` has and `before` does not.
fn added(before: Option<&Factors>, next: &Factors) -> Vec<Key> {
    let old_keys = before.map(credential_keys).unwrap_or_default();
    credential_keys(next).into_iter().filter(|key| !old_keys.contains(key)).collect()
}

impl Store {
    /// Seals the secret of an authenticator app of this user. `nonce` must be random and never
    /// reused.
    ///
    /// # Errors
    /// [`SealError::NoKey`] if there is no data key.
    pub fn seal_factor(
        &self,
        subject: Subject,
        factor: FactorId,
        nonce: [u8; NONCE_BYTES],
        secret: &[u8],
    ) -> Result<Sealed, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        sealing.sealer.seal(&table::factor_secret(subject, factor), nonce, secret)
    }

    /// Unseals the secret of an authenticator app of this user. If that fails, the user needs
    /// another factor.
    ///
    /// # Errors
    /// [`SealError::NoKey`] if there is no data key, [`SealError::OtherKey`],
    /// [`SealError::Altered`].
    pub fn open_factor(
        &self,
        subject: Subject,
        factor: FactorId,
        sealed: &Sealed,
    ) -> Result<Zeroizing<Vec<u8>>, SealError> {
        let sealing = self.sealing.as_ref().ok_or(SealError::NoKey)?;
        sealing.sealer.open(&table::factor_secret(subject, factor), sealed)
    }

    /// Returns the key of recovery code hashes, or `None` if there is no data key.
    ///
    /// It is derived from the data key, so codes that were created with another data key do not
    /// match.
    pub fn recovery_key(&self) -> Option<&RecoveryKey> {
        self.sealing.as_ref().map(|sealing| sealing.sealer.recovery_key())
    }

    /// Returns whether secrets can be stored encrypted, such as the seeds of authenticator apps.
    pub fn can_encrypt(&self) -> bool {
        self.sealing.is_some()
    }
}

/// Security key or passkey that was deleted from a user's factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAbandoned {
    pub subject: Subject,
    pub kind: FactorKind,
    pub name: String,
}

impl Store {
    /// Returns the host that keys are registered for. Returns `None` before the first start of a
    /// server.
    pub async fn relying_party(&self) -> Result<Option<String>, StoreError> {
        Ok(self.load(table::relying_party()).await?.map(|loaded| loaded.value))
    }

    /// Returns the host that keys are registered for. Returns `None` if no user has a key.
    pub async fn keys_of(&self) -> Result<Option<String>, StoreError> {
        if self.engine.scan(&table::all(Table::Credential), None, 1).await?.is_empty() {
            return Ok(None);
        }
        self.relying_party().await
    }

    /// Sets the host that keys are registered for. To be called before any registration.
    pub async fn set_relying_party(&self, host: &str) -> Result<(), StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let next = host.to_owned();
            let changes = match self.load::<String>(table::relying_party()).await? {
                Some(known) if known.value == next => return Ok(()),
                Some(known) => record::replace(&known, &next)?,
                None => record::create(table::relying_party(), &next)?,
            };
            if self.commit(changes).await? == Committed::Yes {
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }

    /// Counts the users with a security key or passkey. Reads all records, so requests must not
    /// call it.
    pub async fn users_with_keys(&self) -> Result<usize, StoreError> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.all_factors(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(count) };
            after = Some(last.subject);
            count += page.iter().filter(|factors| !factors.keys.is_empty()).count();
        }
    }

    /// Deletes the security keys and passkeys of all users. Each call processes one page of users.
    ///
    /// Returns the deleted keys, or an empty list at the end. To be called before the store is
    /// served.
    pub async fn abandon_keys(&self) -> Result<Vec<KeyAbandoned>, StoreError> {
        let mut after = None;
        loop {
            let page = self.all_factors(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(Vec::new()) };
            after = Some(last.subject);
            let mut abandoned_keys = Vec::new();
            for factors in page.iter().filter(|factors| !factors.keys.is_empty()) {
                let remove = |factors: &mut Factors| -> Vec<(FactorKind, String)> {
                    let ids: Vec<FactorId> = factors.keys.iter().map(|key| key.id).collect();
                    ids.into_iter().filter_map(|id| factors.remove(id)).collect()
                };
                let changed = self.change_factors(factors.subject, factors.handle, remove).await?;
                let FactorsChanged::Yes(removed, _) = changed else { continue };
                let subject = factors.subject;
                abandoned_keys.extend(removed.into_iter().map(|(kind, name)| KeyAbandoned { subject, kind, name }));
            }
            if !abandoned_keys.is_empty() {
                return Ok(abandoned_keys);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::MemoryEngine;
    use crate::sealer::Sealer;
    use sealgate_domain::recovery_code::{RECOVERY_CODE_BYTES, RECOVERY_CODES, RecoveryCodes};
    use sealgate_domain::time::UnixTime;

    const SECRET: [u8; 20] = [0x5e; 20];
    const APP: FactorId = FactorId::from_bytes([1; 16]);

    fn anna() -> Subject {
        Subject::from_random([1; 16])
    }

    async fn store(data_key: u8) -> Store {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        store.sealing_with(Sealer::new(&[data_key; 32]).unwrap(), 0).await.unwrap()
    }

    #[tokio::test]
    async fn a_secret_can_be_decrypted_only_for_its_owner_app_and_data_key() {
        let sealed = store(7).await.seal_factor(anna(), APP, [3; NONCE_BYTES], &SECRET).unwrap();
        assert_eq!(store(7).await.open_factor(anna(), APP, &sealed).unwrap().as_slice(), SECRET);

        let ben = Subject::from_random([2; 16]);
        assert_eq!(store(7).await.open_factor(ben, APP, &sealed), Err(SealError::Altered));
        let other_app = FactorId::from_bytes([2; 16]);
        assert_eq!(store(7).await.open_factor(anna(), other_app, &sealed), Err(SealError::Altered));
        assert_eq!(store(8).await.open_factor(anna(), APP, &sealed), Err(SealError::OtherKey));
    }

    #[tokio::test]
    async fn a_secret_cannot_be_decrypted_as_another_kind_of_record() {
        let sealer = Sealer::new(&[7; 32]).unwrap();
        let record = [&b"p"[..], anna().as_bytes(), APP.as_bytes()].concat();
        let form = sealer.seal(&record, [3; NONCE_BYTES], &SECRET).unwrap();
        assert_eq!(store(7).await.open_factor(anna(), APP, &form), Err(SealError::Altered));
    }

    #[tokio::test]
    async fn without_a_data_key_nothing_is_encrypted_or_decrypted() {
        let sealed = store(7).await.seal_factor(anna(), APP, [3; NONCE_BYTES], &SECRET).unwrap();
        let bare = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        assert_eq!(bare.seal_factor(anna(), APP, [3; NONCE_BYTES], &SECRET), Err(SealError::NoKey));
        assert_eq!(bare.open_factor(anna(), APP, &sealed), Err(SealError::NoKey));
        assert!(bare.recovery_key().is_none() && !bare.can_encrypt());
        assert!(store(7).await.can_encrypt());
    }

    #[tokio::test]
    async fn recovery_codes_depend_on_their_data_key() {
        let random = [[9; RECOVERY_CODE_BYTES]; RECOVERY_CODES];
        let (store_7, again, store_8) = (store(7).await, store(7).await, store(8).await);
        let (stored_codes, codes) =
            RecoveryCodes::new(store_7.recovery_key().unwrap(), anna(), &random, UnixTime::from_seconds(1));
        assert!(stored_codes.without(again.recovery_key().unwrap(), anna(), &codes[0]).is_some());
        assert!(stored_codes.without(store_8.recovery_key().unwrap(), anna(), &codes[0]).is_none());
        // The key of recovery code hashes is derived from the data key, and is not the data key
        // itself.
        assert!(stored_codes.without(&RecoveryKey::new(&[7; 32]), anna(), &codes[0]).is_none());
    }
}
