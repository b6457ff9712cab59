//! An engine in which a test stops a request between two of its steps and does something else meanwhile: races that happen
//! every time. Over the memory engine; everything that is not stopped passes through.

#![allow(dead_code, reason = "each test binary uses its own part of the fixture")]
#![allow(clippy::unwrap_used, reason = "a fixture that fails fails its test")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use sealgate_store::engine::{Changes, Counters, Engine, EngineError, Key, Outcome, Value};
use sealgate_store::memory::MemoryEngine;
use tokio::sync::oneshot;

/// How long a test waits for a request to come where it is to be stopped.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where a request is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    /// A record of the table is about to be read.
    BeforeGet,
    /// It was read, and whoever asked does not have it yet.
    AfterGet,
    /// A commit that writes or removes a record of the table is about to be applied.
    BeforeCommit,
    /// It was applied, and is not answered yet.
    AfterCommit,
}

struct Point {
    at: At,
    table: u8,
    /// Times to pass before the stop.
    skip: usize,
    reached: oneshot::Sender<()>,
    go: oneshot::Receiver<()>,
}

/// A request that is to be stopped.
pub(crate) struct Stop {
    what: String,
    reached: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
}

impl Stop {
    /// Waits until a request comes there, does this while it is held, and lets it go on.
    pub(crate) async fn meanwhile<T>(self, work: impl Future<Output = T>) -> T {
        let reached = tokio::time::timeout(PATIENCE, self.reached).await;
        reached.unwrap_or_else(|_| panic!("no request came to {}", self.what)).unwrap();
        let done = work.await;
        // A request that was given up does not go on.
        let _ = self.go.send(());
        done
    }
}

/// See the file's head.
pub(crate) struct Meddler {
    engine: Arc<MemoryEngine>,
    points: Mutex<Vec<Point>>,
    /// The table whose next commit gets no answer in time, and what it would have done.
    losing: Mutex<Option<u8>>,
    late: Mutex<Option<Changes>>,
    /// The table whose commits fail.
    failing: Mutex<Option<u8>>,
    in_flight: AtomicUsize,
    most_in_flight: AtomicUsize,
    /// What the engine was asked to do.
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

    /// Stops the next request that comes there.
    pub(crate) fn stop(&self, at: At, table: u8) -> Stop {
        self.stop_later(at, table, 0)
    }

    /// The same after so many that pass.
    pub(crate) fn stop_later(&self, at: At, table: u8, skip: usize) -> Stop {
        let ((reached, was_reached), (go, goes)) = (oneshot::channel(), oneshot::channel());
        self.points.lock().unwrap().push(Point { at, table, skip, reached, go: goes });
        Stop { what: format!("{at:?} of {:?}", char::from(table)), reached: was_reached, go }
    }

    /// The next commit of this table times out: see [`Meddler::apply_late`].
    pub(crate) fn lose_answer(&self, table: u8) {
        *self.losing.lock().unwrap() = Some(table);
    }

    /// Applies the commit that timed out, as a disk does that was slow.
    pub(crate) async fn apply_late(&self) {
        let changes = self.late.lock().unwrap().take().expect("a commit that timed out");
        assert_eq!(self.engine.commit(changes).await.unwrap(), Outcome::Committed);
    }

    /// Commits of this table fail from now on; none when `None`.
    pub(crate) fn fail(&self, table: Option<u8>) {
        *self.failing.lock().unwrap() = table;
    }

    /// The most commits that have waited for their answers at once.
    pub(crate) fn most_in_flight(&self) -> usize {
        self.most_in_flight.load(Ordering::SeqCst)
    }

    /// How often the engine was asked to read or write.
    pub(crate) fn operations(&self) -> usize {
        self.operations.load(Ordering::SeqCst)
    }

    /// How often it was asked to write.
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
        let tables: Vec<u8> =
            changes.put.iter().map(|(key, _)| key[0]).chain(changes.delete.iter().map(|key| key[0])).collect();
        let is = |table: u8| tables.contains(&table);
        self.pass(At::BeforeCommit, is).await;
        if self.failing.lock().unwrap().is_some_and(is) {
            return Err(EngineError::Unwritable("this table is written no more".into()));
        }
        if self.losing.lock().unwrap().take_if(|table| is(*table)).is_some() {
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
        // As on a disk, others come before this one is done.
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
