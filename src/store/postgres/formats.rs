//! Format of a shared store, which all its nodes must be able to read.
//!
//! Entering the cluster and raising the format require the same lock. Therefore a node cannot enter
//! while the format is raised. A node that cannot read the current format does not enter, and the
//! format is never raised to a format that an entered node cannot read.

use std::time::Duration;

use serde::Serialize;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;

use super::PostgresFault;
use super::connect::{Link, LinkPurpose, Servers, fault_of};
use super::members::{ClusterMember, NODES, member};
use super::settings::{PostgresSettings, servers};
use crate::format;
use crate::format::FormatRange;

/// Timeout of a transaction. Its commit waits for the standby.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time without a heartbeat after which a node no longer prevents a new format.
///
/// A node that is restarted, moved or repaired within a day can still read the format. If it starts
/// later, it is refused. A node that was only partitioned stops serving at its next heartbeat.
const AWAY_FOR_LONG: Duration = Duration::from_hours(24);

/// Reads the format record, and whether the store has records.
const FORMAT: &str =
    "SELECT (SELECT value FROM record WHERE key = '\\x6d666f726d6174'::bytea), EXISTS (SELECT FROM record)";
/// Takes the lock in a separate statement, so that the next statement sees the writes of the
/// previous lock holder.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; \
     SELECT pg_advisory_xact_lock('record'::regclass::oid::integer, -2)";
const FIRST: &str = "INSERT INTO record (key, value) VALUES ('\\x6d666f726d6174'::bytea, $1)";
const RAISE: &str = "UPDATE record SET value = $1 WHERE key = '\\x6d666f726d6174'::bytea";
/// Enters a node under its name. The incarnation distinguishes the node's process from earlier
/// processes.
const ENTER: &str = "INSERT INTO node (name, incarnation, version, reads_from, reads_to) VALUES ($1, 1, $2, $3, $4) \
     ON CONFLICT (name) DO UPDATE SET incarnation = node.incarnation + 1, version = excluded.version, \
     reads_from = excluded.reads_from, reads_to = excluded.reads_to, \
     seen = clock_timestamp() WHERE NOT node.removed RETURNING incarnation";

pub(super) const UNREADABLE_FORMAT: &str = "the format version of the store in the database cannot be read";

/// Decodes the format record.
fn format_of(record: &[u8]) -> Result<u32, PostgresFault> {
    format::format_of(record).ok_or_else(|| PostgresFault::Format(UNREADABLE_FORMAT.to_owned()))
}

/// Reads the format of the store, and whether the store has records.
async fn read_format(client: &Client) -> Result<(Option<u32>, bool), PostgresFault> {
    let row = client.query_one(FORMAT, &[]).await.map_err(|error| fault_of(&error))?;
    let record: Option<Vec<u8>> = row.try_get(0).map_err(|error| fault_of(&error))?;
    let is_occupied = row.try_get(1).map_err(|error| fault_of(&error))?;
    Ok((record.as_deref().map(format_of).transpose()?, is_occupied))
}

/// Returns all nodes that have ever entered.
async fn nodes(client: &Client) -> Result<Vec<ClusterMember>, PostgresFault> {
    let rows = client.query(NODES, &[]).await.map_err(|error| fault_of(&error))?;
    rows.iter().map(member).collect::<Result<_, _>>().map_err(|error| fault_of(&error))
}

/// Returns whether this node must be able to read a new format.
fn must_read_format(node: &ClusterMember) -> bool {
    !node.removed && node.silent < AWAY_FOR_LONG.as_secs_f64()
}

/// Commits the transaction on this connection durably.
async fn commit(link: &Link) -> Result<(), PostgresFault> {
    link.take_warning();
    link.client.batch_execute("COMMIT").await.map_err(|error| fault_of(&error))?;
    if link.take_warning() { Err(PostgresFault::NotAcknowledged) } else { Ok(()) }
}

async fn in_time<T>(ended: impl Future<Output = Result<T, PostgresFault>>) -> Result<T, PostgresFault> {
    timeout(TIMEOUT, ended).await.unwrap_or(Err(PostgresFault::NotAcknowledged))
}

/// Enters the cluster and returns the incarnation of this process.
///
/// After an error, the connection must not be used again.
///
/// # Errors
/// `Format`, `Removed`, and errors of the connection.
pub(super) async fn enter(link: &Link, name: &str, formats: FormatRange) -> Result<i64, PostgresFault> {
    in_time(async {
        let client = &link.client;
        client.batch_execute(BEGIN).await.map_err(|error| fault_of(&error))?;
        let (format, _) = read_format(client).await?;
        if let Some(fault) = format.and_then(|format| formats.fault(format)) {
            return Err(PostgresFault::Format(fault));
        }
        let (from, to) = (number(formats.from), number(formats.to));
        let parameters: [&(dyn ToSql + Sync); 4] = [&name, &env!("CARGO_PKG_VERSION"), &from, &to];
        let row = client.query_opt(ENTER, &parameters).await.map_err(|error| fault_of(&error))?;
        let row = row.ok_or_else(|| PostgresFault::Removed(name.to_owned()))?;
        let incarnation = row.try_get(0).map_err(|error| fault_of(&error))?;
        commit(link).await.map(|()| incarnation)
    })
    .await
}

/// Sets the format of an empty store to the newest format that all nodes can read. The caller's
/// transaction must hold the lock.
///
/// Returns the new format, or the existing format if the store already has a format.
pub(super) async fn begin_within(client: &Client, formats: FormatRange) -> Result<u32, PostgresFault> {
    let format = match read_format(client).await? {
        (Some(format), _) => {
            return formats.fault(format).map_or(Ok(format), |fault| Err(PostgresFault::Format(fault)));
        }
        (None, true) => {
            let broken = "the store in the database has records, but no format version";
            return Err(PostgresFault::Format(broken.to_owned()));
        }
        (None, false) => newest_common(&nodes(client).await?).map_or(formats.to, |common| common.min(formats.to)),
    };
    if format < formats.from {
        return Err(PostgresFault::Format(format!(
            "a node of the cluster reads formats up to {format}, and this version writes {} and newer; \
             remove that node with `sealgate node remove` (`sealgate node list` shows it), or start the \
             previous version first",
            formats.from
        )));
    }
    let record = format::format_record(format);
    client.execute(FIRST, &[&record]).await.map_err(|error| fault_of(&error))?;
    Ok(format)
}

/// Sets the format of an empty store, in its own transaction.
pub(super) async fn begin(servers: &Servers, formats: FormatRange) -> Result<u32, PostgresFault> {
    in_time(async {
        let link = servers.connect(LinkPurpose::Serve).await?;
        link.client.batch_execute(BEGIN).await.map_err(|error| fault_of(&error))?;
        let format = begin_within(&link.client, formats).await?;
        commit(&link).await.map(|()| format)
    })
    .await
}

/// Returns the newest format that all relevant nodes can read. Returns `None` if there are no such
/// nodes.
fn newest_common(nodes: &[ClusterMember]) -> Option<u32> {
    nodes.iter().filter(|node| must_read_format(node)).map(|node| node.formats.to).min()
}

/// Result of raising the store's format.
#[derive(Debug, Clone, PartialEq)]
pub struct FormatRaise {
    /// Previous format of the store.
    pub from: u32,
    /// Current format of the store.
    pub to: u32,
    /// Newest format of this program.
    pub newest: u32,
    /// Nodes that cannot read the newest format.
    pub holding: Vec<ClusterMember>,
}

/// Raises the store's format to the newest format that this program and all nodes can read.
///
/// # Errors
/// `Format`, errors of the connection, and `NotAcknowledged` if the change may be lost.
pub async fn raise_format(settings: &PostgresSettings) -> Result<FormatRaise, PostgresFault> {
    let servers = Servers::new(servers(settings)?);
    in_time(async {
        let link = servers.connect(LinkPurpose::Serve).await?;
        link.client.batch_execute(BEGIN).await.map_err(|error| fault_of(&error))?;
        let (Some(from), _) = read_format(&link.client).await? else {
            let empty = "the store in the database is empty; the first node that starts sets its format";
            return Err(PostgresFault::Format(empty.to_owned()));
        };
        if let Some(fault) = settings.formats.fault(from) {
            return Err(PostgresFault::Format(fault));
        }
        let (nodes, newest) = (nodes(&link.client).await?, settings.formats.to);
        let to = newest_common(&nodes).map_or(newest, |common| common.min(newest)).max(from);
        let holding = nodes.into_iter().filter(|node| must_read_format(node) && node.formats.to < newest).collect();
        if to > from {
            let record = format::format_record(to);
            link.client.execute(RAISE, &[&record]).await.map_err(|error| fault_of(&error))?;
            commit(&link).await?;
        }
        Ok(FormatRaise { from, to, newest, holding })
    })
    .await
}

/// Formats of the store, of its nodes and of this program.
#[derive(Debug, Clone, Serialize)]
pub struct FormatSurvey {
    /// Format of the store. `None` if it has none.
    pub format: Option<u32>,
    /// First and last format that this program supports.
    pub reads_from: u32,
    pub reads_to: u32,
    /// Newest format that all nodes can read. `None` if there are no nodes.
    pub nodes_read_to: Option<u32>,
}

impl FormatSurvey {
    pub(super) async fn query(client: &Client, settings: &PostgresSettings) -> Result<Self, PostgresFault> {
        in_time(Self::query_unbounded(client, settings)).await
    }

    async fn query_unbounded(client: &Client, settings: &PostgresSettings) -> Result<Self, PostgresFault> {
        let (format, _) = read_format(client).await?;
        let FormatRange { from: reads_from, to: reads_to } = settings.formats;
        Ok(Self { format, reads_from, reads_to, nodes_read_to: newest_common(&nodes(client).await?) })
    }

    /// Returns the reason why this program cannot serve a store in this format.
    pub(super) fn fault(&self) -> Option<String> {
        FormatRange { from: self.reads_from, to: self.reads_to }.fault(self.format?)
    }

    /// Returns the format that the store can be raised to, or `None` if it has that format already.
    pub fn next(&self) -> Option<u32> {
        let next = self.nodes_read_to.map_or(self.reads_to, |most| most.min(self.reads_to));
        Some(next).filter(|next| self.format.is_some_and(|format| format < *next))
    }
}

fn number(format: u32) -> i32 {
    i32::try_from(format).unwrap_or(i32::MAX)
}
