//! The host for which security keys and passkeys are registered (WebAuthn's RP ID).
//!
//! Browsers offer them for that host only, so under another host they cannot be used.

use crate::record;
use crate::table;
use crate::table::Table;
use crate::{Committed, FactorsChanged, MAX_CONFLICTS, PAGE, Store, StoreError};
use sealgate_domain::assurance::FactorId;
use sealgate_domain::factors::{FactorKind, Factors};
use sealgate_domain::user::Subject;

/// A key that was removed from a user's factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAbandoned {
    pub subject: Subject,
    pub kind: FactorKind,
    pub name: String,
}

impl Store {
    /// Returns the host for which keys are registered; `None` before a server has run.
    pub async fn relying_party(&self) -> Result<Option<String>, StoreError> {
        Ok(self.load(table::relying_party()).await?.map(|loaded| loaded.value))
    }

    /// Returns the host for which keys are registered, if any user has one.
    pub async fn keys_of(&self) -> Result<Option<String>, StoreError> {
        if self.engine.scan(&table::all(Table::Credential), None, 1).await?.is_empty() {
            return Ok(None);
        }
        self.relying_party().await
    }

    /// Sets the host for which keys are registered. Call it before any registration.
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

    /// Counts the users with a security key or passkey. Reads all records: not for requests.
    pub async fn people_with_keys(&self) -> Result<usize, StoreError> {
        let (mut count, mut after) = (0, None);
        loop {
            let page = self.all_factors(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(count) };
            after = Some(last.subject);
            count += page.iter().filter(|factors| !factors.keys.is_empty()).count();
        }
    }

    /// Removes all users' security keys and passkeys, a page of users per call.
    ///
    /// Returns the removed keys; empty at the end. For a store that is not served yet.
    pub async fn abandon_keys(&self) -> Result<Vec<KeyAbandoned>, StoreError> {
        let mut after = None;
        loop {
            let page = self.all_factors(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(Vec::new()) };
            after = Some(last.subject);
            let mut gone = Vec::new();
            for factors in page.iter().filter(|factors| !factors.keys.is_empty()) {
                let remove = |factors: &mut Factors| -> Vec<(FactorKind, String)> {
                    let ids: Vec<FactorId> = factors.keys.iter().map(|key| key.id).collect();
                    ids.into_iter().filter_map(|id| factors.remove(id)).collect()
                };
                let changed = self.change_factors(factors.subject, factors.handle, remove).await?;
                let FactorsChanged::Yes(removed, _) = changed else { continue };
                let subject = factors.subject;
                gone.extend(removed.into_iter().map(|(kind, name)| KeyAbandoned { subject, kind, name }));
            }
            if !gone.is_empty() {
                return Ok(gone);
            }
        }
    }
}
