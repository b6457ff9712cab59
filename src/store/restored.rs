//! What a restored backup may not bring back. It was made before some codes were used, refresh tokens rotated, sessions
//! ended and grants revoked: all of these would work again. So codes, sessions, application passwords and recovery codes go, and
//! grants end; people sign in anew. What they have of other factors stays: without it their passwords alone would do.
//!
//! A grant cannot be kept for the newer refresh tokens that clients hold: the backup does not know their hashes, and the
//! number of a generation proves nothing, since whoever holds an older token knows all that a newer one shows of itself.

use crate::domain::grant::{EndReason, Grant};
use crate::domain::session::Session;
use crate::domain::time::UnixTime;
use crate::factors::Factors;
use crate::store::engine::{Changes, Key};
use crate::store::record;
use crate::store::table::{self, Table};
use crate::store::{Committed, Store, StoreError, sessions};

/// Records in one step: see the sled engine on the size of a batch.
const STEP: usize = 64;

/// What was taken back after a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Authorization codes that were removed.
    pub codes: usize,
    /// Sessions that were removed.
    pub sessions: usize,
    pub grants: usize,
}

impl Store {
    /// Takes back what a backup must not revive. For a store that nobody serves yet.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub async fn take_back_after_restore(&self, now: UnixTime) -> Result<Restored, StoreError> {
        let codes = self.clear(Table::Code).await?;
        let sessions = self.clear(Table::Session).await?;
        // Among the application passwords may be some that were taken back since.
        // Mails would be sent again, with links that were used since.
        let gone = [
            Table::AppSession,
            Table::Interaction,
            Table::SignInAttempt,
            Table::Form,
            Table::AppPasswords,
            Table::Outbox,
            Table::DeadMail,
            // Of mails that wait no more: they would keep notices back.
            Table::NoticeCount,
            Table::AccountLinks,
            Table::PendingRegistration,
            // Results of forms, sealed for sessions that are gone.
            Table::Submission,
            // Initial access tokens, which may have been used since.
            Table::Once,
        ];
        for table in gone {
            self.clear(table).await?;
        }
        self.clear_form_ages().await?;
        self.take_recovery_codes_back().await?;
        Ok(Restored { codes, sessions, grants: self.end_all_grants(now).await? })
    }

    /// Some of them may have been used since. And what was being enrolled belonged to sessions that are gone.
    async fn take_recovery_codes_back(&self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = self.all_factors(after, STEP).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.subject);
            for factors in page.iter().filter(|factors| factors.recovery.is_some() || !factors.pending.is_empty()) {
                let take_back = |factors: &mut Factors| {
                    factors.recovery = None;
                    factors.pending.clear();
                };
                // No credential is added, so none can be taken.
                let _ = self.change_factors(factors.subject, factors.handle, take_back).await?;
            }
        }
    }

    /// Removes all records of a table. Their entries in the expiry index lead nowhere then, and the sweeper removes them.
    async fn clear(&self, table: Table) -> Result<usize, StoreError> {
        let mut cleared = 0;
        loop {
            let rows = self.engine.scan(&table::all(table), None, STEP).await?;
            if rows.is_empty() {
                return Ok(cleared);
            }
            cleared += rows.len();
            let mut delete = Vec::new();
            for (key, bytes) in rows {
                if table == Table::Session {
                    delete.extend(sessions::entries(&record::decode::<Session>(&key, bytes)?.value));
                }
                delete.push(key);
            }
            self.write(Changes { delete, ..Changes::default() }).await?;
        }
    }

    async fn clear_form_ages(&self) -> Result<(), StoreError> {
        loop {
            let rows = self.engine.scan(&table::form_ages(), None, STEP).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let delete = rows.into_iter().map(|(key, _)| key).collect();
            self.write(Changes { delete, ..Changes::default() }).await?;
        }
    }

    async fn end_all_grants(&self, now: UnixTime) -> Result<usize, StoreError> {
        let (mut ended, mut after) = (0, None::<Key>);
        loop {
            let grants = self.page::<Grant>(&table::all(Table::Grant), after.as_deref(), STEP).await?;
            let Some(last) = grants.last() else { return Ok(ended) };
            after = Some(last.key().clone());
            let mut changes = Changes::default();
            for grant in grants.iter().filter(|grant| grant.value.is_active()) {
                let next = record::replace(grant, &grant.value.ended(now, EndReason::Restored))?;
                changes.expect.extend(next.expect);
                changes.put.extend(next.put);
            }
            ended += changes.put.len();
            if self.commit(changes).await? == Committed::Conflict {
                return Err(StoreError::Contended);
            }
        }
    }
}
