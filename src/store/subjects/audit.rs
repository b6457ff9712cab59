//! Records of the audit log. They are written in batches and read newest first. The oldest records
//! are deleted.
//!
//! Each record has index entries by user, client and age. Events that unauthenticated clients can
//! cause have their own age index, so that a flood of them displaces only events of the same kind.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::cluster::leases::Fence;
use crate::engine::{Changes, Key};
use crate::format::table::{Indexed, Table};
use crate::format::{record, table};
use crate::{Committed, PAGE, Store, StoreError};
use sealgate_domain::audit::{AuditEvent, AuditFilter, AuditId, AuditKind};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;

/// Number of events in a commit. With their index entries, this is about half of a batch of the
/// sled engine.
const EVENTS_PER_COMMIT: usize = 64;

/// Maximum number of records that are read for one page, whether they match or not.
const MAX_EXAMINED: usize = 4096;

/// Maximum number of a user's newest records that are read to find the last sign-in.
const MAX_FOR_SIGN_IN: usize = 64;

/// Events that unauthenticated clients can cause may use a tenth of the maximum number of records.
const UNAUTHENTICATED_FRACTION: usize = 10;

/// Time for which a count is valid if other nodes also add records.
const COUNT_VALIDITY: Duration = Duration::from_mins(5);

/// Event of the audit log, with its ID.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    pub id: AuditId,
    #[serde(flatten)]
    pub event: AuditEvent,
}

/// Page of events, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// May be empty although there are more events, if few match the filter.
    pub records: Vec<AuditRecord>,
    /// Event after which the next page starts. `None` on the last page.
    pub next: Option<AuditId>,
}

impl Store {
    /// Stores these events durably. Storing an event again has no effect.
    ///
    /// # Errors
    /// Returns the store's error. Some of the events may have been stored.
    pub async fn keep_audit(&self, events: &[AuditRecord]) -> Result<(), StoreError> {
        for events in events.chunks(EVENTS_PER_COMMIT) {
            let mut changes = Changes::default();
            for AuditRecord { id, event } in events {
                changes.put.push((table::audit(*id), record::encode(event)?));
                changes.put.extend(entries(*id, event).map(|entry| (entry, Vec::new())));
            }
            // Store them as the server's own work, because the session of an event may have ended.
            self.for_server().write(changes).await?;
            for AuditRecord { event, .. } in events {
                self.trail.event_counts[usize::from(event.is_unauthenticated())].fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Returns up to `limit` events that match the filter and are older than `after`, newest first.
    ///
    /// Reads a limited number of records, so a page may have fewer than `limit` events although
    /// there are more. Unreadable records are omitted.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn audit_page(
        &self,
        filter: &AuditFilter,
        after: Option<AuditId>,
        limit: usize,
    ) -> Result<AuditPage, StoreError> {
        let prefix = match (filter.subject, &filter.client) {
            (Some(subject), _) => table::of_user(subject, Indexed::Audit),
            (None, Some(client)) => table::of_client(client, Indexed::Audit),
            (None, None) => table::all(Table::Audit),
        };
        // Skip newer events without reading them. Ids sort newest first.
        let oldest_unwanted = filter.until.map(|until| AuditId::new(until, 0));
        let (mut records, mut last, mut examined) = (Vec::new(), after.max(oldest_unwanted), 0);
        while examined < MAX_EXAMINED {
            let after = last.map(|id| table::entry(prefix.clone(), id.as_bytes()));
            let rows = self.engine.scan(&prefix, after.as_deref(), PAGE).await?;
            if rows.is_empty() {
                return Ok(AuditPage { records, next: None });
            }
            examined += rows.len();
            let ids: Vec<AuditId> =
                rows.iter().filter_map(|(key, _)| table::entry_id(key)).map(AuditId::from_bytes).collect();
            // Read at most as many records at once as are requested.
            for ids in ids.chunks(limit.clamp(1, PAGE)) {
                for (id, event) in ids.iter().copied().zip(self.audit_events(ids).await?) {
                    if filter.since.is_some_and(|since| id.at() < since) {
                        return Ok(AuditPage { records, next: None });
                    }
                    last = Some(id);
                    if let Some(event) = event.filter(|event| filter.matches(event)) {
                        records.push(AuditRecord { id, event });
                        if records.len() == limit {
                            return Ok(AuditPage { records, next: last });
                        }
                    }
                }
            }
        }
        Ok(AuditPage { records, next: last })
    }

    /// Returns the time of a user's last sign-in, if it is among the user's newest events.
    pub async fn last_sign_in(&self, subject: Subject) -> Result<Option<UnixTime>, StoreError> {
        let prefix = table::of_user(subject, Indexed::Audit);
        let rows = self.engine.scan(&prefix, None, MAX_FOR_SIGN_IN).await?;
        let ids: Vec<AuditId> =
            rows.iter().filter_map(|(key, _)| table::entry_id(key)).map(AuditId::from_bytes).collect();
        for (id, event) in ids.iter().zip(self.audit_events(&ids).await?) {
            let signed_in = |event: &AuditEvent| matches!(event.kind, AuditKind::SignedIn | AuditKind::AppSignedIn);
            if event.is_some_and(|event| signed_in(&event)) {
                return Ok(Some(id.at()));
            }
        }
        Ok(None)
    }

    /// Returns the events with these ids. `None` is a deleted or damaged event.
    async fn audit_events(&self, ids: &[AuditId]) -> Result<Vec<Option<AuditEvent>>, StoreError> {
        let keys: Vec<Key> = ids.iter().map(|id| table::audit(*id)).collect();
        let records = self.engine.get_many(&keys).await?;
        let events = keys.iter().zip(ids).zip(records).map(|((key, id), bytes)| {
            match bytes.map(|bytes| record::decode::<AuditEvent>(key, bytes)).transpose() {
                Ok(event) => event.map(|event| event.value),
                Err(error) => {
                    tracing::warn!(%id, %error, "an audit record cannot be read");
                    None
                }
            }
        });
        Ok(events.collect())
    }

    /// Deletes up to `most` events: events that are older than `keep`, and the oldest events if
    /// there are more than `most_kept`.
    ///
    /// Returns the number of deleted events. If it equals `most`, there may be more to delete.
    ///
    /// # Errors
    /// Returns the store's error. The call can be repeated.
    pub async fn trim_audit(
        &self,
        fence: &Fence,
        now: UnixTime,
        keep: Duration,
        most_kept: usize,
        most: usize,
    ) -> Result<usize, StoreError> {
        self.count_trail().await?;
        let mut removed = 0;
        for (index, share) in [most_kept, most_kept / UNAUTHENTICATED_FRACTION].into_iter().enumerate() {
            removed += self.trim_ages(fence, index, (now, keep, share), most - removed).await?;
        }
        Ok(removed)
    }

    /// Counts the audit log if the count is unknown or outdated.
    ///
    /// The count would delay startup, so it is made later. Other nodes also add records, so a count
    /// soon becomes outdated.
    async fn count_trail(&self) -> Result<(), StoreError> {
        let is_known = |counted: Instant| !self.is_shared() || counted.elapsed() < COUNT_VALIDITY;
        let counted_at = *self.trail.counted_at.lock().unwrap_or_else(PoisonError::into_inner);
        if counted_at.is_some_and(is_known) {
            return Ok(());
        }
        let counted = Instant::now();
        for (index, count) in self.trail.event_counts.iter().enumerate() {
            count.store(self.engine.count(&table::audit_ages(index)).await?, Ordering::Relaxed);
        }
        *self.trail.counted_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
        Ok(())
    }

    async fn trim_ages(
        &self,
        fence: &Fence,
        index: usize,
        (now, keep, share): (UnixTime, Duration, usize),
        most: usize,
    ) -> Result<usize, StoreError> {
        let mut removed = 0;
        while removed < most {
            let rows = self.engine.scan(&table::audit_ages(index), None, EVENTS_PER_COMMIT.min(most - removed)).await?;
            let too_many = self.trail.event_counts[index].load(Ordering::Relaxed).saturating_sub(share);
            let mut old = Vec::new();
            for (age, _) in rows {
                let Some(reversed) = table::entry_id(&age) else { continue };
                let id = AuditId::from_bytes(AuditId::from_bytes(reversed).reversed());
                if now.since(id.at()) < keep && old.len() >= too_many {
                    break;
                }
                old.push((id, age));
            }
            let deleted = old.len();
            if deleted == 0 {
                return Ok(removed);
            }
            let ids: Vec<AuditId> = old.iter().map(|(id, _)| *id).collect();
            let mut changes = Changes::default();
            for ((id, age), event) in old.into_iter().zip(self.audit_events(&ids).await?) {
                if let Some(event) = event {
                    changes.delete.extend(entries(id, &event).filter(|entry| *entry != age));
                }
                changes.delete.extend([table::audit(id), age]);
            }
            if self.commit(fence.around(changes)).await? == Committed::Conflict {
                // Another node has acquired the lease and continues.
                return Ok(removed);
            }
            let stored_count = &self.trail.event_counts[index];
            let _ = stored_count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |stored_count| {
                Some(stored_count.saturating_sub(deleted))
            });
            removed += deleted;
        }
        Ok(removed)
    }
}

/// Returns the index entries of an event.
pub(crate) fn entries(id: AuditId, event: &AuditEvent) -> impl Iterator<Item = Key> {
    let of_user = event.subject.map(|subject| table::of_user(subject, Indexed::Audit));
    let of_client = event.client.as_ref().map(|client| table::of_client(client, Indexed::Audit));
    let age = table::entry(table::audit_ages(usize::from(event.is_unauthenticated())), &id.reversed());
    let entries = of_user.into_iter().chain(of_client).map(move |prefix| table::entry(prefix, id.as_bytes()));
    entries.chain([age])
}
