//! Records whether this process answered refreshes of tokens in time, and reads the reports of
//! other processes: see [`sealgate_domain::answers`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

use sealgate_domain::answers::{
    AnswerLedger, AnswerOutcome, AnswerReport, ProcessId, RotationId, may_precede_rotation,
};
use sealgate_domain::time::UnixTime;
use sealgate_store::{Store, StoreError};

/// Interval at which a pending outcome is read again.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum time that a request waits for a pending outcome. Processes report every half second.
const POLL_TIMEOUT: Duration = Duration::from_millis(800);

/// Record of this process's answers to token refreshes, and whether each was ready in time.
#[derive(Debug)]
pub struct Answers {
    process: ProcessId,
    started: Instant,
    ledger: Mutex<AnswerLedger>,
    reported: AsyncMutex<Option<AnswerReport>>,
}

/// Rotation of a refresh token in progress. If the value is dropped without [`Answering::ready`],
/// the answer counts as not sent.
#[derive(Debug)]
pub struct Answering {
    answers: Arc<Answers>,
    rotation: RotationId,
}

impl Answering {
    /// Returns the number under which the rotation is committed.
    pub fn rotation(&self) -> RotationId {
        self.rotation.clone()
    }

    /// Records that the answer is ready to be sent.
    pub fn ready(self) {
        self.answers.ledger().ready(self.rotation.number, self.answers.elapsed());
    }

    /// Records that the rotation was not committed.
    pub fn withdraw(self) {
        self.answers.ledger().withdraw(self.rotation.number);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.answers.ledger().abandon(self.rotation.number, self.answers.elapsed());
    }
}

impl Answers {
    /// Creates an empty log for this process.
    pub fn new(process: ProcessId) -> Self {
        Self { process, started: Instant::now(), ledger: Mutex::default(), reported: AsyncMutex::default() }
    }

    /// Records that the process is running. Must be called every
    /// [`sealgate_domain::answers::HEARTBEAT_INTERVAL`], so that the log can detect a suspension.
    pub fn heartbeat(&self) {
        let ended = self.ledger().heartbeat(self.elapsed());
        if let Some(suspension) = ended {
            let seconds = suspension.length().as_secs_f64();
            tracing::warn!(seconds, "the process was suspended; its responses were late");
        }
    }

    /// Stops expecting heartbeats, because the process is shutting down.
    pub fn rest(&self) {
        self.ledger().rest();
    }

    /// Writes the changes since the last report to the store.
    ///
    /// # Errors
    /// When the store fails. The next call tries again.
    pub async fn report(&self, store: &Store, now: UnixTime) -> Result<(), StoreError> {
        let mut reported = self.reported.lock().await;
        let (classified, late) = self.ledger().report();
        let is_new = reported.as_ref().is_none_or(|last| last.classified != classified || last.late != late);
        if classified == 0 || !is_new {
            return Ok(());
        }
        let report = AnswerReport { classified, late, expires_at: AnswerReport::expiry(now) };
        let is_listed = reported.as_ref().is_some_and(|last| last.expires_at == report.expires_at);
        store.report_answers(self.process, &report, is_listed).await?;
        *reported = Some(report);
        Ok(())
    }

    /// Writes the last report of the process. Must be called after the last request was answered.
    ///
    /// # Errors
    /// When the store fails. Other processes then consider unreported answers doubtful.
    pub async fn report_last(&self, store: &Store, now: UnixTime) -> Result<(), StoreError> {
        self.ledger().close(self.elapsed());
        self.report(store, now).await
    }

    /// Assigns a number to a rotation that is about to be committed.
    pub fn begin(self: &Arc<Self>, received: Instant, now: UnixTime) -> Answering {
        let number = self.ledger().begin(self.since_start(received));
        Answering { answers: Arc::clone(self), rotation: RotationId { process: self.process, number, at: now } }
    }

    /// Returns the outcome of an answer of this or another process.
    ///
    /// If the outcome is not reported yet, waits for up to [`POLL_TIMEOUT`].
    ///
    /// # Errors
    /// When the store fails.
    pub async fn outcome(
        &self,
        store: &Store,
        rotation: &RotationId,
        now: UnixTime,
    ) -> Result<AnswerOutcome, StoreError> {
        let start = Instant::now();
        loop {
            let outcome = if rotation.process == self.process {
                self.ledger().outcome(rotation.number, self.elapsed())
            } else {
                let report = store.answer_report(rotation.process).await?;
                AnswerReport::outcome(report.as_ref(), rotation, now)
            };
            if outcome != AnswerOutcome::Pending || start.elapsed() > POLL_TIMEOUT {
                return Ok(outcome);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Returns whether a request may have been sent before the last rotation of its grant.
    ///
    /// Such a request does not prove that the token was stolen.
    pub fn may_precede_rotation(&self, received: Instant, rotated_at: Option<UnixTime>, now: UnixTime) -> bool {
        let waited = self.ledger().waited(self.since_start(received), self.elapsed());
        may_precede_rotation(waited, rotated_at, now)
    }

    fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    fn since_start(&self, then: Instant) -> Duration {
        then.saturating_duration_since(self.started)
    }

    fn ledger(&self) -> MutexGuard<'_, AnswerLedger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
