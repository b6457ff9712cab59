//! The audit trail's records: kept with the next step of the writer, read newest first, trimmed from the oldest end.
//!
//! Beside each record stand entries in the index: by person, by client, and by age. Those that anybody can cause have an
//! index of age of their own, so that a flood of them pushes out nothing but others of the same kind.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::domain::audit::{AuditEvent, AuditFilter, AuditId, AuditKind};
use crate::domain::time::UnixTime;
use crate::domain::user::Subject;
use crate::store::engine::{Changes, Expect, Key};
use crate::store::record;
use crate::store::table::{self, Indexed, Table};
use crate::store::{Committed, MOST_CONFLICTS, PAGE, Store, StoreError};

/// Events in one step: with their index entries, about half of what the sled engine puts into a batch.
const STEP: usize = 64;

/// Records that one page looks at, wanted or not.
const MOST_LOOKED_AT: usize = 4096;

/// Of a person's newest records, so many are looked at for a sign-in.
const MOST_FOR_SIGN_IN: usize = 64;

/// Of all records that are kept, the part that those may take which anybody can cause.
const ANYBODYS_SHARE: usize = 10;

/// A kept event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRecord {
    pub id: AuditId,
    #[serde(flatten)]
    pub event: AuditEvent,
}

/// Some events, the newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    /// They. May be none although there are more, where few fit the filter.
    pub records: Vec<AuditRecord>,
    /// After which to go on; `None` when there are no more.
    pub next: Option<AuditId>,
}

impl Store {
    /// Keeps these events, durable when it returns.
    ///
    /// # Errors
    /// When the store fails; some of them may have been kept.
    pub async fn keep_audit(&self, events: &[AuditEvent]) -> Result<(), StoreError> {
        for events in events.chunks(STEP) {
            self.keep_audit_step(events).await?;
        }
        Ok(())
    }

    async fn keep_audit_step(&self, events: &[AuditEvent]) -> Result<(), StoreError> {
        for _ in 0..MOST_CONFLICTS {
            let mut changes = Changes::default();
            for event in events {
                let id = AuditId::new(event.at, self.trail.number.fetch_add(1, Ordering::Relaxed));
                let key = table::audit(id);
                changes.expect.push(Expect::Absent(key.clone()));
                changes.put.push((key, record::encode(event)?));
                changes.put.extend(entries(id, event).map(|entry| (entry, Vec::new())));
            }
            // A conflict means that a process before this one had used the number in this very second: take the next.
            if self.commit(changes).await? == Committed::Yes {
                for event in events {
                    self.trail.kept[usize::from(event.is_anybodys())].fetch_add(1, Ordering::Relaxed);
                }
                return Ok(());
            }
        }
        Err(StoreError::Contended)
    }

    /// Up to `limit` events that the filter wants, the newest first, older than `after`. Looks at a bounded number of
    /// records: a page may have fewer than `limit` and still a `next`.
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
        // What is too new for the filter is not even looked at: ids sort the newest first.
        let oldest_unwanted = filter.until.map(|until| AuditId::new(until, 0));
        let (mut records, mut last, mut looked_at) = (Vec::new(), after.max(oldest_unwanted), 0);
        while looked_at < MOST_LOOKED_AT {
            let after = last.map(|id| table::entry(prefix.clone(), id.as_bytes()));
            let rows = self.engine.scan(&prefix, after.as_deref(), PAGE).await?;
            if rows.is_empty() {
                return Ok(AuditPage { records, next: None });
            }
            looked_at += rows.len();
            for (key, _) in rows {
                let Some(id) = table::entry_id(&key).map(AuditId::from_bytes) else { continue };
                if filter.since.is_some_and(|since| id.at() < since) {
                    return Ok(AuditPage { records, next: None });
                }
                last = Some(id);
                if let Some(event) = self.audit_event(id).await?.filter(|event| filter.wants(event)) {
                    records.push(AuditRecord { id, event });
                    if records.len() == limit {
                        return Ok(AuditPage { records, next: last });
                    }
                }
            }
        }
        Ok(AuditPage { records, next: last })
    }

    /// When somebody last signed in, as far as the newest events of theirs say so; looks at a few only.
    pub async fn last_sign_in(&self, subject: Subject) -> Result<Option<UnixTime>, StoreError> {
        let prefix = table::of_user(subject, Indexed::Audit);
        let rows = self.engine.scan(&prefix, None, MOST_FOR_SIGN_IN).await?;
        for id in rows.iter().filter_map(|(key, _)| table::entry_id(key)).map(AuditId::from_bytes) {
            let event = self.audit_event(id).await?;
            let signed_in = |event: &AuditEvent| matches!(event.kind, AuditKind::SignedIn | AuditKind::AppSignedIn);
            if event.is_some_and(|event| signed_in(&event)) {
                return Ok(Some(id.at()));
            }
        }
        Ok(None)
    }

    /// `None` for one that is gone or damaged: neither may hide the others.
    async fn audit_event(&self, id: AuditId) -> Result<Option<AuditEvent>, StoreError> {
        match self.load::<AuditEvent>(table::audit(id)).await {
            Ok(loaded) => Ok(loaded.map(|loaded| loaded.value)),
            Err(StoreError::Broken(error)) => {
                tracing::warn!(%id, error, "a record of the audit trail cannot be read");
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Removes up to `most` events that are older than `keep`, or the oldest beyond `most_kept`. Yields how many went;
    /// `most` of them means that there may be more.
    ///
    /// # Errors
    /// When the store fails; the call can be repeated.
    pub async fn trim_audit(
        &self,
        now: UnixTime,
        keep: Duration,
        most_kept: usize,
        most: usize,
    ) -> Result<usize, StoreError> {
        // Counted here and not at the start, which people wait for.
        if !self.trail.counted.load(Ordering::Acquire) {
            for (index, kept) in self.trail.kept.iter().enumerate() {
                kept.store(self.count(table::audit_ages(index)).await?, Ordering::Relaxed);
            }
            self.trail.counted.store(true, Ordering::Release);
        }
        let mut removed = 0;
        for (index, share) in [most_kept, most_kept / ANYBODYS_SHARE].into_iter().enumerate() {
            removed += self.trim_ages(index, share, now, keep, most - removed).await?;
        }
        Ok(removed)
    }

    async fn trim_ages(
        &self,
        index: usize,
        share: usize,
        now: UnixTime,
        keep: Duration,
        most: usize,
    ) -> Result<usize, StoreError> {
        let mut removed = 0;
        while removed < most {
            let rows = self.engine.scan(&table::audit_ages(index), None, STEP.min(most - removed)).await?;
            let too_many = self.trail.kept[index].load(Ordering::Relaxed).saturating_sub(share);
            let mut changes = Changes::default();
            let mut gone = 0;
            for (age, _) in rows {
                let Some(reversed) = table::entry_id(&age) else { continue };
                let id = AuditId::from_bytes(AuditId::from_bytes(reversed).reversed());
                if now.since(id.at()) < keep && gone >= too_many {
                    break;
                }
                if let Some(event) = self.audit_event(id).await? {
                    changes.delete.extend(entries(id, &event).filter(|entry| *entry != age));
                }
                changes.delete.extend([table::audit(id), age]);
                gone += 1;
            }
            if gone == 0 {
                return Ok(removed);
            }
            self.write(changes).await?;
            let kept = &self.trail.kept[index];
            let _ = kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |kept| Some(kept.saturating_sub(gone)));
            removed += gone;
        }
        Ok(removed)
    }
}

/// The index entries of an event.
pub(super) fn entries(id: AuditId, event: &AuditEvent) -> impl Iterator<Item = Key> {
    let of_user = event.subject.map(|subject| table::of_user(subject, Indexed::Audit));
    let of_client = event.client.as_ref().map(|client| table::of_client(client, Indexed::Audit));
    let age = table::entry(table::audit_ages(usize::from(event.is_anybodys())), &id.reversed());
    let named = of_user.into_iter().chain(of_client).map(move |prefix| table::entry(prefix, id.as_bytes()));
    named.chain([age])
}
