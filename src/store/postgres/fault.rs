//! Errors of opening a store in PostgreSQL.

use std::path::PathBuf;

use crate::engine::EngineError;

/// Reason why a database cannot be used. Each message is one line that includes the remedy.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PostgresFault {
    /// The URL cannot be used. The message does not contain the URL, which has a password.
    #[error("the database's URL is not usable ({0}); write postgres://USER:PASSWORD@HOST/DATABASE into store.url_file")]
    Url(&'static str),
    #[error("store.url_file: {path} {cause}", path = .path.display())]
    UrlFile { path: PathBuf, cause: String },
    #[error("store.ca_file: {path} cannot be used ({cause})", path = .path.display())]
    Ca { path: PathBuf, cause: String },
    #[error("{host} is another machine, which requires TLS; set store.ca_file")]
    Unprotected { host: String },
    /// No server can be reached, or all reachable servers are standbys.
    #[error("no database server accepts writes: {0}")]
    Unreachable(String),
    #[error("{0} is not PostgreSQL and lacks functions that Sealgate needs; use PostgreSQL 14 or newer")]
    OtherProduct(String),
    #[error("PostgreSQL {0} is too old; use 14 or newer")]
    TooOld(String),
    /// With this setting of the server or the role, acknowledged data can be lost.
    #[error("the database could lose committed data: {setting} is {value}; set it to {wanted}")]
    Careless { setting: &'static str, value: String, wanted: &'static str },
    #[error("the database's encoding is {0}; create a database with ENCODING 'UTF8'")]
    Encoding(String),
    #[error("the database has no store; run: sealgate store init")]
    NoStore,
    #[error("the table {0} is UNLOGGED, and a crash would empty it; run: ALTER TABLE {0} SET LOGGED")]
    NotLogged(String),
    #[error(
        "the database's tables have layout {0}, which this version does not know; use the version of \
         sealgate that created them"
    )]
    OtherLayout(String),
    #[error(
        "the database's tables belong to an older version; run this version's `sealgate store init` as their \
         owner (running nodes are not interrupted)"
    )]
    OlderTables,
    /// This program does not support the format of the store, or the store has no format.
    #[error("{0}")]
    Format(String),
    /// The servers in the URL have different stores.
    #[error("the server has the store {id}, and this node uses the store {known}; correct the hosts in store.url_file")]
    OtherStore { id: String, known: String },
    /// The server was the primary before a failover.
    #[error("the server is on timeline {timeline}, and timeline {highest} exists: it is an old primary; stop it")]
    Behind { timeline: u32, highest: u32 },
    #[error(
        "the database's certificate is not trusted ({0}); it must name the host in the URL and be issued by \
         an authority in store.ca_file"
    )]
    Tls(String),
    #[error("the database refused: {0}")]
    Refused(String),
    /// Writes wait for a standby that does not respond, or the server hangs.
    #[error(
        "the database does not acknowledge commits; start its standby, or check pg_stat_replication and \
         synchronous_standby_names"
    )]
    NotAcknowledged,
    #[error("the node {0} was removed from the cluster; choose another cluster.node, or run: sealgate node admit {0}")]
    Removed(String),
    /// The clocks differ too much, or another process uses the node's name.
    #[error("{0}")]
    Stale(String),
    /// The role lacks privileges that the statements need.
    #[error(
        "the database's role {role} lacks {lacks}; run as the tables' owner: \
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}"
    )]
    Rights { role: String, lacks: String, schema: String },
    #[error("the threads of the store cannot be started: {0}")]
    Threads(String),
}

impl PostgresFault {
    pub(super) fn into_engine_error(self) -> EngineError {
        match self {
            Self::Format(cause) => EngineError::Stale(cause),
            other => EngineError::Unavailable(other.to_string()),
        }
    }

    /// Returns whether a retry may succeed without intervention, for instance while a server
    /// starts, during a failover, or before NTP has set the clock.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Behind { .. } | Self::NotAcknowledged | Self::Stale(_))
    }
}
