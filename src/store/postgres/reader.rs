//! Reads of all callers, over two shared, pipelined connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::error::Error;
use tokio_postgres::{Row, Statement};

use super::PostgresFault;
use super::beat::LastBeat;
use super::connect::{Backoff, Link, LinkPurpose, Servers, fault_of};
use crate::engine::{EngineError, Key, MAX_KEY_BYTES, Value};

const CONNECTIONS: usize = 2;
/// Timeout of a read, after which the server is considered unreachable.
const READ_TIMEOUT: Duration = Duration::from_secs(2);

const GET: &str = "SELECT value FROM record WHERE key = $1";
const GET_MANY: &str = "SELECT r.value FROM unnest($1::bytea[]) WITH ORDINALITY AS k(key, number) \
     LEFT JOIN record r ON r.key = k.key ORDER BY k.number";
/// Reads the records from the key `$1` up to, but not including, the key `$2`.
const SCAN: &str = "SELECT key, value FROM record WHERE key >= $1 AND key < $2 ORDER BY key LIMIT $3";
const SCAN_TO_THE_END: &str = "SELECT key, value FROM record WHERE key >= $1 ORDER BY key LIMIT $2";

/// Counts the records from the key `$1` up to, but not including, the key `$2`. Does not read their
/// values.
const COUNT: &str = "SELECT count(*) FROM record WHERE key >= $1 AND key < $2";

/// Selects the nodes with a recent heartbeat.
const NODES: &str = "SELECT name FROM node WHERE NOT removed AND seen > clock_timestamp() - interval '5 s'";

/// Connection with prepared statements for reads.
pub(super) struct ReadLink {
    pub(super) link: Link,
    get: Statement,
    get_many: Statement,
    scan: Statement,
    scan_to_the_end: Statement,
    count: Statement,
}

impl ReadLink {
    pub(super) async fn connect(servers: &Servers) -> Result<Self, PostgresFault> {
        let link = servers.connect(LinkPurpose::Serve).await?;
        let client = &link.client;
        let (get, get_many, scan, scan_to_the_end, count) = tokio::try_join!(
            client.prepare(GET),
            client.prepare(GET_MANY),
            client.prepare(SCAN),
            client.prepare(SCAN_TO_THE_END),
            client.prepare(COUNT)
        )
        .map_err(|error| fault_of(&error))?;
        Ok(Self { link, get, get_many, scan, scan_to_the_end, count })
    }
}

pub(super) enum ReadQuery<'q> {
    Get(&'q [u8]),
    GetMany(&'q [Key]),
    Scan { from: &'q [u8], end: Option<&'q [u8]>, limit: i64 },
    Count { from: &'q [u8], end: &'q [u8] },
    Nodes,
    Ping,
}

impl ReadQuery<'_> {
    pub(super) async fn run_on(&self, to: &ReadLink) -> Result<Vec<Row>, Error> {
        let client = &to.link.client;
        match self {
            Self::Get(key) => client.query(&to.get, &[key]).await,
            Self::GetMany(keys) => client.query(&to.get_many, &[keys]).await,
            Self::Scan { from, end: Some(end), limit } => client.query(&to.scan, &[from, end, limit]).await,
            Self::Scan { from, end: None, limit } => client.query(&to.scan_to_the_end, &[from, limit]).await,
            Self::Count { from, end } => client.query(&to.count, &[from, end]).await,
            Self::Nodes => client.query(NODES, &[]).await,
            Self::Ping => client.simple_query("").await.map(|_| Vec::new()),
        }
    }
}

type CurrentLink = watch::Receiver<Option<Arc<ReadLink>>>;

pub(super) struct Readers {
    servers: Arc<Servers>,
    last_beat: Arc<LastBeat>,
    links: Vec<CurrentLink>,
    next: AtomicUsize,
    keepers: Vec<JoinHandle<()>>,
}

/// Keeps a connection open. Reconnects when it has ended or its server was replaced.
async fn maintain(servers: Arc<Servers>, current: watch::Sender<Option<Arc<ReadLink>>>) {
    let mut backoff = Backoff::default();
    loop {
        match ReadLink::connect(&servers).await {
            Ok(link) => {
                backoff = Backoff::default();
                let link = Arc::new(link);
                current.send_replace(Some(Arc::clone(&link)));
                tokio::select! {
                    () = link.link.ended() => {}
                    () = servers.superseded(&link.link) => link.link.abandon(),
                }
                current.send_replace(None);
                backoff.pause().await;
            }
            Err(fault) => backoff.pause_for(&fault).await,
        }
    }
}

impl Readers {
    pub(super) fn start(servers: &Arc<Servers>, last_beat: &Arc<LastBeat>, runtime: &Handle) -> Self {
        let (mut links, mut keepers) = (Vec::new(), Vec::new());
        for _ in 0..CONNECTIONS {
            let (sender, receiver) = watch::channel(None);
            links.push(receiver);
            keepers.push(runtime.spawn(maintain(Arc::clone(servers), sender)));
        }
        Self {
            servers: Arc::clone(servers),
            last_beat: Arc::clone(last_beat),
            links,
            next: AtomicUsize::new(0),
            keepers,
        }
    }

    /// Returns the next connection in turn. If that connection is not usable, waits until any
    /// connection is usable.
    async fn link(&self) -> Result<Arc<ReadLink>, EngineError> {
        let usable = |link: &Option<Arc<ReadLink>>| {
            link.clone().filter(|link| !link.link.client.is_closed() && self.servers.is_current(&link.link))
        };
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        for step in 0..self.links.len() {
            if let Some(link) = self.links.get((turn + step) % self.links.len()).and_then(|link| usable(&link.borrow()))
            {
                return Ok(link);
            }
        }
        let mut link = self.links.get(turn % self.links.len()).cloned().ok_or_else(closed)?;
        let state = link.wait_for(|link| usable(link).is_some()).await.map_err(|_| closed())?;
        usable(&state).ok_or_else(closed)
    }

    /// Returns the names of the nodes with a recent heartbeat.
    pub(super) async fn live_nodes(&self) -> Result<Vec<String>, EngineError> {
        let rows = self.query(ReadQuery::Nodes).await?;
        rows.iter().map(|row| column(row, 0)).collect()
    }

    /// Checks whether a primary answers.
    pub(super) async fn ping(&self) -> Result<(), EngineError> {
        self.query(ReadQuery::Ping).await.map(drop)
    }

    pub(super) fn stop(&self) {
        for keeper in &self.keepers {
            keeper.abort();
        }
    }
}

impl ReadQueries for Readers {
    /// Repeats a query until the answer is valid or the timeout has passed. Repetition is safe,
    /// because reads have no effects.
    ///
    /// A replaced primary still answers queries, with outdated data, but it cannot complete a
    /// heartbeat.
    async fn query(&self, query: ReadQuery<'_>) -> Result<Vec<Row>, EngineError> {
        let deadline = Instant::now() + READ_TIMEOUT;
        let unreached = |_| EngineError::Unavailable("the database cannot be reached".to_owned());
        loop {
            tokio::time::timeout_at(deadline, self.last_beat.wait()).await.map_err(unreached)??;
            let link = tokio::time::timeout_at(deadline, self.link()).await.map_err(unreached)??;
            match tokio::time::timeout_at(deadline, query.run_on(&link)).await {
                // Check the heartbeat before the server. Otherwise a heartbeat of the new primary
                // could make an answer of the old primary look valid.
                Ok(Ok(rows)) => match (self.last_beat.check(), self.servers.is_current(&link.link)) {
                    (Ok(_), true) => return Ok(rows),
                    (Err(_), true) => continue,
                    // The answer may be from a server that has been replaced.
                    (_, false) => link.link.abandon(),
                },
                Ok(Err(error)) if error.as_db_error().is_some_and(|error| !error.code().code().starts_with("57")) => {
                    let cause = error.as_db_error().map_or_else(String::new, ToString::to_string);
                    return Err(EngineError::Unavailable(cause));
                }
                Ok(Err(_)) => link.link.abandon(),
                Err(_) => {
                    link.link.abandon();
                    return Err(EngineError::Unavailable("the database does not answer".to_owned()));
                }
            }
            link.link.ended().await;
        }
    }
}

/// Runs queries. The default methods parse the answers.
pub(super) trait ReadQueries {
    fn query(&self, query: ReadQuery<'_>) -> impl Future<Output = Result<Vec<Row>, EngineError>> + Send;

    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        let rows = self.query(ReadQuery::Get(key)).await?;
        rows.first().map(|row| column(row, 0)).transpose()
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, EngineError> {
        let rows = self.query(ReadQuery::GetMany(keys)).await?;
        values(&rows)
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        let from = match after {
            // The smallest key that is greater than `after`.
            Some(after) if after >= prefix => [after, &[0]].concat(),
            _ => prefix.to_vec(),
        };
        let (end, limit) = (end_of(prefix), i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = self.query(ReadQuery::Scan { from: &from, end: end.as_deref(), limit }).await?;
        rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?))).collect()
    }

    async fn count(&self, prefix: &[u8]) -> Result<usize, EngineError> {
        // Longer than any key, so it is greater than all keys.
        let end = end_of(prefix).unwrap_or_else(|| vec![u8::MAX; MAX_KEY_BYTES + 1]);
        let rows = self.query(ReadQuery::Count { from: prefix, end: &end }).await?;
        let count: i64 = rows.first().map(|row| column(row, 0)).transpose()?.unwrap_or_default();
        Ok(usize::try_from(count).unwrap_or_default())
    }
}

fn closed() -> EngineError {
    EngineError::Unavailable("it is closed".to_owned())
}

/// Parses the answer to [`ReadQuery::GetMany`].
pub(super) fn values(rows: &[Row]) -> Result<Vec<Option<Value>>, EngineError> {
    rows.iter().map(|row| column(row, 0)).collect()
}

fn column<'r, T: tokio_postgres::types::FromSql<'r>>(row: &'r Row, index: usize) -> Result<T, EngineError> {
    row.try_get(index).map_err(|error| EngineError::Unavailable(error.to_string()))
}

/// Returns the smallest key that is greater than all keys with this prefix, or `None` if there is
/// no such key.
fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::end_of;

    #[test]
    fn the_end_of_a_prefix_is_above_all_keys_with_the_prefix() {
        assert_eq!(end_of(b"a").as_deref(), Some(&b"b"[..]));
        assert_eq!(end_of(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
        assert_eq!(end_of(b"a\x00").as_deref(), Some(&b"a\x01"[..]));
        assert_eq!(end_of(b"\xff\xff"), None);
        assert_eq!(end_of(b""), None);
    }
}
