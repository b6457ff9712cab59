//! Revocation of access after a backup was restored.
//!
//! After the backup was made, codes were redeemed, refresh tokens rotated, sessions ended and
//! grants revoked. The backup would make all of these valid again. Therefore codes, sessions,
//! application passwords and recovery codes are deleted, and all grants end. Users must sign in
//! again. Their other factors are kept, because otherwise the password alone would suffice. Their
//! passwords at applications are kept, because they give no access to Sealgate.
//!
//! Grants cannot be kept for clients that have newer refresh tokens, because the backup lacks the
//! hashes of those tokens. The generation number in such a token proves nothing: the holder of an
//! older token can derive all parts of a newer token except its secret.

use crate::engine::{Changes, Key};
use crate::format::table::Table;
use crate::format::{record, table};
use crate::subjects::sessions;
use crate::{Committed, Store, StoreError};
use sealgate_domain::factors::Factors;
use sealgate_domain::grant::{EndReason, Grant};
use sealgate_domain::session::{AppSession, Session};
use sealgate_domain::time::UnixTime;

/// Number of records per commit. The sled engine limits the size of a batch.
const RECORDS_PER_COMMIT: usize = 64;

/// Numbers of records that were revoked after a restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// Deleted authorization codes.
    pub codes: usize,
    /// Deleted sessions.
    pub sessions: usize,
    pub grants: usize,
}

impl Store {
    /// Revokes all access that a restored backup must not give. To be called before the store is
    /// served.
    ///
    /// # Errors
    /// Returns the store's error. The call can then be repeated.
    pub async fn take_back_after_restore(&self, now: UnixTime) -> Result<Restored, StoreError> {
        let codes = self.clear(Table::Code).await?;
        let sessions = self.clear(Table::Session).await?;
        // Sessions, links and passwords may have been revoked or used since the backup. E-mails
        // would be sent again.
        let tables = [
            Table::AppSession,
            Table::Interaction,
            Table::SignInAttempt,
            Table::Form,
            Table::AppPasswords,
            Table::Outbox,
            Table::DeadMail,
            // Counts of notifications belong to deleted e-mails, and would delay new notifications.
            Table::NoticeCount,
            Table::AccountLinks,
            Table::PendingRegistration,
            // Results of submitted forms are sealed for sessions that are deleted.
            Table::Submission,
            // Logout tokens would be sent again.
            Table::ClientLogout,
            // Tokens may have been revoked since the backup.
            Table::ApiToken,
            // Initial access tokens may have been used since the backup.
            Table::RegistrationToken,
            // So may other items that work once.
            Table::Once,
        ];
        for table in tables {
            self.clear(table).await?;
        }
        self.clear_form_ages().await?;
        self.take_recovery_codes_back().await?;
        Ok(Restored { codes, sessions, grants: self.end_all_grants(now).await? })
    }

    /// Removes recovery codes, because they may have been used since the backup. Also removes
    /// unfinished enrolments, because they belong to removed sessions.
    async fn take_recovery_codes_back(&self) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let page = self.all_factors(after, RECORDS_PER_COMMIT).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.subject);
            for factors in page.iter().filter(|factors| factors.recovery.is_some() || !factors.pending.is_empty()) {
                let take_back = |factors: &mut Factors| {
                    factors.recovery = None;
                    factors.pending.clear();
                };
                // No credential is added, so this cannot conflict with another user's credential.
                let _ = self.change_factors(factors.subject, factors.handle, take_back).await?;
            }
        }
    }

    /// Deletes all records of a table. Their entries in the expiry index are left to garbage
    /// collection.
    async fn clear(&self, table: Table) -> Result<usize, StoreError> {
        let mut cleared = 0;
        loop {
            let rows = self.engine.scan(&table::all(table), None, RECORDS_PER_COMMIT).await?;
            if rows.is_empty() {
                return Ok(cleared);
            }
            cleared += rows.len();
            let mut delete = Vec::new();
            for (key, bytes) in rows {
                if table == Table::Session {
                    delete.extend(sessions::entries(&record::decode::<Session>(&key, bytes)?.value));
                } else if table == Table::AppSession {
                    delete.push(sessions::app_session_entry(&record::decode::<AppSession>(&key, bytes)?.value));
                }
                delete.push(key);
            }
            self.write(Changes { delete, ..Changes::default() }).await?;
        }
    }

    async fn clear_form_ages(&self) -> Result<(), StoreError> {
        loop {
            let rows = self.engine.scan(&table::form_ages(), None, RECORDS_PER_COMMIT).await?;
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
            let grants = self.page::<Grant>(&table::all(Table::Grant), after.as_deref(), RECORDS_PER_COMMIT).await?;
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
