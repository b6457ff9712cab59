//! Application passwords: one small record per user.

use crate::engine::Changes;
use crate::format::{record, table};
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::app_password::{AppPassword, AppPasswords};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Outcome of adding an application password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum AppPasswordAdded {
    Yes,
    /// The user has the maximum number of application passwords.
    Full,
}

impl Store {
    /// Returns the user's application passwords. The set is empty if there is no such user.
    pub async fn app_passwords(&self, subject: Subject) -> Result<AppPasswords, StoreError> {
        let loaded = self.load(table::app_passwords(subject)).await?;
        Ok(loaded.map_or_else(|| AppPasswords::none(subject), |loaded| loaded.value))
    }

    /// Adds an application password. Retries on conflicts.
    pub async fn add_app_password(
        &self,
        subject: Subject,
        password: &AppPassword,
    ) -> Result<AppPasswordAdded, StoreError> {
        let key = table::app_passwords(subject);
        for _ in 0..MAX_CONFLICTS {
            let changes = if let Some(loaded) = self.load::<AppPasswords>(key.clone()).await? {
                let mut next = loaded.value.clone();
                if !next.has_room() {
                    return Ok(AppPasswordAdded::Full);
                }
                next.passwords.push(password.clone());
                record::replace(&loaded, &next)?
            } else {
                let first = AppPasswords { subject, passwords: vec![password.clone()] };
                record::create(key.clone(), &first)?
            };
            if self.commit(changes).await? == Committed::Yes {
                return Ok(AppPasswordAdded::Yes);
            }
        }
        Err(StoreError::Contended)
    }

    /// Revokes an application password and returns it. Later requests with it are refused.
    pub async fn revoke_app_password(&self, subject: Subject, id: &str) -> Result<Option<AppPassword>, StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.load::<AppPasswords>(table::app_passwords(subject)).await? else { return Ok(None) };
            let mut next = loaded.value.clone();
            let Some(at) = next.passwords.iter().position(|password| password.id() == id) else { return Ok(None) };
            let removed = next.passwords.remove(at);
            if self.commit(record::replace(&loaded, &next)?).await? == Committed::Yes {
                return Ok(Some(removed));
            }
        }
        Err(StoreError::Contended)
    }

    /// Revokes all application passwords of a user.
    pub async fn end_app_passwords(&self, subject: Subject) -> Result<(), StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.load::<AppPasswords>(table::app_passwords(subject)).await? else { return Ok(()) };
            let delete = vec![loaded.key().clone()];
            let changes = Changes { expect: vec![loaded.unchanged()], delete, ..Changes::default() };
            if self.commit(changes).await? == Committed::Yes {
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }

    /// Records that the application password with this hash was used.
    pub async fn note_app_password(&self, subject: Subject, hash: &[u8; 32], now: UnixTime) -> Result<(), StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.load::<AppPasswords>(table::app_passwords(subject)).await? else { return Ok(()) };
            let mut next = loaded.value.clone();
            let has_hash = |password: &&mut AppPassword| password.hash.as_bytes() == hash;
            let Some(used) = next.passwords.iter_mut().find(has_hash) else { return Ok(()) };
            used.last_used_at = Some(now);
            if self.commit(record::replace(&loaded, &next)?).await? == Committed::Yes {
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }
}
