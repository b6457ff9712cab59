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
use crate::domain::audit::{AuditEvent, AuditKind, Telling};
use crate::domain::time::UnixTime;
use crate::store::{Store, StoreError};

/// Events that may wait for the next pulse; further ones are in the log only.
const MOST_WAITING: usize = 8192;

/// Of them, those that anybody can cause and that differ.
const MOST_ANYBODYS: usize = 256;

/// Events that may wait for the mail about them; beyond, people are not told.
const MOST_TOLD: usize = 1024;

#[derive(Debug)]
pub struct AuditLog {
    keeps: bool,
    waiting: Mutex<Waiting>,
    routine: Mutex<Routine>,
    /// Events of which people are told by mail, until somebody takes them.
    told: Mutex<Vec<AuditEvent>>,
}

#[derive(Debug, Default)]
struct Waiting {
    /// Each with its place in the order of all.
    events: Vec<(u64, AuditEvent)>,
    anybodys: Vec<(u64, AuditEvent)>,
    place: u64,
    lost: u64,
}

impl AuditLog {
    /// A trail that keeps records as the configuration says.
    pub fn new(settings: &config::AuditConfig) -> Self {
        Self {
            keeps: !settings.keep.is_zero(),
            waiting: Mutex::default(),
            routine: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Writes the event's line to the log; its record follows with [`AuditLog::write`].
    pub fn note(&self, mut event: AuditEvent) {
        log(&event);
        self.tell(&event);
        event.telling = None;
        if !self.keeps {
            return;
        }
        if !self.routine.lock().unwrap_or_else(PoisonError::into_inner).count(&event) {
            self.wait([event]);
        }
    }

    /// Has an event wait for the mail about it, where there is to be one.
    fn tell(&self, event: &AuditEvent) {
        let telling = event.telling.clone().or_else(|| {
            let notice = event.notice()?;
            Some(Telling { notice, language: None, browser: None, system: None })
        });
        if telling.is_none() || event.subject.is_none() {
            return;
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < MOST_TOLD {
            told.push(AuditEvent { telling, ..event.clone() });
        }
    }

    /// Takes the events of which people are to be told by mail; each has its telling.
    pub fn take_told(&self) -> Vec<AuditEvent> {
        std::mem::take(&mut self.told.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Has them wait again, because the store failed.
    pub fn tell_later(&self, events: Vec<AuditEvent>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_TOLD.saturating_sub(told.len());
        told.extend(events.into_iter().take(room));
    }

    /// Has the records wait of what was counted for an hour.
    pub fn collect(&self, now: UnixTime) {
        let records = self.routine.lock().unwrap_or_else(PoisonError::into_inner).over(now);
        self.wait(records);
    }

    /// Has the records wait of all that was counted: before the last [`AuditLog::write`].
    pub fn collect_all(&self) {
        let records = self.routine.lock().unwrap_or_else(PoisonError::into_inner).all();
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for record in records {
            // They are bounded already, and nobody else comes.
            waiting.push(record);
        }
    }

    fn wait(&self, events: impl IntoIterator<Item = AuditEvent>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        for event in events {
            waiting.add(event);
        }
    }

    /// Writes the event's line to the log and its record to the store. For what an operator does: done already, so a
    /// store that fails now is only told of in the log. What waits goes with it, before it: the trail keeps the order in
    /// which things happened, within a second too.
    pub async fn record(&self, store: &Store, event: AuditEvent) {
        self.note(event);
        if let Err(error) = self.write(store).await {
            tracing::error!(%error, "a record of the audit trail was not kept yet");
        }
    }

    /// Writes the records that wait to the store, in the order in which they came.
    ///
    /// # Errors
    /// When the store fails: they wait for the next time, as far as there is room.
    pub async fn write(&self, store: &Store) -> Result<(), StoreError> {
        let (mut all, lost) = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let mut all = std::mem::take(&mut waiting.events);
            all.append(&mut waiting.anybodys);
            (all, std::mem::take(&mut waiting.lost))
        };
        if lost > 0 {
            tracing::error!(
                lost,
                "events of the audit trail found no room to wait for the store; they are in the log only"
            );
        }
        all.sort_by_key(|(place, _)| *place);
        let all: Vec<AuditEvent> = all.into_iter().map(|(_, event)| event).collect();
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
    fn add(&mut self, event: AuditEvent) {
        if event.is_anybodys() {
            self.count(event);
        } else if self.events.len() < MOST_WAITING {
            self.push(event);
        } else {
            self.lost += 1;
        }
    }

    fn push(&mut self, event: AuditEvent) {
        let place = self.next_place();
        self.events.push((place, event));
    }

    fn next_place(&mut self) -> u64 {
        self.place += 1;
        self.place
    }

    /// Counts one that anybody can cause: to those alike, or to one for all the rest.
    fn count(&mut self, event: AuditEvent) {
        let alike = |(_, known): &&mut (u64, AuditEvent)| {
            (known.kind, known.subject, &known.client, known.address, &known.detail)
                == (event.kind, event.subject, &event.client, event.address, &event.detail)
        };
        if let Some((_, known)) = self.anybodys.iter_mut().find(alike) {
            known.count += event.count;
        } else if self.anybodys.len() < MOST_ANYBODYS {
            let place = self.next_place();
            self.anybodys.push((place, event));
        } else if let Some((_, rest)) = self.anybodys.last_mut() {
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
