//! Import of a store into an empty database, in one transaction.
//!
//! Nodes never see an incomplete store, and an interrupted import leaves nothing behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::error::{Error, SqlState};
use tokio_postgres::types::ToSql;

use super::PostgresFault;
use super::batch::LOOK_UP;
use super::connect::{Backoff, Link, LinkPurpose, Servers, fault_of};
use super::settings::{PostgresSettings, servers};
use super::transaction::{LEAVE, TransactionEngine, WriteStatements};
use super::writer::describe;
use crate::engine::Engine;

/// Begins the import. Keeps nodes from entering, and blocks other writers and imports.
///
/// Readers are not blocked, and see an empty store. The locks are taken in the same order as a node
/// takes them.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
     SELECT pg_advisory_xact_lock('record'::regclass::oid::integer, -2); \
     LOCK TABLE record IN SHARE ROW EXCLUSIVE MODE";
/// Returns whether the store has records. A separate statement, so that it sees writes that took
/// place while [`BEGIN`] waited for the lock.
const IS_OCCUPIED: &str = "SELECT EXISTS (SELECT FROM record)";
/// Limits the time that the import's transaction may be idle. The limit is short, because a process
/// that determines the outcome of a lost commit waits for this transaction.
const HURRY: &str = "SET LOCAL idle_in_transaction_session_timeout = '5s'";

/// Timeout of the commit, which waits until the standby has all data.
const END_TIMEOUT: Duration = Duration::from_mins(2);
/// Timeout of one query for the outcome of a lost commit. All queries together may take
/// [`FIND_OUT_COMMITS`] commit timeouts.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
const FIND_OUT_COMMITS: u32 = 6;
const ANALYZE_TIMEOUT: Duration = Duration::from_mins(1);

/// Content of the row that identifies the import. [`FILLED`] is inserted together with the records,
/// [`GIVEN_UP`] afterwards to prevent a late commit.
const FILLED: &[i16] = &[];
const GIVEN_UP: &[i16] = &[1];

/// Error of an import into a database.
#[derive(Debug, Clone, thiserror::Error)]
pub enum NewStoreFault {
    #[error(transparent)]
    Database(#[from] PostgresFault),
    #[error(
        "the database already has a store with records; create another database and run there: sealgate store init"
    )]
    Occupied,
    #[error(
        "the store in the database is in use by another import or by a node that starts; stop it, or wait \
         until it ends"
    )]
    InUse,
    /// The import failed. No record was imported.
    #[error("the database did not commit the import ({0}); nothing was imported, repeat the import")]
    NotKept(String),
    /// The outcome of the import is unknown.
    #[error(
        "the database did not answer, so the result of the import is unknown; repeat the import when the database \
         answers again. If it is then refused because the store has records, the first import was complete"
    )]
    Unknown,
}

/// Store that is being imported. If it is dropped before [`NewPostgresStore::finish`] returns, the
/// database stays empty.
pub struct NewPostgresStore {
    servers: Servers,
    engine: Arc<TransactionEngine>,
    find_out_timeout: Duration,
}

impl NewPostgresStore {
    /// Begins an import into the database, which must have no records. Blocks other writers until
    /// the import ends.
    ///
    /// # Errors
    /// `Occupied`, `InUse`, `Database`.
    pub async fn begin(settings: &PostgresSettings) -> Result<Self, NewStoreFault> {
        let servers = Servers::new(servers(settings)?);
        let mut engine = TransactionEngine::connect(&servers, settings).await?;
        let client = &engine.connection.link.client;
        // The session's lock timeout applies.
        client.batch_execute(BEGIN).await.map_err(|error| match error.code() {
            Some(&SqlState::LOCK_NOT_AVAILABLE) => NewStoreFault::InUse,
            _ => fault_of(&error).into(),
        })?;
        let is_occupied = client.query_one(IS_OCCUPIED, &[]).await.and_then(|row| row.try_get(0));
        if is_occupied.map_err(|error| fault_of(&error))? {
            return Err(NewStoreFault::Occupied);
        }
        let writes = WriteStatements::prepare(client).await.map_err(|error| fault_of(&error))?;
        engine.writes = Some(writes);
        let find_out_timeout = FIND_OUT_COMMITS * settings.commit_timeout;
        Ok(Self { servers, engine: Arc::new(engine), find_out_timeout })
    }

    /// Returns the engine that writes to the new store.
    pub fn engine(&self) -> Arc<dyn Engine> {
        Arc::clone(&self.engine) as _
    }

    /// Commits the import, which makes it durable and visible. The engine cannot be used
    /// afterwards.
    ///
    /// # Errors
    /// `NotKept`: no record was imported. `Unknown`: the records may have been imported.
    pub async fn finish(self) -> Result<(), NewStoreFault> {
        let _alone = self.engine.turn.write().await;
        let link = &self.engine.connection.link;
        let ended = match timeout(END_TIMEOUT, end(&self.engine)).await {
            Ok(ended) => ended,
            Err(_) => Ended::Unknown("the server did not answer in time".to_owned()),
        };
        match ended {
            Ended::Kept => analyze(&link.client).await,
            Ended::NotKept(cause) => return Err(NewStoreFault::NotKept(cause)),
            Ended::Unknown(cause) => {
                tracing::warn!(
                    server = link.server,
                    cause,
                    "the result of the import is unknown; reading it from the database"
                );
                link.abandon();
                let new_link = self.find_out(link.random).await?;
                analyze(&new_link.client).await;
            }
        }
        link.abandon();
        Ok(())
    }

    /// Determines the outcome of a lost commit. Returns a connection if the import has succeeded.
    async fn find_out(&self, writer: i64) -> Result<Link, NewStoreFault> {
        let (started, mut backoff) = (Instant::now(), Backoff::default());
        while started.elapsed() < self.find_out_timeout {
            if let Ok(link) = self.servers.connect(LinkPurpose::Serve).await {
                match timeout(ASK_TIMEOUT, is_there(&link, writer)).await {
                    Ok(Ok(Some(true))) => return Ok(link),
                    Ok(Ok(Some(false))) => {
                        return Err(NewStoreFault::NotKept("the connection was lost".to_owned()));
                    }
                    // The transaction may still be running, so ask again.
                    _ => {}
                }
            }
            backoff.pause().await;
        }
        Err(NewStoreFault::Unknown)
    }
}

enum Ended {
    Kept,
    NotKept(String),
    Unknown(String),
}

async fn end(engine: &TransactionEngine) -> Ended {
    let link = &engine.connection.link;
    let client = &link.client;
    let row: [&(dyn ToSql + Sync); 2] = [&link.random, &FILLED];
    link.take_warning();
    // Each statement is sent when it is first polled, so `biased` keeps them in order.
    let (_, left, ended) = tokio::join!(
        biased;
        client.batch_execute(HURRY),
        client.execute(&engine.leave, &row),
        client.batch_execute("COMMIT"),
    );
    match (left, ended) {
        // The server answers the COMMIT of a failed transaction with a rollback. The library
        // reports that answer as success.
        (Err(error), _) if error.as_db_error().is_some() => Ended::NotKept(describe(&error)),
        (Err(error), _) | (_, Err(error)) => Ended::Unknown(describe(&error)),
        (Ok(_), Ok(())) if link.take_warning() => Ended::Unknown("the wait for the standby was cancelled".to_owned()),
        (Ok(_), Ok(())) => Ended::Kept,
    }
}

/// Returns whether the import's transaction has committed its row, or `None` if that is unknown.
///
/// If there is no row, inserts one. If the import's transaction is still running, the insertion
/// waits for it. If not, the new row prevents a later commit.
async fn is_there(link: &Link, writer: i64) -> Result<Option<bool>, Error> {
    link.take_warning();
    match link.client.execute(LEAVE, &[&writer, &GIVEN_UP]).await {
        Err(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION) => {}
        Err(error) => return Err(error),
        Ok(_) => return Ok(Some(false).filter(|_| !link.take_warning())),
    }
    let row = link.client.query_opt(LOOK_UP, &[&writer, &0_i64]).await?;
    let Some(refused) = row.map(|row| row.try_get::<_, Vec<i16>>(0)).transpose()? else { return Ok(None) };
    Ok(Some(refused == FILLED).filter(|_| !link.take_warning()))
}

/// Updates the planner's statistics. Correctness does not depend on them.
async fn analyze(client: &Client) {
    match timeout(ANALYZE_TIMEOUT, client.batch_execute("ANALYZE record")).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(error = describe(&error), "ANALYZE of the table record failed"),
        Err(_) => tracing::warn!("ANALYZE of the table record did not end in time"),
    }
}
