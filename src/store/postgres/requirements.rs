//! Requirements for a server, so that acknowledged data is durable.

use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::PostgresFault;

/// Properties of the server, read at each connection: a role's settings change without a restart.
pub(super) const FACTS: &str = "SELECT pg_is_in_recovery() AS recovery, \
     CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline, \
     current_setting('server_version_num') AS version, current_setting('server_version') AS version_name, \
     current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes, \
     current_setting('synchronous_commit') AS synchronous_commit, \
     current_setting('server_encoding') AS encoding, \
     ('x' || left(replace(gen_random_uuid()::text, '-', ''), 15))::bit(60)::bigint AS random";
pub(super) const VERSION: &str = "SELECT version() AS version";
/// The store, and any unlogged table of it. The first revision had no such column.
pub(super) const STORE: &str = "SELECT id, layout, coalesce(to_jsonb(store) ->> 'revision', '1') AS revision, (SELECT min(relname) FROM pg_class \
     WHERE oid IN ('record'::regclass, 'batch'::regclass, 'counter'::regclass, 'node'::regclass, 'guess'::regclass) \
     AND relpersistence <> 'p') AS unlogged FROM store";

/// The first version with all used features: 14.
const OLDEST: u32 = 140_000;
/// Layout that `schema` creates.
///
/// A program works only with tables of its layout, and of its own or a newer revision. A revision's
/// additions must not affect programs that do not know it.
pub(super) const LAYOUT: &str = "1";
pub(super) const REVISION: usize = ADDITIONS.len() + 1;

/// Statements that upgrade the tables from each revision to the next. Only ever append.
///
/// Nodes of older versions run meanwhile: a new column has a default, and no statement of theirs
/// may change its meaning. Each must be idempotent.
pub(super) const ADDITIONS: &[&str] = &[
    // Nodes report the store formats that they serve. Those that did not report them served one.
    "ALTER TABLE store ADD COLUMN IF NOT EXISTS revision integer NOT NULL DEFAULT 1; \
     ALTER TABLE node ADD COLUMN IF NOT EXISTS reads_from integer NOT NULL DEFAULT 7, \
     ADD COLUMN IF NOT EXISTS reads_to integer NOT NULL DEFAULT 7",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerFacts {
    pub(super) is_standby: bool,
    pub(super) timeline: u32,
    version: u32,
    version_name: String,
    fsync: String,
    full_page_writes: String,
    synchronous_commit: String,
    encoding: String,
    /// Random number from the server, per connection.
    pub(super) random: i64,
}

pub(super) fn first_row(answer: Vec<SimpleQueryMessage>) -> Option<SimpleQueryRow> {
    answer.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}

/// Only PostgreSQL itself has working advisory locks and the required snapshot semantics.
pub(super) fn is_postgresql(version: &str) -> bool {
    let others = ["CockroachDB", "-YB-", "Yugabyte", "Redshift", "Greenplum", "Materialize"];
    version.starts_with("PostgreSQL ") && !others.iter().any(|other| version.contains(other))
}

impl ServerFacts {
    pub(super) fn of(row: &SimpleQueryRow) -> Result<Self, PostgresFault> {
        let wrong = || PostgresFault::Refused("it returned an unexpected row".to_owned());
        let text = |name: &str| row.try_get(name).ok().flatten().map(str::to_owned);
        let word = |name: &str| text(name).ok_or_else(wrong);
        let is_standby = word("recovery")? == "t";
        let timeline = match text("timeline") {
            // The first eight hexadecimal digits of a WAL file's name.
            Some(timeline) => u32::from_str_radix(&timeline, 16).map_err(|_| wrong())?,
            None => 0,
        };
        Ok(Self {
            is_standby,
            timeline,
            version: word("version")?.parse().map_err(|_| wrong())?,
            version_name: word("version_name")?,
            fsync: word("fsync")?,
            full_page_writes: word("full_page_writes")?,
            synchronous_commit: word("synchronous_commit")?,
            encoding: word("encoding")?,
            random: word("random")?.parse().map_err(|_| wrong())?,
        })
    }

    pub(super) fn check(&self) -> Result<(), PostgresFault> {
        if self.version < OLDEST {
            return Err(PostgresFault::TooOld(self.version_name.clone()));
        }
        let careless =
            |setting, value: &str, wanted| Err(PostgresFault::Careless { setting, value: value.to_owned(), wanted });
        if self.fsync != "on" {
            return careless("fsync", &self.fsync, "on");
        }
        if self.full_page_writes != "on" {
            return careless("full_page_writes", &self.full_page_writes, "on");
        }
        // `off` acknowledges before the disk has the data, `local` before the standby has it.
        if matches!(self.synchronous_commit.as_str(), "off" | "local") {
            return careless("synchronous_commit", &self.synchronous_commit, "on");
        }
        if self.encoding != "UTF8" {
            return Err(PostgresFault::Encoding(self.encoding.clone()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> ServerFacts {
        let on = || "on".to_owned();
        ServerFacts {
            is_standby: false,
            timeline: 1,
            version: OLDEST,
            version_name: "14.0".to_owned(),
            fsync: on(),
            full_page_writes: on(),
            synchronous_commit: on(),
            encoding: "UTF8".to_owned(),
            random: 1,
        }
    }

    #[test]
    fn settings_that_lose_data_are_refused_by_name() {
        let refused = |facts: &ServerFacts| facts.check().unwrap_err().to_string();
        facts().check().unwrap();
        let off = || "off".to_owned();
        assert!(refused(&ServerFacts { fsync: off(), ..facts() }).contains("fsync is off"));
        assert!(refused(&ServerFacts { full_page_writes: off(), ..facts() }).contains("full_page_writes is off"));
        for value in ["off", "local"] {
            let facts = ServerFacts { synchronous_commit: value.to_owned(), ..facts() };
            assert!(refused(&facts).contains(&format!("synchronous_commit is {value}")));
        }
        for value in ["remote_write", "remote_apply"] {
            ServerFacts { synchronous_commit: value.to_owned(), ..facts() }.check().unwrap();
        }
        assert!(refused(&ServerFacts { encoding: "SQL_ASCII".to_owned(), ..facts() }).contains("SQL_ASCII"));
        let old = ServerFacts { version: 130_018, version_name: "13.18".to_owned(), ..facts() };
        assert!(refused(&old).contains("13.18 is too old"));
    }

    #[test]
    fn other_products_are_distinguished_from_postgresql() {
        assert!(is_postgresql("PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc"));
        assert!(!is_postgresql("CockroachDB CCL v25.2.1 (x86_64-pc-linux-gnu, built 2025/06/02, go1.23.7)"));
        assert!(!is_postgresql("PostgreSQL 15.12-YB-2025.1.0.0-b0 on x86_64-pc-linux-gnu"));
        assert!(!is_postgresql("PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC, Redshift 1.0.12103"));
    }
}
