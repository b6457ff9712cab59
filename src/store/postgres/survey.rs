//! Diagnosis of a database, for `sealgate check` and for warnings at startup.

use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_postgres::Client;

use super::PostgresFault;
use super::batch::{BATCH_KEYS, STRIPES};
use super::beat::MAX_OFFSET;
use super::connect::{Link, LinkPurpose, Servers, within};
use super::formats::FormatSurvey;
use super::settings::{PostgresSettings, servers};
use crate::postgres::requirements::StandbyRule;
use sealgate_config::Durability;

/// Timeout of all queries together.
const TIMEOUT: Duration = Duration::from_secs(5);
const ROUND_TRIPS: usize = 20;

const SETUP: &str = "SELECT current_user::text, current_setting('server_version'), \
     current_setting('synchronous_standby_names'), pg_has_role(current_user, 'pg_read_all_stats', 'USAGE'), \
     current_setting('max_locks_per_transaction')::bigint, current_setting('max_connections')::bigint \
     + current_setting('max_prepared_transactions')::bigint, (SELECT count(*) FROM node WHERE NOT removed)";
/// Reads the standbys, without base backups. A role without privileges sees only their names.
const STANDBYS: &str = "SELECT application_name, host(client_addr), state, sync_state FROM pg_stat_replication \
     WHERE state IS DISTINCT FROM 'backup' ORDER BY application_name, pid";
/// Privileges that nodes and commands need on each table.
const RIGHTS: &str = "SELECT t.name, to_regclass(t.name) IS NOT NULL, \
     coalesce((SELECT string_agg(wanted, ', ') FROM unnest(string_to_array(t.rights, ' ')) AS r(wanted) \
         WHERE NOT has_table_privilege(to_regclass(t.name), wanted)), ''), \
     coalesce((SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass(t.name)), false), \
     quote_ident(current_user), \
     (SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = to_regclass('store')) \
     FROM (VALUES ('store', 'SELECT UPDATE'), ('record', 'SELECT INSERT UPDATE DELETE'), \
         ('batch', 'SELECT INSERT UPDATE DELETE'), ('counter', 'SELECT UPDATE'), ('node', 'SELECT INSERT UPDATE'), \
         ('guess', 'SELECT INSERT UPDATE DELETE'), ('share', 'SELECT INSERT UPDATE DELETE')) AS t(name, rights)";
const CLOCK: &str = "SELECT extract(epoch FROM clock_timestamp())::double precision";

/// Standby server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Standby {
    pub name: String,
    pub address: Option<String>,
    /// `streaming` if the standby keeps up. `None` if the role may not read it.
    pub state: Option<String>,
    /// `sync`, `quorum`, `potential` or `async`. `None` if the role may not read it.
    pub sync_state: Option<String>,
}

/// Setup of the database.
#[derive(Debug, Clone, Serialize)]
pub struct Setup {
    pub version: String,
    pub role: String,
    pub synchronous_standby_names: String,
    /// Whether the role may read the state of the standbys.
    pub sees_standbys: bool,
    pub standbys: Vec<Standby>,
    /// Number of nodes that have entered and were not removed, at least one.
    pub nodes: i64,
    /// Number of locks that the server can hold: `max_locks_per_transaction` for each connection.
    pub lock_slots: i64,
    /// Number of locks that the nodes can need at the same time.
    pub lock_slots_needed: i64,
    #[serde(skip)]
    connections: i64,
    #[serde(skip)]
    durability: Durability,
}

/// Diagnosis of a database.
#[derive(Debug, Clone, Serialize)]
pub struct Survey {
    /// `HOST:PORT` of the primary.
    pub host: String,
    pub timeline: u32,
    #[serde(flatten)]
    pub setup: Setup,
    #[serde(flatten)]
    pub formats: FormatSurvey,
    /// Whether the role owns a table, which is not necessary.
    pub owns_tables: bool,
    /// How far the database's clock is ahead of this machine's, in seconds. `None` if they were not
    /// compared.
    pub clock_offset_seconds: Option<f64>,
    /// Median of twenty round trips, in seconds.
    pub round_trip_seconds: f64,
}

impl Setup {
    pub(super) async fn query(client: &Client, settings: &PostgresSettings) -> Result<Self, PostgresFault> {
        with_timeout(Self::query_unbounded(client, settings)).await
    }

    async fn query_unbounded(client: &Client, settings: &PostgresSettings) -> Result<Self, tokio_postgres::Error> {
        let (row, standbys) = tokio::try_join!(client.query_one(SETUP, &[]), client.query(STANDBYS, &[]))?;
        let standby = |row: &tokio_postgres::Row| {
            Ok(Standby {
                name: row.try_get(0)?,
                address: row.try_get(1)?,
                state: row.try_get(2)?,
                sync_state: row.try_get(3)?,
            })
        };
        let (locks, connections): (i64, i64) = (row.try_get(4)?, row.try_get(5)?);
        let nodes = row.try_get::<_, i64>(6)?.max(1);
        let writers = i64::try_from(settings.writers.max(1)).unwrap_or(i64::MAX);
        let batch_keys = i64::try_from(BATCH_KEYS).unwrap_or(i64::MAX);
        Ok(Self {
            role: row.try_get(0)?,
            version: row.try_get(1)?,
            synchronous_standby_names: row.try_get(2)?,
            sees_standbys: row.try_get(3)?,
            standbys: standbys.iter().map(standby).collect::<Result<_, tokio_postgres::Error>>()?,
            nodes,
            lock_slots: locks.saturating_mul(connections),
            lock_slots_needed: i64::from(STRIPES)
                .saturating_add(batch_keys.saturating_mul(writers).saturating_mul(nodes)),
            connections,
            durability: settings.durability,
        })
    }

    /// Returns the number of standbys that can acknowledge commits, or `None` if the role may not
    /// read it.
    fn acknowledging(&self) -> Option<usize> {
        let acknowledges = |standby: &&Standby| {
            standby.state.as_deref() == Some("streaming")
                && matches!(standby.sync_state.as_deref(), Some("sync" | "quorum" | "potential"))
        };
        self.sees_standbys.then(|| self.standbys.iter().filter(acknowledges).count())
    }

    /// Returns the reason why commits are currently not acknowledged, if any.
    fn fault(&self) -> Option<String> {
        let rule = StandbyRule::parse(&self.synchronous_standby_names)?;
        let there = self.acknowledging().filter(|there| *there < rule.needed)?;
        Some(format!(
            "the database does not acknowledge commits: synchronous_standby_names ({}) requires {} standbys, \
             and {there} replicate; start the missing standby",
            self.synchronous_standby_names, rule.needed
        ))
    }

    /// Returns risks for later operation, each with the remedy.
    pub fn warnings(&self) -> Vec<String> {
        let standby = match StandbyRule::parse(&self.synchronous_standby_names) {
            None if self.durability == Durability::External => None,
            None => Some(
                "the database does not wait for a standby: if its disk fails, acknowledged commits are lost. \
                 Set up a standby and synchronous_standby_names (docs/how-to/cluster.md, What to set up), or \
                 write store.durability = \"external\" if replicated storage protects the database"
                    .to_owned(),
            ),
            Some(rule) if rule.has_no_spare(self.acknowledging()) => Some(format!(
                "every commit of the database waits for the same {} (synchronous_standby_names is {}): while \
                 one is down, sign-ins and gated requests fail. Add a second one, as in 'ANY 1 (a, b)'; this \
                 needs a manager that fences an old primary, such as Patroni (docs/how-to/cluster.md, What \
                 to set up)",
                if rule.needed == 1 { "standby".to_owned() } else { format!("{} standbys", rule.needed) },
                self.synchronous_standby_names
            )),
            Some(_) => None,
        };
        let locks = (self.lock_slots < self.lock_slots_needed).then(|| {
            format!(
                "the database has {} lock slots, and its nodes ({}) may need {}; set \
                 max_locks_per_transaction to {} or more and restart the database, or remove nodes that no \
                 longer exist (sealgate node remove)",
                self.lock_slots,
                self.nodes,
                self.lock_slots_needed,
                // Rounded up.
                (self.lock_slots_needed - 1) / self.connections.max(1) + 1
            )
        });
        standby.into_iter().chain(locks).collect()
    }
}

impl Survey {
    /// Returns errors that prevent operation.
    pub fn faults(&self) -> Vec<String> {
        let most = MAX_OFFSET.as_secs_f64() + self.round_trip_seconds;
        let clock = self.clock_offset_seconds.filter(|offset| offset.abs() > most).map(|offset| {
            format!("the database's clock differs by {:.0} ms from this machine's; set both by NTP", offset * 1000.0)
        });
        self.setup.fault().into_iter().chain(clock).chain(self.formats.fault()).collect()
    }
}

/// Diagnoses the database. Writes nothing.
///
/// # Errors
/// Errors of the connection, and `Rights`.
pub async fn survey(settings: &PostgresSettings) -> Result<Survey, PostgresFault> {
    let servers = Servers::new(servers(settings)?);
    // Do not read the tables on this connection, because the role may lack the privileges.
    let owns_tables = with_timeout(rights(&servers.connect(LinkPurpose::Initialise).await?)).await??;
    let link = servers.connect(LinkPurpose::Serve).await?;
    let setup = Setup::query(&link.client, settings).await?;
    let formats = FormatSurvey::query(&link.client, settings).await?;
    let (round_trip, clock_offset_seconds) = with_timeout(round_trips(&link.client, settings.wall_clock)).await?;
    Ok(Survey {
        host: link.server.clone(),
        timeline: link.timeline,
        setup,
        formats,
        owns_tables,
        clock_offset_seconds,
        round_trip_seconds: round_trip.as_secs_f64(),
    })
}

async fn with_timeout<T>(query: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, PostgresFault> {
    within(TIMEOUT, PostgresFault::Unreachable("it does not answer".to_owned()), query).await
}

/// Returns whether the role owns a table, or an error with its missing privileges.
async fn rights(link: &Link) -> Result<Result<bool, PostgresFault>, tokio_postgres::Error> {
    let (mut owns, mut lacks, mut role, mut schema) = (false, Vec::new(), String::new(), String::new());
    for row in link.client.query(RIGHTS, &[]).await? {
        if !row.try_get::<_, bool>(1)? {
            return Ok(Err(PostgresFault::NoStore));
        }
        let (table, missing): (String, String) = (row.try_get(0)?, row.try_get(2)?);
        if !missing.is_empty() {
            lacks.push(format!("{missing} on {table}"));
        }
        owns |= row.try_get::<_, bool>(3)?;
        (role, schema) = (row.try_get(4)?, row.try_get(5)?);
    }
    if lacks.is_empty() {
        return Ok(Ok(owns));
    }
    Ok(Err(PostgresFault::Rights { lacks: lacks.join("; "), role, schema }))
}

/// Returns the median round-trip time, and the clock offset as measured by the fastest round trip.
async fn round_trips(
    client: &Client,
    wall_clock: Option<fn() -> f64>,
) -> Result<(Duration, Option<f64>), tokio_postgres::Error> {
    let statement = client.prepare(CLOCK).await?;
    let mut trips = Vec::with_capacity(ROUND_TRIPS);
    for _ in 0..ROUND_TRIPS {
        let began = Instant::now();
        let clock: f64 = client.query_one(&statement, &[]).await?.try_get(0)?;
        let took = began.elapsed();
        trips.push((took, wall_clock.map(|wall_clock| clock - (wall_clock() - took.as_secs_f64() / 2.0))));
    }
    trips.sort_by_key(|(took, _)| *took);
    let median = trips.get(ROUND_TRIPS / 2).map(|(took, _)| *took).unwrap_or_default();
    Ok((median, trips.first().and_then(|(_, offset)| *offset)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survey(synchronous_standby_names: &str, clock_offset_seconds: f64) -> Survey {
        let setup = Setup {
            version: "16.4".to_owned(),
            role: "sealgate".to_owned(),
            synchronous_standby_names: synchronous_standby_names.to_owned(),
            sees_standbys: false,
            standbys: Vec::new(),
            nodes: 3,
            lock_slots: 7936,
            lock_slots_needed: 7936,
            connections: 124,
            durability: Durability::Standby,
        };
        Survey {
            host: "db-a:5432".to_owned(),
            timeline: 1,
            setup,
            formats: FormatSurvey { format: Some(7), reads_from: 7, reads_to: 7, nodes_read_to: Some(7) },
            owns_tables: false,
            clock_offset_seconds: Some(clock_offset_seconds),
            round_trip_seconds: 0.001,
        }
    }

    #[test]
    fn a_clock_difference_is_an_error_in_both_directions() {
        for (offset, said) in [(2.1, "differs by 2100 ms"), (-2.1, "differs by -2100 ms")] {
            let faults = survey("ANY 1 (a, b)", offset).faults();
            assert!(faults.len() == 1 && faults.iter().all(|fault| fault.contains(said)), "{faults:?}");
        }
        assert_eq!(survey("ANY 1 (a, b)", 1.9).faults(), Vec::<String>::new());
    }

    #[test]
    fn standbys_hidden_from_the_role_are_judged_by_the_setting() {
        let of = |names: &str| survey(names, 0.0);
        assert_eq!(of("ANY 1 (a, b)").setup.warnings(), Vec::<String>::new());
        assert_eq!(of("FIRST 2 (a, b)").setup.warnings().len(), 1);
        // The role may not read the state of the standbys, so this check cannot know that no
        // standby is connected.
        assert_eq!(of("a").faults(), Vec::<String>::new());
    }

    #[test]
    fn a_single_missing_lock_slot_causes_a_warning() {
        let mut setup = survey("ANY 1 (a, b)", 0.0).setup;
        setup.lock_slots -= 1;
        let warnings = setup.warnings();
        assert!(
            warnings.len() == 1 && warnings.iter().all(|warning| warning.contains("to 64 or more")),
            "{warnings:?}"
        );
    }
}
