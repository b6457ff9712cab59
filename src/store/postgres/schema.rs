//! The tables. Made once, by a role that may; whoever serves needs no right to make any.

use super::PostgresFault;
use super::connect::{LinkPurpose, Servers};
use super::settings::{PostgresSettings, servers};

/// Two at once wait for one another, so that the second finds what the first made. Room is left in each page: a record that
/// is written anew stays in it and the index is not touched. Values go uncompressed, since sealed ones do not compress.
///
/// `guess` and `share` hold counts by hashes of keys: failed guesses, which survive all that a record survives, and requests of a
/// window, which a crash may forget.
const SCHEMA: &str = "
BEGIN;
SELECT pg_advisory_xact_lock(1399153516, -1);
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
INSERT INTO store (id, layout) VALUES (gen_random_uuid(), 1) ON CONFLICT DO NOTHING;
COMMIT;";

/// Makes the tables that are not there yet. Once more is no fault.
///
/// # Errors
/// When the database refuses, is not to be used, or is not reached.
pub async fn initialise(settings: &PostgresSettings) -> Result<(), PostgresFault> {
    let link = Servers::new(servers(settings)?).connect(LinkPurpose::Initialise).await?;
    link.client.batch_execute(SCHEMA).await.map_err(|error| PostgresFault::Refused(error.to_string()))
}
