//! Garbage collection: deletes expired records, a limited number in each pass.
//!
//! Correctness does not depend on it, because every read checks the expiry.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::cluster::leases::Fence;
use crate::engine::{Changes, EngineError, Expect, Key, Value};
use crate::format::record::Loaded;
use crate::format::table::Table;
use crate::format::{record, table};
use crate::subjects::client_logouts::index_features;
use crate::subjects::interactions::{kept_until, pending_entry};
use crate::subjects::revocations::Revocation;
use crate::subjects::{grants, sessions};
use crate::{Committed, PAGE, Store, StoreError};
use sealgate_domain::client::{Client, ClientId};
use sealgate_domain::grant::Grant;
use sealgate_domain::oauth::next_step::Interaction;
use sealgate_domain::secret::base64url;
use sealgate_domain::session::{AppSession, Session};
use sealgate_domain::time::UnixTime;

/// Time after which an unreadable record is read again.
const RETRY_DELAY: Duration = Duration::from_hours(24);

/// Maximum number of records per commit.
const RECORDS_PER_COMMIT: usize = 64;

/// Interval at which a pass starts at the beginning of the expiry index again.
const RESTART_INTERVAL: Duration = Duration::from_hours(1);

/// Result of a pass of garbage collection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Number of deleted records.
    pub removed: usize,
    /// Number of records that now expire later than their entry in the expiry index. They got a new
    /// entry.
    pub rescheduled: usize,
    /// Deleted clients, which were self-registered and never used.
    pub clients: Vec<ClientId>,
    /// Whether more records may be due.
    pub more: bool,
    /// Whether another node has acquired the lease.
    pub superseded: bool,
}

/// Field that all expiring records have.
#[derive(Deserialize)]
struct Expires {
    expires_at: UnixTime,
}

/// Returns the minute before which entries are due.
fn due(now: UnixTime) -> u32 {
    u32::try_from(now.seconds() / 60).unwrap_or(u32::MAX)
}

/// Position in the expiry index between two passes. All entries before it were deleted.
///
/// Without the position, a database would read all deleted rows at the beginning of the index until
/// they are vacuumed.
#[derive(Debug, Default)]
pub struct SweepPlace {
    after: Option<Key>,
    /// Time of the last pass that started at the beginning.
    started_at: Option<Instant>,
}

impl SweepPlace {
    /// Returns the entry after which to continue. Returns `None` once an hour, because a node with
    /// a slow clock may have added an earlier entry.
    fn after(&mut self) -> Option<&[u8]> {
        if self.started_at.is_none_or(|start| start.elapsed() >= RESTART_INTERVAL) {
            *self = Self { after: None, started_at: Some(Instant::now()) };
        }
        self.after.as_deref()
    }
}

/// Changes for one due entry of the expiry index.
struct SweepDecision {
    /// Position of the entry among the entries read.
    number: usize,
    expect: Vec<Expect>,
    put: Vec<(Key, Value)>,
    delete: Vec<Key>,
    /// Table of a deleted record. `None` if the record is kept.
    removed: Option<u8>,
}

impl SweepDecision {
    fn add_to(&self, changes: &mut Changes) {
        changes.expect.extend_from_slice(&self.expect);
        changes.put.extend_from_slice(&self.put);
        changes.delete.extend_from_slice(&self.delete);
    }
}

/// Due entry, with its record as read.
struct Due<'e> {
    number: usize,
    entry: &'e Key,
    record: &'e [u8],
    stored: Result<Option<Value>, StoreError>,
}

impl Store {
    /// Runs [`Store::sweep_on`] from the beginning of the index. Only for a process that uses the
    /// store alone.
    pub async fn sweep(&self, now: UnixTime, most: usize) -> Result<Swept, StoreError> {
        self.sweep_on(&mut SweepPlace::default(), &Fence::default(), now, most).await
    }

    /// Reads up to `most` due entries and deletes the expired records, [`RECORDS_PER_COMMIT`] in each commit.
    ///
    /// If a commit conflicts, each of its records is deleted in its own commit.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn sweep_on(
        &self,
        place: &mut SweepPlace,
        fence: &Fence,
        now: UnixTime,
        most: usize,
    ) -> Result<Swept, StoreError> {
        let due_before = due(now);
        let rows = self.engine.scan(&table::all(Table::Expiry), place.after(), most).await?;
        let mut swept = Swept { more: rows.len() == most, ..Swept::default() };
        // A key may occur only once in a commit. If a record has two entries, leave the second
        // entry to the next pass.
        let mut seen = HashSet::new();
        let mut due = Vec::new();
        // Whether each entry that was read has been deleted.
        let mut done = Vec::new();
        for (entry, _) in &rows {
            let Some((minute, record)) = table::expiry_of(entry) else {
                done.push(true);
                continue;
            };
            if minute >= due_before {
                swept.more = false;
                break;
            }
            if seen.insert(record) {
                due.push((done.len(), entry, record));
            }
            done.push(false);
        }
        if seen.is_empty() {
            // Nothing is due. If `more` were true, the caller would repeat the call forever.
            return Ok(Swept::default());
        }
        let mut judged = Vec::new();
        for due in self.read_due(due).await? {
            if due.record.first() == Some(&(Table::Client as u8)) {
                done[due.number] = self.sweep_client_of(&due, fence, now, &mut swept).await?;
            } else if due.record.first() == Some(&(Table::Revocation as u8)) {
                done[due.number] = self.sweep_revocation(&due, fence, now).await?;
                swept.removed += usize::from(done[due.number]);
            } else {
                judged.push(judge(due, now)?);
            }
        }
        self.commit_judged(judged, fence, &mut swept, &mut done).await?;
        let done_count = done.iter().take_while(|done| **done).count();
        if let Some((last, _)) = done_count.checked_sub(1).and_then(|last| rows.get(last)) {
            place.after = Some(last.clone());
        }
        Ok(swept)
    }

    /// Reads the records of these entries. A damaged record does not affect the others.
    async fn read_due<'e>(&self, due: Vec<(usize, &'e Key, &'e [u8])>) -> Result<Vec<Due<'e>>, StoreError> {
        let keys: Vec<Key> = due.iter().map(|(_, _, record)| record.to_vec()).collect();
        let values = match self.engine.get_many(&keys).await {
            Ok(values) => values.into_iter().map(Ok).collect(),
            Err(EngineError::Damaged(_)) => {
                let mut values = Vec::with_capacity(keys.len());
                for key in &keys {
                    values.push(self.engine.get(key).await.map_err(StoreError::from));
                }
                values
            }
            Err(error) => return Err(error.into()),
        };
        let values: Vec<Result<Option<Value>, StoreError>> = values;
        let due = due.into_iter().zip(values);
        Ok(due.map(|((number, entry, record), stored)| Due { number, entry, record, stored }).collect())
    }

    async fn commit_judged(
        &self,
        judged: Vec<SweepDecision>,
        fence: &Fence,
        swept: &mut Swept,
        done: &mut [bool],
    ) -> Result<(), StoreError> {
        let together = |some: &[SweepDecision]| {
            let mut changes = Changes::default();
            for one in some {
                one.add_to(&mut changes);
            }
            fence.around(changes)
        };
        let outcomes = self.commit_all(judged.chunks(RECORDS_PER_COMMIT).map(together).collect()).await?;
        let mut apart = Vec::new();
        for (some, outcome) in judged.chunks(RECORDS_PER_COMMIT).zip(outcomes) {
            match outcome {
                Committed::Yes => some.iter().for_each(|one| self.swept_one(one, swept, done)),
                Committed::Conflict => apart.extend(some),
            }
        }
        if apart.is_empty() {
            return Ok(());
        }
        if !self.is_fence_valid(fence).await? {
            swept.superseded = true;
            return Ok(());
        }
        let alone = apart.iter().map(|one| together(std::slice::from_ref(*one))).collect();
        for (one, outcome) in apart.iter().zip(self.commit_all(alone).await?) {
            // If the record has changed, it is due again in the next pass.
            if outcome == Committed::Yes {
                self.swept_one(one, swept, done);
            }
        }
        Ok(())
    }

    fn swept_one(&self, one: &SweepDecision, swept: &mut Swept, done: &mut [bool]) {
        if let Some(done) = done.get_mut(one.number) {
            *done = true;
        }
        let Some(table) = one.removed else {
            swept.rescheduled += 1;
            return;
        };
        swept.removed += 1;
        if table == Table::Interaction as u8 || table == Table::SignInAttempt as u8 {
            self.interaction_gone();
        } else if table == Table::Form as u8 {
            self.form_gone();
        } else if table == Table::PendingRegistration as u8 {
            self.pending_registration_gone();
        }
    }

    /// Counts the due entries after this position, up to `most`.
    pub async fn expired_pending(&self, place: &SweepPlace, now: UnixTime, most: usize) -> Result<usize, StoreError> {
        let due = due(now);
        let (mut pending, mut after) = (0, place.after.clone());
        while pending < most {
            let rows = self.engine.scan(&table::all(Table::Expiry), after.as_deref(), PAGE.min(most - pending)).await?;
            let is_due = |entry: &[u8]| table::expiry_of(entry).is_none_or(|(minute, _)| minute < due);
            let counted = rows.iter().take_while(|(entry, _)| is_due(entry)).count();
            pending += counted;
            if counted < rows.len() {
                break;
            }
            let Some((last, _)) = rows.into_iter().next_back() else { break };
            after = Some(last);
        }
        Ok(pending)
    }

    /// Deletes an unused self-registered client, in its own commit, because a client has data in
    /// several tables.
    ///
    /// Returns whether the entry was deleted.
    async fn sweep_client_of(
        &self,
        due: &Due<'_>,
        fence: &Fence,
        now: UnixTime,
        swept: &mut Swept,
    ) -> Result<bool, StoreError> {
        let entries = vec![due.entry.clone()];
        let client = match due.decoded::<Client>() {
            Ok(Some(client)) => client,
            Ok(None) => {
                swept.rescheduled += 1;
                return Ok(self.commit(fence.around(entry_deletion(entries))).await? == Committed::Yes);
            }
            Err(error) if is_of_record(&error) => {
                log_skipped(due.record, &error);
                swept.rescheduled += 1;
                let put = vec![(table::expiry(now.plus(RETRY_DELAY), due.record), Vec::new())];
                return Ok(
                    self.commit(fence.around(Changes { put, ..entry_deletion(entries) })).await? == Committed::Yes
                );
            }
            Err(error) => return Err(error),
        };
        if !client.value.is_left_unused(now) {
            swept.rescheduled += 1;
            return Ok(self.commit(fence.around(entry_deletion(entries))).await? == Committed::Yes);
        }
        // If the client redeems a code at the same time, its request first records the use of the
        // client. So either that commit or this one conflicts.
        let mut changes = Changes {
            expect: vec![client.unchanged()],
            delete: vec![due.entry.clone(), client.key().clone()],
            ..Changes::default()
        };
        index_features(&mut changes, Some(&client.value), None);
        if self.commit(fence.around(changes)).await? == Committed::Conflict {
            swept.rescheduled += 1;
            return Ok(false);
        }
        self.registration_gone(&client.value);
        swept.removed += 1;
        swept.clients.push(client.value.id);
        Ok(true)
    }

    /// Completes a revocation that was left open because its process stopped or its store failed.
    ///
    /// Returns whether the entry was deleted. Another node may complete the revocation at the same
    /// time.
    async fn sweep_revocation(&self, due: &Due<'_>, fence: &Fence, now: UnixTime) -> Result<bool, StoreError> {
        let mut changes = entry_deletion(vec![due.entry.clone()]);
        let carried_out = match due.decoded::<Revocation>() {
            Ok(Some(revocation)) => self.carry_out(&revocation.value).await.map(drop),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        match carried_out {
            Ok(()) => {}
            // The revocation, or a record that it ends, is damaged.
            Err(error) if is_of_record(&error) => {
                log_skipped(due.record, &error);
                changes.put.push((table::expiry(now.plus(RETRY_DELAY), due.record), Vec::new()));
            }
            Err(error) => return Err(error),
        }
        Ok(self.commit(fence.around(changes)).await? == Committed::Yes)
    }
}

fn entry_deletion(delete: Vec<Key>) -> Changes {
    Changes { delete, ..Changes::default() }
}

impl Due<'_> {
    fn decoded<T: DeserializeOwned>(&self) -> Result<Option<Loaded<T>>, StoreError> {
        let bytes = self.stored.clone()?;
        bytes.map(|bytes| record::decode(self.record, bytes)).transpose()
    }
}

fn judge(due: Due<'_>, now: UnixTime) -> Result<SweepDecision, StoreError> {
    let Due { number, entry, record, stored } = due;
    let mut delete = vec![entry.clone()];
    let stored =
        stored.and_then(|bytes| bytes.map(|bytes| Ok((bytes.clone(), expiry_and_entries(record, bytes)?))).transpose());
    let (bytes, expires_at, entries) = match stored {
        Ok(Some((bytes, (expires_at, entries)))) => (bytes, expires_at, entries),
        // The record was deleted before it expired.
        Ok(None) => {
            let (expect, removed) = (vec![Expect::Value(entry.clone(), Vec::new())], Some(Table::Expiry as u8));
            return Ok(SweepDecision { number, expect, put: Vec::new(), delete, removed });
        }
        // Skip a damaged record. Otherwise it would stop every pass at the same position.
        Err(error) if is_of_record(&error) => {
            log_skipped(record, &error);
            (Vec::new(), now.plus(RETRY_DELAY), Vec::new())
        }
        Err(error) => return Err(error),
    };
    if expires_at > now {
        let put = vec![(table::expiry(expires_at, record), Vec::new())];
        return Ok(SweepDecision { number, expect: Vec::new(), put, delete, removed: None });
    }
    delete.push(record.to_owned());
    delete.extend(entries);
    let expect = vec![Expect::Value(record.to_owned(), bytes)];
    Ok(SweepDecision { number, expect, put: Vec::new(), delete, removed: record.first().copied() })
}

/// Returns the expiry of a record, and its index entries.
fn expiry_and_entries(record: &[u8], bytes: Value) -> Result<(UnixTime, Vec<Key>), StoreError> {
    let table = record.first().copied().unwrap_or_default();
    let is = |wanted: Table| table == wanted as u8;
    Ok(if is(Table::Grant) {
        let grant = record::decode::<Grant>(record, bytes)?.value;
        (grant.expires_at, grants::entries(&grant).collect())
    } else if is(Table::Session) {
        let session = record::decode::<Session>(record, bytes)?.value;
        (session.ends_at_latest(), sessions::entries(&session).collect())
    } else if is(Table::AppSession) {
        let session = record::decode::<AppSession>(record, bytes)?.value;
        (session.expires_at, vec![sessions::app_session_entry(&session)])
    } else if is(Table::Interaction) {
        let loaded = record::decode::<Interaction>(record, bytes)?;
        let entry = pending_entry(loaded.key(), &loaded.value);
        (kept_until(loaded.value.expires_at), entry.into_iter().collect())
    } else if is(Table::RevokedToken) || is(Table::Once) {
        (record::decode::<UnixTime>(record, bytes)?.value, Vec::new())
    } else {
        let expires_at = record::decode::<Expires>(record, bytes)?.value.expires_at;
        let expires_at = if is(Table::SignInAttempt) { kept_until(expires_at) } else { expires_at };
        (expires_at, if is(Table::Form) { vec![table::form_age(expires_at, record)] } else { Vec::new() })
    })
}

fn log_skipped(record: &[u8], error: &StoreError) {
    tracing::error!(key = base64url(record), %error, "an expired record cannot be read; skipped for a day");
}

/// Returns whether an error means that this record is damaged, and not that the engine is
/// unavailable.
fn is_of_record(error: &StoreError) -> bool {
    matches!(error, StoreError::Broken(_) | StoreError::Engine(EngineError::Damaged(_)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::memory::MemoryEngine;

    /// A record has two entries, and the first pass deletes only one of them.
    #[tokio::test]
    async fn a_sweeper_misses_no_remaining_entry() {
        let store = Store::open(Arc::new(MemoryEngine::new()), 10).await.unwrap();
        let at = |seconds: u64| UnixTime::from_seconds(seconds);
        for (token, expires_at) in [("one", 60), ("two", 120), ("three", 180)] {
            store.revoke_token(token, at(expires_at)).await.unwrap();
        }
        let second = table::expiry(at(400), &table::revoked_token("one"));
        store.write(Changes { put: vec![(second, Vec::new())], ..Changes::default() }).await.unwrap();
        let (mut place, now) = (SweepPlace::default(), at(7200));
        let swept = store.sweep_on(&mut place, &Fence::default(), now, 100).await.unwrap();
        assert_eq!((swept.removed, store.expired_pending(&place, now, 9).await.unwrap()), (3, 1));
        let swept = store.sweep_on(&mut place, &Fence::default(), now, 100).await.unwrap();
        assert_eq!((swept.removed, store.expired_pending(&place, now, 9).await.unwrap()), (1, 0));
        // Only a pass that starts at the beginning finds an entry before the position.
        store.revoke_token("late", at(60)).await.unwrap();
        assert_eq!(store.sweep_on(&mut place, &Fence::default(), now, 100).await.unwrap().removed, 0);
        place.started_at = Instant::now().checked_sub(RESTART_INTERVAL);
        assert_eq!(store.sweep_on(&mut place, &Fence::default(), now, 100).await.unwrap().removed, 1);
    }
}
