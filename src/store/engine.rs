//! The border between the store and whatever keeps its bytes: four operations, no words of OAuth.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use async_trait::async_trait;

use super::shared_counts::SharedCounts;

/// A key. Its first byte names the table; order is bytewise.
pub type Key = Vec<u8>;
/// A record's bytes.
pub type Value = Vec<u8>;

/// What must hold for a commit to happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// No record has the key.
    Absent(Key),
    /// The record with the key has exactly these bytes.
    Value(Key, Value),
}

/// The longest key that an engine takes, bytes.
pub const MAX_KEY_BYTES: usize = 384;
/// Records that are looked at in one step where many are.
const PAGE: usize = 256;
/// The longest value that an engine takes, bytes.
pub const MAX_VALUE_BYTES: usize = 256 * 1024;

/// One atomic step: if every expectation holds, every put and delete happens; otherwise nothing does.
/// A key stands in `put` or `delete` at most once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub expect: Vec<Expect>,
    pub put: Vec<(Key, Value)>,
    /// Records to remove; removing an absent one is no fault.
    pub delete: Vec<Key>,
    /// Counters that grow in the same step. Whoever writes through [`super::Store`] leaves this empty: the store derives it
    /// from the records ([`super::access`]), so that no caller can forget one.
    pub moves: Vec<Counter>,
}

impl Changes {
    /// Makes one step of both.
    pub(super) fn merge(&mut self, more: Changes) {
        self.expect.extend(more.expect);
        self.put.extend(more.put);
        self.delete.extend(more.delete);
        self.moves.extend(more.moves);
    }

    /// Refuses records beyond [`MAX_KEY_BYTES`] and [`MAX_VALUE_BYTES`], the same in every engine.
    ///
    /// # Errors
    /// `Unwritable`, with the size that was met.
    pub fn check_sizes(&self) -> Result<(), EngineError> {
        let keys = self.put.iter().map(|(key, _)| key).chain(&self.delete);
        if let Some(key) = keys.into_iter().find(|key| key.len() > MAX_KEY_BYTES) {
            let length = key.len();
            return Err(EngineError::Unwritable(format!("a key of {length} bytes; {MAX_KEY_BYTES} are allowed")));
        }
        if let Some((_, value)) = self.put.iter().find(|(_, value)| value.len() > MAX_VALUE_BYTES) {
            let length = value.len();
            return Err(EngineError::Unwritable(format!("a value of {length} bytes; {MAX_VALUE_BYTES} are allowed")));
        }
        Ok(())
    }
}

/// One of the numbers that grow when access is taken away. Several, so that what happens to one person does not send
/// everybody's cached decisions back to the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Something of the people whose identifiers end in this byte.
    Person(u8),
    Clients,
    Keys,
    /// Something that cannot be told apart further.
    Everything,
}

impl Counter {
    pub const COUNT: usize = 259;

    /// The counter of this slot, which is below [`Counter::COUNT`].
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

/// How long what this process knows can be gone by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    until: Option<Instant>,
}

impl Current {
    /// Nobody else changes anything.
    pub const ALWAYS: Self = Self { until: None };

    pub fn until(instant: Instant) -> Self {
        Self { until: Some(instant) }
    }

    /// Whether it can still be gone by.
    pub fn holds(self) -> bool {
        self.until.is_none_or(|until| Instant::now() <= until)
    }
}

/// All counters, as this process knows them.
///
/// The order that keeps a cache sound: the engine moves a counter after the change can be read and before its commit is
/// answered; a reader takes the sum before it looks the records up. So whoever cached what the records said before a change
/// holds a sum from before its move.
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
    /// Moves these: for an engine that has just applied the change that names them.
    pub fn advance(&self, moves: &[Counter]) {
        if moves.is_empty() {
            return;
        }
        for slot in moves.iter().filter_map(|counter| self.slots.get(counter.slot())) {
            slot.fetch_add(1, Ordering::AcqRel);
        }
        // Last: whoever watches the total and then asks again must find the parts moved.
        self.total.fetch_add(1, Ordering::AcqRel);
    }

    /// The sum of what concerns a person: equal to an earlier one exactly while none of it has moved.
    pub fn sum(&self, person: u8) -> u64 {
        sum(person, |slot| self.slots.get(slot).map_or(0, |slot| slot.load(Ordering::Acquire)))
    }

    /// All of them at this moment: for whoever does not know yet whose records they are about to look up.
    pub fn snapshot(&self) -> CounterReading {
        CounterReading(self.slots.iter().map(|slot| slot.load(Ordering::Acquire)).collect())
    }

    /// One of them.
    pub fn of(&self, counter: Counter) -> u64 {
        self.slots.get(counter.slot()).map_or(0, |slot| slot.load(Ordering::Acquire))
    }

    /// Grows whenever any of them has moved.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Acquire)
    }
}

/// The counters at one moment.
#[derive(Debug)]
pub struct CounterReading(Box<[u64]>);

impl CounterReading {
    /// As [`Counters::sum`] at that moment.
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
    /// Applied, and durable.
    Committed,
    /// An expectation did not hold; nothing was written. Load and decide again.
    Conflict,
}

/// Who decides which format the store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatRule {
    /// This process alone, when it opens the store.
    Own,
    /// Whoever shares the store: they go by this one. None before anything is written.
    Shared(Option<u32>),
}

impl FormatRule {
    /// The format that records are written in by a program of this newest one.
    pub(super) fn written(self, newest: u8) -> u8 {
        match self {
            Self::Shared(Some(format)) => u8::try_from(format).unwrap_or(newest).min(newest),
            Self::Shared(None) | Self::Own => newest,
        }
    }
}

/// Why the engine could not do its work. The caller answers 503 and names none of it to a stranger.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The queue of commits is full: shed load.
    #[error("the store's queue is full")]
    Busy,
    /// The commit's turn did not come within its deadline; it was withdrawn and did not happen.
    #[error("the store did not get to it in time")]
    Timeout,
    /// The commit was begun and has not ended within its deadline; whether it happens is not known.
    #[error("the store did not answer in time")]
    Unknown,
    /// What this process knows may have changed meanwhile: nothing is decided upon it.
    #[error("what is known of the store is not current: {0}")]
    Stale(String),
    /// Writes are refused for now (disk full or read-only); reads go on.
    #[error("the store cannot write: {0}")]
    Unwritable(String),
    /// The engine has stopped, or does not answer.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// What lies under a key cannot be read, and will not be by waiting: the files are broken.
    #[error("the store is damaged: {0}")]
    Damaged(String),
    /// A copy was not made; the store is as it was.
    #[error("no copy of the store was made: {0}")]
    NoCopy(String),
}

/// Keeps bytes, orders commits, and makes them durable.
#[async_trait]
pub trait Engine: Send + Sync {
    /// The record with this key. May be newer than what is durable by at most one flush in progress.
    ///
    /// # Errors
    /// `Unavailable` when the engine does not answer, `Damaged` when the bytes cannot be read.
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError>;

    /// The records with these keys, in their order, as they stand at one moment where the engine has one.
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

    /// Up to `limit` records whose keys start with `prefix`, in key order, strictly after the key `after`.
    ///
    /// # Errors
    /// As [`Engine::get`] of any of them.
    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError>;

    /// How many records have keys that start with `prefix`. Not for a request: it may read them all.
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

    /// Whether other processes read and write the same records at the same time.
    fn is_shared(&self) -> bool {
        false
    }

    /// Applies `changes` if what they expect holds. `Ok(Committed)` means durable: it survives a power loss. Whoever applies
    /// them moves the counters that they name, whether or not somebody still waits for the answer.
    ///
    /// # Errors
    /// `Busy`, `Timeout`, `Unknown`, `Unwritable`, `Unavailable`, `Damaged`.
    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError>;

    /// The counters, as far as this process knows them.
    fn counters(&self) -> &Counters;

    /// Until when decisions may rest on what this process has read and remembers: a second after something was acknowledged,
    /// to whomever, no decision rests on what was before. An engine that nobody else writes to always knows.
    ///
    /// # Errors
    /// `Stale`.
    fn current(&self) -> Result<Current, EngineError> {
        Ok(Current::ALWAYS)
    }

    /// How many processes share the store now, this one among them.
    fn nodes(&self) -> u32 {
        1
    }

    /// Who decides on the store's format, and what it is.
    fn format(&self) -> FormatRule {
        FormatRule::Own
    }

    /// Gives a shared store that holds nothing yet its format: one that all read who share it.
    ///
    /// # Errors
    /// As [`Engine::commit`].
    async fn begin_format(&self) -> Result<(), EngineError> {
        Ok(())
    }

    /// The names of the nodes that have the store in use now, those that were removed not among them. None where there is one
    /// process.
    ///
    /// # Errors
    /// As [`Engine::get`].
    async fn live_nodes(&self) -> Result<Vec<String>, EngineError> {
        Ok(Vec::new())
    }

    /// Counts that other nodes over the same records share. None where there is one node.
    fn shared_counts(&self) -> Option<Arc<dyn SharedCounts>> {
        None
    }

    /// Whether commits would be taken now.
    ///
    /// # Errors
    /// The error that a commit would meet.
    async fn ping(&self) -> Result<(), EngineError>;

    /// Makes a copy of all records as they stand between two commits, in a new directory on this machine, and yields how
    /// many there are once the copy has been read and compared. Commits wait for the copying, reads do not. An engine
    /// that lives elsewhere has tools of its own for this, and refuses.
    ///
    /// # Errors
    /// `Busy`, `NoCopy`.
    async fn copy_to(&self, directory: &Path) -> Result<usize, EngineError> {
        Err(EngineError::NoCopy(format!("this engine writes none to {}", directory.display())))
    }

    /// Takes no further commits, ends those that were taken, and lets go of what is open. Blocks for ten seconds at most.
    fn close(&self) {}
}

/// Is told how the engine fares; what becomes of the figures is not the engine's business.
pub trait CommitObserver: Send + Sync {
    /// A batch of `operations` commits became durable, `seconds` after its first one was taken up.
    fn committed(&self, operations: usize, seconds: f64);

    /// `waiting` commits stand in the queue.
    fn queue(&self, waiting: usize);

    /// A beat came back.
    fn beat(&self, _beat: &Beat) {}

    /// A batch is run again.
    fn rerun(&self, _cause: RerunCause) {}

    /// A connection for commits was made, to a server on this timeline; or none was to be had.
    fn connected(&self, _timeline: Option<u32>) {}
}

/// Why a batch of commits is run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RerunCause {
    /// The server has rolled it back for another's sake.
    RolledBack,
    /// Its answer was lost: it may have been applied.
    Unknown,
    /// Somebody has cancelled its wait for the standby, and the server answered success.
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

/// A beat of a node to the store that it shares with others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beat {
    /// How long it took.
    pub seconds: f64,
    /// When, by the store's clock: seconds since 1970.
    pub at: f64,
    /// How many nodes there are.
    pub nodes: u32,
    /// How many seconds the store's clock is ahead of this machine's.
    pub clock_offset: f64,
}

impl CommitObserver for () {
    fn committed(&self, _operations: usize, _seconds: f64) {}

    fn queue(&self, _waiting: usize) {}
}
