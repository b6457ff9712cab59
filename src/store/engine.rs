//! Interface between the store and its engines, which store keys and values of bytes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;

use crate::cluster::shared_counts::SharedCounts;

/// Key of a record. The first byte is its table. Records are ordered by the bytes of their keys.
pub type Key = Vec<u8>;
/// Bytes of a record.
pub type Value = Vec<u8>;

/// Condition of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// No record has the key.
    Absent(Key),
    /// The record with the key has exactly these bytes.
    Value(Key, Value),
}

/// Maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 384;
/// Number of records in one scan by an operation on many records.
const PAGE: usize = 256;
/// Maximum length of a value, in bytes.
pub const MAX_VALUE_BYTES: usize = 256 * 1024;

/// Atomic change. If all expectations hold, all puts and deletes are applied. Otherwise, nothing is
/// applied.
///
/// A key may occur at most once in `put` and `delete` together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub expect: Vec<Expect>,
    pub put: Vec<(Key, Value)>,
    /// Keys to delete. An absent key is not an error.
    pub delete: Vec<Key>,
    /// Counters that the commit increments.
    ///
    /// Callers of [`super::Store`] leave this list empty. [`super::access`] derives the counters
    /// from the records, so that no caller can forget a counter.
    pub moves: Vec<Counter>,
}

impl Changes {
    /// Appends the changes of `more`.
    pub(super) fn merge(&mut self, more: Changes) {
        self.expect.extend(more.expect);
        self.put.extend(more.put);
        self.delete.extend(more.delete);
        self.moves.extend(more.moves);
    }

    /// Rejects keys longer than [`MAX_KEY_BYTES`] and values longer than [`MAX_VALUE_BYTES`]. All
    /// engines use this method.
    ///
    /// # Errors
    /// `Unwritable`, with the length.
    pub(crate) fn check_sizes(&self) -> Result<(), EngineError> {
        let keys = self.put.iter().map(|(key, _)| key).chain(&self.delete);
        if let Some(key) = keys.into_iter().find(|key| key.len() > MAX_KEY_BYTES) {
            let length = key.len();
            return Err(EngineError::Unwritable(format!(
                "the key has {length} bytes, and the limit is {MAX_KEY_BYTES}"
            )));
        }
        if let Some((_, value)) = self.put.iter().find(|(_, value)| value.len() > MAX_VALUE_BYTES) {
            let length = value.len();
            return Err(EngineError::Unwritable(format!(
                "the value has {length} bytes, and the limit is {MAX_VALUE_BYTES}"
            )));
        }
        Ok(())
    }
}

/// Counter that a commit increments if it may revoke access.
///
/// There are several counters, so that a change to one user does not invalidate the cached
/// decisions about all users.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Records of the users whose identifiers end in this byte.
    User(u8),
    Clients,
    Keys,
    /// Records that have no other counter.
    Everything,
}

impl Counter {
    /// Number of counters.
    pub const COUNT: usize = 259;

    /// Returns the counter in this slot. Returns `None` for [`Counter::COUNT`] and above.
    pub fn of_slot(slot: usize) -> Option<Self> {
        match slot {
            0..=255 => u8::try_from(slot).ok().map(Self::User),
            256 => Some(Self::Clients),
            257 => Some(Self::Keys),
            258 => Some(Self::Everything),
            _ => None,
        }
    }

    /// Returns the slot number of the counter, below [`Counter::COUNT`].
    pub fn slot(self) -> usize {
        match self {
            Self::User(byte) => usize::from(byte),
            Self::Clients => 256,
            Self::Keys => 257,
            Self::Everything => 258,
        }
    }
}

/// Period in which the state that this process has read is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    until: Option<Instant>,
}

impl Current {
    /// The state is always current, because no other process writes.
    pub(crate) const ALWAYS: Self = Self { until: None };

    /// Creates a value for a state that is current until this time.
    pub fn until(instant: Instant) -> Self {
        Self { until: Some(instant) }
    }

    /// Returns whether the state is still current.
    pub fn holds(self) -> bool {
        self.until.is_none_or(|until| Instant::now() <= until)
    }
}

/// Values of all counters when this process last read them.
///
/// Caches rely on the order of these steps. An engine increments a counter after the change is
/// readable, and before it acknowledges the commit. A reader takes the sum of the counters before
/// it reads the records. Therefore a cache entry with old records also has an old sum.
#[derive(Debug)]
pub struct Counters {
    slots: [AtomicU64; Counter::COUNT],
    total: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self { slots: [const { AtomicU64::new(0) }; Counter::COUNT], total: AtomicU64::new(0) }
    }
}

impl Counters {
    /// Increments these counters. To be called by an engine after it has applied the change.
    pub fn advance(&self, moves: &[Counter]) {
        if moves.is_empty() {
            return;
        }
        for slot in moves.iter().filter_map(|counter| self.slots.get(counter.slot())) {
            slot.fetch_add(1, Ordering::AcqRel);
        }
        // Increment the total last, so that a reader of the new total reads the new counters too.
        self.total.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the sum of the counters that concern a user. The sum changes whenever one of these
    /// counters changes.
    pub fn sum(&self, user: u8) -> u64 {
        sum(user, |slot| self.slots.get(slot).map_or(0, |slot| slot.load(Ordering::Acquire)))
    }

    /// Returns a copy of all counters, for callers that read records before they know the user.
    pub fn snapshot(&self) -> CounterReading {
        CounterReading(self.slots.iter().map(|slot| slot.load(Ordering::Acquire)).collect())
    }

    /// Returns the value of one counter.
    pub fn value(&self, counter: Counter) -> u64 {
        self.slots.get(counter.slot()).map_or(0, |slot| slot.load(Ordering::Acquire))
    }

    /// Returns a number that increases whenever a counter is incremented.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }
}

/// Values of all counters at one time.
#[derive(Debug)]
pub struct CounterReading(Box<[u64]>);

impl CounterReading {
    /// Returns the sum of the user's counters at the time of this reading: see [`Counters::sum`].
    pub fn sum(&self, user: u8) -> u64 {
        sum(user, |slot| self.0.get(slot).copied().unwrap_or_default())
    }

    /// Returns the value of one counter at the time of this reading.
    pub fn value(&self, counter: Counter) -> u64 {
        self.0.get(counter.slot()).copied().unwrap_or_default()
    }
}

fn sum(user: u8, value: impl Fn(usize) -> u64) -> u64 {
    let counters = [Counter::User(user), Counter::Clients, Counter::Keys, Counter::Everything];
    counters.into_iter().map(|counter| value(counter.slot())).sum()
}

/// Result of a commit that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The changes are applied and durable.
    Committed,
    /// An expectation did not hold, so nothing was written. The caller must load the records and
    /// decide again.
    Conflict,
}

/// How the format of the store is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatRule {
    /// This process alone decides, when it opens the store.
    Own,
    /// The nodes that share the store have agreed on this format. `None` before the first write.
    Shared(Option<u32>),
}

impl FormatRule {
    /// Returns the format in which records are written. `newest` is the newest format that this
    /// program supports.
    pub(super) fn written(self, newest: u8) -> u8 {
        match self {
            Self::Shared(Some(format)) => u8::try_from(format).unwrap_or(newest).min(newest),
            Self::Shared(None) | Self::Own => newest,
        }
    }
}

/// Error of an engine. Clients get status 503 without details.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The queue of commits is full. The caller should reject the request.
    #[error("the store's queue is full")]
    Busy,
    /// The commit did not start in time, was withdrawn, and will not take place.
    #[error("the operation waited too long in the store's queue")]
    Timeout,
    /// The commit started but did not finish in time. It may have been applied.
    #[error("the store did not answer in time")]
    Unknown,
    /// The state that this process has read may be outdated, so no decision may be based on it.
    #[error("the data read from the store may be out of date: {0}")]
    Stale(String),
    /// Writes fail temporarily, because the disk is full or read-only. Reads work.
    #[error("the store cannot write: {0}")]
    Unwritable(String),
    /// The engine has stopped or does not respond.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The bytes of a record cannot be read because files are damaged. A retry does not help.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// No copy was made. The store is unchanged.
    #[error("the store was not copied: {0}")]
    NoCopy(String),
}

/// Storage engine: stores bytes, orders commits, and makes them durable.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Returns the record with this key. The record may not be durable yet.
    ///
    /// # Errors
    /// `Unavailable` if the engine does not respond, `Damaged` if the bytes cannot be read.
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError>;

    /// Returns the records with these keys, in the same order. If the engine has snapshots, all
    /// records are from the same snapshot.
    ///
    /// # Errors
    /// As [`Engine::get`].
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, EngineError> {
        let mut values = Vec::with_capacity(keys.len());
        for key in keys {
            values.push(self.get(key).await?);
        }
        Ok(values)
    }

    /// Returns up to `limit` records whose keys start with `prefix` and are greater than `after`,
    /// in key order.
    ///
    /// # Errors
    /// As [`Engine::get`].
    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError>;

    /// Counts the records whose keys start with `prefix`. May read all of them, so requests must
    /// not call it.
    ///
    /// # Errors
    /// As [`Engine::scan`].
    async fn count(&self, prefix: &[u8]) -> Result<usize, EngineError> {
        let (mut count, mut after) = (0, None::<Key>);
        loop {
            let rows = self.scan(prefix, after.as_deref(), PAGE).await?;
            count += rows.len();
            match rows.into_iter().next_back() {
                Some((last, _)) => after = Some(last),
                None => return Ok(count),
            }
        }
    }

    /// Returns whether other processes may read and write the same records at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Applies `changes` if their expectations hold.
    ///
    /// `Committed` means that the change survives a power failure. The counters in `changes` are
    /// incremented even if the caller does not wait for the result.
    ///
    /// # Errors
    /// `Busy`, `Timeout`, `Unknown`, `Unwritable`, `Unavailable`, `Damaged`.
    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError>;

    /// Returns the counters, as of this process's last read.
    fn counters(&self) -> &Counters;

    /// Returns how long decisions may be based on the state that this process has read and cached.
    ///
    /// One second after any node has acknowledged a change, no decision uses state from before the
    /// change. With a single writer, the state is always current.
    ///
    /// # Errors
    /// `Stale`.
    fn current(&self) -> Result<Current, EngineError> {
        Ok(Current::ALWAYS)
    }

    /// Returns the number of processes that share the store, including this process.
    fn nodes(&self) -> u32 {
        1
    }

    /// Returns how the store's format is decided, and the format if the nodes have agreed on one.
    fn format(&self) -> FormatRule {
        FormatRule::Own
    }

    /// Sets the format of a new shared store to a format that all its nodes can read.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    async fn begin_format(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Returns the names of the nodes that currently use the store. Empty if the store is not
    /// shared.
    ///
    /// Nodes that were removed from the cluster are not included.
    ///
    /// # Errors
    /// As [`Engine::get`].
    async fn live_nodes(&self) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }

    /// Returns the counts that the nodes share, or `None` if the store is not shared.
    fn shared_counts(&self) -> Option<Arc<dyn SharedCounts>> {
        None
    }

    /// Checks whether the engine currently accepts commits.
    ///
    /// # Errors
    /// The error that a commit would return.
    async fn ping(&self) -> Result<(), EngineError>;

    /// Copies all records to a new directory on this machine, and returns their number.
    ///
    /// The copy is consistent: it has the state between two commits. The engine reads the copy back
    /// and compares it. Commits wait during the copy. Reads do not wait. Engines on a database
    /// server return an error, because the server has its own backup tools.
    ///
    /// # Errors
    /// `Busy`, `NoCopy`.
    async fn copy_to(&self, directory: &Path) -> Result<usize, EngineError> {
        Err(EngineError::NoCopy(format!("this store engine cannot copy to {}", directory.display())))
    }

    /// Stops accepting commits, completes the accepted commits, and releases all resources. Blocks
    /// for up to ten seconds.
    fn close(&self) {}
}

/// Receives events of an engine, for metrics.
pub trait CommitObserver: Send + Sync {
    /// A batch of `operations` commits became durable, `seconds` after its first commit left the
    /// queue.
    fn committed(&self, operations: usize, seconds: f64);

    /// The queue has `waiting` commits.
    fn queue(&self, waiting: usize);

    /// The database server answered a heartbeat.
    fn beat(&self, _beat: &Heartbeat) {}

    /// A batch will be run again.
    fn rerun(&self, _cause: RerunCause) {}

    /// A connection for commits was opened, to a server on this timeline. `None` if the connection
    /// failed.
    fn connected(&self, _timeline: Option<u32>) {}

    /// Time of the last verified backup of a store in files, in seconds since 1970. Zero if there
    /// is no backup.
    fn backed_up(&self, _at: u64) {}
}

/// Reason why a batch of commits is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RerunCause {
    /// The server rolled the batch back because of a concurrent transaction.
    RolledBack,
    /// The result was lost, so the batch may have been applied.
    Unknown,
    /// An operator cancelled the wait for the standby, but the server reported success.
    CancelledWait,
}

impl RerunCause {
    /// All causes, in the order of the variants.
    pub const ALL: [Self; 3] = [Self::RolledBack, Self::Unknown, Self::CancelledWait];

    /// Returns the label in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RolledBack => "rolled_back",
            Self::Unknown => "unknown",
            Self::CancelledWait => "cancelled_wait",
        }
    }
}

/// Answered heartbeat of a node to a shared store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heartbeat {
    /// Round-trip time in seconds.
    pub seconds: f64,
    /// Time of the heartbeat according to the store's clock, in seconds since 1970.
    pub at: f64,
    /// Number of nodes.
    pub nodes: u32,
    /// How far the store's clock is ahead of this machine's, in seconds. Negative if it is behind.
    pub clock_offset: f64,
}

impl CommitObserver for () {
    fn committed(&self, _operations: usize, _seconds: f64) {}

    fn queue(&self, _waiting: usize) {}
}
