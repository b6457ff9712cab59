//! Writer: sends each batch of queued commits as a pipelined transaction, on one connection.
//!
//! The writer returns the results when the server reports that the transaction is durable. If the
//! answer is lost, the writer determines the outcome.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_channel::Receiver;
use tokio::sync::oneshot;
use tokio_postgres::error::{Error, SqlState};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

use super::batch::{self, APPLY, BATCH_COMMITS, BEGIN, CLEAN_UP, LOCK, LOOK_UP, Operation, RowColumns};
use super::beat::LastBeat;
use super::connect::{Backoff, Link, LinkPurpose, Servers, fault_of, jittered};
use crate::commit_turn::CommitTurn;
use crate::engine::{CommitObserver, Counters, EngineError, Outcome, RerunCause};

/// Timeout of one run of a batch, after which the server may have been replaced.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of retries after the server rolled a batch back.
const RETRIES: u32 = 3;
const RETRY_PAUSE: Duration = Duration::from_millis(20);
/// Interval at which withdrawn commits are dropped while there is no heartbeat.
const BEAT_PAUSE: Duration = Duration::from_millis(250);

/// Queued commit, with the channel for its result.
pub(super) struct PendingCommit {
    pub(super) operation: Operation,
    pub(super) turn: CommitTurn,
    pub(super) reply: oneshot::Sender<Result<Outcome, EngineError>>,
}

pub(super) struct BatchWriter {
    pub(super) servers: Arc<Servers>,
    pub(super) queue: Receiver<PendingCommit>,
    pub(super) observer: Arc<dyn CommitObserver>,
    pub(super) counters: Arc<Counters>,
    pub(super) last_beat: Arc<LastBeat>,
    /// Maximum time of a batch, for all its runs together.
    pub(super) timeout: Duration,
    pub(super) link: Option<WriteLink>,
    /// Commits that were taken from the queue but have not been started.
    pub(super) waiting: VecDeque<PendingCommit>,
}

/// Connection with prepared statements for batches.
pub(super) struct WriteLink {
    link: Link,
    lock: Statement,
    apply: Statement,
    look_up: Statement,
    /// Number of the last batch on this connection.
    number: i64,
}

/// Returns the result of a run whose answer was lost.
fn unknown(cause: String) -> Ran {
    Ran::Unknown(RerunCause::Unknown, cause)
}

/// Result of one run of a batch.
enum Ran {
    /// The batch is durable, except for these refused operations.
    Done(Vec<i16>),
    /// The batch was already applied by an earlier run, whose answer was lost.
    Earlier,
    /// The server rolled the batch back because of a concurrent transaction.
    Again,
    /// No record was written, and another run would not help.
    Failed(EngineError),
    /// The batch may have been applied.
    Unknown(RerunCause, String),
}

/// Batch, with the writer and the number that identify it in all its runs.
struct Batch {
    commits: Vec<PendingCommit>,
    writer: i64,
    number: i64,
}

impl WriteLink {
    pub(super) fn client(&self) -> &Client {
        &self.link.client
    }

    pub(super) fn timeline(&self) -> u32 {
        self.link.timeline
    }

    pub(super) async fn connect(servers: &Servers) -> Result<Self, super::PostgresFault> {
        let link = servers.connect(LinkPurpose::Serve).await?;
        let client = &link.client;
        let prepared = tokio::join!(
            client.prepare(LOCK),
            client.prepare(APPLY),
            client.prepare(LOOK_UP),
            client.batch_execute(CLEAN_UP)
        );
        let refused = |error: Error| fault_of(&error);
        let (lock, apply, look_up) = (prepared.0, prepared.1, prepared.2);
        // The remaining rows do no harm.
        if let Err(error) = prepared.3 {
            tracing::warn!(%error, "cannot delete old rows of the table batch");
        }
        let (lock, apply) = (lock.map_err(refused)?, apply.map_err(refused)?);
        let look_up = look_up.map_err(refused)?;
        Ok(Self { link, lock, apply, look_up, number: 0 })
    }
}

impl BatchWriter {
    /// Processes commits until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        loop {
            if self.waiting.is_empty() {
                let Ok(first) = self.queue.recv().await else { return };
                self.waiting.push_back(first);
            }
            // Wait before any commit is started. Until then, callers can withdraw their commits.
            self.ready().await;
            while self.waiting.len() < BATCH_COMMITS
                && let Ok(next) = self.queue.try_recv()
            {
                self.waiting.push_back(next);
            }
            let mut commits = batch::take(&mut self.waiting, |commit| &commit.operation);
            // Drop the commits whose callers have stopped waiting and were told that nothing
            // happened.
            commits.retain(|commit| !commit.reply.is_closed() && commit.turn.begin());
            if !commits.is_empty() {
                self.write(commits).await;
            }
            self.observer.queue(self.queue.len());
        }
    }

    /// Waits until there is a connection on which a commit can complete.
    ///
    /// If the synchronous standby is down, heartbeats do not complete. A commit would not complete
    /// either, and would only occupy a server process of PostgreSQL.
    async fn ready(&mut self) {
        loop {
            self.connected().await;
            if self.last_beat.check().is_ok() {
                return;
            }
            let beat = async {
                // No heartbeat helps now, but the operator may resolve the cause, for instance by
                // setting a clock.
                if self.last_beat.wait().await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let _ = tokio::time::timeout(BEAT_PAUSE, beat).await;
            self.waiting.retain(|commit| !commit.reply.is_closed());
        }
    }

    /// Waits for a usable connection.
    async fn connected(&mut self) {
        let mut backoff = Backoff::default();
        loop {
            if let Some(usable) = &self.link
                && !usable.link.client.is_closed()
                && self.servers.is_current(&usable.link)
            {
                return;
            }
            self.link = None;
            match WriteLink::connect(&self.servers).await {
                Ok(link) => {
                    tracing::info!(
                        server = link.link.server,
                        timeline = link.link.timeline,
                        "connected to the database server for writes"
                    );
                    self.observer.connected(Some(link.link.timeline));
                    self.link = Some(link);
                }
                Err(fault) => {
                    self.observer.connected(None);
                    self.waiting.retain(|commit| !commit.reply.is_closed());
                    backoff.pause_for(&fault).await;
                }
            }
        }
    }

    async fn write(&mut self, commits: Vec<PendingCommit>) {
        let started = Instant::now();
        let Some(link) = &mut self.link else { return };
        link.number += 1;
        let batch = Batch { commits, writer: link.link.random, number: link.number };
        let ended = self.run_to_the_end(&batch, started + self.timeout).await;
        // Increment the counters before the results are sent, even if the outcome is unknown. An
        // unnecessary increment does no harm.
        let refused = |number: usize| match &ended {
            Ok(refused) => refused.iter().any(|one| usize::try_from(*one) == Ok(number)),
            Err(error) => !matches!(error, EngineError::Unknown),
        };
        let applied = batch.commits.iter().enumerate().filter(|(number, _)| !refused(*number));
        let moves: Vec<_> = applied.flat_map(|(_, commit)| commit.operation.moves.iter().copied()).collect();
        self.counters.advance(&moves);
        let operations = batch.commits.len();
        let outcomes: Vec<_> = (0..operations)
            .map(|number| match &ended {
                Ok(_) if refused(number) => Ok(Outcome::Conflict),
                Ok(_) => Ok(Outcome::Committed),
                Err(error) => Err(error.clone()),
            })
            .collect();
        for (commit, outcome) in batch.commits.into_iter().zip(outcomes) {
            let _ = commit.reply.send(outcome);
        }
        if ended.is_ok() {
            self.observer.committed(operations, started.elapsed().as_secs_f64());
        }
    }

    /// Executes one run. Stops waiting when the server is replaced.
    async fn attempt(&self, link: &WriteLink, run: impl Future<Output = Ran>, deadline: Instant) -> Ran {
        let replaced = || unknown("another server was promoted".to_owned());
        let limit = deadline.min(Instant::now() + ATTEMPT_TIMEOUT);
        tokio::select! {
            biased;
            ran = tokio::time::timeout_at(limit.into(), run) => match ran {
                Ok(ran) if self.servers.is_current(&link.link) => ran,
                Ok(_) => replaced(),
                Err(_) => unknown("the server did not answer in time".to_owned()),
            },
            // A hanging server does not close the connection.
            () = self.servers.superseded(&link.link) => replaced(),
        }
    }

    /// Runs a batch until its outcome is known or the deadline has passed. Returns the refused
    /// operations.
    async fn run_to_the_end(&mut self, batch: &Batch, deadline: Instant) -> Result<Vec<i16>, EngineError> {
        let (mut is_uncertain, mut was_applied, mut retries) = (false, false, 0);
        let out_of_time = |is_uncertain: bool| if is_uncertain { EngineError::Unknown } else { EngineError::Timeout };
        loop {
            if tokio::time::timeout_at(deadline.into(), self.ready()).await.is_err() {
                return Err(out_of_time(is_uncertain));
            }
            let Some(link) = &self.link else { return Err(out_of_time(is_uncertain)) };
            let run =
                async { if was_applied { link.look_up(batch).await } else { link.run(batch, is_uncertain).await } };
            let ran = self.attempt(link, run, deadline).await;
            match ran {
                Ran::Done(refused) => return Ok(refused),
                Ran::Earlier => was_applied = true,
                Ran::Again if retries < RETRIES => {
                    retries += 1;
                    self.observer.rerun(RerunCause::RolledBack);
                    tokio::time::sleep(jittered(RETRY_PAUSE * retries)).await;
                }
                Ran::Again => return Err(out_of_time(is_uncertain)),
                Ran::Failed(error) => {
                    // The server's state may have caused the error, so use a new connection for the
                    // next batch.
                    self.link = None;
                    return Err(if is_uncertain { EngineError::Unknown } else { error });
                }
                Ran::Unknown(cause, error) => {
                    tracing::warn!(server = link.link.server, cause = error, "retrying a batch of commits");
                    self.observer.rerun(cause);
                    is_uncertain = true;
                    self.link = None;
                    if Instant::now() >= deadline {
                        return Err(EngineError::Unknown);
                    }
                }
            }
        }
    }
}

impl WriteLink {
    /// Executes one run in one round trip. `leave` determines whether the row of the batch is
    /// inserted even if nothing is written.
    async fn run(&self, batch: &Batch, leave: bool) -> Ran {
        let operations = || batch.commits.iter().map(|commit| &commit.operation);
        let (stripes, exclusive) = batch::locks(operations());
        let (expected, written) = RowColumns::from_operations(operations());
        let (moving, moved) = batch::moves(operations());
        let client = &self.link.client;
        self.link.take_warning();
        let locking: [&(dyn ToSql + Sync); 2] = [&stripes, &exclusive];
        let applying: [&(dyn ToSql + Sync); 11] = [
            &expected.operations,
            &expected.keys,
            &expected.values,
            &written.operations,
            &written.keys,
            &written.values,
            &batch.writer,
            &batch.number,
            &leave,
            &moving,
            &moved,
        ];
        // Each statement is sent when it is first polled, so `biased` keeps them in order.
        let (begin, lock, apply, end) = tokio::join!(
            biased;
            client.batch_execute(BEGIN),
            client.query_one(&self.lock, &locking),
            client.query_one(&self.apply, &applying),
            client.batch_execute("COMMIT"),
        );
        if let Err(error) = begin {
            return unknown(describe(&error));
        }
        let row = match lock.and(apply) {
            Ok(row) => row,
            Err(error) => return judge(&error),
        };
        if let Err(error) = end {
            return unknown(describe(&error));
        }
        self.done(row.try_get(0))
    }

    /// Reads the outcome of a batch whose row exists.
    async fn look_up(&self, batch: &Batch) -> Ran {
        self.link.take_warning();
        match self.link.client.query_opt(&self.look_up, &[&batch.writer, &batch.number]).await {
            Ok(Some(row)) => self.done(row.try_get(0)),
            Ok(None) => unknown("the row of the batch no longer exists".to_owned()),
            Err(error) => judge(&error),
        }
    }

    fn done(&self, refused: Result<Vec<i16>, Error>) -> Ran {
        // If an operator cancels the wait for an absent standby, the server reports success for
        // data that only the primary has.
        if self.link.take_warning() {
            return Ran::Unknown(RerunCause::CancelledWait, "the wait for the standby was cancelled".to_owned());
        }
        refused.map_or_else(|error| unknown(describe(&error)), Ran::Done)
    }
}

pub(super) fn describe(error: &Error) -> String {
    error
        .as_db_error()
        .map_or_else(|| error.to_string(), |error| format!("{} ({})", error.message(), error.code().code()))
}

/// Classifies an error that occurred before the end of a transaction.
fn judge(error: &Error) -> Ran {
    let Some(code) = error.code() else { return unknown(describe(error)) };
    let again = [&SqlState::T_R_DEADLOCK_DETECTED, &SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::LOCK_NOT_AVAILABLE];
    if again.contains(&code) {
        return Ran::Again;
    }
    // The duplicate key is the row of the batch, because the locks prevent duplicate keys in other
    // tables.
    if *code == SqlState::UNIQUE_VIOLATION {
        return Ran::Earlier;
    }
    if *code == SqlState::DISK_FULL || *code == SqlState::READ_ONLY_SQL_TRANSACTION {
        return Ran::Failed(EngineError::Unwritable(describe(error)));
    }
    // The server or the connection has stopped, so the commit may have been applied.
    if matches!(code.code().get(..2), Some("57" | "08")) {
        return unknown(describe(error));
    }
    Ran::Failed(EngineError::Unavailable(describe(error)))
}
