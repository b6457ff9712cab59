//! Shared rate limits. A key may make a limited number of requests in a window. A node reserves a
//! block of these requests in the database, and then counts the requests of the block locally.
//!
//! One statement reserves blocks for several keys, and never reserves more than the limit of a key.
//! The table is unlogged, so a crash or a failover empties it. Then the current windows start
//! again.

use std::collections::HashMap;
use std::time::Duration;

use async_channel::{Sender, TrySendError};
use tokio::sync::oneshot;
use tokio_postgres::Statement;
use tokio_postgres::error::Error;
use tokio_postgres::types::ToSql;

use super::connect::Link;
use crate::cluster::shared_counts::{Block, BlockRequest, CountKey, NotCounted};
use crate::postgres::counts::{CountWork, SWEEP_ROWS};

const MAX_KEYS: usize = 256;
/// Number of sweeps after which a sweep starts at the first row again.
const SWEEPS_PER_ROUND: u32 = 1800;

/// Reserves blocks. `got` is the size of the block that was reserved last.
///
/// Normally a whole block is reserved, but near the limit only as many requests as are needed. Rows
/// are inserted in the order of their keys, so that two of these statements cannot deadlock.
const RESERVE: &str = "INSERT INTO share AS s (ends, key, n, got, most, block, needed) \
     SELECT ends, key, got, got, most, block, needed \
     FROM unnest($1::bigint[], $2::bytea[], $3::integer[], $4::integer[], $5::integer[], $6::integer[]) \
         AS w(ends, key, got, most, block, needed) ORDER BY ends, key \
     ON CONFLICT (ends, key) DO UPDATE SET most = excluded.most, block = excluded.block, needed = excluded.needed, \
         n = s.n + greatest(0, least(excluded.most - s.n, CASE WHEN excluded.most - s.n < $7 * excluded.block \
             THEN excluded.needed ELSE greatest(excluded.needed, excluded.block) END)), \
         got = greatest(0, least(excluded.most - s.n, CASE WHEN excluded.most - s.n < $7 * excluded.block \
             THEN excluded.needed ELSE greatest(excluded.needed, excluded.block) END)) \
     RETURNING ends, key, n, got";
/// Deletes windows that ended more than a minute ago by the database's clock. No serving node's
/// clock is a minute behind.
///
/// Starts where the last sweep ended, because a scan also reads deleted rows until they are
/// vacuumed.
const SWEEP: &str = "WITH gone AS (DELETE FROM share WHERE (ends, key) IN (SELECT ends, key FROM share \
     WHERE ends >= $1 AND ends < extract(epoch FROM now())::bigint - 60 ORDER BY ends LIMIT $2 \
     FOR UPDATE SKIP LOCKED) RETURNING ends) SELECT count(*), max(ends) FROM gone";
/// Session settings: commits wait for neither the disk nor the standby, because the rows need not
/// be durable.
const SESSION: &str = "SET synchronous_commit = off";

/// Request for a block, with the channel for its result.
pub(super) struct ShareJob {
    request: BlockRequest,
    nodes: u32,
    reply: oneshot::Sender<Result<Block, NotCounted>>,
}

pub(super) struct ShareLink {
    link: Link,
    reserve: Statement,
    sweep: Statement,
}

pub(super) struct ShareWork {
    timeout: Duration,
    swept_to: i64,
    sweeps: u32,
}

/// Reserves a block.
pub(super) async fn reserve(
    queue: &Sender<ShareJob>,
    request: BlockRequest,
    nodes: u32,
    timeout: Duration,
) -> Result<Block, NotCounted> {
    let (reply, answer) = oneshot::channel();
    queue.try_send(ShareJob { request, nodes, reply }).map_err(|error| match error {
        TrySendError::Full(_) => NotCounted("too many requests are waiting"),
        TrySendError::Closed(_) => NotCounted("the store was closed"),
    })?;
    match tokio::time::timeout(timeout, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(no_answer()),
    }
}

fn no_answer() -> NotCounted {
    NotCounted("the database does not answer in time")
}

/// Returns the number of requests to reserve. `needed` requests are waiting, and the limit permits
/// `left` more requests.
fn granted(left: u32, block: u32, needed: u32, nodes: u32) -> u32 {
    let size = if left < nodes.saturating_mul(block) { needed } else { needed.max(block) };
    size.min(left)
}

/// Divides a block among concurrent requests. Each request gets one, and the first request also
/// gets the rest.
fn divided(granted: u32, requests: usize) -> impl Iterator<Item = u32> {
    let count = u32::try_from(requests).unwrap_or(u32::MAX);
    (0..count).map(move |number| match number {
        0 if granted > 0 => 1 + granted.saturating_sub(count),
        number => u32::from(number < granted),
    })
}

impl ShareWork {
    /// Creates the state. `timeout` is the timeout of each statement.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, swept_to: 0, sweeps: 0 }
    }

    async fn execute(
        prepared: &ShareLink,
        groups: &HashMap<(u64, CountKey), Vec<ShareJob>>,
    ) -> Result<HashMap<(u64, CountKey), Block>, Error> {
        let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
        let (mut ends, mut keys) = (Vec::new(), Vec::<&[u8]>::new());
        let (mut first, mut limits, mut block, mut needed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut nodes = 1;
        for ((end, key), jobs) in groups {
            let Some(ShareJob { request, nodes: known, .. }) = jobs.first() else { continue };
            let requests = u32::try_from(jobs.len()).unwrap_or(u32::MAX);
            nodes = (*known).max(nodes);
            ends.push(i64::try_from(*end).unwrap_or(i64::MAX));
            keys.push(key);
            first.push(number(granted(request.limit, request.block, requests, *known)));
            limits.push(number(request.limit));
            block.push(number(request.block));
            needed.push(number(requests));
        }
        let nodes = number(nodes.min(1 << 10));
        let values: [&(dyn ToSql + Sync); 7] = [&ends, &keys, &first, &limits, &block, &needed, &nodes];
        let rows = prepared.link.client.query(&prepared.reserve, &values).await?;
        let mut blocks = HashMap::new();
        for row in rows {
            let (ends, key): (i64, &[u8]) = (row.try_get(0)?, row.try_get(1)?);
            let (all, got): (i32, i32) = (row.try_get(2)?, row.try_get(3)?);
            let count = |value: i32| u32::try_from(value).unwrap_or_default();
            if let (Ok(ends), Ok(key)) = (u64::try_from(ends), CountKey::try_from(key)) {
                blocks.insert((ends, key), Block { all: count(all), got: count(got) });
            }
        }
        Ok(blocks)
    }
}

impl CountWork for ShareWork {
    type Job = ShareJob;
    type Prepared = ShareLink;

    /// The table is unlogged, so standbys do not have it.
    const WAITS_FOR_STANDBY: bool = false;

    async fn prepare(link: Link) -> Result<ShareLink, Error> {
        let client = &link.client;
        let (set, reserve, sweep) =
            tokio::join!(client.batch_execute(SESSION), client.prepare(RESERVE), client.prepare(SWEEP));
        set?;
        let (reserve, sweep) = (reserve?, sweep?);
        Ok(ShareLink { link, reserve, sweep })
    }

    fn link(prepared: &ShareLink) -> &Link {
        &prepared.link
    }

    fn max_batch() -> usize {
        MAX_KEYS
    }

    async fn run(&mut self, prepared: &ShareLink, jobs: Vec<ShareJob>) -> bool {
        let mut groups = HashMap::<_, Vec<ShareJob>>::new();
        // Skip requests whose callers have stopped waiting.
        for job in jobs.into_iter().filter(|job| !job.reply.is_closed()) {
            groups.entry((job.request.ends, job.request.key)).or_default().push(job);
        }
        if groups.is_empty() {
            return true;
        }
        let rows = tokio::time::timeout(self.timeout, Self::execute(prepared, &groups)).await;
        let blocks = match rows {
            Ok(Ok(blocks)) => blocks,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot request shares of the cluster's rate limits");
                HashMap::new()
            }
            Err(_) => HashMap::new(),
        };
        let is_usable = !blocks.is_empty();
        for (window, jobs) in groups {
            let requests = jobs.len();
            let Some(Block { all, got }) = blocks.get(&window).copied() else {
                for job in jobs {
                    Self::refuse(job, no_answer());
                }
                continue;
            };
            for (job, got) in jobs.into_iter().zip(divided(got, requests)) {
                let _ = job.reply.send(Ok(Block { all, got }));
            }
        }
        is_usable
    }

    fn refuse(job: ShareJob, cause: NotCounted) {
        let _ = job.reply.send(Err(cause));
    }

    async fn sweep(&mut self, prepared: &ShareLink) -> Result<i64, Error> {
        let row = prepared.link.client.query_one(&prepared.sweep, &[&self.swept_to, &SWEEP_ROWS]).await?;
        let (removed, last): (i64, Option<i64>) = (row.try_get(0)?, row.try_get(1)?);
        self.sweeps += 1;
        self.swept_to = if self.sweeps.is_multiple_of(SWEEPS_PER_ROUND) { 0 } else { last.unwrap_or(self.swept_to) };
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_the_limit_a_node_gets_only_the_needed_share() {
        assert_eq!(granted(50, 3, 1, 3), 3);
        assert_eq!(granted(9, 3, 1, 3), 3);
        assert_eq!(granted(8, 3, 1, 3), 1);
        assert_eq!(granted(50, 3, 20, 3), 20);
        assert_eq!(granted(8, 3, 20, 3), 8);
        assert_eq!(granted(0, 3, 1, 1), 0);
    }

    #[test]
    fn a_granted_block_is_divided_among_the_requests() {
        let all = |got, requests| divided(got, requests).collect::<Vec<_>>();
        assert_eq!(all(3, 1), [3]);
        assert_eq!(all(5, 3), [3, 1, 1]);
        assert_eq!(all(2, 4), [1, 1, 0, 0]);
        assert_eq!(all(0, 2), [0, 0]);
        assert_eq!(all(1, 1), [1]);
    }
}
