//! Heartbeat: a short statement that runs periodically. The statement writes a row and reads the
//! access counters.
//!
//! If a recent heartbeat was answered, this process may base access decisions on cached records.
//!
//! A heartbeat reads the state of the store at a time after its start, from the server that is the
//! primary at that time. A replaced primary cannot complete a write, because its standby follows
//! another server. Therefore, when a heartbeat is answered, this node has read every change that
//! was acknowledged before the heartbeat started. No decision relies on a heartbeat that started
//! more than [`PostgresSettings::staleness`] ago. This rule compares no clocks. It relies only on
//! the length of a second in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_postgres::Statement;

use super::connect::{Backoff, Link, LinkPurpose, Servers, within};
use super::formats::UNREADABLE_FORMAT;
use super::settings::PostgresSettings;
use super::{PostgresFault, formats};
use crate::engine::{CommitObserver, Counter, Counters, Current, EngineError, Heartbeat};
use crate::format;
use crate::format::FormatRange;
use sealgate_config::BeatDurability;

/// Interval from the start of one heartbeat to the start of the next.
const INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of a heartbeat, after which its connection is closed.
const TIMEOUT: Duration = Duration::from_millis(800);
/// Format number for a format record that cannot be read.
const UNREADABLE: u32 = u32::MAX;
/// Maximum difference between the clocks of this machine and of the database, because codes and
/// tokens expire by the clock.
pub(super) const MAX_OFFSET: Duration = Duration::from_secs(2);

/// Statement of a node's heartbeat.
///
/// Returns no row if the node was removed, or if another process uses its name. `seen` is earlier
/// than the snapshot of the counters, so a commit after `seen` may or may not be in the counters.
/// `members::wait_for_beats` takes that into account.
const BEAT: &str = "UPDATE node SET seen = statement_timestamp() WHERE name = $1 AND incarnation = $2 AND NOT removed \
     RETURNING (SELECT array_agg(n ORDER BY slot) FROM counter), \
     extract(epoch FROM clock_timestamp())::double precision, \
     (SELECT count(*) FROM node WHERE NOT removed AND seen > clock_timestamp() - interval '5 s'), \
     (SELECT value FROM record WHERE key = '\\x6d666f726d6174'::bytea)";
/// Heartbeat statement of a process that runs a command. Such a process is not a node, so it has no
/// row in `node`.
const BEAT_OF_COMMAND: &str = "UPDATE store SET layout = layout \
     RETURNING (SELECT array_agg(n ORDER BY slot) FROM counter), \
     extract(epoch FROM clock_timestamp())::double precision, \
     (SELECT count(*) FROM node WHERE NOT removed AND seen > clock_timestamp() - interval '5 s'), \
     (SELECT value FROM record WHERE key = '\\x6d666f726d6174'::bytea)";

/// Whether this process may serve, as of the last heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum NodeStatus {
    Good,
    /// The clocks of this machine and the database differ too much.
    ClockOff,
    /// Another process uses the name of this node, or the node was removed.
    Removed,
    /// This program does not support the format of the store.
    OtherFormat,
}

/// Result of the last heartbeat.
pub(super) struct LastBeat {
    started: Instant,
    staleness: Duration,
    /// Start of that heartbeat, in nanoseconds after `started`. 0 before the first heartbeat.
    began: AtomicU64,
    status: AtomicU8,
    /// How far the database's clock is ahead of this machine's, in milliseconds.
    clock_offset: AtomicI64,
    /// Number of nodes with a heartbeat in the last five seconds.
    nodes: AtomicU32,
    /// Format of the store. 0 if it has none.
    format: AtomicU32,
    served: FormatRange,
    updated: watch::Sender<()>,
}

impl LastBeat {
    pub(super) fn new(staleness: Duration, served: FormatRange) -> Self {
        Self {
            started: Instant::now(),
            staleness,
            began: AtomicU64::new(0),
            status: AtomicU8::new(NodeStatus::Good as u8),
            clock_offset: AtomicI64::new(0),
            nodes: AtomicU32::new(1),
            format: AtomicU32::new(0),
            served,
            updated: watch::Sender::new(()),
        }
    }

    /// Returns how long decisions may be based on the state that this process has read.
    ///
    /// # Errors
    /// `Stale`, with the cause.
    pub(super) fn check(&self) -> Result<Current, EngineError> {
        self.check_status()?;
        let began = self.began.load(Ordering::Acquire);
        let current = Current::until(self.started + Duration::from_nanos(began) + self.staleness);
        if began == 0 || !current.holds() {
            return Err(EngineError::Stale("the database has not answered recently".to_owned()));
        }
        Ok(current)
    }

    /// Returns an error if this process must not decide, even if heartbeats are answered.
    pub(super) fn check_status(&self) -> Result<(), EngineError> {
        let status = self.status.load(Ordering::Acquire);
        if status == NodeStatus::Removed as u8 {
            let cause = "this node was removed from the cluster, or another process uses its name (cluster.node)";
            return Err(EngineError::Stale(cause.to_owned()));
        }
        if status == NodeStatus::ClockOff as u8 {
            let milliseconds = self.clock_offset.load(Ordering::Acquire);
            let cause =
                format!("the database's clock differs by {milliseconds} ms from this machine's; set both by NTP");
            return Err(EngineError::Stale(cause));
        }
        if status == NodeStatus::OtherFormat as u8 {
            return Err(EngineError::Stale(self.format_fault(self.format.load(Ordering::Acquire)).unwrap_or_default()));
        }
        Ok(())
    }

    /// Returns the format of the store, if known.
    pub(super) fn format(&self) -> Option<u32> {
        Some(self.format.load(Ordering::Acquire)).filter(|format| *format > 0)
    }

    pub(super) fn set_format(&self, format: u32) {
        self.format.store(format, Ordering::Release);
    }

    /// Waits for a recent heartbeat. The caller must apply a timeout.
    ///
    /// # Errors
    /// `Stale` if further heartbeats would not help.
    pub(super) async fn wait(&self) -> Result<(), EngineError> {
        let mut updated = self.updated.subscribe();
        loop {
            self.check_status()?;
            if self.check().is_ok() {
                return Ok(());
            }
            // Cannot fail: the sender belongs to `self`.
            let _ = updated.changed().await;
        }
    }

    pub(super) fn nodes(&self) -> u32 {
        self.nodes.load(Ordering::Relaxed)
    }

    fn set(&self, status: NodeStatus) {
        self.status.store(status as u8, Ordering::Release);
        self.updated.send_replace(());
    }

    fn format_fault(&self, format: u32) -> Option<String> {
        if format == UNREADABLE { Some(UNREADABLE_FORMAT.to_owned()) } else { self.served.fault(format) }
    }

    /// Records the format that a heartbeat has read. Returns whether this process supports it.
    fn record_format(&self, format_record: Option<&[u8]>) -> bool {
        // An empty store has no format yet.
        let Some(format_record) = format_record else { return true };
        let format = format::format_of(format_record).unwrap_or(UNREADABLE);
        let (before, fault) = (self.format.swap(format, Ordering::AcqRel), self.format_fault(format));
        if before != format {
            match &fault {
                Some(fault) => tracing::error!("{fault}; until then, this node answers gated requests with 503"),
                None if before == 0 => {}
                None => tracing::info!(from = before, to = format, "the store's format has changed"),
            }
        }
        fault.is_none()
    }

    fn record(&self, began: Instant, nodes: i64, clock_offset: f64, uncertain: Duration, format: Option<&[u8]>) {
        self.nodes.store(u32::try_from(nodes.max(1)).unwrap_or(1), Ordering::Relaxed);
        #[expect(clippy::cast_possible_truncation, reason = "a cast from a float saturates")]
        self.clock_offset.store((clock_offset * 1000.0) as i64, Ordering::Release);
        let began = began.saturating_duration_since(self.started).as_nanos();
        self.began.store(u64::try_from(began).unwrap_or(u64::MAX).max(1), Ordering::Release);
        if !self.record_format(format) {
            self.set(NodeStatus::OtherFormat);
            return;
        }
        let is_off = clock_offset.abs() > (MAX_OFFSET + uncertain).as_secs_f64();
        self.set(if is_off { NodeStatus::ClockOff } else { NodeStatus::Good });
    }
}

/// Task that sends heartbeats.
pub(super) struct HeartbeatTask {
    servers: Arc<Servers>,
    last: Arc<LastBeat>,
    counters: Arc<Counters>,
    observer: Arc<dyn CommitObserver>,
    durability: BeatDurability,
    formats: FormatRange,
    wall_clock: Option<fn() -> f64>,
    /// Name and incarnation of the node. `None` for a command.
    node: Option<(String, i64)>,
    /// Counters, as read by the last heartbeat.
    last_counters: Vec<i64>,
    /// Server and timeline that the counters were read from.
    last_server: (String, u32),
}

struct BeatLink {
    link: Link,
    beat: Statement,
}

/// Result of a heartbeat.
enum BeatOutcome {
    Answered,
    Removed,
    /// The heartbeat failed, and its connection must not be used again.
    Failed,
}

impl HeartbeatTask {
    pub(super) fn new(
        servers: &Arc<Servers>,
        last: &Arc<LastBeat>,
        counters: &Arc<Counters>,
        observer: &Arc<dyn CommitObserver>,
        settings: &PostgresSettings,
    ) -> Self {
        Self {
            servers: Arc::clone(servers),
            last: Arc::clone(last),
            counters: Arc::clone(counters),
            observer: Arc::clone(observer),
            durability: settings.beat,
            formats: settings.formats,
            wall_clock: settings.wall_clock,
            node: settings.node.clone().map(|name| (name, 0)),
            last_counters: Vec::new(),
            last_server: Default::default(),
        }
    }

    /// Enters the cluster if this process is a node. To be called once, at startup, because a
    /// later call could displace another process.
    ///
    /// # Errors
    /// `Removed`, `Format`, and errors of the connection.
    pub(super) async fn enter(&mut self) -> Result<(), PostgresFault> {
        let Some((name, incarnation)) = &mut self.node else { return Ok(()) };
        let link = connect(&self.servers, self.durability).await?;
        *incarnation = formats::enter(&link, name, self.formats).await?;
        Ok(())
    }

    /// Sends heartbeats until the task is dropped or the node is removed.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let link = match self.connect().await {
                Ok(link) => link,
                Err(fault) => {
                    backoff.pause_for(&fault).await;
                    continue;
                }
            };
            loop {
                let began = Instant::now();
                match self.beat(&link, began).await {
                    BeatOutcome::Answered => backoff = Backoff::default(),
                    BeatOutcome::Failed => break,
                    BeatOutcome::Removed => {
                        tracing::error!(
                            "this node was removed from the cluster, or another process uses its name; it \
                             stops serving"
                        );
                        self.last.set(NodeStatus::Removed);
                        return;
                    }
                }
                tokio::select! {
                    () = tokio::time::sleep_until((began + INTERVAL).into()) => {}
                    () = link.link.ended() => break,
                    () = self.servers.superseded(&link.link) => break,
                }
            }
            drop(link);
            backoff.pause().await;
        }
    }

    async fn connect(&mut self) -> Result<BeatLink, PostgresFault> {
        let link = connect(&self.servers, self.durability).await?;
        // Equal counters on two servers do not mean equal data, so the counters of the previous server
        // are forgotten.
        let server = (link.server.clone(), link.timeline);
        if self.last_server != server {
            self.last_counters.clear();
            self.last_server = server;
        }
        let statement = if self.node.is_some() { BEAT } else { BEAT_OF_COMMAND };
        let beat = within(TIMEOUT, PostgresFault::NotAcknowledged, link.client.prepare(statement)).await?;
        Ok(BeatLink { link, beat })
    }

    async fn beat(&mut self, to: &BeatLink, began: Instant) -> BeatOutcome {
        to.link.take_warning();
        let query = async {
            match &self.node {
                Some((name, incarnation)) => to.link.client.query_opt(&to.beat, &[name, incarnation]).await,
                None => to.link.client.query_opt(&to.beat, &[]).await,
            }
        };
        let row = match tokio::time::timeout(TIMEOUT, query).await {
            Ok(Ok(Some(row))) => row,
            // The statement of a command always returns a row.
            Ok(Ok(None)) => return if self.node.is_some() { BeatOutcome::Removed } else { BeatOutcome::Failed },
            Ok(Err(error)) => {
                tracing::warn!(%error, server = to.link.server, "a heartbeat failed");
                return BeatOutcome::Failed;
            }
            Err(_) => {
                tracing::warn!(server = to.link.server, "a heartbeat was not acknowledged in time");
                return BeatOutcome::Failed;
            }
        };
        let took = began.elapsed();
        // A cancelled wait for the standby proves nothing, and a replaced server may have old data.
        if to.link.take_warning() || !self.servers.is_current(&to.link) {
            return BeatOutcome::Failed;
        }
        let (Ok(counters), Ok(clock), Ok(nodes), Ok(format)) = (
            row.try_get::<_, Vec<i64>>(0),
            row.try_get::<_, f64>(1),
            row.try_get::<_, i64>(2),
            row.try_get::<_, Option<&[u8]>>(3),
        ) else {
            return BeatOutcome::Failed;
        };
        if counters.len() != Counter::COUNT {
            tracing::error!(rows = counters.len(), wanted = Counter::COUNT, "the table counter is damaged");
            return BeatOutcome::Failed;
        }
        // Increment the counters first. A reader that sees the new heartbeat must see the new
        // counters.
        self.advance_counters(counters);
        let at = clock - took.as_secs_f64() / 2.0;
        let clock_offset = self.wall_clock.map_or(0.0, |wall_clock| clock - (wall_clock() - took.as_secs_f64() / 2.0));
        self.last.record(began, nodes, clock_offset, took, format);
        self.observer.beat(&Heartbeat { seconds: took.as_secs_f64(), at, nodes: self.last.nodes(), clock_offset });
        BeatOutcome::Answered
    }

    /// Increments every counter that has changed since the last read.
    ///
    /// A counter may have decreased, because a server may lose increments that were not
    /// acknowledged.
    fn advance_counters(&mut self, counters: Vec<i64>) {
        let is_other = |slot: &usize| self.last_counters.get(*slot) != counters.get(*slot);
        let moves: Vec<Counter> = (0..Counter::COUNT).filter(is_other).filter_map(Counter::of_slot).collect();
        self.counters.advance(&moves);
        self.last_counters = counters;
    }
}

/// Connects, and sets whether heartbeats wait for the standby.
async fn connect(servers: &Servers, durability: BeatDurability) -> Result<Link, PostgresFault> {
    let link = servers.connect(LinkPurpose::Serve).await?;
    if durability == BeatDurability::Local {
        let set = link.client.batch_execute("SET synchronous_commit = local");
        within(TIMEOUT, PostgresFault::NotAcknowledged, set).await?;
    }
    Ok(link)
}
