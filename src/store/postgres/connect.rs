//! Connections to the primary. All servers in the URL are tried at once, each with a timeout.
//!
//! If several servers are primaries, the server on the highest timeline is used. In contrast, libpq
//! and tokio-postgres try the servers one after another. They would wait for a server that hangs,
//! and would use an old primary if it comes first in the URL.

use std::error::Error;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, Client, SimpleQueryMessage};

use super::PostgresFault;
use super::requirements::{FACTS, LAYOUT, REVISION, STORE, ServerFacts, VERSION, first_row, is_postgresql};
use super::settings::DatabaseServer;

/// Timeout for TCP, TLS, login and the first queries together.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// Timeout for the other servers after a primary was found, so that a hanging server does not delay
/// the connection.
const OTHERS_TIMEOUT: Duration = Duration::from_millis(500);
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// Settings of each session.
///
/// - No statement timeout. If a timeout ended a commit's wait for the standby, the server would
///   report the commit as successful.
/// - Lookups use the primary key, even if the planner's statistics are outdated.
/// - Warnings are enabled, because the server reports a cancelled wait for the standby as a
///   warning.
/// - `synchronous_commit` is set to the value that was checked, so that a reload of the server's
///   configuration does not change it.
const SESSION: &str = "SET statement_timeout = 0; SET lock_timeout = '2s'; \
     SET idle_in_transaction_session_timeout = '5s'; SET client_min_messages = 'warning'; \
     SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; \
     SET plan_cache_mode = 'force_generic_plan'; \
     SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false)";

/// Purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkPurpose {
    /// Creating the tables, which need not exist yet.
    Initialise,
    Serve,
}

/// Connection to the primary. It is closed on drop.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) timeline: u32,
    /// `HOST:PORT`
    pub(super) server: String,
    /// Random number that the server has generated, which identifies this connection.
    pub(super) random: i64,
    warned: Arc<AtomicBool>,
    ended: watch::Receiver<bool>,
    driver: AbortHandle,
}

impl Link {
    /// Returns whether the server has sent a warning since the last call.
    ///
    /// During a commit, a warning means that the wait for the standby was cancelled, so the standby
    /// may not have the commit.
    pub(super) fn take_warning(&self) -> bool {
        self.warned.swap(false, Ordering::AcqRel)
    }

    /// Closes the connection, even if other owners use it. Their queries fail.
    pub(super) fn abandon(&self) {
        self.driver.abort();
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.clone();
        // An error means that the connection's task has ended.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// Servers of one database.
pub(super) struct Servers {
    all: Vec<DatabaseServer>,
    /// Highest timeline that any server has reported. A server on a lower timeline was replaced by
    /// a failover.
    highest: watch::Sender<u32>,
    /// Id of the store, once known.
    store: OnceLock<String>,
}

impl Servers {
    pub(super) fn new(servers: Vec<DatabaseServer>) -> Self {
        Self { all: servers, highest: watch::Sender::new(0), store: OnceLock::new() }
    }

    /// Returns whether the server of this connection is still the primary, as far as is known.
    pub(super) fn is_current(&self, link: &Link) -> bool {
        link.timeline >= *self.highest.borrow()
    }

    /// Waits until a server with a higher timeline is found.
    pub(super) async fn superseded(&self, link: &Link) {
        let timeline = link.timeline;
        // Cannot fail, because the sender belongs to `self`.
        let _ = self.highest.subscribe().wait_for(|highest| *highest > timeline).await;
    }

    /// Connects to the primary.
    ///
    /// # Errors
    /// `Unreachable`, or the error of a server that the operator must correct.
    pub(super) async fn connect(&self, purpose: LinkPurpose) -> Result<Link, PostgresFault> {
        let mut attempts = JoinSet::new();
        for server in &self.all {
            let server = server.clone();
            attempts.spawn(async move {
                let name = server.name.clone();
                let probed = tokio::time::timeout(CONNECT_TIMEOUT, probe(server, purpose)).await;
                (name, probed.unwrap_or_else(|_| Err(unreachable("it does not answer"))))
            });
        }
        let (mut best, mut faults) = (None::<(Link, String)>, Vec::new());
        // Wait for all servers, because the first one to answer may be an old primary.
        let mut deadline = None::<tokio::time::Instant>;
        loop {
            let answer = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, attempts.join_next()).await.unwrap_or_default(),
                None => attempts.join_next().await,
            };
            let Some(answer) = answer else { break };
            let Ok((name, probed)) = answer else { continue };
            match probed.and_then(|(link, store)| self.accept(&link, &store).map(|()| (link, store))) {
                Ok(candidate) if best.as_ref().is_none_or(|(link, _)| link.timeline < candidate.0.timeline) => {
                    deadline.get_or_insert_with(|| tokio::time::Instant::now() + OTHERS_TIMEOUT);
                    best = Some(candidate);
                }
                Ok(_) => {}
                Err(fault) => faults.push((name, fault)),
            }
        }
        if let Some((link, store)) = best {
            if purpose == LinkPurpose::Serve {
                self.store.get_or_init(|| store);
            }
            self.highest.send_if_modified(|highest| {
                let is_higher = link.timeline > *highest;
                *highest = link.timeline.max(*highest);
                is_higher
            });
            return Ok(link);
        }
        if let Some((_, fault)) = faults.iter().find(|(_, fault)| !fault.is_transient()) {
            return Err(fault.clone());
        }
        let describe = |(name, fault): (String, PostgresFault)| match fault {
            PostgresFault::Unreachable(cause) => format!("{name}: {cause}"),
            other => format!("{name}: {other}"),
        };
        Err(PostgresFault::Unreachable(faults.into_iter().map(describe).collect::<Vec<_>>().join("; ")))
    }

    fn accept(&self, link: &Link, store: &str) -> Result<(), PostgresFault> {
        if let Some(known) = self.store.get().filter(|known| *known != store) {
            return Err(PostgresFault::OtherStore { id: store.to_owned(), known: known.clone() });
        }
        let (timeline, highest) = (link.timeline, *self.highest.borrow());
        if timeline < highest {
            return Err(PostgresFault::Behind { timeline, highest });
        }
        Ok(())
    }
}

/// Exponential backoff with jitter, so that nodes do not retry at the same time.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
    /// Last logged error.
    last_fault: String,
}

impl Backoff {
    pub(super) async fn pause(&mut self) {
        let longest = MIN_PAUSE.saturating_mul(1 << self.attempts.min(10)).min(MAX_PAUSE);
        self.attempts += 1;
        tokio::time::sleep(jittered(longest)).await;
    }

    /// Pauses as [`Backoff::pause`] does, and logs the error unless it equals the last logged
    /// error.
    pub(super) async fn pause_for(&mut self, fault: &PostgresFault) {
        let fault = fault.to_string();
        if fault != self.last_fault {
            tracing::warn!(fault, "cannot connect to the database");
            self.last_fault = fault;
        }
        self.pause().await;
    }
}

/// Returns a random duration between half of `longest` and `longest`.
pub(super) fn jittered(longest: Duration) -> Duration {
    // Each `RandomState` has its own keys. The number need not be unpredictable.
    let share = RandomState::new().hash_one(0_u8) % 1024;
    longest / 2 + longest.mul_f64(f64::from(u32::try_from(share).unwrap_or_default()) / 2048.0)
}

fn unreachable(cause: &str) -> PostgresFault {
    PostgresFault::Unreachable(cause.to_owned())
}

pub(super) fn fault_of(error: &tokio_postgres::Error) -> PostgresFault {
    if let Some(database) = error.as_db_error() {
        if *database.code() == SqlState::LOCK_NOT_AVAILABLE {
            return unreachable("the store's tables are locked, for example by a running import");
        }
        let text = format!("{} ({})", database.message(), database.code().code());
        // The server is starting or stopping, or it has no free connection.
        return match database.code().code().get(..2) {
            Some("57" | "53" | "08") => PostgresFault::Unreachable(text),
            _ => PostgresFault::Refused(text),
        };
    }
    let Some(cause) = error.source() else { return PostgresFault::Unreachable(error.to_string()) };
    let io = cause.downcast_ref::<io::Error>();
    // Distinguish an untrusted certificate, or a server without TLS, from a broken connection.
    let is_tls = match io {
        Some(io) => io.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>),
        None => error.to_string().contains("TLS"),
    };
    if is_tls { PostgresFault::Tls(cause.to_string()) } else { PostgresFault::Unreachable(cause.to_string()) }
}

/// Runs a query with a timeout.
///
/// # Errors
/// The error of the query, or `late` after the timeout.
pub(super) async fn within<T>(
    limit: Duration,
    late: PostgresFault,
    query: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, PostgresFault> {
    tokio::time::timeout(limit, query).await.map_err(|_| late)?.map_err(|error| fault_of(&error))
}

/// Connects to a server and checks it. Also returns the id of its store, or an empty id if the
/// tables need not exist.
async fn probe(server: DatabaseServer, purpose: LinkPurpose) -> Result<(Link, String), PostgresFault> {
    let (client, connection) = server.config.connect(server.tls).await.map_err(|error| fault_of(&error))?;
    let warned = Arc::<AtomicBool>::default();
    let (ended_sender, ended) = watch::channel(false);
    let driver = tokio::spawn(drive(connection, Arc::clone(&warned), ended_sender)).abort_handle();
    let mut link = Link { client, timeline: 0, server: server.name, random: 0, warned, ended, driver };
    let client = &link.client;
    let (version, set, facts, store) = tokio::join!(
        client.simple_query(VERSION),
        client.batch_execute(SESSION),
        client.simple_query(FACTS),
        client.simple_query(STORE),
    );
    let row = |answer: Result<Vec<SimpleQueryMessage>, tokio_postgres::Error>| {
        answer.map(first_row).map_err(|error| fault_of(&error))
    };
    let version = row(version)?.and_then(|row| row.get(0).map(str::to_owned)).unwrap_or_default();
    // Check this first, because the other queries fail on other database products.
    if !is_postgresql(&version) {
        return Err(PostgresFault::OtherProduct(version.chars().take(60).collect()));
    }
    set.map_err(|error| fault_of(&error))?;
    let facts = row(facts)?.ok_or_else(|| PostgresFault::Refused("it returned no row".to_owned()))?;
    let facts = ServerFacts::from_row(&facts)?;
    if facts.is_standby {
        return Err(unreachable("it is a standby"));
    }
    facts.check()?;
    (link.timeline, link.random) = (facts.timeline, facts.random);
    if purpose == LinkPurpose::Initialise {
        return Ok((link, String::new()));
    }
    let no_table = |error: &tokio_postgres::Error| {
        if error.code() == Some(&SqlState::UNDEFINED_TABLE) { PostgresFault::NoStore } else { fault_of(error) }
    };
    let store = first_row(store.map_err(|error| no_table(&error))?).ok_or(PostgresFault::NoStore)?;
    if let Some(table) = store.get("unlogged") {
        return Err(PostgresFault::NotLogged(table.to_owned()));
    }
    match store.get("layout") {
        Some(LAYOUT) => {}
        other => return Err(PostgresFault::OtherLayout(other.unwrap_or_default().to_owned())),
    }
    if store
        .get("revision")
        .and_then(|revision| revision.parse().ok())
        .is_none_or(|revision: usize| revision < REVISION)
    {
        return Err(PostgresFault::OlderTables);
    }
    let id = store.get("id").unwrap_or_default().to_owned();
    link.take_warning();
    Ok((link, id))
}

/// Processes the messages of a connection until it ends. A warning is recorded before the answer
/// that follows it is delivered.
async fn drive<S, T>(
    mut connection: tokio_postgres::Connection<S, T>,
    warned: Arc<AtomicBool>,
    ended: watch::Sender<bool>,
) where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
    T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notice(notice) = message
            && notice.parsed_severity().is_none_or(|severity| severity == tokio_postgres::error::Severity::Warning)
        {
            warned.store(true, Ordering::Release);
            tracing::warn!(code = notice.code().code(), message = notice.message(), "warning from the database");
        }
    }
    ended.send_replace(true);
}
