//! Records of the audit log: written in batches, read newest first, trimmed from the oldest end.
//!
//! Each record has index entries by user, client and age. Events that anyone can cause have a
//! separate age index, so that a flood of them evicts only events of the same kind.

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

/// Events per commit: with index entries, about half of the sled engine's batch limit.
const STEP: usize = 64;

/// Maximum number of records that one page reads, matching or not.
const MAX_EXAMINED: usize = 4096;

/// Maximum number of a user's newest records read to find a sign-in.
const MAX_FOR_SIGN_IN: usize = 64;

/// The share of records for events that anyone can cause: one in this many.
const ANYBODYS_SHARE: usize = 10;

/// How long a count is valid if other nodes add records too.
const COUNT: Duration = Duration::from_mins(5);

/// A stored event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    pub id: AuditId,
    #[serde(flatten)]
    pub event: AuditEvent,
}

/// A page of events, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// The events. May be empty although there are more, if few match the filter.
    pub records: Vec<AuditRecord>,
    /// Event to continue after; `None` when there are no more.
    pub next: Option<AuditId>,
}

impl Store {
    /// Stores these events durably. Storing an event again has no effect.
    ///
    /// # Errors
    /// When the store fails; some of them may have been stored.
    pub async fn keep_audit(&self, events: &[AuditRecord]) -> Result<(), StoreError> {
        for events in events.chunks(STEP) {
            let mut changes = Changes::default();
            for AuditRecord { id, event } in events {
                changes.put.push((table::audit(*id), record::encode(event)?));
                changes.put.extend(entries(*id, event).map(|entry| (entry, Vec::new())));
            }
            // An event is recorded even if the session in which it occurred has ended.
            self.for_server().write(changes).await?;
            for AuditRecord { event, .. } in events {
                self.trail.kept[usize::from(event.is_anybodys())].fetch_add(1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Returns up to `limit` events that match the filter, newest first, older than `after`.
    ///
    /// Reads a bounded number of records: a page may have fewer than `limit` and still a `next`.
    ///
    /// # Errors
    /// When the store fails. An unreadable record is left out.
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
        // Skip events that are too new without reading them: IDs sort newest first.
        let oldest_unwanted = filter.until.map(|until| AuditId::new(until, 0));
        let (mut records, mut last, mut looked_at) = (Vec::new(), after.max(oldest_unwanted), 0);
        while looked_at < MAX_EXAMINED {
            let after = last.map(|id| table::entry(prefix.clone(), id.as_bytes()));
            let rows = self.engine.scan(&prefix, after.as_deref(), PAGE).await?;
            if rows.is_empty() {
                return Ok(AuditPage { records, next: None });
            }
            looked_at += rows.len();
            let ids: Vec<AuditId> =
                rows.iter().filter_map(|(key, _)| table::entry_id(key)).map(AuditId::from_bytes).collect();
            // Read at most as many records at once as are wanted.
            for ids in ids.chunks(limit.clamp(1, PAGE)) {
                for (id, event) in ids.iter().copied().zip(self.audit_events(ids).await?) {
                    if filter.since.is_some_and(|since| id.at() < since) {
                        return Ok(AuditPage { records, next: None });
                    }
                    last = Some(id);
                    if let Some(event) = event.filter(|event| filter.wants(event)) {
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

    /// Returns a user's last sign-in, according to a few of their newest events.
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

    /// Returns `None` for each event that is gone or damaged, so that it does not hide the others.
    async fn audit_events(&self, ids: &[AuditId]) -> Result<Vec<Option<AuditEvent>>, StoreError> {
        let keys: Vec<Key> = ids.iter().map(|id| table::audit(*id)).collect();
        let found = self.engine.get_many(&keys).await?;
        let events = keys.iter().zip(ids).zip(found).map(|((key, id), bytes)| {
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

    /// Removes up to `most` events that are older than `keep`, or the oldest beyond `most_kept`.
    ///
    /// Returns the number of removed events; `most` means that there may be more.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
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
        for (index, share) in [most_kept, most_kept / ANYBODYS_SHARE].into_iter().enumerate() {
            removed += self.trim_ages(fence, index, (now, keep, share), most - removed).await?;
        }
        Ok(removed)
    }

    /// Counts the audit log if the count is unknown or outdated.
    ///
    /// It runs here and not at the start, which would delay it. Other nodes add records too, so the
    /// count is valid for a short time only.
    async fn count_trail(&self) -> Result<(), StoreError> {
        let is_known = |counted: Instant| !self.is_shared() || counted.elapsed() < COUNT;
        let known = *self.trail.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if known.is_some_and(is_known) {
            return Ok(());
        }
        let counted = Instant::now();
        for (index, kept) in self.trail.kept.iter().enumerate() {
            kept.store(self.engine.count(&table::audit_ages(index)).await?, Ordering::Relaxed);
        }
        *self.trail.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
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
            let rows = self.engine.scan(&table::audit_ages(index), None, STEP.min(most - removed)).await?;
            let too_many = self.trail.kept[index].load(Ordering::Relaxed).saturating_sub(share);
            let mut old = Vec::new();
            for (age, _) in rows {
                let Some(reversed) = table::entry_id(&age) else { continue };
                let id = AuditId::from_bytes(AuditId::from_bytes(reversed).reversed());
                if now.since(id.at()) < keep && old.len() >= too_many {
                    break;
                }
                old.push((id, age));
            }
            let gone = old.len();
            if gone == 0 {
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
                // Another node does it now.
                return Ok(removed);
            }
            let kept = &self.trail.kept[index];
            let _ = kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| Some(kept.saturating_sub(gone)));
            removed += gone;
        }
        Ok(removed)
    }
}

/// Returns the index entries of an event.
pub(crate) fn entries(id: AuditId, event: &AuditEvent) -> impl Iterator<Item = Key> {
    let of_user = event.subject.map(|subject| table::of_user(subject, Indexed::Audit));
    let of_client = event.client.as_ref().map(|client| table::of_client(client, Indexed::Audit));
    let age = table::entry(table::audit_ages(usize::from(event.is_anybodys())), &id.reversed());
    let named = of_user.into_iter().chain(of_client).map(move |prefix| table::entry(prefix, id.as_bytes()));
    named.chain([age])
}
