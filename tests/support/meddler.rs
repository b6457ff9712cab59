//! Memory engine that pauses a request between two of its steps, so that a test can do something
//! else in between. It makes races deterministic. All other operations pass through.

#![allow(dead_code, reason = "each test binary uses its own part of the fixture")]
#![allow(clippy::unwrap_used, reason = "a fixture that fails fails its test")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sealgate_store::engine::{Changes, Counters, Engine, EngineError, Key, Outcome, Value};
use sealgate_store::memory::MemoryEngine;
use tokio::sync::oneshot;

/// Maximum time that a test waits for a request to reach its pause point.
const PATIENCE: Duration = Duration::from_secs(30);

/// Step at which a request is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// Before a record of the table is read.
    BeforeGet,
    /// After a record was read, before the caller receives it.
    AfterGet,
    /// Before a commit that writes or removes a record of the table is applied.
    BeforeCommit,
    /// After such a commit was applied, before the caller receives the outcome.
    AfterCommit,
}

struct Point {
    at: At,
    table: u8,
    /// Number of matching operations that pass before the pause.
    skip: usize,
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
}

/// Handle of a pause that [`Meddler::stop`] has set.
pub(crate) struct Stop {
    what: String,
    reached: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Stop {
    /// Waits until a request reaches the pause point, runs `work` while the request is paused, and
    /// resumes the request.
    pub(crate) async fn meanwhile<T>(self, work: impl Future<Output = T>) -> T {
        let reached = tokio::time::timeout(PATIENCE, self.reached).await;
        reached.unwrap_or_else(|_| panic!("no request came to {}", self.what)).unwrap();
        let done = work.await;
        // A cancelled request does not resume.
        let _ = self.go.send(());
        done
    }
}

/// Engine with pause points and simulated failures.
pub(crate) struct Meddler {
    engine: Arc<MemoryEngine>,
    points: Mutex<Vec<Point>>,
    /// Prefix of the records whose next commit times out.
    losing: Mutex<Option<Vec<u8>>>,
    /// Changes of the commit that timed out.
    late: Mutex<Option<Changes>>,
    /// Table whose commits fail.
    failing: Mutex<Option<u8>>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    /// Number of reads and writes.
    operations: AtomicUsize,
    commits: AtomicUsize,
}

impl Meddler {
    pub(crate) fn over(engine: Arc<MemoryEngine>) -> Arc<Self> {
        Arc::new(Self {
            engine,
            points: Mutex::default(),
            losing: Mutex::default(),
            late: Mutex::default(),
            failing: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            most_in_flight: AtomicUsize::new(0),
            operations: AtomicUsize::new(0),
            commits: AtomicUsize::new(0),
        })
    }

    /// Pauses the next request that reaches this step.
    pub(crate) fn stop(&self, at: At, table: u8) -> Stop {
        self.stop_later(at, table, 0)
    }

    /// Pauses a request at this step after `skip` others have passed.
    pub(crate) fn stop_later(&self, at: At, table: u8, skip: usize) -> Stop {
        let ((reached, was_reached), (go, goes)) = (oneshot::channel(), oneshot::channel());
        self.points.lock().unwrap().push(Point { at, table, skip, reached, go: goes });
        Stop { what: format!("{at:?} of {:?}", char::from(table)), reached: was_reached, go }
    }

    /// Makes the next commit that writes or removes a record with this prefix time out without
    /// applying it; see [`Meddler::apply_late`].
    ///
    /// The first byte of the prefix is the table. Name the whole key where it is known, so that a
    /// commit to another record of the table is not lost instead.
    pub(crate) fn lose_answer(&self, prefix: &[u8]) {
        *self.losing.lock().unwrap() = Some(prefix.to_vec());
    }

    /// Applies the commit that timed out, as a slow disk would.
    pub(crate) async fn apply_late(&self) {
        let changes = self.late.lock().unwrap().take().expect("a commit that timed out");
        assert_eq!(self.engine.commit(changes).await.unwrap(), Outcome::Committed);
    }

    /// Makes commits to this table fail until the next call; `None` makes none fail.
    pub(crate) fn fail(&self, table: Option<u8>) {
        *self.failing.lock().unwrap() = table;
    }

    /// Returns the maximum number of commits that were in progress concurrently.
    pub(crate) fn most_in_flight(&self) -> usize {
        self.most_in_flight.load(Ordering::SeqCst)
    }

    /// Returns the number of reads and writes.
    pub(crate) fn operations(&self) -> usize {
        self.operations.load(Ordering::SeqCst)
    }

    /// Returns the number of writes.
    pub(crate) fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    async fn pass(&self, at: At, is: impl Fn(u8) -> bool) {
        let found = {
            let mut points = self.points.lock().unwrap();
            let found = points.iter().position(|point| point.at == at && is(point.table));
            match found {
                Some(index) if points[index].skip > 0 => {
                    points[index].skip -= 1;
                    None
                }
                found => found.map(|index| points.remove(index)),
            }
        };
        if let Some(Point { reached, go, .. }) = found {
            let _ = reached.send(());
            let _ = go.await;
        }
    }

    async fn committed(&self, changes: Changes) -> Result<Outcome, EngineError> {
        let keys: Vec<Key> =
            changes.put.iter().map(|(key, _)| key.clone()).chain(changes.delete.iter().cloned()).collect();
        let is = |table: u8| keys.iter().any(|key| key[0] == table);
        self.pass(At::BeforeCommit, is).await;
        if self.failing.lock().unwrap().is_some_and(is) {
            return Err(EngineError::Unwritable("this table is written no more".into()));
        }
        let writes = |prefix: &mut Vec<u8>| keys.iter().any(|key| key.starts_with(prefix));
        if self.losing.lock().unwrap().take_if(writes).is_some() {
            *self.late.lock().unwrap() = Some(changes);
            return Err(EngineError::Unknown);
        }
        let outcome = self.engine.commit(changes).await;
        self.pass(At::AfterCommit, is).await;
        outcome
    }
}

#[async_trait]
impl Engine for Meddler {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        let table = key[0];
        self.operations.fetch_add(1, Ordering::SeqCst);
        self.pass(At::BeforeGet, |wanted| wanted == table).await;
        let found = self.engine.get(key).await;
        self.pass(At::AfterGet, |wanted| wanted == table).await;
        found
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        self.operations.fetch_add(1, Ordering::SeqCst);
        self.engine.scan(prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        self.operations.fetch_add(1, Ordering::SeqCst);
        self.commits.fetch_add(1, Ordering::SeqCst);
        let waiting = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(waiting, Ordering::SeqCst);
        // Let other commits start before this one is done, as on a disk.
        tokio::task::yield_now().await;
        let outcome = self.committed(changes).await;
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }

    fn counters(&self) -> &Counters {
        self.engine.counters()
    }

    async fn ping(&self) -> Result<(), EngineError> {
        self.engine.ping().await
    }
}
