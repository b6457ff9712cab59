//! Browsers from which users have signed in before: one small record per user.

use crate::engine::Changes;
use crate::record;
use crate::table;
use crate::{Committed, MAX_CONFLICTS, Store, StoreError};
use sealgate_domain::known_browser::KnownBrowsers;
use sealgate_domain::secret::SecretHash;
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

impl Store {
    /// Returns the browsers from which this user has signed in; none if there is no such user.
    pub async fn known_browsers(&self, subject: Subject) -> Result<KnownBrowsers, StoreError> {
        let loaded = self.load(table::known_browsers(subject)).await?;
        Ok(loaded.map_or_else(|| KnownBrowsers::none(subject), |loaded| loaded.value))
    }

    /// Records a sign-in from the browser with this mark, which replaces its previous one.
    pub async fn learn_browser(
        &self,
        subject: Subject,
        mark: SecretHash,
        replaced: Option<SecretHash>,
        now: UnixTime,
    ) -> Result<(), StoreError> {
        let key = table::known_browsers(subject);
        for _ in 0..MAX_CONFLICTS {
            let changes = if let Some(loaded) = self.load::<KnownBrowsers>(key.clone()).await? {
                let mut next = loaded.value.clone();
                next.learn(mark, replaced, now);
                record::replace(&loaded, &next)?
            } else {
                let mut first = KnownBrowsers::none(subject);
                first.learn(mark, None, now);
                let mut changes = record::create(key.clone(), &first)?;
                changes.put.push((table::expiry(first.expires_at, &key), Vec::new()));
                changes
            };
            if self.commit(changes).await? == Committed::Yes {
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }

    /// Removes the browsers of this user, except for the one with the mark `kept`.
    pub async fn forget_browsers(&self, subject: Subject, kept: Option<SecretHash>) -> Result<(), StoreError> {
        let Some(kept) = kept else {
            // Its expiry entry is dangling then, and garbage collection removes it.
            let delete = vec![table::known_browsers(subject)];
            return self.write(Changes { delete, ..Changes::default() }).await;
        };
        self.change_browsers(subject, |known| known.keep(kept)).await
    }

    /// Removes one of them.
    pub async fn forget_browser(&self, subject: Subject, mark: SecretHash) -> Result<(), StoreError> {
        self.change_browsers(subject, |known| known.forget(mark)).await
    }

    async fn change_browsers(
        &self,
        subject: Subject,
        change: impl Fn(&mut KnownBrowsers) + Send,
    ) -> Result<(), StoreError> {
        for _ in 0..MAX_CONFLICTS {
            let Some(loaded) = self.load::<KnownBrowsers>(table::known_browsers(subject)).await? else { return Ok(()) };
            let mut next = loaded.value.clone();
            change(&mut next);
            if next == loaded.value || self.commit(record::replace(&loaded, &next)?).await? == Committed::Yes {
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }
}
