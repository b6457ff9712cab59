//! The thread that changes the database.
//!
//! It takes the queued commits, decides each in turn against the tree and the changes before it,
//! writes one batch, flushes once, and then answers all. The flush is expensive, so it is shared. A
//! refusal waits for the flush too, since it may depend on a change that is not durable yet.

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

/// Maximum number of commits per batch. Readers stall for about 10 µs per record of a batch.
const BATCH_COMMITS: usize = 256;
/// Maximum number of single-record commits that are written without a sled batch.
///
/// A batch costs a second disk barrier, some 12 KiB on ext4. But each single commit writes the
/// state again, so for many of them a batch is cheaper.
const LONE_COMMITS: usize = 16;
/// Number of records per batch, after which no further commit is added. sled's memory grows with
/// it.
const BATCH_RECORDS: usize = 512;
/// Number of value bytes per batch, likewise.
const BATCH_BYTES: usize = 1 << 20;
/// The process's exit status when the disk fails.
const EXIT_DISK_FAILED: i32 = 70;

/// A commit and its reply channel.
pub(super) struct Commit {
    pub(super) changes: Changes,
    pub(super) turn: CommitTurn,
    pub(super) reply: oneshot::Sender<Result<Outcome, EngineError>>,
}

/// A copy to be made between two batches.
pub(super) struct Copy {
    pub(super) directory: PathBuf,
    /// Reply channel for the number of the newest batch in it.
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
    /// Whether a failure removes the files, for a store under construction.
    pub(super) discard: bool,
}

impl Writer {
    /// Works until the queue is closed and empty.
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

    /// Returns `first` and further queued commits within a batch's limits, and a job of another
    /// kind that ended it.
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
        // The callers of the others no longer wait, and got an error that says that nothing
        // happened.
        commits.retain(|commit| !commit.reply.is_closed() && commit.turn.begin());
        (commits, following)
    }

    /// Copies the files while there are no commits.
    ///
    /// A reader may still make sled rewrite a page at the end of the log. A copy with a part of
    /// that equals the state after a crash, and can be opened.
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
        // Without a change there is nothing to flush: the tree was durable at the beginning of the
        // step.
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
            // One after another, in order: each is atomic, and may depend on the one before.
            for (key, value) in lone {
                self.write_down([(&key, &value)])?;
            }
        } else {
            self.write_down(overlay)?;
        }
        // From here on readers see the changes. Not before: a reader with the new sum and the old
        // records would cache them. Not after the flush: with a hanging disk, revoked access would
        // stay cached.
        self.counters.advance(moves);
        self.database.flush().map_err(|error| EngineError::Unavailable(format!("it cannot be flushed: {error}")))?;
        // Not before: the tree must never be older than the watermark.
        let raised = self.progress.watermark.raise(self.progress.sequence);
        raised.map_err(|error| EngineError::Unavailable(format!("its watermark cannot be written: {error}")))
    }

    /// Applies these changes atomically. Durable only after a flush.
    fn write_down<'c>(
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

/// A batch under construction: later commits see the changes of earlier ones.
struct Step<'a> {
    records: &'a Records,
    overlay: HashMap<Key, Option<Value>>,
    /// The changes in order, while each commit has changed one record.
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

/// Returns the number of records and bytes that `changes` writes.
fn weight(changes: &Changes) -> (usize, usize) {
    (changes.put.len() + changes.delete.len(), changes.put.iter().map(|(_, value)| value.len()).sum())
}

/// Ends the process after a failed write or flush.
///
/// The content of the disk is unknown: the kernel may have dropped the data and would report a
/// second flush as successful. Only reopening the files shows it. A store under construction is
/// removed.
fn stop(cause: &str, discarded: Option<&Path>) -> ! {
    if let Some(path) = discarded {
        let _ = fs::remove_dir_all(path);
        log::fail(EXIT_DISK_FAILED, format_args!("{cause}; nothing was restored; check the disk of store.path"));
    }
    log::fail(
        EXIT_DISK_FAILED,
        format_args!("{cause}; sealgate stops; check the disk of store.path, then start sealgate again"),
    )
}
