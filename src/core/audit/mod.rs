//! The audit log: each event is logged at once and stored as a record shortly afterwards.
//!
//! The log line has the target `audit`. The record is stored with the process's next heartbeat, at
//! most two seconds later, together with all other queued records. Therefore no request waits for a
//! disk flush, and a flood of failed sign-ins costs one commit per heartbeat. If the process is
//! killed before the heartbeat, the event is in the journal but not in the store. A page that lists
//! events triggers a write and waits briefly for it ([`AuditLog::store_pending`]).
//!
//! Identical failures share one record with a count. Beyond a few hundred records per heartbeat,
//! all further failures share a single record, so that attackers cannot fill the store. Refreshes
//! of one grant share one record per hour ([`routine`]). A command of the operator waits until its
//! record is stored.

mod routine;

use std::cmp::Reverse;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use self::routine::Routine;
use sealgate_config as config;
use sealgate_domain::audit::{AuditEvent, AuditId, AuditKind, NoticeContext};
use sealgate_domain::time::UnixTime;
use sealgate_domain::user::Subject;
use sealgate_store::{AuditRecord, Store, StoreError};
use sealgate_system::clock::wall_clock_seconds;

/// Maximum number of queued events. Further events are only logged.
const MAX_QUEUED: usize = 8192;

/// Maximum number of queued distinct events that unauthenticated clients can cause.
const MAX_UNAUTHENTICATED: usize = 256;

/// Maximum number of queued events that require a notice. Users get no notice of further events.
const MAX_QUEUED_NOTICES: usize = 1024;

/// Maximum time that a page waits for queued records.
const PENDING_TIMEOUT: Duration = Duration::from_millis(300);

/// Audit log of this process, with the records that are not stored yet.
#[derive(Debug)]
pub struct AuditLog {
    /// Whether records are stored. Otherwise events are only logged.
    stores_records: bool,
    queue: Mutex<Queue>,
    /// Held during a write, so that writes do not overlap.
    writing: tokio::sync::Mutex<()>,
    /// Number of the last successful write, counted by [`Queue::writes`]. Every earlier write has
    /// ended, and its records are stored.
    written: watch::Sender<u64>,
    /// Notified when a page waits for queued records.
    write_requested: Notify,
    routine: Mutex<Routine>,
    /// Events that require a notice: an e-mail to the user.
    notices: Mutex<Vec<AuditEvent>>,
}

#[derive(Debug)]
struct Queue {
    /// Each record has its final id. After a commit with an unknown outcome, the record is written
    /// again under the same id, so the store contains it only one time.
    events: Vec<AuditRecord>,
    /// Events that unauthenticated clients can cause.
    unauthenticated: Vec<AuditRecord>,
    /// Number of the last record.
    number: u64,
    /// Random low bits of the numbers of this process, because another process may number a record
    /// in the same microsecond.
    own: u64,
    /// Number of events that did not fit in the queue since the last write.
    lost: u64,
    /// Number of writes that have emptied the queue.
    writes: u64,
}

/// Number of bits of [`Queue::own`].
const OWN_BITS: u32 = 12;

impl Default for Queue {
    fn default() -> Self {
        let own = RandomState::new().build_hasher().finish() >> (u64::BITS - OWN_BITS);
        Self { events: Vec::new(), unauthenticated: Vec::new(), number: 0, own, lost: 0, writes: 0 }
    }
}

impl AuditLog {
    /// Creates an audit log that stores records as configured.
    pub fn new(settings: &config::AuditConfig) -> Self {
        Self {
            stores_records: !settings.keep.is_zero(),
            queue: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            written: watch::Sender::default(),
            write_requested: Notify::new(),
            routine: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    /// Writes the event's line to the log and queues its record for [`AuditLog::write`].
    pub fn note(&self, mut event: AuditEvent) {
        log(&event);
        self.queue_notice(&event);
        event.notice_context = None;
        if !self.stores_records {
            return;
        }
        if !self.routine.lock().unwrap_or_else(PoisonError::into_inner).count(&event) {
            self.enqueue([event]);
        }
    }

    /// Queues the event for a notice, if it requires one.
    fn queue_notice(&self, event: &AuditEvent) {
        let notice_context = event.notice_context.clone().or_else(|| {
            let notice = event.notice()?;
            Some(NoticeContext { notice, language: None, browser: None, system: None })
        });
        if notice_context.is_none() || event.subject.is_none() {
            return;
        }
        let mut queued = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        if queued.len() < MAX_QUEUED_NOTICES {
            queued.push(AuditEvent { notice_context, ..event.clone() });
        }
    }

    /// Removes and returns the queued events that require a notice, each with its notice.
    pub fn take_notices(&self) -> Vec<AuditEvent> {
        std::mem::take(&mut self.notices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Queues events for their notices again after the store failed. Drops events that exceed the
    /// capacity.
    pub fn queue_notices_again(&self, events: Vec<AuditEvent>) {
        let mut queued = self.notices.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MAX_QUEUED_NOTICES.saturating_sub(queued.len());
        queued.extend(events.into_iter().take(room));
    }

    /// Queues the records of refreshes whose counting period has ended.
    pub fn collect(&self, now: UnixTime) {
        let records = self.routine.lock().unwrap_or_else(PoisonError::into_inner).over(now);
        self.enqueue(records);
    }

    /// Queues the records of all counted refreshes, before the last [`AuditLog::write`].
    pub fn collect_all(&self) {
        let records = self.routine.lock().unwrap_or_else(PoisonError::into_inner).all();
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            // The number of records is bounded, and no further events follow.
            queue.push(record);
        }
    }

    fn enqueue(&self, events: impl IntoIterator<Item = AuditEvent>) {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            queue.add(event);
        }
    }

    /// Writes the event's line to the log and its record to the store. For actions of the operator.
    ///
    /// The action is already complete, so a failure of the store is only logged. Records that were
    /// queued earlier are written first, which keeps the order of events even within a second.
    pub async fn record(&self, store: &Store, event: AuditEvent) {
        self.note(event);
        if let Err(error) = self.write(store).await {
            tracing::error!(%error, "an audit record was not saved yet");
        }
    }

    /// Writes the queued records to the store, in the order of their arrival.
    ///
    /// If the future is dropped, the records are queued again, as after an error. Storing a record
    /// a second time has no effect, because its id does not change.
    ///
    /// # Errors
    /// Returns the store's error. The records are queued again, within the capacity.
    pub async fn write(&self, store: &Store) -> Result<(), StoreError> {
        let _turn = self.writing.lock().await;
        let (mut batch, lost, number) = {
            let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            let mut all = std::mem::take(&mut queue.events);
            all.append(&mut queue.unauthenticated);
            queue.writes += 1;
            (Taken { log: self, records: all }, std::mem::take(&mut queue.lost), queue.writes)
        };
        if lost > 0 {
            tracing::error!(lost, "the queue of the audit log is full; some events are only in this log");
        }
        if !batch.records.is_empty() {
            // Later ids sort first, so reverse the order.
            batch.records.sort_by_key(|record| Reverse(record.id));
            store.keep_audit(&batch.records).await?;
            batch.records.clear();
        }
        self.written.send_replace(number);
        Ok(())
    }

    /// Waits until a page needs the queued records. The caller then calls [`AuditLog::write`].
    pub async fn write_requested(&self) {
        self.write_requested.notified().await;
    }

    /// Waits until the queued records of a user, or of all users, are stored, so that a page shows
    /// recent events.
    ///
    /// Wakes the writer instead of writing. Waits for at most [`PENDING_TIMEOUT`], so that a slow
    /// store hardly delays the page.
    pub async fn store_pending(&self, subject: Option<Subject>) {
        let number = {
            let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
            if queue.concerns(subject) {
                self.write_requested.notify_one();
                queue.writes + 1
            } else {
                // A write in progress may have taken the records from the queue.
                queue.writes
            }
        };
        let mut written = self.written.subscribe();
        let stored = written.wait_for(|written| *written >= number);
        if tokio::time::timeout(PENDING_TIMEOUT, stored).await.is_err() {
            tracing::debug!("the store did not write the queued audit records in time for a page");
        }
    }
}

/// Queued records that a write is storing. On drop, the records that were not stored return to the
/// queue.
struct Taken<'a> {
    log: &'a AuditLog,
    records: Vec<AuditRecord>,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        if !self.records.is_empty() {
            let mut queue = self.log.queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.put_back(std::mem::take(&mut self.records));
        }
    }
}

impl Queue {
    fn add(&mut self, event: AuditEvent) {
        if event.is_unauthenticated() {
            self.count(event);
        } else if self.events.len() < MAX_QUEUED {
            self.push(event);
        } else {
            self.lost += 1;
        }
    }

    /// Returns whether events of this user are queued. `None` means any user.
    fn concerns(&self, subject: Option<Subject>) -> bool {
        let mut queued = self.events.iter().chain(&self.unauthenticated);
        queued.any(|record| subject.is_none() || record.event.subject == subject)
    }

    fn push(&mut self, event: AuditEvent) {
        let record = self.numbered(event);
        self.events.push(record);
    }

    fn numbered(&mut self, event: AuditEvent) -> AuditRecord {
        // The number is the time in microseconds, so that records of one second keep their order.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "microseconds since 1970")]
        let microseconds = (wall_clock_seconds() * 1e6) as u64;
        let next = (microseconds << OWN_BITS) | self.own;
        self.number = next.max(self.number.wrapping_add(1 << OWN_BITS));
        AuditRecord { id: AuditId::new(event.at, self.number), event }
    }

    /// Queues an event that unauthenticated clients can cause.
    ///
    /// Identical events share one record. When the queue is full, the last record also counts all
    /// further events.
    fn count(&mut self, event: AuditEvent) {
        let is_identical = |known: &&mut AuditRecord| {
            let stored_event = &known.event;
            (stored_event.kind, stored_event.subject, &stored_event.client, stored_event.address, &stored_event.detail)
                == (event.kind, event.subject, &event.client, event.address, &event.detail)
        };
        if let Some(known) = self.unauthenticated.iter_mut().find(is_identical) {
            known.event.count += event.count;
        } else if self.unauthenticated.len() < MAX_UNAUTHENTICATED {
            let record = self.numbered(event);
            self.unauthenticated.push(record);
        } else if let Some(AuditRecord { event: rest, .. }) = self.unauthenticated.last_mut() {
            *rest = AuditEvent { count: rest.count + event.count, ..AuditEvent::new(rest.at, rest.kind, rest.actor) }
                .with_detail("several accounts or addresses");
        }
    }

    /// Puts the records back at the front of the queue. Drops records that exceed its capacity.
    fn put_back(&mut self, records: Vec<AuditRecord>) {
        let (mut unauthenticated, mut events): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|record| record.event.is_unauthenticated());
        for record in std::mem::take(&mut self.unauthenticated) {
            if unauthenticated.len() < MAX_UNAUTHENTICATED {
                unauthenticated.push(record);
            } else {
                self.lost += record.event.count;
            }
        }
        events.append(&mut self.events);
        self.lost += u64::try_from(events.len().saturating_sub(MAX_QUEUED)).unwrap_or(u64::MAX);
        events.truncate(MAX_QUEUED);
        (self.unauthenticated, self.events) = (unauthenticated, events);
    }
}

/// Logs one line with all known fields.
fn log(event: &AuditEvent) {
    let AuditEvent { kind, actor, .. } = event;
    let alarming = matches!(kind, AuditKind::ReuseDetected);
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                target: "audit",
                kind = kind.as_str(),
                %actor,
                subject = event.subject.map(tracing::field::display),
                client = event.client.as_ref().map(tracing::field::display),
                app = event.app.as_deref(),
                session = event.session.map(tracing::field::display),
                grant = event.grant.map(tracing::field::display),
                address = event.address.map(tracing::field::display),
                request_id = event.request_id.as_deref(),
                detail = event.detail.as_deref(),
                at = event.at.seconds(),
            )
        };
    }
    if alarming { line!(warn) } else { line!(info) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use async_trait::async_trait;

    use super::*;
    use sealgate_domain::audit::{Actor, AuditFilter};
    use sealgate_store::engine::{Changes, Counters, Engine, EngineError, Key, Outcome, Value};
    use sealgate_store::memory::MemoryEngine;

    /// Test engine that commits changes and then reports an unknown outcome.
    #[derive(Default)]
    struct Silent {
        inner: MemoryEngine,
        is_silent: AtomicBool,
    }

    #[async_trait]
    impl Engine for Silent {
        async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
            self.inner.get(key).await
        }

        async fn scan(
            &self,
            prefix: &[u8],
            after: Option<&[u8]>,
            limit: usize,
        ) -> Result<Vec<(Key, Value)>, EngineError> {
            self.inner.scan(prefix, after, limit).await
        }

        async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
            let outcome = self.inner.commit(changes).await;
            if self.is_silent.load(Ordering::SeqCst) { Err(EngineError::Unknown) } else { outcome }
        }

        fn counters(&self) -> &Counters {
            self.inner.counters()
        }

        async fn ping(&self) -> Result<(), EngineError> {
            self.inner.ping().await
        }
    }

    #[tokio::test]
    async fn audit_records_of_an_unknown_commit_are_kept_once_and_in_order() {
        let engine = Arc::new(Silent::default());
        let store = Store::open(Arc::clone(&engine) as Arc<dyn Engine>, 10).await.unwrap();
        let settings = config::AuditConfig { keep: Duration::from_hours(1), max_records: 100 };
        let audit = AuditLog::new(&settings);
        let at = UnixTime::from_seconds(1_000);
        let failed = AuditEvent::new(at, AuditKind::SignInFailed, Actor::Stranger);
        assert!(failed.is_unauthenticated());
        audit.note(AuditEvent::new(at, AuditKind::UserCreated, Actor::Operator));
        audit.note(failed.clone());
        engine.is_silent.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            assert!(audit.write(&store).await.is_err());
        }
        engine.is_silent.store(false, Ordering::SeqCst);
        audit.note(failed);
        audit.note(AuditEvent::new(at, AuditKind::UserDeleted, Actor::Operator));
        audit.write(&store).await.unwrap();
        let kept = store.audit_page(&AuditFilter::default(), None, 100).await.unwrap().records;
        let kept: Vec<_> = kept.iter().rev().map(|record| (record.event.kind, record.event.count)).collect();
        let expected = [(AuditKind::UserCreated, 1), (AuditKind::SignInFailed, 2), (AuditKind::UserDeleted, 1)];
        assert_eq!(kept, expected);
    }
}
