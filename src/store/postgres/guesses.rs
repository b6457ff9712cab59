//! Counts of password guesses, exact and durable.
//!
//! All queued guesses are decided in one transaction. The transaction locks the keys of the
//! guesses, reads their rows, decides the guesses in order, and writes the rows. The transaction is
//! durable before any guess is permitted.
//!
//! If the result is lost, the guess is refused, although it may have been counted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_channel::{Sender, TrySendError};
use tokio::sync::oneshot;
use tokio_postgres::Statement;
use tokio_postgres::error::Error;
use tokio_postgres::types::ToSql;

use super::connect::Link;
use crate::cluster::shared_counts::{CountKey, CountedGuess, NotCounted};
use crate::postgres::counts::{CountWork, SWEEP_ROWS};
use sealgate_domain::pace::{Failures, Pace};
use sealgate_domain::time::UnixTime;

/// Timeout of a transaction.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout of a request, including its time in the queue.
const CALLER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of guesses in a transaction. Each guess has up to four keys.
const MAX_GUESSES: usize = 64;
/// Number of lock numbers that keys are hashed to.
const STRIPES: u16 = 4096;
/// The expiry of a row is rounded up to a multiple of this number of seconds, so that most updates
/// do not change its index.
const EXPIRY_ROUNDING_SECONDS: u64 = 600;

const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE";
/// Takes locks as a batch of commits does, but with the OID of the table `guess`.
const LOCK: &str = "SELECT count(pg_advisory_xact_lock('guess'::regclass::oid::integer, stripe)::text) FROM unnest($1::integer[]) AS s(stripe)";
const FIND: &str =
    "SELECT key, since, next, failures, free, forgets, at_a_time FROM guess WHERE key = ANY($1::bytea[])";
const WRITE: &str = "WITH gone AS (DELETE FROM guess WHERE key = ANY($1::bytea[])) \
     INSERT INTO guess (key, since, next, failures, free, forgets, at_a_time, until) \
     SELECT * FROM unnest($2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
         $8::bigint[], $9::bigint[]) \
     ON CONFLICT (key) DO UPDATE SET since = excluded.since, next = excluded.next, failures = excluded.failures, \
         free = excluded.free, forgets = excluded.forgets, at_a_time = excluded.at_a_time, until = excluded.until";
/// Deletes rows whose failures have all expired by the database's clock.
const SWEEP: &str = "WITH gone AS (DELETE FROM guess WHERE key IN (SELECT key FROM guess \
     WHERE until < extract(epoch FROM now())::bigint ORDER BY until LIMIT $1 FOR UPDATE SKIP LOCKED) RETURNING key) \
     SELECT count(*) FROM gone";

type Judged = Result<Vec<CountedGuess>, u64>;

pub(super) enum GuessJob {
    Count { keys: Vec<(CountKey, Pace)>, now: UnixTime, reply: oneshot::Sender<Result<Judged, NotCounted>> },
    GiveBack { counted: Vec<CountedGuess>, now: UnixTime },
}

pub(super) struct GuessLink {
    link: Link,
    lock: Statement,
    find: Statement,
    write: Statement,
    sweep: Statement,
}

pub(super) struct GuessWork;

fn queue_fault<T>(error: &TrySendError<T>) -> NotCounted {
    match error {
        TrySendError::Full(_) => NotCounted("too many requests are waiting"),
        TrySendError::Closed(_) => NotCounted("the store was closed"),
    }
}

/// Counts a guess under all of these keys.
pub(super) async fn count(
    queue: &Sender<GuessJob>,
    keys: Vec<(CountKey, Pace)>,
    now: UnixTime,
) -> Result<Judged, NotCounted> {
    let (reply, answer) = oneshot::channel();
    queue.try_send(GuessJob::Count { keys, now, reply }).map_err(|error| queue_fault(&error))?;
    match tokio::time::timeout(CALLER_TIMEOUT, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => Err(NotCounted("the database does not answer in time")),
    }
}

/// Subtracts a guess from the counts. Does not wait for the result.
pub(super) fn give_back(queue: &Sender<GuessJob>, counted: Vec<CountedGuess>, now: UnixTime) {
    if let Err(error) = queue.try_send(GuessJob::GiveBack { counted, now }) {
        tracing::warn!(error = %queue_fault(&error), "a correct password is still counted as a guess");
    }
}

impl GuessJob {
    fn keys(&self) -> Vec<CountKey> {
        match self {
            Self::Count { keys, .. } => keys.iter().map(|(key, _)| *key).collect(),
            Self::GiveBack { counted, .. } => counted.iter().map(|one| one.key).collect(),
        }
    }

    /// Returns whether the caller has stopped waiting.
    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Count { reply, .. } if reply.is_closed())
    }
}

/// Failures of each key, and the keys whose failures have changed.
#[derive(Debug, Default)]
struct Rows {
    failures: BTreeMap<CountKey, Failures>,
    changed: BTreeSet<CountKey>,
}

impl Rows {
    fn failures(&self, key: CountKey, now: u64) -> Failures {
        self.failures.get(&key).copied().unwrap_or_else(|| Failures::none(now))
    }

    fn set(&mut self, key: CountKey, failures: Failures) {
        self.failures.insert(key, failures);
        self.changed.insert(key);
    }

    /// Counts a guess under all of these keys, or under none if a limit is reached.
    fn count(&mut self, keys: &[(CountKey, Pace)], now: u64) -> Judged {
        let longest = keys.iter().map(|(key, pace)| self.failures(*key, now).wait(*pace, now)).max().unwrap_or(0);
        if longest > 0 {
            return Err(longest);
        }
        let mut counted = Vec::with_capacity(keys.len());
        for (key, pace) in keys {
            let mut failures = self.failures(*key, now);
            let moved = failures.take(*pace, now)?;
            self.set(*key, failures);
            counted.push(CountedGuess { key: *key, moved });
        }
        Ok(counted)
    }

    fn give_back(&mut self, counted: &[CountedGuess], now: u64) {
        for one in counted {
            // An absent row has no count to reduce.
            let Some(mut failures) = self.failures.get(&one.key).copied() else { continue };
            failures.give_back(one.moved, now);
            self.set(one.key, failures);
        }
    }

    async fn write(&self, prepared: &GuessLink) -> Result<(), Error> {
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let changed = self.changed.iter().filter_map(|key| self.failures.get(key).map(|failures| (key, failures)));
        // Delete rows without failures, so that correct passwords do not fill the table.
        let (with_failures, without_failures): (Vec<_>, Vec<_>) = changed.partition(|(_, failures)| failures.count > 0);
        let without_failures: Vec<&[u8]> = without_failures.iter().map(|(key, _)| key.as_slice()).collect();
        let keys: Vec<&[u8]> = with_failures.iter().map(|(key, _)| key.as_slice()).collect();
        let column =
            |of: &dyn Fn(&Failures) -> u64| with_failures.iter().map(|(_, one)| number(of(one))).collect::<Vec<i64>>();
        let (since, next) = (column(&|one| one.since), column(&|one| one.next));
        let (failures, free) = (column(&|one| one.count.into()), column(&|one| one.free.into()));
        let (forgets, at_a_time) = (column(&|one| one.forgets.into()), column(&|one| one.at_a_time.into()));
        let until = column(&|one| (one.over_at() / EXPIRY_ROUNDING_SECONDS + 2) * EXPIRY_ROUNDING_SECONDS);
        let values: [&(dyn ToSql + Sync); 9] =
            [&without_failures, &keys, &since, &next, &failures, &free, &forgets, &at_a_time, &until];
        prepared.link.client.execute(&prepared.write, &values).await.map(drop)
    }
}

impl GuessLink {
    /// Decides all jobs in one transaction, and returns their results.
    async fn judge(&self, jobs: &[GuessJob]) -> Result<Vec<Judged>, Error> {
        let keys: BTreeSet<CountKey> = jobs.iter().flat_map(GuessJob::keys).collect();
        let stripes: BTreeSet<u16> = keys.iter().map(|key| u16::from_be_bytes([key[0], key[1]]) % STRIPES).collect();
        let stripes: Vec<i32> = stripes.into_iter().map(i32::from).collect();
        let keys: Vec<&[u8]> = keys.iter().map(<[u8; 16]>::as_slice).collect();
        let client = &self.link.client;
        let (locking, finding): ([&(dyn ToSql + Sync); 1], [&(dyn ToSql + Sync); 1]) = ([&stripes], [&keys]);
        // Each statement is sent when it is first polled, so `biased` keeps them in order.
        let (begin, lock, rows) = tokio::join!(
            biased;
            client.batch_execute(BEGIN),
            client.query_one(&self.lock, &locking),
            client.query(&self.find, &finding),
        );
        begin?;
        lock?;
        let stored_failures = rows?;
        let mut rows = Rows::default();
        for row in stored_failures {
            let (key, failures) = failures_of(&row)?;
            rows.failures.extend(key.map(|key| (key, failures)));
        }
        let judged = jobs.iter().map(|job| match job {
            GuessJob::Count { keys, now, .. } => rows.count(keys, now.seconds()),
            GuessJob::GiveBack { counted, now } => {
                rows.give_back(counted, now.seconds());
                Ok(Vec::new())
            }
        });
        let judged = judged.collect();
        let (written, ended) = tokio::join!(biased; rows.write(self), client.batch_execute("COMMIT"));
        written?;
        ended?;
        Ok(judged)
    }
}

fn failures_of(row: &tokio_postgres::Row) -> Result<(Option<CountKey>, Failures), Error> {
    let time = |index: usize| row.try_get::<_, i64>(index).map(|value| u64::try_from(value).unwrap_or_default());
    let count = |index: usize| time(index).map(|value| u32::try_from(value).unwrap_or(u32::MAX));
    let failures = Failures {
        since: time(1)?,
        next: time(2)?,
        count: count(3)?,
        free: count(4)?,
        forgets: count(5)?,
        at_a_time: count(6)?,
    };
    Ok((row.try_get::<_, &[u8]>(0)?.try_into().ok(), failures))
}

impl CountWork for GuessWork {
    type Job = GuessJob;
    type Prepared = GuessLink;

    const WAITS_FOR_STANDBY: bool = true;

    async fn prepare(link: Link) -> Result<GuessLink, Error> {
        let client = &link.client;
        let (lock, find, write, sweep) =
            tokio::try_join!(client.prepare(LOCK), client.prepare(FIND), client.prepare(WRITE), client.prepare(SWEEP))?;
        Ok(GuessLink { link, lock, find, write, sweep })
    }

    fn link(prepared: &GuessLink) -> &Link {
        &prepared.link
    }

    fn max_batch() -> usize {
        MAX_GUESSES
    }

    async fn run(&mut self, prepared: &GuessLink, mut jobs: Vec<GuessJob>) -> bool {
        jobs.retain(|job| !job.is_abandoned());
        if jobs.is_empty() {
            return true;
        }
        prepared.link.take_warning();
        let judged = tokio::time::timeout(TIMEOUT, prepared.judge(&jobs)).await;
        // After a cancelled wait for the standby, the server reports success for data that only the
        // primary has.
        let judged = match judged {
            Ok(Ok(judged)) if !prepared.link.take_warning() => Some(judged),
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot count guesses");
                None
            }
            Ok(Ok(_)) | Err(_) => {
                tracing::warn!("the count of guesses may not be durable");
                None
            }
        };
        let Some(judged) = judged else {
            for job in jobs {
                Self::refuse(job, NotCounted("the database may not have counted the guess"));
            }
            return false;
        };
        for (job, judged) in jobs.into_iter().zip(judged) {
            if let GuessJob::Count { reply, .. } = job {
                let _ = reply.send(Ok(judged));
            }
        }
        true
    }

    fn refuse(job: GuessJob, cause: NotCounted) {
        if let GuessJob::Count { reply, .. } = job {
            let _ = reply.send(Err(cause));
        }
    }

    async fn sweep(&mut self, prepared: &GuessLink) -> Result<i64, Error> {
        prepared.link.client.query_one(&prepared.sweep, &[&SWEEP_ROWS]).await?.try_get(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn pace(limit: u32) -> Pace {
        Pace::even(limit, Duration::from_mins(15))
    }

    #[test]
    fn guesses_of_one_transaction_are_judged_sequentially() {
        let mut rows = Rows::default();
        let keys = [([1; 16], pace(3)), ([2; 16], pace(100))];
        let passed = (0..60).filter(|_| rows.count(&keys, NOW).is_ok()).count();
        assert_eq!(passed, 3);
        assert_eq!(rows.failures([2; 16], NOW).count, 3, "where one key waits, nothing is counted");
    }

    #[test]
    fn returned_guesses_are_subtracted_and_unknown_ones_ignored() {
        let mut rows = Rows::default();
        let counted = rows.count(&[([1; 16], pace(3))], NOW).unwrap();
        rows.give_back(&counted, NOW);
        assert_eq!(rows.failures([1; 16], NOW).count, 0);
        let mut others = Rows::default();
        others.give_back(&counted, NOW);
        assert!(others.changed.is_empty());
    }
}
