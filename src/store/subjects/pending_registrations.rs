//! Self-registrations of users whose e-mail address is not verified yet.
//!
//! The number of pending registrations is limited. At the limit, no registration can begin until
//! another registration has ended.

use crate::engine::{Changes, Expect};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::subjects::factors::factors_changes;
use crate::subjects::outbox::add_mails;
use crate::subjects::registry::user_creation;
use crate::{Committed, Store, StoreError};
use sealgate_domain::factors::Factors;
use sealgate_domain::mail::WaitingMail;
use sealgate_domain::pending_registration::PendingRegistration;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::user::User;

/// Maximum number of pending registrations. The server sends at most 60 of their e-mails per
/// minute, and a registration lasts an hour.
const MAX_PENDING: usize = 10_000;

impl Store {
    /// Returns whether another registration can begin.
    pub fn has_room_for_registration(&self) -> bool {
        self.pending_registrations.total() < MAX_PENDING && self.has_room_for_mail(1)
    }

    /// Stores a registration, in one commit with the e-mail that contains its code.
    ///
    /// `id` is the hash of the browser's token. Returns false if a limit is reached.
    pub async fn begin_registration(
        &self,
        id: &SecretHash,
        pending: &PendingRegistration,
        mail: &WaitingMail,
    ) -> Result<bool, StoreError> {
        if !self.has_room_for_mail(1) {
            return Ok(false);
        }
        // Increment the total before writing the record. Otherwise concurrent requests could all
        // pass the limit.
        let reservation = self.pending_registrations.reserve(1);
        if reservation.before >= MAX_PENDING {
            reservation.cancel();
            return Ok(false);
        }
        let written = async {
            let mut changes = creation(id, pending)?;
            add_mails(&mut changes, std::slice::from_ref(mail))?;
            self.commit_with_mails(changes, std::slice::from_ref(mail)).await
        };
        match written.await {
            Ok(Committed::Yes) => Ok(true),
            Ok(Committed::Conflict) => {
                reservation.cancel();
                Err(StoreError::Contended)
            }
            Err(error) => {
                reservation.cancel();
                Err(error)
            }
        }
    }

    /// Does the work of [`Store::begin_registration`] without storing anything, so that the
    /// duration does not reveal that no registration has begun.
    pub async fn begin_no_registration(
        &self,
        id: &SecretHash,
        pending: &PendingRegistration,
        mail: &WaitingMail,
    ) -> Result<(), StoreError> {
        let mut changes = creation(id, pending)?;
        add_mails(&mut changes, std::slice::from_ref(mail))?;
        changes.delete = std::mem::take(&mut changes.put).into_iter().map(|(key, _)| key).collect();
        self.write(changes).await
    }

    /// Returns the registration whose browser token has this hash.
    pub async fn pending_registration(
        &self,
        id: &SecretHash,
    ) -> Result<Option<Loaded<PendingRegistration>>, StoreError> {
        self.load(table::pending_registration(id)).await
    }

    /// Replaces a registration.
    pub async fn change_registration(
        &self,
        loaded: &Loaded<PendingRegistration>,
        next: &PendingRegistration,
    ) -> Result<Committed, StoreError> {
        self.commit(record::replace(loaded, next)?).await
    }

    /// Moves a registration to another id, so that the browser's previous token becomes invalid.
    pub async fn move_registration(
        &self,
        loaded: &Loaded<PendingRegistration>,
        id: &SecretHash,
        next: &PendingRegistration,
    ) -> Result<Committed, StoreError> {
        let mut changes = removal(loaded);
        changes.merge(creation(id, next)?);
        self.commit(changes).await
    }

    /// Deletes a registration.
    pub async fn drop_registration(&self, loaded: &Loaded<PendingRegistration>) -> Result<Committed, StoreError> {
        let committed = self.commit(removal(loaded)).await?;
        if committed == Committed::Yes {
            self.pending_registration_gone();
        }
        Ok(committed)
    }

    /// Creates the account, with its passkey if there is one, and deletes the registration, in one
    /// commit.
    ///
    /// Returns `Conflict` if the e-mail address or the passkey is taken, or if the account was
    /// already created.
    pub async fn finish_registration(
        &self,
        loaded: &Loaded<PendingRegistration>,
        user: &User,
        factors: Option<&Factors>,
    ) -> Result<Committed, StoreError> {
        let mut changes = removal(loaded);
        changes.merge(user_creation(user)?);
        if let Some(factors) = factors {
            changes.merge(factors_changes(None, factors)?);
        }
        let committed = self.commit(changes).await?;
        if committed == Committed::Yes {
            self.pending_registration_gone();
        }
        Ok(committed)
    }

    /// Counts the registrations and corrects the total, because other processes may have deleted
    /// registrations.
    pub async fn count_pending_registrations(&self) -> Result<(), StoreError> {
        if !self.is_shared() {
            self.pending_registrations.set(self.count(Table::PendingRegistration).await?);
        }
        Ok(())
    }

    pub(crate) fn pending_registration_gone(&self) {
        self.pending_registrations.subtract_one();
    }
}

fn creation(id: &SecretHash, pending: &PendingRegistration) -> Result<Changes, StoreError> {
    let key = table::pending_registration(id);
    let mut changes = record::create(key.clone(), pending)?;
    changes.put.push((table::expiry(pending.expires_at, &key), Vec::new()));
    Ok(changes)
}

/// Returns the changes that delete a registration and its expiry entry.
fn removal(loaded: &Loaded<PendingRegistration>) -> Changes {
    let expect: Vec<Expect> = vec![loaded.unchanged()];
    let delete = vec![loaded.key().clone(), table::expiry(loaded.value.expires_at, loaded.key())];
    Changes { expect, delete, ..Changes::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::MemoryEngine;
    use sealgate_domain::mail::{MailId, MailKind};
    use sealgate_domain::secret::Sealed;
    use sealgate_domain::time::UnixTime;
    use sealgate_domain::user::Email;

    fn pending() -> PendingRegistration {
        let address = Email::parse("ceren@example.test").unwrap();
        PendingRegistration::new(address, SecretHash::for_secret(b"code"), UnixTime::from_seconds(1000))
    }

    fn mail(number: u8) -> WaitingMail {
        let (id, sealed) = (MailId::from_bytes([number; 16]), Sealed::from_bytes(vec![1]));
        WaitingMail::new(id, MailKind::AddressWanted, None, sealed, UnixTime::from_seconds(1000))
    }

    #[tokio::test]
    async fn pending_entries_have_a_limit_and_free_their_place() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        store.pending_registrations.set(MAX_PENDING - 1);
        let ids = [1, 2, 3].map(|number| SecretHash::for_secret(&[number]));
        assert!(store.begin_registration(&ids[0], &pending(), &mail(1)).await.unwrap());
        assert!(!store.has_room_for_registration());
        assert!(!store.begin_registration(&ids[1], &pending(), &mail(2)).await.unwrap());
        // A registration that has moved to another id is still counted once.
        let loaded = store.pending_registration(&ids[0]).await.unwrap().unwrap();
        assert_eq!(store.move_registration(&loaded, &ids[1], &pending()).await.unwrap(), Committed::Yes);
        assert!(store.pending_registration(&ids[0]).await.unwrap().is_none());
        assert!(!store.has_room_for_registration());
        let loaded = store.pending_registration(&ids[1]).await.unwrap().unwrap();
        assert_eq!(store.drop_registration(&loaded).await.unwrap(), Committed::Yes);
        assert!(store.begin_registration(&ids[2], &pending(), &mail(3)).await.unwrap());
        assert!(!store.has_room_for_registration());
        let swept = store.sweep(UnixTime::from_seconds(1000 + 3660), 100).await.unwrap();
        assert!(swept.removed >= 1 && store.has_room_for_registration(), "{swept:?}");
        assert!(store.pending_registration(&ids[2]).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_refused_registration_stores_nothing() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        let id = SecretHash::for_secret(b"one");
        store.begin_no_registration(&id, &pending(), &mail(1)).await.unwrap();
        assert!(store.pending_registration(&id).await.unwrap().is_none());
        assert_eq!(store.count_outbox().await.unwrap().waiting, 0);
    }
}
