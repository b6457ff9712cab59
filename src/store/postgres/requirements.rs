//! Requirements that a server must meet so that acknowledged data is durable.
//!
//! Also parses `synchronous_standby_names`: how many standbys a commit waits for, and how many are
//! listed.

use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use crate::postgres::PostgresFault;

/// Properties of the server. They are read for each connection, because settings of a role can
/// change without a restart.
pub(super) const FACTS: &str = "SELECT pg_is_in_recovery() AS recovery, \
     CASE WHEN NOT pg_is_in_recovery() THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END AS timeline, \
     current_setting('server_version_num') AS version, current_setting('server_version') AS version_name, \
     current_setting('fsync') AS fsync, current_setting('full_page_writes') AS full_page_writes, \
     current_setting('synchronous_commit') AS synchronous_commit, \
     current_setting('server_encoding') AS encoding, \
     ('x' || left(replace(gen_random_uuid()::text, '-', ''), 15))::bit(60)::bigint AS random";
pub(super) const VERSION: &str = "SELECT version() AS version";
/// The store's row, and one of its tables that is unlogged, if any. Revision 1 has no column
/// `revision`.
pub(super) const STORE: &str = "SELECT id, layout, coalesce(to_jsonb(store) ->> 'revision', '1') AS revision, (SELECT min(relname) FROM pg_class \
     WHERE oid IN ('record'::regclass, 'batch'::regclass, 'counter'::regclass, 'node'::regclass, 'guess'::regclass) \
     AND relpersistence <> 'p') AS unlogged FROM store";

/// Oldest supported version, PostgreSQL 14.
const MIN_VERSION: u32 = 140_000;
/// Layout of the tables that [`super::schema`] creates.
///
/// A program can use only tables of its own layout, and of its own or a newer revision. The
/// additions of a revision must not affect programs that do not know them.
pub(super) const LAYOUT: &str = "1";
pub(super) const REVISION: usize = ADDITIONS.len() + 1;

/// Statements that raise the tables from each revision to the next. May only be appended to.
///
/// Nodes of older versions are running at the same time. Therefore a new column needs a default,
/// and must not change the meaning of their statements. Each statement must be idempotent.
pub(super) const ADDITIONS: &[&str] = &[
    // Nodes report which formats of the store they support. A node without such a report supports
    // only format 7.
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
    /// Random number that the server has generated for this connection.
    pub(super) random: i64,
}

pub(super) fn first_row(answer: Vec<SimpleQueryMessage>) -> Option<SimpleQueryRow> {
    answer.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
}

/// Returns whether the product is PostgreSQL itself. Compatible products lack advisory locks, or
/// have different snapshots.
pub(super) fn is_postgresql(version: &str) -> bool {
    let others = ["CockroachDB", "-YB-", "Yugabyte", "Redshift", "Greenplum", "Materialize"];
    version.starts_with("PostgreSQL ") && !others.iter().any(|other| version.contains(other))
}

impl ServerFacts {
    pub(super) fn from_row(row: &SimpleQueryRow) -> Result<Self, PostgresFault> {
        let wrong = || PostgresFault::Refused("it returned an unexpected row".to_owned());
        let text = |name: &str| row.try_get(name).ok().flatten().map(str::to_owned);
        let word = |name: &str| text(name).ok_or_else(wrong);
        let is_standby = word("recovery")? == "t";
        let timeline = match text("timeline") {
            // The name of a WAL file begins with its timeline, as eight hexadecimal digits.
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
        if self.version < MIN_VERSION {
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
        // `off` acknowledges a commit before it is on disk, `local` before the standby has it.
        if matches!(self.synchronous_commit.as_str(), "off" | "local") {
            return careless("synchronous_commit", &self.synchronous_commit, "on");
        }
        if self.encoding != "UTF8" {
            return Err(PostgresFault::Encoding(self.encoding.clone()));
        }
        Ok(())
    }
}

/// Parsed `synchronous_standby_names`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StandbyRule {
    /// Number of standbys that must have a commit before it is acknowledged.
    pub(super) needed: usize,
    /// Number of listed names. `None` for `*`, which means any standby.
    listed_names: Option<usize>,
}

impl StandbyRule {
    /// Parses `[FIRST] N (a, b)`, `ANY N (a, b)` or `a, b`, as the server does.
    ///
    /// Returns `None` if commits do not wait for standbys.
    pub(super) fn parse(setting: &str) -> Option<Self> {
        let setting = setting.trim();
        if setting.is_empty() {
            return None;
        }
        let counted = setting.strip_suffix(')').and_then(|setting| setting.split_once('('));
        // A quotation mark before the parenthesis means that the parenthesis belongs to a name.
        let counted = counted.filter(|(before, _)| !before.contains('"')).and_then(|(before, names)| {
            let number = before.trim_start_matches(|char: char| char.is_ascii_alphabetic() || char.is_whitespace());
            Some((number.trim().parse().ok()?, names))
        });
        let (needed, names) = counted.unwrap_or((1, setting));
        Some(Self { needed, listed_names: count(names) })
    }

    /// Returns whether all commits would stop if one standby is lost.
    ///
    /// `there` is the number of listed standbys that currently replicate, if known.
    pub(super) fn has_no_spare(&self, there: Option<usize>) -> bool {
        self.listed_names.is_some_and(|names| names <= self.needed) || there.is_some_and(|there| there <= self.needed)
    }
}

fn count(names: &str) -> Option<usize> {
    let (mut is_quoted, mut names_seen) = (false, 1);
    let mut name = String::new();
    for char in names.chars() {
        match char {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => {
                if name.trim() == "*" {
                    return None;
                }
                names_seen += 1;
                name.clear();
            }
            char => name.push(char),
        }
    }
    (name.trim() != "*").then_some(names_seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> ServerFacts {
        let on = || "on".to_owned();
        ServerFacts {
            is_standby: false,
            timeline: 1,
            version: MIN_VERSION,
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

    fn rule(setting: &str) -> (usize, Option<usize>) {
        let rule = StandbyRule::parse(setting).unwrap();
        (rule.needed, rule.listed_names)
    }

    #[test]
    fn the_setting_is_read_as_the_server_reads_it() {
        assert_eq!(StandbyRule::parse(" "), None);
        assert_eq!(rule("a"), (1, Some(1)));
        assert_eq!(rule("a, b"), (1, Some(2)));
        assert_eq!(rule("*"), (1, None));
        assert_eq!(rule("2 (a, b, c)"), (2, Some(3)));
        assert_eq!(rule("FIRST 2 (a,b)"), (2, Some(2)));
        assert_eq!(rule("any 1(a, \"b, c\")"), (1, Some(2)));
        assert_eq!(rule("ANY 2 (*)"), (2, None));
        assert_eq!(rule("\"a (b)\""), (1, Some(1)));
    }

    #[test]
    fn a_standby_is_expendable_only_if_another_can_acknowledge() {
        let spare = |setting, there| !StandbyRule::parse(setting).unwrap().has_no_spare(there);
        assert!(!spare("a", None));
        assert!(!spare("a", Some(1)));
        assert!(spare("ANY 1 (a, b)", None));
        assert!(spare("ANY 1 (a, b)", Some(2)));
        assert!(!spare("ANY 1 (a, b)", Some(1)));
        assert!(!spare("FIRST 2 (a, b)", Some(2)));
        assert!(spare("*", Some(2)));
        assert!(!spare("*", Some(1)));
    }
}
