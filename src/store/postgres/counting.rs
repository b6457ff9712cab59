//! What the kinds of shared counts have in common: a connection of their own each, so that neither waits for a commit, and the two
//! not for one another. Whoever asks while there is no connection is answered at once: a count that comes late is of no use.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_channel::Receiver;
use tokio::time::Instant;
use tokio_postgres::error::Error;

use super::PostgresFault;
use super::beat::LastBeat;
use super::connect::{Backoff, Link, LinkPurpose, Servers, fault_of};
use crate::store::shared_counts::NotCounted;

/// Questions of one kind that may wait.
pub(super) const QUEUE: usize = 1024;
/// Between two looks for rows that are over, and between two while there are more.
const SWEEP_EVERY: Duration = Duration::from_secs(2);
const SWEEP_ON: Duration = Duration::from_millis(200);
/// Rows that one look removes.
pub(super) const SWEEP_ROWS: i64 = 256;
/// For one look: others may hold what it wants.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(2);

/// One kind of counts.
pub(super) trait CountWork: Send {
    type Job: Send;
    type Prepared: Send;

    /// Whether what it writes is acknowledged by a standby too.
    const WAITS_FOR_STANDBY: bool;

    /// What a connection needs once.
    fn prepare(link: Link) -> impl Future<Output = Result<Self::Prepared, Error>> + Send;
    fn link(prepared: &Self::Prepared) -> &Link;
    /// As many jobs as go together.
    fn most() -> usize;
    /// Does and answers all of them. False when the connection is not to be used again.
    fn run(&mut self, prepared: &Self::Prepared, jobs: Vec<Self::Job>) -> impl Future<Output = bool> + Send;
    fn refuse(job: Self::Job, cause: NotCounted);
    /// Removes some rows that are over; yields how many.
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

fn away() -> NotCounted {
    NotCounted("the database cannot be reached")
}

impl<W: CountWork> Counting<W> {
    /// Works until the queue is closed.
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

    /// Works until the connection is of no use any more; false when the queue is closed.
    async fn serve(&mut self, prepared: &W::Prepared) -> bool {
        let servers = Arc::clone(&self.servers);
        let link = W::link(prepared);
        let mut sweep_at = Instant::now() + SWEEP_EVERY;
        loop {
            let first = tokio::select! {
                () = link.ended() => return true,
                () = servers.superseded(link) => return true,
                job = self.queue.recv() => match job {
                    Ok(job) => job,
                    Err(_) => return false,
                },
                () = tokio::time::sleep_until(sweep_at) => {
                    if !self.can_end() {
                        sweep_at = Instant::now() + SWEEP_EVERY;
                        continue;
                    }
                    let Ok(Ok(removed)) = tokio::time::timeout(SWEEP_TIMEOUT, self.work.sweep(prepared)).await else {
                        return true;
                    };
                    sweep_at = Instant::now() + if removed < SWEEP_ROWS { SWEEP_EVERY } else { SWEEP_ON };
                    continue;
                }
            };
            let mut jobs = vec![first];
            while jobs.len() < W::most()
                && let Ok(job) = self.queue.try_recv()
            {
                jobs.push(job);
            }
            if !self.can_end() {
                for job in jobs {
                    W::refuse(job, away());
                }
            } else if !self.work.run(prepared, jobs).await {
                return true;
            }
        }
    }

    /// Whether what is written now can end: while no standby answers, what is begun nevertheless only takes up another of the
    /// server's processes.
    fn can_end(&self) -> bool {
        !W::WAITS_FOR_STANDBY || self.last_beat.check().is_ok()
    }
}

/// Does something without a connection, and refuses whoever asks meanwhile. Nothing once the queue is closed.
async fn refusing<W: CountWork, T>(queue: &Receiver<W::Job>, work: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(work);
    loop {
        tokio::select! {
            done = &mut work => return Some(done),
            job = queue.recv() => W::refuse(job.ok()?, away()),
        }
    }
}
