//! Counts that the nodes share in one database.
//!
//! There are two kinds: blocks of rate limits ([`shares`]) and password guesses ([`guesses`]). Each
//! kind has its own connection, so that neither waits for the other or for commits. Without a
//! connection, requests fail at once, because a late result is useless.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_channel::{Receiver, Sender};
use async_trait::async_trait;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::error::Error;

use crate::cluster::shared_counts::{Block, BlockRequest, CountKey, CountedGuess, NotCounted, SharedCounts};
use crate::postgres::beat::LastBeat;
use crate::postgres::connect::{Backoff, Link, LinkPurpose, Servers, fault_of};
use crate::postgres::guesses::{GuessJob, GuessWork};
use crate::postgres::shares::{ShareJob, ShareWork};
use crate::postgres::{PostgresFault, guesses, shares};
use sealgate_domain::pace::Pace;
use sealgate_domain::time::UnixTime;

/// Queues for both kinds of requests.
pub(super) struct Counts {
    shares: Sender<ShareJob>,
    guesses: Sender<GuessJob>,
    /// Timeout of a request for a block.
    timeout: Duration,
    last_beat: Arc<LastBeat>,
}

impl Counts {
    /// Connects, and starts the tasks on the current runtime. They run until [`Counts::close`].
    pub(super) async fn start(
        servers: Arc<Servers>,
        last_beat: Arc<LastBeat>,
        timeout: Duration,
    ) -> (Self, [JoinHandle<()>; 2]) {
        let ((shares, share_jobs), (guesses, guess_jobs)) =
            (async_channel::bounded(QUEUE_LENGTH), async_channel::bounded(QUEUE_LENGTH));
        // Connect before returning, so that early requests do not fail.
        let (share_link, guess_link) = tokio::join!(connect::<ShareWork>(&servers), connect::<GuessWork>(&servers));
        let work = ShareWork::new(timeout);
        let sharing = Counting {
            servers: Arc::clone(&servers),
            queue: share_jobs,
            work,
            first: share_link.ok(),
            last_beat: Arc::clone(&last_beat),
        };
        let guessing = Counting {
            servers,
            queue: guess_jobs,
            work: GuessWork,
            first: guess_link.ok(),
            last_beat: Arc::clone(&last_beat),
        };
        (Self { shares, guesses, timeout, last_beat }, [tokio::spawn(sharing.run()), tokio::spawn(guessing.run())])
    }

    /// Stops accepting requests. Queued requests are completed.
    pub(super) fn close(&self) {
        self.shares.close();
        self.guesses.close();
    }
}

#[async_trait]
impl SharedCounts for Counts {
    async fn reserve(&self, request: BlockRequest) -> Result<Block, NotCounted> {
        shares::reserve(&self.shares, request, self.nodes(), self.timeout).await
    }

    async fn count_guess(
        &self,
        keys: Vec<(CountKey, Pace)>,
        now: UnixTime,
    ) -> Result<Result<Vec<CountedGuess>, u64>, NotCounted> {
        guesses::count(&self.guesses, keys, now).await
    }

    fn give_back(&self, counted: Vec<CountedGuess>, now: UnixTime) {
        guesses::give_back(&self.guesses, counted, now);
    }

    fn nodes(&self) -> u32 {
        self.last_beat.nodes()
    }
}

/// Maximum number of queued requests of one kind.
pub(super) const QUEUE_LENGTH: usize = 1024;
/// Interval between deletions of expired rows.
const SWEEP_INTERVAL: Duration = Duration::from_secs(2);
/// Interval between deletions while more rows have expired than one deletion removes.
const BACKLOG_SWEEP_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum number of rows to delete at once.
pub(super) const SWEEP_ROWS: i64 = 256;
/// Timeout of a deletion, which may wait for locks.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(2);

/// Kind of shared counts.
pub(super) trait CountWork: Send {
    type Job: Send;
    type Prepared: Send;

    /// Whether a standby must acknowledge the writes.
    const WAITS_FOR_STANDBY: bool;

    /// Prepares the statements on a connection.
    fn prepare(link: Link) -> impl Future<Output = Result<Self::Prepared, Error>> + Send;
    fn link(prepared: &Self::Prepared) -> &Link;
    /// Maximum number of jobs in one batch.
    fn max_batch() -> usize;
    /// Executes and answers all jobs. Returns false if the connection must not be used again.
    fn run(&mut self, prepared: &Self::Prepared, jobs: Vec<Self::Job>) -> impl Future<Output = bool> + Send;
    fn refuse(job: Self::Job, cause: NotCounted);
    /// Deletes some expired rows and returns their number.
    fn sweep(&mut self, prepared: &Self::Prepared) -> impl Future<Output = Result<i64, Error>> + Send;
}

pub(super) struct Counting<W: CountWork> {
    pub(super) servers: Arc<Servers>,
    pub(super) queue: Receiver<W::Job>,
    pub(super) work: W,
    pub(super) first: Option<W::Prepared>,
    pub(super) last_beat: Arc<LastBeat>,
}

pub(super) async fn connect<W: CountWork>(servers: &Servers) -> Result<W::Prepared, PostgresFault> {
    let link = servers.connect(LinkPurpose::Serve).await?;
    W::prepare(link).await.map_err(|error| fault_of(&error))
}

fn unavailable() -> NotCounted {
    NotCounted("the database cannot be reached")
}

impl<W: CountWork> Counting<W> {
    /// Processes requests until the queue is closed.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        let mut next = self.first.take();
        loop {
            let prepared = match next.take() {
                Some(prepared) => prepared,
                None => match refusing::<W, _>(&self.queue, connect::<W>(&self.servers)).await {
                    None => return,
                    Some(Ok(prepared)) => {
                        backoff = Backoff::default();
                        prepared
                    }
                    Some(Err(fault)) => {
                        if refusing::<W, _>(&self.queue, backoff.pause_for(&fault)).await.is_none() {
                            return;
                        }
                        continue;
                    }
                },
            };
            if !self.serve(&prepared).await || refusing::<W, _>(&self.queue, backoff.pause()).await.is_none() {
                return;
            }
        }
    }

    /// Processes requests until the connection must be replaced. Returns false if the queue is
    /// closed.
    async fn serve(&mut self, prepared: &W::Prepared) -> bool {
        let servers = Arc::clone(&self.servers);
        let link = W::link(prepared);
        let mut sweep_at = Instant::now() + SWEEP_INTERVAL;
        loop {
            let first = tokio::select! {
                () = link.ended() => return true,
                () = servers.superseded(link) => return true,
                job = self.queue.recv() => match job {
                    Ok(job) => job,
                    Err(_) => return false,
                },
                () = tokio::time::sleep_until(sweep_at) => {
                    if !self.can_complete() {
                        sweep_at = Instant::now() + SWEEP_INTERVAL;
                        continue;
                    }
                    let Ok(Ok(removed)) = tokio::time::timeout(SWEEP_TIMEOUT, self.work.sweep(prepared)).await else {
                        return true;
                    };
                    sweep_at = Instant::now() + if removed < SWEEP_ROWS { SWEEP_INTERVAL } else { BACKLOG_SWEEP_INTERVAL };
                    continue;
                }
            };
            let mut jobs = vec![first];
            while jobs.len() < W::max_batch()
                && let Ok(job) = self.queue.try_recv()
            {
                jobs.push(job);
            }
            if !self.can_complete() {
                for job in jobs {
                    W::refuse(job, unavailable());
                }
            } else if !self.work.run(prepared, jobs).await {
                return true;
            }
        }
    }

    /// Returns whether a write can complete. If the synchronous standby is down, a write would only
    /// occupy a server process of PostgreSQL.
    fn can_complete(&self) -> bool {
        !W::WAITS_FOR_STANDBY || self.last_beat.check().is_ok()
    }
}

/// Waits for `work`, and refuses requests in the meantime, because there is no connection. Returns
/// `None` when the queue is closed.
async fn refusing<W: CountWork, T>(queue: &Receiver<W::Job>, work: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            job = queue.recv() => W::refuse(job.ok()?, unavailable()),
        }
    }
}
