//! The audit trail: what happened, as a log line at once and as a record in the store a moment later.
//!
//! The log line goes out with the event (target `audit`). The record waits for the next pulse of the server, two seconds
//! at most, and goes to the store with the others that wait: no request pays a disk flush for it, and a flood of failed
//! sign-ins costs one commit a pulse. A server that is killed in between has the line in the journal and not the record.
//! Failures alike are counted into one record; beyond a few hundred a pulse the rest is counted into one for all, so that
//! strangers cannot fill the store. Refreshes of one grant are a record an hour ([`routine`]). An operator's command waits
//! for its record.

mod routine;

use std::sync::{Mutex, PoisonError};

use self::routine::Routine;
use crate::config;
use crate::protocol::audit::{AuditEvent, AuditKind};
use crate::protocol::time::UnixTime;
use crate::store::{Store, StoreError};

/// Events that may wait for the next pulse; further ones are in the log only.
const MOST_WAITING: usize = 8192;

/// Of them, those that anybody can cause and that differ.
const MOST_ANYBODYS: usize = 256;

/// Where events go.
#[derive(Debug)]
pub struct Trail {
    keeps: bool,
    waiting: Mutex<Waiting>,
    routine: Mutex<Routine>,
}

#[derive(Debug, Default)]
struct Waiting {
    events: Vec<AuditEvent>,
    anybodys: Vec<AuditEvent>,
    lost: u64,
}

impl Trail {
    /// A trail that keeps records as the configuration says.
    pub fn new(settings: &config::Audit) -> Self {
        Self { keeps: !settings.keep.is_zero(), waiting: Mutex::default(), routine: Mutex::default() }
    }

    /// Writes the event's line to the log; its record follows with [`Trail::write`].
    pub fn note(&self, event: AuditEvent) {
        log(&event);
        if !self.keeps {
            return;
        }
        if !self.routine.lock().unwrap_or_else(PoisonError::into_inner).count(&event) {
            self.wait([event]);
        }
    }

    /// Has the records wait of what was counted for an hour.
    pub fn collect(&self, now: UnixTime) {
        let records = self.routine.lock().unwrap_or_else(PoisonError::into_inner).over(now);
        self.wait(records);
    }

    /// Has the records wait of all that was counted: before the last [`Trail::write`].
    pub fn collect_all(&self) {
        let records = self.routine.lock().unwrap_or_else(PoisonError::into_inner).all();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // They are bounded already, and nobody else comes.
        waiting.events.extend(records);
    }

    fn wait(&self, events: impl IntoIterator<Item = AuditEvent>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            if event.is_anybodys() {
                waiting.count(event);
            } else if waiting.events.len() < MOST_WAITING {
                waiting.events.push(event);
            } else {
                waiting.lost += 1;
            }
        }
    }

    /// Writes the event's line to the log and its record to the store. For what an operator does: done already, so a
    /// store that fails now is only told of in the log.
    pub async fn record(&self, store: &Store, event: AuditEvent) {
        log(&event);
        if !self.keeps {
            return;
        }
        if let Err(error) = store.keep_audit(&[event]).await {
            tracing::error!(%error, "a record of the audit trail was not kept");
        }
    }

    /// Writes the records that wait to the store.
    ///
    /// # Errors
    /// When the store fails: they wait for the next time, as far as there is room.
    pub async fn write(&self, store: &Store) -> Result<(), StoreError> {
        let Waiting { events, anybodys, lost } =
            std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        if lost > 0 {
            tracing::error!(
                lost,
                "events of the audit trail found no room to wait for the store; they are in the log only"
            );
        }
        let all: Vec<AuditEvent> = events.into_iter().chain(anybodys).collect();
        if all.is_empty() {
            return Ok(());
        }
        let written = store.keep_audit(&all).await;
        if written.is_err() {
            // Some may have been kept: twice in the trail is better than not at all.
            self.wait(all);
        }
        written
    }
}

impl Waiting {
    /// Counts one that anybody can cause: to those alike, or to one for all the rest.
    fn count(&mut self, event: AuditEvent) {
        let alike = |known: &&mut AuditEvent| {
            (known.kind, known.subject, &known.client, known.address, &known.detail)
                == (event.kind, event.subject, &event.client, event.address, &event.detail)
        };
        if let Some(known) = self.anybodys.iter_mut().find(alike) {
            known.count += event.count;
        } else if self.anybodys.len() < MOST_ANYBODYS {
            self.anybodys.push(event);
        } else if let Some(rest) = self.anybodys.last_mut() {
            *rest = AuditEvent { count: rest.count + event.count, ..AuditEvent::new(rest.at, rest.kind, rest.actor) }
                .with_detail("of many accounts or addresses");
        }
    }
}

/// One line: every member that is known.
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
