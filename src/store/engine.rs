//! The border between the store and whatever keeps its bytes: four operations, no words of OAuth.

use std::path::Path;

use async_trait::async_trait;

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
/// The longest value that an engine takes, bytes.
pub const MAX_VALUE_BYTES: usize = 256 * 1024;

/// One atomic step: if every expectation holds, every put and delete happens; otherwise nothing does.
/// A key stands in `put` or `delete` at most once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// What must hold.
    pub expect: Vec<Expect>,
    /// Records to write.
    pub put: Vec<(Key, Value)>,
    /// Records to remove; removing an absent one is no fault.
    pub delete: Vec<Key>,
}

impl Changes {
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

/// How a commit ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Applied, and durable.
    Committed,
    /// An expectation did not hold; nothing was written. Load and decide again.
    Conflict,
}

/// Why the engine could not do its work. The caller answers 503 and names none of it to a stranger.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The queue of commits is full: shed load.
    #[error("the store's queue is full")]
    Busy,
    /// The commit did not return within its deadline; whether it happened is not known.
    #[error("the store did not answer in time")]
    Timeout,
    /// Writes are refused for now (disk full or read-only); reads go on.
    #[error("the store cannot write: {0}")]
    Unwritable(String),
    /// The engine has stopped or its files are broken.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
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
    /// `Unavailable` when the bytes cannot be read.
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError>;

    /// Up to `limit` records whose keys start with `prefix`, in key order, strictly after the key `after`.
    ///
    /// # Errors
    /// `Unavailable` when the bytes cannot be read.
    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError>;

    /// Applies `changes` if what they expect holds. `Ok(Committed)` means durable: it survives a power loss.
    ///
    /// # Errors
    /// `Busy`, `Timeout`, `Unwritable`, `Unavailable`.
    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError>;

    /// Whether commits would be taken now.
    ///
    /// # Errors
    /// The error that a commit would meet.
    async fn ping(&self) -> Result<(), EngineError>;

    /// Makes a copy of all records as they stand between two commits, in a new directory on this machine, and yields how
    /// many there are once the copy has been opened and counted. Commits wait for the copying, reads do not. An engine
    /// that lives elsewhere has tools of its own for this, and refuses.
    ///
    /// # Errors
    /// `Busy`, `NoCopy`.
    async fn copy_to(&self, directory: &Path) -> Result<usize, EngineError> {
        Err(EngineError::NoCopy(format!("this engine writes none to {}", directory.display())))
    }
}

/// Is told how the engine fares; what becomes of the figures is not the engine's business.
pub trait CommitObserver: Send + Sync {
    /// A batch of `operations` commits became durable, `seconds` after its first one was taken up.
    fn committed(&self, operations: usize, seconds: f64);

    /// `waiting` commits stand in the queue.
    fn queue(&self, waiting: usize);
}

/// Nobody looks.
impl CommitObserver for () {
    fn committed(&self, _operations: usize, _seconds: f64) {}

    fn queue(&self, _waiting: usize) {}
}
