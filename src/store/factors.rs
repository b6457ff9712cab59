//! Factors: one record a person, and an index from credentials to their owners, which follows from the records.

use crate::domain::secret::SecretHash;
use crate::domain::user::Subject;
use crate::factors::Factors;
use crate::oauth::next_step::Interaction;
use crate::store::engine::{Changes, Expect, Key};
use crate::store::interactions::progress_changes;
use crate::store::record::{self, Loaded};
use crate::store::revocations::{Revocation, opened};
use crate::store::table::{self, Table};
use crate::store::{Committed, MOST_CONFLICTS, PAGE, Store, StoreError};
use crate::webauthn::{CredentialId, UserHandle};

/// How a change of somebody's factors ended.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub(crate) enum FactorsChanged<T> {
    /// What the change yielded, and the record as it is now.
    Yes(T, Box<Factors>),
    /// A credential that was to be added belongs to somebody already; nothing changed.
    CredentialTaken,
}

impl Store {
    /// The factors of this person, where there ever were any.
    pub async fn factors(&self, subject: Subject) -> Result<Option<Loaded<Factors>>, StoreError> {
        self.load(table::factors(subject)).await
    }

    /// Whose credential this is.
    pub async fn owner_of_credential(&self, id: &CredentialId) -> Result<Option<Subject>, StoreError> {
        let found = self.load::<Subject>(credential_key(id)).await?;
        Ok(found.map(|found| found.value))
    }

    /// Changes somebody's factors, whatever races with it: the change is made anew on what was written meanwhile. A record that
    /// does not change is not written. `handle`: random, for a first record.
    pub(crate) async fn change_factors<T: Send>(
        &self,
        subject: Subject,
        handle: UserHandle,
        change: impl FnMut(&mut Factors) -> T + Send,
    ) -> Result<FactorsChanged<T>, StoreError> {
        self.change_factors_and(subject, handle, None, change).await
    }

    /// Changes somebody's factors as [`Store::change_factors`] does, and opens the revocation in the same commit.
    pub(crate) async fn change_factors_with<T: Send>(
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
        for _ in 0..MOST_CONFLICTS {
            let loaded = self.factors(subject).await?;
            let mut next = loaded.as_ref().map_or_else(|| Factors::none(subject, handle), |found| found.value.clone());
            let made = change(&mut next);
            let changes = opened(factors_changes(loaded.as_ref(), &next)?, revocation)?;
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

    /// Writes somebody's factors over what was read, in one commit with what the person thereby did for a waiting request: two
    /// who bring the same code or answer find that one of them did.
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

    /// Removes all of a person's, with the entries that lead to them, for somebody who is removed.
    pub(super) async fn remove_factors(&self, subject: Subject) -> Result<(), StoreError> {
        for _ in 0..MOST_CONFLICTS {
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

    /// Up to `limit` people's factors in the order of their `sub`, after `after`.
    pub async fn all_factors(&self, after: Option<Subject>, limit: usize) -> Result<Vec<Factors>, StoreError> {
        let after = after.map(table::factors);
        let page: Vec<Loaded<Factors>> = self.page(&table::all(Table::Factors), after.as_deref(), limit).await?;
        Ok(page.into_iter().map(|loaded| loaded.value).collect())
    }

    /// How many people have a factor. Reads all records: not for a request.
    pub async fn count_people_with_factors(&self) -> Result<usize, StoreError> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.all_factors(after, PAGE).await?;
            count += page.iter().filter(|factors| factors.has_any()).count();
            after = match page.last() {
                Some(last) => Some(last.subject),
                None => return Ok(count),
            };
        }
    }
}

/// What makes one record of the other, with the index of credentials.
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

/// The entries of the index that lead to a person by their credentials.
pub(super) fn credential_keys(factors: &Factors) -> Vec<Key> {
    factors.keys.iter().map(|key| credential_key(&key.credential.id)).collect()
}

/// The entries that `next` has and `before` has not.
fn added(before: Option<&Factors>, next: &Factors) -> Vec<Key> {
    let known = before.map(credential_keys).unwrap_or_default();
    credential_keys(next).into_iter().filter(|key| !known.contains(key)).collect()
}
