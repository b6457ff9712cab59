//! sled engine. A single writer thread writes all queued commits as one batch with one flush. Reads
//! are direct.
//!
//! sled 0.34.7 keeps acknowledged data only under these rules:
//!
//! - sled's disk barrier is replaced ([`super::barrier`]).
//! - Only the writer flushes.
//! - Transactions of sled are not used, because each has its own disk barrier.
//! - All entries are short. sled moves long entries to separate files, and never syncs these files
//!   ([`records`]).
//! - Opening the store verifies that no data was lost ([`watermark`]).

mod copying;
mod disk;
mod opening;
mod placing;
mod records;
mod watermark;
mod writer;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, UNIX_EPOCH};

use async_channel::{Sender, TrySendError};
use async_trait::async_trait;
use tokio::sync::oneshot;

use crate::commit_turn::CommitTurn;
use crate::engine::{Changes, CommitObserver, Counters, Engine, EngineError, Key, Outcome, Value};
use crate::sled::disk::Disk;
use crate::sled::records::Records;
use crate::sled::writer::{Commit, Copy, Job, Writer};
use sealgate_config as config;

pub use crate::sled::copying::last_backup;
pub use crate::sled::disk::{DiskState, disk_state};
pub use crate::sled::opening::OpenError;
pub use crate::sled::placing::NewStore;

/// Maximum number of records that a scan reads on the caller's thread. Longer scans use a blocking
/// thread.
const INLINE_SCAN: usize = 64;
/// Maximum time that closing the engine waits for its writer. A hanging disk must not keep the
/// process from ending.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// A caller waits this many commit timeouts for a started commit. If the caller stops waiting, the
/// outcome of the commit is unknown.
const COMMIT_WAITS: u32 = 3;
/// Timeout of copying the files, including the time in the queue.
const COPY_TIMEOUT: Duration = Duration::from_secs(90);

/// Engine that stores records in a sled database on a local disk.
pub struct SledEngine {
    path: PathBuf,
    records: Records,
    disk: Arc<Disk>,
    queue: Sender<Job>,
    writer: Mutex<Option<JoinHandle<()>>>,
    observer: Arc<dyn CommitObserver>,
    counters: Arc<Counters>,
    commit_timeout: Duration,
    verifier: CopyVerifier,
    is_proven: bool,
    // Must be the last field, because fields are dropped in order, and the lock may be released
    // only when the database is closed.
    _lock: File,
}

impl SledEngine {
    /// Opens the database in `store.path`, or creates it.
    ///
    /// # Errors
    /// One line that includes the remedy: see [`OpenError`].
    pub fn open(store: &config::SledConfig, observer: Arc<dyn CommitObserver>) -> Result<Self, OpenError> {
        Self::open_with(store, Options::default(), observer)
    }

    /// Opens the database as [`SledEngine::open`] does, with options that operators cannot set.
    ///
    /// # Errors
    /// As [`SledEngine::open`].
    pub fn open_with(
        store: &config::SledConfig,
        options: Options,
        observer: Arc<dyn CommitObserver>,
    ) -> Result<Self, OpenError> {
        let opened = opening::open(store, options)?;
        let disk = Arc::new(Disk::new(opened.directory, store.reserve_bytes));
        let (queue, jobs) = async_channel::bounded(store.queue.max(1));
        let counters = Arc::<Counters>::default();
        let writer = Writer {
            path: store.path.clone(),
            database: opened.database.clone(),
            records: Records::new(&opened.database),
            progress: opened.progress,
            disk: Arc::clone(&disk),
            jobs,
            observer: Arc::clone(&observer),
            counters: Arc::clone(&counters),
            discard: options.discard,
        };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| OpenError::Thread { error })?;
        let engine = Self {
            path: store.path.clone(),
            records: Records::new(&opened.database),
            disk,
            queue,
            writer: Mutex::new(Some(thread)),
            observer,
            counters,
            commit_timeout: options.commit_timeout,
            verifier: options.verifier,
            is_proven: opened.is_proven,
            _lock: opened.lock,
        };
        engine.report_last_backup();
        Ok(engine)
    }

    /// Reports the time of the last backup to the observer, or zero if there is no backup.
    fn report_last_backup(&self) {
        match last_backup(&self.path) {
            Ok(at) => {
                let since_1970 = at.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
                self.observer.backed_up(since_1970.unwrap_or_default().as_secs());
            }
            Err(error) => tracing::warn!(%error, "cannot read the time of the last backup"),
        }
    }

    /// Returns whether opening the store has verified that no data was lost. A store of an older
    /// program cannot be verified.
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Counts the records by reading all of them.
    pub fn count(&self) -> Result<usize, EngineError> {
        self.records.count()
    }

    fn enqueue(&self, job: Job) -> Result<(), EngineError> {
        self.queue.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => EngineError::Busy,
            TrySendError::Closed(_) => EngineError::Unavailable("it is closed".to_owned()),
        })?;
        self.observer.queue(self.queue.len());
        Ok(())
    }
}

/// Verifies the copy in `directory`, which must have been made after batch `sequence`. Returns the
/// number of records.
///
/// With [`CopyVerifier::Apart`], this runs in a separate process.
pub fn verify_copy(directory: &Path, sequence: u64) -> Result<usize, String> {
    copying::verify_copied_store(directory, sequence)
}

impl Drop for SledEngine {
    fn drop(&mut self) {
        self.close();
    }
}

#[async_trait]
impl Engine for SledEngine {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.records.get(key)
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, EngineError> {
        keys.iter().map(|key| self.records.get(key)).collect()
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        if limit <= INLINE_SCAN {
            return self.records.scan(prefix, after, limit);
        }
        let (records, prefix, after) = (self.records.clone(), prefix.to_vec(), after.map(<[u8]>::to_vec));
        tokio::task::spawn_blocking(move || records.scan(&prefix, after.as_deref(), limit))
            .await
            .map_err(|error| EngineError::Unavailable(format!("a scan failed: {error}")))?
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        changes.check_sizes()?;
        let (reply, answer) = oneshot::channel();
        let turn = CommitTurn::default();
        self.enqueue(Job::Commit(Commit { changes, reply, turn: turn.clone() }))?;
        turn.wait(answer, self.commit_timeout, COMMIT_WAITS * self.commit_timeout).await
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    async fn ping(&self) -> Result<(), EngineError> {
        if self.queue.is_closed() {
            return Err(EngineError::Unavailable("it is closed".to_owned()));
        }
        if self.queue.is_full() {
            return Err(EngineError::Busy);
        }
        self.disk.writable()
    }

    async fn copy_to(&self, directory: &Path) -> Result<usize, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.enqueue(Job::Copy(Copy { directory: directory.to_owned(), reply }))?;
        let sequence = match tokio::time::timeout(COPY_TIMEOUT, answer).await {
            Ok(Ok(copied)) => copied?,
            Ok(Err(_)) => return Err(EngineError::Unavailable("its writer thread has stopped".to_owned())),
            Err(_) => return Err(EngineError::Timeout),
        };
        let (path, directory, verifier) = (self.path.clone(), directory.to_owned(), self.verifier);
        let copied = tokio::task::spawn_blocking(move || {
            let records = copying::verify(&directory, sequence, verifier)?;
            if let Err(error) = copying::record(&path, &directory) {
                tracing::warn!(%error, "cannot record the time of this backup in the store's directory");
            }
            Ok(records)
        });
        let records =
            copied.await.map_err(|error| EngineError::NoCopy(format!("its verification failed: {error}")))??;
        self.report_last_backup();
        Ok(records)
    }

    fn close(&self) {
        self.queue.close();
        let Some(writer) = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take() else { return };
        let started = Instant::now();
        while !writer.is_finished() {
            if started.elapsed() > CLOSE_TIMEOUT {
                tracing::error!("the store's disk does not answer; closing without waiting for it");
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
        // A panic of the writer would have ended the process.
        let _ = writer.join();
    }
}

/// Options that operators cannot set.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether volatile and network file systems (tmpfs, NFS) are permitted. For tests.
    pub allow_volatile: bool,
    /// Maximum time of a commit in the queue. After that, the disk has three times as long to
    /// complete the commit.
    pub commit_timeout: Duration,
    /// Whether to open a store that has lost acknowledged changes.
    pub accept_loss: bool,
    /// Whether the store is being built. If so, it is deleted when the disk fails.
    pub discard: bool,
    pub verifier: CopyVerifier,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_volatile: false,
            commit_timeout: Duration::from_secs(10),
            accept_loss: false,
            discard: false,
            verifier: CopyVerifier::Here,
        }
    }
}

/// Process that verifies a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyVerifier {
    /// The current process.
    Here,
    /// A separate process that runs this program.
    Apart,
}
