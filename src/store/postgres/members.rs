//! Nodes of a cluster, for commands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio_postgres::types::ToSql;

use super::PostgresFault;
use super::connect::{Link, LinkPurpose, Servers, fault_of, within};
use super::settings::{PostgresSettings, servers};
use crate::format::FormatRange;

/// Time without a heartbeat after which a node is assumed not to serve.
const AWAY: Duration = Duration::from_secs(5);
/// Timeout of a statement. Writes wait for the standby.
const TIMEOUT: Duration = Duration::from_secs(10);

pub(super) const NODES: &str = "SELECT name, version, incarnation, removed, \
     extract(epoch FROM clock_timestamp() - seen)::double precision, reads_from, reads_to FROM node ORDER BY name";
const REMOVE: &str = "UPDATE node SET removed = true WHERE name = $1";
const ADMIT: &str = "UPDATE node SET removed = false WHERE name = $1";

const NOW: &str = "SELECT clock_timestamp()::text";
/// Serving nodes, with the time of their last heartbeat, and whether it was after the time `$1`.
const BEATS: &str = "SELECT name, seen::text, seen > $1::text::timestamptz FROM node \
     WHERE NOT removed AND seen > clock_timestamp() - interval '5 s'";
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// Node that has entered the cluster at some time.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterMember {
    pub name: String,
    /// Version of the node's program.
    pub version: String,
    /// Number of processes that have entered under the node's name.
    pub incarnation: i64,
    pub removed: bool,
    /// Seconds since the node's last heartbeat.
    pub silent: f64,
    /// Store formats that the node supports.
    pub formats: FormatRange,
}

impl ClusterMember {
    /// Returns whether the node's last heartbeat is recent.
    pub fn is_heard_of(&self) -> bool {
        self.silent <= AWAY.as_secs_f64()
    }
}

/// Parses a row of [`NODES`].
pub(super) fn member(row: &tokio_postgres::Row) -> Result<ClusterMember, tokio_postgres::Error> {
    let format = |column| row.try_get::<_, i32>(column).map(|format| u32::try_from(format).unwrap_or_default());
    Ok(ClusterMember {
        name: row.try_get(0)?,
        version: row.try_get(1)?,
        incarnation: row.try_get(2)?,
        removed: row.try_get(3)?,
        silent: row.try_get(4)?,
        formats: FormatRange { from: format(5)?, to: format(6)? },
    })
}

async fn link(settings: &PostgresSettings) -> Result<Link, PostgresFault> {
    Servers::new(servers(settings)?).connect(LinkPurpose::Serve).await
}

/// Returns all nodes, sorted by name.
///
/// # Errors
/// Errors of the connection.
pub async fn members(settings: &PostgresSettings) -> Result<Vec<ClusterMember>, PostgresFault> {
    let link = link(settings).await?;
    let rows = within(TIMEOUT, PostgresFault::NotAcknowledged, link.client.query(NODES, &[])).await?;
    rows.iter().map(member).collect::<Result<_, _>>().map_err(|error| fault_of(&error))
}

/// Removes a node from the cluster, or admits it again. The node's next heartbeat detects the
/// change.
///
/// Returns false if there is no node with this name.
///
/// # Errors
/// Errors of the connection, and `NotAcknowledged` if the change may be lost.
pub async fn set_removed(settings: &PostgresSettings, name: &str, removed: bool) -> Result<bool, PostgresFault> {
    let link = link(settings).await?;
    link.take_warning();
    let parameters: [&(dyn ToSql + Sync); 1] = [&name];
    let changed = within(
        TIMEOUT,
        PostgresFault::NotAcknowledged,
        link.client.execute(if removed { REMOVE } else { ADMIT }, &parameters),
    )
    .await?;
    if link.take_warning() {
        return Err(PostgresFault::NotAcknowledged);
    }
    Ok(changed > 0)
}

/// Waits until each serving node has read all commits that were made before the call.
///
/// Does not wait for a node that has had no heartbeat for five seconds, because such a node does
/// not serve. Returns the nodes that stopped serving during the wait.
///
/// A heartbeat that starts after the call reads these commits, but its row in the database does not
/// prove that the node has received the answer. The next heartbeat of the same process proves that,
/// because the process sends it after it has received the answer.
///
/// # Errors
/// Errors of the connection.
pub async fn wait_for_beats(settings: &PostgresSettings) -> Result<BTreeSet<String>, PostgresFault> {
    let link = link(settings).await?;
    let text = |row: &tokio_postgres::Row, column| row.try_get::<_, String>(column).map_err(|error| fault_of(&error));
    let rows = within(TIMEOUT, PostgresFault::NotAcknowledged, link.client.query(NOW, &[])).await?;
    let started_at = text(rows.first().ok_or(PostgresFault::NotAcknowledged)?, 0)?;
    let (mut waited_for, mut first_beats, mut have_read) = (BTreeSet::new(), BTreeMap::new(), BTreeSet::new());
    // Terminates, because a node without a heartbeat for five seconds does not count as serving.
    loop {
        let mut serving = BTreeSet::new();
        let parameters: [&(dyn ToSql + Sync); 1] = [&started_at];
        for row in within(TIMEOUT, PostgresFault::NotAcknowledged, link.client.query(BEATS, &parameters)).await? {
            let (name, seen) = (text(&row, 0)?, text(&row, 1)?);
            if row.try_get(2).map_err(|error| fault_of(&error))? {
                let first: &String = first_beats.entry(name.clone()).or_insert_with(|| seen.clone());
                if *first != seen {
                    have_read.insert(name.clone());
                }
            }
            serving.insert(name);
        }
        waited_for.extend(serving.iter().cloned());
        if serving.is_subset(&have_read) {
            return Ok(waited_for.difference(&have_read).cloned().collect());
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}
