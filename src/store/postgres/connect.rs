//! Connections: every server of the URL side by side, each within one deadline, and of those that take writes the one on the
//! highest timeline. A client's own way through several hosts waits for ever at one that hangs, and takes an old primary that
//! stands first.

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

/// For TCP, TLS, login and the first questions together.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// For the other servers, once one was found that takes writes: one that hangs would keep everybody waiting.
const OTHERS_TIMEOUT: Duration = Duration::from_millis(500);
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// No time limit on a statement: one that fires while a commit waits for its standby would answer success. Lookups go by the
/// key whatever the planner thinks of a table that it has not seen grow. Warnings are sent, since one of them says that a
/// commit is not safe. What a commit waits for stays as it was judged, whatever a reload makes of the setting.
const SESSION: &str = "SET statement_timeout = 0; SET lock_timeout = '2s'; \
     SET idle_in_transaction_session_timeout = '5s'; SET client_min_messages = 'warning'; \
     SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off; \
     SET plan_cache_mode = 'force_generic_plan'; \
     SELECT set_config('synchronous_commit', current_setting('synchronous_commit'), false)";

/// What a connection is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkPurpose {
    /// The tables may not be there yet.
    Initialise,
    Serve,
}

/// One connection to the server that takes writes. It ends when this is dropped.
pub(super) struct Link {
    pub(super) client: Client,
    pub(super) timeline: u32,
    /// `HOST:PORT`
    pub(super) server: String,
    /// Chosen by the server for this connection alone.
    pub(super) random: i64,
    warned: Arc<AtomicBool>,
    ended: watch::Receiver<bool>,
    driver: AbortHandle,
}

impl Link {
    /// Whether the server has warned since this was last asked. While a commit waits for its standby, a warning says that it
    /// waits no longer and that the standby may not have it.
    pub(super) fn take_warning(&self) -> bool {
        self.warned.swap(false, Ordering::AcqRel)
    }

    /// Ends the connection for all who share it. Whatever they wait for fails.
    pub(super) fn abandon(&self) {
        self.driver.abort();
    }

    /// Returns once it has ended, by whatever cause.
    pub(super) async fn ended(&self) {
        let mut ended = self.ended.clone();
        // An error says that the driver is gone.
        let _ = ended.wait_for(|ended| *ended).await;
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The servers of one database.
pub(super) struct Servers {
    all: Vec<DatabaseServer>,
    /// The highest timeline that any of them has shown. A server on a lower one is from before a failover.
    highest: watch::Sender<u32>,
    /// Which store it is, once one was found.
    store: OnceLock<String>,
}

impl Servers {
    pub(super) fn new(servers: Vec<DatabaseServer>) -> Self {
        Self { all: servers, highest: watch::Sender::new(0), store: OnceLock::new() }
    }

    /// Whether what this connection says may still be believed.
    pub(super) fn is_current(&self, link: &Link) -> bool {
        link.timeline >= *self.highest.borrow()
    }

    /// Returns once a server with a higher timeline than this connection's was seen.
    pub(super) async fn superseded(&self, link: &Link) {
        let timeline = link.timeline;
        // The sender is our own.
        let _ = self.highest.subscribe().wait_for(|highest| *highest > timeline).await;
    }

    /// A connection to the one that takes writes.
    ///
    /// # Errors
    /// What must be corrected, where some server says so; otherwise `Unreachable`.
    pub(super) async fn connect(&self, purpose: LinkPurpose) -> Result<Link, PostgresFault> {
        let mut asked = JoinSet::new();
        for server in &self.all {
            let server = server.clone();
            asked.spawn(async move {
                let name = server.name.clone();
                let probed = tokio::time::timeout(CONNECT_TIMEOUT, probe(server, purpose)).await;
                (name, probed.unwrap_or_else(|_| Err(unreachable("it does not answer"))))
            });
        }
        let (mut best, mut faults) = (None::<(Link, String)>, Vec::new());
        // All of them: the first to answer may be the old one.
        let mut deadline = None::<tokio::time::Instant>;
        loop {
            let answered = match deadline {
                Some(deadline) => tokio::time::timeout_at(deadline, asked.join_next()).await.unwrap_or_default(),
                None => asked.join_next().await,
            };
            let Some(answered) = answered else { break };
            let Ok((name, probed)) = answered else { continue };
            match probed.and_then(|(link, store)| self.accept(&link, &store).map(|()| (link, store))) {
                Ok(found) if best.as_ref().is_none_or(|(link, _)| link.timeline < found.0.timeline) => {
                    deadline.get_or_insert_with(|| tokio::time::Instant::now() + OTHERS_TIMEOUT);
                    best = Some(found);
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
        if let Some((_, fault)) = faults.iter().find(|(_, fault)| !fault.may_pass()) {
            return Err(fault.clone());
        }
        let said = |(name, fault): (String, PostgresFault)| match fault {
            PostgresFault::Unreachable(cause) => format!("{name}: {cause}"),
            other => format!("{name}: {other}"),
        };
        Err(PostgresFault::Unreachable(faults.into_iter().map(said).collect::<Vec<_>>().join("; ")))
    }

    fn accept(&self, link: &Link, store: &str) -> Result<(), PostgresFault> {
        if let Some(known) = self.store.get().filter(|known| *known != store) {
            return Err(PostgresFault::OtherStore { found: store.to_owned(), known: known.clone() });
        }
        let (found, highest) = (link.timeline, *self.highest.borrow());
        if found < highest {
            return Err(PostgresFault::Behind { found, highest });
        }
        Ok(())
    }
}

/// A pause before the next attempt: longer each time, and never the same for all nodes.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
    /// Why the last one failed, as it was logged.
    said: String,
}

impl Backoff {
    pub(super) async fn pause(&mut self) {
        let longest = SHORTEST_PAUSE.saturating_mul(1 << self.attempts.min(10)).min(LONGEST_PAUSE);
        self.attempts += 1;
        tokio::time::sleep(jittered(longest)).await;
    }

    /// As [`Backoff::pause`]. The cause is logged where it is another than the last.
    pub(super) async fn pause_for(&mut self, fault: &PostgresFault) {
        let said = fault.to_string();
        if said != self.said {
            tracing::warn!(fault = said, "the store has no connection to its database");
            self.said = said;
        }
        self.pause().await;
    }
}

/// Between a half and the whole of it.
pub(super) fn jittered(longest: Duration) -> Duration {
    // The library's hash keys differ at each call; nobody gains by guessing them.
    let share = RandomState::new().hash_one(0_u8) % 1024;
    longest / 2 + longest.mul_f64(f64::from(u32::try_from(share).unwrap_or_default()) / 2048.0)
}

fn unreachable(cause: &str) -> PostgresFault {
    PostgresFault::Unreachable(cause.to_owned())
}

pub(super) fn fault_of(error: &tokio_postgres::Error) -> PostgresFault {
    if let Some(said) = error.as_db_error() {
        if *said.code() == SqlState::LOCK_NOT_AVAILABLE {
            return unreachable("its tables are locked, as by an import that is not done");
        }
        let text = format!("{} ({})", said.message(), said.code().code());
        // It starts, stops, or has no connection left.
        return match said.code().code().get(..2) {
            Some("57" | "53" | "08") => PostgresFault::Unreachable(text),
            _ => PostgresFault::Refused(text),
        };
    }
    let Some(cause) = error.source() else { return PostgresFault::Unreachable(error.to_string()) };
    let io = cause.downcast_ref::<io::Error>();
    // A certificate that is not trusted, or a server without TLS: not a connection that broke.
    let is_tls = match io {
        Some(io) => io.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<rustls::Error>),
        None => error.to_string().contains("TLS"),
    };
    if is_tls { PostgresFault::Tls(cause.to_string()) } else { PostgresFault::Unreachable(cause.to_string()) }
}

/// What is asked within a limit; `late` where no answer comes in time.
///
/// # Errors
/// What the question meets, and `late`.
pub(super) async fn within<T>(
    limit: Duration,
    late: PostgresFault,
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, PostgresFault> {
    tokio::time::timeout(limit, asked).await.map_err(|_| late)?.map_err(|error| fault_of(&error))
}

/// Connects and asks. Yields the store's id too, empty where there need be none.
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
    // Before all else: another product stumbles over the other questions.
    if !is_postgresql(&version) {
        return Err(PostgresFault::OtherProduct(version.chars().take(60).collect()));
    }
    set.map_err(|error| fault_of(&error))?;
    let facts = row(facts)?.ok_or_else(|| PostgresFault::Refused("it answers nothing".to_owned()))?;
    let facts = ServerFacts::of(&facts)?;
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
    if store.get("revision").and_then(|found| found.parse().ok()).is_none_or(|found: usize| found < REVISION) {
        return Err(PostgresFault::OlderTables);
    }
    let id = store.get("id").unwrap_or_default().to_owned();
    link.take_warning();
    Ok((link, id))
}

/// Carries the bytes of one connection until it ends. A warning is noted before the answer that follows it is handed on.
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
            tracing::warn!(code = notice.code().code(), message = notice.message(), "the database warns");
        }
    }
    ended.send_replace(true);
}
