//! Factors: one record per user, and a derived index from credentials to users.

use crate::engine::{Changes, Expect, Key};
use crate::interactions::progress_changes;
use crate::record;
use crate::record::Loaded;
use crate::revocations::Revocation;
use crate::table;
use crate::table::Table;
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::factors::Factors;
use sealgate_domain::oauth::next_step::Interaction;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::user::Subject;
use sealgate_domain::webauthn::{CredentialId, UserHandle};

/// Outcome of a change of a user's factors.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum FactorsChanged<T> {
    /// The result of the change, and the new record.
    Yes(T, Box<Factors>),
    /// A credential to be added belongs to a user already; nothing changed.
    CredentialTaken,
}

impl Store {
    /// Returns the factors of this user, if there ever were any.
    pub async fn factors(&self, subject: Subject) -> Result<Option<Loaded<Factors>>, StoreError> {
        self.load(table::factors(subject)).await
    }

    /// Returns the owner of a credential.
    pub async fn owner_of_credential(&self, id: &CredentialId) -> Result<Option<Subject>, StoreError> {
        let found = self.load::<Subject>(credential_key(id)).await?;
        Ok(found.map(|found| found.value))
    }

    /// Changes a user's factors, retrying the change on conflicts.
    ///
    /// An unchanged record is not written. `handle`: random, for a first record.
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
            let mut next = loaded.as_ref().map_or_else(|| Factors::none(subject, handle), |found| found.value.clone());
            let made = change(&mut next);
            let changes = factors_changes(loaded.as_ref(), &next)?;
            let changes = self.opened_without_links(changes, revocation).await?;
            match self.commit_if_any(changes).await? {
                Committed::Yes => return Ok(FactorsChanged::Yes(made, Box::new(next))),
                Committed::Conflict => {
                    for key in added(loaded.as_ref().map(|found| &found.value), &next) {
                        if self.load::<Subject>(key).await?.is_some() {
                            return Ok(FactorsChanged::CredentialTaken);
                        }
                    }
                }
            }
        }
        Err(StoreError::Contended)
    }

    /// Replaces a user's factors, in one commit with the progress of a pending request.
    ///
    /// If two requests present the same code or answer, one gets a conflict.
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

    /// Removes all factors and credential entries of a user who is being deleted.
    pub(super) async fn remove_factors(&self, subject: Subject) -> Result<(), StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.factors(subject).await? else { return Ok(()) };
            let mut delete = vec![loaded.key().clone()];
            delete.extend(credential_keys(&loaded.value));
            let changes = Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() };
            if self.commit(changes).await? == Committed::Yes {
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }

    /// Returns up to `limit` users' factors in order of their `sub`, after `after`.
    pub async fn all_factors(&self, after: Option<Subject>, limit: usize) -> Result<Vec<Factors>, StoreError> {
        let after = after.map(table::factors);
        let page: Vec<Loaded<Factors>> = self.page(&table::all(Table::Factors), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }
}

/// Returns the changes from one record to the other, with the credential index.
pub(super) fn factors_changes(before: Option<&Loaded<Factors>>, next: &Factors) -> Result<Changes, StoreError> {
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
    table::credential(&SecretHash::of(id.as_bytes()))
}

/// Returns a user's entries in the credential index.
pub(super) fn credential_keys(factors: &Factors) -> Vec<Key> {
    factors.keys.iter().map(|key| credential_key(&key.credential.id)).collect()
}

/// Returns the entries of `next` that `before` lacks.
fn added(before: Option<&Factors>, next: &Factors) -> Vec<Key> {
    let known = before.map(credential_keys).unwrap_or_default();
    credential_keys(next).into_iter().filter(|key| !known.contains(key)).collect()
}
