//! The interface between the store and the engines that store its bytes. It is independent of
//! OAuth.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;

use crate::cluster::shared_counts::SharedCounts;

/// A key. The first byte is the table; keys are ordered bytewise.
pub type Key = Vec<u8>;
/// The bytes of a record.
pub type Value = Vec<u8>;

/// A condition of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// No record has the key.
    Absent(Key),
    /// The record with the key has exactly these bytes.
    Value(Key, Value),
}

/// Maximum length of a key, in bytes.
pub const MAX_KEY_BYTES: usize = 384;
/// Number of records per scan in operations on many records.
const PAGE: usize = 256;
/// Maximum length of a value, in bytes.
pub const MAX_VALUE_BYTES: usize = 256 * 1024;

/// An atomic change: if every expectation holds, all puts and deletes are applied; otherwise none
/// is.
///
/// A key occurs at most once in `put` and `delete` together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub expect: Vec<Expect>,
    pub put: Vec<(Key, Value)>,
    /// Keys to remove. Removing an absent key is not an error.
    pub delete: Vec<Key>,
    /// Counters that grow in the same commit.
    ///
    /// Callers of [`super::Store`] leave it empty. The store derives it from the records
    /// ([`super::access`]), so that no caller can omit one.
    pub moves: Vec<Counter>,
}

impl Changes {
    /// Appends the other changes to these.
    pub(super) fn merge(&mut self, more: Changes) {
        self.expect.extend(more.expect);
        self.put.extend(more.put);
        self.delete.extend(more.delete);
        self.moves.extend(more.moves);
    }

    /// Rejects keys over [`MAX_KEY_BYTES`] and values over [`MAX_VALUE_BYTES`], for every engine
    /// alike.
    ///
    /// # Errors
    /// `Unwritable`, with the actual size.
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

/// A counter that grows when access is revoked.
///
/// There are several, so that a change to one user does not invalidate all cached decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Records of the users whose identifiers end in this byte.
    Person(u8),
    Clients,
    Keys,
    /// Records that cannot be assigned to another counter.
    Everything,
}

impl Counter {
    pub const COUNT: usize = 259;

    /// Returns the counter of this slot, which is below [`Counter::COUNT`].
    pub fn of_slot(slot: usize) -> Option<Self> {
        match slot {
            0..=255 => u8::try_from(slot).ok().map(Self::Person),
            256 => Some(Self::Clients),
            257 => Some(Self::Keys),
            258 => Some(Self::Everything),
            _ => None,
        }
    }

    pub fn slot(self) -> usize {
        match self {
            Self::Person(byte) => usize::from(byte),
            Self::Clients => 256,
            Self::Keys => 257,
            Self::Everything => 258,
        }
    }
}

/// Deadline until which the state in this process counts as current.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    until: Option<Instant>,
}

impl Current {
    /// State that is always current, because no other process writes.
    pub(crate) const ALWAYS: Self = Self { until: None };

    pub fn until(instant: Instant) -> Self {
        Self { until: Some(instant) }
    }

    /// Returns whether the deadline has not passed.
    pub fn holds(self) -> bool {
        self.until.is_none_or(|until| Instant::now() <= until)
    }
}

/// All counters, as this process has read them.
///
/// Ordering makes caches correct. The engine moves a counter after the change is readable and
/// before it answers the commit. A reader takes the sum before it reads the records. A cache entry
/// with the state from before a change therefore has a sum from before the move.
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
    /// Increments these counters. Called by an engine after it has applied the change.
    pub fn advance(&self, moves: &[Counter]) {
        if moves.is_empty() {
            return;
        }
        for slot in moves.iter().filter_map(|counter| self.slots.get(counter.slot())) {
            slot.fetch_add(1, Ordering::AcqRel);
        }
        // Last: a caller that sees a new total must then find the slots incremented.
        self.total.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the sum of the counters that concern a user. It changes if and only if one of them
    /// does.
    pub fn sum(&self, person: u8) -> u64 {
        sum(person, |slot| self.slots.get(slot).map_or(0, |slot| slot.load(Ordering::Acquire)))
    }

    /// Returns all counters, for callers that learn the user only from the records they read.
    pub fn snapshot(&self) -> CounterReading {
        CounterReading(self.slots.iter().map(|slot| slot.load(Ordering::Acquire)).collect())
    }

    /// Returns the value of one counter.
    pub fn value(&self, counter: Counter) -> u64 {
        self.slots.get(counter.slot()).map_or(0, |slot| slot.load(Ordering::Acquire))
    }

    /// Returns a number that grows whenever any counter does.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }
}

/// The counters at one moment.
#[derive(Debug)]
pub struct CounterReading(Box<[u64]>);

impl CounterReading {
    /// Returns [`Counters::sum`] at that moment.
    pub fn sum(&self, person: u8) -> u64 {
        sum(person, |slot| self.0.get(slot).copied().unwrap_or_default())
    }
}

fn sum(person: u8, value: impl Fn(usize) -> u64) -> u64 {
    let counters = [Counter::Person(person), Counter::Clients, Counter::Keys, Counter::Everything];
    counters.into_iter().map(|counter| value(counter.slot())).sum()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Applied and durable.
    Committed,
    /// An expectation failed and nothing was written. Load the records again and decide again.
    Conflict,
}

/// Authority over the store's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatRule {
    /// This process alone decides when it opens the store.
    Own,
    /// The nodes that share the store agreed on this format. `None` before the first write.
    Shared(Option<u32>),
}

impl FormatRule {
    /// Returns the format in which to write records, given the newest format of this program.
    pub(super) fn written(self, newest: u8) -> u8 {
        match self {
            Self::Shared(Some(format)) => u8::try_from(format).unwrap_or(newest).min(newest),
            Self::Shared(None) | Self::Own => newest,
        }
    }
}

/// Error of an engine. The caller answers 503 without details.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The queue of commits is full: shed load.
    #[error("the store's queue is full")]
    Busy,
    /// The commit did not start before its deadline. It was withdrawn and did not happen.
    #[error("the operation waited too long in the store's queue")]
    Timeout,
    /// The commit started and did not finish before its deadline. It may or may not be applied.
    #[error("the store did not answer in time")]
    Unknown,
    /// The state in this process may be outdated, so no decision may depend on it.
    #[error("the data read from the store may be out of date: {0}")]
    Stale(String),
    /// Writes fail for now (disk full or read-only); reads continue.
    #[error("the store cannot write: {0}")]
    Unwritable(String),
    /// The engine has stopped or does not respond.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The bytes under a key cannot be read. Retrying does not help: the files are damaged.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// No copy was made; the store is unchanged.
    #[error("the store was not copied: {0}")]
    NoCopy(String),
}

/// Stores bytes, orders commits and makes them durable.
#[async_trait]
pub trait Engine: Send + Sync {
    /// Returns the record with this key. It may be newer than durable data by one flush in
    /// progress.
    ///
    /// # Errors
    /// `Unavailable` when the engine does not respond, `Damaged` when the bytes cannot be read.
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError>;

    /// Returns the records with these keys, in the same order, from one snapshot if the engine has
    /// them.
    ///
    /// # Errors
    /// As [`Engine::get`] of any of them.
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, EngineError> {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push(self.get(key).await?);
        }
        Ok(found)
    }

    /// Returns up to `limit` records whose keys start with `prefix`, in key order, strictly after
    /// `after`.
    ///
    /// # Errors
    /// As [`Engine::get`] of any of them.
    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError>;

    /// Counts the records whose keys start with `prefix`. It may read all of them: not for
    /// requests.
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

    /// Returns whether other processes read and write the same records concurrently.
    fn is_shared(&self) -> bool {
        false
    }

    /// Applies `changes` if their expectations hold.
    ///
    /// `Ok(Committed)` means durable: the change survives a power failure. The engine increments
    /// the named counters even if the caller no longer waits for the result.
    ///
    /// # Errors
    /// `Busy`, `Timeout`, `Unknown`, `Unwritable`, `Unavailable`, `Damaged`.
    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError>;

    /// Returns the counters, as this process has read them.
    fn counters(&self) -> &Counters;

    /// Returns until when decisions may use the state that this process has read and cached.
    ///
    /// One second after any node acknowledged a change, no decision uses older state. For an engine
    /// with a single writer the state is always current.
    ///
    /// # Errors
    /// `Stale`.
    fn current(&self) -> Result<Current, EngineError> {
        Ok(Current::ALWAYS)
    }

    /// Returns the number of processes that share the store, including this one.
    fn nodes(&self) -> u32 {
        1
    }

    /// Returns who decides on the store's format, and the format.
    fn format(&self) -> FormatRule {
        FormatRule::Own
    }

    /// Sets the format of a new shared store to one that all its nodes can read.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    async fn begin_format(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// Returns the names of the nodes that use the store now, without removed ones.
    ///
    /// Empty if there is only one process.
    ///
    /// # Errors
    /// As [`Engine::get`].
    async fn live_nodes(&self) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }

    /// Returns the counts shared with other nodes. `None` if there is only one node.
    fn shared_counts(&self) -> Option<Arc<dyn SharedCounts>> {
        None
    }

    /// Checks whether the engine accepts commits now.
    ///
    /// # Errors
    /// The error that a commit would return.
    async fn ping(&self) -> Result<(), EngineError>;

    /// Copies all records, as of between two commits, to a new directory on this machine.
    ///
    /// Returns the number of records after it has read the copy back and compared it. Commits wait
    /// during the copy; reads do not. A remote engine has its own backup tools and returns an
    /// error.
    ///
    /// # Errors
    /// `Busy`, `NoCopy`.
    async fn copy_to(&self, directory: &Path) -> Result<usize, EngineError> {
        Err(EngineError::NoCopy(format!("this store engine cannot copy to {}", directory.display())))
    }

    /// Stops accepting commits, finishes the accepted ones and releases resources. Blocks for up to
    /// 10 s.
    fn close(&self) {}
}

/// Observer of the engine's events, for metrics.
pub trait CommitObserver: Send + Sync {
    /// A batch of `operations` commits became durable, `seconds` after its first one was dequeued.
    fn committed(&self, operations: usize, seconds: f64);

    /// The queue has `waiting` commits.
    fn queue(&self, waiting: usize);

    /// A heartbeat was answered.
    fn beat(&self, _beat: &Heartbeat) {}

    /// A batch is retried.
    fn rerun(&self, _cause: RerunCause) {}

    /// A connection for commits was opened, to a server on this timeline; `None` if that failed.
    fn connected(&self, _timeline: Option<u32>) {}

    /// The last verified backup of a store in files was made at this time, in seconds since 1970; zero
    /// if there is none.
    fn backed_up(&self, _at: u64) {}
}

/// Reason for a retry of a batch of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RerunCause {
    /// The server rolled it back because of a concurrent transaction.
    RolledBack,
    /// The answer was lost: the batch may have been applied.
    Unknown,
    /// An operator cancelled the wait for the standby, and the server reported success.
    CancelledWait,
}

impl RerunCause {
    pub const ALL: [Self; 3] = [Self::RolledBack, Self::Unknown, Self::CancelledWait];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RolledBack => "rolled_back",
            Self::Unknown => "unknown",
            Self::CancelledWait => "cancelled_wait",
        }
    }
}

/// A node's heartbeat to a shared store.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heartbeat {
    /// Round-trip time.
    pub seconds: f64,
    /// Time of the heartbeat by the store's clock, in seconds since 1970.
    pub at: f64,
    /// Number of nodes.
    pub nodes: u32,
    /// Seconds by which the store's clock is ahead of this machine's.
    pub clock_offset: f64,
}

impl CommitObserver for () {
    fn committed(&self, _operations: usize, _seconds: f64) {}

    fn queue(&self, _waiting: usize) {}
}
