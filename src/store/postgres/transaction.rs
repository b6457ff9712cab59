//! Engine whose operations are all in one transaction, on its own connection.
//!
//! A read transaction sees one snapshot of the store, even if it runs for a long time. It blocks no
//! other transaction. A write transaction is invisible until it is committed ([`super::filling`]).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::RwLock;
use tokio::time::timeout;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::{Error, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

use super::batch::Operation;
use super::connect::{Servers, fault_of};
use super::reader::{ReadLink, ReadQueries, ReadQuery, values};
use super::settings::{PostgresSettings, servers};
use super::writer::describe;
use super::{PostgresFault, formats};
use crate::engine::{Changes, Counters, Engine, EngineError, FormatRule, Key, Outcome, Value};
use crate::format::FormatRange;

/// Timeout of a statement, after which the server is considered unreachable.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Settings of the session. The reader of an export may pause for a long time. But the snapshot
/// prevents vacuuming, and a table lock blocks all nodes. So the server must detect quickly that
/// this machine has failed.
const SESSION: &str = "SET idle_in_transaction_session_timeout = '10min'; SET tcp_keepalives_idle = 10; \
     SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3";
/// Begins a read transaction. Its first statement determines the snapshot.
const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1";
/// Inserts a row from which the outcome of a commit can be determined. Its number is 0, because
/// numbers of batches start at 1.
pub(super) const LEAVE: &str = "INSERT INTO batch (writer, number, refused) VALUES ($1, 0, $2)";

const REMOVE: &str = "DELETE FROM record WHERE key = ANY($1)";
const COPY: &str = "COPY record (key, value) FROM STDIN (FORMAT binary)";

/// Engine whose operations are all in one transaction, which is rolled back on drop.
pub(super) struct TransactionEngine {
    pub(super) connection: ReadLink,
    /// The statement [`LEAVE`]. It is prepared in advance, so that the commit takes one round trip.
    pub(super) leave: Statement,
    /// `None` in a read transaction.
    pub(super) writes: Option<WriteStatements>,
    counters: Counters,
    formats: FormatRange,
    /// Format of a store that is being imported. 0 if it has none.
    format: AtomicU32,
    /// Locked for writing while records are compared and written, because the statements of a
    /// transaction are not isolated from each other.
    pub(super) turn: RwLock<()>,
}

pub(super) struct WriteStatements {
    remove: Statement,
    copy: Statement,
}

impl WriteStatements {
    /// Prepares the statements. To be called after the table was locked, because preparing waits
    /// for the lock.
    pub(super) async fn prepare(client: &Client) -> Result<Self, Error> {
        let (remove, copy) = tokio::try_join!(client.prepare(REMOVE), client.prepare(COPY))?;
        Ok(Self { remove, copy })
    }

    async fn write(&self, client: &Client, operation: &Operation) -> Result<(), Error> {
        // COPY can only insert, so delete existing records first.
        let keys: Vec<&[u8]> = operation.writes.keys().map(Vec::as_slice).collect();
        client.execute(&self.remove, &[&keys]).await?;
        let puts = operation.writes.iter().filter_map(|(key, value)| Some((key, value.as_ref()?)));
        let mut rows = pin!(BinaryCopyInWriter::new(client.copy_in(&self.copy).await?, &[Type::BYTEA, Type::BYTEA]));
        for (key, value) in puts {
            rows.as_mut().write(&[key, value]).await?;
        }
        rows.finish().await.map(drop)
    }
}

impl TransactionEngine {
    /// Connects, without beginning a transaction.
    pub(super) async fn connect(servers: &Servers, settings: &PostgresSettings) -> Result<Self, PostgresFault> {
        let connection = ReadLink::connect(servers).await?;
        let client = &connection.link.client;
        let prepared = tokio::try_join!(client.batch_execute(SESSION), client.prepare(LEAVE));
        let ((), leave) = prepared.map_err(|error| fault_of(&error))?;
        Ok(Self {
            connection,
            leave,
            writes: None,
            counters: Counters::default(),
            formats: settings.formats,
            format: AtomicU32::new(0),
            turn: RwLock::new(()),
        })
    }

    /// Runs a query. The caller must hold `turn`.
    async fn put(&self, query: ReadQuery<'_>) -> Result<Vec<Row>, EngineError> {
        in_time(query.run_on(&self.connection)).await
    }
}

/// Returns an engine for a snapshot of the store in the database. It refuses commits.
///
/// # Errors
/// See [`PostgresFault`]. Also returns `Unreachable` if the server's standby does not respond.
pub async fn snapshot(settings: &PostgresSettings) -> Result<Arc<dyn Engine>, PostgresFault> {
    let engine = TransactionEngine::connect(&Servers::new(servers(settings)?), settings).await?;
    let link = &engine.connection.link;
    let begin = async {
        // A replaced primary still answers reads, but its standbys follow another server, so this
        // write is not acknowledged there.
        link.client.execute(&engine.leave, &[&link.random, &[0_i16; 0].as_slice()]).await?;
        link.client.batch_execute(BEGIN_SNAPSHOT).await
    };
    match timeout(ANSWER_TIMEOUT, begin).await {
        Ok(Ok(())) if !link.take_warning() => Ok(Arc::new(engine)),
        Ok(Err(error)) => Err(fault_of(&error)),
        _ => Err(PostgresFault::Unreachable(format!("{} or its standby does not answer", link.server))),
    }
}

impl ReadQueries for TransactionEngine {
    async fn query(&self, query: ReadQuery<'_>) -> Result<Vec<Row>, EngineError> {
        let _shared = self.turn.read().await;
        self.put(query).await
    }
}

#[async_trait]
impl Engine for TransactionEngine {
    async fn get(&self, key: &[u8]) -> Result<Option<Value>, EngineError> {
        ReadQueries::get(self, key).await
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Value>>, EngineError> {
        ReadQueries::get_many(self, keys).await
    }

    async fn scan(&self, prefix: &[u8], after: Option<&[u8]>, limit: usize) -> Result<Vec<(Key, Value)>, EngineError> {
        ReadQueries::scan(self, prefix, after, limit).await
    }

    async fn commit(&self, changes: Changes) -> Result<Outcome, EngineError> {
        changes.check_sizes()?;
        let Some(writes) = &self.writes else {
            return Err(EngineError::Unwritable("it is open as a read-only snapshot".to_owned()));
        };
        let operation = Operation::from(changes);
        let (keys, expected): (Vec<Key>, Vec<Option<Value>>) = operation.expect.iter().cloned().unzip();
        let _alone = self.turn.write().await;
        if values(&self.put(ReadQuery::GetMany(&keys)).await?)? != expected {
            return Ok(Outcome::Conflict);
        }
        in_time(writes.write(&self.connection.link.client, &operation)).await?;
        self.counters.advance(&operation.moves);
        Ok(Outcome::Committed)
    }

    fn format(&self) -> FormatRule {
        FormatRule::Shared(Some(self.format.load(Ordering::Acquire)).filter(|format| *format > 0))
    }

    async fn begin_format(&self) -> Result<(), EngineError> {
        let _alone = self.turn.write().await;
        let begin_result =
            timeout(ANSWER_TIMEOUT, formats::begin_within(&self.connection.link.client, self.formats)).await;
        let silent = || EngineError::Unavailable("the database does not answer".to_owned());
        let format = begin_result.map_err(|_| silent())?.map_err(PostgresFault::into_engine_error)?;
        self.format.store(format, Ordering::Release);
        Ok(())
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    async fn ping(&self) -> Result<(), EngineError> {
        self.query(ReadQuery::Ping).await.map(drop)
    }
}

async fn in_time<T>(query: impl Future<Output = Result<T, Error>>) -> Result<T, EngineError> {
    match timeout(ANSWER_TIMEOUT, query).await {
        Ok(answer) => answer.map_err(|error| match error.code() {
            Some(&SqlState::DISK_FULL | &SqlState::READ_ONLY_SQL_TRANSACTION) => {
                EngineError::Unwritable(describe(&error))
            }
            _ => EngineError::Unavailable(describe(&error)),
        }),
        Err(_) => Err(EngineError::Unavailable("the database does not answer".to_owned())),
    }
}
