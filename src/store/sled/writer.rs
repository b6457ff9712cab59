//! Thread that changes the database.
//!
//! The thread takes the queued commits, decides each commit in turn, writes one batch, flushes
//! once, and then sends all results. A decision is based on the tree and on earlier commits of the
//! batch. The commits share the flush, because it is expensive. A refusal also waits for the flush,
//! because it may depend on a change that is not durable yet.

use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use async_channel::Receiver;
use sled::Db;
use tokio::sync::oneshot;

use super::copying;
use super::disk::Disk;
use super::records::Records;
use super::watermark::{State, WriterProgress};
use crate::commit_turn::CommitTurn;
use crate::engine::{Changes, CommitObserver, Counter, Counters, EngineError, Expect, Key, Outcome, Value};
use sealgate_system::log;

/// Maximum number of commits in a batch. Readers wait for about 10 µs per record of a batch.
const BATCH_COMMITS: usize = 256;
/// Maximum number of single-record commits that are written without a batch of sled.
///
/// On ext4, a batch of sled costs a second disk barrier and about 12 KiB. Without a batch, each
/// commit writes the state again, so a batch is cheaper for many commits.
const LONE_COMMITS: usize = 16;
/// Number of records at which no further commit is added to a batch. It limits the memory that sled
/// uses.
const BATCH_RECORDS: usize = 512;
/// Number of value bytes at which no further commit is added to a batch.
const BATCH_BYTES: usize = 1 << 20;
/// Exit status of the process after the disk failed.
const EXIT_DISK_FAILED: i32 = 70;

/// Queued commit, with the channel for its result.
pub(super) struct Commit {
    pub(super) changes: Changes,
    pub(super) turn: CommitTurn,
    pub(super) reply: oneshot::Sender<Result<Outcome, EngineError>>,
}

/// Request to copy the files between two batches.
pub(super) struct Copy {
    pub(super) directory: PathBuf,
    /// Channel for the number of the newest batch in the copy.
    pub(super) reply: oneshot::Sender<Result<u64, EngineError>>,
}

pub(super) enum Job {
    Commit(Commit),
    Copy(Copy),
}

pub(super) struct Writer {
    pub(super) path: PathBuf,
    pub(super) database: Db,
    pub(super) records: Records,
    pub(super) progress: WriterProgress,
    pub(super) disk: Arc<Disk>,
    pub(super) jobs: Receiver<Job>,
    pub(super) observer: Arc<dyn CommitObserver>,
    pub(super) counters: Arc<Counters>,
    /// Whether the files are deleted after a failure, because the store is being built.
    pub(super) discard: bool,
}

impl Writer {
    /// Processes jobs until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let (path, discard) = (self.path.clone(), self.discard);
        let work = AssertUnwindSafe(|| {
            while let Ok(first) = self.jobs.recv_blocking() {
                let mut next = Some(first);
                while let Some(job) = next.take() {
                    match job {
                        Job::Commit(first) => {
                            let (commits, following) = self.drain(first);
                            self.write(commits);
                            next = following;
                        }
                        Job::Copy(copy) => self.copy(copy),
                    }
                }
                self.observer.queue(self.jobs.len());
            }
        });
        if catch_unwind(work).is_err() {
            stop("the store's writer thread panicked", discard.then_some(path.as_path()));
        }
    }

    fn fail(&self, cause: &str) -> ! {
        stop(cause, self.discard.then_some(self.path.as_path()))
    }

    /// Returns `first` and further queued commits, up to the limits of a batch. If a job of another
    /// kind ends the batch, returns that job too.
    fn drain(&self, first: Commit) -> (Vec<Commit>, Option<Job>) {
        let (mut records, mut bytes) = weight(&first.changes);
        let (mut commits, mut following) = (vec![first], None);
        while commits.len() < BATCH_COMMITS && records < BATCH_RECORDS && bytes < BATCH_BYTES {
            let next = match self.jobs.try_recv() {
                Ok(Job::Commit(next)) => next,
                Ok(other) => {
                    following = Some(other);
                    break;
                }
                Err(_) => break,
            };
            let (more_records, more_bytes) = weight(&next.changes);
            records += more_records;
            bytes += more_bytes;
            commits.push(next);
        }
        // Drop the commits whose callers have stopped waiting and were told that nothing happened.
        commits.retain(|commit| !commit.reply.is_closed() && commit.turn.begin());
        (commits, following)
    }

    /// Copies the files. No commit is written in the meantime.
    ///
    /// A reader may cause sled to rewrite a page at the end of the log. A copy with a part of that
    /// page looks like a store after a crash, and can be opened.
    fn copy(&self, copy: Copy) {
        if copy.reply.is_closed() {
            return;
        }
        if let Err(error) = self.database.flush() {
            self.fail(&format!("the store cannot be flushed: {error}"));
        }
        let copied = copying::copy(&self.path, &copy.directory, self.disk.reserve_bytes())
            .map(|()| self.progress.sequence)
            .map_err(|error| EngineError::NoCopy(error.to_string()));
        let _ = copy.reply.send(copied);
    }

    fn write(&mut self, commits: Vec<Commit>) {
        if commits.is_empty() {
            return;
        }
        let started = Instant::now();
        if let Err(error) = self.disk.writable() {
            for commit in commits {
                let _ = commit.reply.send(Err(error.clone()));
            }
            return;
        }
        let mut step =
            Step { records: &self.records, overlay: HashMap::new(), lone: Some(Vec::new()), moves: Vec::new() };
        let answers: Vec<_> = commits.into_iter().map(|commit| (commit.reply, step.decide(commit.changes))).collect();
        let Step { overlay, lone, moves, .. } = step;
        // Without changes there is nothing to flush, because the tree was durable before this
        // batch.
        if !overlay.is_empty()
            && let Err(error) = self.apply(&overlay, lone, &moves)
        {
            self.fail(&error.to_string());
        }
        let operations = answers.len();
        for (reply, answer) in answers {
            let _ = reply.send(answer);
        }
        self.observer.committed(operations, started.elapsed().as_secs_f64());
    }

    fn apply(
        &mut self,
        overlay: &HashMap<Key, Option<Value>>,
        lone: Option<Vec<(Key, Option<Value>)>>,
        moves: &[Counter],
    ) -> Result<(), EngineError> {
        if let Some(lone) = lone.filter(|lone| lone.len() <= LONE_COMMITS) {
            // Write the changes one after another: each is atomic, and may depend on the previous
            // change.
            for (key, value) in lone {
                self.apply_writes([(&key, &value)])?;
            }
        } else {
            self.apply_writes(overlay)?;
        }
        // Readers see the changes from now on. If the counters were incremented earlier, a reader
        // could cache old records with the new counters. If they were incremented after the flush,
        // revoked access would stay cached while the disk hangs.
        self.counters.advance(moves);
        self.database.flush().map_err(|error| EngineError::Unavailable(format!("it cannot be flushed: {error}")))?;
        // Raise the watermark after the flush, because the tree must never be older than the
        // watermark.
        let raised = self.progress.watermark.raise(self.progress.sequence);
        raised.map_err(|error| EngineError::Unavailable(format!("its watermark cannot be written: {error}")))
    }

    /// Applies these changes atomically. They are durable after a flush.
    fn apply_writes<'c>(
        &mut self,
        changes: impl IntoIterator<Item = (&'c Key, &'c Option<Value>)>,
    ) -> Result<(), EngineError> {
        let mut writes = Vec::new();
        for (key, value) in changes {
            self.records.replace(&mut writes, key, value.as_ref())?;
        }
        let (before, sequence) = (self.progress.digest, self.progress.sequence + 1);
        let after = self.records.digest_after(before, &writes)?;
        self.records.write(writes, State { sequence, before, after })?;
        (self.progress.sequence, self.progress.digest) = (sequence, after);
        Ok(())
    }
}

/// Batch in progress. Later commits see the changes of earlier commits.
struct Step<'a> {
    records: &'a Records,
    overlay: HashMap<Key, Option<Value>>,
    /// Changes in order. `None` once a commit has changed more than one record.
    lone: Option<Vec<(Key, Option<Value>)>>,
    moves: Vec<Counter>,
}

impl Step<'_> {
    fn decide(&mut self, changes: Changes) -> Result<Outcome, EngineError> {
        for expect in &changes.expect {
            let holds = match expect {
                Expect::Absent(key) => self.holds(key, None)?,
                Expect::Value(key, value) => self.holds(key, Some(value))?,
            };
            if !holds {
                return Ok(Outcome::Conflict);
            }
        }
        let puts = changes.put.into_iter().map(|(key, value)| (key, Some(value)));
        let all: Vec<_> = puts.chain(changes.delete.into_iter().map(|key| (key, None))).collect();
        match &mut self.lone {
            Some(lone) if all.len() < 2 => lone.extend(all.iter().cloned()),
            lone => *lone = None,
        }
        self.overlay.extend(all);
        self.moves.extend(changes.moves);
        Ok(Outcome::Committed)
    }

    fn holds(&self, key: &Key, expected: Option<&Value>) -> Result<bool, EngineError> {
        if let Some(changed) = self.overlay.get(key) {
            return Ok(changed.as_ref() == expected);
        }
        Ok(self.records.get(key)?.as_ref() == expected)
    }
}

/// Returns the number of records and the number of value bytes that `changes` writes.
fn weight(changes: &Changes) -> (usize, usize) {
    (changes.put.len() + changes.delete.len(), changes.put.iter().map(|(_, value)| value.len()).sum())
}

/// Ends the process after a failed write or flush.
///
/// The content of the disk is unknown: the kernel may have dropped the data, and would report
/// success for another flush. The content is known only after the files are opened again. A store
/// that is being built is deleted.
fn stop(cause: &str, discarded: Option<&Path>) -> ! {
    if let Some(path) = discarded {
        let _ = fs::remove_dir_all(path);
        log::exit_with_error(
            EXIT_DISK_FAILED,
            format_args!("{cause}; nothing was restored; check the disk of store.path"),
        );
    }
    log::exit_with_error(
        EXIT_DISK_FAILED,
        format_args!("{cause}; sealgate stops; check the disk of store.path, then start sealgate again"),
    )
}
