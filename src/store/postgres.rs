//! PostgreSQL engine. Several nodes share a database, and have no connections to each other.
//!
//! Reads and commits use the primary, because a standby lags and a read from it could miss
//! revocations.
//!
//! The engine does not rely on the clocks of nodes and servers, and it cancels no statements.

mod batch;
mod beat;
mod connect;
mod counts;
mod fault;
mod filling;
mod formats;
mod guesses;
mod members;
mod reader;
mod requirements;
mod schema;
mod settings;
mod shares;
mod survey;
mod tls;
mod transaction;
mod writer;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use async_channel::{Sender, TrySendError};
use async_trait::async_trait;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::batch::Operation;
use self::beat::{HeartbeatTask, LastBeat};
use self::connect::{Backoff, Servers};
use self::counts::Counts;
pub use self::fault::PostgresFault;
pub use self::filling::{NewPostgresStore, NewStoreFault};
pub use self::formats::FormatSurvey;
pub use self::formats::{FormatRaise, raise_format};
pub use self::members::ClusterMember;
pub use self::members::{members, set_removed, wait_for_beats};
use self::reader::{ReadQueries, Readers};
pub use self::schema::initialise;
pub use self::settings::PostgresSettings;
use self::survey::Setup;
pub use self::survey::{Survey, survey};
pub use self::transaction::snapshot;
use self::writer::{BatchWriter, PendingCommit, WriteLink};
use super::commit_turn::CommitTurn;
use super::engine::{Changes, CommitObserver, Counters, Current, Engine, EngineError, FormatRule, Key, Outcome, Value};
use crate::cluster::shared_counts::SharedCounts;
use crate::format::FormatRange;

/// Number of threads for connections. They have their own runtime, so that commits complete even if
/// the caller's runtime stops.
const THREADS: usize = 2;
/// Maximum time that startup waits for a primary, because a failover may be in progress.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time that closing the engine waits for its writers.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// Additional time to wait for the result of a writer whose deadline has passed.
const GRACE: Duration = Duration::from_secs(1);

/// Engine that stores records in a PostgreSQL database, which it may share with other nodes.
pub struct PostgresEngine {
    servers: Arc<Servers>,
    formats: FormatRange,
    readers: Readers,
    last_beat: Arc<LastBeat>,
    beating: JoinHandle<()>,
    queue: Sender<PendingCommit>,
    writers: Mutex<Vec<JoinHandle<()>>>,
    observer: Arc<dyn CommitObserver>,
    counters: Arc<Counters>,
    counts: Arc<Counts>,
    commit_timeout: Duration,
    runtime: Mutex<Option<Runtime>>,
}

impl PostgresEngine {
    /// Connects to the database. [`initialise`] must have created the tables.
    ///
    /// # Errors
    /// One line that includes the remedy: see [`PostgresFault`].
    pub async fn open(settings: &PostgresSettings, observer: Arc<dyn CommitObserver>) -> Result<Self, PostgresFault> {
        let servers = Arc::new(Servers::new(settings::servers(settings)?));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("store-postgres")
            .enable_all()
            .build()
            .map_err(|error| PostgresFault::Threads(error.to_string()))?;
        let counters = Arc::<Counters>::default();
        let last_beat = Arc::new(LastBeat::new(settings.staleness, settings.formats));
        let beater = HeartbeatTask::new(&servers, &last_beat, &counters, &observer, settings);
        let entered = runtime.spawn(enter(Arc::clone(&servers), beater, Arc::clone(&last_beat))).await;
        let (first, beating) = match entered.map_err(|error| PostgresFault::Threads(error.to_string())) {
            Ok(Ok(entered)) => entered,
            Ok(Err(fault)) | Err(fault) => {
                // Dropping the runtime would block, which is not permitted in async code.
                runtime.shutdown_background();
                return Err(fault);
            }
        };
        // For nodes only. Commands do not log these warnings, but `sealgate check` reports them.
        if settings.node.is_some() {
            warn_of_setup(&first, settings).await;
        }
        let (queue, jobs) = async_channel::bounded(settings.queue.max(1));
        observer.connected(Some(first.timeline()));
        let mut link = Some(first);
        let writers = (0..settings.writers.max(1)).map(|_| {
            let writer = BatchWriter {
                servers: Arc::clone(&servers),
                queue: jobs.clone(),
                observer: Arc::clone(&observer),
                counters: Arc::clone(&counters),
                last_beat: Arc::clone(&last_beat),
                timeout: settings.commit_timeout,
                link: link.take(),
                waiting: VecDeque::new(),
            };
            runtime.spawn(writer.run())
        });
        let mut writers: Vec<_> = writers.collect();
        let counting = Counts::start(Arc::clone(&servers), Arc::clone(&last_beat), settings.count_timeout);
        let (counts, counting) = match runtime.spawn(counting).await {
            Ok(started) => started,
            Err(error) => {
                runtime.shutdown_background();
                return Err(PostgresFault::Threads(error.to_string()));
            }
        };
        writers.extend(counting);
        let (writers, counts) = (Mutex::new(writers), Arc::new(counts));
        let readers = Readers::start(&servers, &last_beat, runtime.handle());
        let commit_timeout = settings.commit_timeout;
        let runtime = Mutex::new(Some(runtime));
        let formats = settings.formats;
        Ok(Self {
            servers,
            formats,
            readers,
            last_beat,
            beating,
            queue,
            writers,
            observer,
            counters,
            counts,
            commit_timeout,
            runtime,
        })
    }
}

impl Drop for PostgresEngine {
    fn drop(&mut self) {
        self.close();
    }
}

/// Connects to a primary, enters the cluster, and waits for the first heartbeat.
async fn enter(
    servers: Arc<Servers>,
    mut beater: HeartbeatTask,
    last_beat: Arc<LastBeat>,
) -> Result<(WriteLink, JoinHandle<()>), PostgresFault> {
    let (started, mut backoff) = (Instant::now(), Backoff::default());
    let link = loop {
        let entered = async {
            let link = WriteLink::connect(&servers).await?;
            beater.enter().await?;
            Ok(link)
        };
        match entered.await {
            Err(fault @ PostgresFault::NotAcknowledged) => return Err(fault),
            Err(fault) if fault.is_transient() && started.elapsed() < OPEN_TIMEOUT => backoff.pause().await,
            ended => break ended?,
        }
    };
    let beating = tokio::spawn(beater.run());
    match tokio::time::timeout(OPEN_TIMEOUT, last_beat.wait()).await {
        Ok(Ok(())) => Ok((link, beating)),
        Ok(Err(stale)) => Err(PostgresFault::Stale(stale.to_string())),
        Err(_) => Err(PostgresFault::NotAcknowledged),
    }
}

/// Logs weaknesses of the database's setup. An unavailable server is handled elsewhere.
async fn warn_of_setup(link: &WriteLink, settings: &PostgresSettings) {
    match Setup::query(link.client(), settings).await {
        Ok(setup) => setup.warnings().iter().for_each(|warning| tracing::warn!("{warning}")),
        Err(fault) => tracing::warn!(%fault, "cannot read the database's settings"),
    }
}

#[async_trait]
impl Engine for PostgresEngine {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        self.readers.get(key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, EngineError> {
        self.readers.get_many(keys).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        self.readers.scan(prefix, after, limit).await
    }

    async fn count(&self, prefix: &[u8]) -> Result<usize, EngineError> {
        self.readers.count(prefix).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn live_nodes(&self) -> Result<Vec<String>, EngineError> {
        self.readers.live_nodes().await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        changes.check_sizes()?;
        self.last_beat.check_status()?;
        let (reply, answer) = oneshot::channel();
        let turn = CommitTurn::default();
        let pending = PendingCommit { operation: Operation::from(changes), turn: turn.clone(), reply };
        self.queue.try_send(pending).map_err(|error| match error {
            TrySendError::Full(_) => EngineError::Busy,
            TrySendError::Closed(_) => EngineError::Unavailable("it is closed".to_owned()),
        })?;
        self.observer.queue(self.queue.len());
        turn.wait(answer, self.commit_timeout, self.commit_timeout + GRACE).await
    }

    fn format(&self) -> FormatRule {
        FormatRule::Shared(self.last_beat.format())
    }

    async fn begin_format(&self) -> Result<(), EngineError> {
        let format = formats::begin(&self.servers, self.formats).await.map_err(PostgresFault::into_engine_error)?;
        self.last_beat.set_format(format);
        Ok(())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn shared_counts(&self) -> Option<Arc<dyn SharedCounts>> {
        Some(Arc::clone(&self.counts) as _)
    }

    async fn ping(&self) -> Result<(), EngineError> {
        if self.queue.is_closed() {
            return Err(EngineError::Unavailable("it is closed".to_owned()));
        }
        if self.queue.is_full() {
            return Err(EngineError::Busy);
        }
        self.readers.ping().await
    }

    fn current(&self) -> Result<Current, EngineError> {
        self.last_beat.check()
    }

    fn nodes(&self) -> u32 {
        self.last_beat.nodes()
    }

    fn close(&self) {
        self.queue.close();
        self.counts.close();
        let writers = std::mem::take(&mut *self.writers.lock().unwrap_or_else(PoisonError::into_inner));
        let started = Instant::now();
        while writers.iter().any(|writer| !writer.is_finished()) {
            if started.elapsed() > CLOSE_TIMEOUT {
                tracing::error!("the database does not answer; closing without waiting for it");
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.readers.stop();
        self.beating.abort();
        if let Some(runtime) = self.runtime.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}
