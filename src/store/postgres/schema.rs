//! Tables of the store. A privileged role creates them once, so that serving needs no privilege to
//! create tables.

use std::time::{Duration, Instant};

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::PostgresFault;
use super::connect::{LinkPurpose, Servers, fault_of, jittered};
use super::requirements::{ADDITIONS, LAYOUT, REVISION};
use super::settings::{PostgresSettings, servers};

/// Begins a change of the schema. Nodes may be running.
///
/// A statement that waits for a table lock blocks all later statements on the table. Nodes tolerate
/// that only as long as their last heartbeat is valid. Therefore the lock timeout is short, and the
/// change is retried. Concurrent changes wait for each other.
const BEGIN: &str = "BEGIN; SET LOCAL lock_timeout = '300ms'; SELECT pg_advisory_xact_lock(1399153516, -1)";
/// Time for which the change is retried.
const TIMEOUT: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(500);

/// Whether all tables of revision 1 exist.
const IS_WHOLE: &str = "SELECT bool_and(to_regclass(name) IS NOT NULL) FROM unnest(ARRAY['store', 'record', 'batch', \
     'counter', 'node', 'guess', 'share']) AS t(name)";
const REVISIONS: &str = "SELECT layout, coalesce((to_jsonb(store) ->> 'revision')::integer, 1) FROM store";

/// Tables of revision 1.
///
/// Pages have free space, so that an updated record stays in its page and its index entry need not
/// change. Values are not compressed, because encrypted values are incompressible.
///
/// `guess` and `share` contain counts by hashed keys. `guess` counts failed guesses, and is as
/// durable as the records. `share` counts the requests of the current windows, and may be lost in a
/// crash.
const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS store (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    id uuid NOT NULL,
    layout integer NOT NULL
);
CREATE TABLE IF NOT EXISTS record (key bytea PRIMARY KEY, value bytea NOT NULL) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);
ALTER TABLE record ALTER COLUMN value SET STORAGE EXTERNAL;
CREATE TABLE IF NOT EXISTS batch (
    writer bigint NOT NULL,
    number bigint NOT NULL,
    refused smallint[] NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (writer, number)
) WITH (autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE IF NOT EXISTS counter (slot smallint PRIMARY KEY, n bigint NOT NULL DEFAULT 0) WITH (fillfactor = 20);
INSERT INTO counter (slot) SELECT generate_series(0, 258) ON CONFLICT DO NOTHING;
CREATE TABLE IF NOT EXISTS node (
    name text PRIMARY KEY,
    incarnation bigint NOT NULL,
    version text NOT NULL,
    seen timestamptz NOT NULL DEFAULT clock_timestamp(),
    removed boolean NOT NULL DEFAULT false
) WITH (fillfactor = 20);
CREATE TABLE IF NOT EXISTS guess (
    key bytea PRIMARY KEY,
    since bigint NOT NULL,
    next bigint NOT NULL,
    failures bigint NOT NULL,
    free bigint NOT NULL,
    forgets bigint NOT NULL,
    at_a_time bigint NOT NULL,
    until bigint NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX IF NOT EXISTS guess_until ON guess (until);
CREATE UNLOGGED TABLE IF NOT EXISTS share (
    ends bigint NOT NULL,
    key bytea NOT NULL,
    n integer NOT NULL,
    got integer NOT NULL,
    most integer NOT NULL,
    block integer NOT NULL,
    needed integer NOT NULL,
    PRIMARY KEY (ends, key)
) WITH (fillfactor = 70, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
INSERT INTO store (id, layout) VALUES (gen_random_uuid(), 1) ON CONFLICT DO NOTHING";

/// Creates missing tables, and upgrades tables of older revisions. Idempotent. Nodes may be
/// running.
///
/// # Errors
/// Returns an error if the database rejects the change, is unsuitable, or cannot be reached.
pub async fn initialise(settings: &PostgresSettings) -> Result<(), PostgresFault> {
    let link = Servers::new(servers(settings)?).connect(LinkPurpose::Initialise).await?;
    let started = Instant::now();
    loop {
        match make(&link.client).await {
            Ok(result) => return result,
            Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) && started.elapsed() < TIMEOUT => {
                link.client.batch_execute("ROLLBACK").await.map_err(|error| fault_of(&error))?;
                tokio::time::sleep(jittered(PAUSE)).await;
            }
            Err(error) => return Err(fault_of(&error)),
        }
    }
}

async fn make(client: &Client) -> Result<Result<(), PostgresFault>, Error> {
    client.batch_execute(BEGIN).await?;
    if !client.query_one(IS_WHOLE, &[]).await?.try_get::<_, bool>(0)? {
        client.batch_execute(SCHEMA).await?;
    }
    let row = client.query_one(REVISIONS, &[]).await?;
    let (layout, revision): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
    let revision = usize::try_from(revision).unwrap_or_default();
    let layout = layout.to_string();
    if layout != LAYOUT {
        return Ok(Err(PostgresFault::OtherLayout(layout)));
    }
    for addition in ADDITIONS.iter().skip(revision.max(1) - 1) {
        client.batch_execute(addition).await?;
    }
    if revision < REVISION {
        let revision = i32::try_from(REVISION).unwrap_or(i32::MAX);
        client.execute("UPDATE store SET revision = $1", &[&revision]).await?;
    }
    client.batch_execute("COMMIT").await.map(Ok)
}
