//! Address and settings of the database.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use rustls::ClientConfig;
use secrecy::{ExposeSecret, SecretString};
use tokio_postgres::config::{Host, SslMode};

use super::tls::TlsChoice;
use super::{PostgresFault, tls};
use crate::format::FormatRange;
use sealgate_config::{BeatDurability, ClusterConfig, Durability, PostgresConfig, read_longer_secret_file};

const DEFAULT_PORT: u16 = 5432;
/// Maximum length of the file with the URL, in bytes.
const MAX_URL_LENGTH: usize = 4096;

/// Settings of a store in PostgreSQL.
#[derive(Debug, Clone)]
pub struct PostgresSettings {
    /// `postgres://USER:PASSWORD@HOST[:PORT][,HOST…]/DATABASE`. All hosts are tried at once.
    pub url: SecretString,
    /// CA certificates of the servers. `None` is permitted only if all servers are on this machine.
    pub ca_file: Option<PathBuf>,
    /// Name of the node. It must be unique. `None` for a command, which is not a node.
    pub node: Option<String>,
    /// Store formats that this program supports.
    pub formats: FormatRange,
    /// Whether heartbeats wait for the standby.
    pub beat: BeatDurability,
    /// Maximum age of the heartbeat that a decision relies on.
    pub staleness: Duration,
    /// Returns the time of this machine in seconds since 1970, to compare it with the database's
    /// clock. `None` disables the comparison.
    pub wall_clock: Option<fn() -> f64>,
    /// Whether the operator accepts a database without a standby.
    pub durability: Durability,
    /// Number of connections that write.
    pub writers: usize,
    /// Maximum number of queued commits.
    pub queue: usize,
    /// Maximum time of a commit in the queue. After that, the database has the same time to
    /// complete the commit.
    pub commit_timeout: Duration,
    /// Maximum time that a request waits for counts of rate limits.
    pub count_timeout: Duration,
}

impl PostgresSettings {
    /// Returns the settings of a configuration. Reads the file that contains the URL.
    ///
    /// `cluster` is `None` for a command, which is not a node.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub fn from_config(config: &PostgresConfig, cluster: Option<&ClusterConfig>) -> Result<Self, PostgresFault> {
        let url = read_longer_secret_file(&config.url_file, "the database's URL", MAX_URL_LENGTH);
        let url = url.map_err(|cause| PostgresFault::UrlFile { path: config.url_file.clone(), cause })?;
        let new = Self::new(SecretString::from(url.as_str()));
        Ok(Self {
            ca_file: config.ca_file.clone(),
            node: cluster.map(|cluster| cluster.node.clone()),
            beat: cluster.map_or(new.beat, |cluster| cluster.beat),
            staleness: cluster.map_or(new.staleness, |cluster| Duration::from_millis(cluster.staleness_ms)),
            durability: config.durability,
            writers: config.writers,
            queue: config.queue,
            ..new
        })
    }

    /// Returns the settings of a command.
    pub fn new(url: SecretString) -> Self {
        Self {
            url,
            ca_file: None,
            node: None,
            formats: FormatRange::served(),
            beat: BeatDurability::Replicated,
            staleness: Duration::from_millis(900),
            wall_clock: None,
            durability: Durability::Standby,
            writers: 2,
            queue: 1024,
            commit_timeout: Duration::from_secs(10),
            count_timeout: Duration::from_millis(250),
        }
    }
}

/// Server in the URL, with all settings of a connection.
#[derive(Clone)]
pub(super) struct DatabaseServer {
    /// `HOST:PORT`, for logs.
    pub(super) name: String,
    pub(super) config: tokio_postgres::Config,
    pub(super) tls: TlsChoice,
}

impl fmt::Debug for DatabaseServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

/// Returns the servers in the URL of `settings`.
///
/// # Errors
/// `Url`, `Ca`, `Unprotected`. Their messages contain only hosts of the URL.
pub(super) fn servers(settings: &PostgresSettings) -> Result<Vec<DatabaseServer>, PostgresFault> {
    let url = settings.url.expose_secret().trim();
    if url.len() > MAX_URL_LENGTH {
        return Err(PostgresFault::Url("it is too long"));
    }
    // Discard the parser's error, because it may contain part of the URL.
    let client_config = tokio_postgres::Config::from_str(url).map_err(|_| PostgresFault::Url("it cannot be parsed"))?;
    if !client_config.get_hostaddrs().is_empty() {
        return Err(PostgresFault::Url("hostaddr is not supported; write the addresses as hosts"));
    }
    let hosts = client_config.get_hosts();
    if hosts.is_empty() {
        return Err(PostgresFault::Url("it has no host"));
    }
    let user = client_config.get_user().ok_or(PostgresFault::Url("it names no user"))?;
    let database = client_config.get_dbname().ok_or(PostgresFault::Url("it names no database"))?;
    let client = settings.ca_file.as_deref().map(tls::client_config).transpose()?;
    let mut servers = Vec::new();
    for (index, host) in hosts.iter().enumerate() {
        let Host::Tcp(host) = host else {
            return Err(PostgresFault::Url("it names a Unix socket; write 127.0.0.1"));
        };
        // As in libpq, a single port applies to all hosts.
        let ports = client_config.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(DEFAULT_PORT);
        let name = format!("{host}:{port}");
        let mut config = tokio_postgres::Config::new();
        config.host(host).port(port).user(user).dbname(database).application_name("sealgate");
        if let Some(password) = client_config.get_password() {
            config.password(password);
        }
        if let Some(options) = client_config.get_options() {
            config.options(options);
        }
        let tls = protection(host, client.as_ref(), &mut config)?;
        servers.push(DatabaseServer { name, config, tls });
    }
    Ok(servers)
}

/// Requires TLS even if the URL disables it, except for servers on this machine.
fn protection(
    host: &str,
    client: Option<&ClientConfig>,
    config: &mut tokio_postgres::Config,
) -> Result<TlsChoice, PostgresFault> {
    let Some(client) = client else {
        let here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if !here {
            return Err(PostgresFault::Unprotected { host: host.to_owned() });
        }
        config.ssl_mode(SslMode::Disable);
        return Ok(TlsChoice::none());
    };
    // The default would continue in plain text if the server has no TLS.
    config.ssl_mode(SslMode::Require);
    Ok(TlsChoice::new(client.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers_of(url: &str) -> Result<Vec<DatabaseServer>, PostgresFault> {
        servers(&PostgresSettings::new(url.into()))
    }

    #[test]
    fn each_host_has_its_port_or_the_only_one() {
        let names = |url| servers_of(url).unwrap().into_iter().map(|server| server.name).collect::<Vec<_>>();
        assert_eq!(names("postgres://s@127.0.0.1:1,localhost:2/d"), ["127.0.0.1:1", "localhost:2"]);
        assert_eq!(names("postgres://s@127.0.0.1/d"), ["127.0.0.1:5432"]);
    }

    #[test]
    fn no_other_machine_is_reached_without_tls() {
        for mode in ["", "?sslmode=disable", "?sslmode=prefer"] {
            let refused = servers_of(&format!("postgres://s:secret@127.0.0.1,db.example.org/d{mode}"));
            assert!(
                matches!(&refused, Err(PostgresFault::Unprotected { host }) if host == "db.example.org"),
                "{refused:?}"
            );
        }
    }

    #[test]
    fn a_fault_of_the_url_does_not_repeat_it() {
        for url in
            ["postgres://s:hunter2@h:port/d", "hunter2", "postgres://s:hunter2@/d", "host=/run user=hunter2 dbname=d"]
        {
            let message = servers_of(url).unwrap_err().to_string();
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
